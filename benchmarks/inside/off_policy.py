"""Off-policy algorithms with Stable-Baselines3's interface, run block by block."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.inside import session
from benchmarks.inside.baselines import Model
from benchmarks.work.off_policy import OffPolicy


class Learning:
    """Blocks of an off-policy algorithm's ``learn``.

    Args:
      work: what to train on.
      model: the constructed DQN; its environments report returns as SB3's monitors do.
      parameters: function that counts the trainable numbers of the network.
      gradient_steps: function that reads the optimizer's number of steps so far.
      target_calls: calls of the environments between copies to the target network.
      own: properties that may differ between contenders.
      versions: versions of the contender's own packages.
    """

    unit = "env steps"

    def __init__(
        self,
        work: OffPolicy,
        model: Any,
        parameters: Callable[[], int],
        gradient_steps: Callable[[], int],
        target_calls: int,
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
        self._parameters, self._gradient_steps = parameters, gradient_steps
        self._target_calls = target_calls
        self._steps = self._updates = 0  # of the blocks after the first one
        self._samples = 0.0
        self._run = Model(model)
        # Its own schedule would begin anew in every block.
        model.exploration_schedule = lambda _: work.exploration(model.num_timesteps)

    @property
    def same(self) -> dict[str, Any]:
        assert self._steps, "nothing was measured yet"
        target_steps = self._target_calls * self._model.n_envs
        return self._work.same(
            self._work.environment(),
            self._parameters(),
            self._updates,
            self._steps,
            int(self._samples) if self._samples % 1 == 0 else self._samples,
            target_steps * self._updates // self._steps,
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
        updates = self._gradient_steps()
        steps = self._run.learn(self._work.block)
        self._steps += steps
        self._updates += self._gradient_steps() - updates
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
        self._samples = rows / self._gradient_steps()
        return steps


def hyperparameters(work: OffPolicy, num_envs: int) -> dict[str, Any]:
    """Return the arguments of DQN that SB3 and SBX share, without the network's.

    Args:
      work: what to train on.
      num_envs: number of the contender's environments.
    """
    calls = work.calls(num_envs)
    start, end, _ = work.epsilon
    return {
        "learning_rate": work.learning_rate,
        "buffer_size": work.capacity,
        "learning_starts": work.warmup_steps,
        "batch_size": work.batch_size,
        "gamma": work.gamma,
        "train_freq": calls.train_freq,
        "gradient_steps": calls.gradient_steps,
        "target_update_interval": calls.target_steps,
        "exploration_initial_eps": start,
        "exploration_final_eps": end,
        "seed": work.seed,
    }
