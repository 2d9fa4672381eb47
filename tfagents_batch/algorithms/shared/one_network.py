"""Optimizer of an algorithm with one network and no target, and its checkpoint."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from tfagents_batch import nest
from tfagents_batch.graph.inputs import Inputs
from tfagents_batch.metrics import Metrics
from tfagents_batch.nn import summary
from tfagents_batch.nn.optimizer import Optimizer


class Learner(tf.Module):
    """Optimizer of the network of a policy.

    Args:
      config: settings, with those of the optimizer.
      policy: the policy that learns, with its ``network``.
      name: of the network, see ``summary.weight_histograms``.

    Attributes:
      inputs: the settings as inputs of a program.
      optimizer: of all weights of the network.
    """

    def __init__(self, config: Any, policy: Any, name: str = "network"):
        super().__init__()
        self._policy, self._config, self._network = policy, config, name
        self.inputs = inputs = Inputs(config)
        rule = inputs.max_gradient_norm, inputs.optimizer_epsilon, config.optimizer
        self.optimizer = Optimizer(policy.network.trainable_variables, *rule)

    def compile_parts(self, on: bool) -> None:
        """Compile the optimizer step, alone or as a part of the update."""
        self.optimizer.compiled = on

    def histograms(self) -> Metrics:
        """Return histograms of weights and gradients, see ``interfaces.Algorithm``."""
        if not self._config.histograms:
            return {}
        return summary.weight_histograms({self._network: self.optimizer})

    def named_variables(self) -> dict[str, keras.Variable]:
        """Return the variables of a checkpoint: all that updates change."""
        named = nest.prefixed("learner/optimizer", self.optimizer.named_variables())
        return self._policy.named_variables() | named
