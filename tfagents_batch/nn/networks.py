"""Actor-critic networks: ours for any supported space, and the user's adapted."""

from __future__ import annotations

import dataclasses

import keras
import tensorflow as tf

from tfagents_batch import nest
from tfagents_batch.config import check, option, unknown
from tfagents_batch.errors import UserError
from tfagents_batch.interfaces import ActorCriticHeads
from tfagents_batch.nn import blocks
from tfagents_batch.nn.encoder import ACTION_MASK, Encoder
from tfagents_batch.ops import distributions
from tfagents_batch.types import EnvSpec, Nest, TimeStep

# The functions of keras.activations that map an array of any shape to one like it.
_OTHERS = {"get", "serialize", "deserialize", "glu", "threshold"}
ACTIVATIONS = {
    name
    for name in dir(keras.activations)
    if not name.startswith("_") and name not in _OTHERS
}


@dataclasses.dataclass(frozen=True)
class Config:
    """Shape of the built-in networks."""

    hidden: tuple[int, ...] | None = option(
        None,
        "units of each tower's layers; by default 64,64, none behind a lone image",
        least=1,
    )
    activation: str = option("tanh", "Keras activation of the hidden layers")
    init_std: float = option(
        1.0, "standard deviation of a Box policy at the start", above=0
    )

    def check(self, path: str = "") -> Config:
        """The config, its values as their types keep them.

        Args:
          path: in front of the names in errors.

        Raises:
          UserError: naming the setting.
        """
        config = check(self, path)
        if config.activation not in ACTIVATIONS:
            raise UserError(
                unknown(f"{path}activation", config.activation, ACTIVATIONS)
            )
        return config


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
        super().__init__(name="towers", dtype="float32")
        self.encoder = encoder
        self.policy_tower = blocks.MLP(hidden, activation, name="policy_tower")
        self.value_tower = blocks.MLP(hidden, activation, name="value_tower")
        # A small policy head starts near uniform (Andrychowicz et al. 2021, sec. 3.2).
        self.policy_head = blocks.Head(size, 0.01, name="policy")
        self.value_head = blocks.Head(1, 1.0, name="value")

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

    Attributes:
      family: of its policies.
      convolves: whether a convolution is among its operations.
    """

    def __init__(self, body: keras.Model, spec: EnvSpec, init_std: float = 1.0):
        super().__init__(name="actor_critic", dtype="float32")
        self.body = body
        self.family = distributions.for_space(spec.action_space)
        if self.family.needs_std:
            self.log_std = self.add_weight(
                shape=(self.family.size,),
                initializer=keras.initializers.Constant(float(tf.math.log(init_std))),
                name="log_std",
            )
        # Weights exist before the first program is traced, and shapes are checked.
        steps = dummy_steps(spec)
        self.unroll(steps)
        self.built = True
        self.convolves = "Conv" in " ".join(_operations(self, steps))

    def initial_state(self, batch: int) -> Nest:
        return ()

    def call(self, timestep: TimeStep, state: Nest = ()):
        features, mask = _split_mask(timestep.observation)
        return self._heads(self.body(features), mask), state

    def unroll(self, steps: TimeStep, state: Nest = ()):
        features, mask = _split_mask(steps.observation)
        return self._heads(nest.batch_apply(self.body, features), mask), state

    def extra_loss(self) -> tf.Tensor:
        """f32 ``[]``: what layers added to the loss in the newest call; 0 if nothing.

        Regularizers and ``add_loss``. To be read once, right after the call and in
        the same graph: it forgets them, for a tensor of a graph is of no use outside.
        """
        total = tf.add_n([tf.zeros([]), *(tf.cast(x, tf.float32) for x in self.losses)])
        self._clear_losses()
        return total

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


def _operations(network: ActorCritic, steps: TimeStep) -> set[str]:
    """Types of all operations that evaluating a network takes."""
    function = tf.function(
        lambda steps: network.unroll(steps)[0].value, autograph=False
    )
    graph = function.get_concrete_function(steps).graph.as_graph_def()
    network._clear_losses()  # of that graph
    inside = [node for function in graph.library.function for node in function.node_def]
    return {node.op for node in [*graph.node, *inside]}


def dummy_steps(spec: EnvSpec) -> TimeStep:
    """Steps ``[1, 2]`` of zeros."""
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
