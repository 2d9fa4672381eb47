"""A run of several seeds: the counterpart of ``experiment`` and ``loop``.

Every seed writes its own lines and checkpoints, like a separate run.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence

import numpy as np

from tfagents_batch import nest, seeds
from tfagents_batch.clocks import EverySeconds
from tfagents_batch.envs.recipe import EnvRecipe
from tfagents_batch.errors import SaveError, TrainingError, UserError
from tfagents_batch.graph import inputs
from tfagents_batch.training import compilation, experiment, own_algorithm
from tfagents_batch.training.config import RunConfig
from tfagents_batch.training.diagnostics import weights
from tfagents_batch.training.record import Record, system
from tfagents_batch.training.rescue import Rescue, rescued
from tfagents_batch.training.runtime import devices, threads
from tfagents_batch.training.runtime.signals import Interrupts
from tfagents_batch.training.seeds.population import (
    MOST,
    REASON,
    STEP,
    Population,
    split,
    supported,
)

_SECONDS = 0.5  # target duration of a program call, which an interrupt waits for
# Settings that several seeds need; docs/capabilities.md lists them.
REQUIRED = {
    "overlap": False,
    "compile": "auto",
    "precision": "float32",
    "num_workers": None,
    "envs_per_worker": None,
    "stop_at_return": None,
    "log_video_every": 0,
    "track": "none",
    "log_info": [],
}


class SeedsExperiment:
    """The live objects of a run of several seeds.

    Args:
      config: config of the first seed; the others differ only in their seed.
      run_seeds: the S seeds.
      recipe: environment to train on.

    Attributes:
      algorithm: algorithm of the first seed; also holds the seed that is being saved.
      resources: see ``Experiment``.
      report: resources of the machine that the run uses, for its log.
      spec: spec of one seed's environments.
      remarks, size_warning: see ``Experiment``.
    """

    def __init__(self, config: RunConfig, run_seeds: Sequence[int], recipe: EnvRecipe):
        self.config = config = config.check()
        devices.check(config.device)
        self.run_seeds = [int(seed) for seed in run_seeds]
        _check_config(config, self.run_seeds)
        count = len(self.run_seeds)
        if not recipe.in_graph:
            raise UserError(
                f"several seeds in one program need an environment that is written in "
                f"TensorFlow, such as tf/CartPole-v1; {config.env!r} is not; train it "
                "one seed after the other"
            )

        def make(rows):
            return recipe.make(count * rows, **config.env_options)

        train_env = make(config.num_envs)
        self.spec = spec = train_env.spec._replace(num_envs=config.num_envs)
        self.resources = threads.configure(config, spec)
        self.placement, cache_off = experiment.prepare_devices(
            config,
            self.resources,
            lambda: devices.place_run(config, train_env.spec, (train_env,)),
        )
        self.report = experiment.report(self.resources, cache_off, self.placement)
        self.report["seeds"] = self.run_seeds
        seeded = [dataclasses.replace(config, seed=seed) for seed in self.run_seeds]
        with inputs.constant(), self.placement.updating():
            agents = [experiment.create_algorithm(each, spec) for each in seeded]
            self.algorithm = agents[0]
            self.population = Population(
                agents,
                train_env,
                self.run_seeds,
                config.source.length,
                self.placement,
            )
        layers = weights.by_layer(self.algorithm)
        self.remarks = experiment.remarks(spec)
        self.remarks += experiment.large_minibatch(config, spec)
        self.size_warning = weights.warning(layers, spec.observation_space)
        self._evaluator = None
        if config.eval_every != 0:
            rows, _ = recipe.for_evaluation(config.eval_episodes, config.num_envs)
            self._evaluator = self.population.evaluator(
                make(rows),
                config.eval_episodes,
                config.eval_actions,
                config.eval_max_episode_steps,
            )

    def train(
        self,
        interrupts: Interrupts,
        records: Sequence[Record],
        progress: Callable[[int, dict], None],
    ) -> bool:
        """Train all seeds to the end; return False if a stop was requested.

        Args:
          interrupts: requests to stop or to save.
          records: one for each seed; their checkpoints hold ``Population.variables``.
          progress: called with ``(step, metrics)`` after every call of the program:
            the step of the slowest seed, and means over seeds.

        Raises:
          TrainingError: if the gradients of a seed are no longer finite.
          SaveError: if the last checkpoints could not be written.
        """
        rescues = [Rescue(record) for record in records]
        should_save = EverySeconds(self.config.checkpoint_every, first=True)
        seconds, most = 0.0, 1
        while not all(each.done for each in records) and not interrupts.requested:
            begin = time.perf_counter()
            training = [not each.done and not each.evaluation_due() for each in records]
            until = [
                each.due if on else 0
                for each, on in zip(records, training, strict=True)
            ]
            with rescued(interrupts, rescues):
                count, metrics, newest = self.population(until, most)
            took = time.perf_counter() - begin
            self._add(records, training, metrics, newest, count, seconds, took)
            slowest = min(each.step for each in records)
            if seconds:
                most = int(np.clip(count * _SECONDS / took, 1, MOST))
            else:  # mostly compiling
                found = {"compile": "full", "reason": REASON}
                for record in records:
                    record.logger.event("compiled", slowest, **found)
                compilation.publish()
            seconds += took
            progress(slowest, _mean_returns(records))
            if _evaluation_due(records) and not interrupts.requested:
                with rescued(interrupts, rescues):
                    self._evaluate(interrupts, records)
            save_all = interrupts.checkpoint_requested or should_save()
            for each in records:
                if save_all or (each.permanent_due() and not each.evaluation_due()):
                    each.checkpoint()
        saved = [each.checkpoint() for each in records]
        for record in records:
            record.flush()
        if not all(saved):
            raise SaveError("the last checkpoint of a seed could not be saved")
        return all(each.finished for each in records)

    def _add(
        self,
        records: Sequence[Record],
        training: Sequence[bool],
        metrics: dict[str, np.ndarray],
        newest: dict[str, np.ndarray],
        count: int,
        start: float,
        took: float,
    ) -> None:
        """Add ``count`` iterations to the records of seeds that were ``training``.

        The call began after ``start`` seconds of training and took ``took`` seconds;
        ``metrics`` and ``newest`` are those of ``Population.iterate``.
        """
        errors: dict[int, TrainingError] = {}
        for i, record in enumerate(records):
            for k in range(count if training[i] else 0):
                found = nest.map(lambda x, k=k, i=i: x[k, i], metrics)
                record.step = int(found.pop(STEP))
                record.seconds = start + took * (k + 1) / count
                if not start:
                    record.compiled(took)
                if k == count - 1:
                    found |= {name: x[i] for name, x in newest.items()}
                try:
                    record.add(found)
                except TrainingError as error:
                    errors[i] = error
                    break
        if errors:
            for i, record in enumerate(records):
                if i not in errors:
                    record.checkpoint()
            i, error = next(iter(errors.items()))
            raise TrainingError(f"seed {self.run_seeds[i]}: {error}") from error

    def counters(self) -> dict[str, float]:
        """Return metrics of the process, for every line of a seed."""
        return system(self.population.traces())

    def _evaluate(self, interrupts: Interrupts, records: Sequence[Record]) -> None:
        keys = [
            seeds.iteration_seed(seed, record.step, "evaluate")
            for seed, record in zip(self.run_seeds, records, strict=True)
        ]
        begin = time.perf_counter()
        slowest = min(each.step for each in records)
        found = self._evaluator(keys, lambda: interrupts.requested, slowest)
        if found is None:  # stopped
            return
        seconds = time.perf_counter() - begin
        for record, result in zip(records, split(found, len(records)), strict=True):
            if not record.finished:
                record.evaluated(result, seconds)


def _evaluation_due(records: Sequence[Record]) -> bool:
    """Check if an evaluation is due for all unfinished seeds.

    All seeds are evaluated at once. Seeds that are due earlier wait until then.
    """
    waiting = [each.evaluation_due() for each in records if not each.finished]
    return bool(waiting) and all(waiting)


def _mean_returns(records: Sequence[Record]) -> dict[str, float]:
    """Return means of the seeds' newest returns, for the console."""
    found = {}
    for name in ("episode/return_mean", "eval/return_mean"):
        if known := [x.latest[name] for x in records if name in x.latest]:
            found[name] = float(np.mean(known))
    return found


def _check_config(config: RunConfig, run_seeds: Sequence[int]) -> None:
    if not run_seeds or len(set(run_seeds)) != len(run_seeds):
        raise UserError(
            f"seeds are {list(run_seeds)}; expected different seeds, at least one"
        )
    if max(run_seeds) >= 2**31 or min(run_seeds) < 0:
        raise UserError(f"seeds are {list(run_seeds)}; expected 0 to 2**31 - 1")
    for name, expected in REQUIRED.items():
        value = getattr(config, name)
        if value != expected and (name, value) != ("compile", "full"):
            raise UserError(
                f"{name}={value} is not for several seeds, which are one compiled "
                "program, without processes; leave it out"
            )
    kind = own_algorithm.entry(config.algorithm).kind
    if not supported(kind) or config.source.program != "synchronous":
        raise UserError(
            f"{config.algorithm!r} cannot train several seeds in one program; train "
            "one seed after the other"
        )
    source = config.source
    for name, value in ("episodes", source.episodes), ("wait_for", source.wait_for):
        if value:
            raise UserError(
                f"rollout.{name} is {value}, but several seeds in one program need "
                "rollouts of one length; leave it out, or set rollout.length"
            )
