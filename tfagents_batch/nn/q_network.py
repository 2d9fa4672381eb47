"""Networks of action values: ours for any supported observations, or the user's."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf
from gymnasium import spaces as gs

from tfagents_batch import nest
from tfagents_batch.errors import UserError
from tfagents_batch.nn import networks
from tfagents_batch.nn.encoder import Encoder, feature_space, numbers
from tfagents_batch.nn.q_body import ACTION_FEATURES, Config, QBody
from tfagents_batch.nn.user import model as user_model
from tfagents_batch.ops.value_distributions import Distribution, Mean
from tfagents_batch.types import ActionValueHeads, EnvSpec, Nest, TimeStep

HIDDEN = (128, 128)  # for vector observations
_DEFAULTS, _MEAN = Config(), Mean()


class QNetwork(keras.Model):
    """Values of discrete actions.

    Args:
      body: ``QBody``, or a user's model from observations ``[N, ...]``, without the
        action mask, to ``{"q": [N, A n]}``.
      spec: spec of the environments.
      distribution: what the n outputs of an action mean.

    Attributes:
      size: A, number of actions.
      noisy: True if layers have noise in their weights.
      convolves: True if a convolution is among its operations.
    """

    def __init__(
        self, body: keras.Model, spec: EnvSpec, distribution: Distribution = _MEAN
    ):
        super().__init__(name="action_values", dtype="float32")
        self.body, self.size = body, number_of_actions(spec)
        self.noisy = isinstance(body, QBody) and body.towers[0].noisy
        self.distribution = distribution
        # Weights exist before the first program is traced, and shapes are checked.
        steps = networks.dummy_steps(spec)
        self.unroll(steps, ())
        self.built = True
        self.convolves = networks.convolves(
            self, lambda steps: self.unroll(steps)[0].q, steps
        )

    def noise(self, shape, key: tf.Tensor) -> Nest:
        """Draw the noise of noisy layers; ``()`` if there are none.

        Args:
          shape: leading axes; ``[N]`` gives every row its own noise, ``[1]`` the same.
          key: int32 ``[2]``.
        """
        return self.body.noise(shape, key) if self.noisy else ()

    def call(self, timestep: TimeStep, state: Nest = (), noise: Nest = ()):
        features, mask = networks.split_mask(timestep.observation)
        return self._heads(features, mask, noise), state

    def unroll(self, steps: TimeStep, state: Nest = ()):
        """Return the values of steps ``[T, B, ...]``, without noise."""
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
    config: Config = _DEFAULTS,
    network: Any = None,
    distribution: Distribution = _MEAN,
) -> QNetwork:
    """Return a network of action values.

    Args:
      spec: spec of the environments.
      config: shape of the built-in network.
      network: a user's ``keras.Model`` or builder, as in ``user.actor_critic``: it maps
        observations to features ``[N, F]``, to which a head is added, or to
        ``{"q": [N, A n]}``. None uses the built-in network. If actions have features,
        its observations are without them, and it returns features; the hidden layers
        of ``config`` follow.
      distribution: what the n outputs of an action mean; 1 if it is the value.

    Raises:
      UserError: if the actions are not Discrete, or the network does not fit.
    """
    actions, outputs = number_of_actions(spec), distribution.size
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
        user_model.warn_of_unused(config, model, used)
        hidden = (hidden or HIDDEN) if parametric else ()
        encoder = model
    else:
        encoder = Encoder(space, config.cnn)
        if hidden is None:
            single = encoder.is_single_image and not parametric
            hidden = () if single else HIDDEN
        encoder.check_size(hidden[0] if hidden else actions * outputs)
    body = QBody(encoder, hidden, actions, outputs, config, action_encoder)
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


def number_of_actions(spec: EnvSpec) -> int:
    """Return A of a Discrete action space.

    Raises:
      UserError: for any other action space.
    """
    space = spec.action_space
    if not isinstance(space, gs.Discrete):
        raise UserError(
            f"the action space is {space}, but values of single actions need Discrete "
            "actions; use sac or td3 for a Box, or ppo for any actions; to learn from "
            "logged rows of a Box, use td3_bc, iql, cql, crr or bc"
        )
    return int(space.n)
