"""The networks of batch-ppo (Hafner et al. 2017), as builders and as settings.

Policy and value are two ReLU networks of 200 and 100 units with Glorot kernels. The
policy's outputs start near their bias. The mean of a Box policy lies within the
bounds of actions, or within -1 and 1 if these are not finite; its initial standard
deviation is 0.35 halves of this range. The recurrent networks have a GRU of 100 units
in the policy, while the value sees only the current observation::

    tfb.train(env="Pendulum-v1", network=batch_ppo.recurrent_gaussian)
    ppo.Config(network=batch_ppo.RECURRENT)

Builders raise a UserError for an action space that they do not support.
"""

from __future__ import annotations

import dataclasses

from gymnasium import Space

from tfagents_batch.errors import UserError
from tfagents_batch.nn import networks
from tfagents_batch.nn.networks import Config
from tfagents_batch.ops.distributions import families
from tfagents_batch.types import EnvSpec

FEED_FORWARD = Config(
    hidden=(200, 100),
    activation="relu",
    initializer="glorot",
    policy_scale=0.1,
    mean="tanh",
    std="softplus",
    init_std=0.35,
)
RECURRENT = dataclasses.replace(FEED_FORWARD, core="gru", value_core="none")
# Per kind of network: its policy families and the action spaces it supports.
FAMILIES = {
    "gaussian": (("DiagNormal",), "Box"),
    "categorical": (("Categorical", "MultiCategorical"), "Discrete or MultiDiscrete"),
}


def feed_forward_gaussian(
    observation_space: Space, action_space: Space, settings: Config = FEED_FORWARD
) -> networks.ActorCritic:
    """Build two feed-forward networks, for Box actions."""
    return _build(observation_space, action_space, settings, "gaussian")


def feed_forward_categorical(
    observation_space: Space, action_space: Space, settings: Config = FEED_FORWARD
) -> networks.ActorCritic:
    """Build two feed-forward networks, for Discrete and MultiDiscrete actions."""
    return _build(observation_space, action_space, settings, "categorical")


def recurrent_gaussian(
    observation_space: Space, action_space: Space, settings: Config = RECURRENT
) -> networks.ActorCritic:
    """Build a GRU policy and a feed-forward value, for Box actions."""
    return _build(observation_space, action_space, settings, "gaussian")


def recurrent_categorical(
    observation_space: Space, action_space: Space, settings: Config = RECURRENT
) -> networks.ActorCritic:
    """Build a GRU policy and a feed-forward value, for (Multi)Discrete actions."""
    return _build(observation_space, action_space, settings, "categorical")


def _build(observation_space, action_space, settings, kind) -> networks.ActorCritic:
    names, wanted = FAMILIES[kind]
    if families.for_space(action_space).name not in names:
        raise UserError(
            f"the action space is {action_space}; a {kind} network needs {wanted}"
        )
    spec = EnvSpec(1, observation_space, action_space, {})
    return networks.actor_critic(spec, settings.check("network."))
