"""Rows of a Minari dataset (Younis et al. 2024, https://minari.farama.org)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from gymnasium import spaces

from tfagents_batch.errors import UserError
from tfagents_batch.offline.schema import Mode

PREFIX = "minari:"


def load(name: str) -> Any:
    """Return a dataset that was downloaded before.

    Raises:
      UserError: if Minari is not installed, or has no such dataset on this machine.
    """
    try:
        import minari
    except ImportError as error:
        raise UserError(
            f"Minari is not installed, and {PREFIX}{name} needs it; pip install minari"
        ) from error
    try:
        return minari.load_dataset(name)
    except (FileNotFoundError, ValueError) as error:
        raise UserError(
            f"Minari cannot load {name!r}: {error}; `minari download {name}` fetches it"
        ) from error


def is_dataset(data: Any) -> bool:
    """Return whether an object has the interface of ``minari.MinariDataset``."""
    return hasattr(data, "iterate_episodes") and hasattr(data, "action_space")


def rows(dataset: Any, mode: Mode) -> Iterator[dict[str, Any]]:
    """Yield one row for each step of a dataset.

    Observations are flattened in the order of their space; the numbers are features 0,
    1, and so on. Features of continuous actions follow them, so that no id occurs
    twice. A last step without a flag is truncated. Minari has no propensities.

    Raises:
      UserError: if the mode does not fit the space of actions.
    """
    space = dataset.action_space
    discrete = isinstance(space, spaces.Discrete)
    if mode != ("discrete" if discrete else "continuous"):
        raise UserError(
            f"the mode is {mode}, but the actions of the dataset are {space}; pass "
            f"mode={'discrete' if discrete else 'continuous'!r}"
        )
    names = [str(space.start + k) for k in range(space.n)] if discrete else []
    for episode in dataset.iterate_episodes():
        states = _flat(episode.observations)
        actions = np.asarray(episode.actions) if discrete else _flat(episode.actions)
        last = len(episode.rewards) - 1
        for step, reward in enumerate(episode.rewards):
            terminated = bool(episode.terminations[step])
            row = {
                "ds": "",
                "mdp_id": str(episode.id),
                "sequence_number": step,
                "state_features": states[step],
                "reward": float(reward),
                "terminated": terminated,
                "truncated": step == last and not terminated,
            }
            if discrete:
                row |= {"action": str(actions[step]), "possible_actions": names}
            else:
                row["action"] = dict(enumerate(actions[step].tolist(), states.shape[1]))
            if step == last:
                row["final_state_features"] = states[step + 1]
            yield row


def _flat(values: Any) -> np.ndarray:
    """Return stacked values, also of Dict and Tuple spaces, as ``[T, features]``."""
    if isinstance(values, dict):
        values = [values[key] for key in values]
    if isinstance(values, (list, tuple)):
        return np.concatenate([_flat(value) for value in values], axis=1)
    array = np.asarray(values)
    return array.reshape(len(array), -1).astype(np.float64)
