"""A run of several seeds in its folders, one for each seed."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
from collections.abc import Callable, Sequence
from typing import Any

from tfagents_batch.errors import SaveError, TrainingError
from tfagents_batch.training import (
    compile_cache,
    executables,
    hooks,
    runs,
    stored,
    weights,
)
from tfagents_batch.training.alarms import Alarms
from tfagents_batch.training.config import Config
from tfagents_batch.training.console import Console
from tfagents_batch.training.interrupt import Interrupts
from tfagents_batch.training.logger import Logger
from tfagents_batch.training.output import Output, sentence
from tfagents_batch.training.running import Run
from tfagents_batch.training.seeds.experiment import Several


def run_seeds(
    config: Config,
    seeds: Sequence[int],
    env: Any,
    root: str | os.PathLike,
    name: str,
    describe: Callable[[Any, Any], dict[str, Any]],
) -> list[Run]:
    """Train several seeds at once; each has a run folder, as if it were trained alone.

    Args:
      config: of the runs, checked, but for their seeds.
      seeds: of the runs.
      env: what to train on, where ``config.env`` is only its description.
      root: folder of the runs' folders.
      name: of the runs, part of their folders' names.
      describe: ``(algorithm, spec)``, what a folder remembers of what trains.

    Raises:
      UserError: for anything that cannot be used, before there is a folder.
      TrainingError: if gradients of a seed are not finite any more.
      SaveError: if a last checkpoint could not be written.
    """
    given = config.env if env is None else env
    with contextlib.ExitStack() as stack:
        stack.enter_context(executables.of_a_run())
        several = Several(config, seeds, env)
        stack.callback(compile_cache.publish)
        console = stack.enter_context(Console(config.steps))
        interrupts = stack.enter_context(Interrupts(report=console.message))
        console.message(str(several.resources))
        console.message(weights.table(weights.by_layer(several.algorithm)))
        told = describe(several.algorithm, several.spec)
        outputs = []
        for index, seed in enumerate(several.run_seeds):
            mine = dataclasses.replace(config, seed=seed)
            text = stored.to_text(mine, given, None)
            folder = runs.create(root, name, seed, text, facts=told)
            stack.enter_context(runs.lock(folder))
            logger = Logger(folder, None, warn=console.message, settings=mine)
            stack.enter_context(logger)
            watch = Alarms(
                several.algorithm.alarms,
                config.steps,
                config.num_envs,
                several.spec.max_episode_steps,
            )
            none = hooks.Hooks(folder)
            held = functools.partial(several.variables, index)
            outputs.append(Output(folder, logger, console, held, watch, none, seed))
            logger.event("resources", 0, **several.report())

        def tell(event: dict, step: int) -> None:
            for output in outputs:
                output.tell(event, step)
            console.message(sentence(event))

        try:
            finished = several.train(interrupts, outputs, console.update, tell)
        except (TrainingError, SaveError) as error:
            kind = type(error).__name__
            for output, step in zip(outputs, several.population.done, strict=True):
                output.logger.event("failed", int(step), error=kind, text=str(error))
            raise
        stopped_by = None if finished else interrupts.signal
        steps = [int(step) for step in several.population.done]
        for output, step in zip(outputs, steps, strict=True):
            output.logger.event("finished" if finished else "stopped", step)
    return [
        Run(str(output.folder), step, output.latest, finished, stopped_by)
        for output, step in zip(outputs, steps, strict=True)
    ]
