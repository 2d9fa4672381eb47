"""Customers of a shop, who get a letter a week, and the two tables of its log."""

from __future__ import annotations

import csv
import datetime
import http.client
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

GAMMA = 0.9
LETTERS = "none", "coupon", "gift"
COUNTRIES = "DE", "FR", "US"
# Probability of a purchase by country and letter, and what it is worth.
RATE = np.array([[0.10, 0.35, 0.15], [0.10, 0.15, 0.35], [0.30, 0.32, 0.32]])
WORTH = np.array([20.0, 15.0, 14.0])
TIRED = 0.75  # factor of the rate for each coupon or gift before
STAY = 0.75  # probability of another week
WEEKS = 4
START = datetime.datetime(2026, 1, 1)

Json = dict[str, Any]
# From names, week and observations to numbers of letters and their probabilities.
Choose = Callable[[list[str], int, list[Json]], tuple[np.ndarray, np.ndarray]]
# Of names, week, observations, letters, probabilities, worth and who has left.
Report = Callable[..., None]


def play(choose: Choose, report: Report, customers: int, seed: int) -> np.ndarray:
    """Send letters to customers for some weeks; return discounted returns."""
    rng = np.random.default_rng(seed)
    country = rng.choice(3, customers, p=[0.5, 0.3, 0.2])
    phone, age = rng.random(customers) < 0.6, rng.integers(18, 80, customers)
    told = rng.random((2, customers)) < [[0.5], [0.95]]  # age and device
    letters = np.zeros(customers, int)
    returns, here = np.zeros(customers), np.arange(customers)
    for week in range(WEEKS):
        known: list[Json] = [
            {"country": COUNTRIES[country[i]], "letters": int(letters[i])}
            | ({"age": int(age[i])} if told[0, i] else {})
            | ({"device": "phone" if phone[i] else "computer"} if told[1, i] else {})
            for i in here
        ]
        names = [f"{seed}-{i:06}" for i in here]
        letter, probability = choose(names, week, known)
        buys = rng.random(len(here)) < (
            RATE[country[here], letter] * TIRED ** letters[here]
        )
        left = (rng.random(len(here)) > STAY) | (week == WEEKS - 1)
        worth = WORTH[letter] * buys
        returns[here] += GAMMA**week * worth
        letters[here] += letter > 0
        report(names, week, known, letter, probability, worth, left)
        here = here[~left]
    return returns


def log(folder: Path, customers: int, seed: int) -> np.ndarray:
    """Write the files of letters that were chosen at random; return returns."""
    rng = np.random.default_rng([seed, 1])
    columns = "country", "device", "age", "letters"
    with (
        (folder / "decisions.csv").open("w", newline="") as one,
        (folder / "purchases.csv").open("w", newline="") as other,
    ):
        decisions, purchases = csv.writer(one), csv.writer(other)
        decisions.writerow(("customer", "time", *columns, "letter", "p", "left"))
        purchases.writerow(("customer", "time", "worth"))

        def choose(names, week, known):
            return rng.integers(3, size=len(names)), np.full(len(names), 1 / 3)

        def report(names, week, known, letter, probability, worth, left):
            for i, name in enumerate(names):
                days = 7 * week + int(name.rpartition("-")[2]) % 60
                time = START + datetime.timedelta(days)
                own = [known[i].get(x, "NULL") for x in columns]
                end = LETTERS[letter[i]], probability[i], left[i]
                decisions.writerow((name, time, *own, *end))
                if worth[i]:
                    later = time + datetime.timedelta(hours=int(rng.integers(1, 160)))
                    purchases.writerow((name, later, worth[i]))

        return play(choose, report, customers, seed)


class Server:
    """Server that chooses letters, see ``play``; ``post`` sends it a request."""

    def __init__(self, post: Callable[[str, Json], Json]):
        self._post, self._requests = post, []

    def choose(self, names, week, known):
        """Ask for the letters of customers."""
        answers = []
        for first in range(0, len(names), 64):
            part = slice(first, first + 64)
            asked = {"observations": known[part], "mdp_id": names[part]}
            answers += self._post("/v1/act", asked)["decisions"]
        self._requests = [x["request_id"] for x in answers]
        letters = [LETTERS.index(x["action_name"]) for x in answers]
        return np.array(letters), np.array([x["propensity"] for x in answers])

    def report(self, names, week, known, letter, probability, worth, left):
        """Tell what was bought, and who has left."""
        for i, request in enumerate(self._requests):
            told = {"request_id": request, "reward": float(worth[i])}
            told["terminated"] = bool(left[i])
            self._post("/v1/feedback", told)


def connected(address: str) -> Callable[[str, Json], Json]:
    """Return a function that sends requests to a server of ``tfagents-batch serve``."""
    connection = http.client.HTTPConnection(address, timeout=30)

    def post(path, body):
        connection.request("POST", path, json.dumps(body))
        response = connection.getresponse()
        answer = json.loads(response.read())
        if response.status >= 300:
            raise RuntimeError(f"{path} answered {response.status}: {answer}")
        return answer

    return post
