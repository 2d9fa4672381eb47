"""Rows of decisions that a policy makes in environments, with exact propensities."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import tensorflow as tf

from tfagents_batch import nest, seeds, spaces
from tfagents_batch.devices import placement
from tfagents_batch.errors import UserError
from tfagents_batch.graph import arrays
from tfagents_batch.interfaces import Env, Policy
from tfagents_batch.nn import networks
from tfagents_batch.offline.writer import RowLogger
from tfagents_batch.types import EnvSpec, Nest, TimeStep

Row = dict[str, Any]
_ACTION_ID = 1_000_000  # of the first feature of a continuous action


class LoggedActions(NamedTuple):
    """Actions of a batch, as NumPy."""

    action: np.ndarray  # [B] or [B, D], for the environments
    # f64 [B], logarithm of the propensity under the whole policy, or of the density of
    # Box actions
    log_propensity: np.ndarray


Decide = Callable[[TimeStep, int], LoggedActions]


def collect(
    env: Env,
    decide: Decide,
    logger: RowLogger,
    rows: int,
    seed: int,
    ds: str,
    progress: Callable[[int], None] = lambda count: None,
) -> int:
    """Play until a number of decisions is logged; return the number of episodes.

    The last episode of each environment is cut off, with the state after it.

    Args:
      env: environments with Discrete or Box actions; they are started with ``seed``.
      decide: selects actions for a time step and the number of it.
      logger: what rows are written to.
      rows: number of rows.
      seed: seed of the environments.
      ds: partition of the rows.
      progress: called with the number of rows so far.
    """
    size, episodes, made, count = env.spec.num_envs, 0, 0, 0
    names, numbers = [""] * size, [0] * size
    waiting: dict[int, tuple[Row, TimeStep]] = {}  # newest rows, and what came after
    state, step = env.init(seed)
    after = nest.map(np.asarray, step)
    while made < rows:
        now = after
        chosen = decide(step, count)
        state, step = env.step(state, tf.constant(chosen.action))
        after, count = nest.map(np.asarray, step), count + 1
        for i in range(size):
            if now.first[i]:
                names[i], numbers[i] = f"{seed}-{episodes}", 0
                episodes += 1
            restarts = now.terminated[i] or now.truncated[i] or after.first[i]
            if restarts or made == rows:
                continue
            if i in waiting:
                logger.log(waiting.pop(i)[0])
            key = {"ds": ds, "mdp_id": names[i], "sequence_number": numbers[i]}
            row = key | _row(env.spec, now, chosen, after, i)
            numbers[i], made = numbers[i] + 1, made + 1
            if after.terminated[i] or after.truncated[i]:
                logger.log(row | _end(env.spec, after, i))
            else:
                waiting[i] = row, after
        progress(made)
    for i, (row, end) in waiting.items():
        logger.log(row | _end(env.spec, end, i))
    return episodes


def uniform(spec: EnvSpec, seed: int) -> Decide:
    """Return a policy whose actions are uniform over the possible or allowed ones."""
    generator = np.random.default_rng([seed, 1])
    space = spec.action_space
    if isinstance(space, gym.spaces.Discrete):
        return _discrete(spec, lambda step, count: None, 1.0, generator)
    low, high = _bounds(space)
    log_density = -np.sum(np.log(high - low))

    def decide(step: TimeStep, count: int) -> LoggedActions:
        del count
        size = len(step.first)
        action = generator.uniform(low, high, [size, *low.shape])
        return LoggedActions(action.astype(space.dtype), np.full(size, log_density))

    return decide


def of_policy(
    policy: Policy, spec: EnvSpec, trained: int, epsilon: float, seed: int
) -> Decide:
    """Return a trained policy that explores as at the end of its training.

    UserError if it has a memory.

    Args:
      policy: the policy.
      spec: spec of the environments.
      trained: steps that it was trained for, which exploration depends on.
      epsilon: probability of an action that is uniform instead.
      seed: seed of the actions.
    """
    if nest.flatten(policy.memory(1, True)):
        raise UserError(
            "the policy is recurrent, and its rows would need its memory; collect with "
            "a policy without memory"
        )
    generator = np.random.default_rng([seed, 1])
    now = arrays.argument(trained, tf.int64)
    state = policy.initial_state(spec.num_envs)  # has what only training uses
    if isinstance(spec.action_space, gym.spaces.Discrete):
        probabilities = tf.function(
            lambda step: policy.probabilities(step, state, now), autograph=False
        )

        def exact(step: TimeStep, count: int) -> np.ndarray:
            del count
            with placement.host():
                return probabilities(step._replace(info={})).numpy()

        return _discrete(spec, exact, epsilon, generator)
    return _continuous(policy, state, spec, now, epsilon, seed, generator)


def _discrete(
    spec: EnvSpec, probabilities: Callable, epsilon: float, generator: Any
) -> Decide:
    start = int(spec.action_space.start)

    def decide(step: TimeStep, count: int) -> LoggedActions:
        valid = _valid(spec, step)
        even = valid / valid.sum(-1, keepdims=True)
        known = probabilities(step, count)
        mixed = even if known is None else (1 - epsilon) * known + epsilon * even
        mixed = mixed.astype(np.float64)
        mixed /= mixed.sum(-1, keepdims=True)
        total = np.cumsum(mixed, -1)  # whose last number may be a little below 1
        drawn = generator.random([len(mixed), 1]) * total[:, -1:]
        index = np.argmax(total > drawn, -1)
        chosen = mixed[np.arange(len(index)), index]
        return LoggedActions((index + start).astype(np.int32), np.log(chosen))

    return decide


def _continuous(
    policy: Policy,
    state: Nest,
    spec: EnvSpec,
    now: tf.Tensor,
    epsilon: float,
    seed: int,
    generator: np.random.Generator,
) -> Decide:
    size, space = spec.num_envs, spec.action_space

    @tf.function(autograph=False)
    def act(step, number):
        noise = nest.map(lambda x: x[0], policy.noise((1, size), number))
        return policy.act(step, state, noise, now, True)[0]

    @tf.function(autograph=False)
    def log_density(step, action):
        return policy.log_density(step, state, action, now)

    low, high = _bounds(space) if epsilon else (space.low, space.high)
    even = -float(np.sum(np.log(high - low))) if epsilon else 0.0

    def decide(step: TimeStep, count: int) -> LoggedActions:
        step = step._replace(info={})
        number = seeds.iteration_seed(seed, count, "collect/actions")
        with placement.host():
            action = act(step, arrays.argument(number)).numpy()
            if not ((space.low <= action) & (action <= space.high)).all():
                raise UserError(
                    "the policy takes actions beyond their bounds, where an "
                    "environment changes them; collect with an agent whose actions "
                    "are within them, such as those of sac and td3"
                )
            if epsilon:
                random = generator.uniform(low, high, [size, *low.shape])
                uses = generator.random(size) < epsilon
                uses = uses.reshape([-1, *[1] * low.ndim])
                action = np.where(uses, random, action).astype(np.float32)
            density = log_density(step, tf.constant(action)).numpy().astype(np.float64)
        if epsilon:
            density = np.logaddexp(np.log1p(-epsilon) + density, np.log(epsilon) + even)
        return LoggedActions(action, density)

    return decide


def _row(
    spec: EnvSpec, now: TimeStep, chosen: LoggedActions, after: TimeStep, i: int
) -> Row:
    """Return what is logged of a decision in environment ``i``."""
    row: Row = {
        "state_features": _features(now, i),
        "reward": float(after.reward[i]),
    }
    if isinstance(spec.action_space, gym.spaces.Discrete):
        row["action"] = str(int(chosen.action[i]))
        row["action_probability"] = float(np.exp(chosen.log_propensity[i]))
        row["possible_actions"] = _possible(spec, now, i)
    else:
        numbers = np.ravel(chosen.action[i]).tolist()
        row["action"] = {_ACTION_ID + k: x for k, x in enumerate(numbers)}
        row["action_log_density"] = float(chosen.log_propensity[i])
    return row


def _end(spec: EnvSpec, after: TimeStep, i: int) -> Row:
    """Return what the last row of an episode has besides; one that goes on is cut."""
    end: Row = {"final_state_features": _features(after, i)}
    if after.terminated[i]:
        return end | {"terminated": True}
    if isinstance(spec.action_space, gym.spaces.Discrete):
        end["final_possible_actions"] = _possible(spec, after, i)
    return end | {"truncated": True}


def _features(step: TimeStep, i: int) -> dict[int, float]:
    """Return all numbers of an observation but the action mask, in order."""
    observation, _ = networks.split_mask(step.observation)
    parts = [np.ravel(np.asarray(x)[i]) for x in nest.flatten(observation)]
    return dict(enumerate(np.concatenate(parts).astype(float).tolist()))


def _possible(spec: EnvSpec, step: TimeStep, i: int) -> list[str]:
    start = int(spec.action_space.start)
    return [str(start + int(k)) for k in np.flatnonzero(_valid(spec, step)[i])]


def _valid(spec: EnvSpec, step: TimeStep) -> np.ndarray:
    """Return bool ``[B, A]``: possible actions; all of a row that has none."""
    shape = len(step.first), int(spec.action_space.n)
    _, mask = networks.split_mask(step.observation)
    if mask is None:
        return np.ones(shape, bool)
    valid = np.asarray(mask).astype(bool)
    return valid | ~valid.any(-1, keepdims=True)


def _bounds(space: gym.spaces.Box) -> tuple[np.ndarray, np.ndarray]:
    low, high = np.asarray(space.low, float), np.asarray(space.high, float)
    if not np.all(np.isfinite(low) & np.isfinite(high)):
        raise UserError(
            f"random actions need finite bounds, but the action space is {space}; "
            "leave --epsilon out, or collect with a trained policy"
        )
    return low, high


def check(spec: EnvSpec) -> None:
    """Refuse other actions than Discrete and Box, and images: they are no rows."""
    space = spec.action_space
    if not isinstance(space, (gym.spaces.Discrete, gym.spaces.Box)):
        raise UserError(
            f"the action space is {space}; rows have Discrete actions or a Box"
        )
    images = [x for x in spaces.leaves(spec.observation_space) if len(x.shape) > 1]
    if images:
        raise UserError(
            f"observation {images[0].name} is {list(images[0].shape)}; rows have "
            "features, which are vectors and numbers"
        )
