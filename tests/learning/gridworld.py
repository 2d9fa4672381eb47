"""Gridworld with possible actions, features of actions, and exact action values."""

from __future__ import annotations

import gymnasium
import numpy as np
import tensorflow as tf

from tfagents_batch import seeds

SIZE, GOAL, WALLS = 5, 24, (7, 12, 17)
CELLS, ACTIONS = SIZE * SIZE, 4  # left, right, up, down
SLIP = 0.01  # probability of each of the two perpendicular moves
GAMMA = 0.9


def _target(cell: int, action: int) -> int:
    """Return the cell that a move leads to; a blocked one does not move."""
    row, column = divmod(cell, SIZE)
    row += {2: -1, 3: 1}.get(action, 0)
    column += {0: -1, 1: 1}.get(action, 0)
    inside = 0 <= row < SIZE and 0 <= column < SIZE
    there = row * SIZE + column
    return there if inside and there not in WALLS else cell


TARGETS = np.array([[_target(s, a) for a in range(ACTIONS)] for s in range(CELLS)])
POSSIBLE = np.arange(CELLS)[:, np.newaxis] != TARGETS
# Cells in which an agent acts.
ACTING = np.array([s not in (*WALLS, GOAL) for s in range(CELLS)])
_SIDES = np.array([[2, 3], [2, 3], [0, 1], [0, 1]])


def chances() -> np.ndarray:
    """Return P(s' | s, a), f64 ``[25, 4, 25]``."""
    found = np.zeros([CELLS, ACTIONS, CELLS])
    for s in range(CELLS):
        for a in range(ACTIONS):
            found[s, a, TARGETS[s, a]] += 1 - 2 * SLIP
            for side in _SIDES[a]:
                found[s, a, TARGETS[s, side]] += SLIP
    return found


def action_values(policy: np.ndarray | None = None) -> np.ndarray:
    """Return the exact Q, f64 ``[25, 4]``: Q = P (r + gamma sum_a pi(a | s') Q(s', a)).

    Args:
      policy: pi(a | s), f64 ``[25, 4]``; None for the best policy, found by policy
        iteration.
    """
    if policy is None:
        policy = uniform()
        for _ in range(20):
            q = np.where(POSSIBLE, action_values(policy), -np.inf)
            policy = np.eye(ACTIONS)[q.argmax(-1)]
    moves = chances()
    reward = moves[:, :, GOAL].reshape(-1)
    to_next = np.einsum("sat,tb->satb", moves * ACTING, policy)
    to_next = to_next.reshape(reward.size, reward.size)
    q = np.linalg.solve(np.eye(reward.size) - GAMMA * to_next, reward)
    return q.reshape(CELLS, ACTIONS)


def uniform() -> np.ndarray:
    """Return the policy that takes every possible action equally often."""
    return POSSIBLE / POSSIBLE.sum(-1, keepdims=True).clip(1)


class PossibleActions:
    """The gridworld in TensorFlow; the reward is 1 when the goal is entered.

    Observations have the cell, one-hot, and ``action_mask``. With ``features``, also
    ``action_features``: the rows and columns of each move. Then action i is move
    (i + shift) % 4, where every step draws another shift: only features tell moves.

    Args:
      features: whether actions have features.
    """

    def __init__(self, features: bool = False):
        box, bits = gymnasium.spaces.Box, gymnasium.spaces.MultiBinary
        parts = {"cell": box(0.0, 1.0, (CELLS,)), "action_mask": bits(ACTIONS)}
        if features:
            parts["action_features"] = box(-1.0, 1.0, (ACTIONS, 2))
        self._features = features
        self.observation_space = gymnasium.spaces.Dict(parts)
        self.action_space = gymnasium.spaces.Discrete(ACTIONS)
        self.max_episode_steps = 1000

    def reset(self, key):
        return self._arrive(tf.constant(0), key)

    def step(self, state, action, key):
        state, shift = state
        action = (action + shift) % ACTIONS
        u = seeds.uniform([], key)
        sides = tf.gather(tf.constant(_SIDES, tf.int32), action)
        action = tf.where(u < SLIP, sides[0], action)
        action = tf.where(u > 1 - SLIP, sides[1], action)
        row = tf.gather(tf.constant(TARGETS, tf.int32), state)
        state = tf.gather(row, action)
        goal = state == GOAL
        return *self._arrive(state, key), tf.where(goal, 1.0, 0.0), goal

    def observe(self, state, shift):
        """Return the observation of a cell, with action i for move (i + shift) % 4."""
        order = (tf.range(ACTIONS) + shift) % ACTIONS
        mask = tf.gather(tf.gather(tf.constant(POSSIBLE), state), order)
        found = {
            "cell": tf.one_hot(state, CELLS),
            "action_mask": tf.cast(mask, tf.int8),
        }
        if self._features:
            moves = np.array([[0, -1], [0, 1], [-1, 0], [1, 0]], np.float32)
            found["action_features"] = tf.gather(tf.constant(moves), order)
        return found

    def _arrive(self, state, key):
        shift = tf.constant(0)
        if self._features:
            shift = seeds.integers([], seeds.fold(key, 1), ACTIONS)
        return (state, shift), self.observe(state, shift)
