"""Seaquest: shoot fish and submarines, rescue divers, and watch the oxygen."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tfagents_batch import seeds
from tfagents_batch.envs.tf.minatar import grid
from tfagents_batch.envs.tf.minatar.game import GameRules

CHANNELS = (
    *("sub_front", "sub_back", "friendly_bullet", "trail", "enemy_bullet"),
    *("enemy_fish", "enemy_sub", "oxygen_gauge", "diver_gauge", "diver"),
)
OXYGEN, CAPACITY = 200, 6
RELOAD, ENEMY_RELOAD = 5, 10  # steps
SPAWN_SPEED, DIVER_SPAWN_SPEED = 20, 30
MOVE_SPEED, FASTEST, DIVER_MOVE_SPEED = 5, 2, 5
RAMP_LEAST_SPAWN = 1
# Upper bounds. At most one thing of a kind appears per step, and it crosses ten cells:
# an enemy takes up to three steps for each, a diver six, a bullet one.
MOST, MOST_DIVERS, MOST_BULLETS = 32, 3, 3


class Things(NamedTuple):
    """Things of one kind, ``[n]`` each, in order of appearance."""

    present: tf.Tensor  # bool, whether the slot is in use; unused slots come last
    x: tf.Tensor  # int32
    y: tf.Tensor  # int32
    right: tf.Tensor  # bool, whether it moves to the right
    timer: tf.Tensor  # int32, steps until it moves
    reload: tf.Tensor  # int32, steps until it shoots

    @property
    def ahead(self) -> tf.Tensor:
        """Direction, int32: 1 to the right, -1 to the left."""
        return tf.where(self.right, 1, -1)

    def appended(self, new: tf.Tensor, **values) -> Things:
        """Append one thing if ``new`` is true."""
        slots = np.arange(self.present.shape[0] or 0, dtype=np.int32)
        slot = grid.count(self.present) == slots
        added = {
            name: tf.where(slot & new, values.get(name, 0), getattr(self, name))
            for name in ("x", "y", "timer", "reload")
        }
        right = tf.where(slot & new, values["right"], self.right)
        return Things(self.present | (slot & new), right=right, **added)

    def compact(self) -> Things:
        """Move unused slots to the end."""
        place = tf.cumsum(tf.cast(self.present, tf.int32), exclusive=True)
        slots = np.arange(self.present.shape[0] or 0, dtype=np.int32)[:, np.newaxis]
        source = self.present & (place == slots)  # source slot of each new slot

        def moved(field):
            if field.dtype == tf.bool:
                return tf.reduce_any(source & field, 1)
            return tf.reduce_sum(tf.where(source, field, 0), 1)

        return Things(*map(moved, self))


class SeaquestDraw(NamedTuple):
    """Random numbers of the next enemy and the next diver."""

    right: tf.Tensor
    submarine: tf.Tensor
    row: tf.Tensor
    diver_right: tf.Tensor
    diver_row: tf.Tensor


class SeaquestState(NamedTuple):
    """Game state: int32 scalars, bool ``right`` and ``surfaced``, and things.

    ``enemy_bullets`` is bool ``[2, 10, 10]``: those that move left, and right.
    """

    x: tf.Tensor
    y: tf.Tensor
    right: tf.Tensor
    surfaced: tf.Tensor
    oxygen: tf.Tensor
    divers_aboard: tf.Tensor
    reload: tf.Tensor
    spawn_speed: tf.Tensor
    spawn_timer: tf.Tensor
    diver_timer: tf.Tensor
    move_speed: tf.Tensor
    ramps: tf.Tensor
    bullets: Things
    enemy_bullets: tf.Tensor
    fish: Things
    submarines: Things
    divers: Things


def draw(key):
    keys = seeds.split(key, 5)
    return SeaquestDraw(
        seeds.bernoulli([], keys[0], 1 / 2),
        seeds.bernoulli([], keys[1], 1 / 3),
        1 + seeds.integers([], keys[2], 8),
        seeds.bernoulli([], keys[3], 1 / 2),
        1 + seeds.integers([], keys[4], 8),
    )


def start(drawn):
    numbers = {
        **{"x": 5, "y": 0, "right": False, "surfaced": True, "oxygen": OXYGEN},
        **{"divers_aboard": 0, "reload": 0, "ramps": 0},
        **{"spawn_speed": SPAWN_SPEED, "spawn_timer": SPAWN_SPEED},
        **{"diver_timer": DIVER_SPAWN_SPEED, "move_speed": MOVE_SPEED},
    }
    return SeaquestState(
        **{name: tf.constant(value) for name, value in numbers.items()},
        bullets=_no_things(MOST_BULLETS),
        enemy_bullets=tf.zeros([2, grid.SIZE, grid.SIZE], tf.bool),
        fish=_no_things(MOST),
        submarines=_no_things(MOST),
        divers=_no_things(MOST_DIVERS),
    )


def advance(state, action, drawn, ramping):
    state = _steer(_spawn(state, drawn), action)
    state, reward = _move_bullets(state)
    state = _move_divers(state)
    state, more, rammed = _move_enemies(state, "submarines")
    reward = reward + more
    state, hit = _move_enemy_bullets(state)
    state, more, bitten = _move_enemies(state, "fish")
    state, rescue, drowned = _update_oxygen(state, ramping)
    reward = reward + more + rescue
    return state, reward, rammed | hit | bitten | drowned


def picture(state):
    behind = state.x - tf.where(state.right, 1, -1)
    oxygen = tf.maximum(state.oxygen, 0) * 10 // OXYGEN
    gauge = (9 - state.divers_aboard <= grid.COLUMNS) & (grid.COLUMNS < 9)
    bottom = grid.ROWS == 9
    trails = [
        grid.cells(things.present, things.y, things.x - things.ahead)
        for things in (state.fish, state.submarines, state.divers)
    ]
    planes = {
        "sub_front": grid.cell(state.y, state.x),
        "sub_back": grid.cell(state.y, behind),
        "friendly_bullet": _cells(state.bullets),
        "trail": tf.reduce_any(tf.stack(trails), 0),
        "enemy_bullet": tf.reduce_any(state.enemy_bullets, 0),
        "enemy_fish": _cells(state.fish),
        "enemy_sub": _cells(state.submarines),
        "oxygen_gauge": bottom & (oxygen > grid.COLUMNS),
        "diver_gauge": bottom & gauge,
        "diver": _cells(state.divers),
    }
    return tf.stack([planes[name] for name in CHANNELS], -1)


# ---- parts of a step, in order


def _spawn(state, drawn):
    """Spawn an enemy and a diver, if they are due.

    An enemy that would move against others in its row is skipped until the next time.
    """
    due = state.spawn_timer == 0
    against = [
        tf.reduce_any(
            things.present & (things.y == drawn.row) & (things.right != drawn.right)
        )
        for things in (state.fish, state.submarines)
    ]
    new = due & ~against[0] & ~against[1]
    x = tf.where(drawn.right, 0, 9)
    enemy = {"x": x, "y": drawn.row, "right": drawn.right, "timer": state.move_speed}
    diver_due = state.diver_timer == 0
    return state._replace(
        fish=state.fish.appended(new & ~drawn.submarine, **enemy),
        submarines=state.submarines.appended(
            new & drawn.submarine, **enemy, reload=ENEMY_RELOAD
        ),
        divers=state.divers.appended(
            diver_due,
            x=tf.where(drawn.diver_right, 0, 9),
            y=drawn.diver_row,
            right=drawn.diver_right,
            timer=DIVER_MOVE_SPEED,
        ),
        spawn_timer=tf.where(due, state.spawn_speed, state.spawn_timer),
        diver_timer=tf.where(diver_due, DIVER_SPAWN_SPEED, state.diver_timer),
    )


def _steer(state, action):
    fires = (action == grid.FIRE) & (state.reload == 0)
    left, right = action == grid.LEFT, action == grid.RIGHT
    shot = {"x": state.x, "y": state.y, "right": state.right}
    x = state.x + grid.direction(action, grid.RIGHT, grid.LEFT)
    y = state.y + grid.direction(action, grid.DOWN, grid.UP)
    return state._replace(
        bullets=state.bullets.appended(fires, **shot),
        reload=tf.where(fires, RELOAD, state.reload),
        x=tf.clip_by_value(x, 0, 9),
        y=tf.clip_by_value(y, 0, 8),
        right=(state.right | right) & ~left,
    )


def _move_bullets(state):
    """Move bullets, and remove the things they hit: fish first, then oldest first."""
    bullets = state.bullets
    x = bullets.x + bullets.ahead
    bullets = bullets._replace(x=x, present=bullets.present & grid.inside(x))
    targets = _concat(state.fish, state.submarines)
    # If a cell has several bullets, the newest hits first.
    order = np.arange(MOST_BULLETS)[::-1]
    struck, spent = _match(targets, bullets, _ranks(bullets, order))
    fish, submarines = tf.split(targets.present & ~struck, 2)
    state = state._replace(
        bullets=bullets._replace(present=bullets.present & ~spent).compact(),
        fish=state.fish._replace(present=fish).compact(),
        submarines=state.submarines._replace(present=submarines).compact(),
    )
    return state, grid.count(struck)


def _move_divers(state):
    """Move divers; those that meet the submarine come aboard if there is room."""
    divers, aboard = state.divers, state.divers_aboard
    rows = [Things(*row) for row in zip(*map(tf.unstack, divers), strict=True)]
    after = []
    for diver in reversed(rows):  # newest first, because it takes the last place
        room = aboard < CAPACITY
        at_once = diver.present & room & (diver.x == state.x) & (diver.y == state.y)
        moves = (diver.timer == 0) & ~at_once
        x = tf.where(moves, diver.x + diver.ahead, diver.x)
        met = moves & diver.present & room & (x == state.x) & (diver.y == state.y)
        present = diver.present & ~at_once & ~met & grid.inside(x)
        timer = tf.where(moves, DIVER_MOVE_SPEED, diver.timer - 1)
        aboard = aboard + tf.cast(at_once | met, tf.int32)
        after.append(diver._replace(present=present, x=x, timer=timer))
    fields = zip(*reversed(after), strict=True)
    divers = Things(*(tf.stack(field) for field in fields)).compact()
    return state._replace(divers=divers, divers_aboard=aboard)


def _move_enemies(state, kind):
    """Move enemies of a kind; they may shoot, ram the player or meet a bullet."""
    things, bullets = getattr(state, kind), state.bullets
    in_row = things.present & (things.y == state.y)
    moves = things.present & (things.timer == 0)
    x = tf.where(moves, things.x + things.ahead, things.x)
    met = in_row & ((things.x == state.x) | (x == state.x))
    timer = tf.where(moves, state.move_speed, things.timer - 1)
    rammer = moves & in_row & (x == state.x)
    present = things.present & grid.inside(x)

    # If a cell has several, the newest meets the oldest bullet.
    moved = things._replace(x=x, present=present & moves & ~rammer)
    order = np.arange(MOST)[::-1]
    spent, struck = _match(bullets, moved, _ranks(moved, order))
    bullets = bullets._replace(present=bullets.present & ~spent).compact()

    enemy_bullets = state.enemy_bullets
    reload = things.reload
    if kind == "submarines":
        fires = things.present & (reload == 0)
        sides = [fires & ~things.right, fires & things.right]
        new = tf.stack([grid.cells(side, things.y, x) for side in sides])
        enemy_bullets = enemy_bullets | new
        reload = tf.where(fires, ENEMY_RELOAD, reload - 1)

    present = present & ~struck
    things = things._replace(present=present, x=x, timer=timer, reload=reload).compact()
    state = state._replace(
        **{kind: things, "bullets": bullets, "enemy_bullets": enemy_bullets}
    )
    return state, grid.count(struck), tf.reduce_any(met)


def _move_enemy_bullets(state):
    """Move enemy bullets; return whether one hits the player before or after it."""
    player = grid.cell(state.y, state.x)
    before = state.enemy_bullets
    left, right = tf.unstack(before)
    after = tf.stack([grid.right(left, -1), grid.right(right, 1)])
    hit = tf.reduce_any((before | after) & player)
    return state._replace(enemy_bullets=after), hit


def _update_oxygen(state, ramping):
    """Update timers and oxygen, and handle the surface."""
    submerged = state.y > 0
    surfaces = ~submerged & ~state.surfaced
    suffocated = state.oxygen <= 0
    empty = surfaces & (state.divers_aboard == 0)
    rescues = surfaces & ~empty
    full = rescues & (state.divers_aboard == CAPACITY)
    reward = tf.where(full, state.oxygen * 10 // OXYGEN, 0)
    aboard = tf.where(full, 0, state.divers_aboard)

    spawns_sooner = state.spawn_speed > RAMP_LEAST_SPAWN
    moves_sooner = state.move_speed > FASTEST
    ramps = rescues & (spawns_sooner | moves_sooner) & ramping
    moves_sooner = ramps & moves_sooner & (state.ramps % 2 == 1)
    oxygen = tf.where(rescues, OXYGEN, state.oxygen)
    state = state._replace(
        oxygen=oxygen - tf.cast(submerged, tf.int32),
        divers_aboard=aboard - tf.cast(rescues, tf.int32),
        surfaced=~submerged & (state.surfaced | rescues),
        move_speed=state.move_speed - tf.cast(moves_sooner, tf.int32),
        spawn_speed=state.spawn_speed - tf.cast(ramps & spawns_sooner, tf.int32),
        ramps=state.ramps + tf.cast(ramps, tf.int32),
        spawn_timer=tf.maximum(state.spawn_timer - 1, 0),
        diver_timer=tf.maximum(state.diver_timer - 1, 0),
        reload=tf.maximum(state.reload - 1, 0),
    )
    return state, reward, suffocated | empty


# ---- things


def _no_things(count):
    off, zeros = tf.zeros([count], tf.bool), tf.zeros([count], tf.int32)
    return Things(off, zeros, zeros, off, zeros, zeros)


def _cells(things):
    return grid.cells(things.present, things.y, things.x)


def _concat(one, other):
    return Things(*(tf.concat(fields, 0) for fields in zip(one, other, strict=True)))


def _ranks(things, order):
    """Return int32 ``[n]``, the rank in ``order`` among the things of its cell."""
    same = _same_cell(things, things)
    before = order[:, np.newaxis] > order
    return tf.reduce_sum(tf.cast(same & before, tf.int32), 1)


def _match(queue, takers, ranks):
    """Match the first of both kinds in every cell, then the second, and so on.

    The things of the queue are in order, and ``ranks`` are the places of the takers in
    their cells, int32. Return which things of the queue have a match, and which takers.
    """
    places = _ranks(queue, np.arange(queue.present.shape[0]))
    pairs = _same_cell(queue, takers) & (places[:, tf.newaxis] == ranks)
    return tf.reduce_any(pairs, 1), tf.reduce_any(pairs, 0)


def _same_cell(one, other):
    """Return bool ``[n, m]``, whether both exist and are in one cell."""
    x = one.x[:, tf.newaxis] == other.x
    y = one.y[:, tf.newaxis] == other.y
    return x & y & one.present[:, tf.newaxis] & other.present


RULES = GameRules(CHANNELS, tuple(range(6)), draw, start, advance, picture)
