"""Distribution of actions with several parts, of Dict and Tuple spaces."""

from __future__ import annotations

from collections.abc import Sequence

import gymnasium
import tensorflow as tf

from tfagents_batch import spaces
from tfagents_batch.interfaces import Distribution
from tfagents_batch.types import Nest


class Joint:
    """Independent distributions of the parts of an action.

    So the policy is pi(a | s) = prod_i pi_i(a_i | s) (Delalleau et al. 2019,
    arXiv:1912.11077, section 3): log-probabilities, entropies and KL are sums.

    Args:
      space: Dict or Tuple of the actions.
      parts: distribution of each leaf, in the order of ``spaces.leaves``.
    """

    def __init__(self, space: gymnasium.Space, parts: Sequence[Distribution]):
        self._space, self.parts = space, tuple(parts)

    @property
    def params(self) -> dict[str, tf.Tensor]:
        return {
            f"{index}/{name}": value
            for index, part in enumerate(self.parts)
            for name, value in part.params.items()
        }

    def with_params(self, params: dict[str, tf.Tensor]) -> Joint:
        return Joint(
            self._space,
            [
                part.with_params({name: params[f"{i}/{name}"] for name in part.params})
                for i, part in enumerate(self.parts)
            ],
        )

    def sample(self, noise: Sequence[tf.Tensor]) -> Nest:
        """Return actions, a nest of ``[..., *event]``, from the noise of each part."""
        pairs = zip(self.parts, noise, strict=True)
        return spaces.pack(self._space, [part.sample(x) for part, x in pairs])

    def mode(self) -> Nest:
        """Return the mode of each part, a nest of ``[..., *event]``."""
        return spaces.pack(self._space, [part.mode() for part in self.parts])

    def log_prob(self, action: Nest) -> tf.Tensor:
        """Return log-probabilities, with log densities of a Box, f32 ``[...]``."""
        pairs = zip(self.parts, spaces.flatten(self._space, action), strict=True)
        return tf.add_n([part.log_prob(x) for part, x in pairs])

    def entropy(self) -> tf.Tensor:
        """Return the entropy in nats, f32 ``[...]``."""
        return tf.add_n([part.entropy() for part in self.parts])

    def kl(self, other: Joint) -> tf.Tensor:
        """Return KL(self || other) in nats, f32 ``[...]``."""
        pairs = zip(self.parts, other.parts, strict=True)
        return tf.add_n([one.kl(two) for one, two in pairs])
