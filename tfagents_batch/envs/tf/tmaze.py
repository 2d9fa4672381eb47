"""T-maze: remember at the junction what the start showed (Bakker, 2002)."""

from __future__ import annotations

import gymnasium
import numpy as np
import tensorflow as tf

from tfagents_batch import seeds
from tfagents_batch.envs.shared import arguments
from tfagents_batch.envs.tf import drawing


class TMaze:
    """A corridor with a sign at its start and a fork at its end.

    The sign says north or south, and is visible at the start only. A turn in its
    direction at the fork gives reward 4, the other turn -1; a step into a wall costs
    0.1. Without memory the best mean return is 1.5.

    Actions are north, east, south and west. A state is int32 ``[2]``: the position, and
    the sign, 1 for north. The observation is float32 ``[3]``: the sign, 1 or -1 at the
    start and 0 elsewhere; 1 in the corridor; 1 at the fork.

    Args:
      length: steps from the start to the fork.
      max_episode_steps: time limit in steps; None uses ``4 * length + 20``.
    """

    render_fps = 5

    def __init__(self, length: int = 10, max_episode_steps: int | None = None):
        arguments.at_least("length", length, 1)
        self.length = length
        default = 4 * length + 20
        self.max_episode_steps = (
            default if max_episode_steps is None else max_episode_steps
        )
        self.observation_space = gymnasium.spaces.Box(-1.0, 1.0, (3,))
        self.action_space = gymnasium.spaces.Discrete(4)

    def reset(self, key):
        state = tf.stack([0, seeds.integers([], key, 2)])
        return state, self._observe(state)

    def step(self, state, action, key):
        position, sign = tf.unstack(state)
        north, east, south = action == 0, action == 1, action == 2
        at_fork = position == self.length
        turned = at_fork & (north | south)
        correct = north == (sign == 1)
        target = position + tf.where(east, 1, tf.where(north | south, 0, -1))
        moved = tf.clip_by_value(target, 0, self.length)
        bumped = (moved == position) & ~turned
        state = tf.stack([moved, sign])
        reward = tf.where(
            turned, tf.where(correct, 4.0, -1.0), tf.where(bumped, -0.1, 0.0)
        )
        return state, self._observe(state), reward, turned

    def render(self, state):
        position, sign = (int(x) for x in state)
        colors = np.full([3, self.length + 1, 3], 60, np.uint8)
        colors[1] = colors[:, -1] = 255
        colors[0 if sign else 2, -1] = (90, 180, 90)
        colors[1, position] = (60, 90, 200)
        return drawing.cells(colors)

    def _observe(self, state):
        position, sign = tf.unstack(state)
        start, fork = position == 0, position == self.length
        shown = tf.where(start, 2.0 * tf.cast(sign, tf.float32) - 1.0, 0.0)
        corridor = tf.cast(~start & ~fork, tf.float32)
        return tf.stack([shown, corridor, tf.cast(fork, tf.float32)])
