"""Our training: the program that the training loop calls, without its logger."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.work.works import Work, versions

PACKAGES = ("tensorflow", "tfagents_batch.envs.make")
FOREVER = 2**62  # env steps


def config(
    work: Work,
    algorithm: str,
    settings: Mapping[str, Any],
    histograms: bool = True,
    **options: Any,
) -> Any:
    """Return the config of a run that does the work, with some settings and options."""
    from tfagents_batch.algorithms import REGISTRY
    from tfagents_batch.config import replace
    from tfagents_batch.training.config import RunConfig, with_options

    _, defaults = REGISTRY[algorithm]
    settings = {**settings, "histograms": histograms}
    run = RunConfig(algorithm=algorithm, settings=replace(defaults(), settings))
    names = ("env", "env_kwargs", "steps", "seed", "num_envs", "num_workers")
    fixed = {name: getattr(work, name) for name in names}
    # Without a cache, every warm-up includes the compilation.
    fixed |= {"eval_every": 0, "compile_cache": False}
    return with_options(run, fixed | options)


def parameters(*networks: Any) -> int:
    """Return the number of trainable numbers of networks."""
    weights = (weight for each in networks for weight in each.trainable_variables)
    return sum(int(weight.numpy().size) for weight in weights)


class Trained:
    """A run; a block is one call of its program.

    Args:
      run: config of the run.
      same: function of the algorithm that returns what must be equal for all.
      check: function that refuses wrong counts of a block: of the steps before and
        after it, the rounds and the metrics.
      call: function of the steps so far that returns the arguments of the program:
        steps to reach, and the largest number of rounds.
    """

    def __init__(
        self,
        run: Any,
        same: Callable[[Any], dict[str, Any]],
        check: Callable[[int, int, int, Mapping[str, float]], None],
        call: Callable[[int], tuple[int, int]],
        differs: Mapping[str, str] = {},
    ):
        from tfagents_batch.training.assembly import Experiment

        experiment = Experiment(run, run.recipe())
        self.same = same(experiment.algorithm)
        experiment.start(0)
        self.program = experiment.program
        self.close = experiment.close
        self.own = {
            "workers": experiment.resources.num_workers or 0,
            "autoreset": "next step; restart rows are not trained on",
            "threads": experiment.resources.threads,
            "compile": run.compile,
            "device": experiment.placement.name,
        }
        self.differs = dict(differs)
        self.versions = versions("tensorflow", "keras")
        self._check, self._call = check, call
        self.episodes: list[float] = []

    def block(self) -> int:
        from tfagents_batch.metrics import Interval

        program, interval = self.program, Interval()
        before = program.step
        until, rounds = self._call(before)
        interval.add(program(until, rounds=rounds))
        metrics = interval.summary()
        # Only the sum of a call's returns is known, so all count as their mean.
        if count := int(metrics["episode/count"]):
            self.episodes += [metrics["episode/return_mean"]] * count
        self._check(before, program.step, program.rounds, metrics)
        return program.step - before
