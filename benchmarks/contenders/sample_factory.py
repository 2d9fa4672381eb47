"""Sample Factory's APPO, an asynchronous PPO."""

from __future__ import annotations

import dataclasses
import json
import os
import tempfile
import time
from typing import Any

from benchmarks.inside import session
from benchmarks.work.works import Asynchronous, versions

_WARM = 3.0  # seconds after the first update, before the measurement
_NAME = "benchmark"
_WORK = "TFAGENTS_BATCH_BENCHMARK_WORK"  # environment variable with the work


class Train:
    """A run of APPO; its processes start and end with the measurement."""

    def __init__(self, work: Asynchronous):
        self._work, self._parameters = work, 0
        self.episodes: list[float] = []
        self.own = {"workers": work.num_workers, "policy_workers": 1}
        self.own["autoreset"] = "same step"
        self.versions = versions("sample-factory", "torch", "gymnasium")
        self.differs = {"versions": "it needs an older NumPy"}

    @property
    def same(self) -> dict[str, Any]:
        assert self._parameters, "nothing was trained yet"
        return self._work.same(self._parameters, self._work.train_rows)

    def measure(self, seconds: float, blocks: int | None) -> session.Measured:
        if not seconds and blocks:  # the warm-up is part of the run
            return session.Measured(0, 0.0, 0.0)
        with tempfile.TemporaryDirectory() as folder:
            (begin, first), *_, (end, last) = self._run(folder, seconds)
        took = end - begin
        return session.Measured(last - first, took, (last - first) / took)

    def close(self) -> None:
        pass

    def _run(self, folder: str, seconds: float) -> list[tuple[float, int]]:
        """Return seconds and env steps of the measured updates."""
        from sample_factory.algo.runners.runner import AlgoObserver
        from sample_factory.cfg.arguments import parse_full_cfg, parse_sf_args
        from sample_factory.envs.env_utils import register_env
        from sample_factory.train import make_runner

        os.environ[_WORK] = json.dumps(dataclasses.asdict(self._work))
        register_env(_NAME, make_env)
        arguments = _arguments(self._work, folder)
        parser, _ = parse_sf_args(arguments)
        config, runner = make_runner(parse_full_cfg(parser, arguments))
        points: list[tuple[float, int]] = []

        class Observer(AlgoObserver):
            def on_training_step(self, runner, training_iteration_since_resume):
                steps = sum(runner.env_steps.values())
                points.append((time.perf_counter(), steps))
                late = _measured(points)
                if len(late) > 1 and late[-1][0] - late[0][0] >= seconds:
                    runner.cfg.train_for_env_steps = 0  # its limit in seconds is unused

        runner.register_observer(Observer())
        runner.init()
        self._parameters = _parameters(config)
        runner.run()
        return _measured(points)


def _measured(points: list[tuple[float, int]]) -> list[tuple[float, int]]:
    """Return the points after the warm-up, or the last one if there are none yet."""
    begin = points[0][0] + _WARM
    return [point for point in points if point[0] >= begin] or points[-1:]


def make_env(full_env_name, cfg=None, env_config=None, render_mode=None):
    """Create an environment; runs in the peer's processes."""
    del full_env_name, cfg, env_config, render_mode
    return Asynchronous(**json.loads(os.environ[_WORK])).constructor()()


def _parameters(config: Any) -> int:
    """Return the number of trainable numbers of the policy."""
    from sample_factory.algo.utils.make_env import make_env_func_batched
    from sample_factory.model.actor_critic import create_actor_critic

    env = make_env_func_batched(config, env_config=None)
    policy = create_actor_critic(config, env.observation_space, env.action_space)
    env.close()
    return sum(x.numel() for x in policy.parameters() if x.requires_grad)


def _arguments(work: Asynchronous, folder: str) -> list[str]:
    options = {
        "algo": "APPO",
        "env": _NAME,
        "experiment": _NAME,
        "train_dir": folder,
        "device": "cpu",
        "seed": work.seed,
        "num_workers": work.num_workers,
        "num_envs_per_worker": work.num_envs // work.num_workers,
        "rollout": work.length,
        "batch_size": work.train_rows,
        "num_batches_per_epoch": 1,
        "num_epochs": 1,
        "with_vtrace": False,  # the default; with it, 2.1.1 fails in its summaries
        "use_rnn": False,
        "gamma": work.gamma,
        "learning_rate": work.learning_rate,
        "exploration_loss_coeff": work.entropy_scale,
        "normalize_input": False,
        "normalize_returns": False,
        "actor_critic_share_weights": False,
        "nonlinearity": "tanh",
        "env_frameskip": 1,
        "adaptive_stddev": False,
        "save_every_sec": 10_000,
        "decorrelate_envs_on_one_worker": False,
        "decorrelate_experience_max_seconds": 0,
        "train_for_env_steps": 10**12,
    }
    sizes = [str(size) for size in work.hidden]
    arguments = [f"--{name}={value}" for name, value in options.items()]
    return [*arguments, "--encoder_mlp_layers", *sizes]


if __name__ == "__main__":
    session.main(Train, "sample_factory")
