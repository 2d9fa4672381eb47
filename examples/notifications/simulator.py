"""Users, as a batch that is logged and as an environment of Gymnasium.

What is observed of a user mixes all types of features. With the dynamics, it tells
nearly everything that decides about the future of a user.
"""

from __future__ import annotations

from collections.abc import Callable

import gymnasium
import numpy as np

from examples.notifications import dynamics
from tfagents_batch.offline.writer import RowLogger

FEATURES = {  # ids of rows, and positions in an observation
    0: "interest, with noise",
    1: "predicted click rate",
    2: "fatigue",
    3: "hours since the last notification",
    4: "on a phone",
    5: "age; half of the users do not tell it",
    6: "minutes in the app, which are heavy-tailed",
}
# From the names of users, the step, and features [n, 7] (NaN: missing): bool [n], who
# gets the notification, and f64 [n], the probability of this decision.
Decide = Callable[[list[str], int, np.ndarray], tuple[np.ndarray, np.ndarray]]


def observe(interest, fatigue, kind, rng) -> np.ndarray:
    """Return features ``[n, 7]``, with NaN for missing ones; arguments are ``[n]``."""
    n = len(interest)
    columns = (
        interest + rng.normal(0, 0.25, n),
        dynamics.predicted_rate(interest, kind),
        fatigue,
        rng.exponential(24 / (1 + fatigue)),
        rng.random(n) < 0.6,
        np.where(rng.random(n) < 0.5, np.nan, _ages(n, rng)),
        (1 + interest) * rng.lognormal(0, 1.5, n),
    )
    return np.stack(columns, -1).astype(np.float32)


def _ages(n, rng) -> np.ndarray:
    """Return ages of two groups."""
    return np.where(rng.random(n) < 0.5, rng.normal(22, 3, n), rng.normal(60, 5, n))


def new(count: int, rng) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return interest, fatigue and class of new users, each ``[count]``."""
    interest = rng.choice(3, count, p=dynamics.START)
    return interest, np.zeros(count, int), rng.choice(4, count, p=dynamics.CLASSES)


def play(decide: Decide, users: int, seed: int, logger: RowLogger | None = None):
    """Let a policy decide about users until all have left.

    Args:
      decide: the policy.
      users: number of users.
      seed: seed of the users.
      logger: where decisions are logged as rows.

    Returns:
      f64 ``[users]``: discounted returns.
    """
    rng = np.random.default_rng(seed)
    here, returns, step = np.arange(users), np.zeros(users), 0
    core = new(users, rng)
    while len(here):
        features = observe(*core, rng)
        names = [f"{seed}-{user}" for user in here]
        send, probability = decide(names, step, features)
        after = dynamics.step(*core, send, rng)
        returns[here] += dynamics.GAMMA**step * after.reward
        if logger:
            logger.log(*_rows(names, step, features, send, probability, core, after))
        here, step = here[~after.left], step + 1
        kinds = rng.choice(4, len(here), p=dynamics.CLASSES)
        core = after.interest[~after.left], after.fatigue[~after.left], kinds
    return returns


def logging_policy(seed: int) -> Decide:
    """Return the policy of the first log, which looks at the predicted rate only."""
    rng = np.random.default_rng([seed, 1])

    def decide(names, step, features):
        probability = dynamics.logging_probability(features[:, 1].astype(np.float64))
        send = rng.random(len(names)) < probability
        return send, np.where(send, probability, 1 - probability)

    return decide


def as_map(features: np.ndarray) -> dict[int, float]:
    """Return the features of a user by id, without those that are missing."""
    return {k: float(x) for k, x in enumerate(features) if not np.isnan(x)}


def _rows(names, step, features, send, probability, core, after):
    """Yield the rows of a step, one for each user."""
    activity = dynamics.ACTIVITY[core[0]]
    for i, name in enumerate(names):
        yield {
            "ds": "2026-01-01",
            "mdp_id": name,
            "sequence_number": step,
            "state_features": as_map(features[i]),
            "action": dynamics.ACTIONS[int(send[i])],
            "action_probability": float(probability[i]),
            "reward": float(after.reward[i]),
            "possible_actions": list(dynamics.ACTIONS),
            "metrics": {
                "click": float(after.clicked[i]),
                "send": float(send[i]),
                "activity": float(activity[i]),
            },
            "terminated": bool(after.left[i]),
        }


class Notifications(gymnasium.Env):
    """One user. Observation: f32 ``[7]``, see ``FEATURES``; a missing age is 0.

    Action 1 sends the notification, 0 drops it. The episode ends when the user leaves.
    """

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, [len(FEATURES)])
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        """Start with a new user."""
        super().reset(seed=seed)
        self._core = new(1, self.np_random)
        return self._observation(), {}

    def step(self, action):
        """Send or drop; the reward is click - 0.05 for sending, and activity."""
        send = np.array([bool(action)])
        after = dynamics.step(*self._core, send, self.np_random)
        kind = self.np_random.choice(4, 1, p=dynamics.CLASSES)
        self._core = after.interest, after.fatigue, kind
        reward, left = float(after.reward[0]), bool(after.left[0])
        return self._observation(), reward, left, False, {}

    def _observation(self) -> np.ndarray:
        return np.nan_to_num(observe(*self._core, self.np_random)[0])
