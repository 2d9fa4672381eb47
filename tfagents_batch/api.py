"""``train`` and ``evaluate``: what most users call."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, get_args

import keras
import numpy as np

from tfagents_batch import algorithms, config, seeds
from tfagents_batch.agent import Agent, lend
from tfagents_batch.configs import PRESETS, REFUSED
from tfagents_batch.envs.registry import describe, is_same
from tfagents_batch.envs.shared import arguments
from tfagents_batch.envs.wrappers.named import Wrappers
from tfagents_batch.errors import UserError
from tfagents_batch.interfaces import Env
from tfagents_batch.training import evaluate as evaluation
from tfagents_batch.training import play_config, training_run, warm_start
from tfagents_batch.training.callbacks import (
    OnCheckpoint,
    OnEvaluation,
    OnIteration,
    listed,
)
from tfagents_batch.training.experiment import Experiment
from tfagents_batch.training.log import trackers
from tfagents_batch.training.run_config import VARIABLES, Config, exclusive
from tfagents_batch.training.run_folder import checkpoint as checkpoints
from tfagents_batch.training.run_folder import config_file, runs
from tfagents_batch.training.seeds import run_seeds
from tfagents_batch.training.training_run import Run
from tfagents_batch.training.video import film as filming

_LOG = logging.getLogger("tfagents_batch")
# What may change when a run is resumed; the rest comes from its folder.
RESUMABLE = config.marked(Config, "resumable")


def train(
    algorithm: str | None = None,
    env: Any = None,
    *,
    config: str | Config | None = None,
    settings: dict[str, Any] | Any = None,
    logdir: str | os.PathLike | None = None,
    resume: str | os.PathLike | None = None,
    init_from: str | os.PathLike | None = None,
    init_checkpoint: str | int | None = None,
    network: keras.Model | Callable | None = None,
    eval_env: Any = None,
    profile: bool = False,
    on_iteration: OnIteration | Sequence[OnIteration] | None = None,
    on_evaluation: OnEvaluation | Sequence[OnEvaluation] | None = None,
    on_checkpoint: OnCheckpoint | Sequence[OnCheckpoint] | None = None,
    **options: Any,
) -> Run:
    """Train an agent; metrics, TensorBoard events and checkpoints go to a new folder.

        run = train("ppo", env="CartPole-v1", steps=200_000)
        run = train(config="cartpole", seed=3, settings={"epochs": 4})
        run = train(resume=run.logdir, steps=400_000)
        run = train(env=harder, init_from=run.logdir, settings={"learning_rate": 1e-4})

    Args:
      algorithm: a name in ``algorithms.REGISTRY``; "ppo" if neither this nor
        ``config`` is given.
      env: environment name, a function that makes one ``gymnasium.Env``, a list of
        such functions, or what is made already: one ``gymnasium.Env``, a
        ``gymnasium.vector.VectorEnv`` or an ``Env`` (then pass ``eval_env`` too, or
        ``eval_every=0``). The first two are closed at the end.
      config: name of a preset, or an experiment's Config.
      settings: of the algorithm; its Config, or a dict of what differs from the
        preset or the defaults.
      logdir: root folder of the runs; "logs" if None.
      resume: a run's folder; its newest checkpoint goes on. Everything comes from
        that folder but ``RESUMABLE`` options, which are written to it, and, where the
        run used your own code, ``env`` and ``network``; ``eval_env`` where it had one.
      init_from: folder of a run whose agent this one begins with: its weights and
        statistics of observations and returns, where spaces and network are alike. All
        else is new: environment, settings, schedules, steps, the optimizer's state.
      init_checkpoint: which one of that run: "newest" (None), "best" or a step.
      network: a ``keras.Model`` or a function of (observation_space, action_space)
        that returns one; see ``nn.user.actor_critic``.
      eval_env: what evaluations are played on, like ``env``, in the run's wrappers if
        it is not made already, and with its ``env_kwargs`` if it is named alike; None
        for what is trained on. Of several that are given each plays as often:
        ``eval_episodes`` is rounded up to a multiple.
      profile: measure where the time of an iteration goes, when all steps are done:
        ``profile.json``, a table on stderr and TensorFlow's profile.
      on_iteration, on_evaluation, on_checkpoint: a function, or several, that is
        called and may end training by returning False, see ``training.callbacks``.
      **options: any other field of ``training.run_config.Config``.

    Raises:
      UserError: for anything that cannot be used, before there is a folder.
      EnvError: if an environment failed; a checkpoint was written first.
      TrainingError: if gradients are not finite any more.
      SaveError: if the last checkpoint could not be written.
      Exception: what a callback raised; a checkpoint was written first.
    """
    callbacks = {
        "on_iteration": listed("on_iteration", on_iteration),
        "on_evaluation": listed("on_evaluation", on_evaluation),
        "on_checkpoint": listed("on_checkpoint", on_checkpoint),
    }
    if init_checkpoint is not None and init_from is None:
        raise UserError(
            f"init_checkpoint is {init_checkpoint!r}, but no run is named that has it; "
            "pass its folder as init_from"
        )
    if resume is not None:
        if algorithm or config or settings or logdir:
            raise UserError(
                "resume takes its algorithm, config, settings and logdir from the "
                f"run's folder; only {', '.join(RESUMABLE)} may change"
            )
        if init_from is not None:
            raise UserError(
                "resume goes on with a run's own weights, init_from begins a new run "
                "with those of another; leave one of them out"
            )
        return _resume(resume, env, network, eval_env, profile, callbacks, options)
    options = play_config.sized(env, options)
    resolved = resolve(algorithm, env, config, settings, options)
    _check_watching(resolved, callbacks)
    name = config if isinstance(config, str) else resolved.algorithm
    with Experiment(resolved, _object(env), eval_env, network) as experiment:
        given = resolved.env if env is None else env
        text = config_file.to_text(resolved, given, network, eval_env=eval_env)
        told = training_run.facts(experiment.algorithm, experiment.env.spec)
        events = []
        if init_from is not None:
            which = "newest" if init_checkpoint is None else init_checkpoint
            origin = warm_start.begin(experiment, init_from, which)
            events.append({"kind": runs.STARTED_FROM, **origin})
            told[runs.STARTED_FROM] = origin
        root, seed = logdir or "logs", resolved.seed
        folder = runs.create(root, name, seed, text, facts=told)
        with runs.lock(folder):
            return training_run.run(
                experiment, folder, callbacks, None, events, profile
            )


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
      algorithm, env, config, settings, logdir, **options: as of ``train``, but for what
        belongs to one run (overlap, stop_at_return, films, trackers, ...), which is
        refused.
      seeds: of the runs, or how many, counted up from ``seed``.

    Returns:
      A Run for each seed.

    Raises:
      UserError: for anything that cannot be used, before there is a folder.
      TrainingError: if gradients of a seed are not finite any more.
      SaveError: if a last checkpoint could not be written.
    """
    alone = ("network", "eval_env", "resume", "profile", "init_from", "init_checkpoint")
    for name in alone:
        if name in options:
            raise UserError(
                f"{name} is not for several seeds in one program; train one seed after "
                "the other, by train"
            )
    resolved = resolve(algorithm, env, config, settings, options)
    if isinstance(seeds, (int, np.integer)):
        if not 1 <= seeds <= arguments.MAX_ENVS:
            raise UserError(f"seeds is {seeds}; expected 1 to {arguments.MAX_ENVS}")
        seeds = range(resolved.seed, resolved.seed + seeds)
    name = config if isinstance(config, str) else resolved.algorithm
    return run_seeds(resolved, seeds, _object(env), logdir or "logs", name)


def evaluate(
    logdir: str | os.PathLike,
    episodes: int = 20,
    *,
    checkpoint: str | int = "newest",
    env: str | Callable | Env | None = None,
    env_kwargs: dict[str, Any] | None = None,
    wrappers: Wrappers | None = None,
    env_options: dict[str, Any] | None = None,
    network: keras.Model | Callable | None = None,
    seed: int = 0,
    actions: evaluation.Played = "mode",
) -> evaluation.Evaluation:
    """Play a trained agent.

    Args:
      logdir: the run's folder.
      episodes: to play; where several environments are given, a list or a batch, each
        plays as many, so it is rounded up to a multiple.
      checkpoint: "newest", "best" or a step.
      env: play here instead; needed if the run was trained on your own code. One that
        is made already is not closed.
      env_kwargs: of the environment; those of the run if that is what is played.
      wrappers: of the environment; None for those of the run.
      env_options: of ``make_env``, beside or instead of those of the run, such as the
        ``worker_variables`` that no folder keeps.
      network: needed again if the run had one.
      seed: of the environments, and of sampled actions. Equal ones give equal episodes,
        and none of those that training plays with that seed.
      actions: the policy's mode, or samples as in training.

    Raises:
      UserError: for anything that cannot be used; a run without checkpoint too.
    """
    if episodes < 1:
        raise UserError(f"episodes is {episodes}; expected at least 1")
    if actions not in get_args(evaluation.Played):
        raise UserError(f"actions is {actions!r}; expected 'mode' or 'sample'")
    run, saved, variables = _trained(logdir, env, env_kwargs, wrappers, network)
    if env_options is not None:
        saved = config.replace(saved, {"env_options": saved.env_options | env_options})
    elif variables:
        _LOG.warning(
            "workers of the run had the variables %s, which are not saved and missing "
            "here; pass env_options={'worker_variables': {...}} (flag --env_options)",
            ", ".join(variables),
        )
    played = saved.env if env is None else env
    batch, episodes = play_config.evaluation_size(played, episodes, saved.num_envs)
    saved = dataclasses.replace(saved, num_envs=batch, seed=seed)
    with _loaded(run, saved, env, network, checkpoint) as (experiment, _):
        play = experiment.evaluation(experiment.env, episodes, actions)
        return play(_apart(seed))


def load(
    logdir: str | os.PathLike,
    *,
    checkpoint: str | int = "newest",
    env: Any = None,
    env_kwargs: dict[str, Any] | None = None,
    wrappers: Wrappers | None = None,
    network: keras.Model | Callable | None = None,
) -> Agent:
    """A trained agent, to act in a loop of one's own.

        agent = load(run.logdir)
        action, state = agent.predict(observation)

    Args:
      logdir, checkpoint, env, env_kwargs, wrappers, network: as of ``evaluate``. One
        environment is made for a moment, whose spaces say what the network is like.

    Raises:
      UserError: for anything that cannot be used; a run without checkpoint too.
    """
    if isinstance(env, (list, tuple)) and env:
        env = env[0]
    run, saved, _ = _trained(logdir, env, env_kwargs, wrappers, network)
    given = saved.env if env is None else env
    here = play_config.in_process(saved, given)
    with _loaded(run, here, env, network, checkpoint) as (experiment, step):
        return Agent(experiment.algorithm, experiment.env.spec, given, saved, step)


def visualize(
    logdir: str | os.PathLike,
    outdir: str | os.PathLike = "videos",
    num_episodes: int = 5,
    *,
    checkpoint: str | int = "newest",
    env: str | Callable | None = None,
    env_kwargs: dict[str, Any] | None = None,
    wrappers: Wrappers | None = None,
    network: keras.Model | Callable | None = None,
    seed: int = 0,
) -> list[filming.Episode]:
    """Play a trained agent greedily and film it (extra ``video``).

    Args:
      logdir: the run's folder, wherever it was moved to.
      outdir: folder of the videos, one an episode with its return in the name.
      num_episodes: exactly as many are played.
      checkpoint, env, env_kwargs, wrappers, network, seed: as of ``evaluate``. The
        environment is asked for pictures: ``render_mode="rgb_array"``.

    Returns:
      Path, return and length of every episode.

    Raises:
      UserError: for anything that cannot be used, or cannot be seen.
    """
    if num_episodes < 1:
        raise UserError(f"num_episodes is {num_episodes}; expected at least 1")
    run, saved, _ = _trained(logdir, env, env_kwargs, wrappers, network)
    played = saved.env if env is None else env
    saved = play_config.in_process(
        dataclasses.replace(saved, seed=seed, log_info=[]), played
    )
    shown = filming.Camera(
        played, saved.env_kwargs, saved.wrappers, **saved.env_options
    )
    with contextlib.closing(shown.env):
        alone = dataclasses.replace(
            saved, num_envs=1, num_workers=None, env_kwargs={}, wrappers=[]
        )
        with _loaded(run, alone, shown.env, network, checkpoint) as (experiment, _):
            actor = experiment.algorithm
            return filming.film(shown, actor, outdir, num_episodes, _apart(seed))


@contextlib.contextmanager
def _loaded(
    run: runs.RunFolder, played: Config, env: Any, network: Any, which: str | int
) -> Iterator[tuple[Experiment, int]]:
    """An experiment with the agent of a run's checkpoint, and the checkpoint's step.

    An environment that is made already is not closed.
    """
    with Experiment(played, lend(_object(env)), network=network) as experiment:
        variables = experiment.named_variables()
        step, _ = checkpoints.load(run.folder, variables, which)
        yield experiment, step


def _apart(seed: int) -> int:
    """A seed with which environments start as in no training and none of its
    evaluations: levels that are drawn at a start are new to the agent."""
    return seeds.iteration_seed(seed, 0, "play")


def _trained(
    logdir: str | os.PathLike,
    env: Any,
    env_kwargs: dict[str, Any] | None,
    wrappers: Wrappers | None,
    network: Any,
) -> tuple[runs.RunFolder, Config, list[str]]:
    """A run, its config for playing, perhaps somewhere else, and the names of the
    variables that its workers had."""
    run = runs.open_run(logdir)
    saved, user = config_file.from_text(run.config_text)
    config_file.need(user, env, network)
    played = play_config.to_play(saved, env, env_kwargs, wrappers)
    if env_kwargs is None:
        config_file.need_arguments(played)
    return run, played, user[VARIABLES]


def resolve(
    algorithm: str | None,
    env: Any,
    preset: str | Config | None,
    settings: Any,
    options: dict[str, Any],
) -> Config:
    """The Config of a new run; arguments as in ``train``."""
    if isinstance(preset, str):
        if preset in REFUSED:
            raise UserError(f"there is no config {preset!r}: {REFUSED[preset]}")
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
    return config.replace(base, exclusive(options))


def _resume(
    folder, env, network, eval_env, profile, callbacks: dict, options: dict[str, Any]
) -> Run:
    again = options.pop("env_kwargs", None)
    refused = sorted(set(options) - set(RESUMABLE))
    if refused:
        raise UserError(
            f"{refused[0]} cannot change when a run is resumed; only "
            f"{', '.join(RESUMABLE)} can"
        )
    run = runs.open_run(folder)
    saved, user = config_file.from_text(run.config_text)
    config_file.need(user, env, network)
    if again is None:
        config_file.need_arguments(saved)
    elif again != saved.env_kwargs:
        raise UserError(
            f"env_kwargs is {again}, but the run has {saved.env_kwargs}; start a new "
            "run for another environment"
        )
    if "env_options" not in options:
        config_file.need_variables(user, saved)
    options = exclusive(options)
    if isinstance(env, str):
        if not is_same(env, saved.env):
            raise UserError(
                f"the run was trained on {saved.env!r}, not on {env!r}; start a new "
                "run for another environment"
            )
        options |= {"env": env}
    resolved = config.replace(saved, options)
    _check_watching(resolved, callbacks)
    if resolved.eval_every != 0:
        config_file.need_evaluation(user, eval_env)
    with (
        runs.lock(run.folder),
        Experiment(resolved, _object(env), eval_env, network) as experiment,
    ):
        checkpoints.sweep(run.folder)
        events: list[dict] = []
        step, state = checkpoints.load(
            run.folder,
            experiment.named_variables(),
            on_event=lambda kind, **fields: events.append({"kind": kind, **fields}),
        )
        if "steps" in options and resolved.steps <= step:
            raise UserError(
                f"steps is {resolved.steps}, but the run has {step} already; ask for "
                "more to go on"
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
        if eval_env is not None:
            played["eval_env"] = describe(eval_env)

        def started() -> None:
            if changed or played != user:  # for the next resume, once this one works
                text = config_file.to_text(resolved, env, network, played)
                runs.write_atomic(run.folder / "config.json", text)

        watched = (callbacks, state, events, profile, started)
        return training_run.run(experiment, run.folder, *watched)


def _check_watching(resolved: Config, callbacks: dict[str, tuple]) -> None:
    """Refuse callbacks that are never called, and trackers that are not there."""
    if callbacks["on_evaluation"] and resolved.eval_every == 0:
        raise UserError(
            "on_evaluation would never be called, as eval_every is 0; leave one of "
            "them out"
        )
    trackers.check(resolved.track)


def _object(env: Any) -> Callable | Env | None:
    """``env`` where a config cannot name it."""
    return None if isinstance(env, str) else env
