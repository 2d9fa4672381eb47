"""A bird that flaps through gaps between pipes, seen as pixels."""

from __future__ import annotations

from typing import NamedTuple

import gymnasium
import numpy as np
import tensorflow as tf

from tfagents_batch import seeds
from tfagents_batch.envs.tf import drawing

SIZE = 80  # pixels of a side
FRAMES = 4  # of an observation
BIRD, BIRD_X = 5, 16  # size of the bird, and its left column
GRAVITY, FALL, FLAP = 0.4, 3.0, -2.5  # pixels per step, upwards is negative
WIDTH, GAP, DISTANCE, SPEED = 10, 26, 46, 2  # of pipes, in pixels
LOWEST, HIGHEST = 46, 8  # top row of a gap
_BIRD, _PIPE = 255, 128  # gray levels
_COLORS = {0: (120, 190, 220), _PIPE: (70, 150, 60), _BIRD: (240, 200, 50)}
_ROWS = np.arange(SIZE, dtype=np.float32)[:, np.newaxis]
_COLUMNS = np.arange(SIZE, dtype=np.int32)


class FlappyState(NamedTuple):
    """State of a game."""

    y: tf.Tensor  # f32 [], top row of the bird
    speed: tf.Tensor  # f32 [], rows that it fell in this step
    x: tf.Tensor  # int32 [2], left column of each pipe
    gap: tf.Tensor  # int32 [2], top row of its gap
    frames: tf.Tensor  # uint8 [80, 80, 4], the newest frame is the last one


class Flappy:
    """Flappy Bird; the reward is 1 for each passed pipe, and -1 for a crash.

    A crash into a pipe or the ground ends the game. Action 1 flaps, action 0 does not.
    A pipe comes every 23 steps. The observation is the newest 4 frames, gray, uint8
    ``[80, 80, 4]``; at the start they are equal.

    Args:
      max_episode_steps: time limit in steps; None sets no limit.
    """

    render_fps = 30

    def __init__(self, max_episode_steps: int | None = 5000):
        self.max_episode_steps = max_episode_steps
        shape = (SIZE, SIZE, FRAMES)
        self.observation_space = gymnasium.spaces.Box(0, 255, shape, np.uint8)
        self.action_space = gymnasium.spaces.Discrete(2)

    def reset(self, key):
        y = tf.constant((SIZE - BIRD) / 2)
        x = tf.constant([SIZE, SIZE + DISTANCE])
        gap = _gap([2], key)
        frames = tf.repeat(_frame(y, x, gap), FRAMES, -1)
        return FlappyState(y, tf.constant(0.0), x, gap, frames), frames

    def step(self, state, action, key):
        fallen = tf.minimum(state.speed + GRAVITY, FALL)
        speed = tf.where(action == 1, FLAP, fallen)
        y = tf.maximum(state.y + speed, 0.0)
        speed = tf.where(y > 0, speed, 0.0)

        x = state.x - SPEED
        right = x + WIDTH
        passed = tf.reduce_any((right <= BIRD_X) & (right + SPEED > BIRD_X))
        gone = right <= 0
        x = tf.where(gone, x + 2 * DISTANCE, x)
        gap = tf.where(gone, _gap([2], key), state.gap)

        top = tf.cast(gap, tf.float32)
        beside = (y < top) | (y + BIRD > top + GAP)
        hit = tf.reduce_any((x < BIRD_X + BIRD) & (x + WIDTH > BIRD_X) & beside)
        crashed = hit | (y + BIRD > SIZE)
        reward = tf.where(crashed, -1.0, tf.cast(passed, tf.float32))
        frames = tf.concat([state.frames[..., 1:], _frame(y, x, gap)], -1)
        return FlappyState(y, speed, x, gap, frames), frames, reward, crashed

    def render(self, state):
        levels = state.frames[..., -1]
        colors = np.zeros([SIZE, SIZE, 3], np.uint8)
        for level, color in _COLORS.items():
            colors[levels == level] = color
        return drawing.cells(colors, 5)


def _gap(shape: list[int], key: tf.Tensor) -> tf.Tensor:
    return HIGHEST + seeds.integers(shape, key, LOWEST - HIGHEST + 1)


def _frame(y: tf.Tensor, x: tf.Tensor, gap: tf.Tensor) -> tf.Tensor:
    """Return a frame, uint8 ``[80, 80, 1]``."""
    left = x[:, tf.newaxis, tf.newaxis]
    top = tf.cast(gap, tf.float32)[:, tf.newaxis, tf.newaxis]
    pipe = (left <= _COLUMNS) & (left + WIDTH > _COLUMNS)
    pipe = tf.reduce_any(pipe & ((top > _ROWS) | (top + GAP <= _ROWS)), 0)
    row = tf.round(y)
    bird = (row <= _ROWS) & (row + BIRD > _ROWS)
    bird = bird & (_COLUMNS >= BIRD_X) & (_COLUMNS < BIRD_X + BIRD)
    frame = tf.where(bird, _BIRD, tf.where(pipe, _PIPE, 0))
    return tf.cast(frame, tf.uint8)[..., tf.newaxis]  # pyright: ignore[reportArgumentType]
