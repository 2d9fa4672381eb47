"""Algorithms by name: ``REGISTRY[name] = (class, its Config)``."""

from tfagents_batch.algorithms import dqn, ppo, sac, td3

REGISTRY = {
    "ppo": (ppo.PPO, ppo.Config),
    "dqn": (dqn.DQN, dqn.Config),
    "sac": (sac.SAC, sac.Config),
    "td3": (td3.TD3, td3.Config),
    "ddpg": (td3.TD3, td3.DDPGConfig),
}
DEFAULT = "ppo"
