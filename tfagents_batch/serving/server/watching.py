"""Exports that appear in a folder while the server runs."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from tfagents_batch.errors import UserError
from tfagents_batch.serving.description import FILE


class Found(NamedTuple):
    """Export as it is now; another one in its place differs.

    Attributes:
      modified: time of ``export.json`` in nanoseconds.
      folder: its folder.
      inode: of ``export.json``.
    """

    modified: int
    folder: str
    inode: int


def newest(folder: str) -> Found | None:
    """Return the export in a folder, or the newest of its subfolders; None for none.

    Folders whose names begin with a dot or an underscore are left out, because exports
    that are being written have such names.
    """
    root = Path(folder)
    found = []
    try:
        folders = [root] if (root / FILE).exists() else sorted(root.iterdir())
    except OSError:
        return None
    for each in folders:
        if each.name[:1] in (".", "_") and each != root:
            continue
        try:
            status = (each / FILE).stat()
        except OSError:
            continue
        found.append(Found(status.st_mtime_ns, str(each), status.st_ino))
    return max(found, default=None)


def first(folder: str) -> Found:
    """Return the export to begin with.

    Raises:
      UserError: if there is none.
    """
    found = newest(folder)
    if found is None:
        why = "has no export" if Path(folder).is_dir() else "does not exist"
        raise UserError(
            f"--export={folder} {why}; expected a folder with {FILE}, or one with such "
            "folders, see scripts.export"
        )
    return found
