"""Algorithms by name: ``REGISTRY[name] = (class, its settings)``."""

from tfagents_batch.algorithms import (
    a2c,
    bc,
    bcq,
    crr,
    dqn,
    iql,
    ppo,
    pqn,
    reinforce,
    sac,
    td3,
)

REGISTRY = {
    "ppo": (ppo.PPO, ppo.PPOConfig),
    "a2c": (a2c.A2C, a2c.A2CConfig),
    "ga3c": (a2c.A2C, a2c.GA3CConfig),
    "reinforce": (reinforce.Reinforce, reinforce.ReinforceConfig),
    "distill": (ppo.PPO, ppo.DistillConfig),
    "dqn": (dqn.DQN, dqn.DQNConfig),
    "pqn": (pqn.PQN, pqn.PQNConfig),
    "bc": (bc.BC, bc.BCConfig),
    "bcq": (bcq.BCQ, bcq.BCQConfig),
    "crr_discrete": (crr.CRRDiscrete, crr.CRRDiscreteConfig),
    "sac": (sac.SAC, sac.SACConfig),
    "td3": (td3.TD3, td3.TD3Config),
    "ddpg": (td3.TD3, td3.DDPGConfig),
    "td3_bc": (td3.TD3, td3.TD3BCConfig),
    "cql": (sac.SAC, sac.CQLConfig),
    "iql": (iql.IQL, iql.IQLConfig),
    "crr": (crr.CRR, crr.CRRConfig),
}
