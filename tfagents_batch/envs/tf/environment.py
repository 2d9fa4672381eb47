"""Interface of an environment written in TensorFlow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import gymnasium
    import tensorflow as tf

    from tfagents_batch.types import Nest


class TensorEnv(Protocol):
    """One environment as two pure functions of tensors; no base class is needed.

    The functions have no batch axis. ``TensorBatch`` vectorises them and adds restarts,
    the time limit and statistics. Because the functions are traced, use ``tf.where``
    instead of ``if`` for conditions on tensors, and draw random numbers from the key
    (see ``seeds``). Shapes are static.

    Attributes:
      observation_space, action_space: spaces of one environment.
      max_episode_steps: truncates longer episodes; optional, None for no limit.
      render: optional function of a state, given as NumPy arrays, that returns a
        picture, uint8 ``[height, width, 3]``; ``render_fps`` is in frames per second.
    """

    @property
    def observation_space(self) -> gymnasium.Space: ...

    @property
    def action_space(self) -> gymnasium.Space: ...

    def reset(self, key: tf.Tensor) -> tuple[Nest, Nest]:
        """Start an episode.

        Args:
          key: int32 ``[2]``, a different one for each call.

        Returns:
          The state, any nest of tensors, and the observation.
        """
        ...

    def step(
        self, state: Nest, action: Nest, key: tf.Tensor
    ) -> tuple[Nest, Nest, tf.Tensor, tf.Tensor]:
        """Step once; the episode of ``state`` has not ended.

        Args:
          state: state that ``reset`` or the previous step returned.
          action: action within the bounds. Its dtype is the space's, in at most 32
            bits: int32 for Discrete and MultiDiscrete, int8 for MultiBinary.
          key: int32 ``[2]``, a different one for each call.

        Returns:
          The state, of the same structure, shapes and dtypes; the observation; the
          reward ``[]``, cast to float32; and bool ``[]``, true in a terminal state.
        """
        ...
