"""Wrappers that observe differences, past frames or selected entries."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces as gs
from gymnasium.utils import RecordConstructorArgs
from gymnasium.vector.utils import batch_space

from tfagents_batch import spaces
from tfagents_batch.envs.shared import arguments
from tfagents_batch.envs.wrappers import layers
from tfagents_batch.errors import UserError
from tfagents_batch.settings.suggest import unknown

RAW, ZEROS = "raw", "zeros"  # values of reset_value
# Integers double in width, so that no difference overflows.
_WIDER = {1: np.int16, 2: np.int32, 4: np.int64, 8: np.int64}


class FrameDelta(gymnasium.ObservationWrapper, RecordConstructorArgs):
    """Observe ``s[t] - s[t-1]``, and after a reset ``s[0]`` or zeros.

    The declared space is ``[low - high, high - low]``, widened if ``s[0]`` needs it.
    Integers are converted first: uint8 to int16, int16 to int32, others to int64, in
    which differences beyond 2^63 wrap. Floats keep their dtype.

    Args:
      env: environment with a Box of observations.
      reset_value: "raw", the first observation itself, or "zeros".

    Raises:
      UserError: for another space or ``reset_value``, or if ``env`` restarts by
        itself.
    """

    def __init__(self, env: gymnasium.Env, reset_value: str = RAW):
        RecordConstructorArgs.__init__(self, reset_value=reset_value)
        gymnasium.ObservationWrapper.__init__(self, env)
        layers.refuse_restarts("FrameDelta", env)
        arguments.one_of("FrameDelta: reset_value", reset_value, (RAW, ZEROS))
        space = layers.box("FrameDelta", "observation", env.observation_space)
        self._raw = reset_value == RAW
        self._inner = space.dtype
        floating = space.dtype.kind == "f"
        wide = space.dtype if floating else _WIDER[space.dtype.itemsize]
        self._dtype = np.dtype(wide)
        self._last: np.ndarray | None = None
        with np.errstate(over="ignore"):  # a range beyond float32 becomes infinite
            low, high = (b.astype(self._dtype) for b in (space.low, space.high))
            least, most = low - high, high - low
        if self._raw:
            least, most = np.minimum(least, low), np.maximum(most, high)
        least, most = np.asarray(least), np.asarray(most)  # arrays, not scalars
        self.observation_space = gs.Box(least, most, dtype=self._dtype)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        self._last = None
        return super().reset(seed=seed, options=options)

    def observation(self, observation: Any) -> np.ndarray:
        # A copy in the wider dtype; a wrong dtype stays, so that the batch refuses it.
        frame = np.array(observation)
        if frame.dtype == self._inner:
            frame = frame.astype(self._dtype, copy=False)
        last, self._last = self._last, frame
        if last is None:
            return frame.copy() if self._raw else np.zeros_like(frame)
        return np.asarray(frame - last)  # a scalar for 0-d arrays


class FrameHistory(gymnasium.ObservationWrapper, RecordConstructorArgs):
    """Observe ``s[t - i]`` for each ``i`` in ``past_indices``, in that order.

    Before the start of the episode, the first observation is used. Frames keep their
    dtype. Each is stored once, even if several indices select it. Every leaf of a
    nested space gets the new axis.

    Args:
      env: environment with any supported observation space.
      past_indices: numbers of steps back, not negative and including 0, the current
        step; ``[0, 1, 4]`` is now, one step ago and four steps ago.
      flatten: concatenate along the first axis of a Box instead of stacking on a new
        axis: ``[n * d, ...]`` instead of ``[n, d, ...]``.

    Raises:
      UserError: for other indices or spaces, or if ``env`` restarts by itself.
    """

    def __init__(
        self, env: gymnasium.Env, past_indices: Sequence[int], flatten: bool = False
    ):
        RecordConstructorArgs.__init__(self, past_indices=past_indices, flatten=flatten)
        gymnasium.ObservationWrapper.__init__(self, env)
        layers.refuse_restarts("FrameHistory", env)
        self._indices = layers.indices(
            "FrameHistory",
            "past_indices",
            past_indices,
            lambda steps: 0 in steps,
            "steps back, such as [0, 1, 2]: not negative, and 0 included",
        )
        self._join = np.concatenate if flatten else np.stack
        self._inner = space = env.observation_space
        # Discrete values may be ints; other dtypes stay, so that errors are detected.
        self._dtypes = [
            leaf.space.dtype if isinstance(leaf.space, gs.Discrete) else None
            for leaf in spaces.leaves(space)
        ]
        self._nested = isinstance(space, (gs.Dict, gs.Tuple))
        self._frames: deque[list[np.ndarray]] = deque(maxlen=max(self._indices) + 1)
        if not flatten:
            self.observation_space = batch_space(space, len(self._indices))
            return
        layers.box("FrameHistory(flatten=True)", "observation", space)
        low, high = (
            np.concatenate([bound] * len(self._indices))
            for bound in (space.low, space.high)
        )
        self.observation_space = gs.Box(low, high, dtype=low.dtype)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        self._frames.clear()
        return super().reset(seed=seed, options=options)

    def observation(self, observation: Any) -> Any:
        flat = (
            spaces.flatten(self._inner, observation) if self._nested else [observation]
        )
        # Copies, because environments may reuse their arrays.
        frame = [np.array(x, t) for x, t in zip(flat, self._dtypes, strict=True)]
        times = 1 if self._frames else self._frames.maxlen
        self._frames.extendleft([frame] * times)
        chosen = [self._frames[index] for index in self._indices]
        flat = [self._join(frames) for frames in zip(*chosen, strict=True)]
        return spaces.pack(self._inner, flat) if self._nested else flat[0]


class SelectEntries(gymnasium.ObservationWrapper, RecordConstructorArgs):
    """Observe selected entries of a vector, in the given order.

    ``SelectEntries(env, [0, 2])`` for CartPole hides both velocities, so that the
    policy needs a memory. ``SelectEntries(env, {"position": [0, 2], "velocity": [1,
    3]})`` observes a Dict, whose entries the settings ``actor_keys`` and
    ``critic_keys`` name.

    Args:
      env: environment with observations in a Box of rank 1.
      indices: indices of the entries, from 0, each at most once; or several such lists
        by name.

    Raises:
      UserError: for another space, or for indices outside it.
    """

    def __init__(
        self, env: gymnasium.Env, indices: Sequence[int] | dict[str, Sequence[int]]
    ):
        RecordConstructorArgs.__init__(self, indices=indices)
        gymnasium.ObservationWrapper.__init__(self, env)
        space = layers.box("SelectEntries", "observation", env.observation_space)
        if len(space.shape) != 1:
            raise UserError(
                f"SelectEntries: observations have shape {list(space.shape)}; expected "
                "vectors (gymnasium.wrappers.FlattenObservation makes them)"
            )
        size = space.shape[0]
        self._named = isinstance(indices, dict) and bool(indices)
        self._indices = {
            name: layers.indices(
                "SelectEntries",
                f"indices[{name!r}]" if self._named else "indices",
                chosen,
                lambda x: bool(x) and max(x) < size and len({*x}) == len(x),
                f"a list of different numbers of 0 to {size - 1}, at least one",
            )
            for name, chosen in (indices if self._named else {"": indices}).items()
        }
        parts: dict[str, gymnasium.Space] = {
            name: gs.Box(space.low[x], space.high[x], dtype=space.dtype)
            for name, x in self._indices.items()
        }
        self.observation_space = gs.Dict(parts) if self._named else parts[""]

    def observation(self, observation: Any) -> Any:
        vector = np.asarray(observation)
        parts = {name: vector[x] for name, x in self._indices.items()}
        return parts if self._named else parts[""]


class SelectKey(gymnasium.ObservationWrapper, RecordConstructorArgs):
    """Observe one entry of a Dict, for example the picture without the text beside it.

    Args:
      env: environment with observations in a Dict.
      key: key of the entry, which may have any space.

    Raises:
      UserError: for another space, or a key that it lacks.
    """

    def __init__(self, env: gymnasium.Env, key: str):
        RecordConstructorArgs.__init__(self, key=key)
        gymnasium.ObservationWrapper.__init__(self, env)
        space = env.observation_space
        if not isinstance(space, gs.Dict):
            raise UserError(
                f"SelectKey: observations are a {type(space).__name__}; expected a Dict"
            )
        if key not in space.spaces:
            raise UserError(f"SelectKey: {unknown('key', key, space.spaces)}")
        self._key = key
        self.observation_space = space[key]

    def observation(self, observation: Any) -> Any:
        return observation[self._key]
