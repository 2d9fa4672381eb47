"""Settings of a run that every algorithm has, each of them a flag; in config.json."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, Literal

from tfagents_batch import algorithms, config, schedules, sources
from tfagents_batch.config import option
from tfagents_batch.envs.shared import arguments
from tfagents_batch.envs.shared.options import ENV_OPTIONS
from tfagents_batch.envs.wrappers import named
from tfagents_batch.errors import UserError
from tfagents_batch.sources import metrics
from tfagents_batch.training import evaluate
from tfagents_batch.training.runtime import threads

# Those of ENV_OPTIONS that environments without workers have too.
IN_PROCESS = ("finite_check", "strict_bounds")
VARIABLES = "worker_variables"  # never saved: may contain secrets or run code
# Logging and hardware options: neither changes what is learned.
_log_option = functools.partial(
    option, resumable=True, same_curve=True, same_program=True
)
_machine_option = functools.partial(option, resumable=True, same_curve=True)


@dataclasses.dataclass(frozen=True)
class Config:
    """Settings of a run; saved in config.json."""

    algorithm: str = option(algorithms.DEFAULT, "algorithm name")
    env: str = option("", "environment name, such as CartPole-v1 or tf/CartPole-v1")
    env_kwargs: dict = option({}, "arguments of the environment")
    wrappers: list = option([], "wrappers of each environment, innermost first")
    env_options: dict = option(
        {},
        'further options of make_env, such as {"step_seconds": 300}',
        resumable=True,
        same_curve=True,
    )
    steps: int = option(
        1_000_000,
        "length of the run in environment steps",
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
        8, "number of environments in the batch", least=1, most=arguments.MAX_ENVS
    )
    num_workers: int | None = _machine_option(
        None,
        "number of worker processes; 0: none, step in this process; none: one per "
        "core, or a single one where that is faster",
        least=0,
    )
    envs_per_worker: int | None = _machine_option(
        None, "environments per worker process, instead of num_workers", least=1
    )
    threads: int | None = _machine_option(
        None,
        "TensorFlow threads; none: one for small networks, else one per core",
        least=1,
        most=threads.MOST,
    )
    eval_every: int | None = _log_option(
        None,
        "steps between evaluations; 0: never, none: ten evaluations in the run",
        least=0,
    )
    eval_episodes: int = _log_option(10, "episodes per evaluation", least=1)
    eval_max_episode_steps: int | None = _log_option(
        None,
        "steps after which an episode of an evaluation is cut off; none: the limit of "
        f"the environment, {evaluate.LONGEST:,} if it has none",
        least=1,
    )
    eval_actions: evaluate.Actions = option(
        "mode",
        "actions in evaluations: the most likely one (mode), sampled ones, or both",
        same_program=True,
    )
    log_every: int | None = _log_option(
        None,
        "steps between logged lines of metrics; none: 200 lines in the run",
        least=0,
    )
    checkpoint_every: float = _log_option(60.0, "seconds between checkpoints", least=0)
    keep_every: int = _log_option(
        0,
        "steps between permanent checkpoints; 0: keep the newest three and the best",
        least=0,
    )
    log_info: list = option(
        [],
        "keys of the environments' info to log at the end of episodes",
        same_curve=True,
    )
    compile: Literal["auto", "full", "update", "off"] = _machine_option(
        "auto",
        "part that XLA compiles: everything (full), the update, or nothing (off)",
    )
    overlap: bool = option(
        False,
        "collect experience during each update, with the weights before that update",
    )
    precision: Literal["float32", "mixed_bfloat16"] = option(
        "float32", "precision of convolutions; weights and losses stay float32"
    )
    compile_cache: bool = _log_option(True, "save compiled programs for later starts")
    device: Literal["cpu", "gpu"] = _machine_option(
        "cpu", "device of the updates; gpu has not been tried yet"
    )
    on_fault: Literal["raise", "restart"] = _machine_option(
        "raise", "if an environment fails: end the run, or restart the environment"
    )
    stop_at_return: float | None = _log_option(
        None, "mean return of an evaluation that ends the run"
    )
    log_video_every: int = _log_option(
        0, "steps between videos of an episode in TensorBoard; 0: never", least=0
    )
    track: Literal["none", "wandb", "mlflow"] = _log_option(
        "none", "experiment tracker that also gets the log"
    )
    source: Any = option(
        None, "settings of the algorithm's source of experience, see ``sources``"
    )
    settings: Any = option(None, "settings of the algorithm: --algorithm.<setting>")

    def __post_init__(self):
        if self.algorithm in algorithms.REGISTRY:
            kind = algorithms.REGISTRY[self.algorithm][1]
            if self.settings is None:
                object.__setattr__(self, "settings", kind())
            if self.source is None:
                source, _ = sources.REGISTRY[self.source_name]
                own = getattr(kind, "SOURCE", {})
                object.__setattr__(self, "source", source(**own))

    @property
    def source_name(self) -> str:
        """Name of the algorithm's source, which is before the dot in its flags."""
        return algorithms.REGISTRY[self.algorithm][0].source

    def resolved(self) -> Config:
        """Return the config with each ``linear`` schedule set to the run's steps."""
        parts = {"settings": self.settings, "source": self.source}
        parts = {k: schedules.resolve(x, self.steps) for k, x in parts.items()}
        return dataclasses.replace(self, **parts)

    def check(self) -> Config:
        """Check all settings and return the config with values of the right types.

        Raises:
          UserError: for a setting that is invalid or contradicts another one.
        """
        if self.algorithm not in algorithms.REGISTRY:
            raise UserError(
                config.unknown("algorithm", self.algorithm, algorithms.REGISTRY)
            )
        expected = algorithms.REGISTRY[self.algorithm][1]
        if not isinstance(self.settings, expected):
            raise UserError(
                f"settings belong to {type(self.settings).__module__}, but the "
                f"algorithm is {self.algorithm!r}; pass {expected.__module__}.Config"
            )
        expected, _ = sources.REGISTRY[self.source_name]
        if not isinstance(self.source, expected):
            raise UserError(
                f"source is a {type(self.source).__name__}, but {self.algorithm!r} "
                f"learns from {self.source_name!r}; pass {expected.__module__}.Config"
            )
        if not self.env:
            raise UserError(
                "no environment is given; pass --env=<name> or a --config preset"
            )
        named.check(self.wrappers)
        env_options = arguments.current_names(self.env_options)
        for name in env_options:
            if name not in ENV_OPTIONS:
                raise UserError(config.unknown("env_options", name, ENV_OPTIONS))
        arguments.variables(env_options.get(VARIABLES))
        metrics.check_info(self.log_info)
        # Evaluations may pass objects here that are not JSON.
        objects = {
            "env_kwargs": self.env_kwargs,
            "wrappers": self.wrappers,
            "env_options": env_options,
        }
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
        if self.overlap and not self.source.overlaps:
            raise UserError(
                f"overlap is true, but {self.algorithm!r} learns from a "
                f"{self.source_name}, which cannot be written and sampled at the same "
                "time; leave overlap out"
            )
        if self.overlap and getattr(self.source, "lag", 0):
            raise UserError(
                f"overlap is true and rollout.lag is {self.source.lag}, and both set "
                "how old the policy that acts is; leave one of them out"
            )
        settings = self.settings.check()
        getattr(settings, "check_steps", lambda steps: None)(self.steps)
        return dataclasses.replace(
            checked,
            source=self.source.check(self.num_envs),
            settings=settings,
            **objects,
        )


def without_variables(config: Config) -> Config:
    """Return the config without its workers' environment variables, to be saved."""
    options = {k: v for k, v in config.env_options.items() if k != VARIABLES}
    return dataclasses.replace(config, env_options=options)


# Earlier names of settings of a source, which stay valid.
ALIASES = {"rollout_length": "rollout.length", "update_every": "rollout.episodes"}
# Pairs of settings for the same quantity; the one given last replaces the other.
_REPLACES = {"num_workers": "envs_per_worker", "envs_per_worker": "num_workers"}


def with_options(base: Config, options: Mapping[str, Any]) -> Config:
    """Return a config with the options that a user gave.

    Args:
      base: a preset, the defaults, or the config of a run.
      options: settings of the config. Those of the source have its name in front, as in
        ``{"rollout.length": 64}`` or ``{"rollout": {"length": 64}}``.

    Raises:
      UserError: for an unknown name or a value of the wrong type.
    """
    rest: dict[str, Any] = {}
    of_source: dict[str, Any] = {}
    for name, value in options.items():
        head, _, tail = ALIASES.get(name, name).partition(".")
        if head not in sources.REGISTRY:
            rest[name] = value
        elif head != base.source_name:
            raise UserError(
                f"{name} is a setting of the source {head!r}, but {base.algorithm!r} "
                f"learns from {base.source_name!r}; leave it out"
            )
        else:
            of_source |= {tail: value} if tail else value
    for name, other in _REPLACES.items():
        if rest.get(name) is not None:
            rest.setdefault(other, None)
    if of_source:
        rest["source"] = rest.get("source", base.source).changed(of_source)
    return config.replace(base, rest)
