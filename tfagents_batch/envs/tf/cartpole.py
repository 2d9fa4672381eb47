"""CartPole: balance a pole on a cart (Barto, Sutton and Anderson, 1983)."""

from __future__ import annotations

import math

import gymnasium
import numpy as np
import tensorflow as tf

from tfagents_batch import seeds
from tfagents_batch.envs.tf import drawing

GRAVITY = 9.8  # m / s^2
CART_MASS, POLE_MASS = 1.0, 0.1  # kg
HALF_POLE = 0.5  # m
FORCE = 10.0  # N
SECONDS = 0.02  # between two states
FAR, TILTED = 2.4, math.radians(12)  # m and rad, where an episode ends

_TOTAL_MASS = CART_MASS + POLE_MASS
_POLE_MOMENT = POLE_MASS * HALF_POLE


class CartPole:
    """Gymnasium's CartPole-v1; a state is position, speed, angle, angular speed.

    Args:
      sutton_barto_reward: reward -1 for the fall and 0 before it, not 1 per step.
    """

    max_episode_steps = 500
    render_fps = 50

    def __init__(self, sutton_barto_reward: bool = False):
        self._sutton_barto = sutton_barto_reward
        high = np.array([2 * FAR, np.inf, 2 * TILTED, np.inf], np.float32)
        self.observation_space = gymnasium.spaces.Box(-high, high)
        self.action_space = gymnasium.spaces.Discrete(2)

    def reset(self, key):
        state = seeds.uniform([4], key, -0.05, 0.05)
        return state, state

    def step(self, state, action, key):
        x, speed, angle, angular_speed = tf.unstack(state)
        force = tf.where(action == 1, FORCE, -FORCE)
        sine, cosine = tf.sin(angle), tf.cos(angle)

        # Florian (2007), "Correct equations for the dynamics of the cart-pole
        # system", equations 23 and 24 without friction; integrated by Euler's method.
        push = (force + _POLE_MOMENT * angular_speed**2 * sine) / _TOTAL_MASS
        angular_acceleration = (GRAVITY * sine - cosine * push) / (
            HALF_POLE * (4 / 3 - POLE_MASS * cosine**2 / _TOTAL_MASS)
        )
        acceleration = push - _POLE_MOMENT * angular_acceleration * cosine / _TOTAL_MASS
        x = x + SECONDS * speed
        speed = speed + SECONDS * acceleration
        angle = angle + SECONDS * angular_speed
        angular_speed = angular_speed + SECONDS * angular_acceleration

        state = tf.stack([x, speed, angle, angular_speed])
        terminated = (tf.abs(x) > FAR) | (tf.abs(angle) > TILTED)
        reward = tf.constant(1.0)
        if self._sutton_barto:
            reward = tf.where(terminated, -1.0, 0.0)
        return state, state, reward, terminated

    def render(self, state):
        return drawing.like_gymnasium("CartPole-v1", state)
