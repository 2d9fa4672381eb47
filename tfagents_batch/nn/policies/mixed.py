"""Policy of actions of several numbers and choices, such as those of a Tuple."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import tensorflow as tf
from gymnasium import spaces as gs

from tfagents_batch import nest, seeds, spaces
from tfagents_batch.errors import UserError
from tfagents_batch.interfaces import Distribution
from tfagents_batch.nn import networks
from tfagents_batch.nn.actor import ActorNetwork, Bounds
from tfagents_batch.nn.normalizers import ObservationNormalizer
from tfagents_batch.nn.policies.base import NetworkPolicy
from tfagents_batch.nn.policies.box import squashed_std
from tfagents_batch.ops import branches, distributions
from tfagents_batch.ops.branches import Branches
from tfagents_batch.ops.categorical import Bernoulli
from tfagents_batch.ops.gaussian import TanhNormal
from tfagents_batch.types import Decision, Nest, TimeStep


class Parts:
    """Leaves of an action space: numbers of Boxes, and choices, side by side.

    Attributes:
      bounds: those of all numbers, A; None if there are no numbers.
      branches: choices of all other leaves; None if there are none.
      family: family of the joint distribution, in which Boxes are squashed.
    """

    def __init__(self, space: gymnasium.Space):
        self._space = space
        self.family = distributions.for_space(space, squash=True)
        leaves = [leaf.space for leaf in spaces.leaves(space)]
        self._leaves = [
            Bounds(*distributions.finite_bounds(leaf))
            if isinstance(leaf, gs.Box)
            else branches.of(leaf)
            for leaf in leaves
        ]
        numbers = [x for x in self._leaves if isinstance(x, Bounds)]
        choices = [x for x in self._leaves if isinstance(x, Branches)]
        self.bounds = self.branches = None
        if numbers:
            flat = zip(*(x.flat for x in numbers), strict=True)
            self.bounds = Bounds(*(np.concatenate(x) for x in flat))
        if choices:
            sizes = tuple(n for x in choices for n in x.sizes)
            start = np.zeros(len(sizes), np.int32)
            self.branches = Branches(sizes, start.shape, start)

    def heads(self) -> dict[str, int]:
        """Return the sizes of the outputs of an actor, by name."""
        size = 0 if self.bounds is None else self.bounds.size
        logits = self.family.size - size
        heads = {"mean": size, "log_std": size, "logits": logits}
        return {name: n for name, n in heads.items() if n}

    def distribution(
        self, outputs: dict[str, tf.Tensor], mask: tf.Tensor | None
    ) -> Distribution:
        """Return the distribution of actions by the outputs of an actor."""
        wide, taken = {"mean": 0, "logits": 0}, []
        for leaf, family in zip(self._leaves, self.family.leaves, strict=True):
            name = "mean" if isinstance(leaf, Bounds) else "logits"
            begin = wide[name]
            wide[name] = end = begin + family.size
            taken.append(outputs[name][:, begin:end])
        std = None if self.bounds is None else squashed_std(outputs["log_std"])
        return self.family.make(tf.concat(taken, -1), std, mask)

    def log_choices(
        self, outputs: dict[str, tf.Tensor], mask: tf.Tensor | None
    ) -> tf.Tensor:
        """Return ln pi of the choices of rows, f32 ``[N D, W]``, see ``Branches``."""
        assert self.branches is not None
        found: Any = self.distribution(outputs, mask)
        parts = getattr(found, "parts", (found,))
        logits = [
            _logits(part)
            for leaf, part in zip(self._leaves, parts, strict=True)
            if isinstance(leaf, Branches)
        ]
        return tf.nn.log_softmax(self.branches.rows(tf.concat(logits, -1)))

    def valid(self, mask: tf.Tensor) -> tf.Tensor:
        """Return which of all choices are valid, f32 ``[N, A]``, by a mask of spaces.

        Those of a MultiBinary, which has no mask, are valid.
        """
        sizes = [x.mask_size for x in self.family.leaves]
        cuts = tf.split(tf.cast(mask, tf.float32), sizes, -1)
        rows = [
            cut if size else tf.ones([nest.size(mask), leaf.size])
            for leaf, cut, size in zip(self._leaves, cuts, sizes, strict=True)
            if isinstance(leaf, Branches)
        ]
        return tf.concat(rows, -1)

    def split(self, action: Nest) -> tuple[tf.Tensor | None, tf.Tensor | None]:
        """Return the numbers of actions, scaled to [-1, 1], and the choices.

        They are f32 ``[N, A]`` and int32 ``[N D]``, or None if there are none.
        """
        units, indices = [], []
        flat = spaces.flatten(self._space, action)
        for leaf, x in zip(self._leaves, flat, strict=True):
            if isinstance(leaf, Bounds):
                units.append(leaf.unit(x))
            elif leaf is not None:
                indices.append(tf.reshape(leaf.index(x), [-1, leaf.count]))
        unit = tf.concat(units, -1) if units else None
        return unit, tf.reshape(tf.concat(indices, -1), [-1]) if indices else None

    def uniform(self, action: Nest, unit: tf.Tensor) -> Nest:
        """Return actions whose numbers are replaced by those of ``unit`` ``[N, A]``."""
        found, begin = [], 0
        flat = spaces.flatten(self._space, action)
        for leaf, x in zip(self._leaves, flat, strict=True):
            if isinstance(leaf, Bounds):
                x = leaf.action(unit[:, begin : begin + leaf.size])
                begin += leaf.size
            found.append(x)
        return spaces.pack(self._space, found)


class MixedNoise(NamedTuple):
    """Random numbers of an action."""

    parts: Nest  # of the distribution of each part
    uniform: Nest  # f32 [..., A] in [-1, 1], numbers of a random action; () for none


class Mixed(NetworkPolicy):
    """Independent squashed normals and categoricals; see ``interfaces.Policy``.

    So the policy is pi(a | s) = prod_i pi_i(a_i | s) (Delalleau et al. 2019). The
    actor's outputs are those of ``Parts.heads``. During the warm-up actions are
    uniformly random.

    Args:
      network: actor.
      parts: leaves of the action space.
      warmup: environment steps with random actions only, at the start of a run.
      observations: see ``NetworkPolicy``.
    """

    action_noise = None  # as of policies of a Box

    def __init__(
        self,
        network: ActorNetwork,
        parts: Parts,
        warmup: int = 0,
        observations: ObservationNormalizer | None = None,
    ):
        super().__init__(network, observations)
        self._parts, self._warmup = parts, warmup
        self.bounds, self.branches = parts.bounds, parts.branches

    def noise(self, shape, seed) -> MixedNoise:
        uniform = ()
        if self.bounds is not None:
            key = seeds.key(seed, "explore")
            uniform = 2 * seeds.uniform([*shape, self.bounds.size], key) - 1
        return MixedNoise(self._parts.family.noise(shape, seed), uniform)

    def act(
        self, timestep: TimeStep, state: Nest, noise: MixedNoise, step, explore: bool
    ):
        """Sample actions, or take the mode of each part."""
        before, own = self.parts(state)
        outputs, after = self.network(self.seen(timestep), before)
        warm = step < self._warmup
        if explore and "logits" in outputs:
            outputs = outputs | {"logits": tf.where(warm, 0.0, outputs["logits"])}
        policy = self._parts.distribution(outputs, _mask(timestep))
        action = policy.sample(noise.parts) if explore else policy.mode()
        if explore and self.bounds is not None:
            other = self._parts.uniform(action, noise.uniform)
            action = nest.where(warm, other, action)
        return action, self.recorded(before), self.joined(after, own)

    def decide(
        self, timestep: TimeStep, state: Nest, step, noise: tf.Tensor | None = None
    ) -> Decision:
        before, own = self.parts(state)
        outputs, after = self.network(self.seen(timestep), before)
        policy = self._parts.distribution(outputs, _mask(timestep))
        return Decision(policy.mode(), self.joined(after, own), {}, policy)

    def kinds(self, timestep: TimeStep) -> tuple[TanhNormal | None, tf.Tensor | None]:
        """Return the distribution of numbers, and ln pi of choices.

        Numbers are scaled to [-1, 1], ``[N, A]``; the logs are those of rows, f32
        ``[N D, W]``, see ``Branches``. Observations are normalized already.
        """
        outputs, numbers, log = self.network(timestep)[0], None, None
        if self.bounds is not None:
            std = squashed_std(outputs["log_std"])
            numbers = TanhNormal(outputs["mean"], std, -1.0, 1.0)
        if self.branches is not None:
            log = self._parts.log_choices(outputs, _mask(timestep))
        return numbers, log

    def valid(self, timestep: TimeStep) -> tf.Tensor | None:
        """Return which choices are valid, f32 ``[N, A]``; None if all are."""
        mask = _mask(timestep)
        return None if mask is None else self._parts.valid(mask)

    def split(self, action: Nest) -> tuple[tf.Tensor | None, tf.Tensor | None]:
        """Return numbers in [-1, 1] and choices of actions, see ``Parts.split``."""
        return self._parts.split(action)

    def probabilities(self, timestep: TimeStep, state: Nest, step) -> tf.Tensor:
        raise UserError(
            "probabilities of all actions need a Discrete action space, but actions "
            "have several parts"
        )

    def log_density(self, timestep: TimeStep, state: Nest, action, step) -> tf.Tensor:
        raise UserError("log_density needs a Box, but actions have several parts")


def _logits(part: Any) -> tf.Tensor:
    """Return the logits of all choices of a distribution, f32 ``[N, A]``."""
    if not isinstance(part, Bernoulli):
        return part.logits
    ones = tf.reshape(part.logits, [-1, math.prod(part.logits.shape[1:])])
    both = tf.stack([tf.zeros_like(ones), ones], -1)
    return tf.reshape(both, [-1, 2 * ones.shape[-1]])


def _mask(timestep: TimeStep) -> tf.Tensor | None:
    return networks.split_mask(timestep.observation)[1]
