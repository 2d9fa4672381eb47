"""Deep Q-networks (Mnih et al. 2015), with options that compose.

Double targets (van Hasselt et al. 2016), dueling networks (Wang et al. 2016), n-step
returns (Sutton and Barto 2018, section 7.1) and, with a prioritized replay, importance
weights (Schaul et al. 2016).
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import keras
import tensorflow as tf

from tfagents_batch import config, nest
from tfagents_batch.config import option
from tfagents_batch.errors import UserError
from tfagents_batch.interfaces import Limit, Metrics, Updated, UpdateSize
from tfagents_batch.nn import networks, optimizer, q_network, summary
from tfagents_batch.nn.q_policy import EpsilonGreedy, best
from tfagents_batch.nn.target_network import Follower
from tfagents_batch.ops import histograms, masked, returns, td
from tfagents_batch.schedules import Constant, Linear, Ratio, Schedule
from tfagents_batch.types import EnvSpec, Trajectory


@dataclasses.dataclass(frozen=True)
class Config:
    """Settings of DQN."""

    gamma: float = option(0.99, "discount factor per step", least=0, most=1)
    n_step: int = option(1, "rewards in a target, n", least=1, most=1000)
    double: bool = option(
        False, "select the target's action with the learned network (double DQN)"
    )
    learning_rate: Schedule = option(Constant(1e-4), "Adam's step size", least=0)
    adam_epsilon: float = option(1e-8, "Adam's epsilon", above=0)
    batch_size: int = option(32, "transitions per update", least=1)
    train_every: int = option(
        4, "environment steps between trainings", least=1, most=1_000_000
    )
    train_updates: int = option(1, "updates per training", least=1, most=1_000_000)
    warmup_steps: int = option(
        1000, "environment steps with random actions before training", least=0
    )
    epsilon: Schedule = option(
        Linear(1.0, 0.05, 100_000), "probability of a random action", least=0, most=1
    )
    target_every: int = option(
        2500, "updates between moves of the target network", least=1
    )
    target_tau: float = option(
        1.0, "share by which the target network moves; 1 copies", above=0, most=1
    )
    loss: td.Loss = option("huber", "loss of the TD error")
    gradient_norm: float | None = option(
        10.0, "largest global norm of the gradient; none disables clipping", above=0
    )
    histograms: bool = option(
        True, "log histograms of actions, values, TD errors, weights and gradients"
    )
    network: q_network.Config = option(q_network.Config(), "shape of the network")

    # Settings that change the meaning of saved weights, see ``training.warm_start``.
    OF_AGENT: ClassVar[tuple[str, ...]] = ("network.activation", "network.dueling")

    def check(self) -> Config:
        """Return the checked settings.

        Raises:
          UserError: for a setting that is invalid.
        """
        checked = config.check(self)
        return dataclasses.replace(checked, network=checked.network.check("network."))

    def check_steps(self, steps: int) -> None:
        """Check that a run of this length learns anything.

        Raises:
          UserError: if it ends during the warm-up.
        """
        if self.warmup_steps >= steps:
            raise UserError(
                f"warmup_steps is {self.warmup_steps}, but the run has {steps} steps, "
                "so nothing would be learned; lower --algorithm.warmup_steps or raise "
                "--steps"
            )

    def update_size(self, collected: int) -> UpdateSize:
        """Return the size of a batch, see ``interfaces.Algorithm``."""
        del collected
        return UpdateSize(self.batch_size, self.network.hidden or networks.HIDDEN)


class DQN(tf.Module):
    """DQN with an epsilon-greedy policy; satisfies ``interfaces.Algorithm``.

    Args:
      config: settings.
      spec: spec of the environments; their actions are Discrete.
      network: the user's ``keras.Model`` or builder, see ``q_network``; None uses the
        built-in network.

    Attributes:
      policy: policy that learns.
      network: its network.
      target: the target network.
      batch_size, window, ratio: what it needs of its replay: transitions per update,
        steps of a window (n + 1), and updates per environment step.

    Raises:
      UserError: for settings, actions or a network that cannot be used.
    """

    source = "replay"
    several_seeds = False

    def __init__(self, config: Config, spec: EnvSpec, network=None):
        super().__init__()
        self.config = config = config.check()
        self.alarms = (_diverging_values(config.gamma),)
        self._spec, self._given = spec, network
        self.policy = self.make_policy()
        self.network = self.policy.network
        self.target = q_network.q_network(spec, config.network, network)
        self.optimizer = optimizer.Optimizer(
            self.network.trainable_variables, config.gradient_norm, config.adam_epsilon
        )
        self._follower = Follower(
            self.target.variables,
            self.network.variables,
            config.target_every,
            config.target_tau,
        )
        self.batch_size, self.window = config.batch_size, config.n_step + 1
        self.ratio = Ratio(
            config.train_updates, config.train_every, config.warmup_steps
        )

    @property
    def compilable(self) -> bool:
        """True if XLA speeds the update up; with convolutions on a CPU it does not."""
        return not self.network.convolves

    def compile_parts(self, on: bool) -> None:
        """Compile the optimizer step, alone or as a part of the update."""
        self.optimizer.compiled = on

    def make_policy(self) -> EpsilonGreedy:
        """Return a policy with variables of its own, like the one that learns."""
        config = self.config
        network = q_network.q_network(self._spec, config.network, self._given)
        start = self._spec.action_space.start
        return EpsilonGreedy(network, start, config.epsilon, config.warmup_steps)

    def named_variables(self) -> dict[str, keras.Variable]:
        """Return the variables of a checkpoint: all that updates change."""
        return {
            **self.policy.named_variables(),
            **nest.prefixed("learner/target", networks.named_variables(self.target)),
            **nest.prefixed("learner/optimizer", self.optimizer.named_variables()),
            "learner/updates": self._follower.updates,
        }

    def update(self, trajectory: Trajectory, seed, step) -> Updated:
        """Train on a batch of windows ``[n + 1, N]``.

        A truncated episode bootstraps from its last state, a terminated one does not.
        """
        del seed
        config, mask = self.config, trajectory.mask
        self.optimizer.set_learning_rate(config.learning_rate(step))
        reward, factor, reached = returns.n_step_sum(
            trajectory.reward, trajectory.discount(config.gamma), mask
        )
        steps = trajectory.steps._replace(info={})
        first = nest.map(lambda x: x[0], steps)
        last = _at(steps, reached)
        goal = td.target(reward, factor, self.target(last)[0].q, self._next(last))
        action = self.policy.index(trajectory.action[0])
        counts = mask[0]  # not what a window begins with that is no transition
        weights = [variable.value for variable in self.optimizer.trained]
        with tf.GradientTape() as tape:
            tape.watch(weights)
            q = td.chosen(self.network(first)[0].q, action)
            error = goal - q
            loss = td.loss(error, counts, trajectory.weight, config.loss)
            loss += self.network.extra_loss()
        metrics = self.optimizer.apply(tape.gradient(loss, weights))
        self._follower.step()
        size = tf.abs(masked.safe(error, counts))
        if config.histograms:
            rows = {
                "policy/action": trajectory.action[0],
                "value/row_q": q,
                "value/row_target": goal,
                "value/row_td_error": error,
            }
            metrics |= {name: histograms.rows(x, counts) for name, x in rows.items()}
        return Updated(
            metrics
            | {
                "loss/td": loss,
                "value/q": masked.mean(q, counts),
                "value/target": masked.mean(goal, counts),
                "value/td_error": masked.mean(size, counts),
                "grad/learning_rate": tf.identity(
                    self.optimizer.adam.learning_rate.value
                ),
                "grad/updates": tf.ones([]),
                "policy/epsilon": self.policy.epsilon(step),
            },
            size,
        )

    def histograms(self) -> Metrics:
        """Return histograms of the weights and of their gradients."""
        on = self.config.histograms
        return summary.weight_histograms(self.optimizer) if on else {}

    def _next(self, last) -> tf.Tensor:
        """Return the action of each target, int32 ``[N]``."""
        network = self.network if self.config.double else self.target
        _, valid = networks.split_mask(last.observation)
        return best(tf.stop_gradient(network(last)[0].q), valid)


def _at(steps, number: tf.Tensor):
    """Return step ``number[i]`` (int32 ``[N]``) of each window ``[n + 1, N, ...]``."""
    if steps.first.shape[0] == 2:  # by far the most common: no gather
        return nest.map(lambda x: x[1], steps)
    place = number * steps.first.shape[1] + tf.range(steps.first.shape[1])
    return nest.gather(nest.fold(steps), place)


def _diverging_values(gamma: float) -> Limit:
    """Return the limit of the mean action value."""
    bound = 10 / max(1 - gamma, 1e-4)
    return Limit(
        "values_diverge",
        "value/q",
        above=bound,
        below=-bound,
        lines=3,
        text="The mean action value is {value/q:.3g}, more than rewards of 10 per step "
        "could give. What to try: rewards of about 1; lower "
        "--algorithm.learning_rate; --algorithm.double=true; a larger "
        "--algorithm.target_every",
    )
