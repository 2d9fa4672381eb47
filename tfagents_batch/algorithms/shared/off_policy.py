"""Settings, optimizers and target networks of algorithms with a replay."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import keras
import tensorflow as tf

from tfagents_batch import nest
from tfagents_batch.algorithms.shared import optimization
from tfagents_batch.clocks import Ratio
from tfagents_batch.config import number, option
from tfagents_batch.graph.inputs import Inputs
from tfagents_batch.interfaces import Policy
from tfagents_batch.metrics import Limit, Metrics
from tfagents_batch.nn import summary
from tfagents_batch.nn.exploration import Warmup
from tfagents_batch.nn.optimizer import Optimizer
from tfagents_batch.nn.target_network import TargetNetwork
from tfagents_batch.types import Accepts, DefaultSource, Rows, Windows

_COLLECTING = "train_every", "train_updates", "warmup_steps"


@dataclasses.dataclass(frozen=True)
class Settings(optimization.Settings):
    """Settings that all algorithms with a replay have."""

    gamma: float = number(0.99, "discount factor per step", least=0, most=1)
    n_step: int = option(1, "number of rewards in a target, n", least=1, most=1000)
    batch_size: int = option(256, "transitions per update", least=1, group="update")
    train_every: int = option(
        1,
        "environment steps per training (Stable-Baselines3: train_freq)",
        least=1,
        most=1_000_000,
        group="update",
    )
    train_updates: int = option(
        1,
        "updates per training (Stable-Baselines3: gradient_steps)",
        least=1,
        most=1_000_000,
        group="update",
    )
    warmup_steps: int = option(
        1000,
        "random environment steps before training (Stable-Baselines3: learning_starts)",
        least=0,
        group="update",
    )
    target_every: int = option(
        1,
        "updates per update of targets (Stable-Baselines3: target_update_interval)",
        least=1,
        group="update",
    )
    target_tau: float = number(
        0.005,
        "step of target networks to the learned ones (Stable-Baselines3: tau)",
        above=0,
        most=1,
        group="update",
    )
    histograms: bool = option(
        True, "log histograms, such as those of values, weights and gradients"
    )

    source: ClassVar[DefaultSource] = "replay", {}

    @property
    def window(self) -> int:
        """Steps of a window: those around the n rewards of a target."""
        return self.n_step + 1

    def warmup(self) -> Warmup:
        """Return the warm-up with random actions."""
        return Warmup(self.warmup_steps)

    def accepts(self) -> Accepts:
        """Return that it learns from windows, and with n = 1 also from rows."""
        ratio = Ratio(self.train_updates, self.train_every, self.warmup_steps)
        windows = {"windows": Windows(self.batch_size, self.window, ratio)}
        return windows | (self.only_rows() if self.n_step == 1 else {})

    def only_rows(self) -> Accepts:
        """Return that it learns from rows, which hold their n rewards already."""
        return {"rows": Rows(self.batch_size, self.gamma, _COLLECTING)}


class Learner(tf.Module):
    """Optimizers and target networks of an algorithm, and its checkpoint.

    Args:
      config: settings.
      policy: the policy that learns.
      trained: weights by the name of their optimizer.
      target: pairs of a target network and the learned one.
      variables: what else a checkpoint has, a variable or nested dicts of variables.
      delay: multiplies ``target_every``.

    Attributes:
      inputs: the settings as inputs of a program.
      optimizers: optimizer of each name.
      target: moves the target networks.
    """

    def __init__(
        self,
        config: Settings,
        policy: Policy,
        trained: Mapping[str, Sequence[keras.Variable]],
        target: Sequence[tuple[keras.Model, keras.Model]],
        variables: Mapping[str, Any],
        delay: int = 1,
    ):
        super().__init__()
        self._policy, self._variables = policy, lambda: variables
        self.inputs = inputs = Inputs(config)
        rule = inputs.max_gradient_norm, inputs.optimizer_epsilon, inputs.optimizer
        self.optimizers = {
            name: Optimizer(weights, *rule) for name, weights in trained.items()
        }
        sides = zip(*target, strict=True)  # all targets, and all learned networks
        sides = [[x for model in side for x in model.variables] for side in sides]
        every = config.target_every * delay
        self.target = TargetNetwork(*sides, every, inputs.target_tau)

    def compile_parts(self, on: bool) -> None:
        """Compile the optimizer steps, alone or as parts of the update."""
        for each in self.optimizers.values():
            each.compiled = on

    def set_learning_rate(self, step: tf.Tensor) -> Metrics:
        """Set the step size of all optimizers; return metrics of an update."""
        rate = self.inputs.learning_rate(step)
        for each in self.optimizers.values():
            each.set_learning_rate(rate)
        return {"grad/learning_rate": tf.identity(rate), "grad/updates": tf.ones([])}

    def named_variables(self) -> dict[str, keras.Variable]:
        """Return the variables of a checkpoint: all that updates change."""
        named = {name: x.named_variables() for name, x in self.optimizers.items()}
        learner = dict(self._variables()) | {"optimizer": named}
        learner["updates"] = self.target.updates
        return self._policy.named_variables() | nest.prefixed("learner", learner)

    def histograms(self) -> Metrics:
        """Return histograms of weights and gradients, but not of a single number."""
        if not self.inputs.histograms:
            return {}
        named = self.optimizers.items()
        return summary.weight_histograms(
            {name: x for name, x in named if len(x.trained) > 1}
        )


def diverging_values(reward: float, gamma: float, advice: str) -> Limit:
    """Return a limit of the mean action value.

    Args:
      reward: absolute reward of every step that gives the value at the limit.
      gamma: discount factor.
      advice: what to try.
    """
    bound = reward / max(1 - gamma, 1e-4)
    return Limit(
        "values_diverge",
        "value/q",
        above=bound,
        below=-bound,
        lines=3,
        text="The mean action value is {value/q:.3g}, more than rewards of "
        f"{reward:g} per step could give. What to try: {advice}",
    )
