"""Exports that appear in a folder while the server runs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from tfagents_batch.serving.description import FILE


class Found(NamedTuple):
    """Export as it is now; another one in its place differs.

    Attributes:
      modified: time of ``export.json`` in nanoseconds.
      folder: its folder.
      files: name, inode, size and time of every file. They differ after a copy that
        was not complete at the first look.
    """

    modified: int
    folder: str
    files: tuple[tuple[str, int, int, int], ...]


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
            modified = (each / FILE).stat().st_mtime_ns
            files = [(x.name, x.stat()) for x in os.scandir(each)]
        except OSError:  # no export, or one that is being replaced
            continue
        facts = sorted((n, x.st_ino, x.st_size, x.st_mtime_ns) for n, x in files)
        found.append(Found(modified, str(each), tuple(facts)))
    return max(found, default=None)
