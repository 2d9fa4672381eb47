"""Catch a falling ball with a paddle (Mnih et al., 2014, section 4; bsuite)."""

from __future__ import annotations

import gymnasium
import numpy as np
import tensorflow as tf

from tfagents_batch import seeds
from tfagents_batch.envs.shared import arguments
from tfagents_batch.envs.tf import drawing


class Catch:
    """Game of one falling ball; the last reward is 1 if it is caught, else -1.

    The ball falls one row per step. Actions move the paddle left, not at all, or right.
    A state is int32 ``[3]``: row and column of the ball, column of the paddle. The
    observation is a picture that is 1 at ball and paddle, else 0.

    Args:
      rows, columns: size of the picture; an episode takes ``rows - 1`` steps.
    """

    render_fps = 5

    def __init__(self, rows: int = 10, columns: int = 5):
        arguments.at_least("rows", rows, 2)
        arguments.at_least("columns", columns, 1)
        self.rows, self.columns = rows, columns
        self.max_episode_steps = rows - 1
        self.observation_space = gymnasium.spaces.Box(0.0, 1.0, (rows, columns))
        self.action_space = gymnasium.spaces.Discrete(3)

    def reset(self, key):
        column = seeds.integers([], key, self.columns)
        state = tf.stack([0, column, self.columns // 2])
        return state, self._picture(state)

    def step(self, state, action, key):
        row, column, paddle = tf.unstack(state)
        row = row + 1
        paddle = tf.clip_by_value(paddle + action - 1, 0, self.columns - 1)
        state = tf.stack([row, column, paddle])
        landed = row >= self.rows - 1
        caught = tf.where(paddle == column, 1.0, -1.0)
        return state, self._picture(state), tf.where(landed, caught, 0.0), landed

    def render(self, state):
        row, column, paddle = (int(x) for x in state)
        colors = np.full([self.rows, self.columns, 3], 255, np.uint8)
        colors[-1, paddle] = (60, 90, 200)
        colors[row, column] = (220, 60, 50)
        return drawing.cells(colors)

    def _picture(self, state):
        row, column, paddle = tf.unstack(state)
        ball = tf.one_hot(row * self.columns + column, self.rows * self.columns)
        last = (self.rows - 1) * self.columns
        bat = tf.one_hot(last + paddle, self.rows * self.columns)
        return tf.reshape(tf.maximum(ball, bat), [self.rows, self.columns])
