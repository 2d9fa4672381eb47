"""Breakout: bounce a ball off a paddle into three rows of bricks, one point each."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tfagents_batch import seeds
from tfagents_batch.envs.tf.minatar import grid
from tfagents_batch.envs.tf.minatar.game import GameRules

CHANNELS = ("paddle", "ball", "trail", "brick")
BOTTOM = grid.SIZE - 1
WALL = np.broadcast_to((grid.ROWS >= 1) & (grid.ROWS <= 3), [grid.SIZE] * 2)
# Steps of the four directions: up left, up right, down right, down left.
# XOR of a direction with 1 flips left and right, with 3 it flips up and down.
DX = np.array([-1, 1, 1, -1], np.int32)
DY = np.array([-1, -1, 1, 1], np.int32)


class BreakoutState(NamedTuple):
    """Game state: int32 scalars, and bool ``strike`` (a brick was hit) and bricks."""

    paddle: tf.Tensor
    x: tf.Tensor
    y: tf.Tensor
    direction: tf.Tensor
    last_x: tf.Tensor
    last_y: tf.Tensor
    strike: tf.Tensor
    bricks: tf.Tensor


def draw(key):
    """Draw the side that the ball comes from."""
    return seeds.integers([], key, 2)


def start(side):
    x, y = tf.where(side == 0, 0, BOTTOM), tf.constant(3)
    direction = tf.where(side == 0, 2, 3)
    return BreakoutState(
        tf.constant(4), x, y, direction, x, y, tf.constant(False), tf.constant(WALL)
    )


def advance(state, action, drawn, ramping):
    step = grid.direction(action, grid.RIGHT, grid.LEFT)
    paddle = tf.clip_by_value(state.paddle + step, 0, BOTTOM)
    direction = state.direction
    x = state.x + tf.gather(tf.constant(DX), direction)
    y = state.y + tf.gather(tf.constant(DY), direction)
    direction = _turn(direction, ~grid.inside(x), 1)
    x = tf.clip_by_value(x, 0, BOTTOM)

    above = y < 0
    at_brick = ~above & grid.at(state.bricks, y, x)
    hit = at_brick & ~state.strike
    below = ~above & ~at_brick & (y == BOTTOM)
    bricks = state.bricks & ~(grid.cell(y, x) & hit)
    bricks = bricks | (WALL & below & ~tf.reduce_any(state.bricks))
    straight = below & (state.x == paddle)
    slanted = below & ~straight & (x == paddle)
    direction = _turn(direction, above | hit | straight, 3)
    direction = _turn(direction, slanted, 2)
    y = tf.where(above, 0, tf.where(hit | straight | slanted, state.y, y))

    after = BreakoutState(paddle, x, y, direction, state.x, state.y, at_brick, bricks)
    return after, tf.cast(hit, tf.int32), below & ~straight & ~slanted


def picture(state):
    planes = [
        grid.cell(tf.constant(BOTTOM), state.paddle),
        grid.cell(state.y, state.x),
        grid.cell(state.last_y, state.last_x),
        state.bricks,
    ]
    return tf.stack(planes, -1)


def _turn(direction, where, by):
    return tf.where(where, tf.bitwise.bitwise_xor(direction, by), direction)


RULES = GameRules(
    CHANNELS, (grid.NOOP, grid.LEFT, grid.RIGHT), draw, start, advance, picture
)
