"""Actor-critic networks: ours for any supported space, and the user's adapted."""

from __future__ import annotations

import dataclasses

import keras
import tensorflow as tf

from tfagents_batch import nest
from tfagents_batch.config import option
from tfagents_batch.interfaces import ActorCriticHeads
from tfagents_batch.nn import blocks
from tfagents_batch.nn.encoder import ACTION_MASK, Encoder
from tfagents_batch.ops import distributions
from tfagents_batch.types import EnvSpec, Nest, TimeStep


@dataclasses.dataclass(frozen=True)
class Config:
    """Shape of the built-in networks."""

    hidden: tuple[int, ...] | None = option(
        None, "units of each tower's layers; by default 64,64, none behind a lone image"
    )
    activation: str = option("tanh", "Keras activation of the hidden layers")
    init_std: float = option(1.0, "standard deviation of a Box policy at the start")


class Towers(keras.Model):
    """Observations ``[N, ...]`` to ``{"policy": [N, A], "value": [N]}``.

    Two towers on one encoder: what has weights in the encoder (images) is shared,
    the towers are not.

    Args:
      encoder: layer or model, observation to features ``[N, F]``.
      hidden: units of each tower's layers.
      activation: of the hidden layers.
      size: A, outputs that the policy needs.
    """

    def __init__(self, encoder, hidden: tuple[int, ...], activation: str, size: int):
        super().__init__(name="towers")
        self.encoder = encoder
        self.policy_tower = blocks.MLP(hidden, activation, name="policy_tower")
        self.value_tower = blocks.MLP(hidden, activation, name="value_tower")
        # A small policy head starts near uniform (Andrychowicz et al. 2021, sec. 3.2).
        self.policy_head = keras.layers.Dense(
            size, kernel_initializer=blocks.orthogonal(0.01), name="policy"
        )
        self.value_head = keras.layers.Dense(
            1, kernel_initializer=blocks.orthogonal(1.0), name="value"
        )

    def call(self, observation):
        features = self.encoder(observation)
        value = self.value_head(self.value_tower(features))
        return {
            "policy": self.policy_head(self.policy_tower(features)),
            "value": tf.squeeze(value, -1),
        }


class ActorCritic(keras.Model):
    """Network of policy and value, feed-forward; see ``interfaces.Network``.

    The standard deviation of a Box policy is a trained vector, independent of the
    state.

    Args:
      body: model from observations ``[N, ...]`` to ``{"policy": [N, A], "value":
        [N]}``; never sees the action mask.
      spec: of the environments.
      init_std: standard deviation at the start.
    """

    def __init__(self, body: keras.Model, spec: EnvSpec, init_std: float = 1.0):
        super().__init__(name="actor_critic")
        self.body = body
        self.family = distributions.for_space(spec.action_space)
        if self.family.needs_std:
            self.log_std = self.add_weight(
                shape=(self.family.size,),
                initializer=keras.initializers.Constant(float(tf.math.log(init_std))),
                name="log_std",
            )
        # Weights exist before the first program is traced, and shapes are checked.
        self.unroll(_dummy_steps(spec))
        self.built = True

    @property
    def convolves(self) -> bool:
        """Is there a convolution anywhere in it?"""
        return any("Conv" in type(layer).__name__ for layer in layers(self))

    def initial_state(self, batch: int) -> Nest:
        return ()

    def call(self, timestep: TimeStep, state: Nest = ()):
        features, mask = _split_mask(timestep.observation)
        return self._heads(self.body(features), mask), state

    def unroll(self, steps: TimeStep, state: Nest = ()):
        features, mask = _split_mask(steps.observation)
        return self._heads(nest.batch_apply(self.body, features), mask), state

    def _heads(self, outputs: dict, mask) -> ActorCriticHeads:
        outputs = {k: tf.cast(x, tf.float32) for k, x in outputs.items()}
        std = tf.exp(self.log_std) if self.family.needs_std else None
        policy = self.family.make(outputs["policy"], std=std, mask=mask)
        return ActorCriticHeads(policy, outputs["value"])


def actor_critic(spec: EnvSpec, config: Config = Config()) -> ActorCritic:
    """The built-in network for an environment.

    An MLP for vectors, the Nature CNN for images, and for nested observations both,
    concatenated.
    """
    encoder = Encoder(spec.observation_space)
    hidden = config.hidden
    if hidden is None:
        hidden = () if encoder.is_single_image else (64, 64)
    size = distributions.for_space(spec.action_space).size
    body = Towers(encoder, hidden, config.activation, size)
    return ActorCritic(body, spec, config.init_std)


def _split_mask(observation: Nest) -> tuple[Nest, tf.Tensor | None]:
    if not isinstance(observation, dict) or ACTION_MASK not in observation:
        return observation, None
    features = {k: v for k, v in observation.items() if k != ACTION_MASK}
    return features, tf.cast(observation[ACTION_MASK], tf.bool)


def _dummy_steps(spec: EnvSpec) -> TimeStep:
    zeros = nest.map(
        lambda s: tf.zeros(s.shape, s.dtype), nest.specs(spec.observation_space, (1, 2))
    )
    flag = tf.zeros([1, 2], tf.bool)
    return TimeStep(zeros, tf.zeros([1, 2]), ~flag, flag, flag, {})


def layers(model: keras.layers.Layer) -> list[keras.layers.Layer]:
    """Every layer inside a model or layer, to the leaves."""
    return list(model._flatten_layers(include_self=False, recursive=True))


def named_variables(network: keras.Model) -> dict[str, keras.Variable]:
    """Every variable by position; Keras numbers names differently in each process."""
    return {
        f"{index:03d}-{variable.name}": variable
        for index, variable in enumerate(network.variables)
    }
