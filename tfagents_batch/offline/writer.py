"""Logger of decisions as JSON lines.

>>> import tempfile
>>> folder = tempfile.mkdtemp()
>>> with RowLogger(folder) as logger:
...     logger.log({
...         "ds": "2026-01-01", "mdp_id": "u7", "sequence_number": 0,
...         "state_features": {0: 0.12, 3: 7}, "action": "send",
...         "action_probability": 0.9, "reward": 1.5,
...         "possible_actions": ["send", "drop"],
...     })
>>> from tfagents_batch.offline.reader import open_rows
>>> with open_rows(folder) as rows:
...     rows.fetch("SELECT action, reward FROM rows")
[('send', 1.5)]
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tfagents_batch.errors import SaveError, UserError
from tfagents_batch.offline.lines import to_line
from tfagents_batch.offline.schema import NEEDED, Mode, types
from tfagents_batch.suggest import unknown

PART = ".part"  # suffix of a file that is being written; its name begins with a dot


class RowLogger:
    """Logger of rows; a context manager that several threads may use.

    A file appears under its name, ``<prefix>-<time>-<random>.jsonl``, when it is
    complete. Until then it is hidden from readers. Each call of ``log`` hands its rows
    to the operating system, so they survive if the process is killed. The next logger
    of the folder completes what a killed one left behind. Only a file that is complete
    is sure to survive a power failure.

    Args:
      folder: folder of the files, created if it does not exist; several loggers, also
        of other processes of this machine, may write there.
      mode: kind of actions, see ``Schema``.
      extra_columns: names of further columns that rows may have.
      prefix: beginning of the names of the files.
      rows_per_file, bytes_per_file: size at which a file is complete.

    Attributes:
      recovered: number of rows of files that a killed logger left behind.

    Raises:
      UserError: if an argument is wrong.
      SaveError: if the folder cannot be written.
    """

    def __init__(
        self,
        folder: str | os.PathLike,
        mode: Mode = "discrete",
        *,
        extra_columns: Sequence[str] = (),
        prefix: str = "rows",
        rows_per_file: int = 1_000_000,
        bytes_per_file: int = 256 * 2**20,
    ):
        if rows_per_file < 1 or bytes_per_file < 1:
            raise UserError(
                f"rows_per_file is {rows_per_file} and bytes_per_file is "
                f"{bytes_per_file}; both must be at least 1"
            )
        if not prefix or prefix[0] in "._" or "/" in prefix:
            raise UserError(
                f"prefix is {prefix!r}; expected the beginning of a file name, not "
                "with a dot or an underscore, because readers leave those out"
            )
        self.folder, self.mode, self.prefix = Path(folder).expanduser(), mode, prefix
        self._columns = {*types(mode), *extra_columns}
        self._limits = rows_per_file, bytes_per_file
        self._lock = threading.RLock()
        self._part: Path | None = None
        self._descriptor = self._rows = self._bytes = 0
        self._closed = False
        with _reported(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            self.recovered = sum(
                _recover(part) for part in sorted(self.folder.glob(f".*{PART}"))
            )

    def __enter__(self) -> RowLogger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def log(self, *rows: Mapping[str, Any]) -> None:
        """Write rows, all or none of them to the same file.

        Args:
          *rows: values by column. A vector of numbers may stand for a map of features
            whose ids are 0, 1, and so on. None leaves a value out.

        Raises:
          UserError: if a row lacks a needed column, has an unknown one, or has a value
            that JSON does not have, such as NaN. No row is written then.
          SaveError: if the disk is full, for example.
        """
        text = "".join(f"{self._line(row)}\n" for row in rows).encode()
        with self._lock, _reported(self.folder):
            if self._closed:
                raise UserError("the logger is closed; create another one")
            if self._part is None:
                self._open()
            self._write(text)
            self._rows += len(rows)
            self._bytes += len(text)
            if self._rows >= self._limits[0] or self._bytes >= self._limits[1]:
                self._complete()

    def rotate(self) -> None:
        """Complete the current file, so that readers see its rows.

        Raises:
          SaveError: if it cannot be written.
        """
        with self._lock, _reported(self.folder):
            self._complete()

    def close(self) -> None:
        """Complete the current file; may be called again."""
        with self._lock:
            self.rotate()
            self._closed = True

    def _line(self, row: Mapping[str, Any]) -> str:
        if not isinstance(row, Mapping):
            return to_line(row)  # raises
        row = {name: value for name, value in row.items() if value is not None}
        for name in row:
            if name not in self._columns:
                text = unknown("column", name, self._columns)
                raise UserError(f"{text}; other columns are listed in extra_columns")
        missing = [name for name in NEEDED if name not in row]
        if missing:
            raise UserError(f"a row lacks {', '.join(missing)}; every row needs it")
        return to_line(row, finite=True)

    def _open(self) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
        while True:
            stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
            name = f".{self.prefix}-{stamp}-{secrets.token_hex(4)}.jsonl{PART}"
            part = self.folder / name
            self._descriptor = os.open(part, flags, 0o666)
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
            if part.exists():  # else another logger has taken it for an abandoned one
                break
            os.close(self._descriptor)
        self._part, self._rows, self._bytes = part, 0, 0

    def _write(self, text: bytes) -> None:
        """Write all of a text; after a failure the file is as it was."""
        done = 0
        try:
            while done < len(text):
                done += os.write(self._descriptor, text[done:])
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, self._bytes)
            raise

    def _complete(self) -> None:
        part, self._part = self._part, None
        if part is None:
            return
        try:
            os.fsync(self._descriptor)
            _publish(part)
        finally:
            os.close(self._descriptor)  # ends the lock


def _recover(part: Path) -> int:
    """Complete a file that a killed logger left behind; return its number of rows.

    A file whose logger lives is left as it is. A last line that is not complete is
    removed.
    """
    try:
        file = part.open("r+b")
    except FileNotFoundError:  # another logger has completed it
        return 0
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return 0
        if not part.exists():  # completed after it was opened here
            return 0
        end = rows = 0
        for line in file:
            if line.endswith(b"\n"):
                end, rows = end + len(line), rows + 1
        file.truncate(end)
        os.fsync(file)
        if rows:
            _publish(part)
        else:
            part.unlink()
    return rows


def _publish(part: Path) -> None:
    """Give a file its final name, durably."""
    os.rename(part, part.with_name(part.name.removeprefix(".").removesuffix(PART)))
    folder = os.open(part.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


@contextlib.contextmanager
def _reported(folder: Path) -> Iterator[None]:
    """Turn an OSError into a SaveError that names the folder."""
    try:
        yield
    except OSError as error:
        raise SaveError(
            f"rows cannot be written to {folder}: {error.strerror or error}; rows of "
            "earlier calls are intact"
        ) from error
