"""Advantage actor-critic (Mnih et al. 2016, arXiv:1602.01783), on whole batches.

Every update is one gradient step on everything that was collected, n steps of every
environment, with the advantages of n-step returns or GAE. If the policy that acted is
older than the one that learns, as with ``overlap``, V-trace corrects them
(Espeholt et al. 2018, arXiv:1802.01561).

GA3C (Babaeizadeh et al. 2017, arXiv:1611.06256) is the same update over predictors,
which act for whichever environments are ready, see ``sources/predictors.py``.
"""

from __future__ import annotations

import dataclasses
import math
from typing import ClassVar, Literal

import tensorflow as tf
from gymnasium import spaces as gs

from tfagents_batch import spaces
from tfagents_batch.algorithms.shared import on_policy
from tfagents_batch.config import number, option
from tfagents_batch.errors import UserError
from tfagents_batch.nn import networks
from tfagents_batch.ops import losses, masked, returns
from tfagents_batch.schedules import Constant, Schedule
from tfagents_batch.types import DefaultSource, EnvSpec, Trajectory, Updated

_FLOOR = math.log(1e-6)  # of ln pi in GA3C


@dataclasses.dataclass(frozen=True)
class A2CConfig(on_policy.SingleStepSettings):
    """Settings of A2C."""

    source: ClassVar[DefaultSource] = "rollout", {"length": 5}

    learning_rate: Schedule = number(
        Constant(7e-4), "learning rate of the optimizer", least=0
    )
    gae_lambda: float = number(
        1.0, "lambda of GAE; 1 gives n-step returns", least=0, most=1
    )
    correction: Literal["none", "vtrace", "clip", "log_floor"] = option(
        "vtrace",
        "correction if the policy that acted is older: V-trace, a clipped ratio as in "
        "PPO, GA3C's lower bound of 1e-6 for probabilities in ln pi, or none; all are "
        "equal if it is not older and no probability is smaller",
    )
    clip_ratio: Schedule = number(
        Constant(0.2), "clip range of correction=clip", least=0
    )
    rho_max: float = number(
        1.0, "upper limit of V-trace's importance ratio (rho)", above=0
    )
    c_max: float = number(
        1.0, "upper limit of V-trace's trace coefficients (c)", above=0
    )


@dataclasses.dataclass(frozen=True)
class GA3CConfig(A2CConfig):
    """Settings of GA3C."""

    source: ClassVar[DefaultSource] = "queue", {}


Config = A2CConfig  # its name in version 0.1


class A2C(tf.Module):
    """A2C with an actor-critic network; satisfies ``interfaces.Algorithm``."""

    def __init__(self, config: A2CConfig, spec: EnvSpec, network=None):
        super().__init__()
        self.config = config = config.check()
        space = spec.action_space
        dense = any(isinstance(x.space, gs.Box) for x in spaces.leaves(space))
        if config.correction == "log_floor" and dense:
            raise UserError(
                f"correction is log_floor, but the action space is {space}; densities "
                "of several numbers are below 1e-6 without being unlikely, use vtrace"
            )
        self.learner = learner = on_policy.OnPolicyLearner(config, spec, network)
        self.inputs, self.compilable = learner.inputs, learner.compilable
        self.policy, self.network = learner.policy, learner.network
        self.make_policy = learner.make_policy

    def update(self, trajectory: Trajectory, seed, step) -> Updated:
        """Take a gradient step on a trajectory ``[T, B]``."""
        learner, config, mask = self.learner, self.inputs, trajectory.mask
        steps = learner.begin(trajectory, step)
        action, acted = on_policy.actions(trajectory), trajectory.behavior["log_prob"]
        reward = learner.rewards(trajectory.reward)
        discount = trajectory.discount(config.gamma)

        def advantages(value, log_ratio):
            data = reward, discount, value
            if config.correction == "vtrace":
                most = {"rho_max": config.rho_max, "c_max": config.c_max}
                advantage, target = returns.vtrace(
                    *data, log_ratio, mask, lambda_=config.gae_lambda, **most
                )
            else:
                advantage = returns.gae(*data, config.gae_lambda, mask)
                target = advantage + value[:-1]
            if config.normalize_advantage:
                advantage = masked.standardize(advantage, mask, 1e-8)
            return advantage, target

        def policy_loss(log_prob, advantage):
            if config.correction == "clip":
                clip_ratio = config.clip_ratio(step)
                data = log_prob, acted, advantage, clip_ratio, mask
                loss, share = losses.clipped_surrogate(*data)
                return loss, {"policy/clip_fraction": share}
            metrics = {}
            if config.correction == "log_floor":
                below = tf.cast(log_prob < _FLOOR, tf.float32)
                metrics["policy/log_floor"] = masked.mean(below, mask)
                log_prob = tf.maximum(log_prob, _FLOOR)  # no gradient below it
            return losses.policy_gradient(log_prob, advantage, mask), metrics

        def loss():
            heads = self.network.unroll(steps, trajectory.state[0])[0]
            network_loss = networks.added_loss(self.network)
            policy = on_policy.first_rows(heads.policy)
            log_prob, entropy = policy.log_prob(action), policy.entropy()
            value = tf.stop_gradient(heads.value)
            log_ratio = tf.stop_gradient(log_prob) - acted
            advantage, target = advantages(value, log_ratio)
            gradient, metrics = policy_loss(log_prob, advantage)
            value_loss = losses.value(heads.value[:-1], target, mask)
            scale = config.entropy_scale(step)
            loss = gradient + losses.entropy_bonus(entropy, scale, mask)
            loss += config.value_scale * value_loss
            if config.reduction == "sum":
                loss *= tf.reduce_sum(tf.cast(mask, tf.float32))
            loss += network_loss
            metrics |= {
                "loss/total": loss,
                "loss/policy": gradient,
                "loss/value": value_loss,
                "loss/network": network_loss,
                "policy/entropy": masked.mean(entropy, mask),
                "policy/approx_kl": losses.approx_kl(log_prob, acted, mask),
            }
            return loss, (policy, log_prob, value[:-1], target, metrics)

        learns = tf.reduce_any(mask)  # else momentum would still move the weights
        results, metrics = learner.optimizer.minimize(loss, when=learns)
        policy, log_prob, value, target, more = results
        metrics |= more | on_policy.value_metrics(value, target, mask)
        metrics["grad/updates"] = tf.cast(learns, tf.float32)
        data = trajectory, steps, policy, log_prob, value, target
        return Updated(metrics | on_policy.finish(learner, *data))
