"""Algorithms and environments with Stable-Baselines3's interface, as SBX has too."""

from __future__ import annotations

import collections
import functools
import multiprocessing
import os
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np

from benchmarks.work.off_policy import OffPolicy
from benchmarks.work.works import Training


class Learning:
    """Blocks of a model's ``learn``, without lines of statistics; ours writes none too.

    Args:
      work: what to train on.
      model: the algorithm, whose environments report returns as SB3's monitors do.
      parameters, own, versions: as of sessions and works.
      updates: function that reads the number of steps of each optimizer so far, by the
        names in ``OffPolicy.same``; that of PPO and A2C is "values".
      target_calls: DQN's calls of the environments between copies to the target
        network; else target networks move with every step of the actor.
      differs: ``{key of same: (value, reason)}`` of declared differences.
    """

    def __init__(
        self,
        work: Training | OffPolicy,
        model: Any,
        parameters: int,
        updates: Callable[[], Mapping[str, int]],
        own: Mapping[str, Any],
        versions: Mapping[str, str],
        target_calls: int | None = None,
        differs: Mapping[str, tuple[Any, str]] = {},
    ):
        from stable_baselines3.common.logger import Logger

        self.own = {"autoreset": "same step", "wrapper": "Monitor", "workers": 0, **own}
        self.versions = dict(versions)
        self._work, self._model, self._parameters = work, model, parameters
        self._updates, self._target_calls = updates, target_calls
        self._changed = {key: value for key, (value, _) in differs.items()}
        self.differs = {key: why for key, (_, why) in differs.items()}
        # Both count the blocks after the first one.
        self._steps, self._made = 0, collections.Counter[str]()
        model.set_logger(Logger(None, []))
        model.ep_info_buffer = collections.deque()  # of all episodes
        model.ep_success_buffer = collections.deque()
        if isinstance(work, OffPolicy):
            self.own["num_envs"] = model.n_envs
            calls = model.train_freq.frequency
            self.own["env_steps_between_trainings"] = calls * model.n_envs
            if work.algorithm == "dqn":
                # Its own schedule would begin anew in every block.
                model.exploration_schedule = lambda _: work.exploration(
                    model.num_timesteps
                )

    @property
    def same(self) -> dict[str, Any]:
        assert self._steps, "nothing was measured yet"
        work, model, steps, made = self._work, self._model, self._steps, self._made
        if isinstance(work, Training):
            updates, rest = divmod(made["values"], steps // work.batch)
            assert rest == 0, "iterations took different numbers of gradient steps"
            # A2C has no minibatches.
            rows = getattr(model, "batch_size", model.n_envs * model.n_steps)
            return work.same(self._parameters, updates, rows)
        target_every = 0
        if made["actor"]:  # with it TD3's targets move, others at an interval
            target_every = getattr(model, "target_update_interval", 1)
            if work.algorithm == "td3":
                target_every = made["values"] / made["actor"]
        if self._target_calls:
            target_every = self._target_calls * model.n_envs * made["values"] / steps
        fields = work.same(
            self._parameters,
            made,
            steps,
            samples_an_update=model.batch_size,
            updates_between_targets=target_every,
            learning_rate=model.learning_rate,
            gamma=model.gamma,
            target_tau=model.tau,
            target_entropy=getattr(model, "target_entropy", None),
            n_step=getattr(model, "n_steps", 1),
            double_q=False,
        )
        return fields | self._changed

    @property
    def episodes(self) -> list[float]:
        return [float(episode["r"]) for episode in self._model.ep_info_buffer]

    def block(self) -> int:
        model, work = self._model, self._work
        before, first = model.num_timesteps, not model.num_timesteps
        steps = work.first_block if first else work.block_steps
        updates = collections.Counter(self._updates())
        model.learn(steps, log_interval=None, reset_num_timesteps=False)
        steps = model.num_timesteps - before
        if not first:
            self._steps += steps
            self._made.update(collections.Counter(self._updates()) - updates)
        return steps

    def close(self) -> None:
        self._model.get_env().close()


def arguments(work: Training | OffPolicy) -> dict[str, Any]:
    """Return the arguments that the algorithms of SB3 and SBX share."""
    policy: dict[str, Any] = {"optimizer_kwargs": {"eps": work.adam_epsilon}}
    shared: dict[str, Any] = {
        "learning_rate": work.learning_rate,
        "gamma": work.gamma,
        "seed": work.seed,
        "device": "cpu",
        "policy_kwargs": policy,
    }
    if isinstance(work, Training):
        if work.network == "mlp":
            policy["net_arch"] = {"pi": list(work.hidden), "vf": list(work.hidden)}
        shared |= {
            "n_steps": work.rollout_length,
            "gae_lambda": work.gae_lambda,
            "ent_coef": work.entropy_scale,
            "vf_coef": work.value_scale,
            "max_grad_norm": work.gradient_norm,
            "normalize_advantage": work.algorithm == "ppo",
        }
        if work.algorithm == "a2c":
            del policy["optimizer_kwargs"]  # it has RMSProp
            return shared | {"rms_prop_eps": work.adam_epsilon}
        return shared | {
            "batch_size": work.minibatch_size,
            "n_epochs": work.epochs,
            "clip_range": work.clip_ratio,
        }
    train_freq, gradient_steps = work.calls()
    policy["net_arch"] = list(work.hidden)
    shared |= {
        "buffer_size": work.capacity,
        "learning_starts": work.warmup_steps,
        "batch_size": work.batch_size,
        "tau": work.target_tau,
        "train_freq": train_freq,
        "gradient_steps": gradient_steps,
    }
    if work.algorithm == "dqn":
        start, end, _ = work.epsilon
        return shared | {
            "target_update_interval": work.target_steps(),
            "exploration_initial_eps": start,
            "exploration_final_eps": end,
        }
    if work.algorithm in ("sac", "tqc"):
        shared["target_entropy"] = work.target_entropy
        if work.policy_delay > 1:
            shared["policy_delay"] = work.policy_delay
        if work.dropout:
            policy.update(dropout_rate=work.dropout, layer_norm=True)
        if work.algorithm == "tqc":
            policy["n_quantiles"] = work.quantiles
            shared["top_quantiles_to_drop_per_net"] = work.dropped
        return shared
    return shared | {"policy_delay": work.policy_delay, "action_noise": _noise(work)}


def _noise(work: OffPolicy) -> Any:
    from stable_baselines3.common.noise import NormalActionNoise

    env = work.constructor()()
    shape = env.action_space.shape
    env.close()
    return NormalActionNoise(np.zeros(shape), np.full(shape, work.noise))


def vectorised(
    constructor: Callable[[], gymnasium.Env],
    count: int,
    vectorisation: str,
    monitor: bool = False,
) -> Any:
    """Create a batch of environments, in the same way for every contender.

    It is in this process ("dummy"), or in one for each environment that starts by
    "forkserver". A ``Monitor`` around each reports returns.
    """
    from stable_baselines3.common import vec_env

    if monitor:
        constructor = functools.partial(_monitored, constructor)
    if vectorisation == "dummy":
        return vec_env.DummyVecEnv([constructor] * count)
    # Otherwise every process would import PyTorch itself.
    preload = ["stable_baselines3.common.vec_env.subproc_vec_env"]
    multiprocessing.get_context("forkserver").set_forkserver_preload(preload)
    return vec_env.SubprocVecEnv([constructor] * count, start_method=vectorisation)


def choose_jax_threads(threads: int = 1) -> None:
    """Use one thread, or leave JAX's default of one per core; before its first use."""
    if threads == 1:
        flag = "--xla_cpu_multi_thread_eigen=false"
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flag}".strip()


def _monitored(constructor: Callable[[], gymnasium.Env]) -> Any:
    from stable_baselines3.common.monitor import Monitor

    return Monitor(constructor())
