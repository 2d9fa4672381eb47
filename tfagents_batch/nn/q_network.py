"""Networks of action values: ours for any supported observations, or the user's."""

from __future__ import annotations

import dataclasses
from typing import Any

import keras
import tensorflow as tf
from gymnasium import spaces as gs

from tfagents_batch import nest
from tfagents_batch.config import check, option, unknown
from tfagents_batch.errors import UserError
from tfagents_batch.interfaces import ActionValueHeads
from tfagents_batch.nn import blocks, kernels, networks
from tfagents_batch.nn.encoder import CNN, Encoder
from tfagents_batch.nn.user import model as user_model
from tfagents_batch.types import EnvSpec, Nest, TimeStep


@dataclasses.dataclass(frozen=True)
class Config:
    """Shape of a network of action values."""

    hidden: tuple[int, ...] | None = option(
        None,
        "units of the hidden layers; none: 64,64, or no layer after a CNN",
        least=1,
    )
    activation: str = option("relu", "Keras activation of the hidden layers")
    dueling: bool = option(
        False, "add a state value and advantages, each with its own hidden layers"
    )
    initializer: kernels.Kind = option("orthogonal", "initializer of the kernels")
    cnn: CNN = option(
        "auto",
        "CNN for images; auto: small if a side has less than 36 pixels, else nature",
    )

    def check(self, path: str = "") -> Config:
        """Return the config, each value converted to its declared type.

        Args:
          path: prefix of the names in errors.

        Raises:
          UserError: for a setting that is invalid; names it.
        """
        config = check(self, path)
        if config.activation not in networks.ACTIVATIONS:
            known = networks.ACTIVATIONS
            raise UserError(unknown(f"{path}activation", config.activation, known))
        return config


class QBody(keras.Model):
    """Map observations ``[N, ...]`` to ``{"q": [N, A]}``.

    Dueling networks (Wang et al. 2016, arXiv:1511.06581, eq. 9) add a state value and
    advantages: Q(s, a) = V(s) + A(s, a) - mean over actions of A(s, .).

    Args:
      encoder: layer or model from observations to features ``[N, F]``.
      hidden: units of the hidden layers, of each stream if there are two.
      size: A, number of actions.
      config: activation, initializer and ``dueling``.
    """

    def __init__(self, encoder, hidden: tuple[int, ...], size: int, config: Config):
        super().__init__(name="q_network", dtype="float32")
        self.encoder = encoder
        names = ("value", "advantage") if config.dueling else ("q",)
        sizes = {"value": 1, "advantage": size, "q": size}
        kind = config.initializer
        self.streams = [
            blocks.mlp(hidden, config.activation, kind, f"{name}_tower")
            for name in names
        ]
        self.heads = [
            blocks.Head(sizes[name], kernels.value(kind), name) for name in names
        ]

    def call(self, observation):
        features = self.encoder(observation)
        pairs = zip(self.heads, self.streams, strict=True)
        outputs = [head(stream(features)) for head, stream in pairs]
        if len(outputs) == 1:
            return {"q": outputs[0]}
        value, advantage = outputs
        return {"q": value + advantage - tf.reduce_mean(advantage, -1, keepdims=True)}


class QNetwork(keras.Model):
    """Values of discrete actions; see ``interfaces.Network``.

    Args:
      body: model from observations ``[N, ...]``, without the action mask, to
        ``{"q": [N, A]}``.
      spec: spec of the environments.

    Attributes:
      size: A, number of actions.
      convolves: True if a convolution is among its operations.
    """

    def __init__(self, body: keras.Model, spec: EnvSpec):
        super().__init__(name="action_values", dtype="float32")
        self.body, self.size = body, number_of_actions(spec)
        # Weights exist before the first program is traced, and shapes are checked.
        steps = networks.dummy_steps(spec)
        self.unroll(steps, ())
        self.built = True
        self.convolves = networks.convolves(self, steps, lambda heads: heads.q)

    def initial_state(self, batch: int) -> Nest:
        """Return the state of a network without memory."""
        del batch
        return ()

    def call(self, timestep: TimeStep, state: Nest = ()):
        features, _ = networks.split_mask(timestep.observation)
        return self._heads(self.body(features, training=False)), state

    def unroll(self, steps: TimeStep, state: Nest = ()):
        """Return the values of steps ``[T, B, ...]``."""
        features, _ = networks.split_mask(steps.observation)
        outputs = nest.batch_apply(lambda x: self.body(x, training=False), features)
        return self._heads(outputs), state

    def extra_loss(self) -> tf.Tensor:
        """Return the losses that layers added in the newest call; see there."""
        return networks.added_loss(self)

    def _heads(self, outputs: dict) -> ActionValueHeads:
        return ActionValueHeads(tf.cast(outputs["q"], tf.float32))


def q_network(
    spec: EnvSpec, config: Config = Config(), network: Any = None
) -> QNetwork:
    """Return a network of action values.

    Args:
      spec: spec of the environments.
      config: shape of the built-in network.
      network: a user's ``keras.Model`` or builder, as in ``user.actor_critic``: it maps
        observations to features ``[N, F]``, to which a head is added, or to
        ``{"q": [N, A]}``. None uses the built-in network.

    Raises:
      UserError: if the actions are not Discrete, or the network does not fit.
    """
    size = number_of_actions(spec)
    if network is not None:
        model = user_model.create(network, spec)
        used = ()
        if not isinstance(user_model.outputs(model, spec, {"q": size}), dict):
            model, used = QBody(model, (), size, config), ("dueling", "initializer")
        user_model.warn_of_unused(config, model, used)
        return QNetwork(model, spec)
    encoder = Encoder(spec.observation_space, config.cnn)
    hidden = config.hidden
    if hidden is None:
        hidden = () if encoder.is_single_image else networks.HIDDEN
    return QNetwork(QBody(encoder, hidden, size, config), spec)


def number_of_actions(spec: EnvSpec) -> int:
    """Return A of a Discrete action space.

    Raises:
      UserError: for any other action space.
    """
    space = spec.action_space
    if not isinstance(space, gs.Discrete):
        raise UserError(
            f"the action space is {space}, but values of single actions need Discrete "
            "actions; use an algorithm for such actions, such as ppo"
        )
    return int(space.n)
