"""Replacements of TensorFlow 1 and gym for old programs, from recent packages.

TensorFlow 2.15 has nearly all of TensorFlow 1's interface as ``tf.compat.v1``. Parts of
``tf.contrib`` are replaced: TensorFlow Probability has the distributions, and this
module has the few layers. Gymnasium replaces gym: it has the same spaces, and
``OldEnv`` gives its environments gym's old interface.
"""

from __future__ import annotations

import contextlib
import sys
import types
from collections.abc import Callable, Iterator
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
    """Import TensorFlow and the replacement of ``tf.contrib``.

    From then on this process builds graphs and runs sessions, as TensorFlow 1 did.
    """
    import tensorflow
    import tensorflow_probability

    tensorflow.compat.v1.disable_v2_behavior()
    _ = tensorflow_probability.distributions.MultivariateNormalDiag  # loads it


def module() -> types.ModuleType:
    """Return ``tensorflow`` with the names of version 1, including ``contrib``."""
    import tensorflow
    import tensorflow_probability

    v1 = tensorflow.compat.v1
    distributions = tensorflow_probability.distributions
    contrib = types.SimpleNamespace(distributions=distributions, layers=_layers(v1))
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


def _layers(v1: Any) -> types.SimpleNamespace:
    """Return the layers of ``tf.contrib`` that old programs use."""

    def fully_connected(
        inputs: Any,
        num_outputs: int,
        activation_fn: Callable[[Any], Any] | None = v1.nn.relu,
        weights_initializer: Any = None,
    ) -> Any:
        # Names are numbered in the template's scope, so its calls share variables.
        with v1.variable_scope(None, "fully_connected"):
            shape = [int(inputs.shape[-1]), num_outputs]
            initializer = weights_initializer or v1.glorot_uniform_initializer()
            weights = v1.get_variable("weights", shape, initializer=initializer)
            zeros = v1.zeros_initializer()
            biases = v1.get_variable("biases", shape[1:], initializer=zeros)
            outputs = v1.tensordot(inputs, weights, 1) + biases
        return outputs if activation_fn is None else activation_fn(outputs)

    def scaled(factor: float = 2.0) -> Any:
        return v1.variance_scaling_initializer(factor, "fan_in")

    return types.SimpleNamespace(
        fully_connected=fully_connected, variance_scaling_initializer=scaled
    )
