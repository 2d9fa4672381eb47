"""Metrics and events of a run: ``metrics.jsonl`` and TensorBoard.

``metrics.jsonl`` is the primary log: one JSON object a line, written through at once.
A line of metrics is ``{"step": ..., "group/name": number, ...}`` with sorted names; an
event has an ``event`` key first. Numbers that are not finite are null there. Two equal
runs write equal lines once ``time/*`` and ``system/*`` are dropped, so durations lie
under the one, and sizes of processes under the other.

TensorBoard gets the same scalars, vectors as histograms, events as text, videos as
animated GIFs among its images, and the settings, in one file per process. The file is
written record by record rather than through ``tf.summary``: that cannot say which steps
a resumed run takes back, and its writes are TensorFlow ops. Trackers get scalars,
events and videos. No failure to log ever stops training, see ``log_files``.

A resumed run appends. Lines after the step that was resumed stay in the file, but
readers drop them at the ``resumed`` event, TensorBoard at a session start.
"""

from __future__ import annotations

import io
import json
import math
import os
import re
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tensorboard.compat.proto import summary_pb2
from tensorboard.plugins.histogram.summary_v2 import histogram_pb
from tensorboard.plugins.hparams import api_pb2
from tensorboard.plugins.hparams.summary import session_end_pb
from tensorboard.plugins.hparams.summary_v2 import hparams_pb
from tensorboard.plugins.image import metadata as image_metadata
from tensorboard.plugins.scalar.summary_v2 import scalar_pb
from tensorboard.plugins.text.summary_v2 import text_pb
from tensorboard.util import tensor_util

from tfagents_batch import config
from tfagents_batch.errors import UserError
from tfagents_batch.schedules import EverySeconds
from tfagents_batch.training.log import writers
from tfagents_batch.training.log.trackers import Tracker
from tfagents_batch.training.log.writers import RetryingFile
from tfagents_batch.training.run_folder import runs

SCHEMA = 1
FILE = "metrics.jsonl"
HISTOGRAM_SECONDS = 60.0  # between two histograms of one name: about 0.7 kB each
GIF_MILLISECONDS = 20  # a picture: browsers show what is faster more slowly
_NAME = re.compile(r"[^/]+(/[^/]+)+")
ENDS = ("finished", "stopped", "failed")  # events that say how a run came to its end


class Logger:
    """Writes one run's metrics; one logger per run and process.

    Args:
      run_folder: of the run.
      resume_step: env steps of the checkpoint that is resumed; None for a new run.
      clock: seconds, monotonic; spaces the histograms.
      warn: takes a line of text when a file cannot be written, and when it can again.
      trackers: get the same, see ``trackers.Tracker``; closed with the logger.
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
        warn = warn or (lambda text: print(text, file=sys.stderr))
        self._should_draw: dict[str, EverySeconds] = {}  # a histogram, by its name
        self._step = resume_step or 0
        self._trackers = list(trackers)
        self._ended = ENDS[-1]  # unless an event says otherwise
        folder = Path(run_folder)
        path = folder / FILE
        if resume_step is None and path.exists():
            raise UserError(f"{path} exists; resume the run or start a new one")
        self._lines = RetryingFile(FILE, writers.Lines(path), warn)
        file = writers.EventFile(folder, resume_step)
        self._events = RetryingFile("TensorBoard's file", file, warn)
        self.event("header", schema=SCHEMA, versions=runs.versions())
        self._settings = settings
        if settings is not None:
            plain = config.flat(config.to_dict(settings)).items()
            row = {name: _setting(value) for name, value in plain}
            # Of a run that is resumed with others TensorBoard shows the first ones.
            self._summarize(self._step, hparams_pb(row, trial_id=folder.name))
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
        self._lines.write(_text({"step": step} | _plain(scalars)))
        summary = summary_pb2.Summary()
        with np.errstate(all="ignore"):  # numbers too large for a float32
            for name, value in scalars.items():
                summary.MergeFrom(scalar_pb(name, value))
            for name, value in vectors.items():
                clock = EverySeconds(HISTOGRAM_SECONDS, self._clock, first=True)
                if value.size and self._should_draw.setdefault(name, clock)():
                    summary.MergeFrom(histogram_pb(name, value))
        self._summarize(step, summary)
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
        self._lines.write(_text(line))
        text = "\n".join(f"    {key}: {value}" for key, value in line.items())
        summary = text_pb(f"event/{kind}", text)
        self._summarize(step, summary)
        if kind in ENDS:
            self._ended = kind
        if kind == "finished" and self._settings is not None:  # as no other end is
            end = session_end_pb(api_pb2.STATUS_SUCCESS)  # of TensorFlow's class
            end = summary_pb2.Summary.FromString(end.SerializeToString())
            self._summarize(step, end)
        for tracker in self._trackers:
            tracker.event(line)

    def video(self, name: str, frames: Any, step: int, fps: float = 30.0) -> None:
        """Log a film, which TensorBoard shows among the images.

        Args:
          name: ``group/name``.
          frames: uint8 ``[n, height, width, 3]``; kept as a GIF, so a few hundred
            small pictures are a megabyte.
          step: env steps.
          fps: pictures a second; 50 at most are shown.

        Raises:
          ValueError: for a name that is none.
        """
        step = self._step = int(step)
        data = _gif(frames, fps)
        height, width = np.shape(frames)[1:3]
        summary = _image(_checked(name), width, height, data)
        self._summarize(step, summary)
        for tracker in self._trackers:
            tracker.video(name, data, step)

    def close(self) -> None:
        """Close the files and trackers; may be called again."""
        self._lines.close()
        self._events.close()
        while self._trackers:  # last, as they may wait for a server
            self._trackers.pop().close(self._ended)

    def __enter__(self) -> Logger:
        return self

    def __exit__(self, *exc) -> None:
        self.close()

    def _summarize(self, step: int, summary: summary_pb2.Summary) -> None:
        if summary.value:
            self._events.write(writers.event(step=step, summary=summary))


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


def _text(line: dict[str, Any]) -> bytes:
    return json.dumps(line, allow_nan=False).encode() + b"\n"


def _gif(frames: np.ndarray, fps: float) -> bytes:
    """Encode a film that is played again and again."""
    from PIL import Image

    first, *others = [Image.fromarray(frame) for frame in frames]
    file = io.BytesIO()
    duration = max(GIF_MILLISECONDS, round(1000 / fps))
    first.save(
        *(file, "GIF"), save_all=True, append_images=others, duration=duration, loop=0
    )
    return file.getvalue()


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


def _setting(value: Any) -> bool | int | float | str:
    """A setting as TensorBoard takes it; None and structures are text."""
    if value is None:
        return "none"
    return value if isinstance(value, (bool, int, float, str)) else json.dumps(value)


def _plain(value: Any) -> Any:
    """What JSON can say of a value; text for anything it cannot."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, (np.generic, np.ndarray, tf.Tensor)):
        return _plain(np.asarray(value).tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
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
