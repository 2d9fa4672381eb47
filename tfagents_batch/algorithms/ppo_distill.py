"""Distillation: a student learns from rollouts of its own that a teacher labels.

It is DAgger (Ross et al. 2011, arXiv:1011.0686) without the aggregation: an update
learns from the newest rollouts only, and the teacher never acts. So a student may lack
the memory or the entries of observations that its teacher has. All but the loss of the
policy is PPO, whose value goes on with the student.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from gymnasium import spaces as gs

from tfagents_batch import nest
from tfagents_batch.errors import UserError
from tfagents_batch.interfaces import Distribution, Policy
from tfagents_batch.nn.policies.actor_critic import ActorCriticPolicy
from tfagents_batch.ops import masked
from tfagents_batch.types import EnvSpec, TimeStep

_ACTION = "action"  # name of a label that is a mean action

# Advice where the loss kl is not possible, by whether actions are a Box.
_ADVICE = {
    False: "a teacher of ppo, a2c, ga3c, reinforce or distill",
    True: "--algorithm.loss=squared_error, or a teacher of ppo with the same "
    "--algorithm.network.squash",
}


class Imitation(tf.Module):
    """Loss of a student, and the teacher, which only learning needs.

    Args:
      config: ``DistillConfig``.
      spec: spec of the environments.
      learner: learner of the student.
    """

    def __init__(self, config: Any, spec: EnvSpec, learner: Any):
        super().__init__()
        self._space, self._learner = spec.action_space, learner
        is_box = isinstance(self._space, gs.Box)
        if config.loss == "squared_error" and not is_box:
            raise UserError(
                f"loss is squared_error, but the action space is {self._space}; it "
                "needs a Box, use --algorithm.loss=kl"
            )
        self._squared = is_box and config.loss != "kl"
        self._teacher: Any = None
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
                "it has a memory, but it labels single steps; expected one with "
                "network.core=none, which may see more than the student"
            )
        if getattr(teacher.network, "noisy", False):
            raise UserError(
                "it has network.noisy, so its probabilities have no closed form; "
                "expected a teacher without"
            )
        has_kl = isinstance(self._space, gs.Discrete)
        if isinstance(teacher, ActorCriticPolicy):
            families = teacher.network.family, self._learner.network.family
            has_kl = families[0].name == families[1].name
        if not (self._squared or has_kl):
            raise UserError(
                "loss is kl, but its policy has no KL with the student's for actions "
                f"of {self._space}; use {_ADVICE[isinstance(self._space, gs.Box)]}"
            )
        self._teacher, self._keys, self._step = teacher, keys, step
        self._learner.run_only["teacher"] = teacher.named_variables()

    def labels(self, steps: TimeStep) -> dict[str, tf.Tensor]:
        """Return the teacher's mean actions, or the parameters of its policy.

        ``steps``, ``[T, B]``, are as environments returned them; so is each label.
        """
        if self._teacher is None:
            raise UserError("the student has no teacher; call teach before an update")
        observation, now = steps.observation, tf.constant(self._step, tf.int64)
        if self._keys:
            observation = {key: observation[key] for key in self._keys}
        time, batch = (nest.static_size(steps.first, axis) for axis in (0, 1))
        rows = nest.fold(steps._replace(observation=observation, info={}))
        state = self._teacher.initial_state(time * batch)
        if self._squared:
            label = {_ACTION: self._teacher.act(rows, state, (), now, False)[0]}
        elif isinstance(self._teacher, ActorCriticPolicy):
            label = self._teacher.distribution(rows, state).params
        else:
            share = self._teacher.probabilities(rows, state, now)
            logits = tf.math.log(masked.safe(share, share > 0, 1.0))
            label = {"logits": masked.logits(logits, share > 0)}
        return nest.unfold(label, time, batch)

    def loss(self, policy: Distribution, label: dict, mask: tf.Tensor) -> tf.Tensor:
        """Return the loss of a student's policy, f32 ``[]``.

        Mean of KL(teacher || policy), or of (mode - mean action of the teacher)^2.
        """
        if not self._squared:
            return masked.mean(policy.with_params(label).kl(policy), mask)
        error = tf.square(policy.mode() - label[_ACTION])
        error = tf.reduce_mean(tf.reshape(error, [*mask.shape, -1]), -1)
        return masked.mean(error, mask)
