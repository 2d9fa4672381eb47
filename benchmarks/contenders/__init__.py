"""The contenders: what each of them is, where it is, and how it is set.

A setting of a peer is a contender of its own; tables show a peer's best one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from benchmarks.work import machine


class Contender(NamedTuple):
    """What is to know of a contender before it runs.

    Attributes:
      peer: whose it is; the best of a peer's contenders stands for it.
      kind: of the peer's vectorisation, or another name for a group of settings.
      setting: what tells it from the others of its kind.
      module: of this package, that is run.
      options: keyword arguments of the module's ``start``.
      interpreter: that it runs in: "ours" is the one of the command, "peers",
        "tf_agents" and "batch_ppo" may be others (``benchmarks.make_environments``
        makes them).
    """

    peer: str
    kind: str
    setting: str = ""
    module: str = ""
    options: Mapping[str, Any] = {}
    interpreter: str = "ours"


OURS, GYMNASIUM, SB3 = "tfagents_batch", "Gymnasium", "Stable-Baselines3"
LIMIT = "limit"  # what the environments themselves allow
ASYNC, SYNC = "AsyncVectorEnv", "SyncVectorEnv"
SUBPROC, DUMMY = "SubprocVecEnv", "DummyVecEnv"
SBX, TF_AGENTS, BATCH_PPO = "SBX", "TF-Agents", "batch-ppo"
JAX = "JAX loop"  # written for these benchmarks
ONE, ALL = "1 thread", "a thread per core"

CORES = machine.cores()
# Threads of a peer's library: the end of a contender's name, setting, number.
_THREADS = (("", ONE, 1), ("_cores", ALL, CORES))
# Compile modes of ours, in the same way.
_MODES = (("", "auto"), ("_update", "update"), ("_off", "off"))


def _stepping() -> dict[str, Contender]:
    """Who steps environments, and does nothing else."""
    native, portable = "native backend", "portable backend"

    def gymnasium(kind: str, setting: str = "", **options: Any) -> Contender:
        options["processes"] = kind == ASYNC
        return Contender(GYMNASIUM, kind, setting, "gymnasium_vector", options)

    def sb3(kind: str, setting: str, vectorisation: str) -> Contender:
        options = {"vectorisation": vectorisation}
        return Contender(SB3, kind, setting, "sb3_vector", options, "peers")

    return {
        "native": Contender(
            OURS, native, "in a compiled loop", "ours", {"backend": "native"}
        ),
        "portable": Contender(
            OURS, portable, "in a graph's loop", "ours", {"backend": "portable"}
        ),
        "gymnasium_async": gymnasium(ASYNC, "shared memory"),
        "gymnasium_async_limited": gymnasium(
            ASYNC, "shared memory, max_concurrency = cores", max_concurrency=CORES
        ),
        "gymnasium_sync": gymnasium(SYNC),
        "sb3_forkserver": sb3(SUBPROC, "forkserver", "forkserver"),
        "sb3_spawn": sb3(SUBPROC, "spawn", "spawn"),
        "sb3_dummy": sb3(DUMMY, "", "dummy"),
        "bare": Contender(LIMIT, "bare environments", "a process per core", "bare"),
    }


def _ours() -> dict[str, Contender]:
    """Ours, training: compile modes, and those with convolutions in bfloat16."""
    found = {}
    for name, precision in (("", "float32"), ("_bfloat16", "mixed_bfloat16")):
        for end, mode in _MODES:
            setting = f"compile={mode}{', bfloat16' if name else ''}"
            options = {"compile": mode, "precision": precision}
            found[f"ppo_ours{name}{end}"] = Contender(
                OURS, "PPO", setting, "ppo_ours", options
            )
    found["ppo_ours_tf"] = Contender(
        OURS, "PPO", "environment in TensorFlow", "ppo_ours", {"in_graph": True}
    )
    for end, mode in _MODES:
        found[f"ppo_ours_preset{end}"] = Contender(
            OURS, "PPO", f"compile={mode}", "ppo_ours_preset", {"compile": mode}
        )
    return found


def _training_peers() -> dict[str, Contender]:
    """Everybody else who trains: vectorisations times numbers of threads."""

    def peer(
        whose: str, kind: str, setting: str, module: str, **options: Any
    ) -> Contender:
        return Contender(whose, kind, setting, module, options, "peers")

    found = {}
    for end, setting, threads in _THREADS:
        only = {"threads": threads}

        for name, kind, how in (
            ("ppo_sb3", DUMMY, "dummy"),
            ("ppo_sb3_subproc", SUBPROC, "forkserver"),
        ):
            found[name + end] = peer(
                SB3, kind, setting, "ppo_sb3", vectorisation=how, **only
            )
        found[f"ppo_sbx{end}"] = peer(SBX, DUMMY, setting, "ppo_sbx", **only)
        found[f"ppo_jax{end}"] = peer(
            JAX, "in-graph CartPole", setting, "ppo_jax", **only
        )
    return (
        found
        | _of_tensorflow(TF_AGENTS, "tf_agents")
        | _of_tensorflow(BATCH_PPO, "batch_ppo")
    )


def _of_tensorflow(whose: str, interpreter: str) -> dict[str, Contender]:
    """A peer with a TensorFlow of its own: processes times its threads."""
    found, module = {}, f"ppo_{interpreter}"
    for middle, kind, processes in (
        ("", "one process", False),
        ("_parallel", "a process per environment", True),
    ):
        for end, setting, threads in (
            ("", "threads as it chooses", None),
            ("_one", ONE, 1),
        ):
            options = {"processes": processes, "threads": threads}
            found[module + middle + end] = Contender(
                whose, kind, setting, module, options, interpreter
            )
    return found


CONTENDERS = {
    **_stepping(),
    **_ours(),
    **_training_peers(),
    "learn_ours": Contender(OURS, "preset", module="learn_ours"),
    "learn_sb3": Contender(
        SB3, "preset of rl-baselines3-zoo", module="learn_sb3", interpreter="peers"
    ),
}


def settings(module: str) -> tuple[str, ...]:
    """Names of the contenders that are one module's."""
    return tuple(name for name, x in CONTENDERS.items() if x.module == module)
