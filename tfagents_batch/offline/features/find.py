"""Types of all features of logged rows.

with reader.open_rows("logs/") as rows:
    found = find(rows)
specification.write(found.specification, "features.json")
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np

from tfagents_batch.errors import UserError
from tfagents_batch.features.layout import layout, some
from tfagents_batch.features.specification import Feature, Specification
from tfagents_batch.offline.features import statistics, twin
from tfagents_batch.offline.features.identify import Facts, Normality, identify
from tfagents_batch.offline.features.importance import mutual_information
from tfagents_batch.offline.features.settings import FeatureSettings, checked
from tfagents_batch.offline.features.suspicions import Suspicion, suspicions
from tfagents_batch.offline.reader import Rows

_SHOWN = 20_000  # values of a histogram


class Found(NamedTuple):
    """What was found about a feature.

    Attributes:
      id: its id.
      facts: facts on all of its values.
      feature: its type and parameters; None if it is left out.
      normality: why it has its type, if that is continuous.
      importance: mutual information with the reward in bits, times the share of the
        rows that have the feature.
      suspicions: what is suspicious.
      sample: f32 ``[n]``, some of its values.
      normalized: f32 ``[n, columns]``, the same, normalized.
    """

    id: int
    facts: Facts
    feature: Feature | None
    normality: Normality | None
    importance: float
    suspicions: tuple[Suspicion, ...]
    sample: np.ndarray
    normalized: np.ndarray


class Search:
    """Result of ``find``.

    Attributes:
      rows: number of rows.
      settings: settings of the search.
      features: what was found, by id.
      problem: why there is no specification, in one line; empty if there is one.
    """

    def __init__(
        self, rows: int, settings: FeatureSettings, features: list[Found], problem: str
    ):
        self.rows, self.settings = rows, settings
        self.features, self.problem = features, problem

    @functools.cached_property
    def specification(self) -> Specification:
        """The specification.

        Raises:
          UserError: if a feature has infinite values, if values cannot be read, or if
            all features are left out.
        """
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
    def by_importance(self) -> list[Found]:
        """The features, the most important one first; those left out at the end."""
        return sorted(
            self.features,
            key=lambda x: (x.feature is None, -round(x.importance, 3), x.id),
        )


def find(rows: Rows, settings: FeatureSettings | None = None) -> Search:
    """Find the types of all features of rows.

    Args:
      rows: result of ``reader.open_rows``.
      settings: see ``FeatureSettings``.

    Raises:
      UserError: for a bad setting; if a feature of ``allowlist`` or
        ``feature_overrides`` does not occur, or its values cannot have its type; or if
        a file cannot be read.
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
        for i, each in known.items():
            if each.present < settings.min_samples:
                raise UserError(
                    f"feature {i} has {each.present} values; expected at least "
                    f"{settings.min_samples}: log more rows, or leave out strict"
                )
    features = [
        _found(i, known[i], sample, settings)
        for i, sample in statistics.samples(rows, known, settings.sample, settings.seed)
    ]
    count = next(iter(known.values())).rows
    return Search(count, settings, features, _problem(rows, known))


def _found(
    i: int, facts: Facts, sample: statistics.Sample, settings: FeatureSettings
) -> Found:
    feature = normality = None
    shown = sample.values[:_SHOWN]
    normalized = np.zeros([0, 1], np.float32)
    if facts.present >= settings.min_samples and not facts.infinite:
        feature, normality = identify(i, facts, sample.values, settings)
        only = layout(Specification({i: feature}))
        normalized = twin.normalize(only, shown[:, np.newaxis])
    importance = facts.share * mutual_information(*sample) if len(shown) else 0.0
    odd = suspicions(facts, feature, sample.values, normalized, settings.min_samples)
    odd = tuple(odd)
    return Found(i, facts, feature, normality, importance, odd, shown, normalized)


def _problem(rows: Rows, known: dict[int, Facts]) -> str:
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
