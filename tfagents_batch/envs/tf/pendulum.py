"""Pendulum: swing a pole up with a weak motor, and hold it there."""

from __future__ import annotations

import math

import gymnasium
import numpy as np
import tensorflow as tf

from tfagents_batch import seeds
from tfagents_batch.envs.tf import drawing

GRAVITY = 10.0  # m / s^2
MASS, LENGTH = 1.0, 1.0  # kg, m
MAX_SPEED, MAX_TORQUE = 8.0, 2.0  # rad / s, N m
SECONDS = 0.05  # between two states


class Pendulum:
    """Gymnasium's Pendulum-v1; a state is angle (0 upright) and angular speed.

    Args:
      g: acceleration by gravity, m / s^2.
    """

    max_episode_steps = 200
    render_fps = 20

    def __init__(self, g: float = GRAVITY):
        self.g = g
        high = np.array([1, 1, MAX_SPEED], np.float32)
        self.observation_space = gymnasium.spaces.Box(-high, high)
        self.action_space = gymnasium.spaces.Box(-MAX_TORQUE, MAX_TORQUE, (1,))

    def reset(self, key):
        high = tf.constant([math.pi, 1.0])
        state = seeds.uniform([2], key, -1.0, 1.0) * high
        return state, _observation(state)

    def step(self, state, action, key):
        angle, speed = tf.unstack(state)
        torque = action[0]
        cost = _wrap_angle(angle) ** 2 + 0.1 * speed**2 + 0.001 * torque**2

        fall = 3 * self.g / (2 * LENGTH) * tf.sin(angle)
        speed = speed + (fall + 3 / (MASS * LENGTH**2) * torque) * SECONDS
        speed = tf.clip_by_value(speed, -MAX_SPEED, MAX_SPEED)
        # Wrapped, because large angles lose precision in float32.
        state = tf.stack([_wrap_angle(angle + speed * SECONDS), speed])
        return state, _observation(state), -cost, tf.constant(False)

    def render(self, state):
        return drawing.like_gymnasium("Pendulum-v1", state)


def _wrap_angle(angle):
    """Wrap an angle into [-pi, pi)."""
    return tf.math.floormod(angle + math.pi, 2 * math.pi) - math.pi


def _observation(state):
    angle, speed = tf.unstack(state)
    return tf.stack([tf.cos(angle), tf.sin(angle), speed])
