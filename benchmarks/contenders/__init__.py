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


# Our compile modes, and what runs them.
_MODES: Choices = {
    end: (f"compile={mode}", {"compile": mode})
    for end, mode in (("", "auto"), ("_update", "update"), ("_off", "off"))
}
_BFLOAT16: Choices = {
    end: (f"{text}, bfloat16", {**options, "precision": "mixed_bfloat16"})
    for end, (text, options) in _MODES.items()
}
_IN_GRAPH: Choices = {"_tf": ("environment in TensorFlow", {"in_graph": True})}
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
_PROCESSES: Choices = {
    "": ("one process", {"processes": False}),
    "_parallel": ("a process per environment", {"processes": True}),
}
_ASYNC, _NONE = {"vectorisation": "async"}, _only("")
_SYNC = _only(SYNC, vectorisation="sync")
_SF, _ZOO = "sample_factory", _only("preset of rl-baselines3-zoo")
_LIMITED = "shared memory, max_concurrency = cores"
_STARTS: Choices = {
    f"_{name}": (name, {"vectorisation": name}) for name in ("forkserver", "spawn")
}

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
        ("gymnasium_async", GYMNASIUM, "vectors", _only(ASYNC, **_ASYNC), how, "")
        for how in (
            _only("shared memory"),
            {"_limited": (_LIMITED, {"max_concurrency": CORES})},
        )
    ),
    ("gymnasium_sync", GYMNASIUM, "vectors", _SYNC, _NONE, ""),
    ("sb3", SB3, "vectors", _only(SUBPROC, library="sb3"), _STARTS, "peers"),
    (
        "sb3_dummy",
        SB3,
        "vectors",
        {"": _VECTORS[""]},
        _only("", library="sb3"),
        "peers",
    ),
    (
        "bare",
        LIMIT,
        "bare",
        _only("bare environments"),
        _only("a process per core"),
        "",
    ),
    # Training on policy.
    ("ppo_ours", OURS, "ppo_ours", _only("PPO"), {**_MODES, **_IN_GRAPH}, ""),
    ("ppo_ours_bfloat16", OURS, "ppo_ours", _only("PPO"), _BFLOAT16, ""),
    ("ppo_ours_preset", OURS, "ppo_ours", _only("PPO"), _MODES, ""),
    ("a2c_ours", OURS, "ppo_ours", _only("A2C"), _MODES, ""),
    ("ppo_sb3", SB3, "sb3", _VECTORS, _THREADS, "peers"),
    ("a2c_sb3", SB3, "sb3", _VECTORS, _THREADS, "peers"),
    ("ppo_sbx", SBX, "sbx", _only(DUMMY), _THREADS, "peers"),
    ("ppo_jax", JAX, "jax_loop", _only("in-graph CartPole"), _THREADS, "peers"),
    ("ppo_tf_agents", TF_AGENTS, "tf_agents", _PROCESSES, _POOLS, "tf_agents"),
    ("ppo_batch_ppo", BATCH_PPO, "batch_ppo", _PROCESSES, _POOLS, "batch_ppo"),
    # Training with a replay.
    *(
        (f"{name}_ours", OURS, "off_policy_ours", _only(name.upper()), _MODES, "")
        for name in ("dqn", "sac", "td3")
    ),
    ("dqn_ours", OURS, "off_policy_ours", _only("DQN"), _IN_GRAPH, ""),
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
    ("appo_sample_factory", SAMPLE_FACTORY, _SF, _only("APPO"), _NONE, _SF),
    # Learning up to a threshold.
    ("learn_ours", OURS, "learn_ours", _only("preset"), _NONE, ""),
    ("learn_sb3", SB3, "learn_sb3", _ZOO, _NONE, "peers"),
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
