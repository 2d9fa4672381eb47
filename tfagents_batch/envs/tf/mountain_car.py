"""MountainCar: swing a weak car out of a valley (Moore, 1990)."""

from __future__ import annotations

import gymnasium
import numpy as np
import tensorflow as tf

from tfagents_batch import seeds
from tfagents_batch.envs.tf import drawing

LEFT, RIGHT, MAX_SPEED = -1.2, 0.6, 0.07  # position, and position per step
GRAVITY = 0.0025


class MountainCar:
    """Gymnasium's MountainCar-v0; a state is position and speed.

    Args:
      goal_velocity: least speed at the goal, position per step.
    """

    gymnasium_id = "MountainCar-v0"
    max_episode_steps = 200
    goal = 0.5
    action_space = gymnasium.spaces.Discrete(3)

    def __init__(self, goal_velocity: float = 0.0):
        self.goal_velocity = goal_velocity
        low = np.array([LEFT, -MAX_SPEED], np.float32)
        high = np.array([RIGHT, MAX_SPEED], np.float32)
        self.observation_space = gymnasium.spaces.Box(low, high)

    def reset(self, key):
        state = tf.stack([seeds.uniform([], key, -0.6, -0.4), 0.0])
        return state, state

    def step(self, state, action, key):
        state = _move(state, 0.001 * tf.cast(action - 1, tf.float32))
        return state, state, tf.constant(-1.0), self._arrived(state)

    def _arrived(self, state):
        return (state[0] >= self.goal) & (state[1] >= self.goal_velocity)

    def render(self, state):
        return drawing.like_gymnasium(self.gymnasium_id, state)


class MountainCarContinuous(MountainCar):
    """Gymnasium's MountainCarContinuous-v0; an action is a force and has a cost.

    Args:
      goal_velocity: least speed at the goal, position per step.
    """

    gymnasium_id = "MountainCarContinuous-v0"
    max_episode_steps = 999
    goal = 0.45
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,))

    def step(self, state, action, key):
        force = action[0]
        state = _move(state, 0.0015 * force)
        arrived = self._arrived(state)
        return state, state, tf.where(arrived, 100.0, 0.0) - 0.1 * force**2, arrived


def _move(state, push):
    x, speed = tf.unstack(state)
    speed = speed + push - GRAVITY * tf.cos(3 * x)
    speed = tf.clip_by_value(speed, -MAX_SPEED, MAX_SPEED)
    x = tf.clip_by_value(x + speed, LEFT, RIGHT)
    stopped = (x <= LEFT) & (speed < 0)  # by the wall
    return tf.stack([x, tf.where(stopped, 0.0, speed)])
