"""Limits of PPO's metrics that raise alarms.

They come from twelve runs of the presets that solved their tasks (CartPole and Pendulum
with five seeds each, LunarLander, HalfCheetah; see ``docs/results.md``). A comment
beside each limit gives the worst value in any of these runs.
"""

from __future__ import annotations

import math
from typing import Any

from gymnasium import spaces as gs

from tfagents_batch import spaces
from tfagents_batch.interfaces import Limit
from tfagents_batch.types import EnvSpec


def rows(config: Any, spec: EnvSpec | None = None) -> tuple[Limit, ...]:
    """Return the limits of a run.

    Args:
      config: settings of PPO.
      spec: spec of the environments; None disables the limit of the entropy.
    """
    scaled = config.normalize_return is True
    kl = 0.2 if config.objective == "clip" else max(0.2, 4 * config.kl_target)
    return (
        Limit(  # 0.4; a loss of 100 is an error of 14 standard deviations of returns
            "value_loss",
            "loss/value",
            above=100 if scaled else 1e6,
            lines=2,
            text="The value loss is {loss/value:.3g}, so advantages are noise. What to "
            "try: --algorithm.normalize_return=true, or rewards of about 1; lower "
            "--algorithm.learning_rate; --algorithm.value_clip=0.2",
        ),
        Limit(  # -0.7 in single lines, -25 if all returns and values are equal
            "explained_variance",
            "value/explained_variance",
            below=0 if scaled else -math.inf,
            when=lambda line: line.get("loss/value", 0.0) > 0.01,
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
        Limit(  # 4 % of the uniform policy's, 19 % of the initial standard deviation
            "entropy",
            "policy/entropy",
            below=-math.inf if spec is None else _least_entropy(config, spec),
            when=lambda line: line.get("progress/gain", 0.0) <= 4,
            lines=3,
            text="The policy no longer explores, although returns did not rise: its "
            "entropy is {policy/entropy:.3g} nats. The agent cannot learn from actions "
            "that it never tries. What to try: raise --algorithm.entropy_scale (0.01 "
            "is usual), "
            "lower --algorithm.learning_rate, raise --num_envs",
        ),
        Limit(  # 0.31
            "actions_clipped",
            "env/action_clipped_fraction",
            above=0.9,
            lines=10,
            part=0.05,
            text="{env/action_clipped_fraction:.0%} of the actions are outside their "
            "bounds and clipped, so the policy has no reason to come back. What to "
            "try: lower --algorithm.learning_rate and --algorithm.network.init_std; "
            "rescale the action space to -1 .. 1 (gymnasium.wrappers.RescaleAction)",
        ),
    )


def _least_entropy(config: Any, spec: EnvSpec) -> float:
    """Return the lowest healthy entropy in nats, or -inf if it is not known.

    It is 5 % of the uniform policy's entropy. For a Box it is the entropy at 5 % of the
    initial standard deviation. It is not known for squashed and for masked actions.
    """
    space, leaves = spec.action_space, spaces.leaves(spec.observation_space)
    if any(leaf.path[-1:] == ("action_mask",) for leaf in leaves):
        return -math.inf
    if isinstance(space, gs.Box) and not config.network.squash:
        std = 0.05 * config.network.init_std
        return math.prod(space.shape) * math.log(std * math.sqrt(2 * math.pi * math.e))
    if isinstance(space, gs.Discrete):
        return 0.05 * math.log(space.n)
    if isinstance(space, gs.MultiDiscrete):
        return 0.05 * math.log(math.prod(map(int, space.nvec.flat)))
    if isinstance(space, gs.MultiBinary):
        return 0.05 * math.log(2) * math.prod(space.shape)
    return -math.inf
