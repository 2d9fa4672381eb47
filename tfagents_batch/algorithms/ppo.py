"""Proximal Policy Optimization on whole batches (Schulman et al. 2017).

Clipped objective (eq. 7), adaptive KL penalty (section 4, with the cutoff of Hafner
et al. 2017) or both; generalized advantages; epochs of minibatches, all as graph.
Minibatches are of transitions, or of sequences where the network is recurrent.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar, Literal

import keras
import tensorflow as tf

from tfagents_batch import nest
from tfagents_batch.algorithms import ppo_alarms
from tfagents_batch.config import check, option
from tfagents_batch.errors import UserError
from tfagents_batch.interfaces import ActorCriticHeads, Metrics
from tfagents_batch.nn import moments, networks, optimizer, user
from tfagents_batch.ops import (
    batches,
    chunks,
    constants,
    histograms,
    losses,
    masked,
    minibatch,
    returns,
    sequences,
)
from tfagents_batch.ops.batches import Batch
from tfagents_batch.schedules import Constant, Schedule
from tfagents_batch.types import EnvSpec, Nest, TimeStep, Trajectory


@dataclasses.dataclass(frozen=True)
class Config:
    """Settings of PPO."""

    objective: Literal["clip", "kl", "both"] = option("clip", "what bounds the update")
    clip_ratio: float = option(
        0.2, "largest change of the probability ratio, epsilon", above=0
    )
    gamma: float = option(0.99, "discount a step", least=0, most=1)
    gae_lambda: float = option(
        0.95, "decay of advantages; 1 is Monte Carlo", least=0, most=1
    )
    learning_rate: Schedule = option(Constant(3e-4), "Adam's step size", least=0)
    adam_epsilon: float = option(1e-5, "Adam's epsilon", above=0)
    epochs: int = option(10, "passes over a trajectory", least=1)
    minibatch_size: int | None = option(
        64, "transitions an optimizer step; none: all of them", least=1
    )
    drop_rest: bool = option(
        False, "leave out what fills no minibatch, instead of smaller ones"
    )
    sequence_length: int | None = option(
        None,
        "steps of a sequence, of which minibatches are made then; by default that is "
        "the whole trajectory if the network is recurrent, and single transitions else",
        least=1,
    )
    gradient_norm: float | None = option(
        0.5, "largest global norm; none: no clipping", above=0
    )
    entropy_scale: Schedule = option(Constant(0.0), "weight of the entropy bonus")
    value_scale: float = option(
        1.0, "weight of the value loss, half squared error", least=0
    )
    value_clip: float | None = option(
        None, "largest change of a value an update", above=0
    )
    value_target: Literal["gae", "return"] = option(
        "gae", "of values: advantage + value, or the return with gae_lambda 1"
    )
    kl_target: float = option(
        0.01, "KL an update aims at, under the penalty; nats", above=0
    )
    kl_init_penalty: float = option(1.0, "first weight of the KL penalty", above=0)
    kl_adapt_low: float = option(
        0.7, "KL over kl_target below which the penalty falls", above=0
    )
    kl_adapt_high: float = option(
        1.3, "KL over kl_target above which the penalty rises", above=0
    )
    kl_adapt_factor: float = option(1.5, "by which the penalty rises or falls", above=1)
    kl_cutoff_factor: float = option(
        2.0, "KL over kl_target where the cutoff begins", above=0
    )
    kl_cutoff_scale: float = option(
        1000.0, "weight of the squared excess over it", least=0
    )
    kl_reduction: Literal["batch", "sequence"] = option(
        "batch",
        "what KL is a mean of, before penalty and cutoff: a minibatch, or each "
        "of its sequences",
    )
    kl_stop: float | None = option(
        None, "end an update's epochs above this KL; nats", above=0
    )
    normalize_advantage: Literal[True, False, "batch"] = option(
        True, "standardize within each minibatch; batch: once, all that is learned from"
    )
    normalize_observation: bool = option(True, "by streaming mean and deviation")
    observation_clip: float = option(
        10.0, "largest magnitude of a normalized observation", above=0
    )
    normalize_floor: float = option(
        moments.FLOOR,
        "least deviation that observations and rewards are divided by",
        above=0,
    )
    normalize_epsilon: float = option(
        0.0, "added to the variance of that deviation", least=0
    )
    normalize_return: moments.RewardKind = option(
        True, "divide rewards by the deviation of returns; per_step: by that of rewards"
    )
    reward_clip: float = option(10.0, "largest magnitude of a divided reward", above=0)
    histograms: bool = option(
        True, "of actions, values, divergences, weights, gradients and statistics"
    )
    network: networks.Config = option(networks.Config(), "shape of the network")

    # Without which weights and statistics are another agent; what changes shapes
    # need not be here. See ``training.inherit``.
    OF_AGENT: ClassVar[tuple[str, ...]] = (
        *("normalize_observation", "normalize_return"),
        *("network.activation", "network.mean", "network.std", "network.squash"),
        *("network.min_std", "network.max_std"),
    )

    def check(self) -> Config:
        """The config, its values as their types keep them (numbers as schedules).

        Raises:
          UserError: naming the setting, what it is and what was expected.
        """
        config = check(self)
        if config.kl_adapt_low > config.kl_adapt_high:
            raise UserError(
                f"kl_adapt_low is {config.kl_adapt_low}; expected at most "
                f"kl_adapt_high, {config.kl_adapt_high}"
            )
        if config.drop_rest and config.minibatch_size is None:
            raise UserError(
                "drop_rest is true, but minibatch_size is none: everything is one "
                "minibatch, and there is no rest; give a minibatch_size, or leave "
                "drop_rest out"
            )
        return dataclasses.replace(config, network=config.network.check("network."))


PENALTY_BOUNDS = {"minimum": 1e-4, "maximum": 1e3}

METRICS = (
    *("loss/total", "loss/policy", "loss/kl_penalty", "loss/value"),
    "loss/network",
    *("policy/entropy", "policy/approx_kl", "policy/clip_fraction"),
    *("grad/norm", "grad/skipped"),
)
KL_METRICS = ("policy/kl_cutoff",)  # with the penalty
HISTOGRAMS = (
    *("policy/action", "policy/mode", "policy/log_prob", "policy/row_entropy"),
    *("value/target", "value/row_loss"),
    *("weights/all", "weights/policy", "weights/value"),
    *("grad/all", "grad/policy", "grad/value"),
    *("normalize/observation_seen", "normalize/observation_mean"),
    "normalize/observation_std",
)
KL_HISTOGRAMS = ("policy/row_kl",)  # with the penalty


class PPO(tf.Module):
    """See the module; satisfies ``interfaces.Algorithm``.

    Args:
      config: settings.
      spec: of the environments.
      network: a ``keras.Model`` or builder of the user's, see ``nn.user``; None for
        the built-in one.

    Attributes:
      step: i64, transitions trained on.
      recurrent: whether the network keeps a state between steps.

    Raises:
      UserError: for settings or a network that cannot be used.
    """

    def __init__(self, config: Config, spec: EnvSpec, network=None):
        super().__init__()
        self.config = config = config.check()
        self.alarms = ppo_alarms.rows(config, spec)
        self.network = (
            networks.actor_critic(spec, config.network)
            if network is None
            else user.actor_critic(network, spec, config.network)
        )
        start = self.network.initial_state(2)
        self.recurrent = bool(nest.flatten(start))
        self._check_minibatches()
        # For its type: what else there is to a policy is in its parameters.
        self._policy = self.network.unroll(networks.dummy_steps(spec), start)[0].policy
        self.network.extra_loss()  # of this call
        self.optimizer = optimizer.Optimizer(
            self.network.trainable_variables, config.gradient_norm, config.adam_epsilon
        )
        self._paths = tuple(weight.path for weight in self.optimizer.trained)
        bounds = config.normalize_floor, config.normalize_epsilon
        self.observations = moments.ObservationNormalizer(
            spec.observation_space, config.observation_clip, *bounds
        )
        self.rewards = moments.RewardNormalizer(
            config.normalize_return, config.reward_clip, *bounds
        )
        self.step = keras.Variable(0, dtype="int64", trainable=False)
        self.penalty = keras.Variable(
            config.kl_init_penalty, dtype="float32", trainable=False
        )

    @property
    def compilable(self) -> bool:
        """Does XLA make the update faster? (It does not where it convolves, on CPU.)"""
        return not self.network.convolves

    def compile_parts(self, on: bool) -> None:
        """Compile what pays where the update as a whole is not compiled."""
        self.optimizer.compiled = on

    def named_variables(self) -> dict[str, keras.Variable]:
        """What a checkpoint holds: everything that updates change."""
        parts = {
            "network": networks.named_variables(self.network),
            "optimizer": self.optimizer.named_variables(),
            "observations": self.observations.named_variables(),
            "returns": self.rewards.named_variables(),
            "algorithm": {"step": self.step, "penalty": self.penalty},
        }
        return {f"{p}/{n}": v for p, named in parts.items() for n, v in named.items()}

    # ---- acting

    def initial_state(self, batch: int) -> Nest:
        """Recurrent state of the network and the running discounted return."""
        return self.network.initial_state(batch), constants.zeros([batch])

    def noise(self, shape, seed) -> tf.Tensor:
        return self.network.family.noise(shape, seed)

    def act(self, timestep: TimeStep, state: Nest, noise, explore: bool):
        before, return_ = state
        seen = timestep._replace(observation=self._seen(timestep.observation))
        heads, net_state = self.network(seen, before)
        policy = heads.policy
        action = policy.sample(noise) if explore else policy.mode()
        return_ = tf.where(
            timestep.first, 0.0, self.config.gamma * return_ + timestep.reward
        )
        behavior = {
            "log_prob": policy.log_prob(action),
            "policy": policy.params,
            "return": return_,
        }
        if self.recurrent:
            behavior["state"] = before
        return action, behavior, (net_state, return_)

    # ---- learning

    def _check_minibatches(self) -> None:
        config = self.config
        sequences = self.recurrent or config.kl_reduction == "sequence"
        alone = config.sequence_length in (None, 1) and not sequences
        if config.minibatch_size == 1 and config.normalize_advantage is True and alone:
            raise UserError(
                "minibatch_size is 1, and normalize_advantage is true: a single "
                "advantage less its own mean is 0, so the policy would learn nothing; "
                "use larger minibatches, or normalize_advantage=batch"
            )

    def update(self, trajectory: Trajectory, seed) -> Metrics:
        """Improve policy and value on one trajectory ``[T, B]``.

        Statistics of observations advance afterwards, so that a trajectory is learned
        from as it was acted on.
        """
        config, mask, steps = self.config, trajectory.mask, trajectory.steps
        self.optimizer.set_learning_rate(config.learning_rate(self.step.value))
        # Acting does not read them: use the newest.
        self.rewards.update(trajectory, config.gamma)
        seen = steps._replace(observation=self._seen(steps.observation), info={})
        batch = self._batch(trajectory, seen)
        rows, valid = self._rows(batch, trajectory)
        metrics = self._epochs(rows, valid, seed)
        metrics |= {
            "value/explained_variance": losses.explained_variance(
                batch.value, batch.target, mask
            ),
            "value/mean": masked.mean(batch.value, mask),
            "grad/learning_rate": tf.identity(self.optimizer.adam.learning_rate.value),
        }
        metrics |= self._adapt_penalty(rows, valid)
        metrics |= self.rewards.metrics(trajectory.reward, mask)
        if config.histograms:
            metrics |= self._histograms(trajectory, batch)
        self._advance(trajectory)
        return metrics

    def _batch(self, trajectory: Trajectory, seen: TimeStep) -> Batch:
        """Advantages and targets of a whole trajectory, and what was said in it."""
        config, mask = self.config, trajectory.mask
        reward = self.rewards(trajectory.reward)
        discount = trajectory.discount(config.gamma)
        value = self._values(seen, trajectory.state)
        advantage = returns.gae(reward, discount, value, config.gae_lambda, mask)
        target = advantage + value[:-1]
        if config.value_target == "return":
            target = returns.discounted(reward, discount, value, mask)
        if config.normalize_advantage == "batch":
            advantage = masked.standardize(advantage, mask, 1e-8)
        return Batch(
            nest.map(lambda x: x[:-1], seen),
            nest.map(lambda x: _without_nan(x, mask), trajectory.action),
            trajectory.behavior["log_prob"],
            trajectory.behavior["policy"],
            advantage,
            value[:-1],
            target,
        )

    def _rows(self, batch: Batch, trajectory: Trajectory) -> tuple[Batch, tf.Tensor]:
        """What minibatches are made of, and which of it counts."""
        mask, config = trajectory.mask, self.config
        whole = self.recurrent or config.kl_reduction == "sequence"
        if config.sequence_length is None and not whole:
            return batches.transitions(batch, mask)
        length = min(config.sequence_length or mask.shape[0], mask.shape[0])
        state = trajectory.behavior["state"] if self.recurrent else ()
        return batches.parts(batch, mask, length, state)

    def _epochs(self, rows: Batch, valid: tf.Tensor, seed) -> Metrics:
        """All optimizer steps on rows ``[N, ...]``; means of their metrics."""
        config = self.config
        entropy_scale = config.entropy_scale(self.step.value)
        names = METRICS if config.objective == "clip" else METRICS + KL_METRICS
        size = config.minibatch_size
        if rows.sequential and size is not None:
            size = max(1, size // rows.mask.shape[1])

        def step(rows, taken, carry):
            sums, count, stopped = carry
            batch, mask = batches.minibatch(rows, taken)
            weights = [variable.value for variable in self.optimizer.trained]
            with tf.GradientTape() as tape:
                tape.watch(weights)  # which may be tensors, see nn.functional
                loss, metrics = self._loss(batch, mask, entropy_scale)
            metrics |= self.optimizer.apply(tape.gradient(loss, weights))
            if config.kl_stop is not None:
                stopped = metrics["policy/approx_kl"] > config.kl_stop
            sums = {name: total + metrics[name] for name, total in sums.items()}
            return sums, count + 1, stopped

        sums, count, _ = minibatch.loop(
            step,
            (dict.fromkeys(names, 0.0), 0.0, False),
            rows,
            valid,
            epochs=config.epochs,
            minibatch_size=size,
            seed=seed,
            drop_rest=config.drop_rest,
            stop=lambda carry: carry[2],
        )
        means = {name: total / tf.maximum(count, 1) for name, total in sums.items()}
        return means | {"grad/updates": count}

    def _loss(self, batch: Batch, mask: tf.Tensor, entropy_scale):
        """Scalar loss of one minibatch, and its metrics."""
        config = self.config
        heads = self._heads(batch)
        network_loss = self.network.extra_loss()
        log_prob = heads.policy.log_prob(batch.action)
        advantage = batch.advantage
        if config.normalize_advantage is True:
            advantage = masked.standardize(advantage, mask, 1e-8)
        surrogate, clip_fraction = losses.clipped_surrogate(
            log_prob, batch.log_prob, advantage, config.clip_ratio, mask
        )
        penalty, metrics = tf.zeros([]), {}
        if config.objective == "kl":
            surrogate = losses.importance_surrogate(
                log_prob, batch.log_prob, advantage, mask
            )
        if config.objective != "clip":
            kl = heads.policy.with_params(batch.policy).kl(heads.policy)
            mean, counts = self._mean_kl(kl, mask)
            bound = losses.kl_penalty(
                mean,
                self.penalty.value,
                target=config.kl_target,
                cutoff_factor=config.kl_cutoff_factor,
                cutoff_coef=config.kl_cutoff_scale,
            )
            penalty, cutoff = (masked.mean(x, counts) for x in bound)
            metrics["policy/kl_cutoff"] = cutoff
        value = losses.value(
            heads.value, batch.target, mask, batch.value, config.value_clip
        )
        entropy = heads.policy.entropy()
        bonus = losses.entropy_bonus(entropy, entropy_scale, mask)
        loss = surrogate + penalty + config.value_scale * value + bonus + network_loss
        return loss, metrics | {
            "loss/total": loss,
            "loss/policy": surrogate,
            "loss/kl_penalty": penalty,
            "loss/value": value,
            "loss/network": network_loss,
            "policy/entropy": masked.mean(entropy, mask),
            "policy/approx_kl": losses.approx_kl(log_prob, batch.log_prob, mask),
            "policy/clip_fraction": clip_fraction,
        }

    def _adapt_penalty(self, rows: Batch, valid: tf.Tensor) -> Metrics:
        """Move the KL penalty by the divergence of the whole update."""
        config = self.config
        if config.objective == "clip":
            return {}
        divergence, mask = self._divergence(rows, valid)
        kl = masked.mean(*self._mean_kl(divergence, mask))
        penalty = losses.adapt_penalty(
            self.penalty.value,
            kl,
            target=config.kl_target,
            low=config.kl_adapt_low,
            high=config.kl_adapt_high,
            factor=config.kl_adapt_factor,
            **PENALTY_BOUNDS,
        )
        # Without a transition there was no update to judge.
        penalty = tf.where(tf.reduce_any(valid), penalty, self.penalty.value)
        self.penalty.assign(penalty)
        metrics = {"policy/kl": kl, "policy/kl_penalty": penalty}
        if config.histograms:
            metrics["policy/row_kl"] = histograms.rows(divergence, mask)
        return metrics

    def _mean_kl(self, kl: tf.Tensor, mask: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """K of a batch, ``[]``, or of each sequence, ``[n]``; which of them count."""
        if self.config.kl_reduction == "batch":
            return masked.mean(kl, mask), tf.constant(True)
        return masked.mean_over_time(kl, mask), tf.reduce_any(mask, 0)

    def _heads(self, batch: Batch) -> ActorCriticHeads:
        """What the network says of transitions or sequences."""
        if batch.sequential:
            return self.network.unroll(batch.steps, batch.state)[0]
        return self.network(batch.steps, ())[0]

    def _values(self, steps: TimeStep, state: Nest) -> tf.Tensor:
        """Values ``[T, B]`` of steps as the network sees them."""
        if not self.recurrent:
            value = chunks.apply(
                lambda rows: self.network(rows, ())[0].value, nest.fold(steps)
            )
            return tf.reshape(value, steps.first.shape)

        def values(streams):
            steps, state = streams
            steps = sequences.swap(steps)
            return sequences.swap(self.network.unroll(steps, state)[0].value)

        streams = sequences.swap(steps), state[0]
        return sequences.swap(chunks.apply(values, streams, steps=steps.first.shape[0]))

    def _divergence(self, rows: Batch, valid: tf.Tensor):
        """KL(behavior || policy) of all rows, nats, and which of them count."""
        needed = Batch(rows.steps, (), (), rows.policy, (), (), (), *rows[-2:])

        def divergence(rows):
            batch, _ = batches.minibatch(rows, tf.constant(True))
            policy = self._heads(batch).policy
            kl = policy.with_params(batch.policy).kl(policy)
            return sequences.swap(kl) if rows.sequential else kl

        if not rows.sequential:
            return chunks.apply(divergence, needed), valid
        kl = chunks.apply(divergence, needed, steps=rows.mask.shape[1])
        return sequences.swap((kl, rows.mask))

    # ---- statistics

    def _seen(self, observation: Nest) -> Nest:
        """What the network sees of raw observations."""
        if not self.config.normalize_observation:
            return observation
        return self.observations(observation)

    def _advance(self, trajectory: Trajectory) -> None:
        """Take the observations into their statistics; count the transitions."""
        if self.config.normalize_observation:
            observation = nest.map(lambda x: x[:-1], trajectory.steps.observation)
            self.observations.update(observation, trajectory.real[:-1])
        counted = tf.reduce_sum(tf.cast(trajectory.mask, tf.int64))
        self.step.assign(self.step.value + counted)

    def _histograms(self, trajectory: Trajectory, batch: Batch) -> Metrics:
        """Of what was acted on, of the new weights and of their gradients."""
        mask = trajectory.mask
        policy = self._policy.with_params(batch.policy)
        weights = [tf.convert_to_tensor(x.value) for x in self.optimizer.trained]
        metrics = histograms.of_acting(policy, batch, mask)
        metrics |= histograms.by_group("weights", weights, self._paths)
        gradients = self.optimizer.adam.mean_gradients()
        metrics |= histograms.by_group("grad", gradients, self._paths)
        if self.config.normalize_observation:
            raw = nest.map(lambda x: x[:-1], trajectory.steps.observation)
            seen = batch.steps.observation
            metrics |= self.observations.metrics(raw, seen, mask)
        return metrics


def _without_nan(action: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """An ignored action may be anything; NaN would reach the gradient (0 * NaN)."""
    return masked.safe(action, mask) if action.dtype.is_floating else action
