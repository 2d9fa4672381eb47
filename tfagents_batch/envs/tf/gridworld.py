"""A grid with walls, goals and traps, drawn as text."""

from __future__ import annotations

from collections.abc import Sequence

import gymnasium
import numpy as np
import tensorflow as tf

from tfagents_batch import seeds
from tfagents_batch.envs.shared import arguments
from tfagents_batch.envs.tf import drawing
from tfagents_batch.errors import UserError

FOUR_ROOMS = (
    "#############",
    "#     #     #",
    "#     #     #",
    "#           #",
    "#     #     #",
    "#     #     #",
    "## ####     #",
    "#     ### ###",
    "#     #     #",
    "#     #     #",
    "#          G#",
    "#     #     #",
    "#############",
)  # Sutton, Precup and Singh (1999), figure 2
_MOVES = np.array([[-1, 0], [0, 1], [1, 0], [0, -1]], np.int32)
_COLORS = {
    "#": (60, 60, 60),
    " ": (255, 255, 255),
    "S": (255, 255, 255),
    "G": (90, 180, 90),
    "X": (200, 80, 70),
}


class GridWorld:
    """Grid to walk up, right, down or left; a step into a wall has no effect.

    A state is int32 ``[2]``, row and column. The observation is the same scaled to
    float32 in [0, 1], or one-hot. Episodes start on a random ``S``, or on any free cell
    if there is no ``S``, and end on ``G`` with reward 1 or on ``X`` with -1.

    Args:
      layout: rows of equal length, of the characters ``# SGX``; ``#`` is a wall.
      slip: probability of a step in a random direction instead.
      step_reward: reward of a step that does not end the episode.
      one_hot: observe ``[rows * columns]`` instead of two coordinates.
      max_episode_steps: time limit in steps.

    Raises:
      UserError: if the layout has no goal, or cannot be read.
    """

    render_fps = 5

    def __init__(
        self,
        layout: Sequence[str] = FOUR_ROOMS,
        slip: float = 0.0,
        step_reward: float = 0.0,
        one_hot: bool = False,
        max_episode_steps: int = 200,
    ):
        arguments.at_least("slip", slip, 0, 1)
        self._cells = _cells(layout)
        self.slip, self.step_reward, self.one_hot = slip, step_reward, one_hot
        self.max_episode_steps = max_episode_steps
        size = self._cells.size
        shape = (size,) if one_hot else (2,)
        self.observation_space = gymnasium.spaces.Box(0.0, 1.0, shape)
        self.action_space = gymnasium.spaces.Discrete(len(_MOVES))
        starts = "S" if (self._cells == "S").any() else " "
        self._starts = np.argwhere(self._cells == starts).astype(np.int32)

    def reset(self, key):
        start = seeds.integers([], key, len(self._starts))
        state = tf.gather(tf.constant(self._starts), start)
        return state, self._observe(state)

    def step(self, state, action, key):
        slips, side = seeds.split(key)
        action = tf.where(
            seeds.bernoulli([], slips, self.slip), seeds.integers([], side, 4), action
        )
        target = state + tf.gather(tf.constant(_MOVES), action)
        state = tf.where(self._is("#", target), state, target)
        goal, trap = self._is("G", state), self._is("X", state)
        reward = tf.where(goal, 1.0, tf.where(trap, -1.0, self.step_reward))
        return state, self._observe(state), reward, goal | trap

    def render(self, state):
        colors = np.array([[_COLORS[c] for c in row] for row in self._cells], np.uint8)
        colors[int(state[0]), int(state[1])] = (60, 90, 200)
        return drawing.cells(colors)

    def _is(self, kind, position):
        mask = tf.constant((self._cells == kind).ravel())
        return tf.gather(mask, self._index(position))

    def _index(self, position):
        return position[0] * self._cells.shape[1] + position[1]

    def _observe(self, position):
        if self.one_hot:
            return tf.one_hot(self._index(position), self._cells.size)
        most = np.array(self._cells.shape, np.float32) - 1
        return tf.cast(position, tf.float32) / most


def _cells(layout: Sequence[str]) -> np.ndarray:
    """Return characters ``[rows, columns]``, with walls added around the layout."""
    widths = {len(row) for row in layout}
    unknown = {cell for row in layout for cell in row} - set(_COLORS)
    if len(widths) != 1 or unknown:
        raise UserError(
            f"layout has rows of {sorted(widths)} cells and unknown cells "
            f"{sorted(unknown)}; expected rows of equal length, of {''.join(_COLORS)!r}"
        )
    cells = np.array([list(row) for row in layout])
    if not (cells == "G").any() or not ((cells == "S") | (cells == " ")).any():
        raise UserError("layout needs a goal G, and a free cell or S to start from")
    return np.pad(cells, 1, constant_values="#")
