"""Untrained agents of all kinds, with random weights and statistics."""

from __future__ import annotations

import dataclasses

import gymnasium as gym
import keras
import numpy as np
from gymnasium import spaces as gs

from tfagents_batch import algorithms
from tfagents_batch.config import replace
from tfagents_batch.training.agent import Agent
from tfagents_batch.training.config import RunConfig
from tfagents_batch.types import EnvSpec

VECTOR = gs.Box(-np.inf, np.inf, (3,))
OBSERVATIONS = {
    "vector": VECTOR,
    "mask": gs.Dict({"x": VECTOR, "action_mask": gs.Box(0, 1, (4,), np.int8)}),
    "masks": gs.Dict({"x": VECTOR, "action_mask": gs.Box(0, 1, (5,), np.int8)}),
    "part masks": gs.Dict({"x": VECTOR, "action_mask": gs.Box(0, 1, (3,), np.int8)}),
    "pixels": gs.Box(0, 255, (36, 36, 2), np.uint8),
    "dict": gs.Dict(
        {
            "a": VECTOR,
            "b": gs.Dict({"c": gs.Discrete(3, start=1), "d e": gs.MultiBinary(2)}),
            "f": gs.Box(-5, 5, (2,), np.int16),
        }
    ),
    "tuple": gs.Tuple([VECTOR, gs.MultiDiscrete([2, 4])]),
}
ACTIONS = {
    "discrete": gs.Discrete(4, start=3),
    "multi": gs.MultiDiscrete([2, 3]),
    "binary": gs.MultiBinary([2, 2]),
    "box": gs.Box(np.float32([-1, 0]), np.float32([1, 5])),
    "free": gs.Box(-np.inf, np.inf, (2,)),
    "parts": gs.Dict(
        {
            "kind": gs.Discrete(3, start=1),
            "how far": gs.Tuple(
                [gs.Box(np.float32([-1, 0]), np.float32([1, 5])), gs.MultiBinary(2)]
            ),
        }
    ),
}


def dense(observation_space, action_space):
    """A user's model of observations that are vectors."""
    return keras.Sequential(
        [keras.Input((3,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(8)]
    )


GRU, LSTM = ({"network": {"core": x, "hidden": [8]}} for x in ("gru", "lstm"))
# algorithm, observation, action, settings, network
QUICK = [
    ("ppo", "dict", "discrete", {}, None),
    ("ppo", "vector", "box", LSTM, None),
    ("dqn", "mask", "discrete", {}, None),
    ("dqn", "vector", "discrete", {}, dense),
    ("sac", "vector", "box", {"normalize_observation": True}, None),
    ("dqn", "masks", "multi", {"network": {"dueling": True}}, None),
]
SLOW = [
    *(("ppo", "vector", action, {}, None) for action in ACTIONS if action != "parts"),
    *(("ppo", x, "discrete", {}, None) for x in ("mask", "pixels", "tuple")),
    ("ppo", "masks", "multi", {}, None),
    ("ppo", "dict", "multi", GRU, None),
    ("ppo", "pixels", "discrete", {"network": {"core": "gru"}}, None),
    ("ppo", "vector", "discrete", LSTM, None),
    ("ppo", "vector", "discrete", {}, dense),
    ("ppo", "vector", "box", {"network": {"squash": True}}, None),
    *(("a2c", "vector", action, {}, None) for action in ("discrete", "box")),
    ("a2c", "dict", "binary", GRU, None),
    *(("ga3c", x, "discrete", {}, None) for x in ("vector", "pixels")),
    *(("reinforce", "vector", action, {}, None) for action in ("discrete", "multi")),
    *(("dqn", x, "discrete", {}, None) for x in ("vector", "pixels", "dict")),
    ("dqn", "vector", "discrete", {"network": {"noisy": True}}, None),
    ("dqn", "vector", "discrete", {"network": {"dueling": True}}, None),
    (
        *("dqn", "vector", "discrete"),
        {"distribution": "c51", "v_min": -1.0, "v_max": 1.0},
        None,
    ),
    ("dqn", "vector", "discrete", {"distribution": "qr"}, None),
    *(("sac", x, "discrete", {}, None) for x in ("vector", "mask")),
    *((x, "vector", "box", {}, None) for x in ("td3", "ddpg")),
    *((x, "dict", "box", {}, None) for x in ("sac", "td3")),
    ("sac", "vector", "box", {}, None),
    ("sac", "vector", "box", {}, dense),
    *(
        (x, "mask", "discrete", {"normalize_observation": True}, None)
        for x in ("dqn", "sac", "pqn")
    ),
    *(
        (x, "vector", "box", {"normalize_observation": True}, None)
        for x in ("td3", "ddpg")
    ),
    ("pqn", "dict", "binary", {}, None),
    ("sac", "masks", "multi", {}, None),
    *(("bc", x, "discrete", {}, None) for x in ("vector", "mask")),
    *(("bcq", x, "discrete", {"threshold": 0.9}, None) for x in ("vector", "mask")),
    ("crr_discrete", "mask", "discrete", {}, None),
]


def name(case):
    algorithm, observation, action, settings, network = case
    parts = [algorithm, observation, action, *map(str, settings.values())]
    text = "-".join(parts) + ("-own" if network else "")
    return "".join(x if x.isalnum() else "_" for x in text)


def spec_of(observation, action):
    return EnvSpec(1, OBSERVATIONS[observation], ACTIONS[action], {})


def policy_of(algorithm, observation, action, settings=None, network=None):
    """Return an untrained policy with random weights and statistics, and its spec."""
    kind, config = algorithms.REGISTRY[algorithm]
    keras.utils.set_random_seed(0)
    spec = spec_of(observation, action)
    settings = replace(config(), settings or {})
    policy = kind(settings, spec, network).policy
    generator = np.random.default_rng(0)
    for path, variable in policy.named_variables().items():
        value = np.asarray(variable)
        noise = generator.normal(size=value.shape)
        if path.startswith("statistics"):
            new = {"count": 9 + 0 * value, "mean": noise}
            new = new.get(path.split("/")[-1], 9 * np.abs(noise) + 1)
        else:
            new = value + 0.1 * noise
        variable.assign(new.astype(value.dtype))
    return policy, spec


def agent_of(policy, spec):
    config = dataclasses.replace(RunConfig(), seed=0)
    return Agent(policy, spec, None, config, 10**6)


def rows(space: gym.Space, count: int, seed: int):
    """Return a batch of random values of a space."""
    space.seed(seed)
    batch = gym.vector.utils.create_empty_array(space, count)
    found = [space.sample() for _ in range(count)]
    return gym.vector.utils.concatenate(space, found, batch)
