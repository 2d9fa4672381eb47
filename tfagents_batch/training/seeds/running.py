"""Train several seeds at once, each with its own run folder."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
from collections.abc import Sequence

from tfagents_batch.envs.recipe import EnvRecipe
from tfagents_batch.errors import SaveError, TrainingError
from tfagents_batch.training import compilation
from tfagents_batch.training.callbacks import Callbacks
from tfagents_batch.training.config import RunConfig
from tfagents_batch.training.log import starting
from tfagents_batch.training.log.console import Console
from tfagents_batch.training.log.logger import Logger
from tfagents_batch.training.record import Record
from tfagents_batch.training.run_folder import (
    checkpoint,
    config_file,
    flag_names,
    runs,
)
from tfagents_batch.training.runtime.signals import (
    Interrupts,
    harmless_checkpoint_requests,
)
from tfagents_batch.training.seeds.experiment import SeedsExperiment
from tfagents_batch.training.seeds.population import REASON
from tfagents_batch.training.training_run import (
    Ended,
    facts,
    introduce,
    make_alarms,
)


def run_seeds(
    config: RunConfig,
    seeds: Sequence[int],
    recipe: EnvRecipe,
    root: str | os.PathLike,
    name: str,
) -> list[Ended]:
    """Train several seeds at once; each has a run folder, as if it were trained alone.

    Args:
      config: checked config of the runs, except for their seeds.
      seeds: seeds of the runs.
      recipe: environment to train on.
      root: parent of the run folders.
      name: name of the runs, part of their folders' names.

    Raises:
      UserError: if a setting cannot be used, before a folder is created.
      TrainingError: if the gradients of a seed are no longer finite.
      SaveError: if the last checkpoint of a seed could not be written.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(harmless_checkpoint_requests())
        stack.enter_context(compilation.during_run())
        stack.enter_context(starting.starting(not config.progress))
        experiment = SeedsExperiment(config, seeds, recipe)
        console = stack.enter_context(Console(config.steps, quiet=not config.progress))
        interrupts = stack.enter_context(Interrupts(report=console.message))
        introduce(experiment, console)
        run_facts = facts(experiment.algorithm, experiment.spec)
        records, folders = [], []
        for index, seed in enumerate(experiment.run_seeds):
            seed_config = dataclasses.replace(config, seed=seed)
            text = config_file.to_text(seed_config, recipe.env, None)
            folder = runs.create(root, name, seed, text, facts=run_facts)
            stack.enter_context(runs.lock(folder))
            logger = Logger(
                folder,
                None,
                warn=console.message,
                settings=flag_names.with_defaults(seed_config),
                steps=seed_config.steps,
            )
            stack.enter_context(logger)
            variables = functools.partial(experiment.population.variables, index)
            save = functools.partial(checkpoint.save, folder)
            watched = make_alarms(experiment), Callbacks(folder), variables, save
            records.append(
                Record(
                    seed_config,
                    *(logger, console, *watched),
                    counters=experiment.counters,
                    seed=seed,
                )
            )
            folders.append(str(folder))
            logger.event("resources", 0, **experiment.report)

        console.note(f"compile=full: {REASON}")
        try:
            finished = experiment.train(interrupts, records, console.update)
        except (TrainingError, SaveError) as error:
            kind = type(error).__name__
            for record in records:
                record.logger.event("failed", record.step, error=kind, text=str(error))
            raise
        for record in records:
            record.logger.event("finished" if finished else "stopped", record.step)
    ended_by = None if finished else interrupts.signal
    return [
        Ended(folder, record.step, record.latest, finished, ended_by)
        for folder, record in zip(folders, records, strict=True)
    ]
