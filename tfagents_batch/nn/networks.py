"""Actor-critic networks: the built-in ones, and the wrapper of a user's model."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal, NamedTuple

import gymnasium
import keras
import tensorflow as tf

from tfagents_batch import nest
from tfagents_batch.config import option
from tfagents_batch.errors import UserError
from tfagents_batch.nn.encoder import ACTION_MASK, Encoder, LayerSettings
from tfagents_batch.nn.layers.blocks import POLICY_SCALE, Mean, Towers
from tfagents_batch.nn.layers.state_noise import StateNoise
from tfagents_batch.nn.recurrent import RecurrentTowers, ValueCore
from tfagents_batch.ops import distributions
from tfagents_batch.types import ActorCriticHeads, EnvSpec, Nest, Remembered, TimeStep

Std = Literal["exp", "softplus"]
Core = Literal["none", "gru", "lstm"]
CORE_BEHIND_IMAGE = (256,)  # as in IMPALA (Espeholt et al. 2018)
# Names of Keras' layers that never convolve.
_PLAIN = {
    *("Activation", "Add", "BatchNormalization", "Concatenate", "Dense", "Dropout"),
    *("Embedding", "Flatten", "Functional", "GRU", "GRUCell", "InputLayer"),
    *("LayerNormalization", "LSTM", "LSTMCell", "ReLU", "Rescaling", "Reshape"),
    "Sequential",
}


@dataclasses.dataclass(frozen=True)
class NetworkConfig(LayerSettings):
    """Shape of the built-in actor-critics."""

    USUAL: ClassVar[tuple[int, ...]] = (64, 64)

    hidden: tuple[int, ...] | None = option(
        None,
        "units of the hidden layers; none: 64,64, or no layer after a CNN",
        least=1,
    )
    activation: str = option("tanh", "Keras activation of the hidden layers")
    scale_actions: bool = option(
        True,
        "mean and standard deviation of a Box policy are in halves of the range of "
        "actions, from its middle, where bounds are finite; false: in the units of the "
        "environment",
        group="actions",
    )
    init_std: float = option(
        1.0,
        "initial standard deviation of a Box policy; with exploration=sde, of the "
        "noise's matrix",
        above=0,
        group="actions",
    )
    min_std: float = option(
        0.0, "lower bound of the standard deviation", least=0, group="actions"
    )
    max_std: float | None = option(
        None,
        "upper bound of the standard deviation; none: no bound",
        above=0,
        group="actions",
    )
    std: Std = option(
        "exp",
        "function that maps the trained parameter to the standard deviation",
        group="actions",
    )
    squash: bool = option(
        False,
        "squash actions of a Box policy into their bounds by tanh, instead of clipping",
        group="actions",
    )
    mean: Mean = option(
        "linear",
        "mean of a Box policy; tanh keeps it within the bounds of actions, or within "
        "-1 and 1 where they are not scaled",
        group="actions",
    )
    policy_scale: float = option(
        POLICY_SCALE,
        "initial scale of the last kernel of the policy",
        above=0,
        group="actions",
    )
    core: Core = option("none", "recurrent layer in place of the last hidden layer")
    value_core: ValueCore = option(
        "own",
        "recurrent layer of the value: its own, the same as the policy's, or none",
    )

    def check(self, path: str = "") -> NetworkConfig:
        """Return the checked settings; see ``LayerSettings.check``."""
        config = super().check(path)
        if config.min_std >= config.init_std:
            raise UserError(
                f"{path}min_std is {config.min_std}; expected less than "
                f"{path}init_std, {config.init_std}"
            )
        if config.max_std is not None and config.max_std <= config.init_std:
            raise UserError(
                f"{path}max_std is {config.max_std}; expected more than "
                f"{path}init_std, {config.init_std}"
            )
        if config.squash and config.mean == "tanh":
            raise UserError(
                f"{path}squash with {path}mean=tanh would squash twice and never reach "
                "the bounds; use one of them"
            )
        return config


class TrainedStd(NamedTuple):
    """Map from trained parameters x to standard deviations between smooth bounds.

    - Without ``most``: least + exp(x), or least + softplus(x).
    - With ``most``: least + (most - least) sigmoid(x).

    Clipping would have no gradient: a value that reached a bound would stay there.
    """

    first: float  # initial standard deviation, between ``least`` and ``most``
    least: float  # lower bound
    most: float | None  # upper bound; None sets no bound
    kind: Std  # function to use without an upper bound

    @property
    def name(self) -> str:
        """Name of the trained parameter."""
        return "log_std" if self._is_exp else "raw_std"

    @property
    def start(self) -> float:
        """Initial value of x, which gives ``first``."""
        excess = self.first - self.least
        if self.most is not None:
            return math.log(excess) - math.log(self.most - self.first)
        if self._is_exp:
            return math.log(excess)
        # The inverse of softplus; log(expm1(x)) would overflow for large x.
        return excess + math.log(-math.expm1(-excess))

    def of(self, x: tf.Tensor) -> tf.Tensor:
        """Return the standard deviation for x, f32 with the shape of x."""
        if self.most is not None:
            return self.least + (self.most - self.least) * tf.sigmoid(x)
        return self.least + (tf.exp(x) if self._is_exp else tf.math.softplus(x))

    @property
    def _is_exp(self) -> bool:
        return self.most is None and self.kind == "exp"


class ActorCritic(keras.Model):
    """Policy and value network; see ``interfaces.Network``.

    Args:
      body: model from observations ``[N, ...]`` to ``{"policy": [N, A], "value":
        [N] or [N, 1]}``, or ``RecurrentTowers``; it never sees the action mask.
      spec: spec of the environments.
      config: only ``squash``, ``scale_actions`` and the settings of the standard
        deviation are used.
      sde: whether the noise of a Box policy is a function of the state. ``body`` then
        has a further output, "features".

    Attributes:
      family: distribution family of its policies.
      trained_std: f32 ``[A]``, trained parameter of a Box policy's standard deviation;
        ``[F, A]`` if noise is a function of F features.
      state_noise: that function, or None.
    """

    def __init__(
        self,
        body: keras.Model | RecurrentTowers,
        spec: EnvSpec,
        config: NetworkConfig = NetworkConfig(),
        sde: bool = False,
    ):
        super().__init__(name="actor_critic", dtype="float32")
        self.body = body
        self.family = distributions.for_space(
            spec.action_space, config.squash, config.scale_actions
        )
        self._recurrent = isinstance(body, RecurrentTowers)
        self._std = TrainedStd(
            config.init_std, config.min_std, config.max_std, config.std
        )
        self.state_noise = None
        if sde:
            _check_sde(self.family, spec)
            self.state_noise = StateNoise(self._std, self.family.size, False)
        elif self.family.needs_std:
            self._trained_std = self.add_weight(
                shape=(self.family.std_size,),
                initializer=keras.initializers.Constant(self._std.start),
                name=self._std.name,
            )
        # This call creates the weights before a program is traced and checks shapes.
        steps = dummy_steps(spec)
        state = self.initial_state(steps.first.shape[1])
        self.unroll(steps, state)
        self.built = True
        self.convolves = convolves(
            self, lambda *inputs: self.unroll(*inputs)[0].value, steps, state
        )

    @property
    def trained_std(self) -> keras.Variable:
        noise = self.state_noise
        return self._trained_std if noise is None else noise.kernel

    @property
    def of_value(self) -> list[keras.Variable]:
        """Variables of a value that sees other entries than the policy; or none."""
        body: Any = self.body
        if getattr(body, "value_encoder", None) is None:
            return []
        cores = getattr(body, "cores", [])[1:]
        layers = body.value_encoder, body.value_tower, body.value_head, *cores
        return [x for layer in layers for x in layer.variables]

    def initial_state(self, batch: int, value: bool = True) -> Nest:
        return self.body.initial_state(batch, value) if self._recurrent else ()

    def call(self, timestep: TimeStep, state: Nest = (), value: bool = True):
        """Return the heads and the next state, both without a ``value`` if false."""
        features, mask = split_mask(timestep.observation)
        more = {} if value else {"value": False}  # a user's body always has a value
        if self._recurrent:
            inputs = features, timestep.first, state
            outputs, state = self.body.step(*inputs, **more)
        else:
            outputs = self.body(features, training=False, **more)
        return self._heads(outputs, mask), state

    def unroll(self, steps: TimeStep, state: Nest = ()):
        features, mask = split_mask(steps.observation)
        if self._recurrent:
            outputs, state = self.body.unroll(features, steps.first, state)
        else:
            outputs = nest.batch_apply(lambda x: self.body(x, training=False), features)
        return self._heads(outputs, mask), state

    def _heads(self, outputs: dict, mask) -> ActorCriticHeads:
        outputs = {k: tf.cast(x, tf.float32) for k, x in outputs.items()}
        value = outputs.get("value", ())
        rank = outputs["policy"].shape.rank
        if "value" in outputs and value.shape.rank == rank:  # a user's [..., 1]
            value = tf.squeeze(value, -1)
        features = outputs.get("features", ())
        if self.state_noise is not None:
            std = self.state_noise(features)
        else:
            std = self._std.of(self.trained_std) if self.family.needs_std else None
        policy = self.family.make(outputs["policy"], std=std, mask=mask)
        return ActorCriticHeads(policy, value, features)


def actor_critic(
    spec: EnvSpec,
    config: NetworkConfig = NetworkConfig(),
    sde: bool = False,
    seen: Sequence[gymnasium.Space] = (),
) -> ActorCritic:
    """Build the built-in network for an environment.

    Vectors go through an MLP, images through a CNN, nested observations through both,
    concatenated. With a core the network is recurrent. ``sde`` makes noise a function
    of the state. ``seen`` are the parts of the observation space that the policy and
    the value see, which then share nothing; none: both see all of it.
    """
    encoders = [Encoder(x, config.cnn) for x in seen or [spec.observation_space]]
    recurrent = config.core != "none"
    hidden = config.hidden
    if hidden is None and all(encoder.is_single_image for encoder in encoders):
        hidden = CORE_BEHIND_IMAGE if recurrent else ()
    elif hidden is None:
        hidden = config.USUAL
    family = distributions.for_space(spec.action_space)
    shared = recurrent and config.value_core == "shared"
    if shared and seen:
        raise UserError(
            "network.value_core is shared, but the value does not see what the actor "
            "sees; set --algorithm.network.value_core=own, or none, or leave "
            "actor_keys and critic_keys out"
        )
    count = 1 if shared or seen else 2  # of towers
    for encoder in encoders:
        encoder.check_size(count * hidden[0] if hidden else family.size + 1)
    options = head_options(config, family) | ({"features": True} if sde else {})
    if recurrent:
        options |= {"core": config.core, "value_core": config.value_core}
    options |= {"value_encoder": encoders[1]} if seen else {}
    towers = RecurrentTowers if recurrent else Towers
    body = towers(encoders[0], hidden, config.activation, family.size, **options)
    return ActorCritic(body, spec, config, sde)


def _check_sde(family: distributions.Family, spec: EnvSpec) -> None:
    if family.parts or not family.needs_std:
        raise UserError(
            f"exploration is sde, but the action space is {spec.action_space}; noise "
            "that is a function of the state needs a Box of floats, leave "
            "--algorithm.exploration out"
        )


def head_options(config: NetworkConfig, family: distributions.Family) -> dict[str, Any]:
    """Return the options of the heads of ``Towers`` for a family of policies.

    UserError if it has not only means and they are to be squashed.
    """
    mean = config.mean if family.needs_std else "linear"
    if family.parts and mean != "linear":
        raise UserError(
            "network.mean is tanh, but actions have several parts; use "
            "--algorithm.network.squash, which keeps those of a Box in their bounds"
        )
    return {
        "initializer": config.initializer,
        "policy_scale": config.policy_scale,
        "mean": mean,
    }


def added_loss(network: keras.Model) -> tf.Tensor:
    """Return the loss that layers added in the last call, f32 ``[]``; 0 if none.

    It sums regularizers and ``add_loss``, and clears them: their tensors are valid only
    in this graph. So read it once, right after the call and in the same graph.
    """
    total = tf.add_n([tf.zeros([]), *(tf.cast(x, tf.float32) for x in network.losses)])
    network._clear_losses()
    return total


def convolves(
    network: keras.Model, function: Callable[..., tf.Tensor], *arguments: Nest
) -> bool:
    """Return True if a function that needs all layers of a network convolves."""
    if all(_is_plain(layer) for layer in layers(network)):
        return False  # known without a graph, which takes as long as the network
    traced = tf.function(function, autograph=False)
    graph = traced.get_concrete_function(*arguments).graph.as_graph_def()
    network._clear_losses()  # they belong to that graph
    inside = [node for function in graph.library.function for node in function.node_def]
    return any("Conv" in node.op for node in [*graph.node, *inside])


def _is_plain(layer: keras.layers.Layer) -> bool:
    """Return whether a layer has no convolution but those of layers inside it."""
    kind = type(layer)
    # A functional model also has operations that are no layers, such as keras.ops.conv.
    inside = getattr(layer, "operations", ())
    return kind.__module__.startswith("tfagents_batch.") or (
        kind.__module__.startswith("keras.")
        and kind.__name__ in _PLAIN
        and all(isinstance(part, keras.layers.Layer) for part in inside)
    )


def dummy_steps(spec: EnvSpec) -> TimeStep:
    """Return steps ``[1, 2]`` of zeros."""
    zeros = nest.map(
        lambda s: tf.zeros(s.shape, s.dtype), nest.specs(spec.observation_space, (1, 2))
    )
    flag = tf.zeros([1, 2], tf.bool)
    return TimeStep(zeros, tf.zeros([1, 2]), ~flag, flag, flag, {})


def layers(model: keras.layers.Layer) -> list[keras.layers.Layer]:
    """Return every layer inside a model or layer, at any depth."""
    return list(model._flatten_layers(include_self=False, recursive=True))


def named_variables(network: keras.Model) -> dict[str, keras.Variable]:
    """Return every variable by position; Keras' names differ between processes."""
    return numbered(network.variables)


def numbered(variables: Sequence[keras.Variable]) -> dict[str, keras.Variable]:
    """Return variables by their position and name."""
    return {f"{i:03d}-{x.name}": x for i, x in enumerate(variables)}


def split_mask(observation: Nest) -> tuple[Nest, tf.Tensor | None]:
    """Return an observation without its action mask, and the mask as bool, or None."""
    if isinstance(observation, Remembered):
        rest, mask = split_mask(observation.observation)
        return observation._replace(observation=rest), mask
    if not isinstance(observation, dict) or ACTION_MASK not in observation:
        return observation, None
    features = {k: v for k, v in observation.items() if k != ACTION_MASK}
    return features, tf.cast(observation[ACTION_MASK], tf.bool)
