"""Teacher of a distillation: the agent of a run folder, of which nothing is started."""

from __future__ import annotations

import dataclasses
from typing import Any

from gymnasium import spaces as gs

from tfagents_batch import spaces
from tfagents_batch.errors import UserError
from tfagents_batch.training import playing
from tfagents_batch.training.run_folder import runs
from tfagents_batch.types import EnvSpec


def located(settings: Any) -> Any:
    """Return settings with the absolute folder of their teacher.

    Raises:
      UserError: if none is named, or if that is no run folder.
    """
    if not settings.teacher:
        raise UserError(
            "distill needs a teacher; pass its run folder: "
            "--algorithm.teacher=<run folder>"
        )
    try:
        folder = runs.open_run(settings.teacher).folder
    except UserError as error:
        raise UserError(f"teacher: {error}") from error
    return dataclasses.replace(settings, teacher=str(folder))


def teach(spec: EnvSpec, student: Any) -> None:
    """Load the teacher of a student that sees a spec, on the current device.

    Raises:
      UserError: if it cannot be loaded, or acts by other actions or observations.
    """
    settings, found = student.config, spec.observation_space
    options = {"plays": False, "checkpoint": settings.teacher_checkpoint}
    try:
        played = playing.trained(settings.teacher, **options)
        name, wanted, keys = played.run.folder.name, played.spec, ()
        if wanted.action_space != spec.action_space:
            raise UserError(
                f"{name} has the action space {wanted.action_space}, but the "
                f"environment has {spec.action_space}; use a teacher of these actions"
            )
        if isinstance(wanted.observation_space, gs.Dict):
            keys = tuple(sorted(wanted.observation_space.spaces))
            found = spaces.part(found, keys, name)
        if not spaces.alike(wanted.observation_space, found):
            raise UserError(
                f"{name} acts by {wanted.observation_space}, but the environment has "
                f"{found}; use an environment with the same observations"
            )
        agent, step = playing.created(played, spec._replace(observation_space=found))
        student.imitation.teach(agent.policy, keys, step)
    except UserError as error:
        raise UserError(f"teacher: {error}") from error
