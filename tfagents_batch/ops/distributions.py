"""Distribution families of action spaces, and the network outputs they need.

All classes satisfy ``interfaces.Distribution``. Actions are values of the action
space: int32, or float32 for a Box.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import tensorflow as tf
from gymnasium import spaces as gs

from tfagents_batch import seeds, spaces
from tfagents_batch.errors import UserError
from tfagents_batch.interfaces import Distribution
from tfagents_batch.ops import event
from tfagents_batch.ops.categorical import (
    Bernoulli,
    Categorical,
    MultiCategorical,
    gumbel_noise,
    logistic_noise,
)
from tfagents_batch.ops.gaussian import (
    DiagNormal,
    TanhNormal,
    normal_noise,
)
from tfagents_batch.ops.joint import Joint
from tfagents_batch.types import Nest

SUPPORTED = (
    "Discrete, MultiDiscrete, MultiBinary, a Box of floats, or a Dict or Tuple of them"
)
# Bounds near the largest float say that there are none, and actions would overflow.
_LARGEST = 1e30


class Ranges(NamedTuple):
    """Middle of the range of every number of a Box, and half of the range."""

    middle: np.ndarray  # f32 [*shape]; 0 where not bounded
    half: np.ndarray  # f32 [*shape]; 1 where not bounded
    bounded: np.ndarray  # bool [*shape], true for two different finite bounds


@dataclass(frozen=True)
class Family:
    """Family of distributions over one action space; see ``for_space``."""

    name: str  # of the distribution's class
    size: int  # number of outputs that ``make`` needs
    shape: tuple[int, ...]  # of one action; () if it has parts
    dtype: tf.DType | None  # of actions, tf.int32 or tf.float32; None if it has parts
    _build: Callable[..., Distribution]
    _noise: Callable[..., Nest]
    _noise_shape: tuple[int, ...]
    std_size: int = 0  # width of the standard deviation; 0 if there is none
    mask_size: int = 0  # width of a mask; 0 if actions cannot be masked
    squashed: bool = False  # whether actions are kept inside their bounds
    parts: tuple[Family, ...] = ()  # families of the leaves of a Dict or Tuple

    @property
    def needs_std(self) -> bool:
        """Whether ``make`` needs a standard deviation."""
        return self.std_size > 0

    @property
    def leaves(self) -> tuple[Family, ...]:
        """Families of the leaves of an action, one if it has no parts."""
        return self.parts or (self,)

    def make(
        self,
        outputs: tf.Tensor,
        std: tf.Tensor | None = None,
        mask: tf.Tensor | None = None,
    ) -> Distribution:
        """Build a batch of distributions.

        Args:
          outputs: f32 ``[..., size]``, logits or means.
          std: f32 ``[..., std_size]`` or ``[std_size]``, greater than 0, where
            ``needs_std``.
          mask: bool (or numbers, where 0 is invalid) ``[..., mask_size]``.

        Raises:
          UserError: if an argument is missing, not supported or has another width.
        """
        if mask is not None and not self.mask_size:
            raise UserError(
                f"{self.name} cannot mask actions; only Discrete and MultiDiscrete "
                'action spaces support observation["action_mask"]'
            )
        if self.needs_std != (std is not None):
            need = "needs a std" if self.needs_std else "has no std"
            raise UserError(f"{self.name} {need}; see Family.needs_std")
        for name, tensor, size in (
            ("policy output", outputs, self.size),
            ("std", std, self.std_size),
            ("action_mask", mask, self.mask_size),
        ):
            if tensor is not None and tensor.shape[-1:] != (size,):
                raise UserError(
                    f"{name} has shape {tuple(tensor.shape)}; {self.name} over this "
                    f"action space needs [..., {size}]"
                )
        options = {"std": std} if self.needs_std else {}
        options |= {"mask": mask} if self.mask_size else {}
        return self._build(outputs, **options)

    def noise(self, shape, seed) -> Nest:
        """Draw the noise for ``sample``, ``[*shape, ...]``, in one op for each part."""
        return self._noise([*shape, *self._noise_shape], seed)


def for_space(
    space: gymnasium.Space, squash: bool = False, scale: bool = True
) -> Family:
    """Return the family of distributions over an action space.

    Args:
      space: Discrete (Categorical), MultiDiscrete (MultiCategorical), MultiBinary
        (Bernoulli), float Box of any shape (DiagNormal, or TanhNormal), or a Dict or
        Tuple of them (Joint), whose outputs, standard deviations and masks are those of
        its leaves, side by side, in the order of ``spaces.leaves``.
      squash: keep Box actions inside their bounds (TanhNormal).
      scale: whether means and standard deviations of a DiagNormal are in halves of the
        range of actions, and means around its middle: -1 is the lower bound and 1 the
        upper one. If false, and for numbers without two finite bounds, they are in the
        units of the environment.

    Raises:
      UserError: for any other space, and with ``squash`` for infinite bounds.
    """
    if isinstance(space, gs.Dict | gs.Tuple):
        return _joint(space, squash, scale)
    shape = tuple(int(size) for size in space.shape or ())
    if isinstance(space, gs.Discrete):
        chosen = partial(Categorical, start=int(space.start))
        return _categorical("Categorical", int(space.n), shape, chosen)
    if isinstance(space, gs.MultiDiscrete):
        several = partial(MultiCategorical, nvec=space.nvec, start=space.start)
        return _categorical("MultiCategorical", int(space.nvec.sum()), shape, several)
    if isinstance(space, gs.MultiBinary):
        size, noise = math.prod(shape), (logistic_noise, shape)

        def build(outputs):
            return Bernoulli(event.reshape(outputs, 1, shape), len(shape))

        return Family("Bernoulli", size, shape, tf.int32, build, *noise)
    if isinstance(space, gs.Box) and np.issubdtype(space.dtype, np.floating):
        return _box(space, shape, squash, scale)
    raise UserError(
        f"action space {space} is not supported; use {SUPPORTED}, or a gymnasium "
        "wrapper that converts it"
    )


def ranges(space: gs.Box) -> Ranges:
    """Return the ranges of the numbers of a Box."""
    low, high = (x.astype(np.float64) for x in (space.low, space.high))
    with np.errstate(invalid="ignore", over="ignore"):  # infinite bounds, or too large
        half = high / 2 - low / 2
        bounded = (half > 1 / _LARGEST) & (half < _LARGEST)
        bounded &= low.astype(np.float32) < high.astype(np.float32)
        middle = np.where(bounded, low + half, 0)
    half = np.where(bounded, half, 1)
    return Ranges(middle.astype(np.float32), half.astype(np.float32), bounded)


def finite_bounds(space: gs.Box) -> tuple[np.ndarray, np.ndarray]:
    """Return the bounds of actions that are squashed into them, f32 ``[*shape]`` each.

    Raises:
      UserError: if they are not finite, not low < high or too far apart, or if there
        are none.
    """
    _refuse_empty(space)
    if not ranges(space).bounded.all():
        raise UserError(
            f"the action space {space} cannot be squashed: that needs finite bounds "
            f"with low < high, less than {2 * _LARGEST:g} apart; declare them in the "
            "environment or by gymnasium.wrappers.TransformAction, or use ppo without "
            "squash"
        )
    return space.low.astype(np.float32), space.high.astype(np.float32)


def _categorical(name, size, shape, build) -> Family:
    noise = gumbel_noise, (size,)
    return Family(name, size, shape, tf.int32, build, *noise, mask_size=size)


def _joint(space: gs.Dict | gs.Tuple, squash: bool, scale: bool) -> Family:
    """Return the family of a space with parts."""
    leaves = spaces.leaves(space)
    if not leaves:
        raise UserError(f"the action space {space} has no parts; expected at least one")
    parts = tuple(for_space(leaf.space, squash, scale) for leaf in leaves)

    def cut(x: tf.Tensor | None, sizes: list[int]) -> list[tf.Tensor | None]:
        """Return the slice of each part; None where it has no width."""
        if x is None:
            return [None] * len(parts)
        cuts = tf.split(x, sizes, -1)
        return [y if size else None for y, size in zip(cuts, sizes, strict=True)]

    def build(outputs, std=None, mask=None) -> Any:
        own = tf.split(outputs, [x.size for x in parts], -1)
        stds = cut(std, [x.std_size for x in parts])
        masks = cut(mask, [x.mask_size for x in parts])
        rows = zip(parts, own, stds, masks, strict=True)
        return Joint(space, [part.make(x, y, z) for part, x, y, z in rows])

    def noise(shape, seed):
        own = [seeds.update_seed(seed, index) for index in range(len(parts))]
        return tuple(x.noise(shape, y) for x, y in zip(parts, own, strict=True))

    size, std_size, mask_size = (
        sum(getattr(x, name) for x in parts)
        for name in ("size", "std_size", "mask_size")
    )
    name = f"Joint({', '.join(f'{x.name}{list(x.shape)}' for x in parts)})"
    own = name, size, (), None, build, noise, (), std_size, mask_size
    return Family(*own, squashed=squash, parts=parts)


def _refuse_empty(space: gs.Box) -> None:
    if spaces.is_empty(space):
        raise UserError(
            f"the action space {space} has no numbers; expected at least one: give it "
            "another shape"
        )


def _box(space, shape, squash, scale) -> Family:
    _refuse_empty(space)
    distribution = DiagNormal
    if squash:
        low, high = finite_bounds(space)
        distribution = partial(TanhNormal, low=low, high=high)
    middle, half, _ = ranges(space)
    scales = scale and not squash and (np.any(middle != 0) or np.any(half != 1))

    def build(outputs, std):
        mean, std = (event.reshape(x, 1, shape) for x in (outputs, std))
        if scales:
            mean, std = mean * half + middle, std * half
        return distribution(mean, std, event_ndims=len(shape))

    name, size = "TanhNormal" if squash else "DiagNormal", math.prod(shape)
    noise = normal_noise, shape
    return Family(
        name, size, shape, tf.float32, build, *noise, std_size=size, squashed=squash
    )
