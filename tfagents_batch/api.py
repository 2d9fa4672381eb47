"""The functions that most users call: train, evaluate, load and visualize."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
import math
import os
from collections.abc import Callable, Sequence
from typing import Any, Literal, Unpack, get_args

import keras
import numpy as np

from tfagents_batch import config, seeds
from tfagents_batch.configs import named
from tfagents_batch.distribute import pools
from tfagents_batch.distribute.ray_pool import RayPool
from tfagents_batch.distribute.spark_pool import SparkPool
from tfagents_batch.envs.wrappers.named import Wrappers
from tfagents_batch.errors import UserError
from tfagents_batch.experience import Experience
from tfagents_batch.logged import given, table_settings
from tfagents_batch.serving import export as exports
from tfagents_batch.training import assembly, playing, starting_runs
from tfagents_batch.training import video as filming
from tfagents_batch.training.agent import Agent
from tfagents_batch.training.callbacks import (
    OnCheckpoint,
    OnEvaluation,
    OnIteration,
    listed,
)
from tfagents_batch.training.config import ActionMode, RunConfig
from tfagents_batch.training.evaluate import Evaluation
from tfagents_batch.training.log import console
from tfagents_batch.training.log.logger import read_metrics
from tfagents_batch.training.options import (
    EvaluateOptions,
    LoadOptions,
    RunOptions,
    TrainOptions,
    showing,
)
from tfagents_batch.training.starting_runs import RESUMABLE
from tfagents_batch.training.training_run import RunEnd

_LOG = logging.getLogger("tfagents_batch")


class Run(RunEnd):
    """Result of ``train``.

    Attributes:
      logdir: run folder, as ``evaluate`` and ``resume`` take it.
      step: steps trained, in the unit of the source: environment or gradient steps.
      metrics: the newest value of every scalar metric.
      finished: whether training ended as asked: after all steps, or because a callback
        or ``stop_at_return`` ended it; False if a signal ended it early.
      signal: number of that signal; None if there was none.
      env: the class or function of the environments that it was trained on, which
        its ``evaluate`` and ``load`` use again; None for a name, or if it cannot
        be constructed again.
    """

    env: Callable | None = None

    def __repr__(self) -> str:
        how = "finished" if self.finished else "stopped"
        mean = self.metrics.get("episode/return_mean", math.nan)
        last = f", return {mean:.4g}" if math.isfinite(mean) else ""
        return f"Run({self.logdir!r}, {how} at step {self.step:,}{last})"

    def __fspath__(self) -> str:
        return self.logdir

    def history(self) -> dict[str, np.ndarray]:
        """Return all logged metrics, one entry for each of the L lines of the log.

        Returns:
          i64 ``step`` and f64 metrics by name, ``[L]`` each, NaN in lines without one.
        """
        lines = read_metrics(self.logdir)
        names = sorted({name for line in lines for name in line} - {"step"})
        columns = {"step": np.array([line["step"] for line in lines], np.int64)}
        return columns | {
            name: np.array([line.get(name, math.nan) for line in lines], np.float64)
            for name in names
        }

    def evaluate(
        self, episodes: int = 20, **options: Unpack[EvaluateOptions]
    ) -> Evaluation:
        """Play the trained agent, see ``tfagents_batch.evaluate``."""
        return evaluate(self.logdir, episodes, **self._own(options))

    def load(self, **options: Unpack[LoadOptions]) -> Agent:
        """Load the trained agent, see ``tfagents_batch.load``."""
        return load(self.logdir, **self._own(options))

    def _own(self, options: Any) -> Any:
        """Return options with the environment, which the folder only describes."""
        return options if self.env is None else {"env": self.env, **options}

    @classmethod
    def _ended(cls, end: RunEnd, env: Any) -> Run:
        """Return the result of a training that has ended."""
        run = cls(*end)
        run.env = env if callable(env) else None
        return run


def train(
    algorithm: str | type | None = None,
    env: Any = None,
    *,
    config: str | RunConfig | None = None,
    settings: dict[str, Any] | Any = None,
    logdir: str | os.PathLike | None = None,
    resume: str | os.PathLike | None = None,
    init_from: str | os.PathLike | None = None,
    init_checkpoint: str | int | None = None,
    network: keras.Model | Callable | None = None,
    eval_env: Any = None,
    source: Experience | None = None,
    pool: RayPool | SparkPool | Literal["none", "ray", "spark"] | None = None,
    profile: bool = False,
    on_iteration: OnIteration | Sequence[OnIteration] | None = None,
    on_evaluation: OnEvaluation | Sequence[OnEvaluation] | None = None,
    on_checkpoint: OnCheckpoint | Sequence[OnCheckpoint] | None = None,
    **options: Unpack[RunOptions],
) -> Run:
    """Train an agent and write metrics, TensorBoard events and checkpoints.

        run = train("ppo", env="CartPole-v1", steps=200_000)
        run = train(config="cartpole", seed=3, settings={"epochs": 4})
        run = train(resume=run.logdir, steps=400_000)
        run = train(env=harder, init_from=run.logdir, settings={"learning_rate": 1e-4})

    Args:
      algorithm: a name in ``algorithms.REGISTRY``; "ppo" if neither this nor
        ``config`` is given. Your own is a class, ``module:Class`` or
        ``./file.py:Class``, with its settings as the attribute ``Config``.
      env: environment name, a function that returns one ``gymnasium.Env``, a list of
        such functions, or an instance: one ``gymnasium.Env``, a
        ``gymnasium.vector.VectorEnv`` or an ``Env``. An instance needs ``eval_env`` or
        ``eval_every=0``. Instances of Gymnasium are closed at the end.
      config: name of a preset; a run folder, whose settings a new run takes; a JSON or
        YAML file with these arguments by name; or a ``training.config.RunConfig``.
      settings: the algorithm's Config, or a dict of its settings that differ from the
        preset or the defaults.
      logdir: root folder of the runs; None means "logs".
      resume: folder of a run to continue from its newest checkpoint. Only
        ``RESUMABLE`` options may change; they are saved to that folder. A run that
        used your own ``env``, ``network`` or ``eval_env`` needs them again.
      init_from: folder of a run to take the initial agent from: its weights, its
        statistics of observations and returns, and what else it has learned, such as
        critics and target networks. Spaces and network have to match. The environment,
        settings, schedules, steps and optimizer state are new. Of a run of another
        algorithm, it takes what means the same in both, see docs/running.md.
      init_checkpoint: checkpoint of that run: "newest" (None), "best" or a step.
      network: a ``keras.Model`` or a function of (observation_space, action_space)
        that returns one; see ``nn.user.actor_critic``.
      eval_env: environment of evaluations, given like ``env``; None means the training
        environment. It gets the run's wrappers unless it is an instance, and the run's
        ``env_kwargs`` if it has the same name. Each environment of a list plays the
        same number of episodes, so ``eval_episodes`` may be rounded up.
      source: where experience comes from, if not from the algorithm's usual source;
        see ``experience.Experience``. One that steps no environments needs no ``env``;
        then there are evaluations only with ``eval_env``.
      pool: workers on Ray or Spark that collect what the source would: "ray", "spark",
        or their settings, a ``RayPool`` or ``SparkPool``. None is the config's.
      profile: after training, time each part of an iteration. The results
        are ``profile.json``, a table on stderr and TensorFlow's profile.
      on_iteration, on_evaluation, on_checkpoint: a function, or several, that may end
        training by returning False; see ``training.callbacks``.
      **options: any other field of ``training.config.RunConfig``.

    Raises:
      UserError: for an argument that cannot be used, before a folder is created.
      EnvError: if an environment failed; a checkpoint was written first.
      TrainingError: if the gradients are no longer finite.
      SaveError: if the last checkpoint or the last replay could not be written.
      Exception: any exception of a callback; a checkpoint was written first.
    """
    if init_checkpoint is not None and init_from is None:
        raise UserError(
            f"init_checkpoint is {init_checkpoint!r}, but init_from is not given; pass "
            "the folder of the run that has this checkpoint as init_from"
        )
    callbacks = {
        "on_iteration": listed("on_iteration", on_iteration),
        "on_evaluation": listed("on_evaluation", on_evaluation),
        "on_checkpoint": listed("on_checkpoint", on_checkpoint),
    }
    start = functools.partial(pools.experience, network=network, profile=profile)
    own = env, network, eval_env, source, algorithm
    passed = starting_runs.Arguments(*own, start, callbacks, profile)
    chosen = pools.as_options({**options} | ({} if pool is None else {"pool": pool}))
    if resume is not None:
        fixed = {"config": config, "settings": settings, "logdir": logdir}
        if given := [name for name, value in fixed.items() if value]:
            folder = os.fspath(resume)
            raise UserError(
                f"resume takes its {' and '.join(given)} from the run's folder; leave "
                f"{'it' if len(given) == 1 else 'them'} out, or start a new run with "
                f"config={folder!r}, and with init_from={folder!r} for its "
                f"weights; only {', '.join(RESUMABLE)} may change"
            )
        if init_from is not None:
            raise UserError(
                "resume continues a run with its own weights, init_from starts a new "
                "run with the weights of another; pass only one of them"
            )
        return Run._ended(starting_runs.resume(resume, passed, chosen), env)
    if source is not None:
        chosen["source"] = source
    resolved = named.resolve(algorithm, env, config, settings, chosen)
    name = resolved.algorithm
    if isinstance(config, str):
        base = named.find(config, algorithm)
        again = {**chosen, "env": env, "network": network, "source": source}
        named.require(base, again)
        name = base.label
    which = "newest" if init_checkpoint is None else init_checkpoint
    origin = None if init_from is None else (init_from, which)
    begun = resolved, passed, name, logdir or "logs", origin
    return Run._ended(starting_runs.begin(*begun), env)


def train_offline(
    algorithm: str | None = None,
    data: Any = None,
    *,
    settings: dict[str, Any] | None = None,
    table: dict[str, Any] | None = None,
    mode: Literal["discrete", "parametric", "continuous"] = "discrete",
    timeline: dict[str, Any] | None = None,
    folder: str | os.PathLike | None = None,
    **options: Unpack[TrainOptions],
) -> Run:
    """Train on logged rows, without an environment.

        run = train_offline("dqn", data="table", steps=20_000)

    Args:
      algorithm: "dqn", "bc" or another algorithm that learns from rows; None means
        that of ``config``, such as "rows/dqn", or DQN.
      data: folder of a timeline, which ``tfagents-batch timeline`` writes. Or logged
        rows in a DataFrame of Spark, an Arrow, pandas or polars table or a list of
        dicts; they are written to ``folder`` as a timeline first. ``minari:<name>`` is
        a dataset of Minari that was downloaded.
      settings: the algorithm's settings that differ from the defaults. ``n_step`` is 1:
        rows hold as many rewards as the timeline was made with. DQN learns the values
        of the policy that logged (``target="sarsa"``, ``loss="squared"`` and
        ``learning_rate="linear(3e-3, 0)"``), unless the target is set.
      table: settings of ``logged.table_settings.TableSettings``, such as ``boosts``.
      mode: kind of actions of rows that are no timeline yet.
      timeline: settings of their timeline, see ``offline.timeline_config``. ``gamma``
        is that of the algorithm.
      folder: folder of their timeline; with Spark on several machines, one that all of
        them share. None is a temporary folder, which is removed after training, so that
        the run cannot be resumed.
      **options: arguments of ``train``. ``steps`` counts updates. With ``env``, the
        agent plays in evaluations; without, they are reports on rows that are kept from
        training. The best checkpoint is then the one whose decisions gain most there,
        if that is known.

    Raises:
      UserError: see ``train``.
    """
    preset, logdir = options.get("config"), options.get("logdir")
    kind = named.offline_algorithm(algorithm, preset)
    resolved = named.resolve(kind, None, preset, settings, {})
    gamma = getattr(resolved.settings, "gamma", None)
    timeline = ({} if gamma is None else {"gamma": gamma}) | (timeline or {})
    table = given.reference_scores(data) | (table or {})
    with given.table(data, mode, timeline, folder, logdir) as timeline_folder:
        return train(
            kind,
            settings=named.offline_settings(algorithm, settings, preset),
            source=table_settings.replaced(
                table_settings.newest(timeline_folder), table
            ),
            **options,
        )


def evaluate(
    logdir: str | os.PathLike,
    episodes: int = 20,
    *,
    checkpoint: str | int = "newest",
    env: Any = None,
    env_kwargs: dict[str, Any] | None = None,
    wrappers: Wrappers | None = None,
    env_options: dict[str, Any] | None = None,
    network: keras.Model | Callable | None = None,
    algorithm: str | type | None = None,
    seed: int = 0,
    actions: ActionMode = "mode",
    max_episode_steps: int | None = None,
) -> Evaluation:
    """Play a trained agent.

    Args:
      logdir: the run's folder.
      episodes: number of episodes. If ``env`` is a list or a batch, each environment
        plays the same number, so the total may be rounded up.
      checkpoint: "newest", "best" or a step.
      env: another environment to play; required if the run was trained on your own
        code. An instance is not closed.
      env_kwargs: arguments of the environment; None means those of the run if the
        environment is the run's.
      wrappers: wrappers of the environment; None means those of the run.
      env_options: options of ``make_env`` that are added to those of the run or replace
        them, for example ``worker_variables``, which are never saved.
      network: your own network, if the run was trained with one.
      algorithm: your own algorithm, likewise.
      seed: seed of the environments and of sampled actions. The same seed gives the
        same episodes, and they differ from those played in training with that seed.
      actions: "mode" for the policy's mode, "sample" for samples as in training.
      max_episode_steps: steps after which an episode is cut off; None means the run's
        ``eval_max_episode_steps``.

    Raises:
      UserError: for an argument that cannot be used, or a run without a checkpoint.
    """
    if episodes < 1:
        raise UserError(f"episodes is {episodes}; expected at least 1")
    if actions not in get_args(ActionMode):
        raise UserError(f"actions is {actions!r}; expected 'mode' or 'sample'")
    trained = playing.trained(
        logdir, env, env_kwargs, wrappers, network, algorithm, checkpoint=checkpoint
    )
    saved = trained.config
    trained.require_env()
    if env_options is not None:
        saved = config.replace(saved, {"env_options": saved.env_options | env_options})
    elif trained.variables:
        _LOG.warning(
            "the run's workers had the environment variables %s, which are not saved; "
            "pass env_options={'worker_variables': {...}} (flag --env_options) to set "
            "them again",
            ", ".join(trained.variables),
        )
    if max_episode_steps is not None:
        saved = config.replace(saved, {"eval_max_episode_steps": max_episode_steps})
    batch, episodes = trained.recipe.for_evaluation(episodes, saved.num_envs)
    saved = dataclasses.replace(saved, num_envs=batch, seed=seed)
    trained = trained._replace(config=saved)
    with (
        playing.environment(trained, batch) as made,
        playing.loaded(trained, made.spec) as (agent, step),
    ):
        play = assembly.evaluation(saved, agent, made, episodes, actions)
        with console.doing(f"playing {episodes} episodes"):
            return play(_unseen_seed(seed), step=step)


@showing(evaluate)
def load(logdir: str | os.PathLike, **options: Unpack[LoadOptions]) -> Agent:
    """Load a trained agent to select actions in your own loop.

        agent = load(run.logdir)
        action, state = agent.predict(observation)

    Args:
      logdir: the run's folder.
      **options: checkpoint, env, env_kwargs, wrappers, network, algorithm: as in
        ``evaluate``. No environment is created; ``Agent.make_env`` does that.

    Raises:
      UserError: for an argument that cannot be used, or a run without a checkpoint.
    """
    trained = playing.trained(logdir, plays=False, **options)
    with playing.loaded(trained, trained.spec) as (agent, step):
        recipe = None if trained.missing else trained.recipe
        return Agent(agent.policy, trained.spec, recipe, trained.config, step)


@showing(evaluate)
def export(
    run: Run | str | os.PathLike,
    format: exports.Format = "onnx",
    outdir: str | os.PathLike | None = None,
    exploration: float = 0.0,
    **options: Unpack[LoadOptions],
) -> exports.Export:
    """Write a trained policy for programs without this package.

        export(run, "onnx", "export")

    The normalization of observations, and the bounds of actions, are inside. The
    written model is compared with the policy, and is removed if it differs.

    Args:
      run: a run or its folder.
      format: "onnx" (ONNX Runtime), "saved_model" (TensorFlow, TensorFlow Serving) or
        "litert" (TensorFlow Lite).
      outdir: folder to write; None means ``export-<format>`` in the run's folder. An
        earlier export there is replaced.
      exploration: probability of a random decision: uniform over the possible actions
        for values of actions (DQN), else drawn from the policy. 0 is the greedy policy.
        For a Box it is 0 or 1.
      **options: checkpoint, env, env_kwargs, wrappers, network, algorithm: as in
        ``load``.

    Returns:
      The folder, the comparison, and what the caller has to know.

    Raises:
      UserError: for an argument that cannot be used, a missing package (extra
        ``export``), or a model that differs from the policy.
      SaveError: if a file cannot be written.
    """
    exports.check_format(format)
    folder = run.logdir if isinstance(run, Run) else run
    trained = playing.trained(folder, plays=False, **options)
    target = outdir or os.path.join(trained.run.folder, f"export-{format}")
    origin = exports.origin_of(trained)
    with playing.loaded(trained, trained.spec) as (agent, step):
        what = agent.policy, trained.spec, step, format
        return exports.write(*what, target, exploration, origin)


@showing(evaluate)
def visualize(
    logdir: str | os.PathLike,
    outdir: str | os.PathLike = "videos",
    episodes: int = 5,
    *,
    seed: int = 0,
    format: filming.Format = "mp4",
    **options: Unpack[LoadOptions],
) -> list[filming.Episode]:
    """Play a trained agent greedily and record videos.

    Args:
      logdir: the run's folder, which may have been moved.
      outdir: folder of the videos; there is one per episode, named with its return.
      episodes: number of episodes.
      seed: as in ``evaluate``.
      format: "mp4", which needs the extra ``video``, or "gif".
      **options: checkpoint, env, env_kwargs, wrappers, network, algorithm: as in
        ``evaluate``. The environment is created with ``render_mode="rgb_array"``.

    Returns:
      Path, return and length of every episode.

    Raises:
      UserError: for an argument that cannot be used, or an environment that cannot
        render.
    """
    if episodes < 1:
        raise UserError(f"episodes is {episodes}; expected at least 1")
    if format not in get_args(filming.Format):
        raise UserError(f"format is {format!r}; expected 'mp4' or 'gif'")
    trained = playing.trained(logdir, **options).in_process()
    trained.require_env()
    trained = trained._replace(config=dataclasses.replace(trained.config, seed=seed))
    shown = filming.Camera(trained.recipe, **trained.config.env_options)
    with (
        contextlib.closing(shown.env),
        playing.loaded(trained, shown.env.spec) as (agent, _),
    ):
        seed = _unseen_seed(seed)
        return filming.film(shown, agent.policy, outdir, episodes, seed, format)


def _unseen_seed(seed: int) -> int:
    """Return a seed that training and its evaluations never use.

    So randomly generated levels are new to the agent.
    """
    return seeds.iteration_seed(seed, 0, "play")
