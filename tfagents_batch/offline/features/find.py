"""Types of all features of logged rows.

with reader.open_rows("logs/") as rows:
    found = find(rows)
specification.write(found.specification, "features.json")
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from tfagents_batch.errors import UserError
from tfagents_batch.features.layout import LARGEST, layout, some
from tfagents_batch.features.specification import Feature, Specification
from tfagents_batch.offline.features import statistics, twin
from tfagents_batch.offline.features.identify import (
    Facts,
    FeatureSettings,
    Normality,
    checked,
    identify,
)
from tfagents_batch.offline.reader import LoggedRows

_SHOWN = 20_000  # values of a histogram
_BINS = 10  # of a feature and the reward, to compute their mutual information
_RARE = 0.01  # share of rows
_FEW = 5  # values that are probably categories
_MAY_BE_FEW = "BINARY", "ENUM", "DO_NOT_PREPROCESS", "DISCRETE_ACTION"
_FAR = 20  # widths of the middle 98 % of the values
_EXTREME = 5  # standard deviations
_CLAMPED = 0.01  # share of normalized numbers at their limit


class Suspicion(NamedTuple):
    """Something suspicious."""

    name: str  # one word or two
    text: str  # what was found and what to do


class FoundFeature(NamedTuple):
    """Result of the search for a feature's type."""

    id: int  # id of the feature
    facts: Facts  # facts on all of its values
    feature: Feature | None  # its type and parameters; None if it is left out
    normality: Normality | None  # why it has its type, if that is continuous
    # Mutual information with the reward in bits, times the share of the rows with it
    importance: float
    suspicions: tuple[Suspicion, ...]  # what is suspicious
    sample: np.ndarray  # f32 [n], some of its values
    normalized: np.ndarray  # f32 [n, columns], the same, normalized


@dataclasses.dataclass
class Search:
    """Result of ``find``."""

    rows: int  # number of rows
    settings: FeatureSettings  # settings of the search
    features: list[FoundFeature]  # what was found, by id
    problem: str  # why there is no specification, in one line; empty if there is one

    @functools.cached_property
    def specification(self) -> Specification:
        """The specification; UserError for a problem, or if no feature is used."""
        if self.problem:
            raise UserError(self.problem)
        used = {x.id: x.feature for x in self.features if x.feature is not None}
        if not used:
            raise UserError(
                f"no feature has {self.settings.min_samples} values; expected at least "
                "one: log more rows"
            )
        settings = self.settings
        return Specification(used, self.rows, settings.gate, settings.missing_as_zero)

    @property
    def by_importance(self) -> list[FoundFeature]:
        """The features, the most important one first; those left out at the end."""
        return sorted(
            self.features,
            key=lambda x: (x.feature is None, -round(x.importance, 3), x.id),
        )


def find(rows: LoggedRows, settings: FeatureSettings | None = None) -> Search:
    """Find the types of all features of rows.

    UserError for a bad setting; if a feature of ``allowlist`` or ``feature_overrides``
    does not occur, or its values cannot have its type; or if a file cannot be read.
    """
    settings = checked(settings or FeatureSettings())
    enums = [int(i) for i, x in settings.feature_overrides.items() if x == "ENUM"]
    known = statistics.facts(rows, settings.max_unique_enum, enums)
    if not known:
        raise UserError("no row has a feature; expected state_features with numbers")
    for name in ("allowlist", "feature_overrides"):
        if lost := sorted(set(map(int, getattr(settings, name))) - known.keys()):
            raise UserError(
                f"{name} names feature {lost[0]}, which no row has; expected some of "
                f"{some(known)}"
            )
    known = {i: x for i, x in known.items() if i in (settings.allowlist or known)}
    if settings.strict:
        for i, known_facts in known.items():
            if known_facts.present < settings.min_samples:
                raise UserError(
                    f"feature {i} has {known_facts.present} values; expected at least "
                    f"{settings.min_samples}: log more rows, or leave out strict"
                )
    features = [
        _found(i, known[i], sample, settings)
        for i, sample in statistics.samples(rows, known, settings.sample, settings.seed)
    ]
    count = next(iter(known.values())).rows
    return Search(count, settings, features, _problem(rows, known))


def _found(
    i: int, facts: Facts, sample: statistics.FeatureSample, settings: FeatureSettings
) -> FoundFeature:
    feature = normality = None
    shown = sample.values[:_SHOWN]
    normalized = np.zeros([0, 1], np.float32)
    if facts.present >= settings.min_samples and not facts.infinite:
        feature, normality = identify(i, facts, sample.values, settings)
        only = layout(Specification({i: feature}))
        normalized = twin.normalize(only, shown[:, np.newaxis])
    importance = facts.share * mutual_information(*sample) if len(shown) else 0.0
    least = settings.min_samples
    odd = tuple(suspicions(facts, feature, sample.values, normalized, least))
    return FoundFeature(
        i, facts, feature, normality, importance, odd, shown, normalized
    )


def _problem(rows: LoggedRows, known: dict[int, Facts]) -> str:
    unread, *example = statistics.unread(rows)
    if unread:
        file, row, value = example
        return (
            f"state_features or rewards cannot be read in {unread:,} of "
            f"{next(iter(known.values())).rows:,} rows, such as {value} in {file}, row "
            f"{row:,}; expected numbers: correct the rows, which tfagents-batch rows "
            "lists"
        )
    infinite = [i for i, x in known.items() if x.infinite]
    if not infinite:
        return ""
    file, row, value = statistics.example(rows, infinite[0])
    first, others = known[infinite[0]], len(infinite) - 1
    more = f", as are {others:,} other features" if others else ""
    return (
        f"feature {infinite[0]} is infinite or beyond float32 in {first.infinite:,} of "
        f"{first.rows:,} rows{more}, such as {value:g} in {file}, row {row:,}; "
        "expected finite numbers: correct the rows, or leave it out by --allowlist"
    )


def mutual_information(values: np.ndarray, rewards: np.ndarray) -> float:
    """Return the mutual information of a feature and the reward, in bits.

    Both, ``[n]``, are numbers of a class: those of at most 10 values by value, others
    by decile. The bias of counts is subtracted (Miller 1955), so unrelated ones have
    about 0, and never less. Rows without a reward are left out.
    """
    known = np.isfinite(rewards)
    if not known.any():
        return 0.0
    x, y = _classes(values[known]), _classes(rewards[known])
    size = y.max() + 1
    counts = np.bincount(x * size + y, minlength=(x.max() + 1) * size)
    joint = counts.reshape(-1, size) / len(x)
    apart = joint.sum(1, keepdims=True) * joint.sum(0, keepdims=True)
    used = joint > 0
    information = np.sum(joint[used] * np.log2(joint[used] / apart[used]))
    bias = (joint.shape[0] - 1) * (joint.shape[1] - 1) / (2 * len(x) * np.log(2))
    return max(float(information - bias), 0.0)


def _classes(x: np.ndarray) -> np.ndarray:
    """Return the numbers of the classes of values, without gaps, i64 ``[n]``."""
    values, index = np.unique(x, return_inverse=True)
    if len(values) <= _BINS:
        return index
    bounds = np.quantile(x, np.arange(1, _BINS) / _BINS)
    return np.unique(np.searchsorted(bounds, x, "right"), return_inverse=True)[1]


def suspicions(
    facts: Facts,
    feature: Feature | None,
    sample: np.ndarray,
    normalized: np.ndarray,
    min_samples: int,
) -> Iterator[Suspicion]:
    """Yield what is suspicious about a feature; arguments as in ``FoundFeature``."""
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
