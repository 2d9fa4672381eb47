"""Settings and metrics that all algorithms with an actor and critics have."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import keras
import tensorflow as tf

from tfagents_batch.algorithms.shared import alarms, off_policy
from tfagents_batch.config import number, option
from tfagents_batch.graph.inputs import Inputs
from tfagents_batch.metrics import Limit, Metrics
from tfagents_batch.nn import actor, networks
from tfagents_batch.nn.bounds import Bounds
from tfagents_batch.nn.critics import Critics
from tfagents_batch.nn.exploration import ActionNoise, Kind, action_noise
from tfagents_batch.ops import histograms, masked
from tfagents_batch.ops.windows import Transition
from tfagents_batch.schedules import Constant, Schedule
from tfagents_batch.types import BoxAssessment, EnvSpec, Nest, UpdateSize

# Metrics of an update of the actor.
ACTOR_METRICS = ("loss/actor", "grad/actor_norm", "grad/actor_skipped")


@dataclasses.dataclass(frozen=True)
class Settings(off_policy.Settings):
    """Settings that all algorithms with an actor and critics have."""

    num_critics: int = option(
        2,
        "number of critics; targets use their minimum (Stable-Baselines3: n_critics)",
        least=1,
        most=10,
    )
    exploration: Kind = option(
        "none",
        "noise on actions: gaussian, or ou: Ornstein-Uhlenbeck, correlated",
        group="exploration",
    )
    noise: Schedule = number(
        Constant(0.1),
        "scale of the noise, in units of half an action's range",
        least=0,
        group="exploration",
    )
    network: actor.Config = option(actor.Config(), "shape of the networks")

    # Settings that change the meaning of saved weights, see ``training.warm_start``.
    OF_AGENT: ClassVar[tuple[str, ...]] = ("network.activation",)

    def action_noise(self) -> ActionNoise | None:
        """Return the noise that is added to actions of a Box."""
        return action_noise(self.exploration, Inputs(self).noise)

    def alarms(self, spec: EnvSpec | None = None) -> tuple[Limit, ...]:
        """Return the limits of metrics, see ``interfaces.Algorithm``."""
        del spec
        fewer = "; fewer --algorithm.train_updates"
        values = off_policy.diverging_values(
            100,
            self.gamma,
            "smaller rewards; lower --algorithm.learning_rate or "
            f"--algorithm.target_tau{fewer if 'windows' in self.accepts() else ''}",
        )
        played = "windows" in self.accepts()  # rows have no episodes
        return (values, *(alarms.small_returns() if played else ()))

    def update_size(self, collected: int) -> UpdateSize:
        """Return the size of a batch, see ``interfaces.Algorithm``."""
        del collected
        return UpdateSize(self.batch_size, self.network.hidden or actor.HIDDEN)


def critics(
    config: Any, spec: EnvSpec, network: Any, inputs: int = 0, outputs: int = 1
) -> tuple[Critics, Critics]:
    """Return critics and their target networks; for the sizes see ``Critics``."""
    sizes = config.num_critics, inputs, outputs
    learned, target = (Critics(spec, config.network, *sizes, network) for _ in range(2))
    return learned, target


def learner(
    config: Any,
    policy: Any,
    critics: Critics,
    targets: Critics,
    target_actor: actor.Actor | None = None,
    trained: Mapping[str, Sequence[keras.Variable]] | None = None,
    variables: Mapping[str, Any] | None = None,
    delay: int = 1,
) -> off_policy.Learner:
    """Return optimizers and target networks of an actor and critics.

    Args:
      config: settings.
      policy: the policy that learns.
      critics, targets: critics and their target networks.
      target_actor: the actor's target network; None if it has none.
      trained, variables: more of them, or others, see ``off_policy.Learner``.
      delay: see ``off_policy.Learner``.
    """
    pairs = [(targets, critics)]
    learned = {
        "critics": networks.named_variables(critics),
        "targets": networks.named_variables(targets),
    }
    if target_actor is not None:
        pairs.append((target_actor, policy.network))
        learned["target_actor"] = networks.named_variables(target_actor)
    weights = {
        "critics": critics.trainable_variables,
        "actor": policy.network.trainable_variables,
    }
    return off_policy.Learner(
        config,
        policy,
        trained=weights | dict(trained or {}),
        target=pairs,
        variables=learned | dict(variables or {}),
        delay=delay,
    )


def noise_metrics(noise: ActionNoise | None, step) -> Metrics:
    """Return the scale of the noise on actions; nothing without noise."""
    return {} if noise is None else {"policy/noise": noise.scale(step)}


def critic_metrics(
    q: tf.Tensor, target: tf.Tensor, error: tf.Tensor, mask: tf.Tensor, rows: bool
) -> Metrics:
    """Return metrics of an update of critics.

    Args:
      q: f32 ``[K, N]``, Q_k of the actions taken.
      target: f32 ``[N]``.
      error: f32 ``[N]``, absolute errors, the mean over critics.
      mask: bool ``[N]``, rows that count.
      rows: whether there are histograms of the values and targets.
    """
    found = {
        "value/q": masked.mean(tf.reduce_mean(q, 0), mask),
        "value/target": masked.mean(target, mask),
        "value/td_error": masked.mean(error, mask),
    }
    if rows:
        found["histogram/q"] = histograms.rows(q[0], mask)
        found["histogram/target"] = histograms.rows(target, mask)
    return found


def of_actor(found: Metrics) -> Metrics:
    """Return metrics of the actor's optimizer under names of their own."""
    names = {"grad/norm": "grad/actor_norm", "grad/skipped": "grad/actor_skipped"}
    return {names[name]: x for name, x in found.items()}


def assessment(
    critics: Critics,
    bounds: Bounds,
    batch: Transition,
    target: tf.Tensor,
    log_density: Nest = (),
) -> BoxAssessment:
    """Return the assessment of rows by critics, the smallest of which counts.

    Args:
      critics: critics.
      bounds: bounds of the actions.
      batch: rows.
      target: f32 ``[N]``, targets of the values of logged actions.
      log_density: f32 ``[N]``, of these under the policy; ``()`` if it has none.
    """
    q = tf.reduce_min(critics(batch.step, bounds.unit(batch.action)), 0)
    target = tf.where(batch.mask, target, float("nan"))
    return BoxAssessment(q, target, log_density)
