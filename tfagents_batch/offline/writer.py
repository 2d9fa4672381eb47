"""Logger of decisions as JSON lines, one for each row.

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

import collections
import datetime
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tfagents_batch.errors import UserError
from tfagents_batch.offline.line_files import LineFiles
from tfagents_batch.offline.schema import NEEDED, Mode, types
from tfagents_batch.settings.suggest import unknown

_VECTORS = ("state_features", "final_state_features", "action")
_LISTS = ("possible_actions", "final_possible_actions")
NAMES = ("ds", "mdp_id", "sequence_number", "action", *_LISTS)
# By bytes of a float: from here on, neighboring whole numbers are the same one.
_EXACT = {2: 2**11, 4: 2**24, 8: 2**53}


class RowLogger:
    """Logger of rows; a context manager that several threads may use.

    Files appear when they are complete, and rows of a killed process survive, see
    ``line_files.LineFiles``. SaveError if the folder cannot be written.

    Args:
      folder: folder of the files, created if it does not exist; several loggers, also
        of other processes of this machine, may write there.
      mode: kind of actions, see ``Schema``.
      extra_columns: names of further columns that rows may have.
      prefix: beginning of the names of the files.
      rows_per_file, bytes_per_file: size at which a file is complete.

    Attributes:
      recovered: number of rows of files that a killed logger left behind.
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
        """Write rows that are lines of JSON already, without checking them."""
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


def to_line(row: Mapping[str, Any], finite: bool = False) -> str:
    """Return a row as JSON without a line break.

    Numbers, times and arrays of NumPy are allowed. A vector of features becomes a map
    whose ids are 0, 1, and so on. UserError if the row is no mapping, has a value that
    JSON does not have (if ``finite``, also NaN and infinity), a key in two forms such
    as 0 and "0", or a name that a short float may have changed.
    """
    if not isinstance(row, Mapping):
        raise UserError(
            f"a row is {row!r:.200}; expected a dict with the columns of logged rows"
        )
    try:
        plain = {str(name): _value(str(name), value) for name, value in row.items()}
        _check_unique("the row", row, plain)
        return (_FINITE if finite else _ANY).encode(plain)
    except (TypeError, ValueError) as error:
        raise UserError(
            f"a row cannot be written as JSON: {error}: {row!r:.200}"
        ) from None


def _value(name: str, value: Any) -> Any:
    if isinstance(value, (str, int, float)):  # most values, so the first test
        return value
    if isinstance(value, (dict, Mapping)):  # ``Mapping`` is a slow test
        entries = {_key(name, key): item for key, item in value.items()}
        _check_unique(name, value, entries)
        return entries
    if name in _VECTORS and isinstance(value, (list, tuple, np.ndarray)):
        return {str(key): item for key, item in enumerate(np.ravel(value).tolist())}
    is_list = isinstance(value, (list, tuple))
    if name in _LISTS and (is_list or (isinstance(value, np.ndarray) and value.ndim)):
        for item in value:
            check_exact(name, item)
        is_list = True
    if is_list:
        return [_value(f"an element of {name}", item) for item in value]
    if name in NAMES:
        check_exact(name, value)
    return value


def _key(name: str, key: Any) -> str:
    """Return a key of a map as text; 7.0 is the id 7."""
    if not isinstance(key, (float, np.floating)):
        return str(key)
    check_exact(f"a key of {name}", np.float64(key) if type(key) is float else key)
    return str(int(key)) if key.is_integer() else str(key)


def check_exact(what: str, value: Any) -> None:
    """Raise a UserError for a NumPy float of a name that may have lost digits."""
    if not isinstance(value, np.floating):
        return
    least = _EXACT.get(value.itemsize, np.inf)
    if least <= abs(value) < np.inf:
        raise UserError(
            f"{what} is {float(value):.0f} in float{8 * value.itemsize}, where "
            f"different whole numbers from {least:,} on are the same; use integers or "
            "text"
        )


def _check_unique(what: str, before: Mapping, after: Mapping[str, Any]) -> None:
    if len(after) == len(before):
        return
    forms = collections.Counter(_key(what, key) for key in before)
    ((key, _),) = forms.most_common(1)
    raise ValueError(
        f"{what} has the key {key} in more than one form, such as text and number; "
        "expected each key once"
    )


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.ndim and value.dtype.kind in "mM":
        return [*value]
    if isinstance(value, (np.generic, np.ndarray)):
        if value.dtype.kind in "mM" and isinstance(value.tolist(), int):
            return _time(value)  # Python's times have no such precision
        return value.tolist()
    if isinstance(value, datetime.datetime):  # the text that columns of times have
        if value.tzinfo is not None:
            value = value.astimezone(datetime.UTC).replace(tzinfo=None)
        return _short(value.isoformat(sep=" "))
    if isinstance(value, datetime.date):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} is no type of JSON")


def _time(value: np.datetime64 | np.ndarray) -> str:
    if value.dtype.kind == "m":
        raise TypeError("a duration is no type of JSON")
    return _short(str(value).replace("T", " "))


def _short(text: str) -> str:
    """Return the text of a time without the zeros at the end of its fraction."""
    return text.rstrip("0").rstrip(".") if "." in text else text


_ANY, _FINITE = (
    json.JSONEncoder(default=_plain, allow_nan=allowed, separators=(",", ":"))
    for allowed in (True, False)
)
