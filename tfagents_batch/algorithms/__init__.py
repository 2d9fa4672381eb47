"""Algorithms by name: ``REGISTRY[name] = (class, its Config)``."""

from tfagents_batch.algorithms import dqn, ppo

REGISTRY = {"ppo": (ppo.PPO, ppo.Config), "dqn": (dqn.DQN, dqn.Config)}
DEFAULT = "ppo"
