"""Start of a run: a new one in a folder of its own, or one that is resumed."""

from __future__ import annotations

import contextlib
import dataclasses
import operator
import os
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from gymnasium import spaces as gs

from tfagents_batch import config, spaces
from tfagents_batch.algorithms.ppo import DistillConfig
from tfagents_batch.algorithms.shared import roles
from tfagents_batch.algorithms.shared.on_policy import OnPolicySettings
from tfagents_batch.envs.recipe import EnvRecipe
from tfagents_batch.errors import UserError
from tfagents_batch.experience import Experience, Located
from tfagents_batch.interfaces import Algorithm
from tfagents_batch.training import (
    evaluate,
    playing,
    preprocessing,
    profile,
    training_run,
)
from tfagents_batch.training.assembly import Experiment, create_algorithm
from tfagents_batch.training.config import VARIABLES, RunConfig, with_options
from tfagents_batch.training.log import console, trackers
from tfagents_batch.training.run_folder import checkpoint, config_file, files, runs

# Settings that may change when a run is resumed; the others come from its folder.
RESUMABLE = config.marked(RunConfig, "resumable")
_OPTIMIZER = "learner/optimizer/"


class Arguments(NamedTuple):
    """Arguments of ``train`` that no config holds, see there."""

    env: Any
    network: Any
    eval_env: Any
    source: Experience | None
    algorithm: str | type | None
    # Returns what collects instead of the config's source, such as the workers of a
    # pool, or None
    pool: Callable[[RunConfig, EnvRecipe], Any]
    callbacks: dict[str, tuple]  # arguments of ``Callbacks`` by name
    profile: bool


def begin(
    resolved: RunConfig,
    passed: Arguments,
    name: str,
    logdir: str | os.PathLike,
    origin: tuple[str | os.PathLike, str | int] | None = None,
) -> training_run.RunEnd:
    """Train in a new run folder in ``logdir``, whose name has ``name``.

    ``origin`` is the folder of the run that provides the initial agent, and its
    checkpoint.
    """
    network, eval_env = passed.network, passed.eval_env
    if isinstance(resolved.source, Located):
        resolved = dataclasses.replace(resolved, source=resolved.source.located())
    if isinstance(resolved.settings, DistillConfig):
        resolved = dataclasses.replace(resolved, settings=resolved.settings.located())
    if origin is not None and resolved.source.kind == "windows":
        resolved = _with_copied_policy(resolved)
    own = resolved.env or evaluate.reports(resolved)
    if eval_env is None and resolved.eval_every is None and not own:
        resolved = config.replace(resolved, {"eval_every": 0})
    if eval_env is None:
        evaluate.check_played(resolved)
    with _experiment(resolved, passed) as (experiment, recipe, _):
        text = config_file.to_text(resolved, recipe.env, network, eval_env=eval_env)
        parts = experiment.algorithm, experiment.spec, resolved.source
        facts, events = training_run.facts(*parts), []
        if origin is not None:
            started_from = take_agent(experiment, *origin, passed.network)
            events.append({"kind": runs.STARTED_FROM, **started_from})
            facts[runs.STARTED_FROM] = started_from
            facts[runs.TRAINING_ROWS] += runs.training_rows(origin[0])
        folder = runs.create(logdir, name, resolved.seed, text, facts=facts)
        with runs.lock(folder):
            return training_run.run(
                experiment, folder, passed.callbacks, None, events, passed.profile
            )


def _with_copied_policy(resolved: RunConfig) -> RunConfig:
    """Let the policy that is copied act in the warm-up, unless the user says who."""
    settings = resolved.settings
    if getattr(settings, "warmup", None) != "auto":
        return resolved
    settings = dataclasses.replace(settings, warmup="policy")
    return dataclasses.replace(resolved, settings=settings)


def take_agent(
    experiment: Experiment,
    logdir: str | os.PathLike,
    which: str | int,
    network: Any = None,
) -> dict[str, Any]:
    """Load another run's agent, and what it has learned to train with.

    The policy and its statistics must fit. Of the rest, such as critics and target
    networks, all that both runs have is loaded, except the state of optimizers: their
    moments belong to the gradients of the other run. Between two algorithms, that is
    what has the same role in both. ``which`` is a checkpoint: "newest", "best" or a
    step, and ``network`` the user's, or None.

    Returns:
      Facts for the run's log: ``run``, name of the other run's folder; ``checkpoint``,
      its step; ``damaged``, ``{step: reason}`` of the newer checkpoints skipped;
      ``not_loaded``, groups of variables that only one of the two runs has, and the
      optimizers'; ``warnings``. Those of another algorithm also have ``algorithm``, its
      name, and the fields of ``roles.Taken``.

    Raises:
      UserError: if there is no such checkpoint, or if its agent does not fit this run.
    """
    run, own = runs.open_run(logdir), experiment.config
    saved, user = config_file.from_text(run.config_text)
    name, normalization = run.folder.name, experiment.preprocessing
    same = saved.algorithm in (own.algorithm, *roles.ALIKE.get(own.algorithm, ()))
    if not same and saved.algorithm not in roles.FROM.get(own.algorithm, ()):
        raise _unusable(name, saved.algorithm, own.algorithm)
    if same:
        _check_settings(name, saved, own)
    _check_actions(run, saved, experiment)
    preprocessing.check_same(run.folder, normalization, f"init_from: in {name},")
    other = None if same else _another(name, saved, user, experiment, network)
    agent = experiment.algorithm if other is None else other
    damaged, named = {}, agent.learner.named_variables()
    leave = checkpoint.TRAINING_ONLY if same else (_OPTIMIZER,)

    def note(kind: str, step: int, reason: str) -> None:
        damaged[step] = reason

    try:
        parts = run.folder, named, which
        step, _ = checkpoint.load(*parts, on_event=note, leave=leave)
    except UserError as error:
        raise UserError(f"init_from: {error}") from error
    facts = {"run": name, "checkpoint": step, "damaged": damaged}
    facts["warnings"] = _warnings(name, saved.settings, own.settings)
    if other is not None:
        return facts | _take_roles(name, saved, experiment, other)
    learned = {k: x for k, x in named.items() if k.startswith(checkpoint.TRAINING_ONLY)}
    left = checkpoint.load_fitting(run.folder, step, learned, leave=(_OPTIMIZER,))
    groups = sorted({"/".join(name.split("/")[:2]) for name in left})
    return facts | {"not_loaded": groups}


def _unusable(name: str, old: str, new: str) -> UserError:
    """Return the error for an agent that another algorithm can use nothing of."""
    usable = old, *(name for name, known in roles.FROM.items() if old in known)
    return UserError(
        f"init_from: {name} was trained by {old!r}, from which {new!r} cannot start; "
        f"use {' or '.join(usable)}"
    )


def _another(
    name: str, saved: RunConfig, user: dict[str, Any], experiment: Experiment, own: Any
) -> Algorithm:
    """Return the agent of a run of another algorithm, with initial weights.

    ``user`` has the names of its user's code, and ``own`` is this run's network.
    """
    box = isinstance(experiment.spec.action_space, gs.Box)
    settings = saved.settings, experiment.config.settings
    wrong = roles.differences(*settings, box)
    if wrong:
        flags = {f"algorithm.{k}": both for k, both in wrong.items()}
        here, needed = (
            " ".join(config_file.as_flag(k, both[i]) for k, both in flags.items())
            for i in range(2)
        )
        raise UserError(
            f"init_from: the agent of {name} does not fit the network and settings of "
            f"this run, {here}; pass {needed}"
        )
    on_policy = isinstance(experiment.config.settings, OnPolicySettings)
    if bool(user["network"]) != (own is not None) or (own is not None and on_policy):
        here, there = "the built-in network", user["network"] or "the built-in one"
        raise UserError(
            f"init_from: this run has {here if own is None else 'your own network'}, "
            f"and {name} has {there}; an agent of another algorithm needs the same "
            "network= in both runs, and on-policy algorithms the built-in one"
        )
    doing = console.doing("creating the networks of init_from")
    with doing, experiment.placement.updating():
        return create_algorithm(saved, experiment.seen, own)


def _take_roles(
    name: str, saved: RunConfig, experiment: Experiment, other: Algorithm
) -> dict[str, Any]:
    """Take over an agent of another algorithm; return facts for the run's log."""
    try:
        taken = roles.take(other, experiment.algorithm)
    except roles.Misfit as error:
        raise UserError(
            f"init_from: the agent of {name} does not fit: {error}; use an environment "
            "and a network of the same shapes"
        ) from error
    facts = {"algorithm": saved.algorithm, **taken._asdict()}
    return facts | {"not_loaded": [*taken.new, *taken.left]}


def _warnings(name: str, old: Any, new: Any) -> list[str]:
    """Return what is wrong at first with an agent of other settings."""
    before, now = (getattr(x, "gamma", None) for x in (old, new))
    if before is None or now is None or abs(before - now) <= roles.GAMMA + 1e-9:
        return []
    return [
        f"gamma is {now}, but the values of {name} were learned with {before}, so they "
        f"are wrong at first; --algorithm.gamma={before} continues with them"
    ]


def _sees(config: RunConfig) -> str:
    """Return what the value sees, for an error."""
    keys = [
        f"{name}={','.join(value)}"
        for name in ("actor_keys", "critic_keys")
        if (value := getattr(config.settings, name, ()))
    ]
    return f"has {' and '.join(keys)}" if keys else "sees what the actor sees"


def _check_settings(name: str, saved: RunConfig, own: RunConfig) -> None:
    """Check the settings that the meaning of an agent's weights depends on."""
    old, new = (getattr(x.settings, "exploration", None) for x in (saved, own))
    if old != new and "sde" in (old, new):
        raise UserError(
            f"init_from: the agent of {name} has exploration={old}, but this run has "
            f"exploration={new}, and standard deviations of sde are other weights; set "
            f"--algorithm.exploration={old}"
        )
    splits = [getattr(x.settings, "splits", False) for x in (saved, own)]
    if splits[0] != splits[1] and "rollouts" in own.settings.accepts():
        raise UserError(
            f"init_from: the value of {name} {_sees(saved)}, but that of this run "
            f"{_sees(own)}, so that other weights belong to it; give this run the same "
            "--algorithm.actor_keys and --algorithm.critic_keys"
        )
    for setting in own.settings.OF_AGENT:
        old, new = (operator.attrgetter(setting)(x.settings) for x in (saved, own))
        if old != new:
            raise UserError(
                f"init_from: the agent of {name} has {setting}={old}, but this run "
                f"has {setting}={new}, which changes the meaning of the weights; set "
                f"the same value (flag --algorithm.{setting}), or use the same --config"
            )


def _check_actions(
    run: runs.RunFolder, saved: RunConfig, experiment: Experiment
) -> None:
    """Check that the action space equals the one recorded in the run folder."""
    space, facts = experiment.spec.action_space, runs.facts(run.folder)
    if "action_space" not in facts:
        return  # loading still compares shapes
    try:
        recorded = spaces.from_json(facts["action_space"])
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"init_from: run.json of {run.folder.name} is damaged: its action_space "
            f"cannot be read ({type(error).__name__}: {error}); restore it from a copy "
            "of the run, or pass another run"
        ) from error
    if recorded != space:
        advice = "use an environment with the same action space"
        if not saved.env:  # the bounds of a Box are those of its rows
            advice = f"train it from its rows with --env={experiment.config.env}"
        raise UserError(
            f"init_from: {run.folder.name} has the action space {recorded}, but the "
            f"environment has {space}; {advice}"
        )


def resume(
    folder: str | os.PathLike, passed: Arguments, options: dict[str, Any]
) -> training_run.RunEnd:
    """Continue a run from its newest checkpoint, with settings that the user gave."""
    refused = sorted(set(options) - {*RESUMABLE, "env_kwargs", "wrappers"})
    if refused:
        raise UserError(
            f"{refused[0]} cannot change when a run is resumed; only "
            f"{', '.join(RESUMABLE)} can"
        )
    run = runs.open_run(folder)
    resolved, saved, user = _resumed(run, passed, options)
    with (
        runs.lock(run.folder),
        _experiment(resolved, passed) as (experiment, _, evaluated),
    ):
        runs.sweep(run.folder)
        events: list[dict] = []
        step, state = checkpoint.load(
            run.folder,
            experiment.named_variables(),
            on_event=lambda kind, **fields: events.append({"kind": kind, **fields}),
        )
        if "steps" in options and resolved.steps <= step:
            raise UserError(
                f"steps is {resolved.steps}, but the run already has {step}; pass a "
                "larger number to continue"
            )
        shown = experiment.config
        changed = {
            name: [getattr(saved, name), getattr(shown, name)]
            for name in options
            if getattr(saved, name) != getattr(shown, name)
        }
        if changed:
            events.append({"kind": "options", "changed": changed})
        variables = sorted(resolved.env_options.get(VARIABLES) or {})
        played = user | {VARIABLES: variables}
        if evaluated is not None:
            played["eval_env"] = evaluated.describe()
        is_same = not changed and played == user
        if is_same and not passed.profile:
            ended = training_run.finished(run.folder, resolved, state)
            if ended is not None:
                return ended

        def started() -> None:
            if not is_same:  # saved once resuming has worked
                text = config_file.to_text(resolved, passed.env, passed.network, played)
                files.write_atomic(run.folder / "config.json", text)

        watched = passed.callbacks, state, events, passed.profile, started
        return training_run.run(experiment, run.folder, *watched)


def _resumed(
    run: runs.RunFolder, passed: Arguments, options: dict[str, Any]
) -> tuple[RunConfig, RunConfig, dict[str, Any]]:
    """Return the config of a resumed run, the saved one, and the user's code in it.

    ``env_kwargs`` and ``wrappers`` are taken out of ``options``: they may not change,
    but what could run code has to be passed again.
    """
    env_kwargs, wrappers = (options.pop(x, None) for x in ("env_kwargs", "wrappers"))
    env, source = passed.env, passed.source
    saved, user = config_file.from_text(run.config_text, passed.algorithm)
    config_file.require(user, env, passed.network)
    config_file.require_source(user, source)
    if env_kwargs not in (None, saved.env_kwargs):
        raise UserError(
            f"env_kwargs is {env_kwargs}, but the run has {saved.env_kwargs}; start a "
            "new run for another environment"
        )
    config_file.require_arguments(saved.recipe(env), env_kwargs)
    config_file.require_wrappers(saved.wrappers, wrappers)
    if wrappers not in (None, saved.wrappers):
        raise UserError(
            f"wrappers is {wrappers}, but the run has {saved.wrappers}; start a new "
            "run for other wrappers"
        )
    if "env_options" not in options:
        config_file.require_variables(user, saved)
    config_file.require_address(saved, options)
    if isinstance(env, str):
        if not EnvRecipe(env).same_as(saved.env):
            raise UserError(
                f"the run was trained on {saved.env!r}, not on {env!r}; start a new "
                "run for another environment"
            )
        options["env"] = env
    own = {} if source is None else {"source": source}
    resolved = with_options(saved, options | own)
    training_run.check_source(run.folder, resolved.source)
    if passed.eval_env is None and not user["eval_env"]:
        evaluate.check_played(resolved)
    if resolved.eval_every != 0:
        config_file.require_evaluation(user, passed.eval_env)
    return resolved, saved, user


@contextlib.contextmanager
def _experiment(
    resolved: RunConfig, passed: Arguments
) -> Iterator[tuple[Experiment, EnvRecipe, EnvRecipe | None]]:
    """Yield the live objects of a run, its environment and that of ``eval_env``.

    What could only fail later is refused: callbacks that are never called, trackers
    that are not installed, a run that cannot be profiled.
    """
    if passed.callbacks["on_evaluation"] and resolved.eval_every == 0:
        raise UserError(
            "on_evaluation would never be called because eval_every is 0; remove one "
            "of them"
        )
    trackers.check(resolved.track)
    if passed.profile:
        profile.check(resolved)
    recipe, evaluated = resolved.recipe(passed.env), None
    if passed.eval_env is not None:
        evaluated = recipe.other(passed.eval_env, own=False)
    experience = passed.pool(resolved, recipe)
    teacher = playing.teach if isinstance(resolved.settings, DistillConfig) else None
    parts = resolved, recipe, evaluated, passed.network, experience, teacher
    with console.starting(not resolved.progress), Experiment(*parts) as experiment:
        yield experiment, recipe, evaluated
