"""The networks of batch-ppo (Hafner et al. 2017), as builders and as settings.

Policy and value are two ReLU networks of 200 and 100 units with Glorot's kernels; the
policy starts near its bias, the mean of a Box policy lies within -1 and 1, its standard
deviation is 0.35 at first. The recurrent ones have a GRU of 100 units in the policy,
while the value sees the present observation alone::

    tfb.train(env="Pendulum-v1", network=batch_ppo.recurrent_gaussian)
    ppo.Config(network=batch_ppo.RECURRENT)
"""

from __future__ import annotations

import dataclasses

import gymnasium

from tfagents_batch.errors import UserError
from tfagents_batch.nn import networks
from tfagents_batch.ops import distributions
from tfagents_batch.types import EnvSpec

FEED_FORWARD = networks.Config(
    hidden=(200, 100),
    activation="relu",
    initializer="glorot",
    policy_scale=0.1,
    mean="tanh",
    std="softplus",
    init_std=0.35,
)
RECURRENT = dataclasses.replace(FEED_FORWARD, core="gru", value_core="none")

DISCRETE = "Discrete or MultiDiscrete"
CATEGORICAL = ("Categorical", "MultiCategorical")
GAUSSIAN = ("DiagNormal",)


def feed_forward_gaussian(
    observation_space: gymnasium.Space,
    action_space: gymnasium.Space,
    settings: networks.Config = FEED_FORWARD,
) -> networks.ActorCritic:
    """Two feed-forward networks, for Box actions within -1 and 1.

    Raises:
      UserError: for other actions.
    """
    return _build(observation_space, action_space, settings, GAUSSIAN, "Box")


def feed_forward_categorical(
    observation_space: gymnasium.Space,
    action_space: gymnasium.Space,
    settings: networks.Config = FEED_FORWARD,
) -> networks.ActorCritic:
    """Two feed-forward networks, for Discrete and MultiDiscrete actions.

    Raises:
      UserError: for other actions.
    """
    return _build(observation_space, action_space, settings, CATEGORICAL, DISCRETE)


def recurrent_gaussian(
    observation_space: gymnasium.Space,
    action_space: gymnasium.Space,
    settings: networks.Config = RECURRENT,
) -> networks.ActorCritic:
    """A GRU policy and a feed-forward value, for Box actions within -1 and 1.

    Raises:
      UserError: for other actions.
    """
    return _build(observation_space, action_space, settings, GAUSSIAN, "Box")


def recurrent_categorical(
    observation_space: gymnasium.Space,
    action_space: gymnasium.Space,
    settings: networks.Config = RECURRENT,
) -> networks.ActorCritic:
    """A GRU policy and a feed-forward value, for Discrete and MultiDiscrete actions.

    Raises:
      UserError: for other actions.
    """
    return _build(observation_space, action_space, settings, CATEGORICAL, DISCRETE)


def _build(observation_space, action_space, settings, families, wanted):
    if distributions.for_space(action_space).name not in families:
        kind = "gaussian" if families is GAUSSIAN else "categorical"
        raise UserError(
            f"the action space is {action_space}; a {kind} network needs {wanted}"
        )
    spec = EnvSpec(1, observation_space, action_space, {})
    return networks.actor_critic(spec, settings.check("network."))
