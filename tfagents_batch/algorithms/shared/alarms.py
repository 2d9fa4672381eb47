"""Limits of metrics that algorithms share.

A comment gives the worst value in any of the healthy runs of ``ppo._limits``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces as gs

from tfagents_batch import spaces
from tfagents_batch.metrics import Limit
from tfagents_batch.nn import normalizers
from tfagents_batch.ops import distributions
from tfagents_batch.types import EnvSpec

_SMALL = 1e-3  # returns of smaller magnitude are lost in the errors of values


def value_loss(config: Any, further: str = "") -> Limit:
    """Return the limit of the value loss; ``further`` is more that can be tried."""
    # 0.4; a loss of 100 is an error of 14 standard deviations of returns
    return Limit(
        "value_loss",
        "loss/value",
        above=100 if config.normalize_return is True else 1e6,
        lines=2,
        text="The value loss is {loss/value:.3g}, so advantages are noise. What to "
        "try: --algorithm.normalize_return=true, or rewards of about 1; lower "
        f"--algorithm.learning_rate{further}",
    )


def small_returns(kind: normalizers.RewardKind | None = None) -> tuple[Limit, ...]:
    """Return the limit of returns too small to learn from; none if rewards are divided.

    The kind is None if the algorithm cannot normalize rewards.
    """
    if kind in (True, "per_step"):
        return ()
    divide = "" if kind is None else "--algorithm.normalize_return=true, or "
    limit = Limit(
        "small_returns",
        "episode/return_max",
        below=_SMALL,
        when=_is_small,
        lines=3,
        text="The returns of episodes are between {episode/return_min:.3g} and "
        "{episode/return_max:.3g}, less than the errors that values have. What to "
        f"try: {divide}larger rewards (gymnasium.wrappers.TransformReward), so that "
        "returns are around 1",
    )
    return (limit,)


def diverging_values(reward: float, gamma: float, advice: str) -> Limit:
    """Return a limit of the mean action value: that of ``reward`` in every step."""
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


def large_critics(gamma: float, further: str = "", reward: float = 100) -> Limit:
    """Return the limit of critics' values; ``further`` is more that can be tried."""
    advice = "smaller rewards; lower --algorithm.learning_rate or "
    return diverging_values(reward, gamma, f"{advice}--algorithm.target_tau{further}")


def entropy(config: Any, spec: EnvSpec | None) -> Limit:
    """Return the limit of the policy's entropy; without a spec it is disabled."""
    # 4 % of the uniform policy's, 19 % of the initial standard deviation
    actions = _ranges(spec)
    return Limit(
        "entropy",
        "policy/entropy",
        below=-math.inf if spec is None else _least_entropy(config, spec),
        when=lambda line: line.get("progress/gain", 0.0) <= 4,
        lines=3,
        text="The policy no longer explores, although returns did not rise: its "
        "entropy is {policy/entropy:.3g} nats"
        f"{f', with actions of {actions}' if actions else ''}. The agent cannot learn "
        "from actions that it never tries. What to try: raise "
        "--algorithm.entropy_scale (0.01 is usual), "
        "lower --algorithm.learning_rate, raise --num_envs",
    )


def actions_clipped(spec: EnvSpec | None) -> Limit:
    """Return the limit of the share of actions outside their bounds."""
    actions = _ranges(spec)
    return Limit(  # 0.31
        "actions_clipped",
        "env/action_clipped_fraction",
        above=0.9,
        lines=10,
        part=0.05,
        text="{env/action_clipped_fraction:.0%} of the actions are outside of their "
        f"range{f', {actions},' if actions else ''} and clipped, so the policy has no "
        "reason to come back. What to try: lower --algorithm.learning_rate and "
        "--algorithm.network.init_std; --algorithm.network.squash=true; leave "
        "--algorithm.network.scale_actions at true",
    )


def _is_small(line: Mapping[str, float]) -> bool:
    """Return whether all returns of a line are small, but not all of them 0."""
    least, most = line["episode/return_min"], line["episode/return_max"]
    return least > -_SMALL and (least, most) != (0, 0)


def _ranges(spec: EnvSpec | None) -> str:
    """Return the different ranges of the numbers of a Box, as text; "" if unknown."""
    if spec is None or not isinstance(spec.action_space, gs.Box):
        return ""
    bounds = zip(spec.action_space.low.flat, spec.action_space.high.flat, strict=True)
    texts = list(dict.fromkeys(f"{low:g} to {high:g}" for low, high in bounds))
    return " and ".join(texts[:3]) + (" and others" if len(texts) > 3 else "")


def _least_entropy(config: Any, spec: EnvSpec) -> float:
    """Return the lowest healthy entropy in nats, or -inf if it is not known.

    It is 5 % of the uniform policy's entropy. For a Box it is the entropy at 5 % of the
    initial standard deviation. It is not known for squashed and for masked actions, nor
    where noise is a function of the state.
    """
    space, leaves = spec.action_space, spaces.leaves(spec.observation_space)
    if any(leaf.path[-1:] == ("action_mask",) for leaf in leaves):
        return -math.inf
    if config.exploration == "sde":
        return -math.inf
    if isinstance(space, gs.Box) and not config.network.squash:
        unit = distributions.ranges(space).half if config.network.scale_actions else 1.0
        std = 0.05 * config.network.init_std * unit * np.ones(space.shape)
        return float(np.sum(np.log(std * math.sqrt(2 * math.pi * math.e))))
    if isinstance(space, gs.Discrete):
        return 0.05 * math.log(space.n)
    if isinstance(space, gs.MultiDiscrete):
        return 0.05 * math.log(math.prod(map(int, space.nvec.flat)))
    if isinstance(space, gs.MultiBinary):
        return 0.05 * math.log(2) * math.prod(space.shape)
    return -math.inf
