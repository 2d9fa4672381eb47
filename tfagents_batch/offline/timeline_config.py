"""Settings of the timeline, also read from Horizon's JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

from tfagents_batch import config
from tfagents_batch.config import option
from tfagents_batch.errors import UserError
from tfagents_batch.schedules import finite
from tfagents_batch.settings.suggest import unknown


@dataclasses.dataclass(frozen=True)
class TimelineConfig:
    """Settings of the timeline."""

    start_ds: str | None = option(None, "first partition to read; none: all earlier")
    end_ds: str | None = option(
        None, "last partition to read, and the one to write; none: the last in the rows"
    )
    n_step: int = option(1, "number of rewards in a sample, n", least=1, most=100)
    gamma: float = option(
        0.99, "discount factor per step, or per time_unit", least=0, most=1
    )
    discount: Literal["step", "time"] = option(
        "step", "what gamma counts: steps, or time (the sequence_number)"
    )
    time_unit: int = option(1, "sequence numbers per unit of time", least=1)
    last_row: Literal["terminal", "drop", "horizon_keep"] = option(
        "terminal", "last row without flag or end marker: terminal, drop, horizon_keep"
    )
    on_duplicate: Literal["error", "first", "last"] = option(
        "error", "rows of the same mdp_id and sequence_number: error, first or last"
    )
    max_length_percentile: float | None = option(
        None, "share of episodes to keep, the shortest; none: all", above=0, most=1
    )
    time_window_limit: int | None = option(
        None, "largest time since the first row of an episode; none: any", least=0
    )
    train_share: float = option(0.8, "share of episodes to train on", least=0, most=1)
    eval_share: float = option(0.2, "share of episodes to evaluate", least=0, most=1)
    salt: str = option("", "text before mdp_id in the hash that splits the episodes")
    custom_reward: str | None = option(
        None, "SQL expression of a row's columns instead of its reward"
    )
    metric_weights: dict | None = option(
        None, "reward as the sum of metrics with these weights, by name"
    )
    validation_sql: str | None = option(
        None, "SQL query of {input} and {output}; one row of only true publishes"
    )
    on_change: Literal["error", "accept"] = option(
        "error", "if samples differ in kind from those of the newest partition"
    )


# Settings that change what the columns of a sample mean, or what an episode is for.
OF_SAMPLES = (
    *("n_step", "gamma", "discount", "time_unit", "last_row"),
    *("train_share", "eval_share", "salt"),
)

# Keys of Horizon that are settings under another name.
_SETTINGS = {
    "startDs": "start_ds",
    "endDs": "end_ds",
    "steps": "n_step",
    "outlierEpisodeLengthPercentile": "max_length_percentile",
    "timeWindowLimit": "time_window_limit",
    "validationSql": "validation_sql",
}
_REWARDS = {"reward", "metrics"}
# Keys that no setting is needed for, with the reason.
_WITHOUT_EFFECT = {
    "inputTableName": "pass --input",
    "outputTableName": "pass --output",
    "numOutputShards": "files are split by their size",
    "percentileFunction": "the exact percentile is used",
    "includePossibleActions": "possible actions are always included",
}


def checked(settings: TimelineConfig) -> TimelineConfig:
    """Check the settings, also against each other, and convert them to their types."""
    settings = config.check(settings)
    if settings.start_ds and settings.end_ds and settings.start_ds > settings.end_ds:
        raise UserError(
            f"start_ds is {settings.start_ds} and end_ds is {settings.end_ds}; "
            "expected start_ds at or before end_ds (they are compared as text)"
        )
    if settings.train_share + settings.eval_share > 1 + 1e-9:
        raise UserError(
            f"train_share is {settings.train_share} and eval_share is "
            f"{settings.eval_share}; expected a sum of at most 1, because no episode "
            "may be in both"
        )
    if settings.custom_reward is not None and settings.metric_weights is not None:
        raise UserError(
            "custom_reward and metric_weights are both given; pass only one of them"
        )
    for name, weight in (settings.metric_weights or {}).items():
        finite(weight, f"metric_weights.{name}")
    return settings


@dataclasses.dataclass(frozen=True)
class _Horizon:
    """Keys of Horizon that have an effect."""

    startDs: str | None = None
    endDs: str | None = None
    steps: int | None = None
    outlierEpisodeLengthPercentile: float | None = None
    timeWindowLimit: int | None = None
    validationSql: str | None = None
    addTerminalStateRow: bool = False
    actionDiscrete: bool | None = None
    evalTableName: str | None = None
    tableSample: float = option(100.0, "share of the episodes", above=0, most=100)
    actions: tuple[str, ...] = ()
    rewardColumns: tuple[str, ...] = ()
    extraFeatureColumns: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class FromHorizon:
    """A configuration of Horizon in this package's words."""

    config: TimelineConfig  # settings of the timeline
    mode: str | None  # mode of the rows; None if it is not said
    # Names of the actions in their order; empty if they are not said
    actions: tuple[str, ...]
    extra_columns: tuple[str, ...]  # further columns, which the timeline keeps
    notices: tuple[str, ...]  # one line for each key without an effect here


def from_horizon(content: Mapping[str, Any]) -> FromHorizon:
    """Read a configuration of Horizon, of its version of 2019 or of its last one.

    Keys may be inside "timeline" and "query" as in Horizon's files. UserError for an
    unknown key, or a value that is not supported.
    """
    keys = _flat(content)
    unused = {key: why for key, why in _WITHOUT_EFFECT.items() if key in keys}
    used = {key: value for key, value in keys.items() if key not in unused}
    known = {field.name for field in dataclasses.fields(_Horizon)} | {*_WITHOUT_EFFECT}
    for key in used.keys() - known:
        raise UserError(unknown("key of Horizon", key, known))
    horizon = config.check(config.replace(_Horizon(), used))
    if others := set(horizon.rewardColumns) - _REWARDS:
        raise UserError(
            f"rewardColumns has {', '.join(sorted(others))}; expected reward and "
            "metrics, the only columns of rewards that the timeline sums"
        )
    evaluated = 0.0 if horizon.evalTableName is None else 0.2
    settings = {
        "last_row": "horizon_keep" if horizon.addTerminalStateRow else "drop",
        "train_share": horizon.tableSample / 100 * (1 - evaluated),
        "eval_share": horizon.tableSample / 100 * evaluated,
        **{name: keys[key] for key, name in _SETTINGS.items() if key in keys},
    }
    return FromHorizon(
        checked(config.replace(TimelineConfig(), settings)),
        {True: "discrete", False: "parametric", None: None}[horizon.actionDiscrete],
        horizon.actions,
        horizon.extraFeatureColumns,
        tuple(f"{key} has no effect: {why}" for key, why in unused.items()),
    )


def _flat(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of "timeline" and "query" beside those outside."""
    keys = {k: v for k, v in content.items() if k not in ("timeline", "query")}
    for part in ("timeline", "query"):
        inner = content.get(part, {})
        if not isinstance(inner, Mapping):
            raise UserError(f"{part} is {inner!r}; expected an object of settings")
        keys |= inner
    return keys
