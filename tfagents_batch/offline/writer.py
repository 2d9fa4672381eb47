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

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tfagents_batch.errors import UserError
from tfagents_batch.offline.line_files import LineFiles
from tfagents_batch.offline.lines import to_line
from tfagents_batch.offline.schema import NEEDED, Mode, types
from tfagents_batch.settings.suggest import unknown


class RowLogger:
    """Logger of rows; a context manager that several threads may use.

    Files appear when they are complete, and rows of a killed process survive, see
    ``line_files.LineFiles``.

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
        self.folder, self.mode, self.prefix = Path(folder).expanduser(), mode, prefix
        self._columns = {*types(mode), *extra_columns}
        self._files = LineFiles(self.folder, prefix, rows_per_file, bytes_per_file)
        self.recovered = self._files.recovered

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
        self._files.write([self._line(row) for row in rows])

    def log_lines(self, lines: Sequence[str]) -> None:
        """Write rows that are lines of JSON already; they are not checked.

        Raises:
          SaveError: as of ``log``.
        """
        self._files.write(lines)

    def rotate(self) -> None:
        """Complete the current file, so that readers see its rows."""
        self._files.rotate()

    def close(self) -> None:
        """Complete the current file; may be called again."""
        self._files.close()

    def _line(self, row: Mapping[str, Any]) -> str:
        if isinstance(row, Mapping):  # ``to_line`` refuses all others
            row = {name: value for name, value in row.items() if value is not None}
            self._check(row)
        return to_line(row, finite=True)

    def _check(self, row: Mapping[str, Any]) -> None:
        """Check that a row has the needed columns and no unknown one."""
        for name in row:
            if name not in self._columns:
                text = unknown("column", name, self._columns)
                raise UserError(f"{text}; other columns are listed in extra_columns")
        missing = [name for name in NEEDED if name not in row]
        if missing:
            raise UserError(f"a row lacks {', '.join(missing)}; every row needs it")
