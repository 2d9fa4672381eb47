"""A user's own recurrent network, checked and adapted.

It is a ``keras.Model`` with the methods of ``interfaces.Network``: ``initial_state``,
``call`` for one step and ``unroll``. The last two return ``ActorCriticHeads`` and the
next state, and reset the state where an episode starts.
``ops.distributions.for_space(action_space).make`` creates the policies; see there for
the units of the mean and standard deviation of a Box.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfagents_batch import nest
from tfagents_batch.errors import UserError, first_line
from tfagents_batch.nn import networks
from tfagents_batch.ops import distributions
from tfagents_batch.types import EnvSpec, Nest, TimeStep

METHODS = ("initial_state", "unroll")
TIME, BATCH = 4, 2  # size of the steps that a network is checked with
TOLERANCE = 1e-3


def is_recurrent(model: keras.Model) -> bool:
    """Return True if a model has the methods of a recurrent network.

    Raises:
      UserError: if it has only one of these methods.
    """
    has = [callable(getattr(model, name, None)) for name in METHODS]
    if any(has) and not all(has):
        present, missing = METHODS if has[0] else METHODS[::-1]
        raise UserError(
            f"model {model.name!r} has {present} but no {missing}; a recurrent network "
            "has both, and a call(timestep, state), see interfaces.Network"
        )
    return all(has)


class Recurrent(keras.Model):
    """A user's recurrent network as ``interfaces.Network``.

    Raises:
      UserError: if it does not accept the observations, returns the wrong type or
        shape, or if calling it step by step differs from ``unroll``.
    """

    def __init__(self, model: keras.Model, spec: EnvSpec):
        super().__init__(name="user_recurrent", dtype="float32")
        self.model = model
        self.initial_state, self.unroll = model.initial_state, model.unroll
        self.family = distributions.for_space(spec.action_space)
        steps = trial_steps(spec)
        _check(self, steps)
        self.built = True
        state = self.initial_state(steps.first.shape[1])
        self.convolves = networks.convolves(
            self, lambda *inputs: self.unroll(*inputs)[0].value, steps, state
        )

    def call(self, timestep: TimeStep, state: Nest):
        return self.model(timestep, state)


def trial_steps(spec: EnvSpec) -> TimeStep:
    """Return random steps ``[TIME, BATCH]``; a new episode starts at step 2."""
    random = np.random.default_rng(0)

    def sample(tensor: tf.TensorSpec) -> tf.Tensor:
        if tensor.dtype.is_floating:
            return tf.constant(random.normal(size=tensor.shape), tensor.dtype)
        most = 256 if tensor.dtype == tf.uint8 else 1
        return tf.constant(random.integers(most, size=tensor.shape), tensor.dtype)

    observation = nest.map(sample, nest.specs(spec.observation_space, (TIME, BATCH)))
    first = np.zeros([TIME, BATCH], bool)
    first[0, 0] = first[2, 1] = True
    flag = tf.zeros([TIME, BATCH], tf.bool)
    reward = tf.zeros([TIME, BATCH])
    return TimeStep(observation, reward, tf.constant(first), flag, flag, {})


def _check(network: Recurrent, steps: TimeStep) -> None:
    name = network.model.name
    try:
        state = network.initial_state(BATCH)
        whole, _ = network.unroll(steps, state)
        _check_heads(whole, network.family, (TIME, BATCH), f"{name!r}.unroll")
        for t in range(TIME):
            now = nest.map(lambda x, t=t: x[t], steps)
            one, after = network.model(now, state)
            _check_heads(one, network.family, (BATCH,), f"call of {name!r}")
            _check_state(state, after, name)
            state = after
            _check_equal(one, whole, t, name)
    except UserError:
        raise
    except Exception as error:
        raise UserError(
            f"model {name!r} fails on steps of {TIME} x {BATCH} observations: "
            f"{first_line(error)}"
        ) from error


def _check_heads(heads, family, lead: tuple[int, ...], what: str) -> None:
    missing = [name for name in ("policy", "value") if not hasattr(heads, name)]
    if missing:
        raise UserError(
            f"{what} returns {type(heads).__name__} without {' and '.join(missing)}; "
            "expected ActorCriticHeads(policy, value) and the next state"
        )
    if tuple(heads.value.shape) != lead:
        raise UserError(
            f"{what} returns values of shape {tuple(heads.value.shape)}; expected "
            f"{lead}"
        )
    actions = [(x.dtype, (*x.shape,)) for x in nest.flatten(heads.policy.mode())]
    expected = [(x.dtype, (*lead, *x.shape)) for x in family.leaves]
    if actions != expected:
        raise UserError(
            f"{what} returns a policy of actions {_shown(actions)}; expected "
            f"{_shown(expected)}, as from ops.distributions.for_space"
        )


def _shown(arrays: Sequence[tuple[Any, tuple]]) -> str:
    return ", ".join(f"{dtype.name}{list(shape)}" for dtype, shape in arrays)


def _check_state(before: Nest, after: Nest, name: str) -> None:
    shapes = [nest.map(lambda x: (x.dtype, tuple(x.shape)), s) for s in (before, after)]
    try:
        tf.nest.assert_same_structure(before, after)
        same = nest.flatten(shapes[0]) == nest.flatten(shapes[1])
    except (TypeError, ValueError):
        same = False
    if not same:
        raise UserError(
            f"call of {name!r} returns a state {shapes[1]}; expected one like that of "
            f"initial_state, {shapes[0]}"
        )


def _check_equal(one, whole, t: int, name: str) -> None:
    both = [(one.value, whole.value)]
    both += [(one.policy.params[k], x) for k, x in whole.policy.params.items()]
    for call, unrolled in both:
        if not np.allclose(call, unrolled[t], rtol=TOLERANCE, atol=TOLERANCE):
            where = ", where an episode starts" if t == 2 else ""
            raise UserError(
                f"model {name!r}: call and unroll differ at step {t}{where}; "
                "both must reset the state to initial_state where `first` is true"
            )
