"""Teacher of a distillation: the agent of a run folder, of which nothing is started."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from gymnasium import spaces as gs

from tfagents_batch import spaces
from tfagents_batch.algorithms.distill import DistillConfig
from tfagents_batch.errors import UserError
from tfagents_batch.interfaces import Policy
from tfagents_batch.training import playing
from tfagents_batch.training.config import RunConfig
from tfagents_batch.training.run_folder import runs
from tfagents_batch.types import EnvSpec


class Teacher(NamedTuple):
    """Arguments of ``Distill.teach``."""

    policy: Policy
    keys: tuple[str, ...]
    step: int


def located(resolved: RunConfig) -> RunConfig:
    """Return the config with the absolute folder of its teacher, if it has one.

    Raises:
      UserError: if it needs one and none is named, or if that is no run folder.
    """
    settings = resolved.settings
    if not isinstance(settings, DistillConfig):
        return resolved
    if not settings.teacher:
        raise UserError(
            "distill needs a teacher; pass its run folder: "
            "--algorithm.teacher=<run folder>"
        )
    try:
        folder = str(runs.open_run(settings.teacher).folder)
    except UserError as error:
        raise UserError(f"teacher: {error}") from error
    return dataclasses.replace(
        resolved, settings=dataclasses.replace(settings, teacher=folder)
    )


def load(settings: DistillConfig, spec: EnvSpec) -> Teacher:
    """Return the teacher, on the current device, in environments of a spec.

    Raises:
      UserError: if it cannot be loaded, or acts by other actions or observations.
    """
    which = {"checkpoint": settings.teacher_checkpoint}
    try:
        played = playing.trained(settings.teacher, plays=False, **which)
        acts, name = played.spec, played.run.folder.name
        if acts.action_space != spec.action_space:
            raise UserError(
                f"{name} has the action space {acts.action_space}, but the environment "
                f"has {spec.action_space}; use a teacher of the same actions"
            )
        wanted, found = acts.observation_space, spec.observation_space
        keys = ()
        if isinstance(wanted, gs.Dict):
            keys = tuple(sorted(wanted.spaces))
            known = found.spaces if isinstance(found, gs.Dict) else {}
            if missing := sorted({*keys} - {*known}):
                raise UserError(
                    f"{name} acts by the entry {missing[0]!r}, but the environment has "
                    f"{', '.join(sorted(known)) or found}; use an environment that has "
                    "it, and leave it out of --algorithm.actor_keys"
                )
            found = gs.Dict({key: known[key] for key in keys})
        if not spaces.alike(wanted, found):
            raise UserError(
                f"{name} acts by {wanted}, but the environment has {found}; use an "
                "environment with the same observations"
            )
        spec = spec._replace(observation_space=found)
        agent, step = playing.created(played, spec)
    except UserError as error:
        raise UserError(f"teacher: {error}") from error
    return Teacher(agent.policy, keys, step)
