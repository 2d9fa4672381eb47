"""TensorFlow 1 and gym, as programs of their time import them, made of what there is.

TensorFlow 2.15 has nearly all of TensorFlow 1's interface as ``tf.compat.v1``. Of what
was in ``tf.contrib``, TensorFlow Probability has the distributions, and the few layers
are written here. Gymnasium's spaces are those of gym; its environments get gym's old
interface from ``OldEnv``.
"""

from __future__ import annotations

import contextlib
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium


class OldEnv:
    """A Gymnasium environment with gym's first interface: one flag, one observation.

    Args:
      env: to be stepped.
    """

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
    """Import TensorFlow and everything that is put in the place of ``tf.contrib``.

    From here on this process builds graphs and runs sessions, as TensorFlow 1 did.
    """
    import tensorflow
    import tensorflow_probability

    tensorflow.compat.v1.disable_v2_behavior()
    _ = tensorflow_probability.distributions.MultivariateNormalDiag  # which loads it


def module() -> types.ModuleType:
    """``tensorflow`` with version 1's names, ``contrib`` among them."""
    import tensorflow
    import tensorflow_probability

    v1 = tensorflow.compat.v1
    layers = types.SimpleNamespace(
        fully_connected=_fully_connected(v1),
        variance_scaling_initializer=_scaled(v1),
    )
    contrib = types.SimpleNamespace(
        distributions=tensorflow_probability.distributions, layers=layers
    )
    found = types.ModuleType("tensorflow", "TensorFlow 1's interface.")
    found.__dict__.update(contrib=contrib, __getattr__=lambda name: getattr(v1, name))
    return found


@contextlib.contextmanager
def importing() -> Iterator[types.ModuleType]:
    """What is imported within gets ``module()`` as tensorflow, and Gymnasium as gym.

    Modules that were imported keep these names; everybody else has the real ones
    again afterwards.
    """
    old = module()
    names = {
        "tensorflow": old,
        "gym": gymnasium,
        "gym.spaces": gymnasium.spaces,
        "gym.wrappers": gymnasium.wrappers,
    }
    before = {name: sys.modules.get(name) for name in names}
    sys.modules.update(names)
    try:
        yield old
    finally:
        for name, kept in before.items():
            if kept is None:
                del sys.modules[name]
            else:
                sys.modules[name] = kept


def _fully_connected(v1: Any) -> Callable[..., Any]:
    """A dense layer of the last axis whose weights a template can share."""

    def fully_connected(
        inputs: Any,
        num_outputs: int,
        activation_fn: Callable[[Any], Any] | None = v1.nn.relu,
        weights_initializer: Any = None,
    ) -> Any:
        # Names count up from the template's scope, so every call of it finds its own.
        with v1.variable_scope(None, "fully_connected"):
            size = int(inputs.shape[-1])
            weights = v1.get_variable(
                "weights",
                [size, num_outputs],
                initializer=weights_initializer or v1.glorot_uniform_initializer(),
            )
            biases = v1.get_variable(
                "biases", [num_outputs], initializer=v1.zeros_initializer()
            )
            outputs = v1.tensordot(inputs, weights, 1) + biases
        return outputs if activation_fn is None else activation_fn(outputs)

    return fully_connected


def _scaled(v1: Any) -> Callable[..., Any]:
    def variance_scaling_initializer(factor: float = 2.0) -> Any:
        return v1.variance_scaling_initializer(
            factor, mode="fan_in", distribution="truncated_normal"
        )

    return variance_scaling_initializer
