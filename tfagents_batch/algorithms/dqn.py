"""Deep Q-networks (Mnih et al. 2015), with options that compose.

Targets: double (van Hasselt et al. 2016), SARSA (Rummery and Niranjan 1994) or
Munchausen (Vieillard et al. 2020), of n rewards (Sutton and Barto 2018, section 7.1).
Distributions of returns: C51 (Bellemare et al. 2017) and QR-DQN (Dabney et al. 2018).
Networks: dueling (Wang et al. 2016), noisy (Fortunato et al. 2018), and of features of
actions. Actions of several choices have a branch of values for each (Tavakoli et al.
2018, arXiv:1711.08946). With a prioritized replay, importance weights (Schaul et al.
2016). For logged rows, conservative Q-learning (CQL, Kumar et al. 2020).
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar, Literal, NamedTuple

import tensorflow as tf

from tfagents_batch import nest, seeds
from tfagents_batch.algorithms.shared import alarms
from tfagents_batch.algorithms.shared.off_policy import OffPolicySettings
from tfagents_batch.algorithms.shared.optimization import NetworkLearner
from tfagents_batch.algorithms.shared.sequences import Sequences
from tfagents_batch.config import inherited, number, option
from tfagents_batch.errors import UserError
from tfagents_batch.graph.inputs import InputSchedule
from tfagents_batch.metrics import Limit
from tfagents_batch.nn import networks, q_network, user
from tfagents_batch.nn.policies.discrete import EpsilonGreedy
from tfagents_batch.ops import histograms, masked, td, windows
from tfagents_batch.ops.branches import best
from tfagents_batch.ops.value_distributions import (
    Distribution,
    ReturnCategories,
    ReturnMean,
    ReturnQuantiles,
)
from tfagents_batch.schedules import Constant, Linear, Schedule
from tfagents_batch.types import (
    Assessment,
    EnvSpec,
    Nest,
    TimeStep,
    Trajectory,
    Updated,
)

_OUTSIDE = Limit(
    "returns_outside_bounds",
    "value/outside",
    above=0.2,
    lines=3,
    text="{value/outside:.0%} of the targets lie outside of C51's bounds, so values "
    "cannot be right. What to try: --algorithm.v_min and --algorithm.v_max that "
    "contain all discounted returns; --algorithm.distribution=qr, which has no bounds",
)


@dataclasses.dataclass(frozen=True)
class Munchausen:
    """Settings of Munchausen targets."""

    alpha: float = number(0.9, "weight of the log-policy in rewards", least=0, most=1)
    temperature: float = number(
        0.03, "temperature tau of the policy softmax(Q / tau)", above=0
    )
    clip: float = number(-1.0, "smallest log-policy term tau ln pi", most=0)


@dataclasses.dataclass(frozen=True)
class DQNConfig(OffPolicySettings):
    """Settings of DQN.

    The defaults are tuned on CartPole-v1, Acrobot-v1 and LunarLander-v3, so that the
    last checkpoint is a good one. Targets of 3 rewards learn faster than those of one
    (Hessel et al. 2018). Double targets (van Hasselt et al. 2016), a target network
    that moves slowly and a learning rate that decreases keep what was learned.
    """

    n_step: int = inherited(OffPolicySettings, "n_step", default=3)
    learning_rate: Schedule = number(
        Linear(1e-3, 1e-4, 100_000), "learning rate of the optimizer", least=0
    )
    max_gradient_norm: float | None = inherited(
        OffPolicySettings, "max_gradient_norm", default=10.0
    )
    batch_size: int = inherited(OffPolicySettings, "batch_size", default=128)
    train_every: int = inherited(OffPolicySettings, "train_every", default=4)
    target_tau: float = inherited(OffPolicySettings, "target_tau", default=0.01)
    epsilon: Schedule | None = number(
        None,
        "probability of a random action; none: linear(1, 0.05, 10000), or 0 if noisy "
        "networks or a temperature explore",
        least=0,
        most=1,
        group="exploration",
    )
    temperature: Schedule | None = number(
        None,
        "temperature of softmax exploration; none: actions of the largest value",
        above=0,
        group="exploration",
    )
    target: Literal["max", "double", "sarsa", "munchausen"] = option(
        "double",
        "bootstrap: max (Q-learning), double (double DQN), sarsa or munchausen",
    )
    munchausen: Munchausen = option(Munchausen(), "settings of Munchausen targets")
    cql_scale: float = option(
        0.0,
        "weight of CQL's loss, which lowers values of actions that were not logged; "
        "0: none",
        least=0,
    )
    distribution: Literal["mean", "c51", "qr"] = option(
        "mean", "learned statistic of returns: mean, categories (c51) or quantiles (qr)"
    )
    atoms: int = option(51, "number of categories or quantiles", least=2)
    v_min: float = option(-10.0, "smallest return of C51")
    v_max: float = option(10.0, "largest return of C51")
    loss: td.Loss = option("huber", "loss of the TD error; not for C51 and QR")
    network: q_network.QConfig = option(q_network.QConfig(), "shape of the network")

    OF_AGENT: ClassVar[tuple[str, ...]] = (
        "network.activation",
        "network.dueling",
        "distribution",
        "v_min",
        "v_max",
        *OffPolicySettings.OF_NORMALIZATION,
    )

    @property
    def exploration(self) -> Schedule:
        """Probability of a random action."""
        if self.epsilon is not None:
            return self.epsilon
        explores = self.network.noisy or self.temperature is not None
        return Constant(0.0) if explores else Linear(1.0, 0.05, 10_000)

    @property
    def window(self) -> int:
        """Steps of a window; SARSA needs the action of the last one."""
        return super().window + (self.target == "sarsa")

    @property
    def no_rows(self) -> str:
        """Reason why windows cannot be mixed with logged rows; empty if they can."""
        if self.target == "sarsa":
            return (
                "target=sarsa needs the action behind a window, which a row lacks; set "
                "--algorithm.target=double"
            )
        if self.target == "munchausen" and self.n_step > 1:
            return (
                f"target=munchausen with n_step={self.n_step} adds to each reward, and "
                "a row has only their sum; set --algorithm.n_step=1"
            )
        return super().no_rows

    def check(self) -> DQNConfig:
        checked = super().check()
        if self.distribution == "c51" and not checked.v_min < checked.v_max:
            raise UserError(
                f"v_min is {checked.v_min} and v_max is {checked.v_max}, so no return "
                "lies between them; set --algorithm.v_min to the smallest and "
                "--algorithm.v_max to the largest discounted return of an episode"
            )
        return checked

    def alarms(self, spec: EnvSpec | None = None) -> tuple[Limit, ...]:
        advice = (
            "rewards of about 1; lower --algorithm.learning_rate; "
            "--algorithm.target=double; a larger --algorithm.target_every"
        )
        values = alarms.diverging_values(self.largest_reward(10), self.gamma, advice)
        return values, _OUTSIDE, *alarms.small_returns(self.normalize_return)

    def values(self) -> Distribution:
        """Return what the network's outputs of an action mean."""
        if self.distribution == "c51":
            return ReturnCategories(self.atoms, self.v_min, self.v_max)
        qr = self.distribution == "qr"
        return ReturnQuantiles(self.atoms) if qr else ReturnMean(self.loss)


class _Noise(NamedTuple):
    """Noise of noisy networks in an update; each use of a network has its own."""

    learned: Nest  # of Q(s, a)
    target: Nest  # of the target network
    choice: Nest  # of the choice of the last action by double DQN


Config = DQNConfig  # its name in version 0.1


class DQN(tf.Module):
    """DQN with an epsilon-greedy policy; satisfies ``interfaces.Algorithm``.

    Actions are Discrete, MultiDiscrete or MultiBinary. For a user's network see
    ``q_network``.

    In the shapes of its methods, N states have M = N D rows, one for each of the D
    choices of an action, see ``Branches``.
    """

    def __init__(self, config: DQNConfig, spec: EnvSpec, network=None):
        super().__init__()
        self.config = config = config.check()
        self._spec, self._custom = spec, user.distinct(network)
        self.policy = self.make_policy()
        self.network = self.policy.network
        self._branches = self.network.branches
        self._check_branches()
        self.target = self._make_network()
        self.learner = NetworkLearner(
            config,
            self.policy,
            {"network": self.network.trainable_variables},
            [(self.target, self.network)],
            {"target": networks.named_variables(self.target)},
            streams=spec.num_envs,
        )
        self.compilable = self.learner.compilable

    def make_policy(self) -> EpsilonGreedy:
        network = self._make_network()  # refuses actions with other parts
        config, temperature = self.config, self.config.temperature
        policy = EpsilonGreedy(
            network,
            self._spec.action_space,
            InputSchedule(config.begun(config.exploration)),
            config.random_steps,
            None if temperature is None else InputSchedule(config.begun(temperature)),
            config.observations(self._spec.observation_space, self._custom is None),
        )
        policy.records = config.records_state
        return policy

    def update(self, trajectory: Trajectory, seed, step) -> Updated:
        """Train on a batch of windows.

        A truncated episode bootstraps from its last state, a terminated one does not.
        """
        learner, config = self.learner, self.learner.inputs
        values, branches = self.network.distribution, self._branches
        trajectory, metrics = learner.begin(trajectory, step)
        keys = seeds.split(seeds.key(seed, "network"), 3)
        noise = _Noise(*(self.network.noise([1], key) for key in keys))
        sequences = Sequences(self.config, trajectory)
        trajectory = sequences.trajectory
        batch = self._transition(sequences, noise)
        returns, probability = self._returns(sequences, batch, noise)
        mask, action = batch.mask, branches.index(batch.action)
        goal = branches.repeat(returns), branches.repeat(probability)

        def loss():
            step = sequences.now(batch, self.network)
            heads = self.network(step, (), noise.learned)[0]
            outputs = td.chosen(branches.rows(heads.outputs), action)
            losses = branches.mean(values.losses(outputs, *goal))
            total = td.loss(losses, mask, trajectory.weight)
            total += networks.added_loss(self.network)
            parts = {"loss/td": total}
            if config.cql_scale:
                gap = td.conservative_gap(heads.q, action, self._valid(batch.step))
                parts["loss/cql"] = td.loss(gap, mask, trajectory.weight)
                total += config.cql_scale * parts["loss/cql"]
            return total, (parts, losses, outputs)

        (parts, losses, outputs), steps = learner.optimizers["network"].minimize(loss)
        learner.move_targets()
        learner.reset(seed)
        mean = tf.reduce_sum(returns * probability, -1)
        q = values.mean(outputs)
        error = branches.repeat(mean) - q
        q, size = branches.mean(q), branches.mean(tf.abs(error))
        error = masked.safe(branches.mean(error), mask)
        if config.histograms:
            rows = {
                "histogram/action": batch.action,
                "histogram/q": q,
                "histogram/target": mean,
                "histogram/td_error": error,
            }
            metrics |= {name: histograms.rows(x, mask) for name, x in rows.items()}
        if config.distribution == "c51":
            beyond = (returns < values.low) | (returns > values.high)
            beyond = tf.reduce_sum(tf.cast(beyond, tf.float32) * probability, -1)
            metrics["value/outside"] = masked.mean(beyond, mask)
        metrics |= {
            **(steps | parts),
            "value/q": masked.mean(q, mask),
            "value/target": masked.mean(mean, mask),
            "value/td_error": masked.mean(size, mask),
            "policy/epsilon": self.policy.epsilon(step),
        }
        # Rainbow's priority is the KL divergence: this loss minus the target's entropy.
        priority = losses if config.distribution == "c51" else size
        priority = sequences.priority(masked.safe(priority, mask), mask)
        return Updated(metrics, priority)

    def assess(self, trajectory: Trajectory) -> Assessment:
        """Return values, targets and greedy actions of rows, without their noise."""
        noise = _Noise((), (), ())
        sequences = Sequences(self.config, trajectory)
        batch = self._transition(sequences, noise)
        returns, probability = self._returns(sequences, batch, noise)
        q = self.network(batch.step)[0].q
        _, valid = networks.split_mask(batch.step.observation)
        target = tf.reduce_sum(returns * probability, -1)
        target = tf.where(batch.mask, target, float("nan"))
        return Assessment(q, target, tf.one_hot(best(q, valid), q.shape[-1]))

    def _check_branches(self) -> None:
        """Refuse options that have no form for actions of several choices."""
        config = self.config
        for name, other in (("target", "munchausen"), ("cql_scale", None)):
            value = getattr(config, name)
            if self._branches.shape and (value == other if other else value):
                raise UserError(
                    f"{name} is {value}, but the action space is "
                    f"{self._spec.action_space}; it needs Discrete actions; leave "
                    f"--algorithm.{name} out"
                )

    def _valid(self, step: TimeStep) -> tf.Tensor | None:
        """Return the valid choices of rows, bool ``[M, A]``; None if all are."""
        return self._branches.valid(networks.split_mask(step.observation)[1])

    def _make_network(self) -> q_network.QNetwork:
        parts = self.config.network, self._custom, self.config.values()
        return q_network.q_network(self._spec, *parts)

    def _transition(self, sequences: Sequences, noise: _Noise) -> windows.Transition:
        """Return the transitions that are learned from."""
        config, bonus = self.learner.inputs, None
        trajectory = sequences.trajectory
        if config.target == "munchausen":
            bonus = self._bonus(sequences, noise)
        batch = windows.transition(trajectory, config.n_step, config.gamma, bonus)
        if config.target == "sarsa":
            follows = self._next_action(trajectory, batch)[1]
            batch = batch._replace(mask=batch.mask & (follows | batch.next.last))
        return batch

    def _next_action(
        self, trajectory: Trajectory, batch: windows.Transition
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return actions in the last states, and bool ``[N]``: where one was taken."""
        if "next_action" in trajectory.behavior:  # of a row of a timeline
            action = trajectory.behavior["next_action"][0]
            return action, action >= self._spec.action_space.start
        n = self.learner.inputs.n_step
        # Where collecting broke off, no action was taken in the last state.
        first = windows.row(trajectory.steps.first[1:], batch.length, n)
        return windows.row(trajectory.action, batch.length, n), ~first

    def _returns(
        self, sequences: Sequences, batch: windows.Transition, noise: _Noise
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the targets: m returns with probabilities, f32 ``[N, m]`` each.

        Of several choices, they are those of all branches, which are equally likely, so
        that their mean is the mean over branches (Tavakoli et al., eq. 6).
        """
        config, branches = self.learner.inputs, self._branches
        valid = self._valid(batch.next)
        last = sequences.then(batch, self.target)
        heads = self.target(last, (), noise.target)[0]
        outputs = branches.rows(heads.outputs)
        returns, probability = self.target.distribution.returns(outputs)
        if config.target == "munchausen":
            temperature = config.munchausen.temperature
            returns, probability = td.soft_returns(
                returns, probability, heads.q, temperature, valid
            )
        else:
            if config.target == "sarsa":
                action = self._next_action(sequences.trajectory, batch)[0]
                action = tf.maximum(branches.index(action), 0)
            elif config.target == "double":
                last = sequences.then(batch, self.network)
                q = self.network(last, (), noise.choice)[0].q
                action = best(branches.rows(q), valid)
            else:
                action = best(branches.rows(heads.q), valid)
            returns = branches.together(td.chosen(returns, action))
            probability = td.chosen(probability, action)
            probability = branches.together(probability) / branches.count
        returns = td.target(batch.reward, batch.discount, returns)
        return masked.safe(returns, batch.mask), tf.stop_gradient(probability)

    def _bonus(self, sequences: Sequences, noise: _Noise) -> tf.Tensor:
        """Return alpha times the clipped tau ln pi(a | s), f32 ``[n, N]``."""
        config, n = self.learner.inputs.munchausen, self.learner.inputs.n_step
        rows = nest.fold(sequences.steps(self.target, n))
        _, valid = networks.split_mask(rows.observation)
        q = self.target(rows, (), noise.target)[0].q
        action = sequences.trajectory.action[:n]
        taken = self.policy.index(tf.reshape(action, [-1]))
        log = td.chosen(td.log_policy(q, config.temperature, valid), taken)
        bonus = tf.clip_by_value(config.temperature * log, config.clip, 0.0)
        return config.alpha * tf.reshape(bonus, action.shape)
