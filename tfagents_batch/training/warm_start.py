"""Initialize the agent of a new run from another run."""

from __future__ import annotations

import operator
import os
from typing import Any

from tfagents_batch import spaces
from tfagents_batch.errors import UserError
from tfagents_batch.training import preprocessing
from tfagents_batch.training.assembly import Experiment
from tfagents_batch.training.run_folder import checkpoint, config_file, runs

_OPTIMIZER = "learner/optimizer/"


def begin(
    experiment: Experiment, logdir: str | os.PathLike, which: str | int
) -> dict[str, Any]:
    """Load another run's agent, and what it has learned to train with.

    The policy and its statistics must fit. Of the rest, such as critics and target
    networks, all that both runs have is loaded, except the state of optimizers: their
    moments belong to the gradients of the other run.

    Args:
      experiment: experiment of the new run, before it starts.
      logdir: folder of the other run.
      which: checkpoint: "newest", "best" or a step.

    Returns:
      Facts for the run's log: ``run``, name of the other run's folder; ``checkpoint``,
      its step; ``damaged``, ``{step: reason}`` of the newer checkpoints skipped;
      ``not_loaded``, groups of variables that only one of the two runs has, and the
      optimizers'.

    Raises:
      UserError: if there is no such checkpoint, or if its agent does not fit this run.
    """
    run = runs.open_run(logdir)
    _check_settings(run, experiment)
    _check_actions(run, experiment)
    name, mine = run.folder.name, experiment.preprocessing
    preprocessing.check_same(run.folder, mine, f"init_from: in {name},")
    damaged, named = {}, experiment.named_variables()

    def note(kind: str, step: int, reason: str) -> None:
        damaged[step] = reason

    try:
        step, _ = checkpoint.load(
            *(run.folder, named, which),
            on_event=note,
            leave=checkpoint.TRAINING_ONLY,
        )
    except UserError as error:
        raise UserError(f"init_from: {error}") from error
    own = {k: x for k, x in named.items() if k.startswith(checkpoint.TRAINING_ONLY)}
    left = checkpoint.load_fitting(run.folder, step, own, leave=(_OPTIMIZER,))
    groups = sorted({"/".join(name.split("/")[:2]) for name in left})
    return {
        "run": run.folder.name,
        "checkpoint": step,
        "damaged": damaged,
        "not_loaded": groups,
    }


def _check_settings(run: runs.RunFolder, experiment: Experiment) -> None:
    """Check the settings that the meaning of an agent's weights depends on."""
    saved, _ = config_file.from_text(run.config_text)
    name, mine = run.folder.name, experiment.config
    if saved.algorithm != mine.algorithm:
        raise UserError(
            f"init_from: {name} was trained by {saved.algorithm!r}, but this run uses "
            f"{mine.algorithm!r}; use the same algorithm"
        )
    for setting in mine.settings.OF_AGENT:
        old, new = (operator.attrgetter(setting)(x.settings) for x in (saved, mine))
        if old != new:
            raise UserError(
                f"init_from: the agent of {name} has {setting}={old}, but this run "
                f"has {setting}={new}, which changes the meaning of the weights; set "
                f"the same value (flag --algorithm.{setting}), or use the same --config"
            )


def _check_actions(run: runs.RunFolder, experiment: Experiment) -> None:
    """Check that the action space equals the one recorded in the run folder."""
    found, facts = experiment.spec.action_space, runs.facts(run.folder)
    if "action_space" not in facts:
        return  # loading still compares shapes
    recorded = spaces.from_json(facts["action_space"])
    if recorded != found:
        raise UserError(
            f"init_from: {run.folder.name} has the action space {recorded}, but the "
            f"environment has {found}; use an environment with the same action space"
        )
