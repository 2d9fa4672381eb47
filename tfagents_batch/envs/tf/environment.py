"""Interface of an environment written in TensorFlow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import gymnasium
    import tensorflow as tf

    from tfagents_batch.types import Nest


class TensorEnv(Protocol):
    """One environment as two pure functions of tensors; no base class is needed.

    The functions see one environment, without a batch axis, and are vectorised by
    ``TensorBatch``, which adds the batch, restarts, the time limit and statistics.
    They are traced, not run: use ``tf.where`` instead of ``if`` for conditions on
    tensors, and draw random numbers from the key, see ``seeds``. Sizes are static.

    Attributes:
      observation_space, action_space: of one environment.
      max_episode_steps: truncates longer episodes; optional, None for no limit.
      render: optional function of a state, given as NumPy arrays, that returns a
        picture, uint8 ``[height, width, 3]``; ``render_fps`` is in frames per second.
    """

    observation_space: gymnasium.Space
    action_space: gymnasium.Space
    max_episode_steps: int | None

    def reset(self, key: tf.Tensor) -> tuple[Nest, Nest]:
        """Open an episode.

        Args:
          key: int32 ``[2]``, another one for each call.

        Returns:
          The state, any nest of tensors, and the observation.
        """

    def step(
        self, state: Nest, action: Nest, key: tf.Tensor
    ) -> tuple[Nest, Nest, tf.Tensor, tf.Tensor]:
        """Step once; the episode of ``state`` has not ended.

        Args:
          state: as returned before.
          action: within bounds, of the space's dtype, in 32 bits where that is wider:
            int32 of a Discrete or MultiDiscrete space, int8 of a MultiBinary one.
          key: int32 ``[2]``, another one for each call.

        Returns:
          The state, of the same structure, shapes and dtypes; the observation; the
          reward ``[]``, cast to float32; and bool ``[]``, true in a terminal state.
        """
