"""Distillation: a student learns from rollouts of its own that a teacher labels.

It is DAgger (Ross et al. 2011, arXiv:1011.0686) without the aggregation: each update
learns from the states of the newest rollouts only, which the student has visited, and
the teacher never acts. So the student may lack memory or entries of observations that
the teacher has. A value of the student's policy is learned beside, with which PPO goes
on from the student.
"""

from __future__ import annotations

import dataclasses
from typing import Literal

import tensorflow as tf
from gymnasium import spaces as gs

from tfagents_batch import nest
from tfagents_batch.algorithms.shared import alarms, on_policy
from tfagents_batch.config import number, option
from tfagents_batch.errors import UserError
from tfagents_batch.graph import epochs, training_batch
from tfagents_batch.graph.training_batch import Batch
from tfagents_batch.interfaces import Policy
from tfagents_batch.metrics import Limit
from tfagents_batch.nn import networks, summary
from tfagents_batch.nn.policies.actor_critic import ActorCriticPolicy
from tfagents_batch.ops import losses, masked, returns
from tfagents_batch.types import EnvSpec, Nest, TimeStep, Trajectory, Updated

METRICS = (
    *("loss/total", "loss/imitation", "loss/value", "loss/network"),
    *("policy/entropy", "grad/norm", "grad/skipped"),
)


@dataclasses.dataclass(frozen=True)
class DistillConfig(on_policy.OnPolicySettings):
    """Settings of the distillation of a teacher."""

    teacher: str = option("", "run folder of the teacher")
    teacher_checkpoint: str = option(
        "newest", "checkpoint of the teacher: newest, best or a step"
    )
    loss: Literal["auto", "squared_error", "kl"] = option(
        "auto",
        "squared_error of the mean action, or kl, the KL of the policies; auto: "
        "squared_error for a Box, else kl",
    )
    gae_lambda: float = number(
        0.95, "lambda of the values' targets, as in GAE", least=0, most=1
    )
    value_scale: float = number(
        1.0, "weight of the value loss, which is half the mean squared error", least=0
    )
    epochs: int = option(
        4, "passes over each batch of experience", least=1, group="minibatch"
    )
    minibatch_size: int | None = option(
        256, "transitions per minibatch; none: all", least=1, group="minibatch"
    )
    sequence_length: int | None = option(
        None,
        "steps per training sequence; none: the rollout if recurrent, else 1",
        least=1,
        group="minibatch",
    )

    def alarms(self, spec: EnvSpec | None = None) -> tuple[Limit, ...]:
        return (alarms.value_loss(self), alarms.actions_clipped(spec))


class Distill(tf.Module):
    """A student with an actor-critic network; an ``interfaces.Algorithm``.

    It needs a teacher before it learns, see ``teach``, but not to act.
    """

    def __init__(self, config: DistillConfig, spec: EnvSpec, network=None):
        super().__init__()
        self.config = config = config.check()
        self._space = space = spec.action_space
        is_box = isinstance(space, gs.Box)
        if config.loss == "squared_error" and not is_box:
            raise UserError(
                f"loss is squared_error, but the action space is {space}; it needs a "
                "Box, use --algorithm.loss=kl"
            )
        self._squared = is_box and config.loss != "kl"
        self.learner = learner = on_policy.OnPolicyLearner(config, spec, network)
        self.inputs, self.compilable = learner.inputs, learner.compilable
        self.policy, self.network = learner.policy, learner.network
        self.make_policy = learner.make_policy
        self._teacher: Policy | None = None
        self._keys, self._step = (), 0

    def teach(self, teacher: Policy, keys: tuple[str, ...], step: int) -> None:
        """Set the teacher.

        Args:
          teacher: policy without memory; nothing changes it.
          keys: entries of a Dict observation that it sees; empty: it sees all of it.
          step: environment steps of its training, at which it explores as it does now.

        Raises:
          UserError: for a memory, or a policy that has no KL with the student's.
        """
        if nest.flatten(teacher.memory(2, False)):
            raise UserError(
                "the teacher has a memory, but it labels single steps; expected one "
                "with network.core=none, which sees more than the student"
            )
        if isinstance(teacher, ActorCriticPolicy):
            one, other = teacher.network.family, self.network.family
            if not self._squared and one.name != other.name:
                raise UserError(
                    f"loss is kl, but the teacher's policy is a {one.name} and the "
                    f"student's a {other.name}; set --algorithm.network.squash as the "
                    "teacher has it, or use --algorithm.loss=squared_error"
                )
        elif not self._squared and not isinstance(self._space, gs.Discrete):
            raise UserError(
                f"loss is kl, but the action space is {self._space} and the teacher is "
                "no ppo, a2c, ga3c, reinforce or distill; use one of these, or "
                "--algorithm.loss=squared_error"
            )
        self._teacher, self._keys, self._step = teacher, keys, step
        self.learner.run_only["teacher"] = teacher.named_variables()

    def update(self, trajectory: Trajectory, seed, step) -> Updated:
        """Imitate the teacher in the states of a trajectory ``[T, B]``.

        - Squared error: mean over numbers of (mu(s) - mu_teacher(s))^2.
        - KL: KL(pi_teacher(. | s) || pi(. | s)).

        The value moves to GAE's target, A + V.
        """
        learner, config, mask = self.learner, self.inputs, trajectory.mask
        batch = self._batch(trajectory, learner.begin(trajectory, step))
        recurrent = self.policy.recurrent
        length = config.sequence_length or (mask.shape[0] if recurrent else None)
        state = trajectory.behavior["state"] if recurrent else ()
        rows, valid = training_batch.rows(batch, mask, length, state)
        size, scale = config.minibatch_size, config.entropy_scale(step)

        def train(rows, taken):
            minibatch = training_batch.minibatch(rows, taken)
            metrics, gradient = learner.optimizer.minimize(
                lambda: self._loss(*minibatch, scale)
            )
            return metrics | gradient

        metrics = epochs.means(
            train,
            METRICS,
            rows,
            valid,
            epochs=config.epochs,
            minibatch_size=None if size is None else max(1, size // rows.length),
            seed=seed,
        )
        metrics |= on_policy.value_metrics(batch.value, batch.target, mask)
        if config.histograms:
            metrics |= summary.weight_histograms({"network": learner.optimizer})
        return Updated(metrics | learner.end(trajectory))

    def _loss(self, batch: Batch, mask: tf.Tensor, scale: tf.Tensor):
        """Return the scalar loss of one minibatch, and its metrics."""
        heads = training_batch.heads(self.network, batch)
        network_loss = networks.added_loss(self.network)
        if self._squared:
            error = tf.square(heads.policy.mode() - batch.action)
            imitation = tf.reduce_mean(tf.reshape(error, [*mask.shape, -1]), -1)
        else:
            imitation = heads.policy.with_params(batch.policy).kl(heads.policy)
        imitation = masked.mean(imitation, mask)
        value = losses.value(heads.value, batch.target, mask)
        entropy = heads.policy.entropy()
        bonus = losses.entropy_bonus(entropy, scale, mask)
        loss = imitation + self.inputs.value_scale * value + bonus + network_loss
        return loss, {
            "loss/total": loss,
            "loss/imitation": imitation,
            "loss/value": value,
            "loss/network": network_loss,
            "policy/entropy": masked.mean(entropy, mask),
        }

    def _batch(self, trajectory: Trajectory, seen: TimeStep) -> Batch:
        """Return the batch of a trajectory, with labels in place of what was done.

        ``seen`` has the steps as the student sees them.
        """
        config, mask = self.inputs, trajectory.mask
        reward = self.learner.rewards(trajectory.reward)
        value = training_batch.values(self.network, seen, trajectory.state[0])
        data = reward, trajectory.discount(config.gamma), value
        target = returns.gae(*data, config.gae_lambda, mask) + value[:-1]
        first, own = nest.map(lambda x: x[:-1], (trajectory.steps, seen))
        return Batch(own, *self._labels(first), value[:-1], target)

    def _labels(self, steps: TimeStep) -> tuple[Nest, tuple, Nest]:
        """Return the teacher's mean actions, or the parameters of its policy.

        Of steps ``[T, B]``, as environments returned them; in the order of ``Batch``.
        """
        teacher, now = self._teacher, tf.constant(self._step, tf.int64)
        if teacher is None:
            raise UserError(
                "the student has no teacher; call teach before the first update"
            )
        observation = steps.observation
        if self._keys:
            observation = {key: observation[key] for key in self._keys}
        time, batch = steps.first.shape
        rows = nest.fold(steps._replace(observation=observation, info={}))
        state = teacher.initial_state(time * batch)
        if self._squared:
            action = teacher.act(rows, state, (), now, False)[0]
            return nest.unfold(action, time, batch), (), ()
        if isinstance(teacher, ActorCriticPolicy):
            params = teacher.distribution(rows, state).params
        else:
            share = teacher.probabilities(rows, state, now)
            logits = tf.math.log(masked.safe(share, share > 0, 1.0))
            params = {"logits": masked.logits(logits, share > 0)}
        return (), (), nest.unfold(params, time, batch)
