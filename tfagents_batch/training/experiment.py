"""Creation of a run's environments, algorithm and source from a config."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import numpy as np
from keras.src.backend.common import global_state

from tfagents_batch import algorithms, encoding, seeds, sources, spaces
from tfagents_batch.envs import make, registry
from tfagents_batch.envs.graph.fleet import Fleet
from tfagents_batch.envs.wrappers import named
from tfagents_batch.errors import EnvError, UserError
from tfagents_batch.interfaces import Env
from tfagents_batch.nn import networks
from tfagents_batch.sources import async_rollout
from tfagents_batch.training import (
    compilation,
    evaluate,
    play_config,
    replay_saver,
)
from tfagents_batch.training.programs import program
from tfagents_batch.training.run_flags import Config, without_variables
from tfagents_batch.training.run_folder import checkpoint
from tfagents_batch.training.runtime import (
    compile_cache,
    devices,
    executables,
    signals,
    threads,
)
from tfagents_batch.training.video.clips import Clips
from tfagents_batch.types import EnvSpec


class Experiment:
    """The live objects of one run; a context manager that closes its environments.

    Args:
      config: config of the run.
      env: training environment if ``config.env`` only describes it: a callable that
        creates one environment, a list of them, or an Env.
      eval_env: evaluation environment, as ``make_env`` takes it or an Env; needed if
        ``env`` is an instance.
      network: a user's model or builder, see ``nn.user``.
      trains: False to play the agent only, which needs no source of experience.

    Attributes:
      config: config without worker variables, which must never be saved.
      algorithm: the algorithm that is trained.
      source, program: its source of experience, and the program that joins both; set
        by ``start``.
      evaluator: evaluation in separate environments; None without evaluations.
      clips: recorder of videos, in a separate environment; None without videos.
      resources: threads and workers, and the reasons for their numbers.
      remarks: lines about the observations, see ``remarks``.
      cache_off: reason why compiled programs are not cached; empty if they are.
    """

    def __init__(
        self,
        config: Config,
        env: Callable | Sequence[Callable] | Env | None = None,
        eval_env: Any = None,
        network: Any = None,
        trains: bool = True,
    ):
        config = config.check()
        self.config = without_variables(config)
        self._given = config.env if env is None else env
        self._user_code = env is not None or network is not None
        self._running: list[Env] = []
        shared = eval_env is None or eval_env is self._given
        if config.eval_every != 0 and shared and make.is_existing(self._given):
            raise UserError(
                f"env is a {type(env).__name__} object, which exists already, so "
                "evaluations would disturb training; pass a second one as "
                "eval_env=, or set eval_every=0"
            )
        with contextlib.ExitStack() as stack:
            stack.enter_context(signals.harmless_checkpoint_requests())
            self.env = self._training_environments(stack, config, trains)
            # After the environments exist, but before TensorFlow runs anything.
            workers = getattr(self.env, "num_workers", None)
            self.resources = threads.configure(
                config,
                self.env.spec,
                workers,
                own_network=network is not None,
                workers_reason=getattr(self.env, "workers_reason", ""),
            )
            self.remarks = [] if network is not None else remarks(self.env.spec)
            self.cache_off = prepare_devices(config, self.resources, config.device)
            stack.enter_context(executables.limited_to_run())
            stack.callback(compile_cache.publish)
            run = config.resolved()
            kind, _ = algorithms.REGISTRY[config.algorithm]
            with seeded(config.seed), _precision(config.precision):
                self.algorithm = kind(run.settings, self.env.spec, network)
                # A separate one, so that acting never reads what an update writes.
                self._acting = self.algorithm.make_policy() if config.overlap else None
            _check_precision(self.algorithm, config.precision)
            if trains:
                run.source.check_fits(self.env.spec, self.algorithm)
            self.evaluator = self._make_evaluator(stack, config, eval_env)
            self.clips = None
            if config.log_video_every:
                given = self._given
                kwargs = registry.whole_games(given, config.env_kwargs)
                self.clips = Clips(
                    given, kwargs, self.algorithm.policy, config.wrappers
                )
                stack.callback(self.clips.close)
            self._stack = stack.pop_all()

    def start(self, step: int) -> None:
        """Start the first episodes and build the program.

        Args:
          step: environment steps already done: 0 for a new run. Environments of a
            resumed run get other seeds, so the first episodes are not repeated.
        """
        config, seed = self.config, self.config.seed
        if step:
            seed = seeds.iteration_seed(seed, step, "environments")
        _, make_source = sources.REGISTRY[config.source_name]
        with seeded(config.seed), _precision(config.precision):  # of further policies
            self.source = make_source(
                config.resolved().source,
                self.env,
                self._acting or self.algorithm.policy,
                seed,
                self.algorithm,
                config.log_info,
            )
        self.program = program.build(
            self.source,
            self.algorithm,
            config.compile,
            config.device,
            seed=config.seed,
            step=step,
            acting=self._acting,
            save=(
                None if self._user_code else compilation.program_saver(config, self.env)
            ),
        )

        self._stack.callback(self.program.close)

    def named_variables(self) -> dict[str, Any]:
        """Return the agent's variables in a checkpoint, ``{name: variable}``."""
        return self.algorithm.named_variables()

    def run_variables(self) -> dict[str, Any]:
        """Return the environments' variables in a checkpoint, if they can resume."""
        started = hasattr(self, "source") and not replay_saver.has_own_file(self.source)
        if not started or not getattr(self.env, "resumable", False):
            return {}
        named = self.source.named_variables().items()
        return {f"{checkpoint.RUN_ONLY}source/{name}": each for name, each in named}

    def restore_replay(self, folder: str | os.PathLike, step: int) -> str:
        """Restore the replay of a resumed run, see ``replay_saver.restore``."""
        exact = getattr(self.env, "resumable", False)
        begin = getattr(self.algorithm, "ratio", None)
        warmup = 0 if begin is None else begin.start
        return replay_saver.restore(self.source, folder, step, exact, warmup)

    def evaluation(
        self, env: Env, episodes: int, actions: evaluate.Actions
    ) -> evaluate.Play:
        """Return an evaluator of the agent, see ``evaluate.evaluator``."""
        config = self.config
        whole = program.is_whole(env, self.algorithm, config.compile, config.device)
        info = [name for name in config.log_info if name in env.spec.info]
        policy, most = self.algorithm.policy, config.eval_max_episode_steps
        return evaluate.evaluator(env, policy, episodes, actions, info, whole, most)

    def events(self) -> list[dict[str, Any]]:
        """Return the environments' events since the last call, see ``ManagedEnv``."""
        lists = [getattr(env, "events", list)() for env in self._running]
        return [event for events in lists for event in events]

    def report(self) -> dict[str, Any]:
        """Return the machine resources that the run uses, for its log."""
        return report(self.resources, self.cache_off)

    def stop(self) -> None:
        """Make every environment's step return at once; safe from any thread."""
        for env in self._running:
            getattr(env, "stop", lambda: None)()

    def close(self) -> None:
        self._stack.close()

    def __enter__(self) -> Experiment:
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def _make_evaluator(
        self, stack, config: Config, eval_env: Any
    ) -> evaluate.Play | None:
        if config.eval_every == 0:
            return None
        given = self._given
        if eval_env is not None:
            given, config = eval_env, play_config.adapted(config, eval_env, own=False)
        kwargs = registry.whole_games(given, config.env_kwargs)
        config = dataclasses.replace(config, env_kwargs=kwargs)
        batch, count = play_config.evaluation_size(
            given, config.eval_episodes, config.num_envs
        )
        env = self._environments(stack, config, given, batch)
        _check_spaces(env.spec, self.env.spec)
        return self.evaluation(env, count, config.eval_actions)

    def _training_environments(self, stack, config: Config, trains: bool) -> Env:
        """Create the environments of a run; those of predictors are a ``Fleet``."""
        given, count, source = self._given, config.num_envs, config.source
        alone = trains and getattr(source, "groups_of_one", False)
        parts = getattr(source, "predictors", 0) if trains else 0
        if not parts:
            return self._environments(stack, config, given, count, alone)
        if isinstance(given, Env):
            raise UserError(
                f"env is a {type(given).__name__}, but predictors need environments of "
                "their own; pass a name, or a function that creates one environment"
            )
        size, workers = count // parts, config.num_workers
        if workers is not None:
            if workers % parts:
                raise UserError(
                    f"num_workers is {workers}; expected a multiple of the {parts} "
                    "predictors"
                )
            config = dataclasses.replace(config, num_workers=workers // parts)
        made = []
        for i in range(parts):
            own = given
            if isinstance(given, (list, tuple)):
                own = given[i * size : (i + 1) * size]
            made.append(self._environments(stack, config, own, size, alone))
        fleet = Fleet(made)
        self._running = [fleet]  # instead of its parts
        return fleet

    def _environments(
        self, stack, config: Config, given: Any, num_envs: int, alone: bool = False
    ) -> Env:
        """Create environments; ``alone`` makes each worker a group of its own."""
        if isinstance(given, Env):
            named.refuse(
                config.wrappers,
                f"an Env object, a {type(given).__name__}",
                "leave them out (wrappers=[]), or pass them to make_env",
            )
            for name in config.log_info:
                if name not in given.spec.info:
                    raise UserError(
                        f"log_info has {name!r}, but the {type(given).__name__} "
                        "that was passed has no such info column; add it to its "
                        "info_keys"
                    )
            self._running.append(given)
            return given
        workers = config.num_workers
        if config.envs_per_worker is not None:
            workers = math.ceil(num_envs / config.envs_per_worker)
        if workers is not None:
            workers = min(workers, num_envs)
        if isinstance(given, (list, tuple)):
            given = given[:num_envs]
        options = dict(config.env_options)
        if alone:
            if make.tensor_env(given, config.env_kwargs) is not None:
                raise UserError(
                    f"{config.env} is written in TensorFlow, where all environments "
                    "step at once; steps that do not wait for all of them need worker "
                    "processes, use another environment"
                )
            workers = num_envs if workers is None else workers
            waits_for = config.source.waits_for(num_envs, workers)
            name = config.source.waits_for_name
            async_rollout.group_size(num_envs, workers, waits_for, name)
            options["groups"] = workers
        if config.log_info:
            if make.tensor_env(given, config.env_kwargs) is not None:
                raise UserError(
                    f"log_info is {config.log_info}, but {config.env} is written in "
                    "TensorFlow and has no infos; leave log_info out"
                )
            options["info_keys"] = dict.fromkeys(config.log_info, "float32")
        try:
            env = make.make_env(
                given,
                num_envs,
                workers,
                env_kwargs=config.env_kwargs,
                wrappers=config.wrappers,
                on_fault=config.on_fault,
                **options,
            )
        except EnvError as error:
            raise _to_user_error(error, config) from error
        stack.callback(env.close)
        self._running.append(env)
        return env


def prepare_devices(config: Config, resources: threads.Resources, device: str) -> str:
    """Choose the devices that TensorFlow sees, and enable the compile cache.

    Returns:
      Reason why compiled programs are not cached; empty if they are.
    """

    if not config.compile_cache:
        devices.claim(device)
        return "compile_cache is false"
    return compile_cache.enable(resources.threads, lambda: devices.claim(device))


def report(resources: threads.Resources, cache_off: str) -> dict[str, Any]:
    """Return the machine resources that a run uses, for its log."""
    cache = f"off: {cache_off}" if cache_off else "on"
    return {**resources._asdict(), "compile_cache": cache}


def remarks(spec: EnvSpec) -> list[str]:
    """Return a line for each part of observations that looks like an image but is none.

    The built-in network flattens it.
    """
    found = []
    for leaf in spaces.leaves(spec.observation_space):
        if reason := encoding.missed_image(leaf.space):
            found.append(f"note: {spaces.field(leaf.path)}{reason}")
    return found


def _check_spaces(found: EnvSpec, expected: EnvSpec) -> None:
    """Check that the agent can act in the evaluation environment."""
    same_actions = found.action_space == expected.action_space
    # Observation bounds may differ: evaluations may measure exactly that.
    alike = spaces.alike(found.observation_space, expected.observation_space)
    checks = (same_actions, "action_space"), (alike, "observation_space")
    for fits, name in checks:
        if not fits:
            own, trained = getattr(found, name), getattr(expected, name)
            raise UserError(
                f"eval_env has {name}={own}, but the agent is trained with {trained}; "
                "pass an environment with the same spaces"
            )


def _to_user_error(error: EnvError, config: Config) -> Exception:
    """Turn a constructor's TypeError into a UserError; return other errors as is."""
    cause = error.__cause__
    wrong = getattr(cause, "type_name", type(cause).__name__) == "TypeError"
    if error.phase == "construct" and wrong and config.env_kwargs:
        text = getattr(cause, "text", cause)
        return UserError(f"env_kwargs {config.env_kwargs} do not fit: {text}")
    return error


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed the initial weights, and restore the caller's random state at the end.

    After a failure, such as Ctrl-C or a lack of memory, later networks can be created.
    """
    states = random.getstate(), np.random.get_state()
    keras.utils.set_random_seed(seed)
    try:
        yield
    except BaseException:
        # Keras keeps variables without a value yet, and would create them with the
        # next network; some have one already, which is an error.
        global_state.set_global_attribute("uninitialized_variables", [])
        raise
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])


@contextlib.contextmanager
def _precision(name: str) -> Iterator[None]:
    """Set Keras' default dtype policy for the layers created in this context."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(name)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


def _check_precision(algorithm: Any, name: str) -> None:
    """Check that at least one layer uses the requested precision."""
    network = getattr(algorithm, "network", None)
    if name == "float32" or network is None:
        return
    computing = [
        layer
        for layer in networks.layers(network)
        if layer.weights and not networks.layers(layer)
    ]
    if not any(layer.dtype_policy.name == name for layer in computing):
        raise UserError(
            f"--precision={name} changes nothing: the network has no convolution; "
            "remove the flag, or create your own layers in the function that you pass"
        )
