"""Deep Q-networks (Mnih et al. 2015), with options that compose.

Targets: double (van Hasselt et al. 2016), SARSA (Rummery and Niranjan 1994) or
Munchausen (Vieillard et al. 2020), of n rewards (Sutton and Barto 2018, section 7.1).
Distributions of returns: C51 (Bellemare et al. 2017) and QR-DQN (Dabney et al. 2018).
Networks: dueling (Wang et al. 2016), noisy (Fortunato et al. 2018), and of features of
actions. With a prioritized replay, importance weights (Schaul et al. 2016). For logged
rows, conservative Q-learning (CQL, Kumar et al. 2020).
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from tfagents_batch import nest, seeds
from tfagents_batch.algorithms.dqn_settings import Config
from tfagents_batch.algorithms.shared import off_policy
from tfagents_batch.graph.inputs import Inputs, InputSchedule
from tfagents_batch.nn import networks, q_network, user
from tfagents_batch.nn.policies.epsilon_greedy import EpsilonGreedy, best
from tfagents_batch.ops import histograms, masked, td, windows
from tfagents_batch.types import Assessment, EnvSpec, Nest, Trajectory, Updated

__all__ = ["DQN", "Config"]


class _Noise(NamedTuple):
    """Noise of noisy networks in an update; each use of a network has its own.

    Attributes:
      learned: of Q(s, a).
      target: of the target network.
      choice: of the choice of the last action by double DQN.
    """

    learned: Nest
    target: Nest
    choice: Nest


class DQN(tf.Module):
    """DQN with an epsilon-greedy policy; satisfies ``interfaces.Algorithm``.

    Actions are Discrete. For a user's network see ``q_network``.

    Attributes:
      target: the target network.
    """

    def __init__(self, config: Config, spec: EnvSpec, network=None):
        super().__init__()
        self.config = config = config.check()
        self._spec, self._given = spec, user.distinct(network)
        self.policy = self.make_policy()
        self.network = self.policy.network
        self.target = self._make_network()
        self.learner = off_policy.Learner(
            config,
            self.policy,
            trained={"network": self.network.trainable_variables},
            target=[(self.target, self.network)],
            variables={"target": networks.named_variables(self.target)},
        )
        # XLA makes convolutions on a CPU slower.
        self.compilable = not self.network.convolves
        self.compile_parts = self.learner.compile_parts
        self.named_variables = self.learner.named_variables
        self.histograms = self.learner.histograms
        self.optimizer = self.learner.optimizers["network"]
        self.inputs = self.learner.inputs

    def make_policy(self) -> EpsilonGreedy:
        """Return a policy with variables of its own, like the one that learns."""
        network = self._make_network()  # refuses other actions than Discrete
        return EpsilonGreedy(
            network,
            self._spec.action_space.start,
            InputSchedule(self.config.exploration),
            self.config.warmup(),
            Inputs(self.config).temperature,
        )

    def update(self, trajectory: Trajectory, seed, step) -> Updated:
        """Train on a batch of windows.

        A truncated episode bootstraps from its last state, a terminated one does not.
        """
        config, values = self.inputs, self.network.distribution
        metrics = self.learner.set_learning_rate(step)
        keys = seeds.split(seeds.key(seed, "network"), 3)
        noise = _Noise(*(self.network.noise([1], key) for key in keys))
        batch = self._transition(trajectory, noise)
        returns, probability = self._returns(trajectory, batch, noise)
        mask, action = batch.mask, self.policy.index(batch.action)
        _, valid = networks.split_mask(batch.step.observation)

        def loss():
            heads = self.network(batch.step, (), noise.learned)[0]
            outputs = td.chosen(heads.outputs, action)
            losses = values.losses(outputs, returns, probability)
            total = td.loss(losses, mask, trajectory.weight)
            total += networks.added_loss(self.network)
            parts = {"loss/td": total}
            if config.cql_scale:
                gap = td.conservative_gap(heads.q, action, valid)
                parts["loss/cql"] = td.loss(gap, mask, trajectory.weight)
                total += config.cql_scale * parts["loss/cql"]
            return total, (parts, losses, outputs)

        (parts, losses, outputs), found = self.optimizer.minimize(loss)
        self.learner.target.update()
        q, mean = values.mean(outputs), tf.reduce_sum(returns * probability, -1)
        error = masked.safe(mean - q, mask)
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
        metrics |= (
            found
            | parts
            | {
                "value/q": masked.mean(q, mask),
                "value/target": masked.mean(mean, mask),
                "value/td_error": masked.mean(tf.abs(error), mask),
                "policy/epsilon": self.policy.epsilon(step),
            }
        )
        # Rainbow's priority is the KL divergence: this loss minus the target's entropy.
        priority = losses if config.distribution == "c51" else tf.abs(error)
        return Updated(metrics, masked.safe(priority, mask))

    def assess(self, trajectory: Trajectory) -> Assessment:
        """Return values, targets and greedy actions of rows, without their noise."""
        noise = _Noise((), (), ())
        batch = self._transition(trajectory, noise)
        returns, probability = self._returns(trajectory, batch, noise)
        q = self.network(batch.step)[0].q
        _, valid = networks.split_mask(batch.step.observation)
        target = tf.reduce_sum(returns * probability, -1)
        target = tf.where(batch.mask, target, float("nan"))
        return Assessment(q, target, tf.one_hot(best(q, valid), q.shape[-1]))

    def _make_network(self) -> q_network.QNetwork:
        spec, config, given = self._spec, self.config, self._given
        return q_network.q_network(spec, config.network, given, config.values())

    def _transition(self, trajectory: Trajectory, noise: _Noise) -> windows.Transition:
        """Return the transitions that the windows begin with."""
        config, bonus = self.inputs, None
        if config.target == "munchausen":
            bonus = self._bonus(trajectory, noise)
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
        n = self.inputs.n_step
        # Where collecting broke off, no action was taken in the last state.
        first = windows.row(trajectory.steps.first[1:], batch.length, n)
        return windows.row(trajectory.action, batch.length, n), ~first

    def _returns(
        self, trajectory: Trajectory, batch: windows.Transition, noise: _Noise
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the targets: m returns with probabilities, f32 ``[N, m]`` each."""
        config = self.inputs
        _, valid = networks.split_mask(batch.next.observation)
        heads = self.target(batch.next, (), noise.target)[0]
        returns, probability = self.target.distribution.returns(heads.outputs)
        if config.target == "munchausen":
            temperature = config.munchausen.temperature
            returns, probability = td.soft_returns(
                returns, probability, heads.q, temperature, valid
            )
        else:
            if config.target == "sarsa":
                action = self._next_action(trajectory, batch)[0]
                action = self.policy.index(
                    tf.maximum(action, self._spec.action_space.start)
                )
            elif config.target == "double":
                action = best(self.network(batch.next, (), noise.choice)[0].q, valid)
            else:
                action = best(heads.q, valid)
            returns = td.chosen(returns, action)
            probability = td.chosen(probability, action)
        returns = td.target(batch.reward, batch.discount, returns)
        return masked.safe(returns, batch.mask), tf.stop_gradient(probability)

    def _bonus(self, trajectory: Trajectory, noise: _Noise) -> tf.Tensor:
        """Return alpha times the clipped tau ln pi(a | s), f32 ``[n, N]``."""
        config, n = self.inputs.munchausen, self.inputs.n_step
        steps = trajectory.steps._replace(info={})
        rows = nest.fold(nest.map(lambda x: x[:n], steps))
        _, valid = networks.split_mask(rows.observation)
        q = self.target(rows, (), noise.target)[0].q
        action = trajectory.action[:n]
        taken = self.policy.index(tf.reshape(action, [-1]))
        log = td.chosen(td.log_policy(q, config.temperature, valid), taken)
        bonus = tf.clip_by_value(config.temperature * log, config.clip, 0.0)
        return config.alpha * tf.reshape(bonus, action.shape)
