"""Proximal Policy Optimization on whole batches (Schulman et al. 2017).

Clipped objective (eq. 7), adaptive KL penalty (section 4, with the cutoff of Hafner
et al. 2017) or both; generalized advantages; epochs of minibatches; all in the graph.
Minibatches contain transitions, or sequences if the network is recurrent.
"""

from __future__ import annotations

import keras
import tensorflow as tf

from tfagents_batch import nest
from tfagents_batch.algorithms.ppo_penalty import AdaptiveKL
from tfagents_batch.algorithms.ppo_settings import Config
from tfagents_batch.algorithms.shared import on_policy
from tfagents_batch.errors import UserError
from tfagents_batch.graph import batches, epochs, forward
from tfagents_batch.graph.batches import Batch
from tfagents_batch.metrics import Metrics
from tfagents_batch.nn import networks, summary
from tfagents_batch.ops import histograms, losses, masked, returns
from tfagents_batch.types import VERSION, EnvSpec, TimeStep, Trajectory, Updated

METRICS = (
    *("loss/total", "loss/policy", "loss/kl_penalty", "loss/value"),
    "loss/network",
    *("policy/entropy", "policy/approx_kl", "policy/clip_fraction"),
    *("grad/norm", "grad/skipped"),
)
KL_METRICS = ("policy/kl_cutoff",)  # with the penalty


class PPO(tf.Module):
    """PPO with an actor-critic network; satisfies ``interfaces.Algorithm``.

    Attributes:
      learner: normalizers and optimizer.
      recurrent: True if the network has a recurrent state.
    """

    METRICS = METRICS  # of ``_loss``, whose means over all minibatches are logged

    def __init__(self, config: Config, spec: EnvSpec, network=None):
        super().__init__()
        self.config = config = config.check()
        self.learner = learner = on_policy.Learner(config, spec, network)
        self.inputs = learner.inputs
        self.policy, self.network = learner.policy, learner.network
        self.optimizer, self.compilable = learner.optimizer, learner.compilable
        self.make_policy = learner.make_policy
        self.compile_parts = learner.compile_parts
        self.recurrent = self.policy.recurrent
        self._sequential = self.recurrent or config.kl.reduction == "sequence"
        self._check_minibatches()
        # Only its type is used; a batch supplies the parameters.
        start = self.network.initial_state(2)
        self._type = self.network.unroll(networks.dummy_steps(spec), start)[0].policy
        networks.added_loss(self.network)  # clears the losses of this call
        self.penalty = AdaptiveKL(self.inputs.kl)

    def named_variables(self) -> dict[str, keras.Variable]:
        """Return the variables of a checkpoint: all that updates change."""
        return self.learner.named_variables() | {"learner/penalty": self.penalty.beta}

    def _check_minibatches(self) -> None:
        config = self.config
        single = config.sequence_length in (None, 1) and not self._sequential
        if config.minibatch_size == 1 and config.normalize_advantage is True and single:
            raise UserError(
                "minibatch_size is 1 and normalize_advantage is true: a single "
                "advantage minus its own mean is 0, so the policy would learn nothing; "
                "use larger minibatches, or normalize_advantage=batch"
            )

    def update(self, trajectory: Trajectory, seed, step) -> Updated:
        """Train policy and value on one trajectory ``[T, B]``."""
        config, mask = self.inputs, trajectory.mask
        batch = self._batch(trajectory, self.learner.begin(trajectory, step))
        length = config.sequence_length or (mask.shape[0] if self._sequential else None)
        state = trajectory.behavior["state"] if self.recurrent else ()
        rows, valid = batches.rows(batch, mask, length, state)
        metrics = self._epochs(rows, valid, seed, step)
        metrics |= on_policy.value_metrics(batch.value, batch.target, mask)
        if config.objective != "clip":
            kl, counts = forward.divergence(self.network, rows, valid)
            metrics |= self.penalty.adapt(kl, counts)
            if config.histograms:
                metrics["histogram/kl"] = histograms.rows(kl, counts)
        if config.histograms:
            acted = self._type.with_params(batch.policy)
            optimizer, observations = self.optimizer, self.learner.observations
            metrics |= summary.update_histograms(
                trajectory, batch, acted, optimizer, observations
            )
        return Updated(metrics | self.learner.end(trajectory))

    def _batch(self, trajectory: Trajectory, seen: TimeStep) -> Batch:
        """Return the training batch of a trajectory.

        Args:
          trajectory: ``[T, B]``.
          seen: its steps, with normalized observations.
        """
        config, mask = self.inputs, trajectory.mask
        reward = self.learner.rewards(trajectory.reward)
        discount = trajectory.discount(config.gamma)
        value = forward.values(self.network, seen, trajectory.state[0])
        action, acted = on_policy.actions(trajectory), trajectory.behavior["log_prob"]
        data, first = (reward, discount, value), nest.map(lambda x: x[:-1], seen)
        if VERSION in trajectory.behavior and config.correction == "vtrace":
            state = trajectory.state[0]
            log_prob = forward.log_probs(self.network, first, state, action)
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
        return Batch(
            steps=first,
            action=action,
            log_prob=acted,
            policy=trajectory.behavior["policy"],
            advantage=advantage,
            value=value[:-1],
            target=target,
        )

    def _epochs(self, rows: Batch, valid: tf.Tensor, seed, step) -> Metrics:
        """Run all optimizer steps on rows ``[N, ...]``; return the means of metrics."""
        config = self.inputs
        entropy_scale = config.entropy_scale(step)
        names = self.METRICS + (() if config.objective == "clip" else KL_METRICS)
        size = config.minibatch_size
        if size is not None:
            size = max(1, size // rows.length)

        def train(rows, taken):
            batch, mask = batches.minibatch(rows, taken)
            metrics, found = self.optimizer.minimize(
                lambda: self._loss(batch, mask, entropy_scale)
            )
            if unknown := sorted(set(metrics) - {*names, *KL_METRICS}):
                raise UserError(
                    f"the loss has the metrics {', '.join(unknown)}, which are not in "
                    f"{type(self).__name__}.METRICS; add them there to log their means"
                )
            return metrics | found

        def far(metrics):
            return metrics["policy/approx_kl"] > config.kl_stop

        return epochs.means(
            train,
            names,
            rows,
            valid,
            epochs=config.epochs,
            minibatch_size=size,
            seed=seed,
            drop_last=config.drop_last,
            stop=None if config.kl_stop is None else far,
        )

    def _loss(self, batch: Batch, mask: tf.Tensor, entropy_scale):
        """Return the scalar loss of one minibatch, and its metrics."""
        config = self.inputs
        heads = forward.heads(self.network, batch)
        network_loss = networks.added_loss(self.network)
        log_prob = heads.policy.log_prob(batch.action)
        advantage = batch.advantage
        if config.normalize_advantage is True:
            advantage = masked.standardize(advantage, mask, 1e-8)
        surrogate, clip_fraction = losses.clipped_surrogate(
            log_prob, batch.log_prob, advantage, config.clip_ratio, mask
        )
        if config.objective == "kl":
            surrogate = losses.importance_surrogate(
                log_prob, batch.log_prob, advantage, mask
            )
        penalty, cutoff = tf.zeros([]), tf.zeros([])
        if config.objective != "clip":
            kl = heads.policy.with_params(batch.policy).kl(heads.policy)
            penalty, cutoff = self.penalty.loss(kl, mask)
        value = losses.value(
            heads.value, batch.target, mask, batch.value, config.value_clip
        )
        entropy = heads.policy.entropy()
        bonus = losses.entropy_bonus(entropy, entropy_scale, mask)
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
