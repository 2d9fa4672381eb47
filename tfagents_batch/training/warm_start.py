"""Initialize the agent of a new run from another run."""

from __future__ import annotations

import operator
import os
from typing import Any

from tfagents_batch.errors import UserError
from tfagents_batch.training.experiment import Experiment
from tfagents_batch.training.run_folder import checkpoint, config_file, runs


def begin(
    experiment: Experiment, logdir: str | os.PathLike, which: str | int
) -> dict[str, Any]:
    """Load the weights and statistics of another run's agent into an experiment.

    Training-only variables are not loaded, see ``Algorithm.named_variables``.

    Args:
      experiment: experiment of the new run, before it starts.
      logdir: folder of the other run.
      which: checkpoint: "newest", "best" or a step.

    Returns:
      Facts for the run's log: ``run``, name of the other run's folder; ``checkpoint``,
      its step; ``damaged``, ``{step: reason}`` of the newer checkpoints skipped.

    Raises:
      UserError: if there is no such checkpoint, or if its agent does not fit this run.
    """
    run = runs.open_run(logdir)
    _check_settings(run, experiment)
    _check_actions(run, experiment)
    damaged = {}

    def note(kind: str, step: int, reason: str) -> None:
        damaged[step] = reason

    try:
        step, _ = checkpoint.load(
            run.folder,
            experiment.named_variables(),
            which,
            on_event=note,
            leave=checkpoint.TRAINING_ONLY,
        )
    except UserError as error:
        raise UserError(f"init_from: {error}") from error
    return {"run": run.folder.name, "checkpoint": step, "damaged": damaged}


def _check_settings(run: runs.RunFolder, experiment: Experiment) -> None:
    """Check the settings that the meaning of an agent's weights depends on."""
    saved, _ = config_file.from_text(run.config_text)
    name, mine = run.folder.name, experiment.config
    if saved.algorithm != mine.algorithm:
        raise UserError(
            f"init_from: {name} was trained by {saved.algorithm!r}, but this run uses "
            f"{mine.algorithm!r}; use the same algorithm"
        )
    for setting in getattr(type(mine.settings), "OF_AGENT", ()):
        old, new = (operator.attrgetter(setting)(x.settings) for x in (saved, mine))
        if old != new:
            raise UserError(
                f"init_from: the agent of {name} has {setting}={old}, but this run "
                f"has {setting}={new}, which changes the meaning of the weights; set "
                f"the same value (flag --algorithm.{setting}), or use the same --config"
            )


def _check_actions(run: runs.RunFolder, experiment: Experiment) -> None:
    """Check that the action space equals the one recorded in the run folder."""
    recorded = runs.facts(run.folder).get("action_space")
    if recorded is None:
        return  # written by an older version; loading still compares shapes
    found = str(experiment.env.spec.action_space)
    if recorded != found:
        raise UserError(
            f"init_from: {run.folder.name} has the action space {recorded}, but the "
            f"environment has {found}; use an environment with the same action space"
        )
