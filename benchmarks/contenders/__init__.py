"""Contenders: the module, the options and the interpreter of each.

Each setting of a peer is a separate contender; tables show a peer's best one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from benchmarks.work import machine


class Contender(NamedTuple):
    """A library in one setting.

    ``benchmarks.make_environments`` creates the interpreters other than "ours".
    """

    peer: str  # library; tables show the best contender of each
    kind: str  # kind of vectorisation, or another name of a group of settings
    setting: str = ""  # difference from the other contenders of its kind
    module: str = ""  # of this package
    options: Mapping[str, Any] = {}  # keyword arguments of the module's ``start``
    interpreter: str = "ours"  # or "peers", "tf_agents", "batch_ppo", "sample_factory"


OURS, GYMNASIUM, SB3 = "tfagents_batch", "Gymnasium", "Stable-Baselines3"
LIMIT = "limit"  # speed of the environments themselves
ASYNC, SYNC = "AsyncVectorEnv", "SyncVectorEnv"
SUBPROC, DUMMY = "SubprocVecEnv", "DummyVecEnv"
SBX, TF_AGENTS, BATCH_PPO = "SBX", "TF-Agents", "batch-ppo"
JAX = "JAX loop"  # written for these benchmarks
# Our own baselines, and the peer with an asynchronous actor-critic.
A3C, LOCKSTEP, SAMPLE_FACTORY = "A3C mode", "lock step", "Sample Factory"

CORES = machine.cores()


# {part of the contender's name: (text in tables, options)}
Choices = Mapping[str, tuple[str, Mapping[str, Any]]]


def _only(text: str, **options: Any) -> Choices:
    """Return a choice of one."""
    return {"": (text, options)}


# What runs our training besides a plain run.
_PLAIN: Choices = {
    "": ("", {}),
    "_tf": ("environment in TensorFlow", {"in_graph": True}),
}
_BFLOAT16: Choices = {"": ("bfloat16", {"precision": "mixed_bfloat16"})}
# Threads of the peers' libraries, of which TensorFlow has pools.
_THREADS: Choices = {
    "": ("1 thread", {"threads": 1}),
    "_cores": ("a thread per core", {"threads": CORES}),
}
_POOLS: Choices = {
    "": ("threads as it chooses", {"threads": None}),
    "_one": ("1 thread", {"threads": 1}),
}
# Environments of the peers.
_VECTORS: Choices = {
    "": (DUMMY, {"vectorisation": "dummy"}),
    "_subproc": (SUBPROC, {"vectorisation": "forkserver"}),
}
_NUMBERS: Choices = {
    "": ("1 environment", {"several": False}),
    "_several": ("several environments", {"several": True}),
}
_NONE, _ONE = _only(""), _only("one process")

# Name, peer, module, kinds, settings, interpreter: a contender for each kind in each
# setting.
_GROUPS = [
    # Environments alone.
    *(
        (name, OURS, "stepping_ours", _only(f"{name} backend", backend=name), how, "")
        for name, how in (
            ("native", _only("in a compiled loop")),
            ("portable", _only("in a graph's loop")),
        )
    ),
    *(
        (
            name,
            peer,
            "vectors",
            _only(kind, vectorisation=how, library=name.partition("_")[0]),
            _NONE,
            interpreter,
        )
        for name, peer, kind, how, interpreter in (
            ("gymnasium_async", GYMNASIUM, ASYNC, "async", ""),
            ("gymnasium_sync", GYMNASIUM, SYNC, "sync", ""),
            ("sb3_subproc", SB3, SUBPROC, "forkserver", "peers"),
            ("sb3_dummy", SB3, DUMMY, "dummy", "peers"),
        )
    ),
    ("bare", LIMIT, "bare", _only("bare environments, a process per core"), _NONE, ""),
    # Training on policy.
    ("ppo_ours", OURS, "ppo_ours", _only("PPO"), _PLAIN, ""),
    ("ppo_ours_bfloat16", OURS, "ppo_ours", _only("PPO"), _BFLOAT16, ""),
    ("ppo_ours_preset", OURS, "ppo_ours", _only("PPO"), _NONE, ""),
    ("a2c_ours", OURS, "ppo_ours", _only("A2C"), _NONE, ""),
    ("ppo_sb3", SB3, "sb3", _VECTORS, _THREADS, "peers"),
    ("a2c_sb3", SB3, "sb3", _VECTORS, _THREADS, "peers"),
    ("ppo_sbx", SBX, "sbx", _only(DUMMY), _THREADS, "peers"),
    ("ppo_jax", JAX, "jax_loop", _only("in-graph CartPole"), _THREADS, "peers"),
    (
        "ppo_tf_agents",
        TF_AGENTS,
        "tf_agents",
        _only("one process"),
        _POOLS,
        "tf_agents",
    ),
    (
        "ppo_batch_ppo",
        BATCH_PPO,
        "batch_ppo",
        _only("one process"),
        _POOLS,
        "batch_ppo",
    ),
    # Training with a replay.
    ("dqn_ours", OURS, "off_policy_ours", _only("DQN"), _PLAIN, ""),
    ("sac_ours", OURS, "off_policy_ours", _only("SAC"), _NONE, ""),
    ("td3_ours", OURS, "off_policy_ours", _only("TD3"), _NONE, ""),
    *(
        (f"{name}_{module}", peer, module, _NUMBERS, _THREADS, "peers")
        for name in ("dqn", "sac", "td3")
        for peer, module in ((SB3, "sb3"), (SBX, "sbx"))
    ),
    # Asynchronous training.
    *(
        (name, peer, "asynchronous_ours", _only(kind, mode=mode), _NONE, "")
        for name, peer, kind, mode in (
            ("ga3c_ours", OURS, "GA3C", "ga3c"),
            ("a3c_ours", A3C, "an agent predicts for itself", "a3c"),
            ("a2c_first", OURS, "A2C, first of all", "first"),
            ("a2c_lockstep", LOCKSTEP, "A2C", "lockstep"),
        )
    ),
    (
        "appo_sample_factory",
        SAMPLE_FACTORY,
        "sample_factory",
        _only("APPO"),
        _NONE,
        "sample_factory",
    ),
    # Learning up to a threshold.
    ("learn_ours", OURS, "learn_ours", _only("preset"), _NONE, ""),
    ("learn_sb3", SB3, "learn_sb3", _VECTORS, _THREADS, "peers"),
]

CONTENDERS = {
    f"{name}{kind}{setting}": Contender(
        peer, text, difference, module, {**options, **more}, interpreter or "ours"
    )
    for name, peer, module, kinds, settings_, interpreter in _GROUPS
    for kind, (text, options) in kinds.items()
    for setting, (difference, more) in settings_.items()
}


def settings(prefix: str) -> tuple[str, ...]:
    """Return the names of the contenders that begin with ``prefix``."""
    return tuple(name for name in CONTENDERS if name.startswith(prefix))
