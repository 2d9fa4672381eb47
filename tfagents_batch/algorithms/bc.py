"""Behavior cloning: the most likely policy of logged rows (Pomerleau 1991).

Of Discrete actions, it is the cross-entropy between logged actions and the policy's
probabilities over the actions that were possible (Horizon's imitator). Of Box actions,
it is the density of a normal distribution.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import gymnasium as gym
import tensorflow as tf

from tfagents_batch import nest
from tfagents_batch.algorithms.shared.off_policy import RowSettings
from tfagents_batch.algorithms.shared.optimization import NetworkLearner
from tfagents_batch.config import number, option
from tfagents_batch.errors import UserError
from tfagents_batch.nn import actor, networks, user
from tfagents_batch.nn.policies.box import ClippedNormal, clipped_normal
from tfagents_batch.nn.policies.discrete import Softmax, softmax
from tfagents_batch.ops import masked, td
from tfagents_batch.schedules import Constant, Schedule
from tfagents_batch.types import (
    Assessment,
    BoxAssessment,
    EnvSpec,
    TimeStep,
    Trajectory,
    Updated,
)


@dataclasses.dataclass(frozen=True)
class BCConfig(RowSettings):
    """Settings of behavior cloning."""

    learning_rate: Schedule = number(
        Constant(1e-3), "learning rate of the optimizer", least=0
    )
    network: actor.RowActorConfig = option(
        actor.RowActorConfig(), "shape of the network"
    )


class BC(tf.Module):
    """Behavior cloning; satisfies ``interfaces.Algorithm``.

    Actions are Discrete or a bounded Box.
    """

    def __init__(self, config: BCConfig, spec: EnvSpec, network: Any = None):
        super().__init__()
        self.config = config = config.check()
        space = spec.action_space
        self._discrete = isinstance(space, gym.spaces.Discrete)
        if not isinstance(space, (gym.spaces.Discrete, gym.spaces.Box)):
            raise UserError(
                f"the action space is {space}; behavior cloning needs Discrete "
                "actions, or a Box of floats"
            )
        self._spec, self._custom = spec, user.distinct(network)
        self.policy = self.make_policy()
        self.network = self.policy.network
        weights = {"actor": self.network.trainable_variables}
        self.learner = NetworkLearner(config, self.policy, weights)
        self.compilable = self.learner.compilable

    def make_policy(self) -> Softmax | ClippedNormal:
        make = softmax if self._discrete else clipped_normal
        return make(self._spec, self.config.network, self._custom)

    def update(self, trajectory: Trajectory, seed, step) -> Updated:
        """Take a gradient step of -ln pi(a | s) on a batch of rows ``[1, N]``."""
        metrics, mask = self.learner.set_learning_rate(step), trajectory.mask[0]
        steps = _first(trajectory)

        def discrete():
            log_policy = self.policy.log_policy(steps)
            action = self.policy.index(trajectory.action[0])
            best = tf.argmax(log_policy, -1, tf.int32) == action
            likely = td.chosen(log_policy, action)
            return -likely, {"policy/accuracy": tf.cast(best, tf.float32)}

        def box():
            policy = self.policy.distribution(steps)
            action = self.policy.bounds.unit(trajectory.action[0])
            error = tf.reduce_mean(tf.square(policy.mode() - action), -1)
            return -policy.log_prob(action), {"policy/squared_error": error}

        def loss():
            losses, quality = discrete() if self._discrete else box()
            loss = masked.mean(losses, mask) + networks.added_loss(self.network)
            return loss, (loss, quality)

        (loss, quality), taken = self.learner.optimizers["actor"].minimize(loss)
        means = {name: masked.mean(x, mask) for name, x in quality.items()}
        return Updated(metrics | taken | {"loss/total": loss} | means)

    def assess(self, trajectory: Trajectory) -> Assessment | BoxAssessment:
        step = _first(trajectory)
        if not self._discrete:
            log = self.policy.density_of(step, trajectory.action[0])
            return BoxAssessment((), (), log)
        return Assessment((), (), tf.exp(self.policy.log_policy(step)))


def _first(trajectory: Trajectory) -> TimeStep:
    return nest.map(lambda x: x[0], trajectory.steps._replace(info={}))
