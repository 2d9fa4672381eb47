"""Behavior cloning: the most likely policy of logged rows (Pomerleau 1991).

Of Discrete actions, it is the cross-entropy between logged actions and the policy's
probabilities over the actions that were possible (Horizon's imitator). Of Box actions,
it is the density of a normal distribution.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import gymnasium as gym
import tensorflow as tf

from tfagents_batch import nest
from tfagents_batch.algorithms.shared import one_network, rows
from tfagents_batch.config import number, option
from tfagents_batch.errors import UserError
from tfagents_batch.metrics import Metrics
from tfagents_batch.nn import actor, networks, user
from tfagents_batch.nn.bounds import bounds
from tfagents_batch.nn.exploration import Warmup
from tfagents_batch.nn.policies.box import ClippedNormal
from tfagents_batch.nn.policies.softmax import Softmax
from tfagents_batch.ops import masked, td
from tfagents_batch.schedules import Constant, Schedule
from tfagents_batch.types import Assessment, BoxAssessment, EnvSpec, Trajectory, Updated


@dataclasses.dataclass(frozen=True)
class Config(rows.Settings):
    """Settings of behavior cloning."""

    learning_rate: Schedule = number(
        Constant(1e-3), "learning rate of the optimizer", least=0
    )
    network: actor.Config = option(actor.Config(), "shape of the network")


class BC(tf.Module):
    """Behavior cloning; satisfies ``interfaces.Algorithm``.

    Actions are Discrete or a bounded Box.
    """

    def __init__(self, config: Config, spec: EnvSpec, network: Any = None):
        super().__init__()
        self.config = config = config.check()
        space = spec.action_space
        self._discrete = isinstance(space, gym.spaces.Discrete)
        if not isinstance(space, (gym.spaces.Discrete, gym.spaces.Box)):
            raise UserError(
                f"the action space is {space}; behavior cloning needs Discrete "
                "actions, or a Box of floats"
            )
        self._spec, self._given = spec, user.distinct(network)
        self.policy = self.make_policy()
        self.network = self.policy.network
        self.learner = learner = one_network.Learner(config, self.policy, "actor")
        self.inputs, self.optimizer = learner.inputs, learner.optimizer
        self.compile_parts, self.histograms = learner.compile_parts, learner.histograms
        self.named_variables = learner.named_variables
        self.compilable = not self.network.convolves

    def make_policy(self) -> Softmax | ClippedNormal:
        """Return a policy with variables of its own, like the one that learns."""
        make = functools.partial(actor.Actor, self._spec, self.config.network)
        if not self._discrete:
            limits = bounds(self._spec)
            heads = {"action": limits.size, "log_std": limits.size}
            return ClippedNormal(make(heads, self._given), limits, Warmup(0))
        space = self._spec.action_space
        network = make({"logits": int(space.n)}, self._given)
        return Softmax(network, int(space.n), space.start, Warmup(0))

    def update(self, trajectory: Trajectory, seed, step) -> Updated:
        """Take a gradient step on a batch of rows ``[1, N]``."""
        del seed
        rate = self.inputs.learning_rate(step)
        self.optimizer.set_learning_rate(rate)
        losses_of = self._of_discrete if self._discrete else self._of_box
        mask = trajectory.mask[0]

        def loss():
            losses, quality = losses_of(trajectory)
            loss = masked.mean(losses, mask) + networks.added_loss(self.network)
            return loss, (loss, quality)

        (loss, quality), found = self.optimizer.minimize(loss)
        return Updated(
            found
            | {
                "loss/total": loss,
                **{name: masked.mean(x, mask) for name, x in quality.items()},
                "grad/learning_rate": tf.identity(rate),
                "grad/updates": tf.ones([]),
            }
        )

    def _of_discrete(self, trajectory: Trajectory) -> tuple[tf.Tensor, Metrics]:
        """Return the losses of rows, f32 ``[N]``, and whether actions are the best."""
        log_policy = self._log_policy(trajectory)
        action = self.policy.index(trajectory.action[0])
        best = tf.argmax(log_policy, -1, tf.int32) == action
        likely = td.chosen(log_policy, action)
        return -likely, {"policy/accuracy": tf.cast(best, tf.float32)}

    def _of_box(self, trajectory: Trajectory) -> tuple[tf.Tensor, Metrics]:
        """Return the losses of rows, and squared errors of the policy's means."""
        policy = self.policy.distribution(nest.map(lambda x: x[0], trajectory.steps))
        action = self.policy.bounds.unit(trajectory.action[0])
        error = tf.reduce_mean(tf.square(policy.mode() - action), -1)
        return -policy.log_prob(action), {"policy/squared_error": error}

    def assess(self, trajectory: Trajectory) -> Assessment | BoxAssessment:
        """Return the probabilities or densities of actions, see ``interfaces``."""
        if not self._discrete:
            step = nest.map(lambda x: x[0], trajectory.steps._replace(info={}))
            log = self.policy.density_of(step, trajectory.action[0])
            return BoxAssessment((), (), log)
        return Assessment((), (), tf.exp(self._log_policy(trajectory)))

    def _log_policy(self, trajectory: Trajectory) -> tf.Tensor:
        """Return ln pi(a | s) of all actions in the first states, f32 ``[N, A]``."""
        steps = trajectory.steps._replace(info={})
        first = nest.map(lambda x: x[0], steps)
        _, valid = networks.split_mask(first.observation)
        return td.log_policy(self.network(first)[0]["logits"], 1.0, valid)
