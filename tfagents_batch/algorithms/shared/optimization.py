"""Gradient steps: their settings, and the learner of networks and their targets."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Self

import keras
import tensorflow as tf

from tfagents_batch import config, nest, seeds
from tfagents_batch.algorithms.shared import normalization, resets
from tfagents_batch.config import number, option
from tfagents_batch.errors import UserError
from tfagents_batch.graph.inputs import Inputs
from tfagents_batch.interfaces import Policy
from tfagents_batch.metrics import Metrics
from tfagents_batch.nn import summary
from tfagents_batch.nn.optimizer import BETA_1, Optimizer, Rule, TargetNetwork
from tfagents_batch.schedules import Constant, Schedule, is_schedule
from tfagents_batch.types import Trajectory, UpdateSize


@dataclasses.dataclass(frozen=True)
class OptimizerSettings:
    """Settings of gradient steps on ``network``, with batches of ``batch_size``."""

    learning_rate: Schedule = number(
        Constant(3e-4), "learning rate of the optimizer", least=0, group="optimizer"
    )
    optimizer: Rule = option(
        "adam",
        "adam, rmsprop as in PyTorch, or rmsprop_tf as in TensorFlow 1",
        group="optimizer",
    )
    optimizer_epsilon: float = number(
        1e-8, "epsilon of the optimizer", above=0, group="optimizer"
    )
    beta_1: float = option(
        BETA_1,
        "decay of Adam's mean of gradients; CrossQ has 0.5",
        least=0,
        below=1,
        group="optimizer",
    )
    weight_decay: float | None = number(
        None,
        "weight decay of AdamW, a factor of the learning rate; none: 0",
        least=0,
        group="optimizer",
    )
    max_gradient_norm: float | None = number(
        None,
        "largest global norm of the gradient; none: any (Stable-Baselines3: "
        "max_grad_norm)",
        above=0,
        group="optimizer",
    )
    histograms: bool = option(
        True, "log histograms, such as those of values, weights and gradients"
    )

    def check(self) -> Self:
        """Return the settings, each value converted to its declared type.

        Raises:
          UserError: for a setting that is invalid; names it.
        """
        checked, nested = config.check(self), {}
        for name, unused in {"beta_1": BETA_1, "weight_decay": None}.items():
            value = getattr(checked, name)
            if checked.optimizer != "adam" and value != unused:
                raise UserError(
                    f"{name} is {value}, but the optimizer is {checked.optimizer}, "
                    f"which has none; set --algorithm.optimizer=adam, or leave {name} "
                    "out"
                )
        for field in dataclasses.fields(checked):
            value, path = getattr(checked, field.name), f"{field.name}."
            if hasattr(value, "check"):
                nested[field.name] = value.check(path)
            elif dataclasses.is_dataclass(value) and not is_schedule(value):
                nested[field.name] = config.check(value, path)
        return dataclasses.replace(checked, **nested)

    def update_size(self, transitions: int) -> UpdateSize:
        return UpdateSize(self.batch_size, self.network.units)


def optimizer(
    settings: Any, weights: Sequence[keras.Variable], kept: Sequence[keras.Variable]
) -> Optimizer:
    """Return the optimizer of weights; those in ``kept`` do not decay.

    ``settings`` are ``OptimizerSettings`` as ``Inputs``.
    """
    rule = settings.max_gradient_norm, settings.optimizer_epsilon, settings.optimizer
    return Optimizer(weights, *rule, settings.beta_1, settings.weight_decay, kept)


class NetworkLearner(tf.Module):
    """Optimizers and target networks of an algorithm; an ``interfaces.Learner``.

    Args:
      config, policy: settings, and the policy that learns.
      trained: weights by the name of their optimizer.
      target: pairs of a target network, or None, and the learned one; None for an
        algorithm without targets.
      variables: what else a checkpoint has, a variable or nested dicts of variables.
      delay: multiplies ``target_every``.
      streams: number of environments, if what they collect is stored and normalized
        when it is learned from.

    Attributes:
      inputs: the settings as inputs of a program.
      optimizers: optimizer of each name.
      compilable: whether XLA makes an update faster: not with convolutions on a CPU.
    """

    def __init__(
        self,
        config: Any,
        policy: Any,
        trained: Mapping[str, Sequence[keras.Variable]],
        target: Sequence[tuple[Any, Any]] | None = None,
        variables: Mapping[str, Any] | None = None,
        delay: int = 1,
        streams: int = 0,
    ):
        super().__init__()
        self._policy: Policy = policy
        self._variables = lambda: dict(variables or {})
        self.inputs = inputs = Inputs(config)
        std = getattr(policy.network, "trained_std", None)  # would decay to a std of 1
        self.optimizers = {}
        for name, weights in trained.items():
            # A single number is a temperature or another multiplier.
            meant = [x for x in weights if not x.shape or x is std]
            self.optimizers[name] = optimizer(inputs, weights, meant)
        self._normalizers = normalization.create(inputs, policy, streams)
        self._target: Any = None
        if target is not None:
            every = config.target_every * delay
            pairs = [(copy, model) for copy, model in target if copy is not None]
            self._target = TargetNetwork(pairs, every, inputs.target_tau)
        learned = policy.network, *(model for _, model in target or ())
        self.compilable = not any(model.convolves for model in learned)
        self._reset: Any = None
        if getattr(config, "reset_every", None) is not None:
            parts = self.optimizers.values(), self._target
            self._reset = resets.Resets(learned, *parts)

    def compile_parts(self, on: bool) -> None:
        """Compile the optimizer steps, alone or as parts of the update."""
        for optimizer in self.optimizers.values():
            optimizer.compiled = on

    def set_learning_rate(self, step: tf.Tensor) -> Metrics:
        """Set the step size of all optimizers; return metrics of an update."""
        rate = self.inputs.learning_rate(step)
        metrics = {"grad/learning_rate": tf.identity(rate), "grad/updates": tf.ones([])}
        of_actor = getattr(self.inputs, "actor_learning_rate", None)
        for optimizer in self.optimizers.values():
            optimizer.set_learning_rate(rate)
        if of_actor is not None:
            metrics["grad/actor_learning_rate"] = own = of_actor(step)
            self.optimizers["actor"].set_learning_rate(own)
        return metrics

    def begin(self, trajectory: Trajectory, step) -> tuple[Trajectory, Metrics]:
        """Prepare an update; return what it learns from, normalized, and metrics."""
        metrics = self.set_learning_rate(step)
        if self._normalizers is None:
            return trajectory, metrics
        trajectory, more = self._normalizers.normalized(trajectory)
        return trajectory, metrics | more

    def observe(self, trajectory: Trajectory, ok: tf.Tensor | bool = True) -> None:
        """Add what was collected to the statistics, see ``interfaces.Learner``."""
        if self._normalizers is not None:
            self._normalizers.observe(trajectory, ok)

    @property
    def updates(self) -> tf.Tensor:
        """Number of updates so far, i64 ``[]``, if there are target networks."""
        return self._target.updates.value

    def move_targets(self) -> None:
        """Count an update, and move the target networks if it is time."""
        self._target.update()

    def reset(self, seed) -> None:
        """Reset the agent if it is time; ``seed`` is that of the update."""
        if self._reset is not None:
            due = self.updates % self.inputs.reset_every == 0
            key = seeds.key(seed, "reset")
            tf.cond(due, lambda: self._reset(key), lambda: tf.constant(False))

    def named_variables(self) -> dict[str, keras.Variable]:
        """Return the variables of a checkpoint: all that updates change."""
        named = {name: x.named_variables() for name, x in self.optimizers.items()}
        learner = self._variables()
        if self._target is None:  # a single optimizer has no name in a checkpoint
            (learner["optimizer"],) = named.values()
        else:
            learner |= {"optimizer": named, "updates": self._target.updates}
        variables = self._policy.named_variables()
        if self._normalizers is not None:
            variables |= self._normalizers.named_variables()
        return variables | nest.prefixed("learner", learner)

    def histograms(self) -> Metrics:
        """Return histograms of weights and gradients, but not of a single number."""
        if not self.inputs.histograms:
            return {}
        named = self.optimizers.items()
        several = {k: x for k, x in named if any(len(y.shape) for y in x.trained)}
        return summary.weight_histograms(several)
