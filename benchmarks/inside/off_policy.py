"""Off-policy algorithms with Stable-Baselines3's interface, run block by block."""

from __future__ import annotations

import collections
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks.inside import session
from benchmarks.inside.baselines import Model
from benchmarks.work.off_policy import OffPolicy


class Learning:
    """Blocks of an off-policy algorithm's ``learn``.

    Args:
      work: what to train on.
      model: the constructed algorithm; its environments report returns as SB3's
        monitors do.
      parameters: number of trainable numbers, as in ``OffPolicy.same``.
      updates: function that reads the number of steps of each optimizer so far, by the
        names in ``OffPolicy.same``.
      target_calls: calls of the environments between copies to the target network;
        None if target networks move with every step of the actor.
      own: properties that may differ between contenders.
      versions: versions of the contender's own packages.
    """

    unit = "env steps"

    def __init__(
        self,
        work: OffPolicy,
        model: Any,
        parameters: int,
        updates: Callable[[], Mapping[str, int]],
        target_calls: int | None,
        own: Mapping[str, Any],
        versions: Mapping[str, str],
    ):
        self.versions = dict(versions)
        self.own = {
            "workers": 0,
            "num_envs": model.n_envs,
            "env_steps_between_trainings": model.train_freq.frequency * model.n_envs,
            "autoreset": "same step",
            "wrapper": "Monitor",
            **own,
        }
        self._work, self._model = work, model
        self._parameters, self._count = parameters, updates
        self._target_calls = target_calls
        # These count the blocks after the first one.
        self._steps, self._updates = 0, collections.Counter[str]()
        self._samples = 0.0
        self._run = Model(model)
        if work.algorithm == "dqn":
            # Its own schedule would begin anew in every block.
            model.exploration_schedule = lambda _: work.exploration(model.num_timesteps)

    @property
    def same(self) -> dict[str, Any]:
        assert self._steps, "nothing was measured yet"
        model, updates = self._model, self._updates
        if self._target_calls is None:
            target_every = updates["values"] / updates["actor"]
        else:
            target_steps = self._target_calls * model.n_envs
            target_every = target_steps * updates["values"] / self._steps
        return self._work.same(
            self._work.environment(),
            self._parameters,
            updates,
            self._steps,
            self._samples,
            target_every,
            {
                "learning_rate": model.learning_rate,
                "gamma": model.gamma,
                "target_tau": model.tau,
                "target_entropy": getattr(model, "target_entropy", None),
                "n_step": getattr(model, "n_steps", 1),
                "double_q": False,
            },
        )

    @property
    def returns(self) -> float | None:
        return self._run.returns

    def compile(self) -> int:
        return 0

    def measure(self, seconds: float, blocks: int | None) -> session.Measured:
        block = self._block if self._model.num_timesteps else self._first
        return session.repeat(block, seconds, blocks)

    def close(self) -> None:
        self._run.close()

    def _block(self) -> int:
        self._updates.subtract(self._count())
        steps = self._run.learn(self._work.block)
        self._updates.update(self._count())
        self._steps += steps
        return steps

    def _first(self) -> int:
        """Run the first block, and count the transitions of its updates."""
        buffer, rows = self._model.replay_buffer, 0
        sample = buffer.sample

        def counting(*args: Any, **kwargs: Any) -> Any:
            nonlocal rows
            found = sample(*args, **kwargs)
            rows += len(found.rewards)
            return found

        buffer.sample = counting
        try:
            steps = self._run.learn(self._work.first_block)
        finally:
            buffer.sample = sample
        self._samples = rows / self._count()["values"]
        return steps


def hyperparameters(work: OffPolicy, envs: Any) -> dict[str, Any]:
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
    return found | {
        "policy_delay": work.policy_delay,
        "action_noise": _noise(work.noise, envs.action_space.shape),
    }


def _noise(scale: float, shape: tuple[int, ...]) -> Any:
    from stable_baselines3.common.noise import NormalActionNoise

    return NormalActionNoise(np.zeros(shape), np.full(shape, scale))
