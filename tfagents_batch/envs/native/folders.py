"""Folders that only the current user can change."""

from __future__ import annotations

import os
import pathlib
import stat


class NotPrivate(Exception):
    """File or folder that another user can change or replace."""


def cache() -> pathlib.Path:
    """Return the path of this package's folder in the user's cache.

    Raises:
      FileNotFoundError: if the user has no home folder.
    """
    root = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    try:
        return pathlib.Path(root).expanduser() / "tfagents_batch"
    except RuntimeError:  # happens in containers
        raise FileNotFoundError(
            "there is no home folder: HOME is not set, and the user has no entry in "
            "/etc/passwd"
        ) from None


def make_private(folder: pathlib.Path) -> None:
    """Create a folder and its missing parents with access for this user only.

    (``Path.mkdir(parents=True, mode=...)`` sets the mode of the last folder only; under
    a umask of 002 the parents would be writable by the group.)
    """
    missing = [x for x in (folder, *folder.parents) if not x.exists()]
    for each in reversed(missing):
        each.mkdir(mode=0o700, exist_ok=True)


def check_private(path: pathlib.Path, root: pathlib.Path) -> None:
    """Check that only this user (and root) can change a file or folder.

    Args:
      path: the file or folder, without symbolic links (``Path.resolve``).
      root: folder in which other users may not add files. In its parents they may, if
        they cannot replace files of other users there, as in ``/tmp``.

    Raises:
      NotPrivate: for the first file or folder that other users can change.
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
                f"{each} can be written by other users; remove that permission (chmod "
                "go-w), or set XDG_CACHE_HOME to a folder of your own"
            )
