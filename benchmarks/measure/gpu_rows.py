"""Rows of ``benchmarks.gpu``: what needs a GPU, declared as data."""

from __future__ import annotations

import dataclasses
import importlib.util
from collections.abc import Mapping
from typing import Any, NamedTuple

from benchmarks.measure import rows
from benchmarks.work.works import Stepping, Training


class Run(NamedTuple):
    """One figure, of a contender in one setting."""

    setting: str  # in tables
    contender: str
    work: Any
    options: Mapping[str, Any] = {}  # besides those of the contender
    against: str = ""  # setting with which it is compared


class Row(NamedTuple):
    """Runs that start, and compile, together; then they are measured one at a time."""

    title: str
    unit: str
    seconds: float  # time limit
    runs: tuple[Run, ...]
    package: str = ""  # that all runs need


_CPU, _AUTO = {"device": "cpu"}, {"device": "gpu"}
_FULL = {"device": "gpu", "compile": "full"}
_TWO, _ONE = "two programs", "one program on the GPU"
_SPEED = "env steps/s"


def _jax(num_envs: int, length: int, minibatch: int, block: int) -> Row:
    work = Training(
        "CartPole-v1",
        num_envs=num_envs,
        rollout_length=length,
        epochs=4,
        minibatch_size=minibatch,
        steps=10_000_000,
        block=block,
    )
    runs = (
        Run(_ONE, "ppo_ours_tf", work, _AUTO, against="JAX loop"),
        Run("JAX loop", "ppo_jax", work),
    )
    title = f"PPO, CartPole-v1 in the graph, {num_envs} x {length}"
    return Row(title, _SPEED, 55, runs)


def _actor_critic(algorithm: str) -> Row:
    env = "halfcheetah" if importlib.util.find_spec("mujoco") else "pendulum"
    row = rows.ACTOR_CRITIC[f"{algorithm}-{env}"]
    runs = (
        Run(_TWO, row.subject, row.work, _AUTO),
        Run(_ONE, row.subject, row.work, _FULL, against=_TWO),
    )
    return Row(row.title, "updates/s", 45, runs)


def _pong() -> Row:
    row, half = rows.TRAINING["ppo-pong"], "{}, bfloat16"
    runs = [
        Run(_TWO, row.subject, row.work, _AUTO),
        Run(_ONE, row.subject, row.work, _FULL, against=_TWO),
    ]
    for run in tuple(runs):
        options = {**run.options, "precision": "mixed_bfloat16"}
        setting = half.format(run.setting)
        runs.append(run._replace(setting=setting, options=options, against=_TWO))
    return Row(row.title, _SPEED, 60, tuple(runs), "ale_py")


def _ga3c() -> Row:
    """Return GA3C over A3C on the CPU, by size of the network as in the paper."""
    runs = []
    for stride in (4, 3, 2, 1):
        row = rows.ASYNCHRONOUS[f"ga3c-pong-stride{stride}"]
        ours, theirs = f"stride {stride}", f"A3C on the CPU, stride {stride}"
        runs.append(Run(ours, row.subject, row.work, _AUTO, against=theirs))
        runs += [Run(theirs, rival, row.work, _CPU) for rival in row.rivals]
    title = "GA3C, ALE/Pong-v5, 16 agents"
    return Row(title, _SPEED, 75, tuple(runs), "ale_py")


def _step() -> Row:
    work, cpu = Stepping("CartPole-v1", 64), "CPU's program"
    runs = (
        Run(cpu, "native", work, _CPU | {"batched": True}),
        Run("GPU's program", "native", work, _AUTO | {"batched": True}, against=cpu),
    )
    return Row("a step of 64 CartPole-v1", "µs", 20, runs)


def _pendulum() -> Row:
    runs = []
    for hidden in ((64, 64), (1024, 1024)):
        units = "{} x {}".format(*hidden)
        row = rows.TRAINING["ppo-pendulum-p3"]
        work = dataclasses.replace(row.work, hidden=hidden)
        ours, cpu = f"{units}, GPU", f"{units}, CPU"
        runs.append(Run(ours, row.subject, work, _AUTO, against=cpu))
        runs.append(Run(cpu, row.subject, work, _CPU))
    return Row("PPO, Pendulum-v1, 64 x 128, by units", _SPEED, 55, tuple(runs))


ROWS = {
    "cartpole-4096": _jax(4096, 32, minibatch=16_384, block=20),
    "cartpole-64": _jax(64, 128, minibatch=2048, block=50),
    "sac": _actor_critic("sac"),
    "td3": _actor_critic("td3"),
    "pong": _pong(),
    "ga3c": _ga3c(),
    "step": _step(),
    "pendulum": _pendulum(),
}
