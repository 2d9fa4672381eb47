"""Horizon's form of samples for several rewards: arrays of what follows."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from tfagents_batch.offline.engines.dialect import DUCKDB
from tfagents_batch.offline.samples import columns
from tfagents_batch.offline.samples.discount import power
from tfagents_batch.offline.sql import literal
from tfagents_batch.offline.timeline_config import TimelineConfig


def are_given(reward: Any, first: str | None) -> bool:
    """Return whether samples have lists of rewards.

    Args:
      reward: type of the column.
      first: for JSON, the type of the first reward.
    """
    return first == "ARRAY" if str(reward) == "JSON" else reward.id == "list"


def metric_names(view: str) -> str:
    """Return a query of the names of metrics in a view."""
    keys = "flatten(list_transform(metrics, lambda one: map_keys(one)))"
    return f"SELECT DISTINCT unnest({keys}) FROM {view}"


def reduced(
    names: Collection[str], config: TimelineConfig, metrics: Sequence[str]
) -> dict[str, str]:
    """Return the sums of rewards and metrics, and the last entries of other arrays.

    Args:
      names: columns that are there.
      config: its ``gamma``, ``discount`` and ``time_unit`` are those of the sums.
      metrics: names of the metrics.
    """
    found = {name: f"{name}[-1]" for name in columns.OF_NEXT if name in names}
    exponent = "i - 1"
    if config.discount == "time":
        exponent = "CASE WHEN i = 1 THEN 0 ELSE time_diff[i - 1] END"
    factor = power(exponent, config)

    def summed(value: str) -> str:
        return DUCKDB.sum("len(reward)", "i", f"{factor} * {value}")

    found["reward"] = summed("reward[i]")
    sums = [summed(f"coalesce(metrics[i][{literal(x)}], 0)") for x in metrics]
    found["metrics"] = DUCKDB.map(map(literal, metrics), sums, columns.METRICS)
    if "step" not in names:
        found["step"] = "len(reward)"
    return found
