"""Observe chosen frames of the past."""

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
from tfagents_batch.envs.wrappers import layers
from tfagents_batch.errors import UserError


class FrameHistory(gymnasium.Wrapper, RecordConstructorArgs):
    """Observes ``s[t - i]`` for each ``i`` in ``past_indices``, in that order.

    Before the episode began there is its first observation. Frames keep their dtype and
    are stored once each, however many indices name them. Every leaf of a nested space
    gets the new axis.

    Args:
      env: of any supported observation space.
      past_indices: steps back, not negative, 0 (the current one) among them;
        ``[0, 1, 4]`` is now, one step ago and four steps ago.
      flatten: concatenate along the first axis of a Box instead of stacking on a new
        one: ``[n * d, ...]`` instead of ``[n, d, ...]``.

    Raises:
      UserError: for other indices or spaces, or if ``env`` restarts by itself.
    """

    def __init__(
        self, env: gymnasium.Env, past_indices: Sequence[int], flatten: bool = False
    ):
        RecordConstructorArgs.__init__(self, past_indices=past_indices, flatten=flatten)
        gymnasium.Wrapper.__init__(self, env)
        layers.refuse_restarts("FrameHistory", env)
        self._indices = _checked(past_indices)
        self._join = np.concatenate if flatten else np.stack
        self._inner = space = env.observation_space
        # Discrete values may be ints; a wrong dtype of an array is not hidden here.
        self._dtypes = [
            leaf.space.dtype if isinstance(leaf.space, gs.Discrete) else None
            for leaf in spaces.leaves(space)
        ]
        self._nested = isinstance(space, (gs.Dict, gs.Tuple))
        self._frames: deque[list[np.ndarray]] = deque(maxlen=max(self._indices) + 1)
        if not flatten:
            self.observation_space = batch_space(space, len(self._indices))
            return
        if not layers.box("FrameHistory(flatten=True)", "observation", space).shape:
            raise UserError(
                "FrameHistory: observations are scalars, which have no axis to "
                "concatenate along; use flatten=False"
            )
        low, high = (
            np.concatenate([bound] * len(self._indices))
            for bound in (space.low, space.high)
        )
        self.observation_space = gs.Box(low, high, dtype=space.dtype)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        observation, info = self.env.reset(seed=seed, options=options)
        frame = self._frame(observation)
        self._frames.extend([frame] * self._frames.maxlen)
        return self._observation(), info

    def step(self, action: Any):
        observation, *rest = self.env.step(action)
        self._frames.appendleft(self._frame(observation))
        return (self._observation(), *rest)

    def _frame(self, observation: Any) -> list[np.ndarray]:
        """Copies, because environments may reuse their arrays."""
        flat = [observation]
        if self._nested:
            flat = spaces.flatten(self._inner, observation)
        return [np.array(x, t) for x, t in zip(flat, self._dtypes, strict=True)]

    def _observation(self) -> Any:
        chosen = [self._frames[index] for index in self._indices]
        flat = [self._join(frames) for frames in zip(*chosen, strict=True)]
        return spaces.pack(self._inner, flat) if self._nested else flat[0]


def _checked(past_indices: Sequence[int]) -> tuple[int, ...]:
    hint = "expected steps back, such as [0, 1, 2]: not negative, 0 among them"
    try:
        indices = tuple(past_indices)
    except TypeError:
        raise UserError(
            f"FrameHistory: past_indices is {past_indices!r}; {hint}"
        ) from None
    for index in indices:
        layers.count("FrameHistory", "one of past_indices", index, least=0)
    if 0 not in indices:
        raise UserError(f"FrameHistory: past_indices is {list(indices)}; {hint}")
    return tuple(int(index) for index in indices)
