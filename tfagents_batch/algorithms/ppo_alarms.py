"""Limits of PPO's metrics that raise alarms.

They come from twelve runs of the presets that solved their tasks (CartPole and Pendulum
with five seeds each, LunarLander, HalfCheetah; see ``docs/results.md``). A comment
beside each limit gives the worst value in any of these runs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tfagents_batch.algorithms.shared import alarms
from tfagents_batch.metrics import Limit
from tfagents_batch.types import EnvSpec


def limits(config: Any, spec: EnvSpec | None = None) -> tuple[Limit, ...]:
    """Return the limits of a run.

    Args:
      config: settings of PPO.
      spec: spec of the environments; None disables the limit of the entropy.
    """
    scaled = config.normalize_return is True
    kl = 0.2 if config.objective == "clip" else max(0.2, 4 * config.kl.target)
    return (
        alarms.value_loss(config, "; --algorithm.value_clip=0.2"),
        Limit(  # -0.7 in single lines, -25 if all returns and values are equal
            "explained_variance",
            "value/explained_variance",
            below=-0.05 if scaled else -math.inf,
            when=_returns_vary,
            lines=10,
            part=0.05,
            text="The explained variance of the values is "
            "{value/explained_variance:.2g} and stays negative: values predict returns "
            "worse than their mean would, so advantages are mostly noise. What to try: "
            "raise --algorithm.epochs or --rollout.length; lower "
            "--algorithm.learning_rate, or --algorithm.gamma if episodes are long; add "
            "missing information to the observation",
        ),
        Limit(  # 0.045
            "kl",
            "policy/approx_kl",
            above=kl,
            at_once=max(1.0, kl),
            lines=3,
            text="An update moves the policy by a KL of {policy/approx_kl:.3g} nats; "
            "around 0.01 is healthy, and a policy can be lost within a few updates of "
            "this size. What to try: lower --algorithm.learning_rate or "
            "--algorithm.epochs; --algorithm.kl_stop=0.03; a larger "
            "--algorithm.minibatch_size",
        ),
        Limit(  # 0.37
            "clip_fraction",
            "policy/clip_fraction",
            above=0.6,
            lines=3,
            text="{policy/clip_fraction:.0%} of the transitions are outside the clip "
            "range, where no gradient brings the policy back. What to try: lower "
            "--algorithm.learning_rate or --algorithm.epochs; raise "
            "--algorithm.clip_ratio if it is far below 0.2",
        ),
        alarms.entropy(config, spec),
        alarms.actions_clipped(spec),
        *alarms.small_returns(config.normalize_return),
    )


def _returns_vary(line: Mapping[str, float]) -> bool:
    """Return whether the returns of an update had a variance worth predicting.

    The variance is Var(G - V) / (1 - explained), where half of Var(G - V) is the value
    loss at most. In a solved task it may be 0, so that small errors explain nothing.
    """
    error = 2 * line.get("loss/value", 0.0)
    return not error / (1 - line["value/explained_variance"]) <= 0.02
