"""Our PPO and A2C as they train, collecting and updating in one program."""

from __future__ import annotations

import dataclasses
from typing import Any

from benchmarks.inside import graph, session
from benchmarks.work.stepping import versions
from benchmarks.work.training import Training, last_mean

_IN_GRAPH = "its physics are TensorFlow, inside the program"
_FASTER = "convolutions in bfloat16 are faster; weights, losses, optimizer are float32"


class Trained:
    """Calls of an experiment's program, without its logger.

    Args:
      experiment: a ``training.experiment.Experiment`` that was started.

    Attributes:
      program: its program.
    """

    def __init__(self, experiment: Any):
        self.program = experiment.program
        self._experiment = experiment
        self._returns: list[float] = []

    @property
    def returns(self) -> float | None:
        return last_mean(self._returns)

    def own(self, compile: str) -> dict[str, Any]:
        """Return properties that may differ between contenders.

        Args:
          compile: what XLA compiles, as in ``--compile``.
        """
        return {
            "workers": getattr(self._experiment.env, "num_workers", 0),
            "autoreset": "next step; restart rows are not trained on",
            "threads": self._experiment.resources.threads,
            "compile": compile,
            "compiled": "in the warm-up",
        }

    def call(self, until: int, rounds: int) -> tuple[int, dict[str, Any]]:
        """Call the program; return the environment steps made, and its metrics."""
        from tfagents_batch.metrics import Interval

        before = self.program.step
        interval = Interval()
        interval.add(self.program(until, rounds=rounds), self.program.rounds)
        metrics = interval.summary()
        # Only the sum of a call's returns is known, so all count as their mean.
        if count := int(metrics["episode/count"]):
            mean = metrics["episode/return_mean"]
            self._returns += [mean] * count
        return self.program.step - before, metrics

    def close(self) -> None:
        self._experiment.close()


class Train:
    """Iterations of the program that the training loop runs, without its logger.

    Args:
      work: what to train on.
      compile: what XLA compiles, as in ``--compile``.
      precision: precision of convolutions, as in ``--precision``.
      in_graph: use the environment of the same name that is written in TensorFlow.
      config: config of the run; None creates it from the work.

    Raises:
      RuntimeError: from ``measure``, if the number of gradient steps differs from that
        of the work.
    """

    unit = "env steps"

    def __init__(
        self,
        work: Training,
        compile: str = "auto",
        precision: str = "float32",
        in_graph: bool = False,
        config: Any = None,
    ):
        from tfagents_batch.envs import registry
        from tfagents_batch.training.experiment import Experiment

        self._work = work
        config = config or _config(work, compile, precision)
        constructor = registry.constructor(config.env, config.env_kwargs)
        if in_graph:
            config = dataclasses.replace(config, env=f"tf/{work.env}", num_workers=None)
        experiment = Experiment(config, config.recipe())
        try:
            self.same = work.same(
                constructor,
                parameters(experiment.algorithm.network),
                work.gradient_steps(work.batch),
                min(work.minibatch_size, work.batch),
            )
            self.same["precision"] = precision
            experiment.start(0)
        except BaseException:
            experiment.close()
            raise
        self._trained = Trained(experiment)
        self.own = self._trained.own(compile)
        self.differs = {} if precision == "float32" else {"precision": _FASTER}
        if in_graph:
            self.differs["environment"] = _IN_GRAPH
        self.versions = versions("tensorflow", "keras")

    @property
    def returns(self) -> float | None:
        return self._trained.returns

    def compile(self) -> int:
        return 0  # a program is compiled when it runs for the first time

    def measure(self, seconds: float, blocks: int | None) -> session.Measured:
        return session.repeat(self._block, seconds, blocks)

    def close(self) -> None:
        self._trained.close()

    def _block(self) -> int:
        steps, metrics = self._trained.call(2**62, self._work.block)
        self._check(steps, metrics)
        return steps

    def _check(self, transitions: int, metrics: dict[str, Any]) -> None:
        steps, right = metrics["grad/updates"], self._work.gradient_steps(transitions)
        if steps != right or metrics["grad/skipped"]:
            raise RuntimeError(
                f"{steps:g} gradient steps, a fraction {metrics['grad/skipped']} of "
                f"them skipped, on {transitions} transitions; expected {right}"
            )


def parameters(*networks: Any) -> int:
    """Return the number of trainable numbers of networks."""
    weights = (weight for each in networks for weight in each.trainable_variables)
    return sum(int(weight.numpy().size) for weight in weights)


def _config(work: Training, compile: str = "auto", precision: str = "float32") -> Any:
    from tfagents_batch.algorithms import a2c, ppo
    from tfagents_batch.nn import networks
    from tfagents_batch.schedules import Constant
    from tfagents_batch.sources import on_policy
    from tfagents_batch.training import experiment

    hidden = {"mlp": work.hidden, "nature_cnn": None}[work.network]
    shared = {
        "gamma": work.gamma,
        "gae_lambda": work.gae_lambda,
        "learning_rate": Constant(work.learning_rate),
        "gradient_norm": work.gradient_norm,
        "entropy_scale": Constant(work.entropy_scale),
        "value_scale": 2 * work.value_scale,  # of half the squared error
        "normalize_observation": False,
        "normalize_return": False,
        "network": networks.Config(hidden=hidden),
    }
    if work.algorithm == "a2c":
        settings: Any = a2c.Config(optimizer_epsilon=work.adam_epsilon, **shared)
    else:
        settings = ppo.Config(
            clip_ratio=work.clip_ratio,
            adam_epsilon=work.adam_epsilon,
            epochs=work.epochs,
            minibatch_size=work.minibatch_size,
            normalize_advantage=True,
            **shared,
        )
    return experiment.Config(
        algorithm=work.algorithm,
        env=work.env,
        env_kwargs=work.env_kwargs,
        steps=work.steps,
        seed=work.seed,
        num_envs=work.num_envs,
        num_workers=work.num_workers,
        source=on_policy.RolloutSettings(length=work.rollout_length),
        eval_every=0,
        compile=compile,
        precision=precision,
        compile_cache=False,  # every warm-up includes the compilation
        settings=settings,
    )


if __name__ == "__main__":
    session.main(graph.load, Train, Training)
