"""The contenders: one file each, and here what each of them is.

A setting of a peer is a contender of its own; tables show a peer's best one.
"""

from __future__ import annotations

from typing import NamedTuple


class Contender(NamedTuple):
    """What is to know of a contender before it runs.

    Attributes:
      peer: whose it is; the best of a peer's contenders stands for it.
      kind: of the peer's vectorisation, or another name for a group of settings.
      setting: what tells it from the others of its kind.
      interpreter: that it runs in: "ours" is the one of the command, "peers" and
        "tf_agents" may be others (``benchmarks.make_environments`` makes them).
    """

    peer: str
    kind: str
    setting: str = ""
    interpreter: str = "ours"


OURS, GYMNASIUM, SB3 = "tfagents_batch", "Gymnasium", "Stable-Baselines3"
LIMIT = "limit"  # what the environments themselves allow
NATIVE, PORTABLE = "native route", "portable route"
ASYNC, SYNC = "AsyncVectorEnv", "SyncVectorEnv"
SUBPROC, DUMMY = "SubprocVecEnv", "DummyVecEnv"
PPO = "PPO"
SBX, TF_AGENTS, ENVPOOL = "SBX", "TF-Agents", "EnvPool and Stable-Baselines3"
LOOP, JAX = "loop in CleanRL's style", "JAX loop"  # written for these benchmarks
ONE, ALL = "1 thread", "a thread per core"

CONTENDERS = {
    "native": Contender(OURS, NATIVE, "in a compiled loop"),
    "portable": Contender(OURS, PORTABLE, "in a graph's loop"),
    "gymnasium_async": Contender(GYMNASIUM, ASYNC, "shared memory"),
    "gymnasium_async_limited": Contender(
        GYMNASIUM, ASYNC, "shared memory, max_concurrency = cores"
    ),
    "gymnasium_sync": Contender(GYMNASIUM, SYNC),
    "sb3_forkserver": Contender(SB3, SUBPROC, "forkserver", interpreter="peers"),
    "sb3_spawn": Contender(SB3, SUBPROC, "spawn", interpreter="peers"),
    "sb3_dummy": Contender(SB3, DUMMY, interpreter="peers"),
    "bare": Contender(LIMIT, "bare environments", "a process per core"),
    "ppo_ours": Contender(OURS, PPO, "compile=auto"),
    "ppo_ours_update": Contender(OURS, PPO, "compile=update"),
    "ppo_sb3": Contender(SB3, DUMMY, ONE, interpreter="peers"),
    "ppo_sb3_cores": Contender(SB3, DUMMY, ALL, interpreter="peers"),
    "ppo_sb3_subproc": Contender(SB3, SUBPROC, ONE, interpreter="peers"),
    "ppo_sb3_subproc_cores": Contender(SB3, SUBPROC, ALL, interpreter="peers"),
    "ppo_sbx": Contender(SBX, DUMMY, ONE, interpreter="peers"),
    "ppo_sbx_cores": Contender(SBX, DUMMY, ALL, interpreter="peers"),
    "ppo_envpool_sb3": Contender(ENVPOOL, PPO, ONE, interpreter="peers"),
    "ppo_cleanrl": Contender(LOOP, SYNC, ONE, interpreter="peers"),
    "ppo_jax": Contender(JAX, "in-graph CartPole", ONE, interpreter="peers"),
    "ppo_jax_cores": Contender(JAX, "in-graph CartPole", ALL, interpreter="peers"),
    "ppo_tf_agents": Contender(TF_AGENTS, PPO, "one process", interpreter="tf_agents"),
    "ppo_tf_agents_parallel": Contender(
        TF_AGENTS, PPO, "a process per environment", interpreter="tf_agents"
    ),
    "learn_ours": Contender(OURS, "preset"),
    "learn_sb3": Contender(SB3, "preset of rl-baselines3-zoo", interpreter="peers"),
}
