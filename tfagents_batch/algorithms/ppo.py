"""Proximal Policy Optimization on whole batches (Schulman et al. 2017).

Clipped objective (eq. 7), adaptive KL penalty (section 4, with the cutoff of Hafner
et al. 2017) or both; generalized advantages; epochs of minibatches; all in the graph.
Minibatches contain transitions, or sequences if the network is recurrent.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import tensorflow as tf

from tfagents_batch import nest
from tfagents_batch.algorithms import ppo_distill, ppo_penalty
from tfagents_batch.algorithms.shared import alarms, on_policy
from tfagents_batch.config import number, option
from tfagents_batch.errors import UserError
from tfagents_batch.graph import epochs, training_batch
from tfagents_batch.graph.inputs import Inputs
from tfagents_batch.graph.training_batch import Batch
from tfagents_batch.metrics import Limit, Metrics
from tfagents_batch.nn import networks, summary
from tfagents_batch.ops import histograms, losses, masked, returns
from tfagents_batch.schedules import Constant, Schedule
from tfagents_batch.types import (
    VERSION,
    EnvSpec,
    TimeStep,
    Trajectory,
    Updated,
    UpdateSize,
)

METRICS = (
    *("loss/total", "loss/policy", "loss/kl_penalty", "loss/value"),
    "loss/network",
    *("policy/entropy", "policy/approx_kl", "policy/clip_fraction"),
    *("grad/norm", "grad/skipped"),
)
_UNUSED = "not used: a teacher takes the place of advantages"
KL_METRICS = ("policy/kl_cutoff",)  # with the penalty


@dataclasses.dataclass(frozen=True)
class PPOConfig(on_policy.OnPolicySettings):
    """Settings of PPO."""

    objective: Literal["clip", "kl", "both"] = option(
        "clip", "surrogate objective: clipped ratio (clip), KL penalty (kl), or both"
    )
    kl: ppo_penalty.KLConfig = option(
        ppo_penalty.KLConfig(),
        "settings of the KL penalty",
        used_if=("objective", "kl", "both"),
    )
    clip_ratio: Schedule = number(
        Constant(0.2),
        "clip range e: ratios of 1 - e to 1 + e (Stable-Baselines3: clip_range)",
        least=0,
    )
    gae_lambda: float = number(
        0.95, "lambda of GAE; 1 gives Monte Carlo advantages", least=0, most=1
    )
    epochs: int = option(
        10,
        "passes over each batch of experience (Stable-Baselines3: n_epochs)",
        least=1,
        group="minibatch",
    )
    minibatch_size: int | None = option(
        64,
        "transitions per minibatch; none: all (Stable-Baselines3: batch_size)",
        least=1,
        group="minibatch",
    )
    drop_last: bool = option(
        False,
        "drop the last partial minibatch instead of using smaller minibatches",
        group="minibatch",
    )
    sequence_length: int | None = option(
        None,
        "steps per training sequence; none: the rollout if recurrent, else 1",
        least=1,
        group="minibatch",
    )
    value_scale: float = number(
        1.0, "weight of the value loss, which is half the mean squared error", least=0
    )
    value_clip: float | None = number(
        None,
        "largest change of a value; none: any (Stable-Baselines3: clip_range_vf)",
        above=0,
    )
    value_target: Literal["gae", "return"] = option(
        "gae", "target of the value: GAE advantage plus value, or the discounted return"
    )
    correction: Literal["none", "vtrace"] = option(
        "vtrace",
        "correction of advantages, and of targets with value_target=gae, if the policy "
        "that acted is older, as with rollout.wait_for and overlap",
    )
    kl_stop: float | None = number(
        None,
        "KL in nats that ends an update; none: any (Stable-Baselines3: 1.5 target_kl)",
        above=0,
        group="minibatch",
    )
    normalize_advantage: Literal[True, False, "batch"] = option(
        True,
        "standardize advantages per minibatch (true), per batch, or not at all",
        group="normalization",
    )

    def check(self) -> PPOConfig:
        config = super().check()
        if config.drop_last and config.minibatch_size is None:
            raise UserError(
                "drop_last is true, but minibatch_size is none: everything is one "
                "minibatch; set minibatch_size, or leave drop_last out"
            )
        return config

    def imitation(self, spec: EnvSpec, learner: Any) -> Any:
        """Return a loss in place of the surrogate, or None."""
        return None

    def alarms(self, spec: EnvSpec | None = None) -> tuple[Limit, ...]:
        return _limits(self, spec)

    def update_size(self, transitions: int) -> UpdateSize:
        rows = min(self.minibatch_size or transitions, transitions)
        return UpdateSize(rows, self.network.units)


Config = PPOConfig  # its name in version 0.1


@dataclasses.dataclass(frozen=True)
class DistillConfig(PPOConfig):
    """Settings of the distillation of a teacher."""

    teacher: str = option("", "run folder of the teacher", group="teacher")
    teacher_checkpoint: str = option(
        "newest", "its checkpoint: newest, best or a step", group="teacher"
    )
    loss: Literal["auto", "squared_error", "kl"] = option(
        "auto",
        "squared_error of the mean action, or kl, the KL of the policies; auto: "
        "squared_error for a Box, else kl",
        group="teacher",
    )
    objective: Literal["clip"] = option("clip", _UNUSED)
    clip_ratio: Schedule = number(Constant(0.2), _UNUSED, least=0.2, most=0.2)
    normalize_advantage: Literal[False] = option(False, _UNUSED)

    def located(self) -> DistillConfig:
        """Return the settings with the absolute path of the teacher."""
        path = self.teacher and os.path.abspath(os.path.expanduser(self.teacher))
        return dataclasses.replace(self, teacher=path)

    def imitation(self, spec: EnvSpec, learner: Any) -> ppo_distill.Imitation:
        """Return the loss by which the teacher is imitated."""
        return ppo_distill.Imitation(self, spec, learner)

    def alarms(self, spec: EnvSpec | None = None) -> tuple[Limit, ...]:
        return (alarms.value_loss(self), alarms.actions_clipped(spec))


class Scales(NamedTuple):
    """Values of the loss's schedules at the step of an update, f32 ``[]`` each."""

    entropy: tf.Tensor
    clip_ratio: tf.Tensor


class PPO(tf.Module):
    """PPO with an actor-critic network; satisfies ``interfaces.Algorithm``.

    ``imitation`` is that of a student; otherwise None.
    """

    # What ``_loss`` returns is logged as means over all minibatches.
    METRICS: tuple[str, ...] = METRICS

    def __init__(self, config: PPOConfig, spec: EnvSpec, network=None):
        super().__init__()
        self.config = config = config.check()
        self.penalty = ppo_penalty.AdaptiveKL(Inputs(config.kl))
        self.learner = learner = on_policy.OnPolicyLearner(
            config, spec, network, penalty=self.penalty.beta
        )
        self.imitation = config.imitation(spec, learner)
        self.inputs, self.compilable = learner.inputs, learner.compilable
        self.policy, self.network = learner.policy, learner.network
        self.make_policy = learner.make_policy
        self.recurrent = self.policy.recurrent
        self._sequential = self.recurrent or config.kl.reduction == "sequence"
        single = config.sequence_length in (None, 1) and not self._sequential
        if config.minibatch_size == 1 and config.normalize_advantage is True and single:
            raise UserError(
                "minibatch_size is 1 and normalize_advantage is true: a single "
                "advantage minus its own mean is 0, so the policy would learn nothing; "
                "use larger minibatches, or normalize_advantage=batch"
            )
        # Only its type is used; a batch supplies the parameters.
        start = self.network.initial_state(2)
        self._type = self.network.unroll(networks.dummy_steps(spec), start)[0].policy
        networks.added_loss(self.network)  # clears the losses of this call

    def update(self, trajectory: Trajectory, seed, step) -> Updated:
        """Train policy and value on one trajectory ``[T, B]``."""
        learner, config, mask = self.learner, self.inputs, trajectory.mask
        batch = self._batch(trajectory, learner.begin(trajectory, step))
        length = config.sequence_length or (mask.shape[0] if self._sequential else None)
        state = trajectory.behavior["state"] if self.recurrent else ()
        taught = batch
        if self.imitation is not None:
            first = nest.map(lambda x: x[:-1], trajectory.steps)
            taught = batch._replace(policy=self.imitation.labels(first))
        rows, valid = training_batch.rows(taught, mask, length, state)
        penalized = config.objective != "clip"
        names = self.METRICS + (KL_METRICS if penalized else ())
        size = config.minibatch_size
        scales = Scales(config.entropy_scale(step), config.clip_ratio(step))

        def train(rows, taken):
            minibatch = training_batch.minibatch(rows, taken)
            metrics, gradient = learner.optimizer.minimize(
                functools.partial(self._loss, *minibatch, scales)
            )
            return self._declared(metrics, gradient, names)

        def far(metrics):
            return metrics["policy/approx_kl"] > config.kl_stop

        metrics = epochs.means(
            train,
            names,
            rows,
            valid,
            epochs=config.epochs,
            minibatch_size=None if size is None else max(1, size // rows.length),
            seed=seed,
            drop_last=config.drop_last,
            stop=None if config.kl_stop is None else far,
        )
        metrics |= on_policy.value_metrics(batch.value, batch.target, mask)
        if penalized:
            kl, counts = training_batch.divergence(self.network, rows, valid)
            metrics |= self.penalty.adapt(kl, counts)
            if config.histograms:
                metrics["histogram/kl"] = histograms.rows(kl, counts)
        if config.histograms:
            acted = self._type.with_params(batch.policy)
            parts = learner.optimizer, learner.observations
            metrics |= summary.update_histograms(trajectory, batch, acted, *parts)
        return Updated(metrics | learner.end(trajectory))

    def _loss(self, batch: Batch, mask: tf.Tensor, scales: Scales):
        """Return the scalar loss of one minibatch, and its metrics."""
        config = self.inputs
        heads = training_batch.heads(self.network, batch)
        network_loss = networks.added_loss(self.network)
        log_prob = heads.policy.log_prob(batch.action)
        advantage = batch.advantage
        if config.normalize_advantage is True:
            advantage = masked.standardize(advantage, mask, 1e-8)
        surrogate, clip_fraction = losses.clipped_surrogate(
            log_prob, batch.log_prob, advantage, scales.clip_ratio, mask
        )
        if config.objective == "kl":
            surrogate = losses.importance_surrogate(
                log_prob, batch.log_prob, advantage, mask
            )
        if self.imitation is not None:
            surrogate = self.imitation.loss(heads.policy, batch.policy, mask)
        penalty, cutoff = tf.zeros([]), tf.zeros([])
        if config.objective != "clip":
            kl = heads.policy.with_params(batch.policy).kl(heads.policy)
            penalty, cutoff = self.penalty.loss(kl, mask)
        value = losses.value(
            heads.value, batch.target, mask, batch.value, config.value_clip
        )
        entropy = heads.policy.entropy()
        bonus = losses.entropy_bonus(entropy, scales.entropy, mask)
        loss = surrogate + penalty + config.value_scale * value + bonus + network_loss
        return loss, {
            "loss/total": loss,
            "loss/policy": surrogate,
            "loss/kl_penalty": penalty,
            "loss/value": value,
            "loss/network": network_loss,
            "policy/entropy": masked.mean(entropy, mask),
            "policy/approx_kl": losses.approx_kl(log_prob, batch.log_prob, mask),
            "policy/clip_fraction": clip_fraction,
            "policy/kl_cutoff": cutoff,
        }

    def _declared(self, metrics: Any, others: Metrics, names: Sequence[str]) -> Metrics:
        """Return a loss's metrics and others; refuse other names than those given."""
        declared = f"{type(self).__name__}.METRICS"
        if not isinstance(metrics, dict):
            raise UserError(
                f"the loss's metrics are a {type(metrics).__name__}; expected a dict "
                f"with the names in {declared}"
            )
        if unknown := sorted(set(metrics) - {*names, *KL_METRICS}):
            raise UserError(
                f"the loss has the metrics {', '.join(unknown)}, which are not in "
                f"{declared}; add them there to log their means"
            )
        metrics = metrics | others
        if missing := sorted(set(names) - set(metrics)):
            raise UserError(
                f"the loss lacks the metrics {', '.join(missing)}, which are in "
                f"{declared}; return them, or leave them out there"
            )
        return metrics

    def _batch(self, trajectory: Trajectory, seen: TimeStep) -> Batch:
        """Return the training batch of a trajectory; ``seen`` has normalized steps."""
        config, mask = self.inputs, trajectory.mask
        reward = self.learner.rewards(trajectory.reward)
        discount = trajectory.discount(config.gamma)
        value = training_batch.values(self.network, seen, trajectory.state[0])
        action, acted = on_policy.actions(trajectory), trajectory.behavior["log_prob"]
        data, first = (reward, discount, value), nest.map(lambda x: x[:-1], seen)
        if VERSION in trajectory.behavior and config.correction == "vtrace":
            state = trajectory.state[0]
            log_prob = training_batch.log_probs(self.network, first, state, action)
            log_ratio, lambda_ = log_prob - acted, config.gae_lambda
            advantage, target = returns.vtrace(
                *data, log_ratio, mask, lambda_=lambda_, weighted=False
            )
        else:
            advantage = returns.gae(*data, config.gae_lambda, mask)
            target = advantage + value[:-1]
        if config.value_target == "return":
            target = returns.discounted(reward, discount, value, mask)
        if config.normalize_advantage == "batch":
            advantage = masked.standardize(advantage, mask, 1e-8)
        policy = trajectory.behavior["policy"]
        return Batch(first, action, acted, policy, value[:-1], target, advantage)


def _limits(config: PPOConfig, spec: EnvSpec | None) -> tuple[Limit, ...]:
    """Return the limits of a run.

    They come from twelve runs of the presets that solved their tasks (CartPole and
    Pendulum with five seeds each, LunarLander, HalfCheetah; see ``docs/results.md``). A
    comment beside each limit gives the worst value in any of these runs.
    """
    scaled = config.normalize_return is True
    kl = 0.2 if config.objective == "clip" else max(0.2, 4 * config.kl.target)
    return (
        alarms.value_loss(config, "; --algorithm.value_clip=0.2"),
        Limit(  # -0.7 in single lines, -25 if all returns and values are equal
            "explained_variance",
            "value/explained_variance",
            below=-0.05 if scaled else -math.inf,
            when=_returns_vary,
            lines=10,
            part=0.05,
            text="The explained variance of the values is "
            "{value/explained_variance:.2g} and stays negative: values predict returns "
            "worse than their mean would, so advantages are mostly noise. What to try: "
            "raise --algorithm.epochs or --rollout.length; lower "
            "--algorithm.learning_rate, or --algorithm.gamma if episodes are long; add "
            "missing information to the observation",
        ),
        Limit(  # 0.045
            "kl",
            "policy/approx_kl",
            above=kl,
            at_once=max(1.0, kl),
            lines=3,
            text="An update moves the policy by a KL of {policy/approx_kl:.3g} nats; "
            "around 0.01 is healthy, and a policy can be lost within a few updates of "
            "this size. What to try: lower --algorithm.learning_rate or "
            "--algorithm.epochs; --algorithm.kl_stop=0.03; a larger "
            "--algorithm.minibatch_size",
        ),
        Limit(  # 0.37
            "clip_fraction",
            "policy/clip_fraction",
            above=0.6,
            lines=3,
            text="{policy/clip_fraction:.0%} of the transitions are outside the clip "
            "range, where no gradient brings the policy back. What to try: lower "
            "--algorithm.learning_rate or --algorithm.epochs; raise "
            "--algorithm.clip_ratio if it is far below 0.2",
        ),
        alarms.entropy(config, spec),
        alarms.actions_clipped(spec),
        *alarms.small_returns(config.normalize_return),
    )


def _returns_vary(line: Mapping[str, float]) -> bool:
    """Return whether the returns of an update had a variance worth predicting.

    The variance is Var(G - V) / (1 - explained), where half of Var(G - V) is the value
    loss at most. In a solved task it may be 0, so that small errors explain nothing.
    """
    error = 2 * line.get("loss/value", 0.0)
    return not error / (1 - line["value/explained_variance"]) <= 0.02
