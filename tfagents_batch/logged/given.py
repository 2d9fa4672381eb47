"""Logged rows that a caller has in memory, as a table to train from."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tfagents_batch import config
from tfagents_batch.offline.schema import Mode
from tfagents_batch.offline.timeline_config import TimelineConfig


@contextlib.contextmanager
def table(
    data: Any,
    mode: Mode = "discrete",
    settings: Mapping[str, Any] | None = None,
    folder: str | os.PathLike | None = None,
) -> Iterator[Any]:
    """Yield the folder of a timeline: a path as it is, anything else after writing it.

    UserError if the rows have errors, see ``validator.validate``. Its warnings, and the
    notices of ``timeline.build``, are warnings here.

    Args:
      data: folder of a timeline; or logged rows: a DataFrame of Spark, or what
        ``reader.open_rows`` takes.
      mode: kind of actions of rows, see ``Schema``.
      settings: settings of ``TimelineConfig``.
      folder: folder of the table; None for a temporary one, removed at the end.
    """
    if data is None or isinstance(data, (str, os.PathLike)):
        yield data
        return
    from tfagents_batch.offline.publish import Scratch

    timeline = config.replace(TimelineConfig(), dict(settings or {}), "timeline.")
    with contextlib.closing(Scratch()) as scratch:
        target = Path(folder or Path(scratch.name, "table")).expanduser()
        _write(data, mode, timeline, target)
        yield target


def _write(data: Any, mode: Mode, timeline: TimelineConfig, target: Path) -> None:
    from tfagents_batch.offline import timeline as timelines
    from tfagents_batch.offline.reader import open_rows
    from tfagents_batch.offline.reading import spark_engine
    from tfagents_batch.offline.validator import Options, validate

    with contextlib.ExitStack() as stack:
        if spark_engine.is_frame(data):
            data = stack.enter_context(spark_engine.files_of(data, target))
        rows = stack.enter_context(open_rows(data, mode))
        options = Options(
            on_duplicate=timeline.on_duplicate, metric_weights=timeline.metric_weights
        )
        report = validate(rows, None, options)
        report.raise_for_errors()
        summary = timelines.build(rows, rows.find_schema(), timeline, target)
    findings = [f"{x.rule} ({x.count:,}): {x.text}" for x in report.warnings]
    for text in (*findings, *summary.notices):
        warnings.warn(text, stacklevel=5)  # the caller of train_offline
