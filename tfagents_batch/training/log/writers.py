"""The files of a run's log: append-only, with retries if the disk is full."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorboard.compat.proto import event_pb2

from tfagents_batch.errors import headline
from tfagents_batch.training.run_folder import files

MOST_WAITING = 1 << 26  # bytes of unwritten records in memory, per file
_BLOCK = 1 << 16  # bytes that are read at once
_EVENTS = "events.out.tfevents."
_ERRORS = (OSError, tf.errors.OpError)


class RetryingFile:
    """Writes records to a file, and tries failed writes again.

    Each ``write`` tries all waiting records. Records are lost only if more than
    ``MOST_WAITING`` bytes wait, or if they cannot be written when the file is closed.

    Args:
      name: name of the file in warnings.
      file: file to write to. Its ``write`` appends a whole record, or raises OSError or
        OpError and appends nothing; it opens the file again after ``close``.
      warn: called with a line of text when writing fails, and when it works again.
    """

    def __init__(self, name: str, file: Lines | EventFile, warn: Callable[[str], None]):
        self._name, self._file, self._warn = name, file, warn
        self._waiting: deque[bytes] = deque()
        self._size = 0  # bytes of the waiting records
        self._lost = 0  # number of lost records
        self._failed = self._closed = False

    def write(self, record: bytes) -> None:
        """Append a record now or later; do nothing after ``close``."""
        if self._closed:
            return
        if self._failed and self._size + len(record) > MOST_WAITING:
            self._lost += 1
        else:
            self._waiting.append(record)
            self._size += len(record)
        self._write_waiting()

    def close(self) -> None:
        """Try to write for the last time and close the file; may be called again."""
        if self._closed:
            return
        self._closed = True
        self._write_waiting()
        try:
            self._file.close()
        except _ERRORS as error:
            self._warn(
                f"warning: {self._name} cannot be closed ({headline(error)}); its "
                "last lines may be lost"
            )
        if lost := self._lost + len(self._waiting):
            self._warn(f"warning: {lost} lines of {self._name} are lost")

    def _write_waiting(self) -> None:
        try:
            while self._waiting:
                self._file.write(self._waiting[0])
                self._size -= len(self._waiting.popleft())
        except _ERRORS as error:
            with contextlib.suppress(*_ERRORS):
                self._file.close()
            if not self._failed:
                self._warn(
                    f"warning: {self._name} cannot be written ({headline(error)}); "
                    "training continues, and its lines will be tried again"
                )
            self._failed = True
        else:
            if self._failed:
                self._warn(f"{self._name} can be written again")
            self._failed = False


class Lines:
    """A file of lines; each one is a single system call, so a kill loses none."""

    def __init__(self, path: Path):
        self._path = path
        self._file: int | None = None

    def write(self, record: bytes) -> None:
        if self._file is None:
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND
            self._file = files.open_regular(self._path, flags)
            _remove_incomplete_line(self._file)
        written = os.write(self._file, record)
        if written != len(record):
            os.ftruncate(self._file, os.fstat(self._file).st_size - written)
            raise OSError(f"only {written} of {len(record)} bytes fit")

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            os.close(file)


class EventFile:
    """A TensorBoard file; a new one after a failure, which may leave half a record.

    A resumed run continues from the steps of a checkpoint; a new one has none.
    """

    def __init__(self, folder: Path, resume_step: int | None):
        self._folder = folder
        self._writer: tf.io.TFRecordWriter | None = None
        # At every later session start, readers drop this step and the following ones.
        log = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
        step = 0 if resume_step is None else resume_step + 1
        self._start: tuple[bytes, ...] = (event(step=step, session_log=log),)

    def write(self, record: bytes) -> None:
        if self._writer is None:
            self._path = self._folder / _name(self._folder)
            self._writer = tf.io.TFRecordWriter(str(self._path))
            self._head = (event(file_version="brain.Event:2"), *self._start)
        for part in (*self._head, record):
            self._writer.write(part)
        self._writer.flush()
        self._head = self._start = ()

    def close(self) -> None:
        writer, self._writer = self._writer, None
        if writer is None:
            return
        try:
            writer.close()
        finally:
            if self._head:  # nothing was written
                self._path.unlink(missing_ok=True)


def event(**fields: Any) -> bytes:
    """Return a TensorBoard record with the current time."""
    return event_pb2.Event(wall_time=time.time(), **fields).SerializeToString()


def _name(folder: Path) -> str:
    # TensorBoard reads a run's files in the order of their names, which must be the
    # order of writing, even if the wall clock went back.
    older = [path.name.split(".")[3] for path in folder.glob(f"{_EVENTS}*")]
    stamp = max([int(time.time()), *(int(x) + 1 for x in older if x.isdigit())])
    return f"{_EVENTS}{stamp:010d}.{socket.gethostname()}.{os.getpid()}"


def _remove_incomplete_line(descriptor: int) -> None:
    """Remove an incomplete last line, left by a process that died while writing."""
    end = os.fstat(descriptor).st_size
    while end:
        start = max(0, end - _BLOCK)
        newline = os.pread(descriptor, end - start, start).rfind(b"\n")
        if newline >= 0:
            end = start + newline + 1
            break
        end = start
    os.ftruncate(descriptor, end)
