"""Critics: several networks of action values, and their settings."""

from __future__ import annotations

import dataclasses
from typing import Any

import keras
import tensorflow as tf

from tfagents_batch import nest
from tfagents_batch.config import option
from tfagents_batch.errors import UserError
from tfagents_batch.nn import networks
from tfagents_batch.nn.actor import (
    RowActorConfig,
    check_equal,
    encoded,
    encoder_and_hidden,
)
from tfagents_batch.nn.layers.ensemble import EnsembleMLP, Hidden, Which
from tfagents_batch.types import EnvSpec, TimeStep


@dataclasses.dataclass(frozen=True)
class CriticConfig:
    """Settings of critics that are not those of the actor."""

    hidden: tuple[int, ...] | None = option(
        None, "units of their hidden layers; none: those of network.hidden", least=1
    )
    layer_norm: bool = option(
        False,
        "normalize their hidden layers (LayerNorm), so that values of unknown actions "
        "grow less, which helps with prior data",
    )
    # Only online, see ``OnlineCriticConfig``.
    dropout = 0.0
    batch_renorm = False


@dataclasses.dataclass(frozen=True)
class OnlineCriticConfig(CriticConfig):
    """Settings of the critics of SAC, TD3 and DDPG."""

    dropout: float = option(
        0.0,
        "probability of dropout in critics and targets, for many updates (DroQ: 0.01)",
        least=0,
        below=1,
    )
    batch_renorm: bool = option(
        False,
        "normalize layers over the batch of states and next states, without target "
        "critics (CrossQ)",
    )


def _check_residual(own: CriticConfig, hidden: tuple[int, ...]) -> None:
    """Refuse settings that residual blocks do not have."""
    check_equal("critic.hidden", hidden)
    for name in ("dropout", "layer_norm", "batch_renorm"):
        if value := getattr(own, name):
            raise UserError(
                f"critic.{name} is {value}, but network.body is residual, whose blocks "
                "have a LayerNorm and nothing else; leave one of the two out"
            )


class Critics(keras.Model):
    """K networks of action values: Q(s, a) of given actions, or of all actions.

    With inputs and outputs they are Q(s, a, .) of given numbers a and all choices.

    They share the encoder of observations, which has weights for images and in a user's
    network only; all other layers are their own.

    Args:
      spec, config, network: see ``encoder_and_hidden``.
      count: K.
      inputs: A, entries of an action that is an input; 0 for Q of all actions.
      outputs: number of actions, or of choices, that are no input; 0 if there are none.
      own: settings of critics alone.
      quantiles: M, of the returns of an action that is an input; 0 for their mean.
    """

    def __init__(
        self,
        spec: EnvSpec,
        config: RowActorConfig,
        count: int,
        inputs: int = 0,
        outputs: int = 0,
        network: Any = None,
        own: CriticConfig = CriticConfig(),
        quantiles: int = 0,
    ):
        super().__init__(name="critics", dtype="float32")
        self.encoder, hidden = encoder_and_hidden(spec, config, network, critic=True)
        hidden = hidden if own.hidden is None else own.hidden
        follows = own.dropout, own.layer_norm, config.activation, own.batch_renorm
        then = Hidden(*follows, residual=config.body == "residual")
        if then.residual:
            _check_residual(own, hidden)
        self._quantiles, self._single = quantiles, not outputs
        outputs = quantiles or outputs or 1
        self.towers = EnsembleMLP(count, hidden, outputs, config.initializer, then)
        step = nest.map(lambda x: x[0], networks.dummy_steps(spec))
        action = tf.zeros([step.first.shape[0], inputs]) if inputs else None
        self.call(step, action)  # creates the weights
        self.built = True
        self.convolves = networks.convolves(self, lambda x: self(x, action), step)

    def call(self, timestep: TimeStep, action=None, which: Which = None, **options):
        """Return Q, f32 ``[K, N]`` or, of all actions or choices, ``[K, N, A]``.

        Args:
          timestep: ``[N, ...]``.
          action: f32 ``[N, A]``, scaled to [-1, 1]; None for Q of all actions. Of M
            actions in each state, ``[N, M, A]``, it returns Q, f32 ``[K, N, M]``.
          which: which networks; None for all.
          options: see ``outputs``.
        """
        if action is not None and action.shape.rank == 3:
            q = self.towers(self._features(timestep), which=which, more=action)
            return tf.reshape(q, [-1, *action.shape[:2]])
        outputs = self.outputs(timestep, action, which, **options)
        return self.mean(outputs) if self._quantiles else outputs

    def outputs(
        self, timestep: TimeStep, action=None, which: Which = None, key=None, rows=None
    ) -> tf.Tensor:
        """Return Q, or quantiles of returns, f32 ``[K, N, M]``, if there are some.

        ``key`` is that of dropout, and ``rows`` those of statistics, see
        ``EnsembleMLP.call``; None for critics that do not learn.
        """
        features = self._features(timestep)
        if action is None:
            return self.towers(features, which=which, key=key, rows=rows)
        inputs = tf.concat([features, action], -1)
        found = self.towers(inputs, which=which, key=key, rows=rows)
        return found[..., 0] if self._single and not self._quantiles else found

    def mean(self, outputs: tf.Tensor) -> tf.Tensor:
        """Return Q of ``outputs``."""
        return tf.reduce_mean(outputs, -1) if self._quantiles else outputs

    def _features(self, timestep: TimeStep) -> tf.Tensor:
        return encoded(self, timestep, ())[0]
