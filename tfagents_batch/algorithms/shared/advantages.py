"""Actor-critic with n-step advantages, corrected if an older policy acted."""

from __future__ import annotations

import dataclasses
import math
from typing import Literal

import tensorflow as tf
from gymnasium import spaces as gs

from tfagents_batch import spaces
from tfagents_batch.algorithms.shared import single_step
from tfagents_batch.algorithms.shared.single_step import Rows, Surrogate
from tfagents_batch.config import option
from tfagents_batch.errors import UserError
from tfagents_batch.ops import losses, masked, returns
from tfagents_batch.types import EnvSpec

_FLOOR = math.log(1e-6)  # of ln pi in GA3C


@dataclasses.dataclass(frozen=True)
class Settings(single_step.Settings):
    """Settings of advantages and of their correction."""

    gae_lambda: float = option(
        1.0, "lambda of GAE; 1 gives n-step returns", least=0, most=1
    )
    correction: Literal["none", "vtrace", "clip", "log_floor"] = option(
        "vtrace",
        "correction if the policy that acted is older: V-trace, a clipped ratio as in "
        "PPO, GA3C's lower bound of 1e-6 for probabilities in ln pi, or none; all are "
        "equal if it is not older and no probability is smaller",
    )
    clip_ratio: float = option(0.2, "clip range of correction=clip", above=0)
    rho_max: float = option(1.0, "largest ratio in V-trace's errors", above=0)
    c_max: float = option(1.0, "largest ratio in V-trace's traces", above=0)


class Learner(single_step.SingleStep):
    """Learns from advantages; A2C and GA3C, which differ in their sources.

    Raises:
      UserError: if a bound of probabilities is asked for, but actions have densities.
    """

    def __init__(self, config: Settings, spec: EnvSpec, network=None):
        super().__init__(config, spec, network)
        space = spec.action_space
        dense = any(isinstance(x.space, gs.Box) for x in spaces.leaves(space))
        if self.config.correction == "log_floor" and dense:
            raise UserError(
                f"correction is log_floor, but the action space is {space}; densities "
                "of several numbers are below 1e-6 without being unlikely, use vtrace"
            )

    def surrogate(self, rows: Rows) -> Surrogate:
        """Return the loss of the policy."""
        return surrogate(self.config, rows)


def surrogate(config: Settings, rows: Rows) -> Surrogate:
    """Return the policy gradient's loss, or PPO's with ``correction=clip``."""
    mask, value = rows.mask, rows.value
    data = rows.reward, rows.discount, value
    log_ratio = tf.stop_gradient(rows.log_prob) - rows.behavior_log_prob
    if config.correction == "vtrace":
        advantage, target = returns.vtrace(
            *data,
            log_ratio,
            mask,
            lambda_=config.gae_lambda,
            rho_max=config.rho_max,
            c_max=config.c_max,
        )
    else:
        advantage = returns.gae(*data, config.gae_lambda, mask)
        target = advantage + value[:-1]
    if config.normalize_advantage:
        advantage = masked.standardize(advantage, mask, 1e-8)
    kl = losses.approx_kl(rows.log_prob, rows.behavior_log_prob, mask)
    metrics = {"policy/approx_kl": kl}
    if config.correction != "clip":
        log_prob = rows.log_prob
        if config.correction == "log_floor":
            below = tf.cast(log_prob < _FLOOR, tf.float32)
            metrics["policy/log_floor"] = masked.mean(below, mask)
            log_prob = tf.maximum(log_prob, _FLOOR)  # no gradient below it
        loss = losses.policy_gradient(log_prob, advantage, mask)
        return Surrogate(loss, target, metrics)
    loss, share = losses.clipped_surrogate(
        rows.log_prob, rows.behavior_log_prob, advantage, config.clip_ratio, mask
    )
    return Surrogate(loss, target, metrics | {"policy/clip_fraction": share})
