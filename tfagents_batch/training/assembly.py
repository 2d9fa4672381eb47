"""Creation of a run's environments, algorithm and source from a config."""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras.src.backend.common import global_state

from tfagents_batch import seeds
from tfagents_batch.algorithms.shared import entries
from tfagents_batch.devices import placement
from tfagents_batch.devices.placement import CPU, HOST, Placement
from tfagents_batch.envs.native import build
from tfagents_batch.envs.recipe import EnvRecipe
from tfagents_batch.errors import UserError
from tfagents_batch.experience import Experience, NeedsMemory, OwnFile
from tfagents_batch.interfaces import Algorithm, Env, Policy
from tfagents_batch.nn import networks
from tfagents_batch.nn.layers import kernels
from tfagents_batch.nn.policies.preprocessed import Player
from tfagents_batch.programs import program
from tfagents_batch.tracing import anew
from tfagents_batch.training import (
    compilation,
    evaluate,
    own_algorithm,
    preprocessing,
    saving,
    signals,
    threads,
)
from tfagents_batch.training.config import RunConfig, without_variables
from tfagents_batch.training.log import console
from tfagents_batch.training.run_folder import checkpoint
from tfagents_batch.training.video import Clips
from tfagents_batch.types import EnvSpec


class Experiment:
    """The live objects of one run; a context manager that closes its environments.

    Evaluations play in ``eval_recipe``, which is needed if the training environment is
    an instance, or if there is none. The network is a user's model or builder, see
    ``nn.user``. ``experience`` takes the place of the config's source, such as a pool
    of workers that collects what the source would. ``teacher`` gives the algorithm a
    teacher for the spec that it sees; None: it has none.

    Attributes:
      config: config without worker variables, which must never be saved.
      envs, spec: environments that are stepped, none for logged data, and the spec of
        all of them.
      seen: spec of what the algorithm sees of them.
      algorithm: the algorithm that is trained.
      preprocessing: normalization of features, or none.
      source, program, saver: its source of experience, the program that joins both,
        and what stores it for later starts; set by ``start``.
      evaluator: evaluation in separate environments; None without evaluations.
      clips: recorder of videos, in a separate environment; None without videos.
      resources: threads and workers, and the reasons for their numbers.
      placement: the devices, and why.
      own_network: whether the network is the user's.
      cache_off: reason why compiled programs are not cached; empty if they are.
    """

    def __init__(
        self,
        config: RunConfig,
        recipe: EnvRecipe,
        eval_recipe: EnvRecipe | None = None,
        network: Any = None,
        experience: Experience | None = None,
        teacher: Callable[[EnvSpec, Algorithm], None] | None = None,
    ):
        config = config.check()
        self._experience = experience
        placement.check(config.device)
        self.config, self._recipe = without_variables(config), recipe
        self.own_network = own = network is not None
        # The key of a stored program does not cover a teacher either.
        self._user_code = own or recipe.needs_user_code or teacher is not None
        evaluate.check(config, recipe, eval_recipe)
        with contextlib.ExitStack() as stack:
            stack.enter_context(signals.harmless_checkpoint_requests())
            opened = experience or config.source
            with console.doing(start_of(config, recipe, experience)):
                self.envs, self.spec = opened.environments(recipe, config)
            if recipe.creates:
                for env in self.envs:
                    stack.callback(env.close)
            self.preprocessing = preprocessing.of_source(config.source)
            self.seen = self.preprocessing.seen(self.spec)
            # After the environments exist, but before TensorFlow runs anything.
            self.resources = threads.configure(config, self.spec, self.envs, own)
            self.placement, self.cache_off = prepare_devices(
                config,
                self.resources,
                lambda: placement.of_run(config, self.seen, self.envs, own),
            )
            if isinstance(config.source, NeedsMemory):
                config.source.check_memory(self.seen, config, self.placement)
            stack.enter_context(compilation.during_run())
            with console.doing("creating networks"), self.placement.updating():
                self.algorithm = create_algorithm(config, self.seen, network)
                if teacher is not None:
                    teacher(self.seen, self.algorithm)
                self._player = self.preprocessing.player(self.algorithm)
            self._evaluated: tuple[Env, ...] = ()
            self.evaluator = self._make_evaluator(stack, config, eval_recipe)
            self.clips = None
            if config.log_video_every:
                player = player_of(config, self._player, self.placement)
                self.clips = Clips(recipe.whole_games(), *player)
                stack.callback(self.clips.close)
            self._stack = stack.pop_all()

    def start(self, step: int) -> None:
        """Start the first episodes and build the program.

        Environments of a run that is resumed at a step get other seeds, so its first
        episodes are not repeated.
        """
        config, seed = self.config, self.config.seed
        if step:
            seed = seeds.iteration_seed(seed, step, "environments")
        run = config.resolved()
        with seeded(config.seed), _precision(config.precision):  # of further policies
            experience = self._experience or run.source
            self.source = experience.open(
                self.envs, self.algorithm, seed, run, self.placement
            )
        parts = config, self.seen, self.envs
        self.saver = compilation.Saver(*parts, own_code=self._user_code)
        kind = experience.program
        if run.overlap and kind == "synchronous":  # fetching is always ahead of updates
            kind = "overlapped"
        self.program = program.build(
            self.source,
            self.algorithm,
            config.compile,
            self.placement,
            seed=config.seed,
            step=step,
            kind=kind,
            save=self.saver,
        )
        self._stack.callback(self.program.close)

    def named_variables(self) -> dict[str, Any]:
        """Return the agent's variables in a checkpoint, ``{name: variable}``."""
        return self.algorithm.learner.named_variables()

    def run_variables(self) -> dict[str, Any]:
        """Return the environments' variables in a checkpoint, if they can resume.

        Those that the learner keeps for each environment are always among them.
        """
        agent = self.named_variables().items()
        own = {k: x for k, x in agent if k.startswith(checkpoint.RUN_ONLY)}
        started = hasattr(self, "source") and not isinstance(self.source, OwnFile)
        if not started or not self._resumable:
            return own
        named = self.source.named_variables().items()
        return own | {
            f"{checkpoint.RUN_ONLY}source/{name}": variable for name, variable in named
        }

    def restore_replay(self, folder: str | os.PathLike, step: int) -> str:
        """Restore the replay of a resumed run, see ``saving.restore``."""
        return saving.restore(self.source, folder, step, self._resumable)

    def events(self) -> list[dict[str, Any]]:
        """Return the environments' events since the last call, see ``ManagedEnv``."""
        return env_events(self.envs) + env_events(self._evaluated)

    def report(self) -> dict[str, Any]:
        """Return the machine resources that the run uses, for its log."""
        cache = f"off: {self.cache_off}" if self.cache_off else "on"
        device = {"device": self.placement.name, "device_reason": self.placement.reason}
        return {**self.resources._asdict(), **device, "compile_cache": cache}

    def stop(self) -> None:
        """Make every environment's step return at once; safe from any thread."""
        for env in (*self.envs, *self._evaluated):
            getattr(env, "stop", lambda: None)()

    def close(self) -> None:
        self._stack.close()

    def __enter__(self) -> Experiment:
        return self

    def __exit__(self, *_) -> None:
        self.close()

    @property
    def _resumable(self) -> bool:
        return all(getattr(env, "resumable", False) for env in self.envs)

    def _make_evaluator(
        self, stack, config: RunConfig, recipe: EnvRecipe | None
    ) -> evaluate.Play | None:
        if config.eval_every == 0:
            return None
        if recipe is None and not self._recipe.env:
            return config.source.evaluator(self.algorithm, self.placement)
        own = recipe is None
        recipe = (self._recipe if own else recipe).whole_games()
        batch, count = recipe.for_evaluation(config.eval_episodes, config.num_envs)
        # Another environment may have no workers, so their options do not apply.
        options = config.make_options(batch) if own or recipe.has_workers else {}
        env = recipe.make(batch, **options)
        self._evaluated = (env,)
        if recipe.creates:
            stack.callback(env.close)
        specs = self.preprocessing.seen(env.spec), self.seen
        evaluate.check_spaces(*(entries.acting(config.settings, x) for x in specs))
        parts = self.config, self._player, env, count, config.eval_actions
        return evaluation(*parts, self.placement)


def start_of(config: RunConfig, recipe: EnvRecipe, experience: Any) -> str:
    """Return what the start of a run's environments is called."""
    if experience is not None:
        return "starting the workers"
    if config.num_workers != 0 and recipe.has_workers and build.is_due():
        return "starting environments; the native backend is built once"
    return "starting environments"


def create_algorithm(
    config: RunConfig, spec: EnvSpec, network: Any = None
) -> Algorithm:
    """Create the algorithm of a run, which sees this spec, with its initial weights.

    Raises:
      UserError: for settings, a network or members of a user's class that do not work.
    """
    kind = own_algorithm.entry(config.algorithm).kind
    with seeded(config.seed), _precision(config.precision):
        algorithm = kind(config.resolved().settings, spec, network)
    _check_precision(algorithm, config.precision)
    if not hasattr(algorithm, "learner"):
        algorithm.learner = algorithm
    own_algorithm.check_parts(algorithm)
    if algorithm.learner is not algorithm:
        for name in ("named_variables", "histograms", "compile_parts"):
            if hasattr(algorithm, name):  # nothing calls it, so its state would be lost
                raise UserError(
                    f"{kind.__name__} has both a learner and {name}, which only the "
                    "learner is asked for; let self.learner have it, see "
                    "docs/own_algorithm.md"
                )
    return algorithm


def evaluation(
    config: RunConfig,
    algorithm: Algorithm | Player,
    env: Env,
    episodes: int,
    actions: evaluate.Actions,
    placement: Placement = HOST,
) -> evaluate.Play:
    """Return an evaluator of an agent, see ``evaluate.Evaluator``.

    Environments that a GPU's program cannot step are played on the CPU, by a copy of
    the policy.
    """
    policy, refresh = algorithm.policy, None
    if not placement.whole or not getattr(env, "compilable", False):
        policy, refresh = player_of(config, algorithm, placement)
        placement = HOST
    whole = program.is_whole(env, algorithm, config.compile, placement)
    info = [name for name in config.log_info if name in env.spec.info]
    most = config.eval_max_episode_steps
    return evaluate.Evaluator(
        env, policy, episodes, actions, info, whole, most, placement, refresh
    )


def player_of(
    config: RunConfig, algorithm: Algorithm | Player, placement: Placement
) -> tuple[Policy, Callable[[], None] | None]:
    """Return a policy on the CPU that plays episodes between two updates.

    It is the algorithm's own one, or a copy, with a function that copies the newest
    weights into it.
    """
    policy = algorithm.policy
    if placement.update == CPU:
        return policy, None
    with seeded(config.seed), _precision(config.precision), HOST.updating():
        player = algorithm.make_policy()
    refresh = anew(lambda: player.assign_from(policy))
    return player, tf.function(refresh, autograph=False)


def prepare_devices(
    config: RunConfig,
    resources: threads.Resources,
    choose: Callable[[], Placement] = lambda: HOST,
) -> tuple[Placement, str]:
    """Choose the devices that TensorFlow sees, and enable the compile cache.

    ``choose`` is called when the cache is enabled, because TensorFlow reads the folder
    of the cache when it first lists devices.

    Returns:
      The devices, and the reason why compiled programs are not cached; empty if they
      are.
    """
    chosen: list[Placement] = []

    def claim() -> None:
        chosen.append(choose())
        placement.claim(chosen[0])

    if config.compile_cache and config.device != "gpu":
        off = compilation.enable(resources.threads, claim)
        return chosen[0], off
    claim()
    used = "programs of a GPU are not cached" if config.compile_cache else ""
    return chosen[0], used or "compile_cache is false"


def env_events(envs: Sequence[Env]) -> list[dict[str, Any]]:
    """Return events since the last call, see ``ManagedEnv``.

    Environments are numbered through all batches.
    """
    events, first = [], 0
    for env in envs:
        for event in getattr(env, "events", list)():
            if "envs" in event:
                event = event | {"envs": [first + i for i in event["envs"]]}
            events.append(event)
        first += env.spec.num_envs
    return events


def env_counters(envs: Sequence[Env]) -> dict[str, float]:
    """Return counters since the last call, see ``joined_counters``."""
    return joined_counters(getattr(env, "metrics", dict)() for env in envs)


def joined_counters(counters: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Return counters of several batches: sums, means of times, largest sizes."""
    by_name: dict[str, list[float]] = {}
    for batch in counters:
        for name, x in batch.items():
            by_name.setdefault(name, []).append(x)
    joined = {}
    for name, values in by_name.items():
        mean = name.startswith("time/") or name.endswith("_fraction")
        total = max(values) if name.startswith("system/") else sum(values)
        joined[name] = total / len(values) if mean else total
    return joined


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
            f"--precision={name} changes nothing: the network has no convolution and "
            f"no hidden layer of {kernels.WIDE} units; remove the flag, or create your "
            "own layers in the function that you pass"
        )
