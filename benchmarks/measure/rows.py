"""Comparisons to measure: rows, declared as data."""

from __future__ import annotations

import dataclasses
import fnmatch
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from benchmarks.contenders import (
    A3C,
    ASYNC,
    BATCH_PPO,
    CONTENDERS,
    JAX,
    LIMIT,
    SAMPLE_FACTORY,
    SB3,
    SBX,
    SUBPROC,
    TF_AGENTS,
    TORCH,
    Contender,
    settings,
)
from benchmarks.work.off_policy import OffPolicy, Recurrent
from benchmarks.work.works import (
    Asynchronous,
    PresetTraining,
    Stepping,
    Training,
    Work,
)
from tfagents_batch.errors import UserError
from tfagents_batch.settings.suggest import unknown


class Row(NamedTuple):
    """One comparison."""

    title: str  # in tables
    work: Work  # of every contender
    subject: str  # contender that is compared to the rivals
    goals: Mapping[str, float | None]  # minimum ratios by the peer or kind of rivals
    rivals: tuple[str, ...]

    @property
    def file(self) -> str:
        """Name of the file of its results."""
        return "environments" if isinstance(self.work, Stepping) else "training"

    def goal(self, rival: Contender) -> float | None:
        """Return the minimum ratio to a rival; None if there is no goal."""
        return self.goals.get(rival.kind, self.goals.get(rival.peer))


def _stepping(env: str, num_envs: int, goals: Mapping[str, float] = {}) -> Row:
    """Return a row of environments alone."""
    gymnasium = "gymnasium_async", "gymnasium_sync"
    rivals = "bare", "portable", *gymnasium, "sb3_subproc", "sb3_dummy"
    return Row(f"{num_envs} {env}", Stepping(env, num_envs), "native", goals, rivals)


def _row(title: str, work: Any, subject: str, goals: Mapping[str, float | None]) -> Row:
    """Return a row against all settings of the peers in ``goals``."""
    algorithm = subject.partition("_")[0]
    rivals = (x for x in settings(f"{algorithm}_") if CONTENDERS[x].peer in goals)
    return Row(title, work, subject, goals, tuple(x for x in rivals if x != subject))


ENVIRONMENTS = {
    "cartpole-32": _stepping("CartPole-v1", 32, {ASYNC: 8, SUBPROC: 8, LIMIT: 0.6}),
    "cartpole-8": _stepping("CartPole-v1", 8),
    "halfcheetah-8": _stepping("HalfCheetah-v5", 8, {LIMIT: 0.9}),
}

# Regimes of PPO: many updates, few updates, and mostly environment steps.
REGIMES: dict[str, dict[str, int]] = {
    "p1": {"num_envs": 8, "rollout_length": 256, "epochs": 10, "minibatch_size": 64},
    "p2": {"num_envs": 8, "rollout_length": 128, "epochs": 4, "minibatch_size": 256},
    "p3": {"num_envs": 64, "rollout_length": 128, "epochs": 4, "minibatch_size": 2048},
}
_LONG = {"p1": 60_000, "p2": 200_000, "p3": 400_000}


def _ppo(
    stem: str, env: str, goals: Sequence[float], where: str = "", **steps: int
) -> dict[str, Row]:
    """Return rows beside Stable-Baselines3, or JAX in the graph; steps by regime."""
    subject, peer = ("ppo_ours_tf", JAX) if where else ("ppo_ours", SB3)
    return {
        f"ppo-{stem}-{regime}": _row(
            f"PPO, {env}{where}, {regime.upper()}",
            Training(env, steps=(_LONG | steps)[regime], **REGIMES[regime]),
            subject,
            {peer: goal},
        )
        for regime, goal in zip(REGIMES, goals, strict=True)
    }


_CARTPOLE_P1 = Training("CartPole-v1", steps=_LONG["p1"], **REGIMES["p1"])
_PONG = Training(
    "benchmarks.work.environments:atari",
    num_envs=8,
    rollout_length=128,
    epochs=4,
    minibatch_size=256,
    steps=8192,
    learning_rate=2.5e-4,
    clip_ratio=0.1,
    entropy_scale=0.01,
    network="nature_cnn",
    env_kwargs={"game": "ALE/Pong-v5"},
    compare_returns=False,  # each environment plays only about one episode
)


# In all of them epsilon has reached its end when the measurement begins, because peers
# do not compute the network for a random action.
DQN = {
    # Stable-Baselines3's defaults.
    "dqn-cartpole": _row(
        "DQN, CartPole-v1, an update every 4 steps",
        OffPolicy(
            "CartPole-v1",
            num_envs=8,
            batch_size=32,
            train_every=4,
            steps=40_000,
            epsilon=(1.0, 0.05, 4000),
        ),
        "dqn_ours",
        {SB3: 8, SBX: None},
    ),
    # rl-baselines3-zoo's settings.
    "dqn-cartpole-zoo": _row(
        "DQN, CartPole-v1, 128 updates every 256 steps",
        OffPolicy(
            "CartPole-v1",
            num_envs=8,
            batch_size=64,
            train_every=256,
            train_updates=128,
            steps=25_000,
            rollout_steps=32,
            block=4096,
            learning_rate=2.3e-3,
            epsilon=(1.0, 0.04, 5000),
            target_every=128,
            warmup_steps=1000,
            capacity=100_000,
            hidden=(256, 256),
        ),
        "dqn_ours",
        {SB3: 3, SBX: None},
    ),
}

# Stable-Baselines3's defaults. In a run on HalfCheetah, each of eight environments has
# one episode.
_ACTOR_CRITIC = {
    "num_envs": 8,
    "batch_size": 256,
    "block": 200,
    "learning_rate": 3e-4,
    "target_tau": 0.005,
    "gradient_norm": None,
    "hidden": (256, 256),
}
_OPTIONS: dict[str, dict[str, Any]] = {
    "sac": {},
    "td3": {"learning_rate": 1e-3, "policy_delay": 2},
    "tqc": {"quantiles": 25, "dropped": 2},
}
ACTOR_CRITIC = {
    f"{algorithm}-{env.partition('-')[0].lower()}": _row(
        f"{algorithm.upper()}, {env}, an update a step",
        OffPolicy(
            env,
            steps=steps,
            algorithm=algorithm,
            target_entropy=None if algorithm == "td3" else entropy,
            **_ACTOR_CRITIC | options,
        ),
        f"{algorithm}_ours",
        {SB3: 2, SBX: 1.2},
    )
    for algorithm, options in _OPTIONS.items()
    for env, steps, entropy in (
        ("Pendulum-v1", 4500, -1.0),
        ("HalfCheetah-v5", 8500, -6.0),
    )
}
# The preset droq/halfcheetah, but the actor follows the smaller critic, as SBX's does.
DROQ = {
    "droq-halfcheetah": _row(
        "DroQ, HalfCheetah-v5, 20 updates of the critics a step",
        OffPolicy(
            "HalfCheetah-v5",
            steps=600,
            algorithm="sac",
            target_entropy=-6.0,
            train_updates=20,
            policy_delay=20,
            dropout=0.01,
            compare_returns=False,  # a run has less than an episode
            **_ACTOR_CRITIC | {"num_envs": 1, "block": 50},
        ),
        "droq_ours",
        {SBX: 1.4},
    )
}

# The preset sac/pendulum-hidden.
RECURRENT = {
    "sac-pendulum-gru": _row(
        "SAC with a GRU, Pendulum-v1 without its speed",
        Recurrent(
            "benchmarks.work.environments:selected",
            num_envs=4,
            env_kwargs={"name": "Pendulum-v1", "indices": [0, 1]},
            batch_size=32,
            train_every=4,
            sequence_length=16,
            burn_in=6,
            steps=30_000,
            block=400,
            learning_rate=1e-3,
            gamma=0.98,
            target_tau=0.005,
            target_entropy=-1.0,
            gradient_norm=None,
            warmup_steps=1000,
            capacity=50_000,
        ),
        "sac_gru_ours",
        {TORCH: 3},
    )
}

ASYNCHRONOUS = {
    # The paper's network, and its larger ones by the stride of the first convolution.
    **{
        f"ga3c-pong-stride{stride}": Row(
            f"GA3C, ALE/Pong-v5, 16 agents, stride {stride}",
            Asynchronous(
                "benchmarks.work.environments:atari",
                num_envs=16,
                length=5,
                train_rows=80,
                steps=4000,
                env_kwargs={"game": "ALE/Pong-v5", "preprocess": "ga3c"},
                network="ga3c" if stride == 4 else f"ga3c_stride{stride}",
            ),
            "ga3c_ours",
            {A3C: 1.2},
            ("a3c_ours",),
        )
        for stride in (4, 3, 2, 1)
    },
    "ga3c-cartpole-peer": Row(
        "GA3C, CartPole-v1, 32 agents, batches of 512",
        Asynchronous(
            "CartPole-v1", num_envs=32, length=16, train_rows=512, steps=100_000
        ),
        "ga3c_ours",
        {SAMPLE_FACTORY: 8},
        ("appo_sample_factory",),
    ),
}

TRAINING = {
    **_ppo("cartpole", "CartPole-v1", (10, 4.5, 2.2)),
    **_ppo("pendulum", "Pendulum-v1", (8, 4, 2)),
    **_ppo("halfcheetah", "HalfCheetah-v5", (5, 3, 2), p2=120_000, p3=250_000),
    "ppo-cartpole-p1-peers": _row(
        "PPO, CartPole-v1, P1", _CARTPOLE_P1, "ppo_ours", {SBX: 6, TF_AGENTS: 5}
    ),
    # TF-Agents' update uses the whole batch; here ours does the same.
    "ppo-cartpole-whole-batch": _row(
        "PPO, CartPole-v1, 8 x 256, ten gradient steps of all of it",
        dataclasses.replace(_CARTPOLE_P1, minibatch_size=_CARTPOLE_P1.batch),
        "ppo_ours",
        {TF_AGENTS: 5},
    ),
    **_ppo("tf-cartpole", "CartPole-v1", (0.7, 0.6, 0.6), " in the graph"),
    # Ours is an approximation: fixed rollouts replace whole episodes, and shuffled
    # steps replace chunks.
    "ppo-batch-ppo-pendulum": _row(
        "PPO, batch-ppo's pendulum preset (ours: rollouts for episodes, steps for "
        "chunks)",
        PresetTraining(
            "Pendulum-v1",
            num_envs=30,
            rollout_length=200,
            epochs=25,
            minibatch_size=1000,
            steps=60_000,
        ),
        "ppo_ours_preset",
        {BATCH_PPO: 10},
    ),
    "ppo-pong": _row("PPO, ALE/Pong-v5, Nature CNN", _PONG, "ppo_ours", {SB3: 1.5}),
    "ppo-pong-bfloat16": _row(
        "PPO, ALE/Pong-v5, Nature CNN, ours in bfloat16",
        _PONG,
        "ppo_ours_bfloat16",
        {SB3: 1.5},
    ),
    # Stable-Baselines3's defaults, with more environments.
    "a2c-cartpole": _row(
        "A2C, CartPole-v1, 16 x 5",
        Training(
            "CartPole-v1",
            num_envs=16,
            rollout_length=5,
            epochs=1,
            minibatch_size=80,
            steps=200_000,
            algorithm="a2c",
            block=100,
            learning_rate=7e-4,
            gae_lambda=1.0,
        ),
        "a2c_ours",
        {SB3: 8},
    ),
    **DQN,
    **ACTOR_CRITIC,
    **DROQ,
    **RECURRENT,
    **ASYNCHRONOUS,
}

ROWS = {**ENVIRONMENTS, **TRAINING}


def contenders(rows: Mapping[str, Row]) -> list[str]:
    """Return the names of all contenders of these rows, each once."""
    names = [name for row in rows.values() for name in (row.subject, *row.rivals)]
    return list(dict.fromkeys(names))


def select(patterns: Sequence[str], rows: Mapping[str, Any]) -> dict[str, Any]:
    """Return the rows that match a pattern such as ``ppo-*``; all without one."""
    selected: set[str] = set()
    for pattern in patterns:
        matching = fnmatch.filter(rows, pattern)
        if not matching:
            raise UserError(unknown("row", pattern, rows))
        selected.update(matching)
    return {k: row for k, row in rows.items() if k in selected or not patterns}
