"""Rows of a Minari dataset (Younis et al. 2024, https://minari.farama.org)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from gymnasium import spaces

from tfagents_batch.errors import UserError
from tfagents_batch.offline.schema import Mode

PREFIX = "minari:"
_OF_NUMBERS = spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary


def load(name: str) -> Any:
    """Return a dataset that was downloaded before; UserError if there is none."""
    try:
        import minari  # pyright: ignore[reportMissingImports]  not in dev

        return minari.load_dataset(name)
    except ImportError as error:  # h5py is imported when it is needed
        raise UserError(
            f"{PREFIX}{name} needs Minari and its extra hdf5 ({error}); "
            "pip install 'minari[hdf5]'"
        ) from error
    except (FileNotFoundError, ValueError) as error:
        raise UserError(
            f"Minari cannot load {name!r}: {error}; `minari download {name}` fetches it"
        ) from error


def is_name(data: Any) -> bool:
    """Return whether an argument names a dataset, as ``minari:<name>``."""
    return isinstance(data, str) and data.startswith(PREFIX)


def mode_of(dataset: Any) -> Mode:
    """Return the kind of the actions of a dataset; UserError for another space."""
    space = dataset.action_space
    if isinstance(space, spaces.Discrete):
        return "discrete"
    if isinstance(space, spaces.Box):
        return "continuous"
    raise UserError(
        f"the actions of the dataset are {space}; expected a Discrete space or a Box"
    )


def reference_scores(dataset: Any) -> dict[str, float]:
    """Return the returns that count as scores 0 and 1, "min" and "max", if known."""
    known = getattr(getattr(dataset, "storage", None), "metadata", {})
    scores = {x: known.get(f"ref_{x}_score") for x in ("min", "max")}
    return {} if None in scores.values() else {k: float(x) for k, x in scores.items()}


def is_dataset(data: Any) -> bool:
    """Return whether an object has the interface of ``minari.MinariDataset``."""
    return hasattr(data, "iterate_episodes") and hasattr(data, "action_space")


def rows(dataset: Any, mode: Mode) -> Iterator[dict[str, Any]]:
    """Yield one row for each step of a dataset.

    Observations are flattened as by ``gymnasium.spaces.flatten``; the numbers are
    features 0, 1, and so on. Features of continuous actions follow them, so that no id
    occurs twice. A last step without a flag is truncated. Minari has no propensities.
    UserError if the mode, a space or an episode does not fit.
    """
    space, observations = dataset.action_space, dataset.observation_space
    discrete = isinstance(space, spaces.Discrete)
    if mode != (expected := mode_of(dataset)):
        raise UserError(
            f"the mode is {mode}, but the actions of the dataset are {space}; pass "
            f"mode={expected!r}"
        )
    names = [str(space.start + k) for k in range(space.n)] if discrete else []
    for episode in dataset.iterate_episodes():
        count, where = len(episode.rewards), f"episode {episode.id}: "
        states = _flat(observations, episode.observations, count + 1, where, "state")
        actions = _flat(space, episode.actions, count, where, "action")
        for step, reward in enumerate(episode.rewards):
            terminated = bool(episode.terminations[step])
            row = {
                "ds": "",
                "mdp_id": str(episode.id),
                "sequence_number": step,
                "state_features": states[step],
                "reward": float(reward),
                "terminated": terminated,
                "truncated": step == count - 1 and not terminated,
            }
            if discrete:
                name = names[int(np.argmax(actions[step]))]
                row |= {"action": name, "possible_actions": names}
            else:
                row["action"] = dict(enumerate(actions[step].tolist(), states.shape[1]))
            if step == count - 1:
                row["final_state_features"] = states[step + 1]
            yield row


def _flat(
    space: spaces.Space, values: Any, count: int, where: str, name: str
) -> np.ndarray:
    """Return values of steps in the order of ``spaces.flatten``, ``[T, features]``.

    They are stacked along the first axis, in dicts and tuples for Dict and Tuple. HDF5
    has the keys of a Dict in the order of the alphabet, so the space decides. Errors
    begin with ``where`` and the name of the value.
    """
    parts: Any = None
    if isinstance(space, spaces.Dict):
        parts = space.spaces.items()
    elif isinstance(space, spaces.Tuple):
        parts = enumerate(space.spaces)
    if parts is not None:
        try:
            nested = [(key, part, values[key]) for key, part in parts]
        except (KeyError, IndexError, TypeError) as error:
            raise UserError(
                f"{where}{name} lacks {error} of its space {space}; write the dataset "
                "anew"
            ) from None
        flat = [_flat(part, x, count, where, f"{name}[{k!r}]") for k, part, x in nested]
        return np.concatenate(flat, axis=1)
    if not isinstance(space, _OF_NUMBERS):
        raise UserError(
            f"{where}{name} is {space}, which has no features; expected Box, Discrete, "
            "MultiDiscrete, MultiBinary, Dict or Tuple. Leave it out, or encode it as "
            "numbers"
        )
    array = np.asarray(values)
    if isinstance(space, spaces.Discrete) and array.size == len(array):
        array = array.reshape(-1)  # also [T, 1]
    expected = [count, *(space.shape or ())]
    if list(array.shape) != expected:
        raise UserError(
            f"{where}{name} has the shape {list(array.shape)}; expected "
            f"{expected}, as there are {count} values of {space}. An "
            "episode has one observation more than rewards"
        )
    if isinstance(space, spaces.Discrete):
        return _one_hot(array - space.start, np.array([space.n]), where, name)
    if isinstance(space, spaces.MultiDiscrete):
        numbers = (array - space.start).reshape(count, -1)
        return _one_hot(numbers, space.nvec.reshape(-1), where, name)
    return array.reshape(count, -1).astype(np.float64)


def _one_hot(
    numbers: np.ndarray, sizes: np.ndarray, where: str, name: str
) -> np.ndarray:
    """Return numbers ``[T, parts]``, those of a part below its size, as one-hot."""
    numbers = numbers.reshape(len(numbers), -1)
    wrong = ~((numbers >= 0) & (numbers < sizes) & (np.floor(numbers) == numbers))
    if wrong.any():
        raise UserError(
            f"{where}{name} is number {numbers[wrong][0]} of {sizes.max()}; expected a "
            "whole number in its space"
        )
    starts = np.cumsum(sizes) - sizes
    encoded = np.zeros((len(numbers), int(sizes.sum())))
    np.put_along_axis(encoded, numbers.astype(np.int64) + starts, 1, axis=1)
    return encoded
