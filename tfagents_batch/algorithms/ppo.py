"""Proximal Policy Optimization on whole batches (Schulman et al. 2017).

Clipped objective (eq. 7), adaptive KL penalty (section 4, with the cutoff of Hafner
et al. 2017) or both; generalized advantages; epochs of minibatches, all as graph.
"""

from __future__ import annotations

import dataclasses
from typing import Literal, NamedTuple

import keras
import tensorflow as tf

from tfagents_batch import nest
from tfagents_batch.config import check, option
from tfagents_batch.errors import UserError
from tfagents_batch.interfaces import Metrics
from tfagents_batch.nn import moments, networks, optimizer, user
from tfagents_batch.ops import chunks, losses, masked, minibatch, returns
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
    minibatch_size: int = option(64, "transitions an optimizer step", least=1)
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
    kl_stop: float | None = option(
        None, "end an update's epochs above this KL; nats", above=0
    )
    normalize_advantage: bool = option(True, "standardize within each minibatch")
    normalize_observation: bool = option(True, "by streaming mean and deviation")
    normalize_return: bool = option(True, "divide rewards by the deviation of returns")
    network: networks.Config = option(networks.Config(), "shape of the network")

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
        return dataclasses.replace(config, network=config.network.check("network."))


PENALTY_BOUNDS = {"minimum": 1e-4, "maximum": 1e3}

METRICS = (
    *("loss/total", "loss/policy", "loss/kl_penalty", "loss/value"),
    "loss/network",
    *("policy/entropy", "policy/approx_kl", "policy/clip_fraction"),
    *("grad/norm", "grad/skipped"),
)
KL_METRICS = ("policy/kl_cutoff",)  # with the penalty


class Batch(NamedTuple):
    """What the loss reads, ``[T, B, ...]`` or in rows ``[N, ...]``."""

    steps: TimeStep  # as the network sees them
    action: Nest
    log_prob: tf.Tensor  # of the behavior policy
    policy: dict[str, tf.Tensor]  # its parameters
    advantage: tf.Tensor
    value: tf.Tensor  # before the update
    target: tf.Tensor


class PPO(tf.Module):
    """See the module; satisfies ``interfaces.Algorithm``.

    Args:
      config: settings.
      spec: of the environments.
      network: a ``keras.Model`` or builder of the user's, see ``nn.user``; None for
        the built-in one.

    Attributes:
      step: i64, transitions trained on.

    Raises:
      UserError: for settings or a network that cannot be used.
    """

    def __init__(self, config: Config, spec: EnvSpec, network=None):
        super().__init__()
        self.config = config = config.check()
        self.network = (
            networks.actor_critic(spec, config.network)
            if network is None
            else user.actor_critic(network, spec, config.network)
        )
        if nest.flatten(self.network.initial_state(1)):
            raise UserError(
                f"network {self.network.name!r} keeps a state between steps "
                "(initial_state is not ()); PPO trains feed-forward networks only"
            )
        self.optimizer = optimizer.Optimizer(
            self.network.trainable_variables, config.gradient_norm, config.adam_epsilon
        )
        self.observations = moments.ObservationNormalizer(spec.observation_space)
        self.returns = moments.Moments(())
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
            "returns": self.returns.named_variables(),
            "algorithm": {"step": self.step, "penalty": self.penalty},
        }
        return {f"{p}/{n}": v for p, named in parts.items() for n, v in named.items()}

    # ---- acting

    def initial_state(self, batch: int) -> Nest:
        """Recurrent state of the network and the running discounted return."""
        return self.network.initial_state(batch), tf.zeros([batch])

    def noise(self, shape, seed) -> tf.Tensor:
        return self.network.family.noise(shape, seed)

    def act(self, timestep: TimeStep, state: Nest, noise, explore: bool):
        net_state, return_ = state
        seen = timestep._replace(observation=self._seen(timestep.observation))
        heads, net_state = self.network(seen, net_state)
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
        return action, behavior, (net_state, return_)

    # ---- learning

    def update(self, trajectory: Trajectory, seed) -> Metrics:
        """Improve policy and value on one trajectory ``[T, B]``.

        Statistics of observations advance afterwards, so that a trajectory is learned
        from as it was acted on.
        """
        config, mask, steps = self.config, trajectory.mask, trajectory.steps
        self.optimizer.set_learning_rate(config.learning_rate(self.step.value))
        self._advance_returns(trajectory)  # acting does not read them: use the newest
        seen = steps._replace(observation=self._seen(steps.observation))
        value = self._values(seen)
        advantage = returns.gae(
            self._scaled(trajectory.reward),
            trajectory.discount(config.gamma),
            value,
            config.gae_lambda,
            mask,
        )
        target = advantage + value[:-1]
        batch = Batch(
            nest.map(lambda x: x[:-1], seen._replace(info={})),
            nest.map(lambda x: _without_nan(x, mask), trajectory.action),
            trajectory.behavior["log_prob"],
            trajectory.behavior["policy"],
            advantage,
            value[:-1],
            target,
        )
        metrics = self._epochs(*nest.fold((batch, mask)), seed)
        metrics |= {
            "value/explained_variance": losses.explained_variance(
                value[:-1], target, mask
            ),
            "value/mean": masked.mean(value[:-1], mask),
            "grad/learning_rate": tf.identity(self.optimizer.adam.learning_rate.value),
            "policy/action": _histogram(nest.flatten(trajectory.action)[0], mask),
            "value/target": _histogram(target, mask),
        }
        metrics |= self._adapt_penalty(batch, mask)
        self._advance(trajectory)
        return metrics

    def _epochs(self, rows: Batch, mask: tf.Tensor, seed) -> Metrics:
        """All optimizer steps on ``[N]`` rows; means of their metrics."""
        config = self.config
        entropy_scale = config.entropy_scale(self.step.value)
        names = METRICS if config.objective == "clip" else METRICS + KL_METRICS

        def step(rows, mask, carry):
            sums, count, stopped = carry
            weights = [variable.value for variable in self.optimizer.trained]
            with tf.GradientTape() as tape:
                tape.watch(weights)  # which may be tensors, see nn.functional
                loss, metrics = self._loss(rows, mask, entropy_scale)
            metrics |= self.optimizer.apply(tape.gradient(loss, weights))
            if config.kl_stop is not None:
                stopped = metrics["policy/approx_kl"] > config.kl_stop
            sums = {name: total + metrics[name] for name, total in sums.items()}
            return sums, count + 1, stopped

        sums, count, _ = minibatch.loop(
            step,
            (dict.fromkeys(names, 0.0), 0.0, False),
            rows,
            mask,
            epochs=config.epochs,
            minibatch_size=config.minibatch_size,
            seed=seed,
            stop=lambda carry: carry[2],
        )
        means = {name: total / tf.maximum(count, 1) for name, total in sums.items()}
        return means | {"grad/updates": count}

    def _loss(self, rows: Batch, mask: tf.Tensor, entropy_scale):
        """Scalar loss of one minibatch ``[n]`` and its metrics."""
        config = self.config
        heads, _ = self.network(rows.steps, ())
        network_loss = self.network.extra_loss()
        log_prob = heads.policy.log_prob(rows.action)
        advantage = rows.advantage
        if config.normalize_advantage:
            advantage = masked.standardize(advantage, mask, 1e-8)
        surrogate, clip_fraction = losses.clipped_surrogate(
            log_prob, rows.log_prob, advantage, config.clip_ratio, mask
        )
        penalty, metrics = tf.zeros([]), {}
        if config.objective == "kl":
            surrogate = losses.importance_surrogate(
                log_prob, rows.log_prob, advantage, mask
            )
        if config.objective != "clip":
            kl = heads.policy.with_params(rows.policy).kl(heads.policy)
            penalty, cutoff = losses.kl_penalty(
                masked.mean(kl, mask),
                self.penalty.value,
                target=config.kl_target,
                cutoff_factor=config.kl_cutoff_factor,
                cutoff_coef=config.kl_cutoff_scale,
            )
            metrics["policy/kl_cutoff"] = cutoff
        value = losses.value(
            heads.value, rows.target, mask, rows.value, config.value_clip
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
            "policy/approx_kl": losses.approx_kl(log_prob, rows.log_prob, mask),
            "policy/clip_fraction": clip_fraction,
        }

    def _adapt_penalty(self, batch: Batch, mask: tf.Tensor) -> Metrics:
        """Move the KL penalty by the divergence of the whole update."""
        config = self.config
        if config.objective == "clip":
            return {}
        kl = self._divergence(batch, mask)
        penalty = losses.adapt_penalty(
            self.penalty.value,
            kl,
            target=config.kl_target,
            low=config.kl_adapt_low,
            high=config.kl_adapt_high,
            factor=config.kl_adapt_factor,
            **PENALTY_BOUNDS,
        )
        self.penalty.assign(penalty)
        return {"policy/kl": kl, "policy/kl_penalty": penalty}

    def _values(self, steps: TimeStep) -> tf.Tensor:
        """Values ``[T, B]`` of steps as the network sees them."""
        value = chunks.apply(
            lambda rows: self.network(rows, ())[0].value, nest.fold(steps)
        )
        return tf.reshape(value, steps.first.shape)

    def _divergence(self, batch: Batch, mask: tf.Tensor) -> tf.Tensor:
        """Masked mean of KL(behavior || policy) over ``[T, B]``, nats."""

        def divergence(rows):
            steps, behavior = rows
            policy = self.network(steps, ())[0].policy
            return policy.with_params(behavior).kl(policy)

        kl = chunks.apply(divergence, nest.fold((batch.steps, batch.policy)))
        return masked.mean(kl, tf.reshape(mask, [-1]))

    # ---- statistics

    def _seen(self, observation: Nest) -> Nest:
        """What the network sees of raw observations."""
        if not self.config.normalize_observation:
            return observation
        return self.observations(observation)

    def _scaled(self, reward: tf.Tensor) -> tf.Tensor:
        """Rewards in units of the returns' deviation, clipped to 10."""
        if not self.config.normalize_return:
            return reward
        return tf.clip_by_value(reward / self.returns.std(), -10.0, 10.0)

    def _advance_returns(self, trajectory: Trajectory) -> None:
        """Take the running returns into their statistics."""
        if self.config.normalize_return:
            steps = nest.map(lambda x: x[:-1], trajectory.steps)
            earned = steps.valid & ~steps.first
            self.returns.update(trajectory.behavior["return"], earned)

    def _advance(self, trajectory: Trajectory) -> None:
        """Take the observations into their statistics; count the transitions."""
        if self.config.normalize_observation:
            steps = nest.map(lambda x: x[:-1], trajectory.steps)
            self.observations.update(steps.observation, steps.valid)
        counted = tf.reduce_sum(tf.cast(trajectory.mask, tf.int64))
        self.step.assign(self.step.value + counted)


def _histogram(x: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """f32 ``[n]`` of ``[T, B, ...]``: NaN, which the logger drops, where masked."""
    return tf.reshape(masked.safe(tf.cast(x, tf.float32), mask, float("nan")), [-1])


def _without_nan(action: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """An ignored action may be anything; NaN would reach the gradient (0 * NaN)."""
    return masked.safe(action, mask) if action.dtype.is_floating else action
