"""Metrics and events of a run: ``metrics.jsonl`` and TensorBoard.

``metrics.jsonl`` is the primary log: one JSON object a line, written through at once.
A line of metrics is ``{"step": ..., "group/name": number, ...}`` with sorted names; an
event has an ``event`` key first. Numbers that are not finite are null there. Two equal
runs write equal lines once ``time/*`` and ``system/*`` are dropped, so durations lie
under the one, and sizes of processes under the other.

TensorBoard gets the same scalars, vectors as histograms, events as text, videos as
animated GIFs among its images, and the settings, in one file per process. The file is
written record by record rather than through ``tf.summary``: that cannot say which steps
a resumed run takes back, and its writes are TensorFlow ops. Trackers, if there are any,
get scalars, events and videos. No failure to log ever stops training.

A resumed run appends. Lines after the step that was resumed stay in the file, but are
no longer part of the run: readers drop them at the ``resumed`` event, TensorBoard at a
session start.
"""

from __future__ import annotations

import contextlib
import functools
import json
import math
import os
import re
import socket
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.plugins.histogram.summary_v2 import histogram_pb
from tensorboard.plugins.image import metadata as image_metadata
from tensorboard.plugins.scalar.summary_v2 import scalar_pb
from tensorboard.plugins.text.summary_v2 import text_pb
from tensorboard.util import tensor_util

from tfagents_batch.errors import UserError
from tfagents_batch.training import gif, hyperparameters, runs
from tfagents_batch.training.tracker import Tracker

SCHEMA = 1
FILE = "metrics.jsonl"
HISTOGRAM_SECONDS = 60.0  # between two histograms of one name: about 0.7 kB each
_NAME = re.compile(r"[^/]+(/[^/]+)+")
_EVENTS = "events.out.tfevents."
ENDS = ("finished", "stopped", "failed")  # events that say how a run came to its end


class Logger:
    """Writes one run's metrics; one logger per run and process.

    Args:
      run_folder: of the run.
      resume_step: env steps of the checkpoint that is resumed; None for a new run.
      clock: seconds, monotonic; spaces the histograms.
      warn: takes one line of text when a log has to be given up.
      trackers: get the same, see ``tracker.Tracker``; closed with the logger.
      settings: the run's Config, for TensorBoard's tab of hyper-parameters; None for
        no row there.

    Raises:
      UserError: for a new run in a folder that has a log, and for a log that is a link
        or no regular file.
    """

    def __init__(
        self,
        run_folder: str | os.PathLike,
        resume_step: int | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        warn: Callable[[str], None] | None = None,
        trackers: Sequence[Tracker] = (),
        settings: Any = None,
    ):
        self._clock = clock
        self._warn = warn or (lambda text: print(text, file=sys.stderr))
        self._drawn: dict[str, float] = {}  # when each histogram was last written
        self._step = resume_step or 0
        self._trackers = list(trackers)
        self._ended = ENDS[-1]  # unless an event says otherwise
        self._sinks: dict[str, Any] = {}
        folder = Path(run_folder)
        path = folder / FILE
        if resume_step is None and path.exists() and path.stat().st_size:
            raise UserError(f"{path} exists; resume the run or start a new one")
        self._open(FILE, lambda: _Lines(path))
        self._open("TensorBoard", lambda: _EventFile(folder, resume_step))
        self.event("header", schema=SCHEMA, versions=runs.versions())
        self._told = settings is not None
        if self._told:
            row = functools.partial(hyperparameters.begin, settings, folder.name)
            self._to("TensorBoard", lambda file: file.write(self._step, row()))
        if resume_step is not None:
            self.event("resumed", resume_step)

    def write(self, metrics: dict[str, Any], step: int) -> None:
        """Log metrics of one moment.

        Args:
          metrics: ``{"group/name": number or [n]}``; numbers and vectors may be
            Python's, NumPy's or tensors.
          step: env steps.

        Raises:
          ValueError, TypeError: for a name or a value that is no metric.
        """
        step = self._step = int(step)
        scalars, vectors = {}, {}
        for name in sorted(metrics):
            value = _value(_checked(name), metrics[name])
            (vectors if isinstance(value, np.ndarray) else scalars)[name] = value
        line = {"step": step, **{name: _finite(x) for name, x in scalars.items()}}
        self._to(FILE, lambda file: file.write(line))
        summary = summary_pb2.Summary()
        with np.errstate(all="ignore"):  # numbers too large for a float32
            for name, value in scalars.items():
                summary.MergeFrom(scalar_pb(name, value))
            for name, value in vectors.items():
                if value.size and self._is_due(name):
                    summary.MergeFrom(histogram_pb(name, value))
        self._to("TensorBoard", lambda file: file.write(step, summary))
        finite = {name: x for name, x in scalars.items() if math.isfinite(x)}
        for tracker in self._trackers:
            tracker.write(step, finite)

    def event(self, kind: str, step: int | None = None, **fields: Any) -> None:
        """Log something that happened; ``step`` defaults to the last one written.

        Args:
          kind: one word, such as ``restart``.
          **fields: JSON-able.
        """
        step = self._step if step is None else int(step)
        now = round(time.time(), 3)
        fields = {key: _plain(fields[key]) for key in sorted(fields)}
        line = {"event": kind, "step": step, **fields, "time/unix_seconds": now}
        self._to(FILE, lambda file: file.write(line))
        text = "\n".join(f"    {key}: {value}" for key, value in line.items())
        summary = text_pb(f"event/{kind}", text)
        self._to("TensorBoard", lambda file: file.write(step, summary))
        if kind in ENDS:
            self._ended = kind
        if kind == "finished" and self._told:
            end = hyperparameters.end
            self._to("TensorBoard", lambda file: file.write(step, end()))
        for tracker in self._trackers:
            tracker.event(line)

    def video(self, name: str, frames: Any, step: int, fps: float = 30.0) -> None:
        """Log a film, which TensorBoard shows among the images.

        Args:
          name: ``group/name``.
          frames: uint8 ``[n, height, width, 3]``; kept as a GIF, so a few hundred
            small pictures are a megabyte.
          step: env steps.
          fps: pictures a second.

        Raises:
          ValueError: for a name or frames that are none.
        """
        step = self._step = int(step)
        data = gif.encode(frames, fps)
        height, width = np.shape(frames)[1:3]
        summary = _image(_checked(name), width, height, data)
        self._to("TensorBoard", lambda file: file.write(step, summary))
        for tracker in self._trackers:
            tracker.video(name, data, step)

    def close(self) -> None:
        """Close the files and trackers; may be called again."""
        while self._trackers:
            self._trackers.pop().close(self._ended)
        for name in list(self._sinks):
            self._to(name, lambda file: file.close())
            self._sinks.pop(name, None)

    def __enter__(self) -> Logger:
        return self

    def __exit__(self, *exc) -> None:
        self.close()

    def _open(self, name: str, make: Callable[[], Any]) -> None:
        try:
            self._sinks[name] = make()
        except (OSError, tf.errors.OpError) as error:
            self._give_up(name, error)

    def _to(self, name: str, use: Callable[[Any], None]) -> None:
        sink = self._sinks.get(name)
        if sink is None:
            return
        try:
            use(sink)
        except (OSError, tf.errors.OpError) as error:
            del self._sinks[name]
            with contextlib.suppress(OSError, tf.errors.OpError):
                sink.close()
            self._give_up(name, error)

    def _give_up(self, name: str, error: Exception) -> None:
        text = str(error).partition("\n")[0]
        self._warn(f"warning: logging to {name} ends, training goes on: {text}")

    def _is_due(self, name: str) -> bool:
        now = self._clock()
        due = now - self._drawn.get(name, -math.inf) >= HISTOGRAM_SECONDS
        if due:
            self._drawn[name] = now
        return due


def read_metrics(run_folder: str | os.PathLike) -> list[dict]:
    """Lines of metrics that belong to the run, in order; null becomes NaN.

    Lines that a resumed run took back are left out, as is a last line that was cut
    short.

    Raises:
      UserError: if there is no log, or it is damaged elsewhere.
    """
    metrics: list[dict] = []
    for line in _read(run_folder):
        if "event" not in line:
            nan = {key: math.nan if x is None else x for key, x in line.items()}
            metrics.append(nan)
        elif line["event"] == "resumed":
            metrics = [kept for kept in metrics if kept["step"] <= line["step"]]
    return metrics


def read_events(run_folder: str | os.PathLike) -> list[dict]:
    """All events, in order, header first; nothing that happened is left out."""
    return [line for line in _read(run_folder) if "event" in line]


class _Lines:
    """A file of JSON lines; a line is one ``write``, so a kill loses no whole line."""

    def __init__(self, path: Path):
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND
        self._file = runs.open_regular(path, flags)
        _cut_torn_line(self._file)

    def write(self, line: dict) -> None:
        data = json.dumps(line, allow_nan=False).encode() + b"\n"
        written = os.write(self._file, data)
        if written != len(data):
            os.ftruncate(self._file, os.fstat(self._file).st_size - written)
            raise OSError(f"only {written} of {len(data)} bytes fit")

    def close(self) -> None:
        os.close(self._file)


class _EventFile:
    """A TensorBoard file; each ``write`` is one flushed record."""

    def __init__(self, folder: Path, resume_step: int | None):
        # TensorBoard reads a run's files in the order of their names, whatever the
        # wall clock did between two processes.
        older = [path.name.split(".")[3] for path in folder.glob(f"{_EVENTS}*")]
        stamp = max([int(time.time()), *(int(x) + 1 for x in older if x.isdigit())])
        name = f"{_EVENTS}{stamp:010d}.{socket.gethostname()}.{os.getpid()}"
        self._writer = tf.io.TFRecordWriter(str(folder / name))
        self._record(file_version="brain.Event:2")
        # Readers forget steps from that of a session start on, except at the first.
        log = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
        self._record(
            step=0 if resume_step is None else resume_step + 1, session_log=log
        )
        self._writer.flush()

    def write(self, step: int, summary: summary_pb2.Summary) -> None:
        if summary.value:
            self._record(step=step, summary=summary)
            self._writer.flush()

    def close(self) -> None:
        self._writer.close()

    def _record(self, **fields: Any) -> None:
        event = event_pb2.Event(wall_time=time.time(), **fields)
        self._writer.write(event.SerializeToString())


def _image(name: str, width: int, height: int, data: bytes) -> summary_pb2.Summary:
    """An encoded picture, as the plug-in for images wants it: after its size."""
    parts = np.array([str(width).encode(), str(height).encode(), data], object)
    tensor = tensor_util.make_tensor_proto(parts, dtype=np.object_)
    metadata = image_metadata.create_summary_metadata(None, None)
    summary = summary_pb2.Summary()
    summary.value.add(tag=name, metadata=metadata, tensor=tensor)
    return summary


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(f"metric {name!r} is not named group/name")
    return name


def _value(name: str, value: Any) -> int | float | np.ndarray:
    """A Python number, or the finite entries of a vector."""
    array = np.asarray(value.numpy() if hasattr(value, "numpy") else value)
    if array.dtype.kind not in "biufV":  # V: bfloat16
        raise TypeError(f"metric {name} is {value!r}; expected numbers")
    if array.ndim > 1:
        raise ValueError(f"metric {name} has shape {array.shape}; expected [] or [n]")
    if array.ndim == 0 and array.dtype.kind in "biu":
        return int(array)
    wide = array.astype(np.float64)
    if array.ndim == 1:
        return wide[np.isfinite(wide)]
    # A float32 is written with its own shortest digits: 0.1, not 0.10000000149011612.
    return float(str(array[()])) if array.dtype.itemsize < 8 else float(wide)


def _finite(value: int | float) -> int | float | None:
    return value if math.isfinite(value) else None


def _plain(value: Any) -> Any:
    """What JSON can say of a value; text for anything it cannot."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, (np.generic, np.ndarray, tf.Tensor)):
        return _plain(np.asarray(value).tolist())
    if isinstance(value, float):
        return _finite(value)
    return value if value is None or isinstance(value, (str, int)) else str(value)


def _read(run_folder: str | os.PathLike) -> list[dict]:
    path = Path(run_folder) / FILE
    try:
        with open(runs.open_regular(path, os.O_RDONLY), "rb") as file:
            data = file.read()
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from error
    lines = []
    for number, text in enumerate(data.split(b"\n")[:-1], 1):  # [-1] is cut short
        try:
            line = json.loads(text)
        except ValueError:
            line = None
        if not isinstance(line, dict) or not isinstance(line.get("step"), int):
            raise UserError(f"{path} is damaged: line {number} is no log line")
        lines.append(line)
    return lines


def _cut_torn_line(descriptor: int) -> None:
    """End a log at its last whole line: a process may have died within one."""
    size = end = os.fstat(descriptor).st_size
    while end:
        start = max(0, end - 65536)
        newline = os.pread(descriptor, end - start, start).rfind(b"\n")
        if newline >= 0:
            end = start + newline + 1
            break
        end = start
    if end < size:
        os.ftruncate(descriptor, end)
