"""Contenders: the module, the options and the interpreter of each setting of a peer."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any, NamedTuple

from benchmarks.work import machine


class Contender(NamedTuple):
    """A library in one setting."""

    peer: str  # library, or another group of settings
    kind: str  # kind of vectorisation, or of what is measured
    setting: str = ""  # difference from the other contenders of its kind
    module: str = ""  # of this package
    options: Mapping[str, Any] = {}  # keyword arguments of the module's ``start``
    interpreter: str = "ours"  # or "peers", "tf_agents", "batch_ppo", "sample_factory"


OURS, GYMNASIUM, SB3 = "tfagents_batch", "Gymnasium", "Stable-Baselines3"
LIMIT = "limit"  # speed of the environments themselves
ASYNC, SYNC = "AsyncVectorEnv", "SyncVectorEnv"
SUBPROC, DUMMY = "SubprocVecEnv", "DummyVecEnv"
SBX, TF_AGENTS, BATCH_PPO = "SBX", "TF-Agents", "batch-ppo"
# Written for these benchmarks.
JAX, TORCH = "JAX loop", "PyTorch loop"
# Our own baseline, and the peer with an asynchronous actor-critic.
A3C, SAMPLE_FACTORY = "A3C mode", "Sample Factory"

CONTENDERS: dict[str, Contender] = {}

# Settings: {end of the contender's name: (text in tables, options)}.
Settings = Mapping[str, tuple[str, Mapping[str, Any]]]
_THREADS: Settings = {
    "": ("1 thread", {"threads": 1}),
    "_cores": ("a thread per core", {"threads": machine.cores()}),
}
_POOLS: Settings = {  # of TensorFlow
    "": ("threads as it chooses", {"threads": None}),
    "_one": ("1 thread", {"threads": 1}),
}
_FORK = "forkserver"
_VECTORS: Settings = {
    "": (DUMMY, {"vectorisation": "dummy"}),
    "_subproc": (SUBPROC, {"vectorisation": _FORK}),
}


def _add(
    name: str,
    peer: str,
    module: str,
    kind: str | Settings = "",
    setting: str | Settings = "",
    interpreter: str = "ours",
    **options: Any,
) -> None:
    """Add a contender for each kind in each setting."""
    kinds = {"": (kind, {})} if isinstance(kind, str) else kind
    settings = {"": (setting, {})} if isinstance(setting, str) else setting
    for (end, (text, more)), (last, (difference, own)) in itertools.product(
        kinds.items(), settings.items()
    ):
        CONTENDERS[f"{name}{end}{last}"] = Contender(
            peer, text, difference, module, {**options, **more, **own}, interpreter
        )


# Environments alone.
for _name, _how in (("native", "a compiled loop"), ("portable", "a graph's loop")):
    _kind = f"{_name} backend"
    _add(_name, OURS, "stepping_ours", _kind, f"in {_how}", backend=_name)
_add("gymnasium_async", GYMNASIUM, "vectors", ASYNC, vectorisation=ASYNC)
_add("gymnasium_sync", GYMNASIUM, "vectors", SYNC, vectorisation=SYNC)
_add("sb3_dummy", SB3, "vectors", DUMMY, "", "peers", vectorisation="dummy")
_add("sb3_subproc", SB3, "vectors", SUBPROC, "", "peers", vectorisation=_FORK)
_add("bare", LIMIT, "bare", "bare environments", "a process per core")
# Training on policy.
_GRAPH = "environment in TensorFlow"
_HALF = "mixed_bfloat16"
_add("ppo_ours", OURS, "ppo_ours", "PPO")
_add("ppo_ours_tf", OURS, "ppo_ours", "PPO", _GRAPH, in_graph=True)
_add("ppo_ours_bfloat16", OURS, "ppo_ours", "PPO", "bfloat16", precision=_HALF)
_add("ppo_ours_preset", OURS, "ppo_ours", "PPO")
_add("a2c_ours", OURS, "ppo_ours", "A2C")
_add("ppo_sb3", SB3, "sb3", _VECTORS, _THREADS, "peers")
_add("a2c_sb3", SB3, "sb3", _VECTORS, _THREADS, "peers")
_add("ppo_sbx", SBX, "sbx", DUMMY, _THREADS, "peers")
_add("ppo_jax", JAX, "jax_loop", "in-graph CartPole", _THREADS, "peers")
_add("ppo_tf_agents", TF_AGENTS, "tf_agents", "one process", _POOLS, "tf_agents")
_add("ppo_batch_ppo", BATCH_PPO, "batch_ppo", "one process", _POOLS, "batch_ppo")
# Training with a replay.
for _name in ("dqn", "sac", "td3"):
    _add(f"{_name}_ours", OURS, "off_policy_ours", _name.upper())
    _add(f"{_name}_sb3", SB3, "sb3", DUMMY, _THREADS, "peers")
    _add(f"{_name}_sbx", SBX, "sbx", DUMMY, _THREADS, "peers")
_add("droq_ours", OURS, "off_policy_ours", "DroQ")
_add("droq_sbx", SBX, "sbx", DUMMY, _THREADS, "peers")
_add("tqc_ours", OURS, "off_policy_ours", "TQC")
_add("tqc_sb3", SB3, "sb3", DUMMY, _THREADS, "peers")
_add("tqc_sbx", SBX, "sbx", DUMMY, _THREADS, "peers")
_GRU = "SAC with a GRU"
_add("sac_gru_ours", OURS, "off_policy_ours", _GRU)
_add("sac_gru_torch", TORCH, "torch_recurrent", _GRU, _THREADS, "peers")
# Asynchronous training.
_ASYNCHRONOUS = "asynchronous_ours"
_add("ga3c_ours", OURS, _ASYNCHRONOUS, "GA3C", mode="ga3c")
_add("a3c_ours", A3C, _ASYNCHRONOUS, "an agent predicts for itself", mode="a3c")
_SF = "sample_factory"
_add("appo_sample_factory", SAMPLE_FACTORY, _SF, "APPO", interpreter=_SF)


def settings(prefix: str) -> tuple[str, ...]:
    """Return the names of the contenders that begin with ``prefix``."""
    return tuple(name for name in CONTENDERS if name.startswith(prefix))
