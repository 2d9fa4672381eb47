"""Settings of a run for any algorithm; written to config.json."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, Literal

from tfagents_batch import algorithms, config
from tfagents_batch.algorithms import ppo
from tfagents_batch.config import option
from tfagents_batch.envs.shared import arguments
from tfagents_batch.envs.wrappers import named
from tfagents_batch.errors import UserError
from tfagents_batch.sources import episodes
from tfagents_batch.training import evaluate, metrics
from tfagents_batch.training.runtime import threads

# Options of ``make_env`` that are not settings of a run. Those of ``IN_PROCESS`` also
# apply to environments without workers.
IN_PROCESS = ("finite_check", "strict_bounds")
VARIABLES = "worker_variables"  # may contain secrets and run code: never saved
ENV_OPTIONS = (
    *IN_PROCESS,
    *("construct_seconds", "reset_seconds", "step_seconds"),
    *("max_restarts", "restart_period_seconds", "max_worker_mb"),
    *(VARIABLES, "pin_workers", "route"),
)
# Settings of logging and of the machine: they do not change what is learned.
_watching = functools.partial(
    option, resumable=True, same_curve=True, same_program=True
)
_running = functools.partial(option, resumable=True, same_curve=True)


@dataclasses.dataclass(frozen=True)
class Config:
    """Everything that defines a run; written to config.json."""

    algorithm: str = option("ppo", "name of the algorithm")
    env: str = option("", "environment name, see the README")
    env_kwargs: dict = option({}, "JSON object of the environment's arguments")
    wrappers: list = option(
        [], "JSON list of wrappers of each environment, the innermost first"
    )
    env_options: dict = option(
        {},
        'JSON object of further options of make_env, such as {"step_seconds": 300}',
        resumable=True,
        same_curve=True,
    )
    steps: int = option(
        1_000_000,
        "environment steps to train for",
        least=1,
        resumable=True,
        same_program=True,
    )
    seed: int = option(
        0,
        "seed of all random numbers",
        least=0,
        most=2**31 - 1,
        same_curve=True,
        same_program=True,
    )
    num_envs: int = option(
        8, "environments stepped as one batch", least=1, most=arguments.MAX_ENVS
    )
    num_workers: int | None = _running(
        None, "worker processes; 0 steps in this process; default one per core", least=0
    )
    envs_per_worker: int | None = _running(
        None, "environments per worker process; alternative to num_workers", least=1
    )
    threads: int | None = _running(
        None,
        "TensorFlow threads; default 1 for small networks, else one per core",
        least=1,
        most=threads.MOST,
    )
    rollout_length: int = option(
        256, "steps of each environment per iteration", least=1, most=1_000_000
    )
    update_every: int | None = option(
        None,
        "whole episodes per iteration, instead of rollout_length; a multiple of "
        "num_envs",
        least=1,
        most=1_000_000,
    )
    eval_every: int | None = _watching(
        None, "steps between evaluations; 0 never, default a tenth of the run", least=0
    )
    eval_episodes: int = _watching(10, "episodes per evaluation", least=1)
    eval_actions: evaluate.Actions = option(
        "mode",
        "evaluate the policy's mode, its samples, or both (eval_sample/...)",
        same_program=True,
    )
    log_every: int | None = _watching(
        None, "steps between lines of metrics; default a 200th of the run", least=0
    )
    checkpoint_every: float = _watching(60.0, "seconds between checkpoints", least=0)
    keep_every: int = _watching(
        0,
        "steps between permanent checkpoints; 0 keeps the newest three and the best",
        least=0,
    )
    log_info: list = option(
        [],
        "JSON list of info keys with numbers to log when episodes end",
        same_curve=True,
    )
    compile: Literal["auto", "full", "update", "off"] = _running(
        "auto", "what XLA compiles: the whole iteration, the update, or nothing"
    )
    overlap: bool = option(
        False, "collect while updating, with weights that are one update older"
    )
    precision: Literal["float32", "mixed_bfloat16"] = option(
        "float32", "dtype of convolutions; weights, losses, optimizer stay float32"
    )
    compile_cache: bool = _watching(True, "save compiled programs for later starts")
    device: Literal["cpu", "gpu"] = _running(
        "cpu", "device of updates; gpu has not been tested yet"
    )
    on_fault: Literal["raise", "restart"] = _running(
        "raise", "reaction to a failed environment: end the run, or replace it"
    )
    stop_at_return: float | None = _watching(
        None, "end training when an evaluation's mean return reaches this"
    )
    log_video_every: int = _watching(
        0, "steps between videos of an episode in TensorBoard; 0 never", least=0
    )
    track: Literal["none", "wandb", "mlflow"] = _watching(
        "none", "experiment tracker that also gets the log"
    )
    settings: Any = option(
        ppo.Config(), "settings of the algorithm: --algorithm.<setting>"
    )

    def check(self) -> Config:
        """Return the config with each value converted to its type.

        Raises:
          UserError: if a setting is invalid; names it.
        """
        if self.algorithm not in algorithms.REGISTRY:
            raise UserError(
                config.unknown("algorithm", self.algorithm, algorithms.REGISTRY)
            )
        expected = algorithms.REGISTRY[self.algorithm][1]
        if not isinstance(self.settings, expected):
            raise UserError(
                f"settings are of {type(self.settings).__module__}, but the algorithm "
                f"is {self.algorithm!r}"
            )
        if not self.env:
            raise UserError("no environment: pass --env=<name> or a --config preset")
        named.check(self.wrappers)
        for name in self.env_options:
            if name not in ENV_OPTIONS:
                raise UserError(config.unknown("env_options", name, ENV_OPTIONS))
        arguments.variables(self.env_options.get(VARIABLES))
        metrics.check_info(self.log_info)
        # Evaluations may pass these as objects that are no JSON.
        objects = {"env_kwargs": self.env_kwargs, "wrappers": self.wrappers}
        checked = config.check(dataclasses.replace(self, env_kwargs={}, wrappers=[]))
        if self.update_every is not None:
            episodes.rounds(self.update_every, self.num_envs, "update_every")
        if self.num_workers is not None and self.envs_per_worker is not None:
            raise UserError(
                f"num_workers is {self.num_workers} and envs_per_worker is "
                f"{self.envs_per_worker}, which both say how many processes there are; "
                "leave one out"
            )
        if self.stop_at_return is not None and self.eval_every == 0:
            raise UserError(
                f"stop_at_return is {self.stop_at_return}, but eval_every is 0, so "
                "nothing is evaluated; leave one of them out"
            )
        return dataclasses.replace(checked, settings=self.settings.check(), **objects)


def without_variables(config: Config) -> Config:
    """Return a config that may be saved, without its workers' variables."""
    options = {k: v for k, v in config.env_options.items() if k != VARIABLES}
    return dataclasses.replace(config, env_options=options)


# Pairs of settings with the same meaning: one replaces the other.
_REPLACES = {
    "num_workers": "envs_per_worker",
    "envs_per_worker": "num_workers",
    "rollout_length": "update_every",
}


def exclusive(options: Mapping[str, Any]) -> dict[str, Any]:
    """Add None for each alternative setting that the options replace.

    A preset or a resumed run may have set such an alternative.

    Args:
      options: settings of a Config that the user passed.

    Raises:
      UserError: if ``rollout_length`` and ``update_every`` are both set.
    """
    options = dict(options)
    for name, other in _REPLACES.items():
        if options.get(name) is not None:
            options.setdefault(other, None)
    if None not in (options.get("rollout_length"), options.get("update_every")):
        raise UserError(
            f"rollout_length is {options['rollout_length']} and update_every is "
            f"{options['update_every']}, which both say how much is collected for an "
            "update: steps of each environment, or whole episodes of all; leave one "
            "out"
        )
    return options
