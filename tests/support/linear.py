"""Linear actor-critic, for tests of runs, checkpoints, logs and evaluations.

Tracing takes a tenth of the time of PPO, which needs a second or two. Like PPO it
learns, samples actions, and has a schedule and optimizer state. The fixture ``linear``
registers it.
"""

from __future__ import annotations

import dataclasses
import math

import keras
import numpy as np
import tensorflow as tf

from tfagents_batch import spaces
from tfagents_batch.config import check, option
from tfagents_batch.nn.policies.base import NetworkPolicy
from tfagents_batch.ops import distributions, masked, returns
from tfagents_batch.schedules import Constant, Schedule
from tfagents_batch.types import Rollouts, Updated, UpdateSize


@dataclasses.dataclass(frozen=True)
class Config:
    """Settings of the linear actor-critic."""

    source, OF_AGENT = ("rollout", {}), ()

    gamma: float = option(0.9, "discount factor per step", least=0, most=1)
    learning_rate: Schedule = option(Constant(1e-2), "step size", least=0)

    def check(self) -> Config:
        return check(self)

    def alarms(self, spec=None):
        return ()

    def accepts(self):
        return {"rollouts": Rollouts()}

    def update_size(self, collected: int) -> UpdateSize:
        return UpdateSize(collected, ())


class LinearPolicy(tf.Module):
    """Policy and value as linear functions of the observation."""

    def __init__(self, spec):
        super().__init__()
        self._family = distributions.for_space(spec.action_space)
        width = sum(
            math.prod(leaf.space.shape)
            for leaf in spaces.leaves(spec.observation_space)
        )
        start = keras.random.normal([width + 1, self._family.size + 1], stddev=0.1)
        self.weights = keras.Variable(start, trainable=False)
        self.version = tf.Variable(0, dtype=tf.int64, trainable=False)

    def initial_state(self, batch):
        return ()

    def noise(self, shape, seed):
        return self._family.noise(shape, seed)

    def act(self, timestep, state, noise, step, explore):
        policy, _ = self.heads(timestep.observation)
        action = policy.sample(noise) if explore else policy.mode()
        return action, {"log_prob": policy.log_prob(action)}, state

    assign_from = NetworkPolicy.assign_from

    def named_variables(self):
        return {"policy/weights": self.weights}

    def heads(self, observation, rows=None):
        """Return the policy of the first ``rows`` rows, and the value of all."""
        axes = 1 if rows is None else 2
        columns = [
            tf.reshape(
                tf.cast(x, tf.float32), [*x.shape[:axes], math.prod(x.shape[axes:])]
            )
            for x in tf.nest.flatten(observation)
        ]
        columns.append(tf.ones_like(columns[0][..., :1]))
        outputs = tf.tensordot(tf.concat(columns, -1), self.weights.value, 1)
        std = tf.ones([self._family.size]) if self._family.needs_std else None
        return self._family.make(outputs[:rows, ..., :-1], std), outputs[..., -1]


class Linear(tf.Module):
    """Policy gradient with a value baseline; one momentum step per update."""

    compilable = True
    learner = property(lambda self: self)  # ``named_variables`` is its own

    def __init__(self, config, spec, network=None):
        super().__init__()
        assert network is None
        self.config = config.check()
        self._spec = spec
        self.policy = self.make_policy()
        self.weights = self.policy.weights
        start = np.zeros(self.weights.shape)
        self.momentum = keras.Variable(start, dtype="float32", trainable=False)

    def make_policy(self):
        return LinearPolicy(self._spec)

    def update(self, trajectory, seed, step):
        mask = trajectory.mask
        rate = self.config.learning_rate(step)
        with tf.GradientTape() as tape:
            tape.watch(self.weights.value)
            policy, value = self.policy.heads(trajectory.steps.observation, rows=-1)
            advantage = returns.gae(
                trajectory.reward,
                trajectory.discount(self.config.gamma),
                tf.stop_gradient(value),
                1.0,
                mask,
            )
            target = advantage + tf.stop_gradient(value[:-1])
            log_prob = policy.log_prob(trajectory.action)
            policy_loss = -masked.mean(log_prob * advantage, mask)
            value_loss = masked.mean(tf.square(target - value[:-1]), mask)
            total = policy_loss + 1e-3 * value_loss
        gradient = tape.gradient(total, self.weights.value)
        self.momentum.assign(0.9 * self.momentum.value + gradient)
        self.weights.assign_sub(rate * self.momentum.value)
        metrics = {
            "loss/total": total,
            "loss/policy": policy_loss,
            "loss/value": value_loss,
            "policy/entropy": masked.mean(policy.entropy(), mask),
            "grad/norm": tf.norm(gradient),
            "grad/skipped": tf.cast(~tf.math.is_finite(tf.norm(gradient)), tf.float32),
            "grad/learning_rate": rate,
            "grad/updates": tf.constant(1.0),
            "histogram/weights": tf.reshape(self.weights.value, [-1]),
        }
        return Updated(metrics)

    def named_variables(self):
        return {
            **self.policy.named_variables(),
            "learner/momentum": self.momentum,
        }
