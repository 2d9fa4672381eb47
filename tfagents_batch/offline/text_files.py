"""Small files of text: JSON that is read, and texts that are written."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from tfagents_batch.errors import UserError
from tfagents_batch.offline import publish


def read_json(path: str | Path) -> dict[str, Any]:
    """Return the object of a JSON file, compressed if its name ends in ``.gz``.

    Raises:
      UserError: if it cannot be read, or is no JSON, or no object.
    """
    path = Path(path)
    try:
        data = path.read_bytes()
        text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
    except (OSError, EOFError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise UserError(f"{path} cannot be read: {why}") from None
    try:
        found = json.loads(text)
    except ValueError as error:
        raise UserError(f"{path} is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise UserError(f"{path} is {found!r:.80}; expected an object with keys")
    return found


def write(text: str, path: str | Path) -> None:
    """Write a text to a file, compressed if its name ends in ``.gz``.

    Raises:
      SaveError: if it cannot be written; an earlier file is unchanged then.
    """
    path, data = Path(path), text.encode()
    publish.file(path, gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)
