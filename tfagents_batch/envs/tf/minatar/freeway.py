"""Freeway: lead a chicken across eight lanes, for one point each time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tfagents_batch import seeds
from tfagents_batch.envs.tf.minatar import grid
from tfagents_batch.envs.tf.minatar.game import GameRules

CHANNELS = ("chicken", "car", "speed1", "speed2", "speed3", "speed4", "speed5")
LANES = np.arange(1, 9, dtype=np.int32)  # rows with a car
COLUMN, START = 4, 9  # column and first row of the chicken
REST = 3  # steps between two moves of the chicken
LENGTH = 2500  # steps of a game


class FreewayState(NamedTuple):
    """Game state, int32: scalars of the chicken, ``[8]`` of the cars, steps left.

    A car moves one column when its timer is 0, in the direction of the sign of its
    speed. The timer then restarts from the absolute value of the speed.
    """

    y: tf.Tensor
    rest: tf.Tensor
    x: tf.Tensor
    timer: tf.Tensor
    speed: tf.Tensor
    left: tf.Tensor


def draw(key):
    """Draw the speeds of the cars: 1 to 5, in either direction."""
    size, side = seeds.split(key)
    speed = 1 + seeds.integers([len(LANES)], size, 5)
    return tf.where(seeds.bernoulli([len(LANES)], side, 0.5), speed, -speed)


def start(speed):
    return FreewayState(
        tf.constant(START),
        tf.constant(REST),
        tf.zeros_like(speed),
        tf.abs(speed),
        speed,
        tf.constant(LENGTH),
    )


def advance(state, action, speed, ramping):
    up, down = action == grid.UP, action == grid.DOWN
    free = state.rest == 0
    y = state.y - tf.cast(up & free, tf.int32) + tf.cast(down & free, tf.int32)
    y = tf.clip_by_value(y, 0, START)
    rest = tf.where((up | down) & free, REST, state.rest)

    won = y == 0
    y = tf.where(won, START, y)
    timer = tf.where(won, tf.abs(speed), state.timer)
    speed = tf.where(won, speed, state.speed)

    moves = timer == 0
    x = tf.where(moves, (state.x + tf.sign(speed)) % grid.SIZE, state.x)
    timer = tf.where(moves, tf.abs(speed), timer - 1)
    run_over = (y == LANES) & ((state.x == COLUMN) | (x == COLUMN))
    y = tf.where(tf.reduce_any(run_over), START, y)

    left = state.left - 1
    after = FreewayState(y, tf.maximum(rest - 1, 0), x, timer, speed, left)
    return after, tf.cast(won, tf.int32), left < 0


def picture(state):
    back = (state.x - tf.sign(state.speed)) % grid.SIZE
    size = tf.abs(state.speed)
    always = tf.ones_like(size, tf.bool)
    planes = [
        grid.cell(state.y, tf.constant(COLUMN)),
        grid.cells(always, tf.constant(LANES), state.x),
        *(grid.cells(size == speed, tf.constant(LANES), back) for speed in range(1, 6)),
    ]
    return tf.stack(planes, -1)


RULES = GameRules(
    CHANNELS, (grid.NOOP, grid.UP, grid.DOWN), draw, start, advance, picture
)
