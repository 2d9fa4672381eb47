"""Advantage actor-critic (Mnih et al. 2016, arXiv:1602.01783), on whole batches.

Every update is one gradient step on everything that was collected, n steps of every
environment, with the advantages of n-step returns or GAE. If the policy that acted is
older than the one that learns, as with ``overlap``, V-trace corrects them
(Espeholt et al. 2018, arXiv:1802.01561).
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, Literal

import tensorflow as tf

from tfagents_batch.algorithms.shared import single_step
from tfagents_batch.algorithms.shared.single_step import Rows, Surrogate
from tfagents_batch.config import option
from tfagents_batch.ops import losses, masked, returns
from tfagents_batch.schedules import Constant, Schedule


@dataclasses.dataclass(frozen=True)
class Config(single_step.Settings):
    """Settings of A2C."""

    SOURCE: ClassVar[dict[str, Any]] = {"length": 5}  # defaults of its source

    learning_rate: Schedule = option(Constant(7e-4), "step size", least=0)
    gae_lambda: float = option(
        1.0, "lambda of GAE; 1 gives n-step returns", least=0, most=1
    )
    correction: Literal["none", "vtrace", "clip"] = option(
        "vtrace",
        "correction if the policy that acted is older: V-trace, a clipped ratio as in "
        "PPO, or none; all are equal if it is not",
    )
    clip_ratio: float = option(0.2, "clip range of correction=clip", above=0)
    rho_max: float = option(1.0, "largest ratio in V-trace's errors", above=0)
    c_max: float = option(1.0, "largest ratio in V-trace's traces", above=0)


class A2C(single_step.SingleStep):
    """A2C with an actor-critic network; satisfies ``interfaces.Algorithm``."""

    def surrogate(self, rows: Rows) -> Surrogate:
        """Return the policy gradient's loss, or PPO's with ``correction=clip``."""
        config, mask, value = self.config, rows.mask, rows.value
        data = rows.reward, rows.discount, value
        if config.correction == "vtrace":
            advantage, target = returns.vtrace(
                *data,
                tf.stop_gradient(rows.log_prob) - rows.behavior_log_prob,
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
            loss = losses.policy_gradient(rows.log_prob, advantage, mask)
            return Surrogate(loss, target, metrics)
        loss, share = losses.clipped_surrogate(
            rows.log_prob, rows.behavior_log_prob, advantage, config.clip_ratio, mask
        )
        return Surrogate(loss, target, metrics | {"policy/clip_fraction": share})
