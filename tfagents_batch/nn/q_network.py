"""Networks of action values: ours for any supported observations, or the user's."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import keras
import tensorflow as tf
from gymnasium import spaces as gs

from tfagents_batch import nest, seeds
from tfagents_batch.config import inherited, option
from tfagents_batch.errors import UserError
from tfagents_batch.nn import networks, recurrent_encoder
from tfagents_batch.nn.encoder import (
    Encoder,
    LayerSettings,
    check_mask,
    feature_space,
    numbers,
    refuse_mask,
)
from tfagents_batch.nn.layers import blocks, kernels
from tfagents_batch.nn.layers.noisy import NoisyDense
from tfagents_batch.nn.user import model as user_model
from tfagents_batch.ops import branches
from tfagents_batch.ops.branches import Branches
from tfagents_batch.ops.value_distributions import Distribution, ReturnMean
from tfagents_batch.types import ActionValueHeads, EnvSpec, Nest, Remembered, TimeStep

ACTION_FEATURES = "action_features"  # key in a Dict observation: a row for each action


@dataclasses.dataclass(frozen=True)
class RowQConfig(LayerSettings):
    """Shape of a network of action values."""

    USUAL: ClassVar[tuple[int, ...]] = (128, 128)

    hidden: tuple[int, ...] | None = option(
        None,
        "units of the hidden layers; none: 128,128, or no layer after a CNN",
        least=1,
    )
    dueling: bool = option(
        False, "add a state value and advantages, each with its own hidden layers"
    )
    noisy: bool = option(
        False, "explore by noise in the weights of all layers but CNNs"
    )
    layer_norm: bool = option(
        False, "normalize the inputs of each hidden layer's activation (LayerNorm)"
    )

    def check(self, path: str = "") -> RowQConfig:
        """Return the checked settings; see ``LayerSettings.check``."""
        if self.noisy and self.layer_norm:
            raise UserError(
                f"{path}noisy and {path}layer_norm are both true; use one of them"
            )
        return super().check(path)


@dataclasses.dataclass(frozen=True)
class QConfig(RowQConfig):
    """Shape of a network of action values that may have memory."""

    core: networks.Core = inherited(networks.NetworkConfig, "core", default="none")


class QBody(keras.Model):
    """Map observations ``[N, ...]`` to outputs of actions ``[N, A, n]``.

    Dueling networks (Wang et al. 2016, arXiv:1511.06581, eq. 9) add a state value and
    advantages: Q(s, a) = V(s) + A(s, a) - mean over valid actions of A(s, .). Choices
    of several branches have one state value, and each branch has its own mean.

    If actions have features, these are an input, and each action has one pass through
    the layers: Q(s, a) of any set of actions.

    Args:
      encoder: layer or model from observations to features ``[N, F]``; maybe a
        ``RecurrentEncoder``.
      hidden: units of the hidden layers, of each tower if there are two.
      branches: choices of an action, A in all branches.
      outputs: n, outputs of each choice.
      config: activation, initializer, ``dueling`` and ``noisy``.
      action_encoder: layer that flattens ``ACTION_FEATURES`` ``[N, A, ...]`` of
        observations and scales integers; None if there are none.
    """

    def __init__(
        self,
        encoder,
        hidden: tuple[int, ...],
        branches: Branches,
        outputs: int,
        config: RowQConfig,
        action_encoder: keras.layers.Layer | None = None,
    ):
        super().__init__(name="q_network", dtype="float32")
        self.encoder, self.action_encoder = encoder, action_encoder
        self.branches, self.width = branches, outputs
        self.actions = actions = branches.size
        width = outputs * (actions if action_encoder is None else 1)
        sizes = {"q": width}
        if config.dueling:
            sizes = {"value": outputs, "advantage": width}
        self.towers = [_tower(hidden, n, config, name) for name, n in sizes.items()]

    def build(self, observation_shape):
        """Leave it to the first call, which Keras would otherwise trace before."""

    def call(self, observation, valid=None, noise=()):
        if isinstance(observation, Remembered):
            features, observation = observation
        elif self.action_encoder is None:
            features = self.encoder(observation)
        else:
            rest = {k: v for k, v in observation.items() if k != ACTION_FEATURES}
            features = self.encoder(rest)
        rows = features
        if self.action_encoder is not None:
            by_action = self.action_encoder(observation[ACTION_FEATURES])
            by_action = tf.reshape(by_action, [-1, by_action.shape[1] // self.actions])
            rows = tf.concat([tf.repeat(features, self.actions, 0), by_action], -1)
        noise = noise or [()] * len(self.towers)
        shape = [-1, self.actions, self.width]
        last = tf.reshape(self.towers[-1](rows, self._per_action(noise[-1])), shape)
        if len(self.towers) == 1:
            return last
        value = self.towers[0](features, noise[0])[:, tf.newaxis]
        return value + self.branches.centered(last, valid)

    def noise(self, shape, key: tf.Tensor) -> Nest:
        """Draw the noise of layers that are noisy, see ``QNetwork.noise``."""
        return _noise_of(self.towers, shape, key)

    def _per_action(self, noise: Nest) -> Nest:
        """Repeat noise of rows for all actions of a row; one row is for all."""
        if self.action_encoder is None:
            return noise
        return nest.map(
            lambda x: x if x.shape[0] == 1 else tf.repeat(x, self.actions, 0), noise
        )


class _Tower(blocks.Stack):
    """Hidden layers and a linear head, ``[N, F] -> [N, units]``; maybe all noisy."""

    def __init__(self, layers: list, noisy: bool, **kwargs):
        super().__init__(layers, **kwargs)
        self.noisy = noisy

    def call(self, x, noise=()):
        if not noise:
            return super().call(x)
        for layer, layer_noise in zip(self.stack, noise, strict=True):
            x = layer(x, layer_noise)
        return x

    def noise(self, shape, key: tf.Tensor) -> Nest:
        return _noise_of(self.stack, shape, key)


def _noise_of(layers: list, shape, key: tf.Tensor) -> Nest:
    keys = zip(layers, seeds.split(key, len(layers)), strict=True)
    return tuple(layer.noise(shape, key) for layer, key in keys)


def _tower(
    hidden: tuple[int, ...], units: int, config: RowQConfig, name: str
) -> _Tower:
    kind, activation = config.initializer, config.activation
    if config.noisy:
        layers = [
            NoisyDense(int(size), activation, kernel_initializer=kernels.hidden(kind))
            for size in hidden
        ]
        head = NoisyDense(units, kernel_initializer=kernels.value(kind), name=name)
    else:
        norm = config.layer_norm
        layers = blocks.mlp(hidden, activation, kind, name, norm).stack
        head = blocks.Head(units, kernels.value(kind), name)
    return _Tower([*layers, head], config.noisy, name=f"{name}_tower", dtype="float32")


_DEFAULTS, _MEAN = RowQConfig(), ReturnMean()


class QNetwork(keras.Model):
    """Values of actions of whole numbers, A in all branches, see ``Branches``.

    Args:
      body: ``QBody``, or a user's model from observations ``[N, ...]``, without the
        action mask, to ``{"q": [N, A n]}``.
      spec: spec of the environments.
      distribution: what the n outputs of an action mean.

    Attributes:
      branches: choices of an action; Discrete actions have one branch.
      size: A.
      noisy: True if layers have noise in their weights.
    """

    def __init__(
        self, body: keras.Model, spec: EnvSpec, distribution: Distribution = _MEAN
    ):
        super().__init__(name="action_values", dtype="float32")
        self.body, self.branches = body, choices(spec)
        self.size = self.branches.size
        self.noisy = isinstance(body, QBody) and body.towers[0].noisy
        self.distribution = distribution
        # Weights exist before the first program is traced, and shapes are checked.
        steps = networks.dummy_steps(spec)
        state = self.initial_state(steps.first.shape[1])
        self.unroll(steps, state)
        self.built = True
        self.convolves = networks.convolves(
            self, lambda *inputs: self.unroll(*inputs)[0].q, steps, state
        )

    @property
    def encoder(self) -> Any:
        """Encoder of the built-in body; None for a user's model of values."""
        return self.body.encoder if isinstance(self.body, QBody) else None

    def initial_state(self, batch: int) -> Nest:
        encoder = recurrent_encoder.of(self)
        return () if encoder is None else encoder.initial_state(batch)

    def noise(self, shape, key: tf.Tensor) -> Nest:
        """Draw the noise of noisy layers; ``()`` if there are none.

        The leading axes ``[N]`` give every row its own noise, ``[1]`` the same.
        """
        return self.body.noise(shape, key) if self.noisy else ()

    def call(self, timestep: TimeStep, state: Nest = (), noise: Nest = ()):
        timestep, state = recurrent_encoder.remembered(self, timestep, state)
        features, mask = networks.split_mask(timestep.observation)
        return self._heads(features, mask, noise), state

    def unroll(self, steps: TimeStep, state: Nest = ()):
        """Return the values of steps ``[T, B, ...]``, without noise."""
        if (encoder := recurrent_encoder.of(self)) is not None:
            steps, state = encoder.unroll(steps, state)
        heads = nest.batch_apply(
            lambda x: self._heads(*networks.split_mask(x)), steps.observation
        )
        return heads, state

    def _heads(self, features: Nest, mask, noise: Nest = ()) -> ActionValueHeads:
        if isinstance(self.body, QBody):
            outputs = self.body(features, valid=mask, noise=noise, training=False)
        else:
            outputs = self.body(features, training=False)["q"]
        shape = [-1, self.size, self.distribution.size]
        outputs = tf.reshape(tf.cast(outputs, tf.float32), shape)
        return ActionValueHeads(self.distribution.mean(outputs), outputs)


def q_network(
    spec: EnvSpec,
    config: RowQConfig = _DEFAULTS,
    network: Any = None,
    distribution: Distribution = _MEAN,
) -> QNetwork:
    """Return a network of action values.

    Args:
      spec, config: spec of the environments, and shape of the built-in network.
      network: a user's ``keras.Model`` or builder, as in ``user.actor_critic``: it maps
        observations to features ``[N, F]``, to which a head is added, or to
        ``{"q": [N, A n]}``. None uses the built-in network. If actions have features,
        its observations are without them, and it returns features; the hidden layers
        of ``config`` follow.
      distribution: what the n outputs of an action mean; 1 if it is the value.

    Raises:
      UserError: if the actions have other parts, or the network does not fit.
    """
    parts, outputs = choices(spec), distribution.size
    actions = parts.size
    parametric, action_encoder = has_action_features(spec), None
    space = feature_space(spec.observation_space)
    if parametric:
        action_encoder = numbers(space[ACTION_FEATURES])
        space = gs.Dict({k: v for k, v in space.items() if k != ACTION_FEATURES})
    hidden = config.hidden
    if network is not None:
        inner = spec._replace(observation_space=space)
        model = user_model.create(network, inner)
        heads = {"q": actions * outputs}
        if isinstance(user_model.outputs(model, inner, heads), dict):
            if parametric:
                raise UserError(
                    f"model {model.name!r} returns a dict, but actions have features; "
                    "expected features [N, F] of the other observations"
                )
            user_model.warn_of_unused(config, model, ())
            return QNetwork(model, spec, distribution)
        used = ("dueling", "initializer", "noisy")
        used += ("hidden", "activation") if parametric else ()
        used += ("hidden", "core") if config.core != "none" else ()
        user_model.warn_of_unused(config, model, used)
        hidden = config.units if parametric else ()
        encoder = model
    else:
        encoder = Encoder(space, config.cnn)
        if hidden is None:
            single = encoder.is_single_image and not parametric
            hidden = () if single else config.USUAL
        encoder.check_size(hidden[0] if hidden else actions * outputs)
    ignored = ACTION_FEATURES if parametric else ""
    encoder, hidden = recurrent_encoder.with_core(
        encoder, hidden, config, parametric, ignored
    )
    body = QBody(encoder, hidden, parts, outputs, config, action_encoder)
    return QNetwork(body, spec, distribution)


def has_action_features(spec: EnvSpec) -> bool:
    """Return whether observations have a row of features for each action.

    Raises:
      UserError: if the rows are not as many as the actions, or if there is nothing else
        in the observation.
    """
    space = spec.observation_space
    if not isinstance(space, gs.Dict) or ACTION_FEATURES not in space.spaces:
        return False
    rows, actions = space[ACTION_FEATURES], number_of_actions(spec)
    if not isinstance(rows, gs.Box) or rows.shape[:1] != (actions,):
        raise UserError(
            f"observation {ACTION_FEATURES!r} is {rows}; expected a Box of shape "
            f"({actions}, features): a row for each of the {actions} actions"
        )
    if len(feature_space(space).spaces) == 1:
        raise UserError(
            f"the observation has only {ACTION_FEATURES!r}; expected another key with "
            "features of the state"
        )
    return True


def choices(spec: EnvSpec) -> Branches:
    """Return the choices of an action.

    Raises:
      UserError: if actions are not Discrete, MultiDiscrete or MultiBinary.
    """
    found = branches.of(spec.action_space)
    if found is None:
        raise UserError(
            f"the action space is {spec.action_space}, but values of single actions "
            "need Discrete, MultiDiscrete or MultiBinary actions; use sac or td3 for a "
            "Box, sac or ppo for any actions; to learn from logged rows of a Box, use "
            "td3_bc, iql, cql, crr or bc"
        )
    if isinstance(spec.action_space, gs.MultiBinary):
        refuse_mask(spec)
    check_mask(spec, found.size)
    return found


def number_of_actions(spec: EnvSpec) -> int:
    """Return A of a Discrete action space.

    Raises:
      UserError: for any other action space.
    """
    found = choices(spec)
    if found.shape:
        raise UserError(
            f"the action space is {spec.action_space}; expected Discrete; dqn, pqn, "
            "sac and ppo take actions of several choices"
        )
    return found.size
