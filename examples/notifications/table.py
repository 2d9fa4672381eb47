"""The log of the first policy as a company might have it: two CSV files.

decisions.csv has a line for each decision. rewards.csv has what came of it later:
clicks, prices and activity. What is learned from them is asked by names of columns.
"""

from __future__ import annotations

import csv
import datetime
import pathlib
from typing import Any

import numpy as np

from examples.notifications import dynamics, simulator

KINDS = ("news", "offer", "message", "mention")  # classes of notifications
NUMBERS = {"score": 0, "fatigue": 2, "hours": 3, "age": 5, "minutes": 6}
_START = datetime.datetime(2026, 1, 1)


def write(folder: str | pathlib.Path, users: int, seed: int) -> np.ndarray:
    """Let the first policy decide about users, write the files, and return returns."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with (
        (folder / "decisions.csv").open("w", newline="") as one,
        (folder / "rewards.csv").open("w", newline="") as other,
    ):
        columns = ("user", "time", *NUMBERS, "kind", "device", "action", "p", "left")
        decisions = csv.DictWriter(one, columns, lineterminator="\n")
        rewards = csv.writer(other, lineterminator="\n")
        decisions.writeheader()
        rewards.writerow(("user", "time", "amount"))

        def report(decided: simulator.Decided) -> None:
            time = _START + datetime.timedelta(days=decided.step)
            later = time + datetime.timedelta(hours=5)
            for i, user in enumerate(named(decided.features)):
                user |= {"user": decided.names[i], "time": time.isoformat()}
                user["action"] = dynamics.ACTIONS[int(decided.send[i])]
                user["p"] = decided.probability[i]
                decisions.writerow(user | {"left": decided.after.left[i]})
                if amount := decided.after.reward[i]:
                    rewards.writerow((decided.names[i], later.isoformat(), amount))

        decide = simulator.logging_policy(seed)
        return simulator.play(decide, users, seed, report)


def named(features: np.ndarray) -> list[dict[str, Any]]:
    """Return what is observed of users, ``[n, 7]``, by the names of the columns."""
    score, rate = features[:, 0], features[:, 1]
    interest = np.abs(score - simulator.SCORES[:, None]).argmin(0)
    kinds = np.abs(rate - dynamics.predicted_rate(interest, np.c_[:4])).argmin(0)
    found = []
    for user, kind in zip(features, kinds, strict=True):
        known = {k: float(user[i]) for k, i in NUMBERS.items() if not np.isnan(user[i])}
        device = "phone" if user[4] else "computer"
        found.append(known | {"kind": KINDS[kind], "device": device})
    return found
