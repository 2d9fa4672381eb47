"""Logs of policies in the gridworld, whose values are known exactly."""

from __future__ import annotations

import functools

import numpy as np

from tests.learning import gridworld
from tfagents_batch.offline import table_reader
from tfagents_batch.offline.reader import open_rows
from tfagents_batch.offline.timeline import TimelineConfig, build

# Moves of the reference policy: down and right around the walls.
_MOVES = {"L": 0, "R": 1, "U": 2, "D": 3}
_REFERENCE = "DDRDD" + 3 * "DD#DD" + "RRRR#"
# Exploration of the log and of the evaluated policy, rows of the table.
CASES = (
    (1, 0.05),
    (0.8, 0.2),
    (0.6, 0.4),
    (0.5, 0.5),
    (0.4, 0.6),
    (0.2, 0.8),
    (0.05, 1),
)


def policy(epsilon: float) -> np.ndarray:
    """Return the reference policy with exploration, f64 ``[25, 4]``."""
    best = np.zeros([gridworld.CELLS, gridworld.ACTIONS])
    for cell, move in enumerate(_REFERENCE):
        if move in _MOVES:
            best[cell, _MOVES[move]] = 1
    return epsilon * gridworld.uniform() + (1 - epsilon) * best


def value(evaluated: np.ndarray) -> float:
    """Return the exact value of the start."""
    return float(evaluated[0] @ gridworld.action_values(evaluated)[0])


def log(logging: np.ndarray, rows: int, seed: int) -> dict[str, np.ndarray]:
    """Return columns of whole episodes, of about ``rows`` rows."""
    random = np.random.default_rng(seed).random([rows, 2])
    chances = gridworld.chances().cumsum(-1)
    decided = logging.cumsum(-1)
    found, cell, episode = [], 0, 0
    for u, v in random:
        action = min(int((u > decided[cell]).sum()), 3)
        after = min(int((v > chances[cell, action]).sum()), gridworld.GOAL)
        end = after == gridworld.GOAL
        found.append((episode, cell, action, after, end))
        cell, episode = (0, episode + 1) if end else (after, episode)
    columns = np.array(found).T
    columns = columns[:, columns[0] < episode]
    names = "episode", "cell", "action", "after", "end"
    return dict(zip(names, columns, strict=True))


def table(folder, logging, rows: int, seed: int, propensities=True, **settings):
    """Write a timeline of a log, all of it for evaluation, and return its partition.

    Args:
      folder: folder of the table.
      logging: policy of the log, f64 ``[25, 4]``.
      rows, seed: see ``log``.
      propensities: whether they are logged.
      **settings: further settings of the timeline.
    """
    columns = log(logging, rows, seed)
    names = [[str(a) for a in np.flatnonzero(x)] for x in gridworld.POSSIBLE]
    logged = [
        {
            "ds": "2026-01-01",
            "mdp_id": f"{seed}-{episode}",
            "sequence_number": i,
            "state_features": {int(cell): 1.0},
            "action": str(action),
            "action_probability": logging[cell, action] if propensities else None,
            "reward": float(end),
            "possible_actions": names[cell],
            "terminated": bool(end),
        }
        for i, (episode, cell, action, _, end) in enumerate(
            zip(*columns.values(), strict=True)
        )
    ]
    given = {"gamma": gridworld.GAMMA, "train_share": 0.0, "eval_share": 1.0}
    with open_rows(logged) as opened:
        config = TimelineConfig(**given | settings)
        build(opened, opened.find_schema(), config, str(folder))
    return table_reader.partition(folder)


class Policy:
    """Policy of a table of probabilities, an ``evaluate.Candidate``."""

    name = "grid"

    def __init__(self, evaluated: np.ndarray, features):
        self._rows = functools.partial(np.take, evaluated[list(features)], axis=0)

    def probabilities(self, columns, part):
        state = np.nan_to_num(columns[f"{part}state"])
        return self._rows(state.argmax(-1))
