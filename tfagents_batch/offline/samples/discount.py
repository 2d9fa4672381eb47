"""Discount factors of samples."""

from __future__ import annotations

from tfagents_batch.offline.timeline_config import TimelineConfig


def power(exponent: str, config: TimelineConfig) -> str:
    """Return gamma to the power of steps, or of time in its unit, as SQL."""
    if config.discount == "time":
        exponent = f"({exponent}) / {float(config.time_unit)!r}"
    return f"pow({config.gamma!r}, {exponent})"
