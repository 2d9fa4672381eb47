"""Replacements of TensorFlow 1 and gym for old programs, from recent packages.

TensorFlow 2.15 has nearly all of TensorFlow 1's interface as ``tf.compat.v1``. Parts of
``tf.contrib`` are replaced: TensorFlow Probability has the distributions, and TF-Slim
the layers. Gymnasium replaces gym: it has the same spaces, and ``OldEnv`` gives its
environments gym's old interface.
"""

from __future__ import annotations

import contextlib
import sys
import types
from collections.abc import Iterator
from typing import Any

import gymnasium


class OldEnv:
    """Gymnasium environment with gym's first interface: one flag, and no reset info."""

    def __init__(self, env: gymnasium.Env):
        self.env = env
        self.observation_space = env.observation_space
        self.action_space = env.action_space

    def reset(self) -> Any:
        return self.env.reset()[0]

    def step(self, action: Any) -> tuple[Any, float, bool, dict]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        return observation, reward, bool(terminated or truncated), info

    def close(self) -> None:
        self.env.close()


def load() -> None:
    """Let this process build graphs and run sessions, as TensorFlow 1 did."""
    import tensorflow
    import tensorflow_probability

    tensorflow.compat.v1.disable_v2_behavior()
    _ = tensorflow_probability.distributions.MultivariateNormalDiag  # loads it


def module() -> types.ModuleType:
    """Return ``tensorflow`` with the names of version 1, including ``contrib``."""
    import tensorflow
    import tensorflow_probability
    import tf_slim

    v1 = tensorflow.compat.v1
    distributions = tensorflow_probability.distributions
    contrib = types.SimpleNamespace(distributions=distributions, layers=tf_slim)
    old = types.ModuleType("tensorflow", "TensorFlow 1's interface.")
    old.__dict__.update(contrib=contrib, __getattr__=lambda name: getattr(v1, name))
    return old


@contextlib.contextmanager
def importing() -> Iterator[types.ModuleType]:
    """Make imports within the context get ``module()`` and Gymnasium as gym."""
    old = module()
    names = {
        "tensorflow": old,
        "gym": gymnasium,
        "gym.spaces": gymnasium.spaces,
        "gym.wrappers": gymnasium.wrappers,
    }
    before = {name: sys.modules.pop(name, None) for name in names}
    sys.modules.update(names)
    try:
        yield old
    finally:
        for name in names:
            del sys.modules[name]
        sys.modules.update({k: v for k, v in before.items() if v is not None})
