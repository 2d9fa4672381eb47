"""Linear Q-learning from a replay: the least that an algorithm needs."""

import dataclasses
import math

import keras
import numpy as np
import tensorflow as tf

from tfagents_batch import seeds
from tfagents_batch.clocks import Ratio
from tfagents_batch.config import check, option
from tfagents_batch.nn.policies.base import NetworkPolicy
from tfagents_batch.ops import td
from tfagents_batch.types import Updated, UpdateSize, Windows


@dataclasses.dataclass(frozen=True)
class Config:
    learning_rate: float = option(0.1, "step size", above=0)

    def check(self):
        return check(self)

    source, OF_AGENT = ("replay", {}), ()

    def alarms(self, spec=None):
        return ()

    def accepts(self):
        ratio = Ratio(updates=1, steps=1, start=50)
        return {"windows": Windows(batch_size=16, length=2, ratio=ratio)}

    def update_size(self, collected):
        return UpdateSize(16, ())


class Greedy(tf.Module):
    def __init__(self, spec):
        super().__init__()
        shape = math.prod(spec.observation_space.shape), int(spec.action_space.n)
        self.weights = keras.Variable(np.zeros(shape), dtype="float32")
        self.version = tf.Variable(0, dtype=tf.int64, trainable=False)
        self.initial_state = lambda batch: ()
        self.noise = lambda shape, seed: seeds.uniform(shape, seeds.key(seed, "noise"))
        self.assign_from = lambda policy: NetworkPolicy.assign_from(self, policy)
        self.named_variables = lambda: {"policy/weights": self.weights}

    def act(self, timestep, state, noise, step, explore):
        q = tf.cast(timestep.observation, tf.float32) @ self.weights.value
        drawn = tf.cast(noise * 5 * q.shape[-1], tf.int32)  # a fifth is an action
        random = explore & (drawn < q.shape[-1])
        return tf.where(random, drawn, tf.argmax(q, -1, tf.int32)), {}, state


class LinearQ(tf.Module):
    compilable = True

    def __init__(self, config, spec, network=None):
        super().__init__()
        self.config, self._spec = config.check(), spec
        self.policy = self.make_policy()
        self.learner = self.policy  # it has all variables of a checkpoint

    def make_policy(self):
        return Greedy(self._spec)

    def update(self, trajectory, seed, step):
        weights, steps = self.policy.weights, trajectory.steps
        now, then = (
            tf.cast(steps.observation[t], tf.float32) @ weights.value for t in (0, 1)
        )
        discount = trajectory.discount(0.9)[0]
        goal = td.target(steps.reward[1], discount, tf.reduce_max(then, -1))
        action = trajectory.action[0]
        error = tf.where(trajectory.mask[0], goal - td.chosen(now, action), 0.0)
        columns = tf.one_hot(action, now.shape[-1]) * error[:, tf.newaxis]
        rows = tf.cast(steps.observation[0], tf.float32)
        change = tf.matmul(rows, columns, transpose_a=True) / 16
        weights.assign_add(self.config.learning_rate * change)
        loss = tf.reduce_mean(tf.square(error))
        return Updated({"loss/td": loss, "grad/updates": tf.ones([])})
