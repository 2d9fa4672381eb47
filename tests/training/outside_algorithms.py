"""Algorithms of a user, outside of the package; a file for ``./file.py:Class``."""

import tensorflow as tf

from tfagents_batch.algorithms import dqn


class Undirected(dqn.DQN):
    """DQN that explores by another rule: half of its random actions are action 0."""

    Config = dqn.DQNConfig

    def make_policy(self):
        policy = super().make_policy()
        act = policy.act

        def mostly_first(timestep, state, noise, step, explore):
            action, behavior, state = act(timestep, state, noise, step, explore)
            if explore:
                random = noise.explore < policy.epsilon(step) / 2
                action = tf.where(random, 0, action)
            return action, behavior, state

        policy.act = mostly_first
        return policy


class NoSettings:
    """Lacks everything."""


function = len
