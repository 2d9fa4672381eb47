"""Hindsight experience replay (HER): goals that were reached later.

Andrychowicz et al. 2017, arXiv:1707.01495. A window that leads nowhere near its goal
leads to what its episode has reached. So most windows get such a goal instead of their
own, and the rewards that they would have had. Observations are a Dict with
"observation", "achieved_goal" and "desired_goal", as those of Gymnasium-Robotics.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import gymnasium
import numpy as np
import tensorflow as tf
from gymnasium import spaces as gs

from tfagents_batch import nest, seeds
from tfagents_batch.errors import UserError, first_line
from tfagents_batch.interfaces import Env
from tfagents_batch.types import EnvSpec, Trajectory

Strategy = Literal["none", "future", "final"]
KEYS = {"observation", "achieved_goal", "desired_goal"}
# Rewards f32 [M] of achieved and desired goals [M, ...].
Rewards = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]


class Goals(NamedTuple):
    """Goals of N windows."""

    goal: tf.Tensor  # [N, ...], achieved later in their episode
    chosen: tf.Tensor  # bool [N], windows that get it instead of their own


class Hindsight:
    """Choice of goals, and the rewards of windows that get them.

    Ends of episodes stay as they were stored: a goal that is reached ends none, as in
    Gymnasium-Robotics.

    Args:
      strategy: "future" draws a step uniformly from those after a window's first one
        in its episode; "final" takes the newest one.
      goals: windows with another goal for each one that keeps its own.
      rewards: of goals.
      limit: steps of the longest episode.

    Attributes:
      compilable: whether rewards can be computed by XLA.
    """

    def __init__(
        self,
        strategy: Strategy,
        goals: int,
        rewards: Rewards,
        limit: int,
        compilable: bool,
    ):
        self._strategy, self._share = strategy, goals / (goals + 1)
        self._rewards, self.limit, self.compilable = rewards, limit, compilable

    def distance(self, remaining: tf.Tensor, seed) -> tf.Tensor:
        """Return how far ahead the goals are, int32 ``[N]``, at least 1.

        ``remaining`` are the transitions from a window's first step to the newest one
        of its episode, int32 ``[N]``.
        """
        most = tf.maximum(remaining, 1)
        if self._strategy == "final":
            return most
        count = nest.static_size(most, 0)
        return 1 + seeds.integers([count], seeds.key(seed, "her/step"), most)

    def chosen(self, count: int, seed) -> tf.Tensor:
        """Draw bool ``[N]``: which windows get another goal."""
        return seeds.bernoulli([count], seeds.key(seed, "her/goal"), self._share)

    def relabeled(self, windows: Trajectory, goals: Goals) -> Trajectory:
        """Return windows ``[T+1, N, ...]`` with the new goals, and their rewards."""
        steps = windows.steps
        observation = dict(steps.observation)
        own = observation["desired_goal"]
        goal = tf.broadcast_to(goals.goal[tf.newaxis], tf.shape(own))
        desired = nest.where(goals.chosen[tf.newaxis], goal, own)
        observation["desired_goal"] = desired
        pairs = nest.fold((observation["achieved_goal"][1:], desired[1:]))
        reward = tf.reshape(self._rewards(*pairs), steps.reward[1:].shape)
        new = goals.chosen & ~steps.first[1:]
        reward = tf.where(new, tf.cast(reward, tf.float32), steps.reward[1:])
        reward = tf.concat([steps.reward[:1], reward], 0)
        steps = steps._replace(observation=observation, reward=reward)
        return windows._replace(steps=steps)


def of(strategy: Strategy, goals: int, env: Env) -> Hindsight:
    """Return the goals of environments.

    UserError if they have no goals, no time limit or no rewards of goals.
    """
    spec = env.spec
    space = spec.observation_space
    if not isinstance(space, gs.Dict) or not space.spaces.keys() >= KEYS:
        raise UserError(
            f"replay.her is {strategy}, but observations are {space}; expected a Dict "
            f"with {', '.join(sorted(KEYS))}: leave replay.her out, or add a wrapper"
        )
    achieved, desired = (space[f"{x}_goal"] for x in ("achieved", "desired"))
    if (achieved.shape, achieved.dtype) != (desired.shape, desired.dtype):
        raise UserError(
            f"replay.her is {strategy}, but achieved_goal is {achieved} and "
            f"desired_goal {desired}; expected the same shape and dtype"
        )
    if spec.max_episode_steps is None:
        raise UserError(
            f"replay.her is {strategy}, but episodes have no time limit, by which "
            "later goals are found; add gymnasium.wrappers.TimeLimit"
        )
    in_graph = getattr(getattr(env, "env", None), "compute_reward", None)
    rewards = in_graph or _of_python(env, spec)
    compilable = in_graph is not None
    limit = spec.max_episode_steps
    return Hindsight(strategy, goals, rewards, limit, compilable)


def _of_python(env: Env, spec: EnvSpec) -> Rewards:
    """Return the rewards of an environment in Python, which is created once more."""
    constructor = getattr(env, "constructor", None)
    one: Any = None if constructor is None else constructor().unwrapped
    compute = getattr(one, "compute_reward", None)
    if compute is None:
        raise UserError(
            "replay.her needs rewards of goals: the environment has no method "
            "compute_reward(achieved_goal, desired_goal, info); add it, or leave "
            "replay.her out"
        )

    def rewards(achieved: np.ndarray, desired: np.ndarray) -> np.ndarray:
        return np.asarray(compute(achieved, desired, {}), np.float32)

    _check(rewards, spec.observation_space)

    def function(achieved: tf.Tensor, desired: tf.Tensor) -> tf.Tensor:
        found = tf.numpy_function(rewards, [achieved, desired], tf.float32)
        return tf.ensure_shape(found, achieved.shape[:1])

    return function


def _check(rewards: Callable, space: gymnasium.Space) -> None:
    """Try rewards of three pairs of goals."""
    assert isinstance(space, gs.Dict)
    pairs = [
        np.stack([space[f"{x}_goal"].sample()] * 3) for x in ("achieved", "desired")
    ]
    try:
        shape = rewards(*pairs).shape
    except Exception as error:
        shape = f"an error ({first_line(error)})"
    if shape != (3,):
        raise UserError(
            f"compute_reward of 3 pairs of goals [3, ...] gives {shape}; expected an "
            "array [3], as of Gymnasium-Robotics: compute rewards of a batch"
        )
