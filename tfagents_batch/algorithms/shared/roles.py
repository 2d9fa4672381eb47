"""Roles of variables, by which an algorithm takes over what another one has learned.

Names of variables in a checkpoint are positions, and equal shapes may mean different
things: logits of actions are no action values. So variables are found by what they do
in an algorithm, and ``FROM`` says which algorithms mean the same by a role.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable
from typing import Any, NamedTuple

import keras

from tfagents_batch.nn.actor import ActorNetwork
from tfagents_batch.nn.layers.blocks import Towers
from tfagents_batch.nn.networks import ActorCritic, NetworkConfig
from tfagents_batch.nn.policies.box import SquashedNormal
from tfagents_batch.nn.q_network import QConfig, QNetwork

# Algorithms whose agents an algorithm can start from, besides its own. Both must have a
# network of the same outputs: values, or an actor whose means are squashed by tanh.
FROM = {
    "sac": ("bc", "cql", "crr", "crr_discrete", "iql"),
    "td3": ("bc", "cql", "crr", "iql", "td3_bc"),
    "dqn": ("bcq",),
    "ppo": ("bc", "distill"),
    "a2c": ("bc", "distill"),
}
# Those of them with the same variables, which are taken by their names.
ALIKE = {"ppo": ("distill",), "a2c": ("distill",)}
GAMMA = 0.02  # largest difference of discount factors without a warning
# Settings that two algorithms need to have in common, if both have them.
_SAME = "network.hidden", "network.activation", "network.dueling", "num_critics"
_SAME += "network.layer_norm", "critic.layer_norm", "critic.hidden"
_SAME += "network.body", "network.core"
_OF_CRITICS = {"quantiles": 0, "critic.batch_renorm": False}  # as critics without have
_NORMALIZES = "normalize_observation", "normalize_return"
# Values of an actor-critic's settings with which it acts like an imitator.
_BOX = {"network.mean": "tanh", "network.squash": False, "network.scale_actions": True}
_VALUES = {"network.noisy": False, "distribution": "mean"}

LAYERS, MEAN, LOGITS = "actor's layers", "mean action", "logits"
# Both have a variable log_std, but only one is the standard deviation of actions.
BEFORE, AFTER = "std before tanh", "std after tanh"
STATE_NOISE = "std of noise by states"
VALUES, FILTER = "action values", "filter of actions"
STATE_VALUES, TARGET_ACTOR = "values of states", "target actor"
# Role of the variables that a learner saves with ``learner/<group>``.
_LEARNED = {
    "critics": "critics",
    "targets": "target critics",
    "target_actor": TARGET_ACTOR,
    "log_temperature": "temperature",
    "log_cql_scale": "weight of the conservative loss",
    "value": STATE_VALUES,
    "target": "target action values",
}

Roles = dict[str, list[keras.Variable]]


class Taken(NamedTuple):
    """Roles of a new agent that began as another one, and of that one."""

    taken: list[str]  # as the other agent has them
    derived: list[str]  # from what was taken
    new: list[str]  # initial weights
    left: list[str]  # the new agent does not have them


class Misfit(ValueError):
    """Agents whose variables differ; the text says how."""


def of(agent: Any) -> Roles:
    """Return the variables of an agent by their roles; without optimizers."""
    network = agent.policy.network
    found = _of_network(network, isinstance(agent.policy, SquashedNormal))
    for name, variable in agent.learner.named_variables().items():
        part, group, *_ = name.split("/")
        if part == "learner" and group in _LEARNED:
            found.setdefault(_LEARNED[group], []).append(variable)
    if getattr(agent.config, "temperature", None) is not None:
        found.pop("temperature", None)  # it is a setting
    if TARGET_ACTOR in found:
        acting = _acting(found)
        pairs = zip(network.variables, found[TARGET_ACTOR], strict=True)
        found[TARGET_ACTOR] = [own for x, own in pairs if id(x) in acting]
    return found


def differences(old: Any, new: Any, box: bool) -> dict[str, tuple[Any, Any]]:
    """Return settings that the meaning or shape of weights depends on and that differ.

    ``old`` and ``new`` are the settings of two algorithms, ``box`` whether actions are
    a Box. The values are what a new run has, and what it needs.
    """
    needed = {}
    for name in _SAME:
        values = [_setting(x, name) for x in (old, new)]
        if None not in values:
            needed[name] = values[0]
    if None not in (_setting(x, "num_critics") for x in (old, new)):
        for name, without in _OF_CRITICS.items():
            if _setting(new, name) is not None:
                needed[name] = _setting(old, name) or without
    # Agents of logged rows do not normalize, and critics are in units of raw rewards.
    normalizes = [x for x in _NORMALIZES if _setting(new, x) is not None]
    if _setting(old, "gamma") is None:
        normalizes = normalizes[:1]
    needed |= {name: _setting(old, name) or False for name in normalizes}
    if isinstance(new.network, NetworkConfig) and box:
        needed |= _BOX
    if isinstance(new.network, QConfig):
        needed |= _VALUES
    own = {name: _setting(new, name) for name in needed}
    return {name: (own[name], x) for name, x in needed.items() if own[name] != x}


def take(old: Any, new: Any) -> Taken:
    """Copy to a new agent what it has in common with another one, by roles.

    The target actor is a copy of the actor, if the other agent has none. Target critics
    begin as copies of critics anyway.

    Raises:
      Misfit: if shapes differ, before anything is copied.
    """
    theirs, own = of(old), of(new)
    taken = [role for role in own if role in theirs]
    pairs = {role: (theirs[role], own[role]) for role in taken}
    derived = []
    if TARGET_ACTOR in own and TARGET_ACTOR not in taken:
        derived = [TARGET_ACTOR]
    if not {LAYERS, VALUES} & {*taken}:
        raise Misfit("its network has other parts")
    for role, both in pairs.items():
        shapes = itertools.zip_longest(*([tuple(x.shape) for x in y] for y in both))
        if wrong := [x for x in shapes if x[0] != x[1]]:
            before, here = ("no variable" if x is None else x for x in wrong[0])
            raise Misfit(f"{role}: {before} in that run, {here} in this one")
    for both in pairs.values():
        _assign(*both)
    if derived:
        acting = _acting(own)
        actor = [x for x in new.policy.network.variables if id(x) in acting]
        _assign(actor, own[TARGET_ACTOR])
    new_roles = [role for role in own if role not in (*taken, *derived)]
    return Taken(taken, derived, new_roles, [x for x in theirs if x not in taken])


def _of_network(network: Any, squashed: bool) -> Roles:
    """Return the roles of a policy's network."""
    if isinstance(network, ActorNetwork):
        std = BEFORE if squashed else AFTER
        heads = {"mean": MEAN, "action": MEAN, "log_std": std, "logits": LOGITS}
        outputs = zip(network.names, network.heads, strict=True)
        layers = _variables(network.encoder, network.tower)
        found = {LAYERS: layers} | {heads[k]: head.variables for k, head in outputs}
        noise = network.state_noise
        return found | ({} if noise is None else {STATE_NOISE: noise.variables})
    if isinstance(network, ActorCritic) and isinstance(network.body, Towers):
        body, box = network.body, network.family.needs_std
        layers = _variables(body.encoder, body.policy_tower)
        values = _variables(body.value_tower, body.value_head)
        found = {LAYERS: layers, STATE_VALUES: values}
        found[MEAN if box else LOGITS] = body.policy_head.variables
        return found | ({"std": [network.trained_std]} if box else {})
    if isinstance(network, QNetwork):
        return {VALUES: network.variables}
    if isinstance(getattr(network, "values", None), QNetwork):  # of BCQ
        return {VALUES: network.values.variables, FILTER: network.imitator.variables}
    return {}


def _variables(*parts: Any) -> list[keras.Variable]:
    return [x for part in parts for x in part.variables]


def _acting(roles: Roles) -> set[int]:
    """Return the identities of an actor's variables that its greedy actions need."""
    return {id(x) for role in (LAYERS, MEAN) for x in roles[role]}


def _assign(old: Iterable[keras.Variable], new: Iterable[keras.Variable]) -> None:
    for source, variable in zip(old, new, strict=True):
        variable.assign(source.value)


def _setting(settings: Any, name: str) -> Any:
    """Return a setting, the usual one for hidden layers; None if there is none."""
    try:
        value = operator.attrgetter(name)(settings)
    except AttributeError:
        return None
    if name == "critic.hidden" and value is None:
        value = settings.network.hidden
    if name.endswith(".hidden") and value is None:
        return settings.network.USUAL
    return value
