"""What is suspicious about a feature."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from tfagents_batch.features.layout import LARGEST
from tfagents_batch.features.specification import Feature
from tfagents_batch.offline.features.identify import Facts

_RARE = 0.01  # share of rows
_FEW = 5  # values that are probably categories
_MAY_BE_FEW = "BINARY", "ENUM", "DO_NOT_PREPROCESS", "DISCRETE_ACTION"
_FAR = 20  # widths of the middle 98 % of the values
_EXTREME = 5  # standard deviations
_CLAMPED = 0.01  # share of normalized numbers at their limit


class Suspicion(NamedTuple):
    """Something suspicious.

    Attributes:
      name: one word or two.
      text: what was found and what to do.
    """

    name: str
    text: str


def suspicions(
    facts: Facts,
    feature: Feature | None,
    sample: np.ndarray,
    normalized: np.ndarray,
    min_samples: int,
) -> Iterator[Suspicion]:
    """Yield what is suspicious about a feature.

    Args:
      facts: facts on all of its values.
      feature: its type and parameters; None below ``min_samples`` values.
      sample, normalized: f32 ``[n]`` and ``[n, columns]``, some of its values.
    """
    if facts.infinite:
        text = f"{facts.infinite:,} values are infinite or beyond float32"
        yield Suspicion("infinite", f"{text}; correct the rows")
        return
    if feature is None:
        text = f"only {facts.present:,} rows have a value, and {min_samples} are needed"
        yield Suspicion("too few", f"{text}; it is left out")
        return
    kind = feature.feature_type
    if facts.minimum == facts.maximum:
        text = f"every value is {facts.minimum:g}; it says only whether it is present"
        yield Suspicion("constant", text)
    elif _FEW >= len(facts.values) > 0 and kind not in _MAY_BE_FEW:
        values = ", ".join(f"{x:g}" for x in facts.values)
        text = f"only {len(facts.values)} values: {values}. If these are categories, "
        yield Suspicion("few values", text + "log them as 0, 1, 2, ...")
    if far := _outliers(sample):
        yield Suspicion("outliers", far)
    if kind == "PROBABILITY" and (ends := _ends(sample, normalized)):
        yield Suspicion("exact 0 or 1", ends)
    if kind not in ("BINARY", "ENUM") and len(normalized):
        share = float(np.mean(np.abs(normalized) >= LARGEST - 1e-3))
        if share > _CLAMPED:
            text = f"{share:.1%} of the normalized values are at the limit {LARGEST}"
            yield Suspicion("clamped", text)
    if facts.share < _RARE:
        yield Suspicion("rare", f"only {facts.share:.2%} of the rows have it")


def _ends(sample: np.ndarray, normalized: np.ndarray) -> str:
    """Return a text on probabilities of 0 or 1 that are far from the others, or ""."""
    at = (sample[: len(normalized)] == 0) | (sample[: len(normalized)] == 1)
    worst = float(np.abs(normalized[at]).max(initial=0))
    if worst <= _EXTREME:
        return ""
    return (
        f"{at.mean():.2%} of the values are exactly 0 or 1 and up to {worst:.1f} "
        "standard deviations from the mean of the log odds. Leave the feature out of a "
        "row where nothing is known of it"
    )


def _outliers(sample: np.ndarray) -> str:
    """Return a text on values that are far from the others; empty for none."""
    if not len(sample):
        return ""
    low, middle, high = np.quantile(sample.astype(np.float64), [0.01, 0.5, 0.99])
    if low == high:
        return ""
    width = high - low
    far = sample[(sample < low - _FAR * width) | (sample > high + _FAR * width)]
    if not len(far):
        return ""
    worst = far[np.argmax(np.abs(far - middle))]
    return (
        f"98 % of the values are from {low:g} to {high:g}, but one is {worst:g}; "
        "check how it was logged"
    )
