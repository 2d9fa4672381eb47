"""Algorithms and environments with Stable-Baselines3's interface, as SBX has too."""

from __future__ import annotations

import collections
import functools
import multiprocessing
import os
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from benchmarks.work.off_policy import OffPolicy
from benchmarks.work.works import Training, Work, last_mean


class Counted(NamedTuple):
    """Counts of a model: env steps and updates after the first block, rows in it."""

    steps: int
    updates: Mapping[str, int]  # by the names in ``OffPolicy.same``
    rows: list[int]  # of every minibatch that was drawn in the first block
    first: Mapping[str, int]  # updates of the first block


class Learning:
    """Blocks of a model's ``learn``, without lines of statistics; ours writes none too.

    Args:
      work: what to train on.
      model: the constructed algorithm; its environments report returns as SB3's
        monitors do.
      updates: function that reads the number of steps of each optimizer so far.
      same: function of ``Counted`` that returns what must be equal for all.
      own: properties that may differ between contenders.
      versions: versions of the contender's own packages.
    """

    def __init__(
        self,
        work: Work,
        model: Any,
        updates: Callable[[], Mapping[str, int]],
        same: Callable[[Counted], dict[str, Any]],
        own: Mapping[str, Any],
        versions: Mapping[str, str],
    ):
        from stable_baselines3.common.logger import Logger

        self.own = {"autoreset": "same step", "wrapper": "Monitor", **own}
        self.versions = dict(versions)
        self._work, self._model = work, model
        self._updates, self._same = updates, same
        self._counted = Counted(0, collections.Counter(), [], {})
        model.set_logger(Logger(None, []))
        model.ep_info_buffer = collections.deque()  # of all episodes
        model.ep_success_buffer = collections.deque()

    @property
    def same(self) -> dict[str, Any]:
        assert self._counted.steps, "nothing was measured yet"
        return self._same(self._counted)

    @property
    def returns(self) -> float | None:
        episodes = self._model.ep_info_buffer
        return last_mean([float(episode["r"]) for episode in episodes])

    def block(self) -> int:
        if not self._model.num_timesteps:
            return self._first()
        updates = self._counted.updates
        updates.subtract(self._updates())
        steps = self._learn(block_steps(self._work))
        updates.update(self._updates())
        self._counted = self._counted._replace(steps=self._counted.steps + steps)
        return steps

    def close(self) -> None:
        self._model.get_env().close()

    def _first(self) -> int:
        """Run the first block, and count the rows of its minibatches."""
        rows = self._counted.rows
        if isinstance(self._work, OffPolicy):
            buffer, method = self._model.replay_buffer, "sample"
        else:
            buffer, method = self._model.rollout_buffer, "get"
        draw = getattr(buffer, method)

        def sample(*args: Any, **kwargs: Any) -> Any:
            found = draw(*args, **kwargs)
            rows.append(len(found.rewards))
            return found

        def get(*args: Any, **kwargs: Any) -> Any:
            for found in draw(*args, **kwargs):
                rows.append(len(found.advantages))
                yield found

        setattr(buffer, method, {"sample": sample, "get": get}[method])
        try:
            steps = self._learn(block_steps(self._work, first=True))
        finally:
            setattr(buffer, method, draw)
        self._counted = self._counted._replace(first=dict(self._updates()))
        return steps

    def _learn(self, steps: int) -> int:
        """Learn for some environment steps; return how many were made."""
        before = self._model.num_timesteps
        self._model.learn(steps, log_interval=None, reset_num_timesteps=False)
        return self._model.num_timesteps - before


def block_steps(work: Training | OffPolicy, first: bool = False) -> int:
    """Return the environment steps of a block."""
    if isinstance(work, OffPolicy):
        return work.first_block if first else work.block
    return work.batch * work.block


def on_policy(
    work: Training,
    model: Any,
    parameters: Callable[[], int],
    updates: Callable[[], int],
    own: Mapping[str, Any],
    versions: Mapping[str, str],
) -> Learning:
    """Return a session of PPO or A2C.

    Args:
      parameters: function that counts the trainable numbers of the networks.
      updates: function that reads the optimizer's number of steps so far.
      work, model, own, versions: arguments of ``Learning``.
    """

    def same(counted: Counted) -> dict[str, Any]:
        iterations = counted.steps // work.batch
        steps, rest = divmod(counted.updates["values"], iterations)
        assert rest == 0, "iterations took different numbers of gradient steps"
        return work.same(parameters(), steps, max(counted.rows))

    return Learning(work, model, lambda: {"values": updates()}, same, own, versions)


def off_policy(
    work: OffPolicy,
    model: Any,
    parameters: int,
    updates: Callable[[], Mapping[str, int]],
    target_calls: int | None,
    own: Mapping[str, Any],
    versions: Mapping[str, str],
) -> Learning:
    """Return a session of DQN, SAC or TD3.

    Args:
      parameters: number of trainable numbers, as in ``OffPolicy.same``.
      target_calls: calls of the environments between copies to the target network;
        None if target networks move with every step of the actor.
      work, model, updates, own, versions: arguments of ``Learning``.
    """
    if work.algorithm == "dqn":
        # Its own schedule would begin anew in every block.
        model.exploration_schedule = lambda _: work.exploration(model.num_timesteps)

    def same(counted: Counted) -> dict[str, Any]:
        steps, made = counted.steps, counted.updates
        if target_calls is None:
            target_every = made["values"] / made["actor"]
        else:
            target_every = target_calls * model.n_envs * made["values"] / steps
        samples = sum(counted.rows) / counted.first["values"]
        used = {
            "learning_rate": model.learning_rate,
            "gamma": model.gamma,
            "target_tau": model.tau,
            "target_entropy": getattr(model, "target_entropy", None),
            "n_step": getattr(model, "n_steps", 1),
            "double_q": False,
        }
        return work.same(parameters, made, steps, samples, target_every, used)

    own = {
        "workers": 0,
        "num_envs": model.n_envs,
        "env_steps_between_trainings": model.train_freq.frequency * model.n_envs,
        **own,
    }
    return Learning(work, model, updates, same, own, versions)


def on_policy_arguments(work: Training) -> dict[str, Any]:
    """Return the arguments that SB3 and SBX share, of PPO, or of A2C in SB3."""
    policy: dict[str, Any] = {}
    if work.algorithm == "a2c":
        own = {"rms_prop_eps": work.adam_epsilon, "normalize_advantage": False}
    else:
        policy["optimizer_kwargs"] = {"eps": work.adam_epsilon}
        own = {
            "batch_size": work.minibatch_size,
            "n_epochs": work.epochs,
            "clip_range": work.clip_ratio,
            "normalize_advantage": True,
        }
    if work.network == "mlp":
        policy["net_arch"] = {"pi": list(work.hidden), "vf": list(work.hidden)}
    return own | {
        "learning_rate": work.learning_rate,
        "n_steps": work.rollout_length,
        "gamma": work.gamma,
        "gae_lambda": work.gae_lambda,
        "ent_coef": work.entropy_scale,
        "vf_coef": work.value_scale,
        "max_grad_norm": work.gradient_norm,
        "policy_kwargs": policy,
        "seed": work.seed,
    }


def off_policy_arguments(work: OffPolicy, envs: Any) -> dict[str, Any]:
    """Return the arguments that the algorithms of SB3 and SBX share.

    Args:
      work: what to train on.
      envs: the contender's environments.
    """
    calls = work.calls(envs.num_envs)
    found = {
        "learning_rate": work.learning_rate,
        "buffer_size": work.capacity,
        "learning_starts": work.warmup_steps,
        "batch_size": work.batch_size,
        "gamma": work.gamma,
        "tau": work.target_tau,
        "train_freq": calls.train_freq,
        "gradient_steps": calls.gradient_steps,
        "seed": work.seed,
    }
    if work.algorithm == "dqn":
        start, end, _ = work.epsilon
        return found | {
            "target_update_interval": work.target_steps(envs.num_envs),
            "exploration_initial_eps": start,
            "exploration_final_eps": end,
        }
    if work.algorithm == "sac":
        return found | {"target_entropy": work.target_entropy}
    from stable_baselines3.common.noise import NormalActionNoise

    shape = envs.action_space.shape
    noise = NormalActionNoise(np.zeros(shape), np.full(shape, work.noise))
    return found | {"policy_delay": work.policy_delay, "action_noise": noise}


def vectorised(
    constructor: Callable[[], gymnasium.Env],
    count: int,
    vectorisation: str,
    monitor: bool = False,
) -> Any:
    """Create a batch of environments, in the same way for every contender.

    Args:
      constructor: constructor of one environment.
      count: number of environments.
      vectorisation: "dummy" for this process, or the start method of one process per
        environment: "forkserver" or "spawn".
      monitor: wrap each in a ``Monitor``, which reports returns (see ``make_vec_env``).
    """
    from stable_baselines3.common import vec_env

    if monitor:
        constructor = functools.partial(_monitored, constructor)
    if vectorisation == "dummy":
        return vec_env.DummyVecEnv([constructor] * count)
    if vectorisation == "forkserver":
        # Otherwise every process would import PyTorch itself.
        preload = ["stable_baselines3.common.vec_env.subproc_vec_env"]
        multiprocessing.get_context("forkserver").set_forkserver_preload(preload)
    return vec_env.SubprocVecEnv([constructor] * count, start_method=vectorisation)


def choose_jax_threads(threads: int) -> None:
    """Use one thread, or leave JAX's default of one per core; before JAX is imported.

    Args:
      threads: 1, which is often faster for small networks, or any other number.
    """
    if threads == 1:
        flag = "--xla_cpu_multi_thread_eigen=false"
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flag}".strip()


def _monitored(constructor: Callable[[], gymnasium.Env]) -> Any:
    from stable_baselines3.common.monitor import Monitor

    return Monitor(constructor())
