"""The adaptive KL penalty of PPO: its settings, its equations and its weight.

Schulman et al. 2017 (arXiv:1707.06347), section 4, with the cutoff of Hafner et al.
2017 (arXiv:1709.02878).
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import keras
import tensorflow as tf

from tfagents_batch import config
from tfagents_batch.config import number, option
from tfagents_batch.errors import UserError
from tfagents_batch.metrics import Metrics
from tfagents_batch.ops import masked

MINIMUM, MAXIMUM = 1e-4, 1e3  # bounds of the weight


@dataclasses.dataclass(frozen=True)
class KLConfig:
    """Settings of the KL penalty, used if PPO's ``objective`` is "kl" or "both"."""

    target: float = number(
        0.01,
        "target KL divergence of an update; nats (TF-Agents: adaptive_kl_target)",
        above=0,
    )
    init_penalty: float = number(1.0, "initial weight of the penalty", above=0)
    adapt_low: float = number(
        0.7, "ratio KL / target below which the weight is lowered", above=0
    )
    adapt_high: float = number(
        1.3, "ratio KL / target above which the weight is raised", above=0
    )
    adapt_factor: float = number(
        1.5, "factor by which the weight is raised or lowered", above=1
    )
    cutoff_factor: float = number(
        2.0, "ratio KL / target above which a squared cutoff is added", above=0
    )
    cutoff_scale: float = number(1000.0, "weight of the squared cutoff", least=0)
    reduction: Literal["batch", "sequence"] = option(
        "batch",
        "average the KL over a minibatch, or over each sequence, before the penalty",
    )

    def check(self, path: str) -> KLConfig:
        """Return the checked settings; ``path`` is the prefix of names in errors."""
        checked = config.check(self, path)
        if self.adapt_low > self.adapt_high:
            raise UserError(
                f"{path}adapt_low is {self.adapt_low}; expected at most "
                f"{path}adapt_high, {self.adapt_high}"
            )
        return checked


class AdaptiveKL(tf.Module):
    """KL penalty with a weight that adapts to keep the KL near its target.

    Attributes:
      beta: f32 ``[]``, the weight.
    """

    def __init__(self, settings: Any):
        super().__init__()
        self._settings = settings
        # A tensor, because Keras would share a variable instead of copying it.
        start = tf.convert_to_tensor(settings.init_penalty, tf.float32)
        self.beta = keras.Variable(start, dtype="float32", trainable=False)

    def loss(self, kl: tf.Tensor, mask: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return a minibatch's penalty, and the share of it where the cutoff is active.

        beta K + c max(K - f tau, 0)^2, averaged over sequences if each has its own K.
        The cutoff is that of batch-ppo, against single large steps. ``kl`` is f32
        ``[N]`` or ``[L, n]``: KL(behavior || policy) of every step, in nats.
        """
        settings, (mean, counts) = self._settings, self.mean(kl, mask)
        excess = tf.nn.relu(mean - settings.cutoff_factor * settings.target)
        penalty = self.beta.value * mean + settings.cutoff_scale * tf.square(excess)
        active = tf.stop_gradient(tf.cast(excess > 0, kl.dtype))
        return masked.mean(penalty, counts), masked.mean(active, counts)

    def adapt(self, kl: tf.Tensor, mask: tf.Tensor) -> Metrics:
        """Adapt the weight to the KL divergence of a whole update.

        It is multiplied if K > high tau and divided if K < low tau; otherwise, and if K
        is NaN, it does not change. (Schulman et al. 2017 use a factor of 2, high = 1.5
        and low = 1 / 1.5.)
        """
        settings, beta = self._settings, self.beta.value
        target, factor = settings.target, settings.adapt_factor
        mean = masked.mean(*self.mean(kl, mask))
        raised = tf.where(mean > settings.adapt_high * target, beta * factor, beta)
        low = mean < settings.adapt_low * target
        adapted = tf.where(low, raised / factor, raised)
        adapted = tf.clip_by_value(adapted, MINIMUM, MAXIMUM)
        # Without a valid transition there was no update to adapt to.
        beta = tf.where(tf.reduce_any(mask), adapted, beta)
        self.beta.assign(beta)
        return {"policy/kl": mean, "policy/kl_penalty": beta}

    def mean(self, kl: tf.Tensor, mask: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return K of the batch, ``[]``, or of each sequence, ``[n]``, and its mask."""
        if self._settings.reduction == "batch":
            return masked.mean(kl, mask), tf.constant(True)
        return masked.mean_over_time(kl, mask), tf.reduce_any(mask, 0)
