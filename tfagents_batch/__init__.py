"""Batched reinforcement learning inside the TensorFlow graph.

    import tfagents_batch as tfb

    run = tfb.train("ppo", env="CartPole-v1", steps=200_000, logdir="logs")
    print(tfb.evaluate(run.logdir, episodes=20).mean_return)

Names are imported when first used: worker processes import this package too and
never load TensorFlow.
"""

import importlib

from tfagents_batch import importing

__version__ = "0.1.0"
importing.prefer_onednn()
importing.hide_messages()
importing.send_nothing()

_HOMES = {
    "train": "tfagents_batch.api",
    "train_seeds": "tfagents_batch.api",
    "train_offline": "tfagents_batch.api",
    "evaluate": "tfagents_batch.api",
    "export": "tfagents_batch.api",
    "load": "tfagents_batch.api",
    "visualize": "tfagents_batch.api",
    "make_env": "tfagents_batch.envs.make",
    "check_env": "tfagents_batch.envs.checking.check",
    "function": "tfagents_batch.envs.graph.function",
    "TimeStep": "tfagents_batch.types",
    "Trajectory": "tfagents_batch.types",
    "EnvSpec": "tfagents_batch.types",
    "EnvError": "tfagents_batch.errors",
    "UserError": "tfagents_batch.errors",
}

__all__ = [*sorted(_HOMES), "__version__"]


def __getattr__(name: str):
    if name in _HOMES:
        with importing.uncollected():
            return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return __all__
