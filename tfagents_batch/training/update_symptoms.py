"""What goes wrong with updates: gradients, values, the policy and its entropy.

Limits are set by twelve runs of the presets that solved their tasks (CartPole and
Pendulum with five seeds each, LunarLander, HalfCheetah; ``docs/results.md``): the worst
line of any of them stands beside each.
"""

from __future__ import annotations

import math
import statistics
from collections import deque

import gymnasium
import numpy as np
from gymnasium import spaces as gs

from tfagents_batch.training.progress import Progress
from tfagents_batch.training.symptom import (
    Facts,
    Line,
    Patience,
    Seen,
    Symptom,
    above,
    below,
)

_RATE = "grad/learning_rate"
_VALUE_LOSS = "loss/value"
_EXPLAINED = "value/explained_variance"
_KL = "policy/approx_kl"
_CLIPPED = "policy/clip_fraction"
_ENTROPY = "policy/entropy"


def gradients_skipped(facts: Facts, progress: Progress) -> Symptom:
    """Gradients that are not finite. Not one is healthy."""

    def look(line: Line) -> Seen | None:
        share = line.metrics.get("grad/skipped")
        if share is None:
            return None
        text = (
            f"{share:.0%} of the optimizer's steps were dropped, because a gradient "
            "was NaN or infinite. Nothing is learned from them, and training ends when "
            "no step is left. Look for NaN or huge numbers in rewards and observations "
            "(python -m tfagents_batch.scripts.check --env=...), lower "
            "--algorithm.learning_rate, and leave --algorithm.normalize_return and "
            "--algorithm.normalize_observation on"
        )
        return above(share, 0.0, 0.0, text)

    return Symptom("gradients_skipped", Patience(lines=1, calm=20), look)


def value_loss(facts: Facts, progress: Progress) -> Symptom:
    """A value loss far above what it was, or above what its unit allows.

    Of scaled returns, whose deviation is 1, it begins below 0.4 in the presets, and
    100 is an error of 14 deviations. Without scaling (rewards that are divided by their
    own deviation sum up to what they may) the unit is the task's, and its level is told
    by the run; an error of 1000 is more than a network with weights of order 1 takes
    back in a run.
    """
    scaled = facts.setting("normalize_return", False) is True
    most = 100.0 if scaled else 1e6
    advice = (
        "lower --algorithm.learning_rate, or set --algorithm.value_clip=0.2"
        if scaled
        else "set --algorithm.normalize_return=true, or scale the rewards to about 1; "
        "if that is done, lower --algorithm.learning_rate"
    )
    starved = ""
    if facts.setting("gradient_norm") is not None:
        starved = ", and gradients, clipped as one, leave the policy next to nothing"
    newest: deque[float] = deque(maxlen=10)
    level = 1.0  # of earlier lines, the highest; at least an error of about 1

    def look(line: Line) -> Seen | None:
        nonlocal level
        loss = line.metrics.get(_VALUE_LOSS)
        if loss is None:
            return None
        # Losses that grow with the returns that are learned are explained by values.
        explained = line.metrics.get(_EXPLAINED, 0.0) > 0.2
        known = scaled or len(newest) == newest.maxlen
        limit = min(most, 10 * level) if known and not explained else most
        before = "" if loss > most else f", ten times its level of {level:.3g} before"
        text = (
            f"The value loss is {loss:.3g}{before}: values are wrong by "
            f"{math.sqrt(2 * loss) if loss >= 0 else math.nan:.3g} in the unit of the "
            f"returns that are learned. Advantages are noise then{starved}. What to "
            f"try: {advice}"
        )
        newest.append(loss)
        if len(newest) == newest.maxlen:  # old enough not to be part of an explosion
            level = max(level, statistics.median(list(newest)[:5]))
        return above(loss, limit, limit / 3, text)

    return Symptom("value_loss", Patience(lines=2), look)


def explained_variance(facts: Facts, progress: Progress) -> Symptom:
    """Values that predict returns worse than a constant would, for long.

    Single lines of healthy runs go down to -0.7, and to -25 where all episodes end
    alike (CartPole at 500) and there is nothing left to explain; the loss is below
    0.01 then, an error of a seventh of a deviation.
    """
    scaled = facts.setting("normalize_return", False) is True
    highest = 0.0

    def look(line: Line) -> Seen | None:
        nonlocal highest
        explained = line.metrics.get(_EXPLAINED)
        loss = line.metrics.get(_VALUE_LOSS)
        if explained is None or loss is None:
            return None
        highest = max(highest, loss)
        if loss < (0.01 if scaled else 0.1 * highest):
            return Seen(bad=False, good=True)
        text = (
            f"The explained variance of the values is {explained:.2g}, and has been "
            f"negative for {patience.lines} lines: values predict returns worse than "
            "their mean would, so advantages are mostly noise. What to try: raise "
            "--algorithm.epochs or --rollout_length, raise --algorithm.value_scale if "
            "the value loss is small beside the policy's, lower "
            "--algorithm.learning_rate if it jumps, lower --algorithm.gamma if "
            "episodes are long; or the observation does not tell what returns depend on"
        )
        return below(explained, 0.0, 0.1, text)

    patience = Patience(lines=10, part=0.05)
    return Symptom("explained_variance", patience, look)


def kl(facts: Facts, progress: Progress) -> Symptom:
    """Updates that move the policy too far; 0.045 at most in healthy runs.

    One line above 1 is enough: the policy that acted is gone then.
    """
    target = facts.setting("kl_target", 0.0)
    aimed = facts.setting("objective", "clip") != "clip"
    limit = max(0.2, 4 * target) if aimed else 0.2

    def look(line: Line) -> Seen | None:
        found = line.metrics.get(_KL)
        if found is None:
            return None
        text = (
            f"An update moves the policy by a KL of {found:.3g} nats; around 0.01 is "
            f"healthy, and above {limit:g} what was collected says little of the "
            "policy that results, which can be lost within a few updates. What to try: "
            "lower --algorithm.learning_rate or --algorithm.epochs, raise "
            "--algorithm.minibatch_size, or set --algorithm.kl_stop=0.03"
        )
        lines = 1 if found <= max(1.0, limit) else patience.lines
        return above(found, limit, limit / 2, text)._replace(lines=lines)

    patience = Patience(lines=3)
    return Symptom("kl", patience, look)


def kl_penalty(facts: Facts, progress: Progress) -> Symptom:
    """A KL penalty that has come to its bounds, and stays there.

    The lower one is reached while a learning rate is led to 0, which is healthy.
    """
    low, high = 1e-4, 1e3  # as of the algorithm; see docs/algorithms/ppo.md
    rate = _HighestRate()

    def look(line: Line) -> Seen | None:
        beta = line.metrics.get("policy/kl_penalty")
        if beta is None:
            return None
        found = line.metrics.get("policy/kl", math.nan)
        spent = rate.spent(line)
        if beta >= 0.99 * high:
            text = (
                f"The KL penalty is at its largest, {beta:.3g}, and an update still "
                f"moves the policy by {found:.3g} nats where --algorithm.kl_target is "
                f"{facts.setting('kl_target', math.nan):.3g}: the penalty rules the "
                "loss, and returns hardly count. What to try: lower "
                "--algorithm.learning_rate or --algorithm.epochs, or raise "
                "--algorithm.kl_target"
            )
            return Seen(True, False, text)
        if beta <= 1.01 * low and not spent:
            text = (
                f"The KL penalty is at its smallest, {beta:.3g}: an update moves the "
                f"policy by {found:.3g} nats, less than --algorithm.kl_target asks "
                "for, so learning is slower than it may be. What to try: raise "
                "--algorithm.learning_rate or --algorithm.epochs, or lower "
                "--algorithm.kl_target"
            )
            return Seen(True, False, text)
        return Seen(False, True)

    return Symptom("kl_penalty", Patience(lines=5, part=0.02), look)


def clip_fraction(facts: Facts, progress: Progress) -> Symptom:
    """Most transitions outside the clip range; 0.37 at most in healthy runs."""

    def look(line: Line) -> Seen | None:
        share = line.metrics.get(_CLIPPED)
        if share is None:
            return None
        text = (
            f"{share:.0%} of the transitions are outside the clip range: they have no "
            "gradient left that would bring the policy back, and the rest decides for "
            "all. What to try: lower --algorithm.learning_rate or --algorithm.epochs; "
            "raise --algorithm.clip_ratio if it is far below 0.2"
        )
        return above(share, 0.6, 0.5, text)

    return Symptom("clip_fraction", Patience(lines=3), look)


def policy_still(facts: Facts, progress: Progress) -> Symptom:
    """A policy that updates do not move, though there is a learning rate.

    One that has become certain cannot move; that is another alarm.
    """
    rate, measure = _HighestRate(), _certainty(facts)

    def look(line: Line) -> Seen | None:
        share, found = line.metrics.get(_CLIPPED), line.metrics.get(_KL)
        if share is None or found is None or rate.spent(line):
            return None
        certain = line.metrics.get(_ENTROPY)
        if measure and certain is not None and measure(certain)[0] < 0.01:
            return None
        text = (
            f"Updates do not move the policy: no transition left the clip range in "
            f"{patience.lines} lines, and the KL of an update is {found:.2g} nats. "
            "Nothing is learned. What to try: raise --algorithm.learning_rate; if the "
            "value loss is huge, set --algorithm.normalize_return=true, because all "
            "gradients are clipped as one (--algorithm.gradient_norm)"
        )
        still = share == 0 and abs(found) < 1e-4
        return Seen(still, not still, text)

    patience = Patience(lines=10, part=0.05)
    return Symptom("policy_still", patience, look)


def entropy(facts: Facts, progress: Progress) -> Symptom:
    """A policy that has become certain, though returns did not rise.

    Of discrete actions, in shares of the entropy of all valid ones being as likely:
    CartPole's policies go down to 4 %, long after they reached its best return. Of a
    Box, the standard deviation in shares of that at the start: 19 % in Pendulum and
    HalfCheetah. Before returns rose, 5 % is too little: of two actions, one in 180 is
    not the likelier one. Where they rose and stayed, a policy may become certain, and
    the limit is 0.1 %.
    """
    measure = _certainty(facts)

    def look(line: Line) -> Seen | None:
        found = line.metrics.get(_ENTROPY)
        if found is None or measure is None:
            return None
        share, seen = measure(found)
        limit = 0.001 if progress.learned else 0.05
        text = (
            f"The policy explores no more: its entropy is {found:.3g} nats, {seen}. "
            "What was never tried cannot be learned, and this does not go back by "
            "itself. What to try: raise --algorithm.entropy_scale (0.01 is usual), "
            "lower --algorithm.learning_rate, raise --num_envs"
        )
        return below(share, limit, 2 * limit, text)

    return Symptom("entropy", Patience(lines=3), look)


def actions_clipped(facts: Facts, progress: Progress) -> Symptom:
    """Box actions that are nearly all beyond their bounds; 0.31 in HalfCheetah."""

    def look(line: Line) -> Seen | None:
        share = line.metrics.get("env/action_clipped_fraction")
        if share is None:
            return None
        text = (
            f"{share:.0%} of the actions are outside their bounds and clipped: the "
            "environment sees the bounds alone, and the policy has no reason to come "
            "back. What to try: lower --algorithm.learning_rate and "
            "--algorithm.network.init_std; or rescale the action space to -1 .. 1 "
            "(gymnasium.wrappers.RescaleAction)"
        )
        return above(share, 0.9, 0.7, text)

    return Symptom("actions_clipped", Patience(lines=10, part=0.05), look)


UPDATE = (
    *(gradients_skipped, value_loss, explained_variance, kl, kl_penalty),
    *(clip_fraction, policy_still, entropy, actions_clipped),
)


class _HighestRate:
    """Tells when a learning rate has been led to the end of its schedule."""

    def __init__(self):
        self._highest = 0.0

    def spent(self, line: Line) -> bool:
        """Whether it is below a fourth of what it was."""
        rate = line.metrics.get(_RATE)
        if rate is None:
            return False
        self._highest = max(self._highest, rate)
        return rate < self._highest / 4


def _certainty(facts: Facts):
    """What turns an entropy into a share and its text; None where nothing is known."""
    space = facts.action_space
    if isinstance(space, gs.Box):
        return _of_box(facts)
    most = None if space is None else _uniform(space)
    if not most:
        return None
    whole: list[float] = []

    def measure(entropy: float) -> tuple[float, str]:
        # Masks leave fewer actions, nobody knows how many: the first line tells.
        if facts.masked and not whole:
            whole.append(min(most, entropy))
        reference = whole[0] if whole else most
        share = entropy / reference if reference > 0 else 1.0
        return share, f"{share:.2%} of that of actions at random"

    return measure


def _uniform(space: gymnasium.Space) -> float | None:
    """Entropy of the uniform policy, nats; None of other spaces."""
    if isinstance(space, gs.Discrete):
        return math.log(int(space.n))
    if isinstance(space, gs.MultiDiscrete):
        return float(np.log(space.nvec).sum())
    if isinstance(space, gs.MultiBinary):
        return math.prod(space.shape) * math.log(2)
    return None


def _of_box(facts: Facts):
    """By the geometric mean of the actions' standard deviations, of normal ones."""
    size = math.prod(facts.action_space.shape)
    network = facts.setting("network")
    # Inside bounds an entropy is of what came out of tanh: the first line is all there
    # is to compare with.
    squashed = getattr(network, "squash", False)
    reference = None if squashed else getattr(network, "init_std", None)

    def measure(entropy: float) -> tuple[float, str]:
        nonlocal reference
        std = math.exp(min(entropy / size - 0.5 * math.log(2 * math.pi * math.e), 700))
        reference = reference or std
        share = std / reference if reference > 0 else 1.0
        text = f"a standard deviation of {std:.2g}, {share:.2%} of that at the start"
        return share, text

    return measure if size else None
