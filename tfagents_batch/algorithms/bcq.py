"""Batch-constrained Q-learning of Discrete actions (Fujimoto et al. 2019).

Q-learning from logged rows, arXiv:1910.01708: in targets and in decisions, only actions
count that an imitator of the logged policy finds likely enough. With the threshold 0 it
is Q-learning over all actions, with 1 it is behavior cloning.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, Literal

import keras
import tensorflow as tf

from tfagents_batch.algorithms.shared import alarms
from tfagents_batch.algorithms.shared.off_policy import RowValueSettings
from tfagents_batch.algorithms.shared.optimization import NetworkLearner
from tfagents_batch.config import inherited, number, option
from tfagents_batch.errors import UserError
from tfagents_batch.graph.inputs import Inputs
from tfagents_batch.metrics import Limit
from tfagents_batch.nn import actor, networks, q_network, user
from tfagents_batch.nn.policies.discrete import EpsilonGreedy, both, log_policy
from tfagents_batch.ops import masked, td, windows
from tfagents_batch.ops.branches import best
from tfagents_batch.schedules import Constant
from tfagents_batch.types import (
    ActionValueHeads,
    Assessment,
    EnvSpec,
    Nest,
    TimeStep,
    Trajectory,
    Updated,
)


@dataclasses.dataclass(frozen=True)
class BCQConfig(RowValueSettings):
    """Settings of BCQ."""

    max_gradient_norm: float | None = inherited(
        RowValueSettings, "max_gradient_norm", default=10.0
    )
    threshold: float = number(
        0.3,
        "smallest probability of an allowed action, as a share of that of the most "
        "likely one; 0 allows all, 1 only the most likely",
        least=0,
        most=1,
    )
    imitator_updates: int = option(
        0, "updates at the beginning that train the imitator only", least=0
    )
    target: Literal["max", "double"] = option(
        "double",
        "network that chooses the best allowed action of a target: the target network "
        "(max) or the learned one (double)",
    )
    loss: td.Loss = option("huber", "loss of the TD error")
    network: q_network.RowQConfig = option(
        q_network.RowQConfig(), "shape of the network of action values"
    )
    imitator: actor.RowActorConfig = option(
        actor.RowActorConfig(), "shape of the imitator"
    )

    OF_AGENT: ClassVar[tuple[str, ...]] = (
        "network.activation",
        "network.dueling",
        "imitator.activation",
    )

    def check(self) -> BCQConfig:
        checked = super().check()
        if checked.network.noisy:
            raise UserError(
                "network.noisy is true, but nothing explores while BCQ learns from "
                "logged rows; leave it out"
            )
        imitator = checked.imitator.check("imitator.")
        return dataclasses.replace(checked, imitator=imitator)

    def alarms(self, spec: EnvSpec | None = None) -> tuple[Limit, ...]:
        advice = "rewards of about 1; a larger --algorithm.threshold"
        return (alarms.diverging_values(10, self.gamma, advice),)


class Imitated(keras.Model):
    """Action values with an imitator of the policy that was logged.

    Action a is allowed if mu(a | s) >= threshold max_b mu(b | s), where mu are the
    imitator's probabilities of the valid actions (Fujimoto et al. 2019,
    arXiv:1910.01708, eq. 3). The most likely action is always allowed.

    Args:
      values: network of action values, without noise.
      imitator: actor with the output ``logits``.
      threshold: from 0, all actions, to 1, the most likely one; a number or a variable.
    """

    noisy = False

    def __init__(
        self, values: q_network.QNetwork, imitator: actor.ActorNetwork, threshold: Any
    ):
        super().__init__(name="imitated", dtype="float32")
        self.values, self.imitator = values, imitator
        self._threshold = lambda: threshold
        self.size = values.size
        self.convolves = values.convolves or imitator.convolves
        self.built = True

    def noise(self, shape, key: tf.Tensor) -> Nest:
        """Return no noise."""
        return ()

    def call(self, timestep: TimeStep, state: Nest = (), noise: Nest = ()):
        heads: ActionValueHeads = self.values(timestep, (), noise)[0]
        return heads._replace(allowed=self.allowed(self.log_mu(timestep))), state

    def allowed(self, log_mu: tf.Tensor) -> tf.Tensor:
        """Return which actions are allowed, bool ``[N, A]``."""
        least = tf.math.log(tf.convert_to_tensor(self._threshold()))
        return log_mu - tf.reduce_max(log_mu, -1, keepdims=True) >= least

    def log_mu(self, timestep: TimeStep) -> tf.Tensor:
        """Return ln mu(a | s), f32 ``[N, A]``; very small for invalid actions."""
        return log_policy(self.imitator, timestep)


class BCQ(tf.Module):
    """BCQ; satisfies ``interfaces.Algorithm``.

    Actions are Discrete. A user's network is a builder of models, for action values and
    for the imitator. ``network`` is both, see ``Imitated``.
    """

    def __init__(self, config: BCQConfig, spec: EnvSpec, network: Any = None):
        super().__init__()
        self.config = config = config.check()
        self._spec, self._custom = spec, user.distinct(network)
        self.policy = self.make_policy()
        self.network = self.policy.network
        self.target = q_network.q_network(spec, config.network, self._custom)
        self.learner = NetworkLearner(
            config,
            self.policy,
            trained={
                "network": self.network.values.trainable_variables,
                "imitator": self.network.imitator.trainable_variables,
            },
            target=[(self.target, self.network.values)],
            variables={"target": networks.named_variables(self.target)},
        )
        self.compilable = self.learner.compilable

    def make_policy(self) -> EpsilonGreedy:
        spec, config = self._spec, self.config
        q_network.number_of_actions(spec)  # refuses other actions than Discrete
        values = q_network.q_network(spec, config.network, self._custom)
        heads = {"logits": values.size}
        imitator = actor.ActorNetwork(spec, config.imitator, heads, self._custom)
        network = Imitated(values, imitator, Inputs(config).threshold)
        return EpsilonGreedy(network, spec.action_space, Constant(0.0))

    def update(self, trajectory: Trajectory, seed, step) -> Updated:
        """Train on a batch of rows ``[1, N]``.

        - Q moves to y = r + gamma Q'(s', a'), a' the best allowed action in s'.
        - The imitator follows the gradient of -ln mu(a | s).
        """
        learner, config = self.learner, self.learner.inputs
        metrics, optimizers = learner.set_learning_rate(step), learner.optimizers
        begins = step >= config.imitator_updates if config.imitator_updates else True
        batch = windows.transition(trajectory, 1, config.gamma)
        mask, action = batch.mask, self.policy.index(batch.action)
        target = self._target(batch)

        def td_loss():
            q = td.chosen(self.network.values(batch.step)[0].q, action)
            losses = td.error_loss(target - q, config.loss)
            loss = td.loss(losses, mask) + networks.added_loss(self.network.values)
            return loss, (loss, q)

        def imitation_loss():
            log_mu = self.network.log_mu(batch.step)
            loss = -masked.mean(td.chosen(log_mu, action), mask)
            loss += networks.added_loss(self.network.imitator)
            return loss, (loss, log_mu)

        (loss, q), steps = optimizers["network"].minimize(td_loss, when=begins)
        (imitation, log_mu), others = optimizers["imitator"].minimize(imitation_loss)
        skipped = tf.maximum(steps["grad/skipped"], others["grad/skipped"])
        learner.move_targets()
        allowed = tf.cast(self.network.allowed(log_mu), tf.float32)
        shown = {
            "policy/allowed": tf.reduce_mean(allowed, -1),
            "value/q": q,
            "value/target": target,
            "value/td_error": tf.abs(target - q),
        }
        metrics |= steps | {"grad/skipped": skipped}
        metrics |= {"loss/td": loss, "loss/imitator": imitation}
        return Updated(metrics | {k: masked.mean(x, mask) for k, x in shown.items()})

    def assess(self, trajectory: Trajectory) -> Assessment:
        batch = windows.transition(trajectory, 1, self.learner.inputs.gamma)
        heads = self.network(batch.step)[0]
        _, valid = networks.split_mask(batch.step.observation)
        target = tf.where(batch.mask, self._target(batch), float("nan"))
        action = best(heads.q, both(valid, heads.allowed))
        return Assessment(heads.q, target, tf.one_hot(action, self.network.size))

    def _target(self, batch: windows.Transition) -> tf.Tensor:
        """Return r + gamma Q'(s', a), a the best allowed action in s', f32 ``[N]``."""
        _, valid = networks.split_mask(batch.next.observation)
        allowed = self.network.allowed(self.network.log_mu(batch.next))
        allowed = both(valid, allowed)
        later = chooser = self.target(batch.next)[0].q
        if self.config.target == "double":
            chooser = self.network.values(batch.next)[0].q
        value = td.chosen(later, best(chooser, allowed))
        target = td.target(batch.reward, batch.discount, value)
        return masked.safe(target, batch.mask)
