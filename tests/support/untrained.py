"""Run folders of agents that were not trained, for tests that load or play agents.

Tracing and compiling an update takes longer than everything else in a short run.
"""

from __future__ import annotations

import pathlib
from typing import Any

from tfagents_batch.configs import named
from tfagents_batch.training.assembly import Experiment
from tfagents_batch.training.run_folder import checkpoint, config_file, runs
from tfagents_batch.training.training_run import facts

STEP = 100  # of the only checkpoint


def folder(
    algorithm: str, env: Any, logdir: pathlib.Path, settings: Any = None, **options: Any
) -> pathlib.Path:
    """Create the folder of a run that stopped at ``STEP`` with its initial weights.

    Args:
      algorithm, env, settings, **options: as in ``train``.
      logdir: root folder of the runs.
    """
    config = named.resolve(algorithm, env, None, settings, options)
    recipe = config.recipe(env)
    with Experiment(config, recipe) as experiment:
        text = config_file.to_text(config, recipe.env, None)
        about = facts(experiment.algorithm, experiment.spec)
        path = runs.create(logdir, algorithm, config.seed, text, facts=about)
        checkpoint.save(path, STEP, experiment.named_variables(), {"step": STEP})
    return path
