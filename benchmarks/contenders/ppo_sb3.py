"""Stable-Baselines3's PPO: DummyVecEnv, and one thread of PyTorch."""

from __future__ import annotations

import functools
from typing import Any

from benchmarks import session
from benchmarks.stepping import versions
from benchmarks.training import Training, last_mean


def load():
    import stable_baselines3  # noqa: F401


class Learn:
    """Iterations of ``PPO.learn``.

    Args:
      work: what to train on.
      processes: a process for each environment, forked from a server; else none.
      threads: of PyTorch.
    """

    unit = "env steps"

    def __init__(self, work: Training, processes: bool, threads: int):
        import stable_baselines3
        import torch
        from stable_baselines3.common.logger import Logger

        torch.set_num_threads(threads)
        self._work = work
        self._envs = _environments(work, processes)
        self._model = model = stable_baselines3.PPO(
            {"mlp": "MlpPolicy", "nature_cnn": "CnnPolicy"}[work.network],
            self._envs,
            learning_rate=work.learning_rate,
            n_steps=work.rollout_length,
            batch_size=work.minibatch_size,
            n_epochs=work.epochs,
            gamma=work.gamma,
            gae_lambda=work.gae_lambda,
            clip_range=work.clip_ratio,
            normalize_advantage=True,
            ent_coef=work.entropy_scale,
            vf_coef=work.value_scale,
            max_grad_norm=work.gradient_norm,
            stats_window_size=work.steps,  # keeps the returns of all episodes
            policy_kwargs=_network(work),
            seed=work.seed,
            device="cpu",
        )
        model.set_logger(Logger(None, []))
        self.own = {
            "workers": work.num_envs if processes else 0,
            "autoreset": "same step",
            "threads": threads,
            "wrapper": "Monitor",
        }
        self.versions = versions("stable-baselines3", "torch")
        self._counted: tuple[int, int] | None = None

    @property
    def same(self) -> dict[str, Any]:
        assert self._counted is not None, "nothing was trained yet"
        weights = self._model.policy.parameters()
        parameters = sum(weight.numel() for weight in weights)
        return self._work.same(self._work.constructor(), parameters, *self._counted)

    @property
    def returns(self) -> float | None:
        return last_mean([episode["r"] for episode in self._model.ep_info_buffer])

    def compile(self) -> int:
        return 0

    def measure(self, seconds: float, blocks: int | None) -> session.Measured:
        block = self._block if self._counted else self._counting
        return session.repeat(block, seconds, blocks)

    def close(self) -> None:
        self._envs.close()

    def _block(self) -> int:
        before = self._model.num_timesteps
        # No line of statistics an iteration: ours writes none either.
        self._model.learn(
            self._work.batch, log_interval=None, reset_num_timesteps=False
        )
        return self._model.num_timesteps - before

    def _counting(self) -> int:
        """A block that notes how many gradient steps it takes, on how many rows."""
        optimizer, buffer = self._model.policy.optimizer, self._model.rollout_buffer
        step, get = optimizer.step, buffer.get
        steps, rows = [], []

        def counting_step(*args, **kwargs):
            steps.append(1)
            return step(*args, **kwargs)

        def counting_get(batch_size=None):
            for data in get(batch_size):
                rows.append(len(data.advantages))
                yield data

        optimizer.step, buffer.get = counting_step, counting_get
        try:
            return self._block()
        finally:
            optimizer.step, buffer.get = step, get
            self._counted = len(steps), max(rows)


def start(work, processes=False, threads=1):
    return Learn(work, processes, threads)


def _environments(work: Training, processes: bool) -> Any:
    from stable_baselines3.common import vec_env

    makers = [functools.partial(_monitored, work)] * work.num_envs
    if not processes:
        return vec_env.DummyVecEnv(makers)
    import multiprocessing

    # Or every one of the processes would import PyTorch by itself.
    preload = ["stable_baselines3.common.vec_env.subproc_vec_env"]
    multiprocessing.get_context("forkserver").set_forkserver_preload(preload)
    return vec_env.SubprocVecEnv(makers, start_method="forkserver")


def _monitored(work: Training) -> Any:
    """As ``make_vec_env`` makes them: with a wrapper that reports returns."""
    from stable_baselines3.common.monitor import Monitor

    return Monitor(work.constructor()())


def _network(work: Training) -> dict[str, Any]:
    adam = {"optimizer_kwargs": {"eps": work.adam_epsilon}}
    if work.network == "nature_cnn":
        return adam
    towers = {"pi": list(work.hidden), "vf": list(work.hidden)}
    return {**adam, "net_arch": towers}


if __name__ == "__main__":
    session.main(load, start, Training)
