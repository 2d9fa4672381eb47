"""Contenders: the module, the options and the interpreter of each.

Each setting of a peer is a separate contender; tables show a peer's best one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from benchmarks.work import machine


class Contender(NamedTuple):
    """Description of a contender.

    Attributes:
      peer: library; tables show the best contender of each peer.
      kind: kind of the peer's vectorisation, or another name of a group of settings.
      setting: difference from the other contenders of its kind.
      module: module of this package to run.
      options: keyword arguments of the module's ``start``.
      interpreter: interpreter to run it in: "ours" is the command's own. "peers",
        "tf_agents", "batch_ppo" and "sample_factory" may be others, which
        ``benchmarks.make_environments`` creates.
    """

    peer: str
    kind: str
    setting: str = ""
    module: str = ""
    options: Mapping[str, Any] = {}
    interpreter: str = "ours"


OURS, GYMNASIUM, SB3 = "tfagents_batch", "Gymnasium", "Stable-Baselines3"
LIMIT = "limit"  # speed of the environments themselves
ASYNC, SYNC = "AsyncVectorEnv", "SyncVectorEnv"
SUBPROC, DUMMY = "SubprocVecEnv", "DummyVecEnv"
SBX, TF_AGENTS, BATCH_PPO = "SBX", "TF-Agents", "batch-ppo"
JAX = "JAX loop"  # written for these benchmarks
# Our own baselines, and the peer with an asynchronous actor-critic.
A3C, LOCKSTEP, SAMPLE_FACTORY = "A3C mode", "lock step", "Sample Factory"
ONE, ALL = "1 thread", "a thread per core"

CORES = machine.cores()
# Threads of a peer's library: suffix of the contender's name, setting, number.
_THREADS = (("", ONE, 1), ("_cores", ALL, CORES))
# Our compile modes: suffix of the contender's name, mode.
_MODES = (("", "auto"), ("_update", "update"), ("_off", "off"))


def _stepping() -> dict[str, Contender]:
    """Return the contenders that only step environments."""
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
    """Return our training contenders: compile modes, and convolutions in bfloat16."""
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
        found[f"a2c_ours{end}"] = Contender(
            OURS, "A2C", f"compile={mode}", "ppo_ours", {"compile": mode}
        )
        found[f"ppo_ours_preset{end}"] = Contender(
            OURS, "PPO", f"compile={mode}", "ppo_ours_preset", {"compile": mode}
        )
    return found


def _training_peers() -> dict[str, Contender]:
    """Return the peers' training contenders: vectorisations times threads."""

    def peer(
        library: str, kind: str, setting: str, module: str, **options: Any
    ) -> Contender:
        return Contender(library, kind, setting, module, options, "peers")

    found = {}
    for end, setting, threads in _THREADS:
        only = {"threads": threads}

        for name, kind, how in (
            ("ppo_sb3", DUMMY, "dummy"),
            ("ppo_sb3_subproc", SUBPROC, "forkserver"),
            ("a2c_sb3", DUMMY, "dummy"),
            ("a2c_sb3_subproc", SUBPROC, "forkserver"),
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
        | _tensorflow_peer(TF_AGENTS, "tf_agents")
        | _tensorflow_peer(BATCH_PPO, "batch_ppo")
    )


def _off_policy(algorithm: str) -> dict[str, Contender]:
    """Return the contenders that train with a replay, ours and the peers'."""
    found, name = {}, algorithm.upper()
    for end, mode in _MODES:
        found[f"{algorithm}_ours{end}"] = Contender(
            OURS, name, f"compile={mode}", "off_policy_ours", {"compile": mode}
        )
    for library, short in ((SB3, "sb3"), (SBX, "sbx")):
        for middle, kind, several in (
            ("", "1 environment", False),
            ("_several", "several environments", True),
        ):
            for end, setting, threads in _THREADS:
                options = {"several": several, "threads": threads}
                found[f"{algorithm}_{short}{middle}{end}"] = Contender(
                    library, kind, setting, f"off_policy_{short}", options, "peers"
                )
    return found


def _tensorflow_peer(library: str, interpreter: str) -> dict[str, Contender]:
    """Return contenders of a peer with another TensorFlow: processes times threads."""
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
                library, kind, setting, module, options, interpreter
            )
    return found


CONTENDERS = {
    **_stepping(),
    **_ours(),
    **_training_peers(),
    **_off_policy("dqn"),
    "dqn_ours_tf": Contender(
        OURS,
        "DQN",
        "environment in TensorFlow",
        "off_policy_ours",
        {"in_graph": True},
    ),
    **_off_policy("sac"),
    **_off_policy("td3"),
    **{
        name: Contender(peer, kind, "", "asynchronous_ours", {"mode": mode})
        for name, peer, kind, mode in (
            ("ga3c_ours", OURS, "GA3C", "ga3c"),
            ("a3c_ours", A3C, "an agent predicts for itself", "a3c"),
            ("a2c_first", OURS, "A2C, first of all", "first"),
            ("a2c_lockstep", LOCKSTEP, "A2C", "lockstep"),
        )
    },
    "appo_sample_factory": Contender(
        SAMPLE_FACTORY,
        "APPO",
        module="appo_sample_factory",
        interpreter="sample_factory",
    ),
    "learn_ours": Contender(OURS, "preset", module="learn_ours"),
    "learn_sb3": Contender(
        SB3, "preset of rl-baselines3-zoo", module="learn_sb3", interpreter="peers"
    ),
}


def settings(prefix: str) -> tuple[str, ...]:
    """Return the names of the contenders that begin with ``prefix``."""
    return tuple(name for name in CONTENDERS if name.startswith(prefix))
