"""A trained agent of a run folder, to be played."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterator
from typing import Any, NamedTuple

from gymnasium import spaces as gs

from tfagents_batch import spaces
from tfagents_batch.algorithms.shared import entries
from tfagents_batch.devices import placement
from tfagents_batch.envs import registry
from tfagents_batch.envs.recipe import EnvRecipe
from tfagents_batch.envs.wrappers import named
from tfagents_batch.errors import UserError
from tfagents_batch.interfaces import Algorithm, Env
from tfagents_batch.nn.policies.preprocessed import Player
from tfagents_batch.training import (
    assembly,
    compilation,
    evaluate,
    preprocessing,
    signals,
    threads,
)
from tfagents_batch.training.config import IN_PROCESS, VARIABLES, RunConfig
from tfagents_batch.training.log import console
from tfagents_batch.training.run_folder import checkpoint as checkpoints
from tfagents_batch.training.run_folder import config_file, runs
from tfagents_batch.types import EnvSpec


class Trained(NamedTuple):
    """A run whose agent is played."""

    run: runs.RunFolder  # run folder
    config: RunConfig  # config for playing
    recipe: EnvRecipe  # environment to play
    # Names of the environment variables that the run's workers had
    variables: list[str]
    # Name of the user's own environment or wrapper, or of an argument with text, if it
    # was not passed again
    missing: str | None = None
    network: Any = None  # the user's network, if the run was trained with one
    checkpoint: str | int = "newest"  # "newest", "best" or a step

    @property
    def trained_with(self) -> EnvSpec:
        """Spaces that the agent was trained with."""
        facts = runs.facts(self.run.folder)
        names = "observation_space", "action_space"
        return EnvSpec(1, *(spaces.from_json(facts[name]) for name in names), {})

    @property
    def spec(self) -> EnvSpec:
        """Spaces by which the agent acts: those without what only critics saw."""
        return entries.acting(self.config.settings, self.trained_with)

    def require_env(self) -> None:
        """Refuse a run without an environment to play."""
        if self.recipe.env == "":
            raise UserError(
                f"the run {self.run.folder} learned from logged rows and has no "
                "environment; pass env, an environment with the spaces of the rows, "
                "such as --env=CartPole-v1"
            )

    def in_process(self) -> Trained:
        """Return it with one environment, or a batch, in this process."""
        options = self.config.env_options.items()
        config = dataclasses.replace(
            self.config,
            num_envs=self.recipe.size or 1,
            num_workers=0 if self.recipe.has_workers else None,
            envs_per_worker=None,
            env_options={name: value for name, value in options if name in IN_PROCESS},
        )
        return self._replace(config=config)


def trained(
    logdir: str | os.PathLike,
    env: Any = None,
    env_kwargs: dict[str, Any] | None = None,
    wrappers: Any = None,
    network: Any = None,
    algorithm: str | type | None = None,
    checkpoint: str | int = "newest",
    plays: bool = True,
) -> Trained:
    """Return a run to play, in its own or another environment.

    Without ``env_kwargs`` and ``wrappers``, those of the run apply if they can, but
    with whole games as episodes. The user's network and algorithm are needed if the run
    was trained with them. Unless it ``plays``, no environments are created, which would
    need the user's own; the first environment of a list stands for all.
    """
    if not plays and isinstance(env, (list, tuple)) and env:
        env = env[0]
    run = runs.open_run(logdir)
    saved, user = config_file.from_text(run.config_text, algorithm)
    config_file.require(user if plays else user | {"env": None}, env, network)
    missing = user["env"] if env is None else None
    recipe = EnvRecipe("") if missing else saved.recipe()  # nothing is imported
    if env is not None:  # a function may create the run's own environment
        recipe = recipe.other(env, own=True)
    recipe = recipe.whole_games()
    if plays:
        config_file.require_wrappers(recipe.wrappers, wrappers)
        config_file.require_arguments(recipe, env_kwargs)
    elif wrappers is None and named.of_modules(recipe.wrappers):
        missing = missing or named.of_modules(recipe.wrappers)[0]
    elif env_kwargs is None:
        texts = registry.may_run_text(recipe.env, recipe.env_kwargs)
        missing = missing or next(iter(texts), None)
    passed = {"env_kwargs": env_kwargs, "wrappers": wrappers}
    passed = {name: value for name, value in passed.items() if value is not None}
    recipe = dataclasses.replace(recipe, **passed)
    changes: dict[str, Any] = {"env_kwargs": dict(recipe.env_kwargs), "eval_every": 0}
    # Without evaluations, none can end a training.
    changes |= {"stop_at_return": None}
    changes |= {"wrappers": list(recipe.wrappers), "on_fault": "raise"}
    if isinstance(env, str):
        changes["env"] = env
    if env is not None and not recipe.has_workers:
        changes |= {"num_workers": None, "envs_per_worker": None}
        changes |= {"env_options": {}, "log_info": []}
    config = dataclasses.replace(saved, **changes)
    parts = run, config, recipe, user[VARIABLES], missing, network, checkpoint
    return Trained(*parts) if plays else Trained(*parts).in_process()


@contextlib.contextmanager
def loaded(played: Trained, spec: EnvSpec) -> Iterator[tuple[Algorithm | Player, int]]:
    """Yield the agent of a checkpoint, for environments of a spec, and its step."""
    config = played.config.check_agent()
    with contextlib.ExitStack() as stack:
        stack.enter_context(signals.harmless_checkpoint_requests())
        own = played.network is not None
        resources = threads.configure(config, spec, own_network=own)
        assembly.prepare_devices(config, resources)
        stack.enter_context(placement.host())
        stack.enter_context(compilation.during_run())
        with console.doing("loading the agent"):
            agent = created(played, spec)
        yield agent


def created(played: Trained, spec: EnvSpec) -> tuple[Algorithm | Player, int]:
    """Return the agent of a checkpoint on the current device, and its step."""
    settings, trained_with = played.config.settings, played.trained_with
    if getattr(settings, "splits", False):  # the critic needs all entries that it saw
        acting = (entries.acting(settings, x) for x in (spec, trained_with))
        evaluate.check_spaces(*acting)
        spec = spec._replace(observation_space=trained_with.observation_space)
    normalization = preprocessing.of_run(played.run.folder)
    parts = played.config.check_agent(), normalization.seen(spec), played.network
    algorithm = assembly.create_algorithm(*parts)
    variables = algorithm.learner.named_variables()
    step, _ = checkpoints.load(played.run.folder, variables, played.checkpoint)
    return normalization.player(algorithm), step


def teach(spec: EnvSpec, student: Any) -> None:
    """Load the teacher of a student that sees a spec, on the current device.

    Raises:
      UserError: if it cannot be loaded, or acts by other actions or observations.
    """
    settings, found = student.config, spec.observation_space
    if not settings.teacher:
        raise UserError(
            "distill needs a teacher; pass --algorithm.teacher=<run folder>"
        )
    options = {"plays": False, "checkpoint": settings.teacher_checkpoint}
    try:
        played = trained(settings.teacher, **options)
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
        agent, step = created(played, spec._replace(observation_space=found))
        student.imitation.teach(agent.policy, keys, step)
    except UserError as error:
        raise UserError(f"teacher: {error}") from error


@contextlib.contextmanager
def environment(played: Trained, num_envs: int) -> Iterator[Env]:
    """Yield environments to play; those that exist already are not closed."""
    recipe = played.recipe.without_close()
    with signals.harmless_checkpoint_requests():
        with console.doing("starting environments"):
            env = recipe.make(num_envs, **played.config.make_options(num_envs))
        try:
            yield env
        finally:
            if recipe.creates:
                env.close()
