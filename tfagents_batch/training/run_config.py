"""The settings of a run, whatever its algorithm; written to config.json."""

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

# Of ``make_env``, beside those that a run has settings for. Some are for environments
# without workers, too.
IN_PROCESS = ("finite_check", "strict_bounds")
VARIABLES = "worker_variables"  # may hold secrets, and run code: never saved
ENV_OPTIONS = (
    *IN_PROCESS,
    *("construct_seconds", "reset_seconds", "step_seconds"),
    *("max_restarts", "restart_period_seconds", "max_worker_mb"),
    *(VARIABLES, "pin_workers", "route"),
)
# How a run is watched, and what it runs on: neither says what is learned.
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
        [], "JSON list of what to wrap each environment in, the innermost first"
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
        "of everything random",
        least=0,
        most=2**31 - 1,
        same_curve=True,
        same_program=True,
    )
    num_envs: int = option(
        8, "environments stepped as one batch", least=1, most=arguments.MAX_ENVS
    )
    num_workers: int | None = _running(
        None, "worker processes; 0 steps in this process, default one a core", least=0
    )
    envs_per_worker: int | None = _running(
        None, "another way to say num_workers: environments in each process", least=1
    )
    threads: int | None = _running(
        None,
        "of TensorFlow; default one for small networks, else one a core",
        least=1,
        most=threads.MOST,
    )
    rollout_length: int = option(
        256, "steps of each environment an iteration", least=1, most=1_000_000
    )
    update_every: int | None = option(
        None,
        "whole episodes an iteration, instead of rollout_length; a multiple of "
        "num_envs",
        least=1,
        most=1_000_000,
    )
    eval_every: int | None = _watching(
        None, "steps between evaluations; 0 never, default a tenth of the run", least=0
    )
    eval_episodes: int = _watching(10, "episodes an evaluation", least=1)
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
        "steps between checkpoints that stay; 0: only the newest three and the best",
        least=0,
    )
    log_info: list = option(
        [],
        "JSON list of numbers of the environments' infos to log, as episodes end",
        same_curve=True,
    )
    compile: Literal["auto", "full", "update", "off"] = _running(
        "auto", "what XLA compiles: the whole iteration, the update, or nothing"
    )
    overlap: bool = option(
        False, "collect while updating, with weights that are one update older"
    )
    precision: Literal["float32", "mixed_bfloat16"] = option(
        "float32", "of convolution stacks; weights, losses, optimizer stay float32"
    )
    compile_cache: bool = _watching(True, "keep compiled programs for later starts")
    device: Literal["cpu", "gpu"] = _running(
        "cpu", "where updates run; gpu has not been tried yet"
    )
    on_fault: Literal["raise", "restart"] = _running(
        "raise", "when an environment fails: end the run, or replace the environment"
    )
    stop_at_return: float | None = _watching(
        None, "end when the mean return of an evaluation reaches it"
    )
    log_video_every: int = _watching(
        0, "steps between films of an episode in TensorBoard; 0 never", least=0
    )
    track: Literal["none", "wandb", "mlflow"] = _watching(
        "none", "where else the log goes: Weights & Biases or MLflow"
    )
    settings: Any = option(ppo.Config(), "of the algorithm: --algorithm.<setting>")

    def check(self) -> Config:
        """Return the config, each value as its type keeps it, if it makes sense.

        Raises:
          UserError: naming the setting.
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
    """A config that may be written down: without its workers' environment variables."""
    options = {k: v for k, v in config.env_options.items() if k != VARIABLES}
    return dataclasses.replace(config, env_options=options)


# Settings that say one thing in two ways, the newer of which replaces the older.
_REPLACES = {
    "num_workers": "envs_per_worker",
    "envs_per_worker": "num_workers",
    "rollout_length": "update_every",
}


def exclusive(options: Mapping[str, Any]) -> dict[str, Any]:
    """Complete options so that they replace what a preset or a run says in other words.

    Args:
      options: settings of a Config that were asked for.

    Raises:
      UserError: if both ways to say how much is collected are asked for.
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
