"""``train`` and ``evaluate``: what most users call."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pathlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tfagents_batch import algorithms, config
from tfagents_batch.configs import PRESETS
from tfagents_batch.envs.make import tensor_env
from tfagents_batch.envs.registry import describe, needs_user_code
from tfagents_batch.errors import (
    EnvError,
    SaveError,
    Stopped,
    TrainingError,
    UserError,
)
from tfagents_batch.interfaces import Env
from tfagents_batch.training import checkpoint, compile_cache, runs, threads
from tfagents_batch.training import evaluate as evaluation
from tfagents_batch.training import profile as profiling
from tfagents_batch.training import visualize as filming
from tfagents_batch.training.checkpoint import load as load_checkpoint
from tfagents_batch.training.console import Console
from tfagents_batch.training.experiment import Config, Experiment, one_length
from tfagents_batch.training.interrupt import Interrupts
from tfagents_batch.training.logger import Logger
from tfagents_batch.training.loop import Loop
from tfagents_batch.training.output import Output
from tfagents_batch.training.several import Several

# What may change when a run is resumed; the rest comes from its folder.
RESUMABLE = (
    *("steps", "eval_every", "eval_episodes", "log_every", "checkpoint_every"),
    *("num_workers", "envs_per_worker", "threads"),
    *("compile", "compile_cache", "device", "on_fault"),
)


class Run(NamedTuple):
    """What ``train`` returns.

    Attributes:
      logdir: the run's folder, as ``evaluate`` and ``resume`` take it.
      step: environment steps trained.
      metrics: the newest value of every scalar metric.
      finished: false if a signal ended it early.
    """

    logdir: str
    step: int
    metrics: dict[str, float]
    finished: bool


def train(
    algorithm: str | None = None,
    env: str | Callable | Env | None = None,
    *,
    config: str | Config | None = None,
    settings: dict[str, Any] | Any = None,
    logdir: str | os.PathLike | None = None,
    resume: str | os.PathLike | None = None,
    network: keras.Model | Callable | None = None,
    eval_env: Env | None = None,
    profile: bool = False,
    **options: Any,
) -> Run:
    """Train an agent; metrics, TensorBoard events and checkpoints go to a new folder.

        run = train("ppo", env="CartPole-v1", steps=200_000)
        run = train(config="cartpole", seed=3, settings={"epochs": 4})
        run = train(resume=run.logdir, steps=400_000)

    Args:
      algorithm: a name in ``algorithms.REGISTRY``; "ppo" if neither this nor
        ``config`` is given.
      env: environment name, a function that makes one ``gymnasium.Env``, a list of
        such functions, or an ``Env`` (then pass ``eval_env`` too, or
        ``eval_every=0``).
      config: name of a preset, or an experiment's Config.
      settings: of the algorithm; its Config, or a dict of what differs from the
        preset or the defaults.
      logdir: root folder of the runs; "logs" if None.
      resume: a run's folder; its newest checkpoint goes on. Everything comes from
        that folder but ``RESUMABLE`` options, which are written to it, and, where the
        run used your own code, ``env`` and ``network``.
      network: a ``keras.Model`` or a function of (observation_space, action_space)
        that returns one; see ``nn.user.actor_critic``.
      eval_env: for evaluations, where ``env`` is an Env.
      profile: measure where the time of an iteration goes, when all steps are done:
        ``profile.json``, a table on stderr and TensorFlow's profile.
      **options: any other field of ``training.experiment.Config``.

    Raises:
      UserError: for anything that cannot be used, before there is a folder.
      EnvError: if an environment failed; a checkpoint was written first.
      TrainingError: if gradients are not finite any more.
      SaveError: if the last checkpoint could not be written.
    """
    if resume is not None:
        if algorithm or config or settings or logdir:
            raise UserError(
                "resume takes its algorithm, config, settings and logdir from the "
                f"run's folder; only {', '.join(RESUMABLE)} may change"
            )
        return _resume(resume, env, network, eval_env, profile, options)
    options = threads.exclusive(_sized(env, options))
    resolved = resolve(algorithm, env, config, settings, options).check()
    name = config if isinstance(config, str) else resolved.algorithm
    with Experiment(resolved, _object(env), eval_env, network) as experiment:
        text = _to_text(resolved, resolved.env if env is None else env, network)
        folder = runs.create(logdir or "logs", name, resolved.seed, text)
        with runs.lock(folder):
            return _run(experiment, folder, profile=profile)


def train_seeds(
    algorithm: str | None = None,
    env: Any = None,
    *,
    seeds: int | Sequence[int] = 8,
    config: str | Config | None = None,
    settings: dict[str, Any] | Any = None,
    logdir: str | os.PathLike | None = None,
    **options: Any,
) -> list[Run]:
    """Train several seeds at once, as one compiled program.

        runs = train_seeds(config="tf/cartpole", seeds=8)

    For environments written in TensorFlow and our own networks. Every seed gives what
    ``train`` gives with it, and has a run folder of its own.

    Args:
      algorithm, env, config, settings, logdir, **options: as of ``train``.
      seeds: of the runs, or how many, counted up from ``seed``.

    Returns:
      A Run for each seed.

    Raises:
      UserError: for anything that cannot be used, before there is a folder.
      TrainingError: if gradients of a seed are not finite any more.
      SaveError: if a last checkpoint could not be written.
    """
    resolved = resolve(algorithm, env, config, settings, options).check()
    if resolved.update_every is not None:
        raise UserError(
            f"update_every={resolved.update_every} is not for several seeds, whose "
            "iterations have a fixed length; leave it out, and say rollout_length, or "
            "train one seed after the other"
        )
    if isinstance(seeds, (int, np.integer)):
        if seeds < 1:
            raise UserError(f"seeds is {seeds}; expected at least 1")
        seeds = range(resolved.seed, resolved.seed + seeds)
    name = config if isinstance(config, str) else resolved.algorithm
    several = Several(resolved, seeds, _object(env))
    given = resolved.env if env is None else env
    with contextlib.ExitStack() as stack:
        stack.callback(compile_cache.publish)
        console = stack.enter_context(Console(resolved.steps))
        interrupts = stack.enter_context(Interrupts(report=console.message))
        console.message(str(several.resources))
        outputs = []
        for seed in several.run_seeds:
            text = _to_text(dataclasses.replace(resolved, seed=seed), given, None)
            folder = runs.create(logdir or "logs", name, seed, text)
            stack.enter_context(runs.lock(folder))
            logger = stack.enter_context(Logger(folder, None, warn=console.message))
            named = several.algorithm.named_variables
            outputs.append(Output(folder, logger, console, named))
            logger.event("resources", 0, **several.report())
        try:
            finished = several.train(interrupts, outputs, console.update)
        except (TrainingError, SaveError) as error:
            kind = type(error).__name__
            for output, step in zip(outputs, several.population.done, strict=True):
                output.logger.event("failed", int(step), error=kind, text=str(error))
            raise
        steps = [int(step) for step in several.population.done]
        for output, step in zip(outputs, steps, strict=True):
            output.logger.event("finished" if finished else "stopped", step)
    return [
        Run(str(output.folder), step, output.latest, finished)
        for output, step in zip(outputs, steps, strict=True)
    ]


def evaluate(
    logdir: str | os.PathLike,
    episodes: int = 20,
    *,
    checkpoint: str | int = "newest",
    env: str | Callable | Env | None = None,
    env_kwargs: dict[str, Any] | None = None,
    network: keras.Model | Callable | None = None,
    seed: int = 0,
) -> evaluation.Evaluation:
    """Play a trained agent greedily.

    Args:
      logdir: the run's folder.
      episodes: to play.
      checkpoint: "newest", "best" or a step.
      env: play here instead; needed if the run was trained on your own code.
      env_kwargs: of the environment; those of the run if that is what is played.
      network: needed again if the run had one.
      seed: of the environments.

    Raises:
      UserError: for anything that cannot be used; a run without checkpoint too.
    """
    if episodes < 1:
        raise UserError(f"episodes is {episodes}; expected at least 1")
    run, saved = _trained(logdir, env, env_kwargs, network)
    batch = evaluation.batch_size(episodes, saved.num_envs)
    saved = dataclasses.replace(saved, num_envs=batch, seed=seed)
    with Experiment(saved, _object(env), network=network) as experiment:
        load_checkpoint(run.folder, experiment.named_variables(), checkpoint)
        evaluator = evaluation.Evaluator(experiment.env, experiment.algorithm, episodes)
        return evaluator(seed)


def visualize(
    logdir: str | os.PathLike,
    outdir: str | os.PathLike = "videos",
    num_episodes: int = 5,
    *,
    checkpoint: str | int = "newest",
    env: str | Callable | None = None,
    env_kwargs: dict[str, Any] | None = None,
    network: keras.Model | Callable | None = None,
    seed: int = 0,
) -> list[filming.Episode]:
    """Play a trained agent greedily and film it (extra ``video``).

    Args:
      logdir: the run's folder, wherever it was moved to.
      outdir: folder of the videos, one an episode with its return in the name.
      num_episodes: exactly as many are played.
      checkpoint, env, env_kwargs, network, seed: as of ``evaluate``. The environment
        is asked for pictures: ``render_mode="rgb_array"``.

    Returns:
      Path, return and length of every episode.

    Raises:
      UserError: for anything that cannot be used, or cannot be seen.
    """
    if num_episodes < 1:
        raise UserError(f"num_episodes is {num_episodes}; expected at least 1")
    run, saved = _trained(logdir, env, env_kwargs, network)
    saved = dataclasses.replace(saved, num_envs=1, seed=seed)
    played = saved.env if env is None else env
    camera = None
    if tensor_env(played, saved.env_kwargs) is None:
        camera = filming.Camera(played, saved.env_kwargs)
        here = {"num_workers": 0, "envs_per_worker": None, "env_kwargs": {}}
        saved = dataclasses.replace(saved, **here)
    with Experiment(saved, camera or _object(env), network=network) as experiment:
        load_checkpoint(run.folder, experiment.named_variables(), checkpoint)
        env, actor = experiment.env, experiment.algorithm
        return filming.film(env, actor, camera, outdir, num_episodes, seed)


def _trained(
    logdir: str | os.PathLike,
    env: Any,
    env_kwargs: dict[str, Any] | None,
    network: Any,
) -> tuple[runs.Run, Config]:
    """A run, and its config for playing, perhaps somewhere else."""
    run = runs.open_run(logdir)
    saved, user = _from_text(run.config_text)
    _need(user, env, network, saved)
    changes: dict[str, Any] = {"eval_every": 0, "overlap": False}
    changes |= {"on_fault": "raise", "update_every": None}  # which num_envs divides
    if isinstance(env, str) and env != saved.env:
        changes |= {"env": env, "env_kwargs": {}}
    if env_kwargs is not None:
        changes["env_kwargs"] = env_kwargs
    changed = dataclasses.replace(saved, **changes)
    played = changed.env if env is None else env
    if tensor_env(played, changed.env_kwargs) is not None:
        # It has no workers, whatever the environment had that was trained on.
        none = {"num_workers": None, "envs_per_worker": None}
        changed = dataclasses.replace(changed, **none)
    return run, changed


def resolve(
    algorithm: str | None,
    env: Any,
    preset: str | Config | None,
    settings: Any,
    options: dict[str, Any],
) -> Config:
    """The Config of a new run; arguments as in ``train``."""
    if isinstance(preset, str):
        if preset not in PRESETS:
            raise UserError(config.unknown("config", preset, PRESETS))
        base = PRESETS[preset]()
    else:
        base = preset or Config()
    if algorithm is not None and algorithm not in algorithms.REGISTRY:
        raise UserError(config.unknown("algorithm", algorithm, algorithms.REGISTRY))
    if algorithm is not None and algorithm != base.algorithm:
        if preset is not None:
            raise UserError(
                f"algorithm {algorithm!r} contradicts the config, which is for "
                f"{base.algorithm!r}"
            )
        _, kind = algorithms.REGISTRY[algorithm]
        base = dataclasses.replace(base, algorithm=algorithm, settings=kind())
    if isinstance(settings, dict):
        settings = config.replace(base.settings, settings)
    if settings is not None:
        options = options | {"settings": settings}
    if env is not None:
        options = options | {"env": env if isinstance(env, str) else describe(env)}
    return config.replace(base, one_length(options))


def _resume(folder, env, network, eval_env, profile, options: dict[str, Any]) -> Run:
    refused = sorted(set(options) - set(RESUMABLE))
    if refused:
        raise UserError(
            f"{refused[0]} cannot change when a run is resumed; only "
            f"{', '.join(RESUMABLE)} can"
        )
    run = runs.open_run(folder)
    saved, user = _from_text(run.config_text)
    _need(user, env, network, saved)
    if isinstance(env, str) and env != saved.env:
        raise UserError(
            f"the run was trained on {saved.env!r}, not on {env!r}; start a new run "
            "for another environment"
        )
    options = threads.exclusive(options)
    resolved = config.replace(saved, options).check()
    with (
        runs.lock(run.folder),
        Experiment(resolved, _object(env), eval_env, network) as experiment,
    ):
        checkpoint.sweep(run.folder)
        events: list[dict] = []

        def note(kind: str, **fields: Any) -> None:
            events.append({"kind": kind, **fields})

        variables = experiment.named_variables()
        step, state = checkpoint.load(run.folder, variables, on_event=note)
        if "steps" in options and resolved.steps <= step:
            raise UserError(
                f"steps is {resolved.steps}, but the run has {step} already; ask for "
                "more to go on"
            )
        changed = {
            name: [getattr(saved, name), getattr(resolved, name)]
            for name in options
            if getattr(saved, name) != getattr(resolved, name)
        }
        if changed:  # so that the next resume knows
            text = _to_text(resolved, env, network, user)
            runs.write_atomic(run.folder / "config.json", text)
            events.append({"kind": "options", "changed": changed})
        return _run(experiment, run.folder, state, events, profile)


def _run(
    experiment: Experiment,
    folder: pathlib.Path,
    state: dict | None = None,
    events: Sequence[dict] = (),
    profile: bool = False,
) -> Run:
    """Train in a run folder whose lock is held."""
    start = state["step"] if state else 0
    with contextlib.ExitStack() as stack:
        console = Console(experiment.config.steps, start_step=start)
        stack.enter_context(console)
        logger = Logger(folder, start if state else None, warn=console.message)
        stack.enter_context(logger)
        interrupts = stack.enter_context(
            Interrupts(experiment.stop, kill=experiment.close, report=console.message)
        )
        if state:
            console.message(f"going on from step {start:,} of {folder}")
        console.message(str(experiment.resources))
        logger.event("resources", start, **experiment.report())
        for event in events:
            logger.event(**event)
            if event["kind"] == "checkpoint_damaged":
                console.message(
                    f"warning: the checkpoint of step {event['step']:,} is damaged "
                    f"({event['reason']}); an older one is taken"
                )

        def variables() -> dict[str, Any]:
            return experiment.named_variables() | experiment.run_variables()

        output = Output(folder, logger, console, variables)

        def tell(event: dict, step: int) -> None:
            kind = event.pop("event")
            logger.event(kind, step, **event)
            if kind == "env_failed":
                console.message(f"warning: {event['cause']}; it will be replaced")
            elif kind == "compiled":
                console.message(f"compile={event['compile']}: {event['reason']}")
            elif kind == "env_restarted":
                console.message(
                    f"replaced {_numbered(event['envs'])} after {event['seconds']:.1f} "
                    f"s; {event['lost_steps']} steps are lost"
                )

        def restore() -> None:
            variables = experiment.run_variables()
            if state and variables:
                checkpoint.load_run_only(folder, start, variables)

        write, save, progress = output.write, output.save, console.update
        loop = Loop(experiment, interrupts, write, save, progress, tell, state, restore)
        try:
            finished = loop.run()
        except (EnvError, TrainingError, UserError, SaveError) as error:
            kind = type(error).__name__
            logger.event("failed", loop.step, error=kind, text=str(error))
            raise
        logger.event("finished" if finished else "stopped", step=loop.step)
        if profile and finished:
            _profile(experiment, folder, console, logger)
    return Run(str(folder), loop.step, loop.latest, finished)


def _profile(
    experiment: Experiment, folder: pathlib.Path, console: Console, logger: Logger
) -> None:
    """Of a run that is done: whatever goes wrong here does not undo it."""
    console.message("measuring where the time goes")
    try:
        found = profiling.run(experiment, folder)
    except (EnvError, UserError, Stopped, OSError, tf.errors.OpError) as error:
        console.message(f"warning: there is no profile: {error}")
        logger.event("profile_failed", reason=str(error))
        return
    console.message(found.table())
    logger.event("profile", **found.to_dict())


def _numbered(envs: Sequence[int]) -> str:
    """For example "env 3" or "envs 4 to 7"."""
    return f"env {envs[0]}" if len(envs) == 1 else f"envs {envs[0]} to {envs[-1]}"


def _object(env: Any) -> Callable | Env | None:
    """``env`` where a config cannot name it."""
    return None if isinstance(env, str) else env


def _sized(env: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Options, with the batch of environments that are given one by one or made."""
    if isinstance(env, Env):
        size = env.spec.num_envs
        fixed = ("num_envs", "num_workers", "envs_per_worker", "env_kwargs")
    elif isinstance(env, (list, tuple)):
        size, fixed = len(env), ("num_envs",)
    else:
        return options
    for name in fixed:
        if name in options and (name != "num_envs" or options[name] != size):
            raise UserError(
                f"{name} cannot be chosen for environments that are passed as "
                f"{type(env).__name__}, {size} of them"
            )
    return options | {"num_envs": size}


def _to_text(
    resolved: Config, env: Any, network: Any, user: dict[str, Any] | None = None
) -> str:
    """config.json: the config, and what of the user's own code a run needs again."""
    user = user or {
        "env": resolved.env if needs_user_code(env) else None,
        "network": describe(network) if network is not None else None,
    }
    data = {"schema": 1, "config": config.to_dict(resolved), "user_code": user}
    return json.dumps(data, indent=2) + "\n"


def _from_text(text: str) -> tuple[Config, dict[str, str | None]]:
    try:
        data = json.loads(text)
        schema, plain, user = data["schema"], data["config"], data["user_code"]
        algorithm = plain["algorithm"]
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"config.json of the run cannot be read ({type(error).__name__}: {error}); "
            "expected what a train command writes"
        ) from error
    if schema != 1:
        raise UserError(
            f"config.json has schema {schema!r}; this version reads 1: upgrade "
            "tfagents_batch"
        )
    if algorithm not in algorithms.REGISTRY:
        raise UserError(config.unknown("algorithm", algorithm, algorithms.REGISTRY))
    settings = config.from_dict(
        algorithms.REGISTRY[algorithm][1], plain.pop("settings", {})
    )
    saved = dataclasses.replace(config.from_dict(Config, plain), settings=settings)
    if needs_user_code(saved.env):  # whatever the file says of it
        user = user | {"env": saved.env}
    return saved, user


def _need(user: dict[str, str | None], env: Any, network: Any, saved: Config) -> None:
    """Refuse to go on without code of the user's that a folder only names."""
    if user["env"] and env is None:
        raise UserError(
            f"the run was trained on {user['env']!r}, which is your own code and is "
            "only imported when you pass it again: pass env (flag --env)"
        )
    if user["network"] and network is None:
        raise UserError(
            f"the run was trained with the network {user['network']!r}; pass it again "
            "as network="
        )
