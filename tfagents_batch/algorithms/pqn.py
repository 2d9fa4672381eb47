"""PQN: Q-learning on rollouts, without replay and without a target network.

Many environments give enough different transitions, and normalized layers keep the
values of one network stable (Gallici et al. 2024, "Simplifying Deep Temporal Difference
Learning", arXiv:2407.04811). Targets are Q(lambda) returns without correction (Peng and
Williams 1996), for several epochs of minibatches.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, NamedTuple, Self

import tensorflow as tf

from tfagents_batch import nest
from tfagents_batch.algorithms.shared import alarms, sequences
from tfagents_batch.algorithms.shared.normalization import NormalizationSettings
from tfagents_batch.algorithms.shared.optimization import (
    NetworkLearner,
    OptimizerSettings,
)
from tfagents_batch.config import inherited, number, option
from tfagents_batch.graph import epochs, training_batch
from tfagents_batch.graph.inputs import Inputs, InputSchedule
from tfagents_batch.metrics import Limit
from tfagents_batch.nn import networks, q_network, user
from tfagents_batch.nn.policies.discrete import EpsilonGreedy
from tfagents_batch.ops import histograms, masked, returns, td
from tfagents_batch.schedules import Constant, Linear, Schedule
from tfagents_batch.types import (
    Accepts,
    DefaultSource,
    EnvSpec,
    Nest,
    Rollouts,
    TimeStep,
    Trajectory,
    Updated,
    UpdateSize,
)

METRICS = "loss/td", "value/td_error", "grad/norm", "grad/skipped"


@dataclasses.dataclass(frozen=True)
class PQNConfig(NormalizationSettings, OptimizerSettings):
    """Settings of PQN."""

    gamma: float = number(0.99, "discount factor per step", least=0, most=1)
    trace: float = number(
        0.65, "lambda of the Q(lambda) returns; 0 gives one reward", least=0, most=1
    )
    learning_rate: Schedule = number(
        Constant(5e-4), "learning rate of the optimizer", least=0
    )
    max_gradient_norm: float | None = inherited(
        OptimizerSettings, "max_gradient_norm", default=10.0
    )
    epsilon: Schedule = number(
        Linear(1.0, 0.05, 100_000), "probability of a random action", least=0, most=1
    )
    epochs: int = option(2, "passes over a rollout", least=1)
    minibatch_size: int = option(128, "transitions per gradient step", least=1)
    sequence_length: int | None = option(
        None,
        "with network.core, steps per training sequence; none: the rollout",
        least=1,
    )
    network: q_network.QConfig = option(
        q_network.QConfig(layer_norm=True), "shape of the network"
    )

    source: ClassVar[DefaultSource] = "rollout", {"length": 32}
    OF_AGENT: ClassVar[tuple[str, ...]] = (
        *("network.activation", "network.dueling"),
        *NormalizationSettings.OF_NORMALIZATION,
    )

    def check(self) -> Self:
        checked = super().check()
        sequences.check_core(checked, sequence_length=None)
        return checked

    def accepts(self) -> Accepts:
        return {"rollouts": Rollouts()}

    def alarms(self, spec: EnvSpec | None = None) -> tuple[Limit, ...]:
        advice = "rewards of about 1; a lower --algorithm.learning_rate"
        values = alarms.diverging_values(self.largest_reward(10), self.gamma, advice)
        return values, *alarms.small_returns(self.normalize_return)

    def update_size(self, transitions: int) -> UpdateSize:
        size = min(self.minibatch_size, transitions)
        return UpdateSize(size, self.network.units)


class _Rows(NamedTuple):
    """Transitions ``[N, ...]``, or sequences ``[N, L, ...]`` of a recurrent network."""

    step: TimeStep
    action: tf.Tensor
    target: tf.Tensor  # f32
    mask: Nest = ()  # of sequences, bool: transitions that count
    state: Nest = ()  # of sequences, before their first step, [N, ...]


class PQN(tf.Module):
    """PQN with an epsilon-greedy policy; satisfies ``interfaces.Algorithm``.

    Actions are Discrete, MultiDiscrete or MultiBinary. For a user's network see
    ``q_network``; hidden layers of the built-in one are normalized.
    """

    def __init__(self, config: PQNConfig, spec: EnvSpec, network: Any = None):
        super().__init__()
        self.config = config = config.check()
        self._spec, self._custom = spec, user.distinct(network)
        self.policy = self.make_policy()
        self.network = self.policy.network
        weights = {"network": self.network.trainable_variables}
        self.learner = NetworkLearner(config, self.policy, weights)
        self.compilable = self.learner.compilable

    def make_policy(self) -> EpsilonGreedy:
        shape = self.config.network
        if self._custom is not None:  # which normalizes its layers itself
            shape = dataclasses.replace(shape, layer_norm=False)
        network = q_network.q_network(self._spec, shape, self._custom)
        config, spec = self.config, self._spec
        running = config.normalize_return is True
        policy = EpsilonGreedy(
            network,
            spec.action_space,
            InputSchedule(config.epsilon),
            observations=config.observations(
                spec.observation_space, self._custom is None
            ),
            gamma=Inputs(config).gamma if running else None,
        )
        policy.records = policy.encoder is not None
        return policy

    def update(self, trajectory: Trajectory, seed, step) -> Updated:
        """Train on one rollout ``[T, B]``, by minibatches of squared errors."""
        learner, config, mask = self.learner, self.learner.inputs, trajectory.mask
        learner.observe(trajectory)
        trajectory, metrics = learner.begin(trajectory, step)
        steps = trajectory.steps._replace(info={})
        action, branches = trajectory.action, self.network.branches
        state = trajectory.behavior.get("state", ())
        q = self.network.unroll(steps, nest.map(lambda x: x[0], state))[0].q
        target = self._targets(trajectory, q)
        first, size = nest.map(lambda x: x[:-1], steps), config.minibatch_size
        rows, counts = nest.fold((_Rows(first, action, target), mask))
        if state:
            most = nest.static_size(mask, 0)
            length = min(config.sequence_length or most, most)
            rows = training_batch.cut(_Rows(first, action, target, mask), length)
            rows = rows._replace(state=training_batch.starts(state, length))
            counts, size = tf.reduce_any(rows.mask, 1), max(1, size // length)

        def train(rows, taken):
            def td_loss():
                q, action, target, counts = self._minibatch(rows, taken)
                error = self._taken(q, action) - branches.repeat(target)
                loss = masked.mean(branches.mean(tf.square(error)), counts) / 2
                loss += networks.added_loss(self.network)
                return loss, {
                    "loss/td": loss,
                    "value/td_error": masked.mean(branches.mean(tf.abs(error)), counts),
                }

            losses, gradient = learner.optimizers["network"].minimize(td_loss)
            return losses | gradient

        metrics |= epochs.means(
            train,
            METRICS,
            rows,
            counts,
            epochs=config.epochs,
            minibatch_size=size,
            seed=seed,
        )
        taken = branches.mean(self._taken(*nest.fold((q[:-1], action))))
        taken = tf.reshape(taken, mask.shape)
        if config.histograms:
            shown = {"action": trajectory.action, "q": taken, "target": target}
            named = {k: histograms.rows(x, mask) for k, x in shown.items()}
            metrics |= nest.prefixed("histogram", named)
        metrics |= {
            "value/q": masked.mean(taken, mask),
            "value/target": masked.mean(target, mask),
            "policy/epsilon": self.policy.epsilon(step),
        }
        return Updated(metrics)

    def _taken(self, q: tf.Tensor, action: tf.Tensor) -> tf.Tensor:
        """Return values of the choices of actions, f32 ``[N D]``, of ``[N, A]``."""
        branches = self.network.branches
        return td.chosen(branches.rows(q), branches.index(action))

    def _minibatch(self, rows: _Rows, taken: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """Return values f32 ``[M, A]``, actions, targets, and which count, ``[M]``."""
        if not rows.state:
            return self.network(rows.step)[0].q, rows.action, rows.target, taken
        state, rows = rows.state, training_batch.swap(rows._replace(state=()))
        q = self.network.unroll(rows.step, state)[0].q
        return nest.fold((q, rows.action, rows.target, rows.mask & taken))

    def _targets(self, trajectory: Trajectory, q: tf.Tensor) -> tf.Tensor:
        """Return Q(lambda) returns, f32 ``[T, B]``; ``q`` is ``[T + 1, B, A]``.

        G_t = r + gamma ((1 - lambda) max_a Q(s', a) + lambda G_{t+1}): the TD(lambda)
        return of the values max_a Q (paper, eq. 9, section 4). Of several choices, the
        value is the mean of the largest ones of each.
        """
        config = self.learner.inputs
        _, valid = networks.split_mask(trajectory.steps.observation)
        branches, shape = self.network.branches, q.shape[:2]
        q = branches.rows(nest.fold(q))
        if valid is not None:
            q = masked.logits(q, branches.valid(nest.fold(valid)))
        value = branches.mean(tf.stop_gradient(tf.reduce_max(q, -1)))
        value = tf.reshape(value, shape)
        data = trajectory.reward, trajectory.discount(config.gamma), value
        return returns.lambda_return(*data, config.trace, trajectory.mask)
