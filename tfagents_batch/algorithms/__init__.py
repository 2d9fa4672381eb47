"""Algorithms by name: ``REGISTRY[name] = (class, its Config)``."""

from tfagents_batch.algorithms import (
    a2c,
    bc,
    bcq,
    crr,
    crr_discrete,
    dqn,
    iql,
    ppo,
    pqn,
    reinforce,
    sac,
    sac_settings,
    td3,
)

REGISTRY = {
    "ppo": (ppo.PPO, ppo.Config),
    "a2c": (a2c.A2C, a2c.Config),
    "ga3c": (a2c.A2C, a2c.GA3CConfig),
    "reinforce": (reinforce.Reinforce, reinforce.Config),
    "dqn": (dqn.DQN, dqn.Config),
    "pqn": (pqn.PQN, pqn.Config),
    "bc": (bc.BC, bc.Config),
    "bcq": (bcq.BCQ, bcq.Config),
    "crr_discrete": (crr_discrete.CRRDiscrete, crr_discrete.Config),
    "sac": (sac.SAC, sac.Config),
    "td3": (td3.TD3, td3.Config),
    "ddpg": (td3.TD3, td3.DDPGConfig),
    "td3_bc": (td3.TD3, td3.TD3BCConfig),
    "cql": (sac.SAC, sac_settings.CQLConfig),
    "iql": (iql.IQL, iql.Config),
    "crr": (crr.CRR, crr.Config),
}
