"""Acrobot: swing the tip of a double pendulum up (Sutton, 1996)."""

from __future__ import annotations

import math

import gymnasium
import numpy as np
import tensorflow as tf

from tfagents_batch import seeds
from tfagents_batch.envs.tf import drawing

GRAVITY = 9.8  # m / s^2
LENGTH, MASS, CENTER, INERTIA = 1.0, 1.0, 0.5, 1.0  # of each link: m, kg, m, kg m^2
MAX_SPEEDS = (4 * math.pi, 9 * math.pi)  # rad / s
SECONDS = 0.2  # between two states


class Acrobot:
    """Gymnasium's Acrobot-v1; a state is two angles and their speeds.

    The first angle is that of the upper link, 0 downwards. The second angle is between
    the links. Actions 0, 1 and 2 apply the torques -1, 0 and 1 between them.
    """

    max_episode_steps = 500
    render_fps = 15

    def __init__(self):
        high = np.array([1, 1, 1, 1, *MAX_SPEEDS], np.float32)
        self.observation_space = gymnasium.spaces.Box(-high, high)
        self.action_space = gymnasium.spaces.Discrete(3)

    def reset(self, key):
        state = seeds.uniform([4], key, -0.1, 0.1)
        return state, _observation(state)

    def step(self, state, action, key):
        torque = tf.cast(action - 1, tf.float32)
        upper, lower, *speeds = _integrate(tf.unstack(state), torque)
        speeds = [
            tf.clip_by_value(speed, -most, most)
            for speed, most in zip(speeds, MAX_SPEEDS, strict=True)
        ]
        upper, lower = _wrap_angle(upper), _wrap_angle(lower)
        state = tf.stack([upper, lower, *speeds])
        terminated = -tf.cos(upper) - tf.cos(upper + lower) > 1
        reward = tf.where(terminated, 0.0, -1.0)
        return state, _observation(state), reward, terminated

    def render(self, state):
        return drawing.like_gymnasium("Acrobot-v1", state)


def _observation(state):
    upper, lower, *speeds = tf.unstack(state)
    angles = [tf.cos(upper), tf.sin(upper), tf.cos(lower), tf.sin(lower)]
    return tf.stack([*angles, *speeds])


def _integrate(state, torque):
    """Integrate one step by the classic Runge-Kutta method."""

    def move(slopes, seconds):
        return [x + seconds * slope for x, slope in zip(state, slopes, strict=True)]

    k1 = _slopes(state, torque)
    k2 = _slopes(move(k1, SECONDS / 2), torque)
    k3 = _slopes(move(k2, SECONDS / 2), torque)
    k4 = _slopes(move(k3, SECONDS), torque)
    mean = [
        (a + 2 * b + 2 * c + d) / 6 for a, b, c, d in zip(k1, k2, k3, k4, strict=True)
    ]
    return move(mean, SECONDS)


def _slopes(state, torque):
    """Return speeds and accelerations of both joints (Sutton and Barto, section 11.3
    of the first edition of "Reinforcement Learning", 1998)."""
    upper, lower, upper_speed, lower_speed = state
    cosine, sine = tf.cos(lower), tf.sin(lower)
    d1 = (
        MASS * CENTER**2
        + MASS * (LENGTH**2 + CENTER**2 + 2 * LENGTH * CENTER * cosine)
        + 2 * INERTIA
    )
    d2 = MASS * (CENTER**2 + LENGTH * CENTER * cosine) + INERTIA
    # cos(x - pi / 2) is sin(x).
    phi2 = MASS * CENTER * GRAVITY * tf.sin(upper + lower)
    phi1 = (
        -MASS * LENGTH * CENTER * lower_speed * (lower_speed + 2 * upper_speed) * sine
        + (MASS * CENTER + MASS * LENGTH) * GRAVITY * tf.sin(upper)
        + phi2
    )
    coriolis = MASS * LENGTH * CENTER * upper_speed**2 * sine
    lower_acceleration = (torque + d2 / d1 * phi1 - coriolis - phi2) / (
        MASS * CENTER**2 + INERTIA - d2**2 / d1
    )
    upper_acceleration = -(d2 * lower_acceleration + phi1) / d1
    return upper_speed, lower_speed, upper_acceleration, lower_acceleration


def _wrap_angle(angle):
    """Wrap an angle into [-pi, pi]."""
    return angle - 2 * math.pi * tf.round(angle / (2 * math.pi))
