"""Algorithms of a user, outside of the package; a file for ``./file.py:Class``."""

import dataclasses

import tensorflow as tf

from tfagents_batch.algorithms import dqn, ppo
from tfagents_batch.config import option


@dataclasses.dataclass(frozen=True)
class Settings(ppo.Config):
    """PPO's settings and one more."""

    weight: float = option(0.5, "weight of the mean squared logit", least=0)


class Calm(ppo.PPO):
    """PPO with another loss, whose logits stay small."""

    Config = Settings
    METRICS = (*ppo.PPO.METRICS, "loss/logits")

    def _loss(self, batch, mask, entropy_scale):
        loss, metrics = super()._loss(batch, mask, entropy_scale)
        heads = self.network(batch.steps)[0]
        size = tf.reduce_mean(tf.square(heads.policy.logits))
        return loss + self.config.weight * size, metrics | {"loss/logits": size}


class Undirected(dqn.DQN):
    """DQN that explores by another rule: half of its random actions are action 0."""

    Config = dqn.Config

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
