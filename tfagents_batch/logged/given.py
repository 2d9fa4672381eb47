"""Tables to train from, made of rows in memory or of a dataset of Minari."""

from __future__ import annotations

import contextlib
import json
import os
import warnings
import zlib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from tfagents_batch import config
from tfagents_batch.offline import manifest, publish
from tfagents_batch.offline.reading import minari_rows
from tfagents_batch.offline.schema import Mode
from tfagents_batch.offline.timeline_config import TimelineConfig


@contextlib.contextmanager
def table(
    data: Any,
    mode: Mode = "discrete",
    settings: Mapping[str, Any] | None = None,
    folder: str | os.PathLike | None = None,
    logdir: str | os.PathLike | None = None,
) -> Iterator[Any]:
    """Yield the folder of a timeline: a path as it is, anything else after writing it.

    The table of ``minari:<name>`` is kept, see ``of_minari``.

    UserError if the rows have errors, see ``validator.validate``. Its warnings, and the
    notices of ``timeline.build``, are warnings here.

    Args:
      data: folder of a timeline; or logged rows: a DataFrame of Spark, or what
        ``reader.open_rows`` takes.
      mode: kind of actions of rows, see ``Schema``.
      settings: settings of ``TimelineConfig``.
      folder: folder of the table; None for a temporary one, removed at the end.
      logdir: root folder of the runs.
    """
    if minari_rows.is_name(data):
        yield of_minari(data, settings, logdir, folder)
        return
    if data is None or isinstance(data, (str, os.PathLike)):
        yield data
        return
    from tfagents_batch.offline.publish import Scratch

    timeline = config.replace(TimelineConfig(), dict(settings or {}), "timeline.")
    with contextlib.closing(Scratch()) as scratch:
        target = Path(folder or Path(scratch.name, "table")).expanduser()
        _write(data, mode, timeline, target)
        yield target


def of_minari(
    data: str,
    settings: Mapping[str, Any] | None = None,
    logdir: str | os.PathLike | None = None,
    folder: str | os.PathLike | None = None,
) -> Path:
    """Return the folder of the timeline of ``minari:<name>``, written if it is new.

    It lies in ``folder``, or else beside the runs, and its name has a hash of the
    settings. So runs of the same data share a table, and can be resumed. A run that
    starts while another one writes the table waits for it.
    """
    timeline = config.replace(TimelineConfig(), dict(settings or {}), "timeline.")
    name = data.removeprefix(minari_rows.PREFIX)
    text = json.dumps(config.to_dict(timeline), sort_keys=True)
    own = f"{name.replace('/', '-')}-{zlib.crc32(text.encode()):08x}"
    parent = Path(folder or Path(logdir or "logs", "tables")).expanduser()
    parent.mkdir(parents=True, exist_ok=True)
    with publish.alone(parent / f".{own}.lock"):
        if manifest.newest(parent / own) is None:
            dataset = minari_rows.load(name)
            known = ("missing_propensity",)  # as in every dataset of Minari
            mode = minari_rows.mode_of(dataset)
            _write(dataset, mode, timeline, parent / own, known)
    return parent / own


def reference_scores(data: Any) -> dict[str, Any]:
    """Return the setting ``reference_scores`` of a table, if Minari knows them."""
    if not minari_rows.is_name(data):
        return {}
    dataset = minari_rows.load(data.removeprefix(minari_rows.PREFIX))
    scores = minari_rows.reference_scores(dataset)
    return {"reference_scores": scores} if scores else {}


def _write(
    data: Any,
    mode: Mode,
    timeline: TimelineConfig,
    target: Path,
    known: Collection[str] = (),
) -> None:
    """Write a timeline; findings of rules that are ``known`` are no warnings."""
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
    new = (x for x in report.warnings if x.rule not in known)
    findings = [f"{x.rule} ({x.count:,}): {x.text}" for x in new]
    for text in (*findings, *summary.notices):
        warnings.warn(text, stacklevel=5)  # the caller of train_offline
