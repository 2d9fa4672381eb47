"""Registry of the algorithms: ``REGISTRY[name] = (class, its Config)``."""

from tfagents_batch.algorithms import ppo

REGISTRY = {"ppo": (ppo.PPO, ppo.Config)}
DEFAULT = "ppo"
