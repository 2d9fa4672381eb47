"""Judge the scale of observed numbers: whether the defaults can learn from them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces as gs

from tfagents_batch import encoding, spaces
from tfagents_batch.envs.checking.findings import HINT, WARNING, Place, Report
from tfagents_batch.envs.shared.observation_rules import MASK

SMALL = 0.1  # part of its bounds that an observation should use
LARGE = 1000.0  # magnitude of numbers that should be normalized
TINY = 1e-4  # range of numbers that networks cannot tell apart
TINY_REWARD = 1e-6
# Smaller numbers are not examined: their changes may be rounding errors.
_RESOLVED = 1e4
_FEWEST = 16  # float32 numbers that a range should have
MANY_INPUTS = 2**14  # one million weights for 64 units
MANY_PIXELS = 2**16
_NOT_NORMALIZED = "DQN, SAC and TD3 without algorithm.normalize_observation"


class SeenRange:
    """Lowest and highest values of each entry of an array, in float64.

    A time stamp of 1.7e9 seconds that changes by 60 is almost constant in float32,
    whose neighboring numbers are 128 apart there. Normalization comes too late for it.
    """

    def __init__(self, shape: tuple[int, ...]):
        self.low, self.high = np.full(shape, np.inf), np.full(shape, -np.inf)
        self.count = 0

    def add(self, value: np.ndarray) -> None:
        """Extend the ranges by one array of numbers."""
        np.minimum(self.low, value, out=self.low)
        np.maximum(self.high, value, out=self.high)
        self.count += 1

    @property
    def spread(self) -> np.ndarray:
        """Difference of the highest and the lowest value of each entry."""
        return self.high - self.low

    def unresolved(self) -> str:
        """Return a text on the first entry of which float32 keeps hardly any change.

        It follows the name of the numbers; "" if there is no such entry.
        """
        largest = np.maximum(abs(self.low), abs(self.high))
        with np.errstate(over="ignore", invalid="ignore"):
            step = np.spacing(largest.astype(np.float32)).astype(np.float64)
            noise = 64 * np.spacing(largest)
            few = (self.spread > noise) & (self.spread < _FEWEST * step)
        places = np.argwhere(few & (largest >= _RESOLVED))
        if not len(places):
            return ""
        place = tuple(int(i) for i in places[0])
        where = f" at {list(place)}" if place else ""
        low, high = (f"{bound[place]:.15g}" for bound in (self.low, self.high))
        return (
            f"{where} is {low} to {high}; it hardly changes as float32, whose numbers "
            f"are {step[place]:.3g} apart there; expected numbers closer to 0: "
            "subtract an offset in the environment, or by "
            "gymnasium.wrappers.TransformObservation"
        )


# Function of a leaf and the values seen; returns level, kind and text of its findings,
# whose text follows the name of the leaf.
Rule = Callable[[spaces.Leaf, SeenRange], Iterable[tuple[str, str, str]]]


class Scales:
    """The values that each part of the observations had.

    Args:
      space: a supported observation space.
    """

    def __init__(self, space: gymnasium.Space):
        self._space = space
        self._seen = [(x, SeenRange(x.shape)) for x in spaces.leaves(space)]

    def add(self, observation: Any) -> None:
        """Add an observation without defects."""
        flat = spaces.flatten(self._space, observation)
        for (_, extent), value in zip(self._seen, flat, strict=True):
            extent.add(np.asarray(value))

    def judge(self, report: Report) -> None:
        """Add warnings and hints to a report, if there are observations."""
        for leaf, extent in self._seen:
            if not extent.count or not extent.low.size or MASK in leaf.path:
                continue
            name = spaces.field(leaf.path)
            for rule in _RULES[encoding.kind(leaf.space)]:
                for level, kind, text in rule(leaf, extent):
                    report.add(level, kind, name, f"{name}{text}", Place())


def hint_at_tiny_rewards(rewards: Sequence[float], report: Report) -> None:
    """Add a hint if no reward is large enough to learn from."""
    largest = max(map(abs, rewards))
    if 0 < largest < TINY_REWARD:
        text = (
            f"the largest reward is {largest:.3g}, too small for algorithms that do "
            "not normalize rewards; expected about 1: multiply it, for example by "
            "gymnasium.wrappers.TransformReward"
        )
        report.add(HINT, "tiny", "reward", text, Place())


def hint_at_action_scale(space: gymnasium.Space, report: Report) -> None:
    """Add a hint about continuous actions with bounds other than [-1, 1]."""
    for leaf in spaces.leaves(space):
        box = leaf.space
        if not isinstance(box, gs.Box) or np.dtype(leaf.dtype).kind != "f":
            continue
        if ((box.low == -1) & (box.high == 1)).all():
            continue
        low, high = box.low.min(), box.high.max()
        fix = "wrap it in gymnasium.wrappers.RescaleAction(env, -1.0, 1.0)"
        if not np.isfinite([low, high]).all():
            fix = "give it bounds, and scale actions inside the environment"
        name = spaces.field(leaf.path, "action_space")
        report.add(
            HINT,
            "scale",
            name,
            f"{name} ranges from {low} to {high}; policies start around [-1, 1] and "
            f"learn best there: {fix}",
            Place(),
        )


def _image(leaf: spaces.Leaf, extent: SeenRange):
    low, high = leaf.space.low.min(), leaf.space.high.max()
    shape, dtype = leaf.shape, leaf.space.dtype
    axis = encoding.rows_axis(shape)
    pixels = math.prod(shape[axis : axis + 2])
    if dtype != np.uint8 or (low, high) != (0, 255) or len(shape) == 4:
        channels = math.prod(shape) // pixels
        text = (
            f", {dtype} {shape} of {low} to {high}, goes through a CNN as an image of "
            f"{channels} channels, scaled from these bounds to [0, 1]; if it is no "
            "image, flatten it, for example by gymnasium.wrappers.ReshapeObservation"
        )
        yield HINT, "image", text
    seen = float(extent.low.min()), float(extent.high.max())
    share = (seen[1] - seen[0]) / (float(high) - float(low) or 1)
    if 0 < share < SMALL:
        text = (
            f" is {seen[0]:g} to {seen[1]:g}, {share:.2g} of its bounds, {low} to "
            f"{high}, by which it is scaled, so the CNN sees almost one color; "
            "expected most of them: declare narrower bounds"
        )
        yield WARNING, "small range", text
    if pixels > MANY_PIXELS:
        text = (
            f" has {pixels:,} pixels, so the dense layer after the CNN is huge; usual "
            "are 84 x 84: wrap it in gymnasium.wrappers.ResizeObservation"
        )
        yield HINT, "size", text


def _integers(leaf: spaces.Leaf, extent: SeenRange):
    space: Any = leaf.space
    seen = _range(extent)
    if not encoding.has_scale(space):
        yield from _magnitude(leaf, extent)
        return
    low, high = (bound.astype(np.float64) for bound in (space.low, space.high))
    share = float((extent.spread / np.maximum(high - low, 1)).max())
    if 0 < share < SMALL:
        text = (
            f" is {seen}, at most {share:.2g} of its bounds, by which "
            f"{_NOT_NORMALIZED} scale it, so they see almost a constant; expected most "
            "of them: declare narrower bounds, or observe float32"
        )
        yield HINT, "small range", text


def _floats(leaf: spaces.Leaf, extent: SeenRange):
    if text := extent.unresolved():
        yield WARNING, "lost", text
    largest = np.maximum(abs(extent.low), abs(extent.high))
    spread = extent.spread
    tiny = (spread > 0) & (spread < TINY) & (spread > largest / 100)  # else: rounding
    if tiny.any():
        place = tuple(int(i) for i in np.argwhere(tiny)[0])
        where = f" at {list(place)}" if place else ""
        text = (
            f"{where} is {extent.low[place]:.3g} to {extent.high[place]:.3g}; networks "
            "see almost a constant, because normalization does not divide by less than "
            "algorithm.normalize_floor; expected a range of about 1: multiply it"
        )
        yield HINT, "tiny", text
    yield from _magnitude(leaf, extent)


def _magnitude(leaf: spaces.Leaf, extent: SeenRange):
    if max(-extent.low.min(), extent.high.max()) > LARGE:
        text = (
            f" is {_range(extent)}; {_NOT_NORMALIZED} learn worse from such numbers; "
            "expected about -1 to 1: divide it by a constant, or declare its bounds "
            'and pass wrappers=["RangeNormalize"]'
        )
        yield HINT, "large", text


def _missed_image(leaf: spaces.Leaf, extent: SeenRange):
    if text := encoding.missed_image(leaf.space):
        yield HINT, "no image", text


def _planes(leaf: spaces.Leaf, extent: SeenRange):
    if encoding.is_planes(leaf.space):
        text = (
            f", {leaf.shape} flags, goes flattened to dense layers; if it is an image, "
            "set network.cnn, for example to small"
        )
        yield HINT, "planes", text


def _inputs(leaf: spaces.Leaf, extent: SeenRange):
    count = encoding.features(leaf.space)
    if count > MANY_INPUTS:
        text = (
            f" is {count:,} inputs of the first layer, {64 * count:,} weights for 64 "
            "units; expected fewer: make it smaller, or pass your own network"
        )
        yield HINT, "size", text


def _range(extent: SeenRange) -> str:
    return f"{extent.low.min():g} to {extent.high.max():g}"


_RULES: dict[str, tuple[Rule, ...]] = {
    "image": (_image,),
    "integers": (_integers, _missed_image, _inputs),
    "floats": (_floats, _missed_image, _inputs),
    "flags": (_planes, _inputs),
    "one-hot": (_inputs,),
}
