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
from tfagents_batch.schedules import Every, EverySeconds
from tfagents_batch.training import compile_cache, evaluate, experiment, threads
from tfagents_batch.training.experiment import Config
from tfagents_batch.training.interrupt import Interrupts
from tfagents_batch.training.loop import BAD_ITERATIONS, Interval, default
from tfagents_batch.training.output import Output
from tfagents_batch.training.population import MOST, STEP, Population

_SECONDS = 0.5  # that a call of the program should take: an interrupt waits for its end


class Several:
    """The live objects of a run.

    Args:
      config: of the first seed; the others differ by their seed only.
      run_seeds: of the runs, S of them.
      env: what to train on, where ``config.env`` is only its description.

    Attributes:
      algorithm: holds one seed's values at a time, while they are saved.
      resources, cache_off: as of an ``Experiment``.
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
            return make_env(given, count * rows, env_kwargs=config.env_kwargs)

        train_env = make(config.num_envs)
        spec = train_env.spec._replace(num_envs=config.num_envs)
        self.resources = threads.settle(config, spec)
        self.cache_off = experiment.enable_cache(config, self.resources)
        kind, _ = algorithms.REGISTRY[config.algorithm]
        settings = schedules.resolve(config.settings, config.steps)
        made = []
        for seed in self.run_seeds:
            with experiment.seeded(seed):
                made.append(kind(settings, spec, None))
        self.algorithm = made[0]
        self.population = Population(
            made, train_env, self.run_seeds, config.rollout_length, config.steps
        )
        self._bad = np.zeros(count, int)
        self._best: list[float | None] = [None] * count
        self._saved: list[int | None] = [None] * count
        self._evaluated: list[int | None] = [None] * count
        self._evaluator = None
        if config.eval_every != 0:
            rows = evaluate.batch_size(config.eval_episodes, config.num_envs)
            self._evaluator = self.population.evaluator(
                make(rows), config.eval_episodes
            )

    def report(self) -> dict[str, Any]:
        """What the run uses of the machine, for its log."""
        used = experiment.report(self.resources, self.cache_off)
        return used | {"seeds": self.run_seeds}

    def train(
        self,
        interrupts: Interrupts,
        outputs: Sequence[Output],
        progress: Callable[[int, dict], None],
    ) -> bool:
        """Train all seeds to the end; false when a stop was asked for.

        Args:
          interrupts: says when to stop and when to save.
          outputs: one for each seed; their checkpoints are of ``algorithm``.
          progress: ``(step, metrics)`` of the slowest seed, after every call.

        Raises:
          TrainingError: when gradients of a seed are not finite any more.
          SaveError: if the last checkpoints could not be written.
        """
        config, seconds, count = self.config, 0.0, 1
        log_every = default(config.log_every, config.steps // 200)
        lines = [_Lines(output, log_every, config.steps) for output in outputs]
        should_evaluate = Every(default(config.eval_every, config.steps // 10))
        should_save = EverySeconds(config.checkpoint_every)
        should_save()
        done = self.population.done
        while done.min() < config.steps and not interrupts.requested:
            before, begin = done, time.perf_counter()
            found = self.population.iterate(tf.constant(count))
            metrics, newest = tf.nest.map_structure(lambda x: x.numpy(), found)
            took = time.perf_counter() - begin
            first, seconds = seconds == 0, seconds + took
            self._note(lines, metrics, newest, count, before, seconds - took, took)
            done = self.population.done
            if first:  # mostly compiling
                compile_cache.publish()
            else:
                count = int(np.clip(count * _SECONDS / took, 1, MOST))
            self._check_finite(metrics, count, before, outputs)
            progress(int(done.min()), _mean([each.newest for each in lines]))
            due = should_evaluate(int(done.min())) or done.min() >= config.steps
            if due and self._evaluator:
                self._evaluate(interrupts, outputs)
            if interrupts.checkpoint_requested or should_save():
                self._save(outputs)
        for each in lines:
            each.flush()
        if not self._save(outputs):
            raise SaveError("the last checkpoint of a seed could not be saved")
        return bool(done.min() >= config.steps)

    def _note(
        self, lines, metrics, newest, count: int, before, start: float, took: float
    ) -> None:
        """Every iteration of every seed that was still training."""
        for k in range(count):
            now = start + took * (k + 1) / count
            for i in np.flatnonzero(before < self.config.steps):
                found = {name: x[k, i] for name, x in metrics.items()}
                step = int(found.pop(STEP))
                if k == count - 1:
                    found |= {name: x[i] for name, x in newest.items()}
                lines[i].add(found, step, now)
            before = metrics[STEP][k]

    def _check_finite(self, metrics, count: int, before, outputs) -> None:
        for k in range(count):
            active = before < self.config.steps
            bad = (metrics["grad/skipped"][k] == 1) & active
            self._bad = np.where(bad, self._bad + 1, 0)
            if self._bad.max() >= BAD_ITERATIONS:
                break
            before = metrics[STEP][k]
        else:
            return
        for i in np.flatnonzero(self._bad == 0):
            self._save_one(i, outputs[i])
        raise TrainingError(
            f"no gradient of seed {self.run_seeds[int(self._bad.argmax())]} was finite "
            f"in {BAD_ITERATIONS} iterations: look for NaN in rewards and "
            "observations, or lower the learning rate; the checkpoints before are whole"
        )

    def _evaluate(self, interrupts: Interrupts, outputs: Sequence[Output]) -> None:
        done = self.population.done
        pairs = zip(self.run_seeds, done, strict=True)
        keys = [seeds.iteration_seed(seed, int(at), "evaluate") for seed, at in pairs]
        found = self._evaluator(keys, lambda: interrupts.requested)
        if found is None:  # stopped
            return
        for i, result in enumerate(self.population.split(found)):
            if self._evaluated[i] == done[i]:
                continue  # it had finished, and stands still
            self._evaluated[i] = done[i]
            outputs[i].write(result.metrics(), int(done[i]))
            best = self._best[i]
            if best is None or result.mean_return > best:
                self._best[i] = result.mean_return
                if not self._save_one(i, outputs[i], best=True):
                    self._best[i] = best

    def _save(self, outputs: Sequence[Output]) -> bool:
        saved = [self._save_one(i, output) for i, output in enumerate(outputs)]
        return all(saved)

    def _save_one(self, i: int, output: Output, best: bool = False) -> bool:
        """Save a seed, unless its step is saved already: that may be the best one."""
        step = int(self.population.done[i])
        if self._saved[i] == step and not best:
            return True
        self.population.put_into(self.algorithm, i)
        state = {"step": step, "best": self._best[i]}
        if not output.save(step, state, {"best": best}):
            return False
        self._saved[i] = step
        return True


class _Lines:
    """One seed's lines of metrics, in intervals.

    Attributes:
      newest: the last line; empty before the first.
    """

    def __init__(self, output: Output, every: int, steps: int):
        self.newest: dict[str, Any] = {}
        self._output, self._steps = output, steps
        self._due = Every(every)
        self._interval = Interval()
        # Step and seconds: at the last line, and at the last iteration not in one.
        self._since: tuple[int, float] | None = None
        self._last: tuple[int, float] | None = None

    def add(self, metrics: dict[str, Any], step: int, seconds: float) -> None:
        """Take an iteration's metrics, and write a line if it is time."""
        self._interval.add(metrics)
        self._last = step, seconds
        if self._due(step) or step >= self._steps:
            self.flush()
        if self._since is None:  # the first iteration was compiled
            self._since = self._last

    def flush(self) -> None:
        """Write what was taken since the last line."""
        if self._last is None:
            return
        (step, seconds), self._last = self._last, None
        line = self._interval.summary() | {"time/elapsed_seconds": seconds}
        if self._since is not None:
            before, began = self._since
            line["time/env_steps_per_second"] = (step - before) / (seconds - began)
            self._since = step, seconds
        self._output.write(line, step)
        self.newest, self._interval = line, Interval()


def _mean(lines: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Of the seeds' returns, for the progress that is shown."""
    name = "episode/return_mean"
    known = [line[name] for line in lines if name in line]
    return {name: float(np.mean(known))} if known else {}


def _refuse(config: Config, run_seeds: Sequence[int]) -> None:
    if not run_seeds or len(set(run_seeds)) != len(run_seeds):
        raise UserError(f"seeds are {list(run_seeds)}; expected different ones")
    if max(run_seeds) >= 2**31 or min(run_seeds) < 0:
        raise UserError(f"seeds are {list(run_seeds)}; expected 0 to 2**31 - 1")
    plain = {"overlap": False, "device": "cpu", "compile": "auto"}
    plain |= {"precision": "float32", "num_workers": None, "envs_per_worker": None}
    for name, expected in plain.items():
        value = getattr(config, name)
        if value != expected and (name, value) != ("compile", "full"):
            raise UserError(
                f"{name}={value} is not for several seeds, which are one compiled "
                "program on the CPU, without processes; leave it out"
            )
