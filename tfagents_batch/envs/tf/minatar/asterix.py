"""Asterix: collect treasures, one point each, and avoid enemies."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tfagents_batch import seeds
from tfagents_batch.envs.tf.minatar import grid
from tfagents_batch.envs.tf.minatar.game import GameRules

CHANNELS = ("player", "enemy", "trail", "gold")
LANES = np.arange(1, 9, dtype=np.int32)  # rows, each for one enemy or treasure
RAMP_STEPS = 100
SPAWN_SPEED, MOVE_SPEED = 10, 5  # steps, at the start


class AsterixDraw(NamedTuple):
    """Random numbers of the next spawn; ``lane`` in [0, 1) selects a free lane."""

    right: tf.Tensor
    gold: tf.Tensor
    lane: tf.Tensor


class AsterixState(NamedTuple):
    """Game state: int32 and bool scalars, and ``[8]`` for the things in the lanes."""

    x: tf.Tensor
    y: tf.Tensor
    present: tf.Tensor
    lane_x: tf.Tensor
    right: tf.Tensor
    gold: tf.Tensor
    spawn_speed: tf.Tensor
    spawn_timer: tf.Tensor
    move_speed: tf.Tensor
    move_timer: tf.Tensor
    ramp_timer: tf.Tensor
    ramps: tf.Tensor


def draw(key):
    right, gold, lane = seeds.split(key, 3)
    return AsterixDraw(
        seeds.bernoulli([], right, 1 / 2),
        seeds.bernoulli([], gold, 1 / 3),
        seeds.uniform([], lane),
    )


def start(drawn):
    empty = tf.zeros([len(LANES)], tf.bool)
    numbers = [SPAWN_SPEED, SPAWN_SPEED, MOVE_SPEED, MOVE_SPEED, RAMP_STEPS, 0]
    return AsterixState(
        tf.constant(5),
        tf.constant(5),
        empty,
        tf.zeros([len(LANES)], tf.int32),
        empty,
        empty,
        *map(tf.constant, numbers),
    )


def advance(state, action, drawn, ramping):
    state = _spawn(state, drawn)
    x = state.x + grid.direction(action, grid.RIGHT, grid.LEFT)
    y = state.y + grid.direction(action, grid.DOWN, grid.UP)
    x, y = tf.clip_by_value(x, 0, 9), tf.clip_by_value(y, 1, 8)

    def touch(present, lane_x):
        touched = present & (lane_x == x) & (y == LANES)
        won, lost = touched & state.gold, touched & ~state.gold
        return present & ~won, grid.count(won), tf.reduce_any(lost)

    present, reward, over = touch(state.present, state.lane_x)
    moves = state.move_timer == 0
    moved = state.lane_x + tf.where(state.right, 1, -1)
    lane_x = tf.where(moves & present, moved, state.lane_x)
    present, more, over_after = touch(present & grid.inside(lane_x), lane_x)
    # Things that did not move were checked above.
    reward, over = reward + more, over | (over_after & moves)

    move_timer = tf.where(moves, state.move_speed, state.move_timer) - 1
    state = state._replace(
        x=x,
        y=y,
        present=present,
        lane_x=lane_x,
        spawn_timer=state.spawn_timer - 1,
        move_timer=move_timer,
    )
    return _ramp(state) if ramping else state, reward, over


def picture(state):
    back = state.lane_x - tf.where(state.right, 1, -1)
    lanes = tf.constant(LANES)
    planes = [
        grid.cell(state.y, state.x),
        grid.cells(state.present & ~state.gold, lanes, state.lane_x),
        grid.cells(state.present, lanes, back),
        grid.cells(state.present & state.gold, lanes, state.lane_x),
    ]
    return tf.stack(planes, -1)


def _spawn(state, drawn):
    """Spawn a thing in a free lane, if it is due and a lane is free."""
    due = state.spawn_timer == 0
    free = ~state.present
    places = tf.cast(grid.count(free), tf.float32)
    chosen = tf.cast(drawn.lane * places, tf.int32)
    # The free lane with ``chosen`` free lanes before it.
    before = tf.cumsum(tf.cast(free, tf.int32), exclusive=True)
    new = due & free & (before == chosen)
    return state._replace(
        present=state.present | new,
        lane_x=tf.where(new, tf.where(drawn.right, 0, 9), state.lane_x),
        right=tf.where(new, drawn.right, state.right),
        gold=tf.where(new, drawn.gold, state.gold),
        spawn_timer=tf.where(due, state.spawn_speed, state.spawn_timer),
    )


def _ramp(state):
    """Speed up the spawns, and every second time also the moves."""
    ramps = (state.spawn_speed > 1) | (state.move_speed > 1)
    faster = ramps & (state.ramp_timer < 0)
    moves = faster & (state.move_speed > 1) & (state.ramps % 2 == 1)
    spawns = faster & (state.spawn_speed > 1)
    ramp_timer = state.ramp_timer - tf.cast(ramps, tf.int32)
    return state._replace(
        move_speed=state.move_speed - tf.cast(moves, tf.int32),
        spawn_speed=state.spawn_speed - tf.cast(spawns, tf.int32),
        ramps=state.ramps + tf.cast(faster, tf.int32),
        ramp_timer=tf.where(faster, RAMP_STEPS, ramp_timer),
    )


RULES = GameRules(CHANNELS, tuple(range(5)), draw, start, advance, picture)
