"""The adaptive KL penalty: its settings, its equations and its weight.

Schulman et al. 2017 (arXiv:1707.06347), section 4, with the cutoff of Hafner et al.
2017 (arXiv:1709.02878). An algorithm's config extends ``Settings``, so these settings
become flags of the algorithm.
"""

from __future__ import annotations

import dataclasses
from typing import Literal

import keras
import tensorflow as tf

from tfagents_batch.config import number, option
from tfagents_batch.errors import UserError
from tfagents_batch.metrics import Metrics
from tfagents_batch.ops import losses, masked

MINIMUM, MAXIMUM = 1e-4, 1e3  # bounds of the weight


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of the KL penalty, and the objective that may use it."""

    objective: Literal["clip", "kl", "both"] = option(
        "clip", "limit of an update: clipped ratio, KL penalty, or both"
    )
    kl_target: float = number(
        0.01, "target KL divergence of an update, for the penalty; nats", above=0
    )
    kl_init_penalty: float = number(1.0, "initial weight of the KL penalty", above=0)
    kl_adapt_low: float = number(
        0.7, "ratio KL / kl_target below which the penalty is lowered", above=0
    )
    kl_adapt_high: float = number(
        1.3, "ratio KL / kl_target above which the penalty is raised", above=0
    )
    kl_adapt_factor: float = number(
        1.5, "factor by which the penalty is raised or lowered", above=1
    )
    kl_cutoff_factor: float = number(
        2.0, "ratio KL / kl_target above which a squared cutoff is added", above=0
    )
    kl_cutoff_scale: float = number(1000.0, "weight of the squared cutoff", least=0)
    kl_reduction: Literal["batch", "sequence"] = option(
        "batch",
        "average the KL over a minibatch, or over each sequence, before the penalty",
    )

    def check_limits(self) -> None:
        """Check that the weight is not raised and lowered at once.

        Raises:
          UserError: if one KL divergence would do both.
        """
        if self.kl_adapt_low > self.kl_adapt_high:
            raise UserError(
                f"kl_adapt_low is {self.kl_adapt_low}; expected at most "
                f"kl_adapt_high, {self.kl_adapt_high}"
            )


class AdaptiveKL(tf.Module):
    """KL penalty with a weight that adapts to keep the KL near its target.

    Args:
      settings: checked settings.

    Attributes:
      beta: f32 ``[]``, the weight.
    """

    def __init__(self, settings: Settings):
        super().__init__()
        self._settings = settings
        self.beta = keras.Variable(
            settings.kl_init_penalty, dtype="float32", trainable=False
        )

    def loss(self, kl: tf.Tensor, mask: tf.Tensor) -> losses.KLPenalty:
        """Return a minibatch's penalty, and the share of it where the cutoff is active.

        beta K + c max(K - f tau, 0)^2, averaged over sequences if each has its own K.

        Args:
          kl: f32 ``[N]`` or ``[L, n]``, KL(behavior || policy) of every step, in nats.
          mask: bool, like ``kl``.

        Returns:
          f32 ``[]`` each.
        """
        mean, counts = self.mean(kl, mask)
        bound = losses.kl_penalty(
            mean,
            self.beta.value,
            target=self._settings.kl_target,
            cutoff_factor=self._settings.kl_cutoff_factor,
            cutoff_coef=self._settings.kl_cutoff_scale,
        )
        return losses.KLPenalty(*(masked.mean(x, counts) for x in bound))

    def adapt(self, kl: tf.Tensor, mask: tf.Tensor) -> Metrics:
        """Adapt the weight to the KL divergence of a whole update.

        Args:
          kl, mask: as in ``loss``, for all data of the update.
        """
        mean = masked.mean(*self.mean(kl, mask))
        beta = losses.adapt_penalty(
            self.beta.value,
            mean,
            target=self._settings.kl_target,
            low=self._settings.kl_adapt_low,
            high=self._settings.kl_adapt_high,
            factor=self._settings.kl_adapt_factor,
            minimum=MINIMUM,
            maximum=MAXIMUM,
        )
        # Without a valid transition there was no update to adapt to.
        beta = tf.where(tf.reduce_any(mask), beta, self.beta.value)
        self.beta.assign(beta)
        return {"policy/kl": mean, "policy/kl_penalty": beta}

    def mean(self, kl: tf.Tensor, mask: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return K of the batch, ``[]``, or of each sequence, ``[n]``, and its mask."""
        if self._settings.kl_reduction == "batch":
            return masked.mean(kl, mask), tf.constant(True)
        return masked.mean_over_time(kl, mask), tf.reduce_any(mask, 0)
