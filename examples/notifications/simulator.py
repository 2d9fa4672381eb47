"""Users, as a batch that a policy decides about and as an environment of Gymnasium.

What is observed of a user has all types of features. It tells everything that the
future of the user depends on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from examples.notifications import dynamics

FEATURES = {  # ids in rows, and positions in an observation
    0: "score of interest, with noise",
    1: "predicted click rate",
    2: "fatigue",
    3: "hours since the last notification",
    4: "on a phone",
    5: "age, which half of the users do not tell",
    6: "minutes in the app, which are heavy-tailed",
}
SCORES = np.array([0.0, 1.0, 2.2])  # of interests


class Decided(NamedTuple):
    """Decisions about n users in a step, and their outcome.

    Attributes:
      names: names of the users.
      step: number of the step, the same for all.
      features: f32 ``[n, 7]``, NaN for missing ones.
      send: bool ``[n]``, who got the notification.
      probability: f64 ``[n]``, of this decision.
      interest: ``[n]``, before the decision.
      after: what happened then.
    """

    names: list[str]
    step: int
    features: np.ndarray
    send: np.ndarray
    probability: np.ndarray
    interest: np.ndarray
    after: dynamics.After

    def metrics(self) -> Iterator[dict[str, float]]:
        """Yield the parts of the reward of each user."""
        activity = dynamics.ACTIVITY[self.interest]
        columns = {"click": self.after.clicked, "send": self.send, "activity": activity}
        for i in range(len(self.names)):
            yield {name: float(column[i]) for name, column in columns.items()}


# From names, step and features to ``send`` and ``probability``, see above.
Decide = Callable[[list[str], int, np.ndarray], tuple[np.ndarray, np.ndarray]]


def play(
    decide: Decide,
    users: int,
    seed: int,
    report: Callable[[Decided], Any] = lambda decided: None,
) -> np.ndarray:
    """Let a policy decide about users until all have left.

    Args:
      decide: the policy.
      users: number of users.
      seed: seed of the users.
      report: gets the decisions and outcomes of each step.

    Returns:
      f64 ``[users]``: discounted returns.
    """
    rng = np.random.default_rng(seed)
    here, returns, step = np.arange(users), np.zeros(users), 0
    core = new_users(users, rng)
    while len(here):
        names, features = [f"{seed}-{user}" for user in here], observe(*core, rng)
        send, probability = decide(names, step, features)
        after = dynamics.step(*core, send, rng)
        returns[here] += dynamics.GAMMA**step * after.reward
        report(Decided(names, step, features, send, probability, core[0], after))
        here, step = here[~after.left], step + 1
        kind = rng.choice(4, len(here), p=dynamics.CLASSES)
        core = after.interest[~after.left], after.fatigue[~after.left], kind
    return returns


def new_users(count: int, rng) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return interest, fatigue and class of new users, each ``[count]``."""
    interest = rng.choice(3, count, p=dynamics.START)
    return interest, np.zeros(count, int), rng.choice(4, count, p=dynamics.CLASSES)


def observe(interest, fatigue, kind, rng) -> np.ndarray:
    """Return features ``[n, 7]``, NaN for missing ones; arguments are ``[n]``."""
    n = len(interest)
    age = np.where(rng.random(n) < 0.5, rng.normal(22, 3, n), rng.normal(60, 5, n))
    columns = (
        SCORES[interest] + rng.normal(0, 0.15, n),
        dynamics.predicted_rate(interest, kind),
        fatigue,
        rng.exponential(24 / (1 + fatigue)),
        rng.random(n) < 0.6,
        np.where(rng.random(n) < 0.5, np.nan, age),
        (1 + interest) * rng.lognormal(0, 1.5, n),
    )
    return np.stack(columns, -1).astype(np.float32)


def logging_policy(seed: int) -> Decide:
    """Return the policy of the first log, which only looks at the predicted rate."""
    rng = np.random.default_rng([seed, 1])

    def decide(names, step, features):
        probability = dynamics.logging_probability(features[:, 1].astype(np.float64))
        send = rng.random(len(names)) < probability
        return send, np.where(send, probability, 1 - probability)

    return decide


def rows(decided: Decided) -> Iterator[dict[str, Any]]:
    """Yield a row for each decision, for ``RowLogger``."""
    names, step, features, send, probability, _, after = decided
    for i, metrics in enumerate(decided.metrics()):
        yield {
            "ds": "2026-01-01",
            "mdp_id": names[i],
            "sequence_number": step,
            "state_features": by_id(features[i]),
            "action": dynamics.ACTIONS[int(send[i])],
            "action_probability": float(probability[i]),
            "reward": float(after.reward[i]),
            "possible_actions": list(dynamics.ACTIONS),
            "metrics": metrics,
            "terminated": bool(after.left[i]),
        }


def by_id(features: np.ndarray) -> dict[int, float]:
    """Return the features of a user by id, without those that are missing."""
    return {k: float(x) for k, x in enumerate(features) if not np.isnan(x)}


class Notifications(gymnasium.Env):
    """One user. Observation: f32 ``[7]``, see ``FEATURES``; a missing age is 0.

    Action 1 sends the notification, 0 drops it. The episode ends when the user leaves.
    """

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, [len(FEATURES)])
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        """Start with a new user."""
        super().reset(seed=seed)
        self._core = new_users(1, self.np_random)
        return self._observation(), {}

    def step(self, action):
        """Send or drop; the reward is that of a click, minus a price, and activity."""
        after = dynamics.step(*self._core, np.array([bool(action)]), self.np_random)
        kind = self.np_random.choice(4, 1, p=dynamics.CLASSES)
        self._core = after.interest, after.fatigue, kind
        reward, left = float(after.reward[0]), bool(after.left[0])
        return self._observation(), reward, left, False, {}

    def _observation(self) -> np.ndarray:
        return np.nan_to_num(observe(*self._core, self.np_random)[0])
