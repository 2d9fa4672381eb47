"""Behavior cloning: the most likely policy of logged rows (Pomerleau 1991).

Of Discrete actions, it is the cross-entropy between logged actions and the policy's
probabilities over the actions that were possible (Horizon's imitator). Of Box actions,
it is the density of a normal distribution.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, ClassVar

import gymnasium as gym
import tensorflow as tf

from tfagents_batch import config as configs
from tfagents_batch import nest
from tfagents_batch.algorithms.shared import one_network
from tfagents_batch.config import number, option
from tfagents_batch.errors import UserError
from tfagents_batch.interfaces import (
    Accepts,
    Assessment,
    BoxAssessment,
    DefaultSource,
    Rows,
    Updated,
    UpdateSize,
)
from tfagents_batch.metrics import Limit, Metrics
from tfagents_batch.nn import actor, networks, user
from tfagents_batch.nn.bounds import bounds
from tfagents_batch.nn.exploration import Warmup
from tfagents_batch.nn.optimizer import Rule
from tfagents_batch.nn.policies.box import ClippedNormal
from tfagents_batch.nn.policies.softmax import Softmax
from tfagents_batch.ops import masked, td
from tfagents_batch.schedules import Constant, Schedule
from tfagents_batch.types import EnvSpec, Trajectory


@dataclasses.dataclass(frozen=True)
class Config:
    """Settings of behavior cloning."""

    learning_rate: Schedule = number(
        Constant(1e-3), "learning rate of the optimizer", least=0
    )
    optimizer: Rule = option(
        "adam", "adam, rmsprop as in PyTorch, or rmsprop_tf as in TensorFlow 1"
    )
    optimizer_epsilon: float = number(1e-8, "epsilon of the optimizer", above=0)
    max_gradient_norm: float | None = number(
        None, "largest global norm of the gradient; none: any", above=0
    )
    batch_size: int = option(256, "rows per update", least=1)
    histograms: bool = option(True, "log histograms of weights and gradients")
    network: actor.Config = option(actor.Config(), "shape of the network")

    source: ClassVar[DefaultSource] = "table", {}
    OF_AGENT: ClassVar[tuple[str, ...]] = ("network.activation",)

    def check(self) -> Config:
        """Return the checked settings.

        Raises:
          UserError: for a setting that is invalid.
        """
        checked = configs.check(self)
        return dataclasses.replace(checked, network=checked.network.check("network."))

    def accepts(self) -> Accepts:
        """Return that it learns from rows."""
        return {"rows": Rows(self.batch_size)}

    def alarms(self, spec: EnvSpec | None = None) -> tuple[Limit, ...]:
        """Return no limits."""
        del spec
        return ()

    def update_size(self, transitions: int) -> UpdateSize:
        """Return the size of an update."""
        del transitions
        return UpdateSize(self.batch_size, self.network.hidden or actor.HIDDEN)


class BC(tf.Module):
    """Behavior cloning; satisfies ``interfaces.Algorithm``.

    Args:
      config: settings.
      spec: spec of the rows.
      network: the user's ``keras.Model`` or builder, see ``nn.user``; None uses the
        built-in network.

    Raises:
      UserError: if actions are neither Discrete nor a bounded Box.
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
        self.learner = learner = one_network.Learner(config, self.policy)
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
