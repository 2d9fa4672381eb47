"""SpaceInvaders: shoot aliens, one point each, before they shoot or land."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from tfagents_batch.envs.tf.minatar import grid
from tfagents_batch.envs.tf.minatar.game import GameRules

CHANNELS = (
    *("cannon", "alien", "alien_left", "alien_right"),
    *("friendly_bullet", "enemy_bullet"),
)
BOTTOM = grid.SIZE - 1
SWARM = (grid.ROWS < 4) & (grid.COLUMNS >= 2) & (grid.COLUMNS < 8)
RELOAD, ENEMY_RELOAD = 5, 10  # steps
PACE, FASTEST = 12, 6  # steps between moves of the aliens, at first and at the end


class SpaceInvadersState(NamedTuple):
    """Game state: int32 scalars, bool ``[10, 10]`` grids; direction is -1 or 1."""

    x: tf.Tensor
    bullets: tf.Tensor
    enemy_bullets: tf.Tensor
    aliens: tf.Tensor
    direction: tf.Tensor
    pace: tf.Tensor
    move_timer: tf.Tensor
    enemy_reload: tf.Tensor
    reload: tf.Tensor


def draw(key):
    return ()


def start(drawn):
    empty = tf.zeros([grid.SIZE, grid.SIZE], tf.bool)
    numbers = [-1, PACE, PACE, ENEMY_RELOAD, 0]
    return SpaceInvadersState(
        tf.constant(5), empty, empty, tf.constant(SWARM), *map(tf.constant, numbers)
    )


def advance(state, action, drawn, ramping):
    fires = (action == grid.FIRE) & (state.reload == 0)
    step = grid.direction(action, grid.RIGHT, grid.LEFT)
    x = tf.clip_by_value(state.x + step, 0, BOTTOM)
    cannon = grid.cell(tf.constant(BOTTOM), x)
    # The cannon does not move while it fires, so the shot comes from x.
    bullets = grid.down(state.bullets | (cannon & fires), -1)
    enemy_bullets = grid.down(state.enemy_bullets, 1)
    over = tf.reduce_any((enemy_bullets | state.aliens) & cannon)

    aliens, direction, landed = _march(state)
    moves = state.move_timer == 0
    aliens = tf.where(moves, aliens, state.aliens)
    direction = tf.where(moves, direction, state.direction)
    over = over | (moves & (landed | tf.reduce_any(aliens & cannon)))
    most = tf.minimum(grid.count(state.aliens), state.pace)
    move_timer = tf.where(moves, most, state.move_timer) - 1

    shoots = state.enemy_reload == 0
    enemy_bullets = enemy_bullets | (_shooter(aliens, x) & shoots)
    enemy_reload = tf.where(shoots, ENEMY_RELOAD, state.enemy_reload) - 1

    hits = aliens & bullets
    aliens, bullets = aliens & ~hits, bullets & ~hits
    won = ~tf.reduce_any(aliens)
    faster = won & (state.pace > FASTEST) & ramping
    reload = tf.where(fires, RELOAD, state.reload)
    after = SpaceInvadersState(
        x,
        bullets,
        enemy_bullets,
        aliens | (SWARM & won),
        direction,
        state.pace - tf.cast(faster, tf.int32),
        move_timer,
        enemy_reload,
        tf.maximum(reload - 1, 0),
    )
    return after, grid.count(hits), over


def picture(state):
    planes = [
        grid.cell(tf.constant(BOTTOM), state.x),
        state.aliens,
        state.aliens & (state.direction < 0),
        state.aliens & (state.direction > 0),
        state.bullets,
        state.enemy_bullets,
    ]
    return tf.stack(planes, -1)


def _march(state):
    """Move aliens by a column, or at the edge down; return whether they landed."""
    aliens, direction = state.aliens, state.direction
    edge = tf.where(direction < 0, 0, BOTTOM)
    turns = tf.reduce_any(aliens & (edge == grid.COLUMNS))
    sideways = tf.where(direction < 0, grid.right(aliens, -1), grid.right(aliens, 1))
    landed = turns & tf.reduce_any(aliens[BOTTOM])
    lower = tf.roll(aliens, 1, 0)  # wraps only when the game is over
    return (
        tf.where(turns, lower, sideways),
        tf.where(turns, -direction, direction),
        landed,
    )


def _shooter(aliens, x):
    """Return a bool grid: lowest alien of the nearest column, the left one of two."""
    columns = tf.reduce_any(aliens, 0)
    far = tf.where(columns, 2 * tf.abs(x - grid.COLUMNS), 100)
    ranked = far + tf.cast(x < grid.COLUMNS, tf.int32)
    nearest = aliens & (ranked == tf.reduce_min(ranked))
    row = tf.reduce_max(tf.where(nearest, grid.ROWS, -1))
    return nearest & (row == grid.ROWS)


RULES = GameRules(
    CHANNELS,
    (grid.NOOP, grid.LEFT, grid.RIGHT, grid.FIRE),
    draw,
    start,
    advance,
    picture,
)
