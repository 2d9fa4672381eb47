"""Batched reinforcement learning inside the TensorFlow graph.

    import tfagents_batch as tfb

    run = tfb.train("ppo", env="CartPole-v1", steps=200_000, logdir="logs")
    print(tfb.evaluate(run.logdir, episodes=20).mean_return)

Names are imported when first used: worker processes import this package too and
never load TensorFlow.
"""

import contextlib
import importlib
from typing import TYPE_CHECKING

from tfagents_batch import importing

if TYPE_CHECKING:
    from tfagents_batch.api import (
        Run,
        evaluate,
        export,
        load,
        train,
        train_offline,
        visualize,
    )
    from tfagents_batch.distribute.ray_pool import RayPool
    from tfagents_batch.distribute.spark_pool import SparkPool
    from tfagents_batch.envs.checking.check import check_env
    from tfagents_batch.envs.graph.function import function
    from tfagents_batch.envs.make import make_env
    from tfagents_batch.errors import EnvError, UserError
    from tfagents_batch.evaluation.policies import evaluate_offline
    from tfagents_batch.training.agent import Agent
    from tfagents_batch.types import EnvSpec, TimeStep, Trajectory

__version__ = "0.1.0"
importing.set_defaults()

_HOMES = {
    "Run": "tfagents_batch.api",
    "Agent": "tfagents_batch.training.agent",
    "train": "tfagents_batch.api",
    "train_offline": "tfagents_batch.api",
    "evaluate": "tfagents_batch.api",
    "evaluate_offline": "tfagents_batch.evaluation.policies",
    "export": "tfagents_batch.api",
    "load": "tfagents_batch.api",
    "visualize": "tfagents_batch.api",
    "make_env": "tfagents_batch.envs.make",
    "RayPool": "tfagents_batch.distribute.ray_pool",
    "SparkPool": "tfagents_batch.distribute.spark_pool",
    "check_env": "tfagents_batch.envs.checking.check",
    "function": "tfagents_batch.envs.graph.function",
    "TimeStep": "tfagents_batch.types",
    "Trajectory": "tfagents_batch.types",
    "EnvSpec": "tfagents_batch.types",
    "EnvError": "tfagents_batch.errors",
    "UserError": "tfagents_batch.errors",
}

__all__ = [
    "Agent",
    "EnvError",
    "EnvSpec",
    "RayPool",
    "Run",
    "SparkPool",
    "TimeStep",
    "Trajectory",
    "UserError",
    "__version__",
    "check_env",
    "evaluate",
    "evaluate_offline",
    "export",
    "function",
    "load",
    "make_env",
    "train",
    "train_offline",
    "visualize",
]


def _keras(name: str):
    """Return the context in which the module of a name is imported."""
    needs = not name.endswith("Error")
    return importing.keras_on_tensorflow() if needs else contextlib.nullcontext()


if not TYPE_CHECKING:  # else every name would exist for type checkers

    def __getattr__(name: str):
        if name in _HOMES:
            with importing.uncollected(), importing.without_messages(), _keras(name):
                return getattr(importlib.import_module(_HOMES[name]), name)
        from tfagents_batch.settings import suggest

        hint = "" if (peer := suggest.peer(name)) is None else f"; {peer}"
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")


def __dir__():
    return __all__
