"""Folders of the user's own."""

from __future__ import annotations

import os
import pathlib


def cache() -> pathlib.Path:
    """This package's part of the user's cache."""
    root = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return pathlib.Path(root).expanduser() / "tfagents_batch"


def make_private(folder: pathlib.Path) -> None:
    """Make a folder and those above it that are missing, for this user alone.

    (``Path.mkdir(parents=True, mode=...)`` gives its mode to the last one only; the
    others would be writable for a group under a umask of 002.)
    """
    missing = [x for x in (folder, *folder.parents) if not x.exists()]
    for each in reversed(missing):
        each.mkdir(mode=0o700, exist_ok=True)
