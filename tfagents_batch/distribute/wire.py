"""Messages between a run and its workers: jobs, orders, rollouts, weights, errors.

Rollouts and weights are flat arrays by name. Ray and Spark pickle what they send, see
SECURITY.md; the names, shapes and dtypes of arrays are checked on arrival.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Mapping
from typing import Any, NamedTuple

import cloudpickle
import numpy as np
import tensorflow as tf

import tfagents_batch
from tfagents_batch import nest
from tfagents_batch.errors import EnvError, UserError, first_line
from tfagents_batch.interfaces import Policy
from tfagents_batch.types import VERSION, EnvSpec, Nest, TimeStep, Trajectory

PROTOCOL = 1
Arrays = dict[str, np.ndarray]


class Order(NamedTuple):
    """Request for a rollout."""

    number: int  # number of the request, from 0; names what comes back
    seed: int  # seed of actions, and of environments if whole episodes are played
    start: int  # seed of environments that continue, for a worker that has just started
    step: int  # environment steps of the run, for schedules of exploration
    version: int  # version of the weights that act


class Piece(NamedTuple):
    """Rollout of one worker, or of one part of the episodes."""

    order: Order  # what it answers
    # Whether its worker has just started, so that it continues no other one
    first: bool
    arrays: Arrays  # trajectory as flat arrays, see ``pack``
    seconds: float  # seconds that collecting took
    counters: dict[str, float]  # the environments' counters since the piece before
    events: list[dict[str, Any]]  # their events, likewise


def versions() -> dict[str, str]:
    """Return the versions that have to be the same in a run and its workers."""
    return {
        "tfagents_batch": tfagents_batch.__version__,
        "protocol": str(PROTOCOL),
        "Python": f"{sys.version_info.major}.{sys.version_info.minor}",
    }


def check_versions(theirs: Mapping[str, str], ours: Mapping[str, str]) -> None:
    """Refuse a run if its versions differ from those of this worker."""
    for name, own in ours.items():
        if theirs.get(name) != own:
            raise UserError(
                f"the worker has {name} {own}, but the run has {theirs.get(name)}; "
                "install the same versions on every machine"
            )


def pickled(job: Any) -> bytes:
    """Return a job as bytes.

    Raises:
      UserError: if it refers to something that cannot be sent.
    """
    try:
        return cloudpickle.dumps(job)
    except UserError:
        raise
    except Exception as error:
        raise UserError(
            f"the environment cannot be sent to workers ({first_line(error)}); pass a "
            "name, or a function that creates it and refers to nothing that only this "
            "process has, such as locks, files or other environments"
        ) from None


def unpickled(job: bytes) -> Any:
    """Return a job from bytes of the run that this process works for."""
    return cloudpickle.loads(job)


def portable(error: BaseException) -> BaseException:
    """Return an exception that other processes can read, with its cause as text."""
    if isinstance(error, UserError):
        return UserError(str(error))
    if isinstance(error, EnvError):
        return EnvError(str(error))
    return RuntimeError("".join(traceback.format_exception(error)))


def pack(value: Nest) -> Arrays:
    """Return a nest as flat arrays by name."""
    return {name: np.asarray(x) for name, x in nest.named(value).items()}


def unpack(like: Nest, arrays: Mapping[str, np.ndarray], sender: str) -> Nest:
    """Return flat arrays from ``pack`` as a nest like that of specs.

    Raises:
      UserError: if names, shapes or dtypes are others; it names the sender.
    """
    expected = nest.named(like)
    if different := sorted(set(arrays) ^ set(expected)):
        raise UserError(
            f"{sender} sent {sorted(arrays)}, which differ in {', '.join(different)}; "
            "use the same environment and settings everywhere"
        )
    for name, spec in expected.items():
        array = arrays[name]
        if tuple(spec.shape) != array.shape or spec.dtype != array.dtype:
            raise UserError(
                f"{sender} sent {name} as {array.dtype} {list(array.shape)}; expected "
                f"{spec.dtype.name} {list(spec.shape)}; use the same environment and "
                "settings everywhere"
            )
    return tf.nest.pack_sequence_as(like, [arrays[name] for name in expected])


def weights(policy: Policy) -> Arrays:
    """Return the weights and statistics that acting reads."""
    named = policy.named_variables().items()
    return {name: tf.convert_to_tensor(x).numpy() for name, x in named}


def assign(policy: Policy, arrays: Mapping[str, np.ndarray]) -> None:
    """Set the variables of a policy of the same kind."""
    for name, variable in policy.named_variables().items():
        variable.assign(arrays[name])


def outline(spec: EnvSpec, policy: Policy, time: int, batch: int) -> Trajectory:
    """Return the specs of a trajectory ``[time, batch]``; nothing is collected.

    They depend on the spec of the environments and on the kind of policy that acts.
    """

    def step(*leading: int) -> TimeStep:
        number, flag = tf.TensorSpec(leading), tf.TensorSpec(leading, tf.bool)
        info = {
            name: tf.TensorSpec(leading, tf.as_dtype(dtype))
            for name, dtype in spec.info.items()
        }
        observation = nest.specs(spec.observation_space, leading)
        return TimeStep(observation, number, flag, flag, flag, info)

    def act(timestep):
        state = policy.initial_state(batch)
        noise = nest.map(lambda x: x[0], policy.noise((1, batch), 0))
        now = tf.constant(0, tf.int64)
        action, behavior, _ = policy.act(timestep, state, noise, now, True)
        return action, behavior, state

    traced = tf.function(act, autograph=False).get_concrete_function(step(batch))
    action, behavior, state = traced.structured_outputs
    taken = nest.map(
        lambda x: tf.TensorSpec([time, *x.shape], x.dtype), (action, behavior)
    )
    state = nest.map(lambda x: tf.TensorSpec(x.shape, x.dtype), state)
    return Trajectory(step(time + 1, batch), *taken, state)


def joined(pieces: list[Trajectory], acted: list[int]) -> Trajectory:
    """Return trajectories ``[T, B_i]`` side by side, as one update of a host source.

    The result is ``[1, T, sum of B_i]``. Its ``behavior`` has the version of the policy
    that acted, from ``acted``.
    """

    def side_by_side(axis):
        def join(*parts):
            return np.concatenate(parts, axis)[np.newaxis]

        return join

    version = [
        np.full(piece.steps.first[1:].shape, number, np.int64)
        for piece, number in zip(pieces, acted, strict=True)
    ]
    columns = [piece._replace(state=()) for piece in pieces]
    trajectory = nest.map(side_by_side(1), *columns)
    state = nest.map(side_by_side(0), *(piece.state for piece in pieces))
    behavior = trajectory.behavior | {VERSION: side_by_side(1)(*version)}
    return trajectory._replace(state=state, behavior=behavior)
