"""Environment that plays one of the games: sticky actions, spaces and pictures."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import gymnasium
import numpy as np
import tensorflow as tf

from tfagents_batch import seeds
from tfagents_batch.envs.shared import arguments
from tfagents_batch.envs.tf import drawing
from tfagents_batch.envs.tf.minatar import grid
from tfagents_batch.types import Nest


class GameRules(NamedTuple):
    """Rules of a game."""

    channels: tuple[str, ...]  # names of the planes of a picture
    actions: tuple[int, ...]  # those of ``grid`` that have an effect
    # From a key to the random numbers of a step or a start. It is separate, so that
    # tests can give the same numbers to another implementation.
    draw: Callable[[tf.Tensor], Nest]
    start: Callable[[Nest], Nest]  # from random numbers to the state at the start
    # From ``(state, action, drawn, ramping)`` to the state, the reward int32 [], and
    # whether the game is over.
    advance: Callable[..., tuple[Nest, tf.Tensor, tf.Tensor]]
    picture: Callable[[Nest], tf.Tensor]  # from a state to bool [10, 10, channels]


class MinAtarState(NamedTuple):
    """The game's own state, and the last action, which may be repeated."""

    game: Nest
    action: tf.Tensor


class MinAtar:
    """A game of MinAtar; the observation is bool ``[10, 10, channels]``.

    Args:
      rules: rules of the game.
      sticky_action_prob: probability of repeating the previous action instead (Machado
        et al., 2018).
      difficulty_ramping: whether the game gets faster, if its rules have that.
      use_minimal_action_set: allow only actions that have an effect, not all six.
      max_episode_steps: time limit in steps; None sets no limit, as in the original
        games.
    """

    render_fps = 10

    def __init__(
        self,
        rules: GameRules,
        sticky_action_prob: float = 0.1,
        difficulty_ramping: bool = True,
        use_minimal_action_set: bool = True,
        max_episode_steps: int | None = 5000,
    ):
        arguments.at_least("sticky_action_prob", sticky_action_prob, 0, 1)
        self.rules = rules
        self.max_episode_steps = max_episode_steps
        self._sticky = sticky_action_prob
        self._ramping = difficulty_ramping
        self._actions = rules.actions if use_minimal_action_set else tuple(range(6))
        shape = (grid.SIZE, grid.SIZE, len(rules.channels))
        self.observation_space = gymnasium.spaces.Box(0, 1, shape, np.bool_)  # pyright: ignore[reportArgumentType, reportCallIssue]
        self.action_space = gymnasium.spaces.Discrete(len(self._actions))

    def reset(self, key):
        game = self.rules.start(self.rules.draw(key))
        return MinAtarState(game, tf.constant(grid.NOOP)), self.rules.picture(game)

    def step(self, state, action, key):
        sticking, drawing_key = seeds.split(key)
        action = tf.gather(tf.constant(self._actions), action)
        sticks = seeds.bernoulli([], sticking, self._sticky)
        action = tf.where(sticks, state.action, action)
        game, reward, over = self.rules.advance(
            state.game, action, self.rules.draw(drawing_key), self._ramping
        )
        return MinAtarState(game, action), self.rules.picture(game), reward, over

    def render(self, state):
        """Draw each channel in its color; later channels cover earlier ones."""
        planes = self.rules.picture(tf.nest.map_structure(tf.constant, state.game))
        colors = np.zeros([grid.SIZE, grid.SIZE, 3], np.uint8)
        for channel, plane in enumerate(np.moveaxis(planes.numpy(), -1, 0)):
            colors[plane] = _color(channel / len(self.rules.channels))
        return drawing.cells(colors, 32)


def _color(hue: float) -> tuple[int, int, int]:
    """Return a bright color; ``hue`` is in [0, 1)."""
    angles = 2 * np.pi * (hue + np.array([0, 1 / 3, 2 / 3]))
    return tuple((155 + 100 * np.cos(angles)).astype(int))
