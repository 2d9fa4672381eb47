"""Networks of actors, and bounds of actions of a Box."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, NamedTuple, Self

import keras
import numpy as np
import tensorflow as tf
from gymnasium import spaces as gs

from tfagents_batch import nest
from tfagents_batch.config import inherited, option
from tfagents_batch.errors import UserError
from tfagents_batch.nn import networks, recurrent_encoder
from tfagents_batch.nn.encoder import Encoder, LayerSettings, refuse_mask
from tfagents_batch.nn.layers import blocks, kernels
from tfagents_batch.nn.layers.state_noise import StateNoise
from tfagents_batch.nn.user import model as user_model
from tfagents_batch.ops import distributions
from tfagents_batch.types import EnvSpec, Nest, Remembered, TimeStep

_SCALE = 0.01  # of the last kernel: actions begin near the middle of their bounds


@dataclasses.dataclass(frozen=True)
class RowActorConfig(LayerSettings):
    """Shape of the networks of an actor and its critics."""

    USUAL: ClassVar[tuple[int, ...]] = (256, 256)

    hidden: tuple[int, ...] | None = option(
        None,
        "units of the hidden layers of actor and critics; none: 256,256",
        least=1,
    )
    body: Literal["mlp", "residual"] = option(
        "mlp",
        "hidden layers: mlp, or residual blocks with LayerNorm (SimBa), one for each "
        "of equal units; use it with normalize_observation",
    )

    def check(self, path: str = "") -> Self:
        settings = super().check(path)
        if settings.body == "residual":
            check_equal(f"{path}hidden", settings.hidden)
        return settings


def check_equal(name: str, hidden: tuple[int, ...] | None) -> None:
    """Refuse hidden layers that cannot be residual blocks."""
    if hidden is not None and len({*hidden}) != 1:
        raise UserError(
            f"{name} is {hidden}, but network.body is residual; expected equal units, "
            "such as 128 for one block or 512,512 for two"
        )


@dataclasses.dataclass(frozen=True)
class ActorConfig(RowActorConfig):
    """Shape of the networks of an actor and its critics, which may have memory."""

    core: networks.Core = inherited(networks.NetworkConfig, "core", default="none")


class ActorNetwork(keras.Model):
    """Map observations to the outputs of a policy; ``heads`` has their sizes by name.

    ``network`` is the user's network of features, see ``encoder_and_hidden``. With
    ``sde_std``, there are two more outputs, of noise that is a function of the state:
    "std", that of the first head's numbers, and its "features". It is the standard
    deviation of the noise's matrix at the start.
    """

    def __init__(
        self,
        spec: EnvSpec,
        config: RowActorConfig,
        heads: Mapping[str, int],
        network: Any = None,
        sde_std: float | None = None,
    ):
        super().__init__(name="actor", dtype="float32")
        self.encoder, hidden = encoder_and_hidden(spec, config, network)
        kind, self.names = config.initializer, tuple(heads)
        self.tower = blocks.body(config, hidden, "tower")
        self.heads = [
            blocks.Head(size, kernels.policy(kind, _SCALE), name)
            for name, size in heads.items()
        ]
        self.state_noise = None
        if sde_std is not None:
            std = networks.TrainedStd(sde_std, 0.0, None, "exp")
            self.state_noise = StateNoise(std, self.heads[0].units, True)
        step = nest.map(lambda x: x[0], networks.dummy_steps(spec))
        self.call(step)  # creates the weights
        self.built = True
        self.convolves = networks.convolves(
            self, lambda step: tf.concat(nest.flatten(self.call(step)[0]), -1), step
        )

    @property
    def trained_std(self) -> keras.Variable | None:
        """Log standard deviations of noise by the state, f32 ``[F, A]``, or None."""
        return None if self.state_noise is None else self.state_noise.kernel

    def call(self, timestep: TimeStep, state: Nest = ()):
        """Return the outputs, ``{name: f32 [N, size]}``, and the state."""
        features, state = encoded(self, timestep, state)
        features = self.tower(features)
        pairs = zip(self.names, self.heads, strict=True)
        outputs = {name: head(features) for name, head in pairs}
        if self.state_noise is not None:
            outputs |= {"std": self.state_noise(features), "features": features}
        return outputs, state


def encoded(network: Any, timestep: TimeStep, state: Nest) -> tuple[tf.Tensor, Nest]:
    """Return the features of steps, f32 ``[N, F]``, and the network's next state."""
    timestep, state = recurrent_encoder.remembered(network, timestep, state)
    observation, _ = networks.split_mask(timestep.observation)
    if isinstance(observation, Remembered):
        return observation.features, state
    features = network.encoder(observation, training=False)
    return tf.cast(features, tf.float32), state


def encoder_and_hidden(
    spec: EnvSpec, config: RowActorConfig, network: Any, critic: bool = False
) -> tuple[keras.layers.Layer, tuple[int, ...]]:
    """Return the encoder of observations, and the hidden layers that follow it.

    Args:
      spec, config: spec of the environments, and shape of the networks.
      network: a user's ``keras.Model`` or builder, as in ``user.actor_critic``: it maps
        observations to features ``[N, F]``. Linear heads of the actor follow, and the
        hidden layers of the critics, whose input are features and actions. None uses
        the built-in encoder.
      critic: whether it is the encoder of critics.

    Raises:
      UserError: if the user's network does not fit.
    """
    hidden = config.USUAL if config.hidden is None else config.hidden
    if network is None:
        encoder = Encoder(spec.observation_space, config.cnn)
        encoder.check_size(hidden[0] if hidden else 1)
        return recurrent_encoder.with_core(encoder, hidden, config, critic)
    model = user_model.create(network, spec)
    user_model.outputs(model, spec, {})
    used = ("hidden", "activation", "initializer", "core", "body")
    user_model.warn_of_unused(config, model, used)
    hidden = hidden if critic else ()
    return recurrent_encoder.with_core(model, hidden, config, critic)


class Bounds(NamedTuple):
    """Bounds of an action, f32 ``[*shape]`` each; networks see it scaled to [-1, 1]."""

    low: np.ndarray
    high: np.ndarray

    @property
    def size(self) -> int:
        """Number of entries of an action, A."""
        return math.prod(self.low.shape)

    @property
    def flat(self) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper bounds, f32 ``[A]`` each."""
        return np.reshape(self.low, -1), np.reshape(self.high, -1)

    def action(self, unit: tf.Tensor) -> tf.Tensor:
        """Return actions ``[N, *shape]`` of f32 ``[N, A]`` within [-1, 1]."""
        half = self.high / 2 - self.low / 2
        unit = tf.reshape(unit, [-1, *self.low.shape])
        action = self.low + half * (unit + 1)
        action = tf.clip_by_value(action, self.low, self.high)
        return tf.where(unit >= 1, self.high, action)  # rounding may not reach it

    def unit(self, action: tf.Tensor) -> tf.Tensor:
        """Return actions ``[N, *shape]`` scaled to [-1, 1], f32 ``[N, A]``."""
        low, high = self.flat
        return (tf.reshape(action, [-1, self.size]) - low) / (high / 2 - low / 2) - 1


def bounds(spec: EnvSpec) -> Bounds:
    """Return the bounds of the actions of environments.

    Raises:
      UserError: if actions are not a Box of floats with finite bounds, or are masked.
    """
    space = spec.action_space
    if not isinstance(space, gs.Box) or not np.issubdtype(space.dtype, np.floating):
        raise UserError(
            f"the action space is {space}, but this algorithm needs a Box of floats; "
            "dqn takes whole numbers, sac and ppo any actions; to learn from logged "
            "rows of Discrete actions, use bcq, crr_discrete, bc or dqn (CQL: "
            "cql_scale)"
        )
    refuse_mask(spec)
    return Bounds(*distributions.finite_bounds(space))
