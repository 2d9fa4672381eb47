"""Settings of a run that every algorithm has, each of them a flag; in config.json.

Importing this module does not import TensorFlow. Algorithms and sources, which do, are
imported when a config is created.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from tfagents_batch import config, schedules
from tfagents_batch.config import option
from tfagents_batch.envs.shared import arguments
from tfagents_batch.envs.shared.options import ENV_OPTIONS
from tfagents_batch.envs.wrappers import named
from tfagents_batch.errors import UserError
from tfagents_batch.settings import suggest

if TYPE_CHECKING:
    from tfagents_batch.envs.recipe import EnvRecipe

ActionMode = Literal["mode", "sample"]
"""Actions that are played: the most likely ones, or samples of the policy."""
Actions = Literal["mode", "sample", "both"]
LONGEST = 10_000  # step limit of an evaluation's episode if environments have none
MOST_THREADS = 1024  # each one takes memory
DEFAULT = "ppo"
# Those of ENV_OPTIONS that environments without workers have too.
IN_PROCESS = ("finite_check", "strict_bounds")
VARIABLES = "worker_variables"  # never saved: may contain secrets or run code
# Logging and hardware options: neither changes what is learned.
_log_option = functools.partial(
    option, resumable=True, same_curve=True, same_program=True
)
_machine_option = functools.partial(option, resumable=True, same_curve=True)


@dataclasses.dataclass(frozen=True)
class RunConfig:
    """Settings of a run; saved in config.json."""

    algorithm: str = option(
        DEFAULT, "algorithm name; your own: module:Class or ./file.py:Class"
    )
    env: str = option("", "environment name, such as CartPole-v1 or tf/CartPole-v1")
    env_kwargs: dict = option({}, "arguments of the environment", group="environment")
    wrappers: list = option(
        [], "wrappers of each environment, innermost first", group="environment"
    )
    env_options: dict = option(
        {},
        'further options of make_env, such as {"step_seconds": 300}',
        resumable=True,
        same_curve=True,
        group="environment",
    )
    steps: int = option(
        1_000_000,
        "length of the run in environment steps (Stable-Baselines3: total_timesteps)",
        least=1,
        resumable=True,
        same_program=True,
    )
    seed: int = option(
        0,
        "seed of the run: weights, environments, actions and minibatches",
        least=0,
        most=2**31 - 1,
        same_curve=True,
        same_program=True,
    )
    num_envs: int = option(
        8,
        "number of environments in the batch",
        least=1,
        most=arguments.MAX_ENVS,
        group="environment",
    )
    num_workers: int | None = _machine_option(
        None,
        "number of worker processes; 0: none, step in this process; none: one per "
        "core, or a single one where that is faster",
        least=0,
        instead_of="envs_per_worker",
        group="environment",
    )
    envs_per_worker: int | None = _machine_option(
        None,
        "environments per worker process, instead of num_workers",
        least=1,
        instead_of="num_workers",
        group="environment",
    )
    threads: int | None = _machine_option(
        None,
        "TensorFlow threads; none: one for small networks, else one per core",
        least=1,
        most=MOST_THREADS,
        group="machine",
    )
    eval_every: int | None = _log_option(
        None,
        "steps between evaluations; 0: never, none: ten evaluations in the run",
        least=0,
        group="evaluation",
    )
    eval_episodes: int = _log_option(
        10, "episodes per evaluation", least=1, group="evaluation"
    )
    eval_max_episode_steps: int | None = _log_option(
        None,
        "steps after which an episode of an evaluation is cut off; none: the limit of "
        f"the environment, {LONGEST:,} if it has none",
        least=1,
        group="evaluation",
    )
    eval_actions: Actions = option(
        "mode",
        "actions in evaluations: the most likely one (mode), sampled ones, or both",
        same_program=True,
        group="evaluation",
    )
    log_every: int | None = _log_option(
        None,
        "steps between logged lines of metrics; none: 200 lines in the run",
        least=0,
        group="log",
    )
    progress: bool = _log_option(
        True,
        "show progress and notes on stderr; false: only warnings and alarms",
        group="log",
    )
    checkpoint_every: float = _log_option(
        60.0, "seconds between checkpoints", least=0, group="checkpoint"
    )
    keep_every: int = _log_option(
        0,
        "steps between permanent checkpoints; 0: keep the newest three and the best",
        least=0,
        group="checkpoint",
    )
    log_info: list = option(
        [],
        "keys of the environments' info to log at the end of episodes",
        same_curve=True,
        group="log",
    )
    compile: Literal["auto", "full", "update", "off"] = _machine_option(
        "auto",
        "part that XLA compiles: everything (full), the update, or nothing (off)",
        group="machine",
    )
    overlap: bool = option(
        False,
        "collect experience during each update, with the weights before that update",
        group="machine",
    )
    precision: Literal["float32", "mixed_bfloat16"] = option(
        "float32",
        "precision of convolutions and of hidden layers of 512 units or more; weights "
        "and losses stay float32",
        group="machine",
    )
    compile_cache: bool = _log_option(
        True, "save compiled programs for later starts", group="machine"
    )
    device: Literal["auto", "cpu", "gpu"] = _machine_option(
        "auto",
        "device of the updates, and of environments written in TensorFlow; auto: the "
        "GPU if there is one and the work is large enough for it",
        group="machine",
    )
    on_fault: Literal["raise", "restart"] = _machine_option(
        "raise",
        "if an environment fails: end the run, or restart the environment",
        group="environment",
    )
    stop_at_return: float | None = _log_option(
        None, "mean return of an evaluation that ends the run", group="evaluation"
    )
    log_video_every: int = _log_option(
        0,
        "steps between videos of an episode in TensorBoard; 0: never",
        least=0,
        group="log",
    )
    track: Literal["none", "wandb", "mlflow"] = _log_option(
        "none", "experiment tracker that also gets the log", group="log"
    )
    pool: Literal["none", "ray", "spark"] = option(
        "none",
        "collect in workers of Ray or Spark instead of in this process, see the page "
        '"From a laptop to a cluster"',
        resumable=True,
        group="machine",
    )
    pool_workers: int | None = option(
        None,
        "number of these workers; none: two",
        least=1,
        resumable=True,
        group="machine",
    )
    pool_options: dict = option(
        {},
        'further settings of the pool, such as {"address": "10.0.0.1:6379"}',
        resumable=True,
        group="machine",
    )
    source: Any = option(
        None, "settings of the algorithm's source of experience, see ``sources``"
    )
    settings: Any = option(None, "settings of the algorithm: --algorithm.<setting>")

    def __post_init__(self):
        from tfagents_batch import sources
        from tfagents_batch.training import own_algorithm

        if own_algorithm.is_known(self.algorithm):
            kind = own_algorithm.entry(self.algorithm).config
            if self.settings is None:
                object.__setattr__(self, "settings", kind())
            if self.source is None:
                name, own = kind.source
                object.__setattr__(self, "source", sources.REGISTRY[name](**own))

    def resolved(self) -> RunConfig:
        """Return the config with each ``linear`` schedule set to the run's steps."""
        parts = {"settings": self.settings, "source": self.source}
        parts = {k: schedules.resolve(x, self.steps) for k, x in parts.items()}
        return dataclasses.replace(self, **parts)

    def make_options(self, num_envs: int) -> dict[str, Any]:
        """Return the arguments of ``EnvRecipe.make`` for a number of environments."""
        workers = self.num_workers
        if self.envs_per_worker is not None:
            workers = math.ceil(num_envs / self.envs_per_worker)
        if workers is not None:
            workers = min(workers, num_envs)
        options = {"num_workers": workers, "on_fault": self.on_fault}
        return options | {"log_info": self.log_info} | dict(self.env_options)

    def recipe(self, env: Any = None) -> EnvRecipe:
        """Return the recipe of an environment with the run's arguments and wrappers.

        Args:
          env: argument of ``make_env``, or an ``Env``; None means that of the run.
        """
        from tfagents_batch.envs.recipe import EnvRecipe

        env = self.env if env is None else env
        return EnvRecipe(env, self.env_kwargs, self.wrappers)

    def check(self) -> RunConfig:
        """Check all settings and return the config with values of the right types.

        Raises:
          UserError: for a setting that is invalid or contradicts another one.
        """
        checked = self.check_agent()
        accepted = checked.settings.accepts()
        if self.source.kind not in accepted:
            raise UserError(
                f"{self.source.name} gives {self.source.kind}, but {self.algorithm!r} "
                f"with its settings learns from {' or '.join(accepted)}; use another "
                "source or algorithm"
            )
        return dataclasses.replace(checked, source=self.source.check(checked))

    def check_agent(self) -> RunConfig:
        """Check all settings but those of the source, which playing does not need."""
        from tfagents_batch.training import own_algorithm

        expected = own_algorithm.entry(self.algorithm).config
        kind = type(self.settings)
        if kind is not expected:  # a subclass has settings that it would ignore
            raise UserError(
                f"settings are a {kind.__module__}.{kind.__qualname__}, but the "
                f"algorithm is {self.algorithm!r}; pass {expected.__module__}."
                f"{expected.__qualname__}"
            )
        named.check(self.wrappers)
        for name in self.env_options:
            if name not in ENV_OPTIONS:
                raise UserError(config.unknown("env_options", name, ENV_OPTIONS))
        arguments.variables(self.env_options.get(VARIABLES))
        _check_info(self.log_info)
        # Evaluations may pass objects here that are not JSON.
        objects = {"env_kwargs": self.env_kwargs, "wrappers": self.wrappers}
        checked = config.check(dataclasses.replace(self, env_kwargs={}, wrappers=[]))
        if self.num_workers is not None and self.envs_per_worker is not None:
            raise UserError(
                f"num_workers is {self.num_workers} and envs_per_worker is "
                f"{self.envs_per_worker}, and both set the number of processes; pass "
                "only one of them"
            )
        if self.stop_at_return is not None and self.eval_every == 0:
            raise UserError(
                f"stop_at_return is {self.stop_at_return}, but eval_every is 0, so "
                "there are no evaluations; remove one of them"
            )
        settings = self.settings.check()
        return dataclasses.replace(checked, settings=settings, **objects)


def without_variables(config: RunConfig) -> RunConfig:
    """Return the config without its workers' environment variables, to be saved."""
    options = {k: v for k, v in config.env_options.items() if k != VARIABLES}
    return dataclasses.replace(config, env_options=options)


def with_options(base: RunConfig, options: Mapping[str, Any]) -> RunConfig:
    """Return a config with the options that a user gave.

    Args:
      base: a preset, the defaults, or the config of a run.
      options: settings of the config. Those of the source have its name in front, as in
        ``{"rollout.length": 64}`` or ``{"rollout": {"length": 64}}``.

    Raises:
      UserError: for an unknown name or a value of the wrong type.
    """
    from tfagents_batch import sources

    rest: dict[str, Any] = {}
    of_source: dict[str, Any] = {}
    source = options.get("source") or base.source
    for name, value in options.items():
        head, _, tail = name.partition(".")
        if head == source.name:
            of_source |= {tail: value} if tail else value
        elif head in sources.REGISTRY:
            raise UserError(
                f"{name} is a setting of the source {head!r}, but {base.algorithm!r} "
                f"learns from {source.name!r}; leave it out"
            )
        elif name not in RunConfig.__dataclass_fields__:
            raise UserError(f"unknown setting {name!r}; {_hint(name, base, source)}")
        else:
            rest[name] = value
    if of_source:
        rest["source"] = config.replace(source, of_source, f"{source.name}.")
    return config.replace(base, rest)


# Arguments of ``train`` that are not in a config.
_OF_TRAIN = (
    *("config", "data", "eval_env", "init_checkpoint", "init_from", "logdir"),
    *("network", "on_checkpoint", "on_evaluation", "on_iteration", "profile", "resume"),
)


def _hint(name: str, base: RunConfig, source: Any) -> str:
    """Return a hint for an unknown option: which argument of ``train`` it is."""
    if name in _OF_TRAIN:
        return f"it is an argument of train, not a setting; pass {name}= or --{name}="
    known = {setting: repr(setting) for setting in (*config.names_of(base), *_OF_TRAIN)}
    for prefix, argument, part in (
        ("algorithm", "settings", base.settings),
        (source.name, source.name, source),
    ):
        for setting in config.names_of(part):
            known[f"{prefix}.{setting}"] = f'{argument}={{"{setting}": ...}}'
    return suggest.setting(name, known) or suggest.hint(name, config.names_of(base))


def _check_info(names: Sequence[str]) -> None:
    """Check that info names can be logged."""
    for name in names:
        if not isinstance(name, str) or not re.fullmatch(r"[^/\s]+", name):
            raise UserError(
                f"log_info has {name!r}; expected keys of the environments' infos, "
                "without spaces and slashes"
            )
        if name in ("return", "length"):
            raise UserError(f"log_info has {name!r}, which is always logged; remove it")
