"""A run of several seeds: what ``experiment`` and ``loop`` are to one of a single seed.

Every seed writes its own lines and checkpoints, as a run of its own would.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfagents_batch import algorithms, schedules, seeds
from tfagents_batch.envs.make import make_env, tensor_env
from tfagents_batch.errors import SaveError, TrainingError, UserError
from tfagents_batch.schedules import EverySeconds
from tfagents_batch.training import (
    checkpoint,
    compile_cache,
    evaluate,
    experiment,
    threads,
)
from tfagents_batch.training.config import Config
from tfagents_batch.training.interrupt import Interrupts
from tfagents_batch.training.output import Output
from tfagents_batch.training.record import Record, system
from tfagents_batch.training.seeds.population import MOST, STEP, Population

_SECONDS = 0.5  # that a call of the program should take: an interrupt waits for its end
_REASON = "all seeds are one program"


class Several:
    """The live objects of a run.

    Args:
      config: of the first seed; the others differ by their seed only.
      run_seeds: of the runs, S of them.
      env: what to train on, where ``config.env`` is only its description.

    Attributes:
      algorithm: holds one seed's values at a time, while they are saved.
      resources, cache_off: as of an ``Experiment``.
      spec: of one seed's environments.
    """

    def __init__(self, config: Config, run_seeds: Sequence[int], env: Any = None):
        self.config = config = config.check()
        self.run_seeds = [int(seed) for seed in run_seeds]
        _refuse(config, self.run_seeds)
        given = config.env if env is None else env
        count = len(self.run_seeds)
        if tensor_env(given, config.env_kwargs) is None:
            raise UserError(
                f"several seeds in one program need an environment that is written in "
                f"TensorFlow, such as tf/CartPole-v1, which {config.env!r} is not; "
                "train it one seed after the other"
            )

        def make(rows):
            options = {"env_kwargs": config.env_kwargs, "wrappers": config.wrappers}
            options |= config.env_options
            return make_env(given, count * rows, **options)

        train_env = make(config.num_envs)
        self.spec = spec = train_env.spec._replace(num_envs=config.num_envs)
        self.resources = threads.settle(config, spec)
        self.cache_off = experiment.prepare_devices(config, self.resources, "cpu")
        kind, _ = algorithms.REGISTRY[config.algorithm]
        settings = schedules.resolve(config.settings, config.steps)
        made = []
        for seed in self.run_seeds:
            with experiment.seeded(seed):
                made.append(kind(settings, spec, None))
        self.algorithm = made[0]
        self.population = Population(
            made, train_env, self.run_seeds, config.rollout_length
        )
        self._evaluator = None
        if config.eval_every != 0:
            rows = evaluate.batch_size(config.eval_episodes, config.num_envs)
            self._evaluator = self.population.evaluator(
                make(rows), config.eval_episodes, config.eval_actions
            )

    def report(self) -> dict[str, Any]:
        """What the run uses of the machine, for its log."""
        used = experiment.report(self.resources, self.cache_off)
        return used | {"seeds": self.run_seeds}

    def variables(self, index: int) -> dict[str, Any]:
        """What the checkpoint of a seed holds, by name, until that of another one."""
        self.population.put_into(self.algorithm, index)
        prefix = f"{checkpoint.RUN_ONLY}source/"
        source = self.population.source_variables(index)
        named = {prefix + name: value for name, value in source.items()}
        return self.algorithm.named_variables() | named

    def train(
        self,
        interrupts: Interrupts,
        outputs: Sequence[Output],
        progress: Callable[[int, dict], None],
        tell: Callable[[dict, int], None],
    ) -> bool:
        """Train all seeds to the end; false when a stop was asked for.

        Args:
          interrupts: says when to stop and when to save.
          outputs: one for each seed; their checkpoints are of ``variables``.
          progress: ``(step, metrics)`` of the slowest seed, after every call.
          tell: ``(event, step)``, what there is to say of the program.

        Raises:
          TrainingError: when gradients of a seed are not finite any more.
          SaveError: if the last checkpoints could not be written.
        """
        records = [Record(self.config, output) for output in outputs]
        should_save = EverySeconds(self.config.checkpoint_every, first=True)
        seconds, most = 0.0, 1
        while not all(each.done for each in records) and not interrupts.requested:
            begin = time.perf_counter()
            training = [not each.done and not each.evaluation_due() for each in records]
            due = tf.constant([each.due for each in records], tf.int64)
            found = self.population.iterate(
                tf.constant(most), tf.constant(training), due
            )
            count, metrics, newest = tf.nest.map_structure(lambda x: x.numpy(), found)
            took = time.perf_counter() - begin
            self._note(records, training, metrics, newest, int(count), seconds, took)
            slowest = min(each.step for each in records)
            if seconds:
                most = int(np.clip(count * _SECONDS / took, 1, MOST))
            else:  # mostly compiling
                told = {"event": "compiled", "compile": "full", "reason": _REASON}
                tell(told, slowest)
                compile_cache.publish()
            seconds += took
            progress(slowest, _mean([each.latest for each in records]))
            if _evaluation_due(records):
                self._evaluate(interrupts, records)
            save_all = interrupts.checkpoint_requested or should_save()
            for each in records:
                if save_all or (each.keeping_due() and not each.evaluation_due()):
                    each.checkpoint()
        saved = _save(records)
        for record in records:
            record.flush(self._counters)
        if not saved:
            raise SaveError("the last checkpoint of a seed could not be saved")
        return all(each.rests for each in records)

    def _note(
        self,
        records: Sequence[Record],
        training: Sequence[bool],
        metrics: dict[str, np.ndarray],
        newest: dict[str, np.ndarray],
        count: int,
        start: float,
        took: float,
    ) -> None:
        """Tell the records of a call's iterations.

        Args:
          records: of the seeds.
          training: which of them were trained.
          metrics, newest: as of ``Population.iterate``.
          count: iterations of the call.
          start: seconds trained before it.
          took: its seconds.
        """
        wrong: dict[int, TrainingError] = {}
        for i, record in enumerate(records):
            for k in range(count if training[i] else 0):
                found = {name: x[k, i] for name, x in metrics.items()}
                record.step = int(found.pop(STEP))
                record.seconds = start + took * (k + 1) / count
                if not start:
                    record.compiled(took)
                if k == count - 1:
                    found |= {name: x[i] for name, x in newest.items()}
                try:
                    record.add(found, self._counters)
                except TrainingError as error:
                    wrong[i] = error
                    break
        if wrong:
            _save([record for i, record in enumerate(records) if i not in wrong])
            i, error = next(iter(wrong.items()))
            raise TrainingError(f"seed {self.run_seeds[i]}: {error}") from error

    def _counters(self) -> dict[str, float]:
        return system(self.population.iterate.experimental_get_tracing_count())

    def _evaluate(self, interrupts: Interrupts, records: Sequence[Record]) -> None:
        keys = [
            seeds.iteration_seed(seed, record.step, "evaluate")
            for seed, record in zip(self.run_seeds, records, strict=True)
        ]
        begin = time.perf_counter()
        found = self._evaluator(keys, lambda: interrupts.requested)
        if found is None:  # stopped
            return
        seconds = time.perf_counter() - begin
        for record, result in zip(records, self.population.split(found), strict=True):
            if not record.rests:
                record.evaluated(result, seconds)


def _evaluation_due(records: Sequence[Record]) -> bool:
    """All are evaluated at once: when it is time for every one that has something left
    to do. Those that are due before stand still until then."""
    waiting = [each.evaluation_due() for each in records if not each.rests]
    return bool(waiting) and all(waiting)


def _save(records: Sequence[Record]) -> bool:
    saved = [each.checkpoint() for each in records]
    return all(saved)


def _mean(lines: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Of the seeds' newest lines, for the progress that is shown."""
    return {
        name: float(np.mean([line[name] for line in lines if name in line]))
        for name in ("episode/return_mean", "eval/return_mean")
        if any(name in line for line in lines)
    }


def _refuse(config: Config, run_seeds: Sequence[int]) -> None:
    if not run_seeds or len(set(run_seeds)) != len(run_seeds):
        raise UserError(f"seeds are {list(run_seeds)}; expected different ones")
    if max(run_seeds) >= 2**31 or min(run_seeds) < 0:
        raise UserError(f"seeds are {list(run_seeds)}; expected 0 to 2**31 - 1")
    plain = {"overlap": False, "device": "cpu", "compile": "auto"}
    plain |= {"precision": "float32", "num_workers": None, "envs_per_worker": None}
    plain |= {"stop_at_return": None, "log_video_every": 0, "track": "none"}
    plain |= {"log_info": [], "update_every": None}
    for name, expected in plain.items():
        value = getattr(config, name)
        if value != expected and (name, value) != ("compile", "full"):
            raise UserError(
                f"{name}={value} is not for several seeds, which are one compiled "
                "program on the CPU, without processes; leave it out"
            )
