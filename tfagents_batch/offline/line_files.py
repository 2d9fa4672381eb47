"""Files of lines that appear when they are complete and survive a killed process."""

from __future__ import annotations

import contextlib
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tfagents_batch import locks
from tfagents_batch.errors import SaveError, UserError
from tfagents_batch.offline import publish

_COPIED = 1 << 20  # bytes at a time
PART = ".part"  # suffix of a file that is being written; its name begins with a dot


class LineFiles:
    """Files of lines in a folder; several threads may use one object.

    A file appears under its name, ``<prefix>-<time>-<random>.jsonl``, when it is
    complete. Until then it is hidden from readers. Each call of ``write`` hands its
    lines to the operating system, so they survive if the process is killed. The next
    object for the folder completes what a killed process left behind. Only a file that
    is complete is sure to survive a power failure.

    A folder that was removed or moved is made again for the next file. ``check``
    notices that this happened to the current file, and opens another one. Each method
    raises a SaveError if the folder cannot be written.

    Args:
      folder: folder of the files, created if it does not exist; several processes of
        this machine may write there.
      prefix: beginning of the names of the files; UserError if it is hidden.
      lines_per_file, bytes_per_file: size at which a file is complete.
      report: called with what happened to a file that was removed or moved.

    Attributes:
      recovered: number of lines of files that a killed process left behind.
    """

    def __init__(
        self,
        folder: Path,
        prefix: str,
        lines_per_file: int,
        bytes_per_file: int,
        report: Callable[[str], None] = lambda text: None,
    ):
        if not prefix or prefix[0] in "._" or "/" in prefix:
            raise UserError(
                f"prefix is {prefix!r}; expected the beginning of a file name, not "
                "with a dot or an underscore, because readers leave those out"
            )
        self.folder, self.prefix = folder, prefix
        self._limits, self._report = (lines_per_file, bytes_per_file), report
        self._lock = threading.RLock()
        self._part: Path | None = None
        self._descriptor = self._lines = self._bytes = 0
        self._closed = self._lost = False
        with _reported(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            self.recovered = sum(
                _recover(part) for part in sorted(self.folder.glob(f".*{PART}"))
            )

    def write(self, lines: Sequence[str]) -> None:
        """Write lines, all or none, to the same file; UserError after ``close``."""
        text = "".join(f"{line}\n" for line in lines).encode()
        with self._lock, _reported(self.folder):
            if self._closed:
                raise UserError("the logger is closed; create another one")
            if self._lost:
                self._replace()
            if self._part is None:
                self._open()
            self._write(text)
            self._lines += len(lines)
            self._bytes += len(text)
            if self._lines >= self._limits[0] or self._bytes >= self._limits[1]:
                self._complete()

    def check(self) -> None:
        """Open another file if the current one is gone, and report it.

        The lines of a file that was removed are written again. Those of one that was
        moved stay in it: the next object for its new folder completes it. If no file
        can be opened, ``write`` fails as well, until one can be.
        """
        with self._lock, _reported(self.folder):
            if self._part is None or _is_at(self._part, self._descriptor):
                return
            self._lost = True
            self._replace()

    def rotate(self) -> None:
        """Complete the current file, so that readers see its lines."""
        with self._lock, _reported(self.folder):
            self._complete()

    def close(self) -> None:
        """Complete the current file; may be called again."""
        with self._lock:
            self.rotate()
            self._closed = True

    def _open(self) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND
        while True:
            stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
            name = f".{self.prefix}-{stamp}-{secrets.token_hex(4)}.jsonl{PART}"
            part = self.folder / name
            try:
                self._descriptor = os.open(part, flags, 0o666)
            except FileNotFoundError:  # the folder was removed or moved
                self.folder.mkdir(parents=True, exist_ok=True)
                continue
            locks.lock(self._descriptor, wait=True)
            if part.exists():  # else another logger has taken it for an abandoned one
                break
            os.close(self._descriptor)
        self._part, self._lines, self._bytes = part, 0, 0

    def _replace(self) -> None:
        """Open another file for a lost one, see ``check``."""
        before = self._descriptor, self._part, self._lines, self._bytes
        old, part, lines, size = before
        removed = os.fstat(old).st_nlink == 0
        self._open()
        if removed:
            try:
                for start in range(0, size, _COPIED):
                    self._write(os.pread(old, min(_COPIED, size - start), start))
                    self._bytes = min(start + _COPIED, size)
            except OSError:
                os.close(self._descriptor)
                assert self._part is not None
                with contextlib.suppress(OSError):
                    self._part.unlink()
                self._descriptor, self._part, self._lines, self._bytes = before
                raise
            self._lines = lines
        os.close(old)
        self._lost = False
        self._report(
            f"{part} was removed; its {lines} rows were written again"
            if removed
            else f"{part} was moved; its {lines} rows stay there, and the next writer "
            "to that folder completes it"
        )

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
        self.check()
        part, self._part = self._part, None
        if part is None:
            return
        try:
            os.fsync(self._descriptor)
            _publish(part)
        finally:
            os.close(self._descriptor)  # ends the lock


def _is_at(path: Path, descriptor: int) -> bool:
    """Return whether a path is that of an open file."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except OSError:
        return False


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
            locks.lock(file)
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
    publish.sync(part.parent)


@contextlib.contextmanager
def _reported(folder: Path) -> Iterator[None]:
    """Turn an OSError into a SaveError that names the folder."""
    try:
        yield
    except SaveError:
        raise
    except OSError as error:
        raise SaveError(
            f"rows cannot be written to {folder}: {error.strerror or error}; expected "
            "a folder with room that this user can write to. Rows of earlier calls are "
            "intact"
        ) from error
