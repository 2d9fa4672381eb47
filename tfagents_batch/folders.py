"""Folders of the user's own."""

from __future__ import annotations

import os
import pathlib
import stat


class NotPrivate(Exception):
    """Another user can change a file or folder, or put another one in its place."""


def cache() -> pathlib.Path:
    """This package's part of the user's cache.

    Raises:
      FileNotFoundError: if there is no place for it.
    """
    root = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    try:
        return pathlib.Path(root).expanduser() / "tfagents_batch"
    except RuntimeError:  # as in containers
        raise FileNotFoundError(
            "there is no home folder: HOME is not set, and the user has no entry in "
            "/etc/passwd"
        ) from None


def make_private(folder: pathlib.Path) -> None:
    """Make a folder and those above it that are missing, for this user alone.

    (``Path.mkdir(parents=True, mode=...)`` gives its mode to the last one only; the
    others would be writable for a group under a umask of 002.)
    """
    missing = [x for x in (folder, *folder.parents) if not x.exists()]
    for each in reversed(missing):
        each.mkdir(mode=0o700, exist_ok=True)


def check_private(path: pathlib.Path, root: pathlib.Path) -> None:
    """Check that nobody but this user (and root) can change a file or folder.

    Args:
      path: the file or folder, without symbolic links in it (``Path.resolve``).
      root: from here down nobody else may add a file. Above it, others may add files
        where they cannot replace those of other users, as in ``/tmp``.

    Raises:
      NotPrivate: naming the first file or folder that others can change.
    """
    for each in (path, *path.parents):
        status = os.lstat(each)
        shared = status.st_mode & 0o022
        if shared and not each.is_relative_to(root):
            shared = not status.st_mode & stat.S_ISVTX
        if status.st_uid not in (0, os.geteuid()):
            raise NotPrivate(
                f"{each} belongs to another user (uid {status.st_uid}); set "
                "XDG_CACHE_HOME to a folder of your own"
            )
        if shared:
            raise NotPrivate(
                f"{each} can be written to by others; take that right away (chmod "
                "go-w), or set XDG_CACHE_HOME to a folder of your own"
            )
