"""Metrics and events of a run: ``metrics.jsonl`` and TensorBoard.

``metrics.jsonl`` is the primary log: one JSON object per line, written immediately.
A line of metrics is ``{"step": ..., "group/name": number, ...}`` with sorted names; a
name may also have no group. An event starts with an ``event`` key. Numbers that are not
finite are null there. Two equal runs write equal lines except for ``time/*`` and
``system/*``. So all durations belong to ``time/*``, and all sizes of processes to
``system/*``.

TensorBoard gets the same scalars, vectors, events, videos and the settings, see
``tensorboard``. A tracker gets scalars, events and videos. A failure to log never stops
training, see ``writers``.

A resumed run appends. Lines after the resumed step stay in the file, but readers drop
them at the ``resumed`` event, and TensorBoard at the start of a session.
"""

from __future__ import annotations

import json
import math
import os
import re
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from tfagents_batch.errors import UserError
from tfagents_batch.training.log import writers
from tfagents_batch.training.log.tensorboard import TensorBoard
from tfagents_batch.training.log.trackers import Tracker
from tfagents_batch.training.log.writers import RetryingFile
from tfagents_batch.training.run_folder import files, runs
from tfagents_batch.training.run_folder.config_file import Setting

SCHEMA = 1
FILE = "metrics.jsonl"
_NAME = re.compile(r"[^/]+(/[^/]+)*")
_KEYS = ("step", "event")  # of lines, so no names of metrics
_MOST = 1 << 30  # bytes of ``metrics.jsonl``
ENDS = ("finished", "stopped", "failed")  # events at the end of a run


class Logger:
    """Writes one run's metrics; one logger per run and process.

    Args:
      run_folder: folder of the run.
      resume_step: env steps of the resumed checkpoint; None for a new run.
      warn: called with a line of text when a file cannot be written, and when it can
        be written again.
      tracker: receives the same data; closed by the logger.
      settings: of the run, by the names of their flags, which TensorBoard shows.
      steps: length of the run, over which TensorBoard's histograms are spread; None
        draws every vector.

    Raises:
      UserError: if the folder of a new run already has a log, or the log is a link or
        not a regular file.
    """

    def __init__(
        self,
        run_folder: str | os.PathLike,
        resume_step: int | None = None,
        *,
        warn: Callable[[str], None] | None = None,
        tracker: Tracker | None = None,
        settings: Mapping[str, Setting] | None = None,
        steps: int | None = None,
    ):
        warn = warn or (lambda text: print(text, file=sys.stderr))
        self._step = resume_step or 0
        self._tracker = tracker
        self._ended = ENDS[-1]  # unless an event says otherwise
        folder = Path(run_folder)
        path = folder / FILE
        if resume_step is None and path.exists():
            raise UserError(f"{path} exists; resume the run or start a new one")
        self._lines = RetryingFile(FILE, writers.Lines(path), warn)
        earlier = _not_zero(folder, resume_step or 0)
        self._board = TensorBoard(folder, resume_step, warn, settings, steps, earlier)
        self.event("header", schema=SCHEMA, versions=runs.versions())
        self._board.start(self._step)
        if resume_step is not None:
            self.event("resumed", resume_step)

    def write(self, metrics: dict[str, Any], step: int) -> None:
        """Log metrics of one step.

        They are ``{"group/name": number or [n]}``, or names without a group, with
        values of Python, NumPy or TensorFlow. A name or a value that is not valid is an
        error.
        """
        step = self._step = int(step)
        scalars, vectors = {}, {}
        for name in sorted(metrics):
            value = _value(_checked(name), metrics[name])
            (vectors if isinstance(value, np.ndarray) else scalars)[name] = value
        self._lines.write(_json_line({"step": step} | _json_value(scalars)))
        self._board.write(step, scalars, vectors)
        finite = {name: x for name, x in scalars.items() if math.isfinite(x)}
        self._send("write", step, finite)

    def event(self, kind: str, step: int | None = None, **fields: Any) -> None:
        """Log an event: one word, such as ``restart``, and JSON-able fields.

        Without a step, it belongs to the last one that was written.
        """
        step = self._step if step is None else int(step)
        now = round(time.time(), 3)
        fields = {key: _json_value(fields[key]) for key in sorted(fields)}
        line = {"event": kind, "step": step, **fields, "time/unix_seconds": now}
        self._lines.write(_json_line(line))
        self._board.event(step, line)
        if kind in ENDS:
            self._ended = kind
        self._send("event", line)

    def video(self, name: str, frames: Any, step: int, fps: float = 30.0) -> None:
        """Log a video, uint8 ``[n, height, width, 3]``, as a GIF.

        TensorBoard shows it among the images. A few hundred small pictures take a
        megabyte. At most 50 pictures per second are shown.
        """
        step = self._step = int(step)
        data = self._board.video(step, _checked(name), frames, fps)
        self._send("video", name, data, step)

    def close(self) -> None:
        """Close the files and the tracker; may be called again."""
        self._lines.close()
        self._board.close()
        tracker, self._tracker = self._tracker, None
        if tracker is not None:  # last: it may wait for a server
            tracker.close(self._ended)

    def _send(self, method: str, *arguments: Any) -> None:
        if self._tracker is not None:
            self._tracker.send(method, *arguments)

    def __enter__(self) -> Logger:
        return self

    def __exit__(self, *exc) -> None:
        self.close()


def event_text(event: dict[str, Any]) -> str:
    """Return the line of an event for the console; empty if it has none."""
    kind = event["event"]
    if kind == "below_best":
        return (
            f"the last evaluation has a {event['measure']} of "
            f"{event['last']:.4g}, below the best one, {event['best']:.4g} at step "
            f"{event['best_step']:,}; use that checkpoint with --checkpoint=best. It "
            "was chosen as the best of several noisy numbers, so a new evaluation of "
            "it is usually lower"
        )
    if kind == "env_failed":
        return f"warning: {event['cause']}; it will be replaced"
    if kind == "env_restarted":
        first, last = event["envs"][0], event["envs"][-1]
        envs = f"env {first}" if first == last else f"envs {first} to {last}"
        seconds, lost = event["seconds"], event["lost_steps"]
        return f"replaced {envs} after {seconds:.1f} s; {lost} steps are lost"
    if kind == "replay_failed":
        return f"warning: {event['reason']}"
    if kind == "pool_worker_restarted":
        return f"warning: worker {event['worker']} is replaced: {event['reason']}"
    if kind == "pool_spilled":
        return (
            f"warning: Ray's memory is full, and {event['bytes'] / 1e6:,.0f} MB were "
            "written to disks; use smaller rollouts, or give Ray more memory"
        )
    return ""


def read_metrics(run_folder: str | os.PathLike) -> list[dict]:
    """Read the lines of metrics of a run, in order; null becomes NaN.

    Lines that a resumed run discarded and an incomplete last line are left out.

    Raises:
      UserError: if there is no log, or another line is damaged.
    """
    metrics: list[dict] = []
    for line in _read(run_folder):
        if "event" not in line:
            nan = {key: math.nan if x is None else x for key, x in line.items()}
            metrics.append(nan)
        elif line["event"] == "resumed":
            metrics = [
                earlier for earlier in metrics if earlier["step"] <= line["step"]
            ]
    return metrics


def read_events(run_folder: str | os.PathLike) -> list[dict]:
    """Read all events in order, header first, including those discarded later."""
    return [line for line in _read(run_folder) if "event" in line]


def _not_zero(run_folder: Path, until: int) -> set[str]:
    """Return the names of metrics that were not 0 in a line up to a step."""
    try:
        lines = read_metrics(run_folder)
    except UserError:  # TensorBoard's curves of faults then begin later
        return set()
    lines = [line for line in lines if line["step"] <= until]
    return {name for line in lines for name, value in line.items() if value}


def _json_line(line: dict[str, Any]) -> bytes:
    return json.dumps(line, allow_nan=False).encode() + b"\n"


def _checked(name: str) -> str:
    if name in _KEYS or not _NAME.fullmatch(name):
        raise ValueError(
            f"metric {name!r} is not named group/name, or by a name alone other than "
            f"{' and '.join(_KEYS)}"
        )
    return name


def _value(name: str, value: Any) -> int | float | np.ndarray:
    """Return a Python number, or the finite entries of a vector."""
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
    # The shortest digits that identify a float32: 0.1, not 0.10000000149011612.
    return float(str(array[()])) if array.dtype.itemsize < 8 else float(wide)


def _json_value(value: Any) -> Any:
    """Convert a value to JSON types; other types become text."""
    if isinstance(value, dict):
        return {str(key): _json_value(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json_value(item) for item in value]
    if isinstance(value, (np.generic, np.ndarray, tf.Tensor)):
        return _json_value(np.asarray(value).tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, (str, int)) else str(value)


def _read(run_folder: str | os.PathLike) -> list[dict]:
    path = Path(run_folder) / FILE
    try:
        data = files.read(path, _MOST)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from error
    lines = []
    for number, text in enumerate(data.split(b"\n")[:-1], 1):  # [-1] is incomplete
        try:
            line = json.loads(text)
        except (ValueError, RecursionError):
            line = None
        if not isinstance(line, dict) or not isinstance(line.get("step"), int):
            raise UserError(f"{path} is damaged: line {number} is not a log line")
        lines.append(line)
    return lines
