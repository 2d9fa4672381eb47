"""Algorithms with Stable-Baselines3's interface, run one iteration at a time."""

from __future__ import annotations

import collections
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks.inside import session
from benchmarks.work.training import Training, last_mean


class Model:
    """A model with Stable-Baselines3's interface, without lines of statistics.

    Args:
      model: the model; its environments report returns as SB3's monitors do.
    """

    def __init__(self, model: Any):
        from stable_baselines3.common.logger import Logger

        self._model = model
        model.set_logger(Logger(None, []))
        model.ep_info_buffer = collections.deque()  # of all episodes
        model.ep_success_buffer = collections.deque()

    @property
    def returns(self) -> float | None:
        episodes = self._model.ep_info_buffer
        return last_mean([float(episode["r"]) for episode in episodes])

    def learn(self, steps: int) -> int:
        """Learn for some environment steps; return how many were made."""
        before = self._model.num_timesteps
        # Without lines of statistics, because ours writes none either.
        self._model.learn(steps, log_interval=None, reset_num_timesteps=False)
        return self._model.num_timesteps - before

    def close(self) -> None:
        self._model.get_env().close()


class Learning:
    """Iterations of an on-policy algorithm's ``learn``.

    Args:
      work: what to train on.
      model: the constructed algorithm; its environments report returns as SB3's
        monitors do.
      parameters: function that counts the trainable numbers of the networks.
      gradient_steps: function that reads the optimizer's number of steps so far.
      own: properties that may differ between contenders.
      versions: versions of the contender's own packages.
    """

    unit = "env steps"

    def __init__(
        self,
        work: Training,
        model: Any,
        parameters: Callable[[], int],
        gradient_steps: Callable[[], int],
        own: Mapping[str, Any],
        versions: Mapping[str, str],
    ):
        self.own, self.versions = dict(own), dict(versions)
        self._work, self._model = work, model
        self._parameters, self._gradient_steps = parameters, gradient_steps
        self._iterations = 0
        self._samples = 0
        self._run = Model(model)

    @property
    def same(self) -> dict[str, Any]:
        assert self._iterations, "nothing was trained yet"
        steps, rest = divmod(self._gradient_steps(), self._iterations)
        assert rest == 0, "iterations took different numbers of gradient steps"
        return self._work.same(
            self._work.constructor(), self._parameters(), steps, self._samples
        )

    @property
    def returns(self) -> float | None:
        return self._run.returns

    def compile(self) -> int:
        return 0

    def measure(self, seconds: float, blocks: int | None) -> session.Measured:
        block = self._block if self._samples else self._counting
        return session.repeat(block, seconds, blocks)

    def close(self) -> None:
        self._run.close()

    def _block(self) -> int:
        steps = self._run.learn(self._work.batch * self._work.block)
        self._iterations += self._work.block
        return steps

    def _counting(self) -> int:
        """Run a block, and count the rows of its gradient steps."""
        buffer = self._model.rollout_buffer
        get = buffer.get

        def counting(batch_size: int | None = None) -> Any:
            for rows in get(batch_size):
                self._samples = max(self._samples, len(rows.advantages))
                yield rows

        buffer.get = counting
        try:
            return self._block()
        finally:
            buffer.get = get


def of_torch(
    work: Training,
    model: Any,
    own: Mapping[str, Any],
    versions: Mapping[str, str],
) -> Learning:
    """Return ``Learning`` of an algorithm with a policy and an Adam of PyTorch.

    Args:
      work, model, own, versions: arguments of ``Learning``.
    """
    policy = model.policy
    return Learning(
        work,
        model,
        lambda: sum(weight.numel() for weight in policy.parameters()),
        lambda: int(next(iter(policy.optimizer.state.values()))["step"]),
        own,
        versions,
    )


def hyperparameters(
    work: Training, networks: Sequence[str] = ("mlp",)
) -> dict[str, Any]:
    """Return the arguments that SB3 and SBX share, of PPO, or of A2C in SB3.

    Args:
      work: what to train on.
      networks: networks that the contender supports.
    """
    if work.network not in networks:
        raise ValueError(f"network is {work.network!r}; expected one of {networks}")
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
