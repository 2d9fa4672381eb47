"""The installed package that would register an id.

Gymnasium knows the ids of a package once it is imported. The files of packages are only
read here: importing them all would run their code.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from importlib import metadata
from pathlib import PurePosixPath

_DEPENDENT = re.compile(r"(gymnasium|gym)\b", re.IGNORECASE)
_OLD_GYM = re.compile(r"^\s*(import|from) gym\b", re.MULTILINE)
_GYMNASIUM = re.compile(r"^\s*(import|from) gymnasium\b", re.MULTILINE)


def registering(id: str) -> str | None:
    """Return the name of an environment with the module that registers its id.

    It looks for a call of ``register`` with this id in the files of packages that
    require gymnasium or gym, and in the first file of the others.

    Args:
      id: id that Gymnasium does not know.

    Returns:
      ``module:Id-v1``, ``gym:module:Id-v1`` for the legacy gym, or None. An id that
      code puts together is not found.
    """
    call = re.compile(rf"register\(\s*(id\s*=\s*)?(['\"]){re.escape(id)}\2")
    for distribution in metadata.distributions():
        for path in _files(distribution):
            with contextlib.suppress(OSError, UnicodeDecodeError):
                text = distribution.locate_file(path).read_text()
                if call.search(text):
                    old = _OLD_GYM.search(text) and not _GYMNASIUM.search(text)
                    return f"{'gym:' if old else ''}{_module(path)}:{id}"
    return None


def _files(distribution: metadata.Distribution) -> Iterator[PurePosixPath]:
    """Yield paths of Python files that may register ids."""
    if any(map(_DEPENDENT.match, distribution.requires or ())):
        for path in distribution.files or ():
            if path.suffix == ".py":
                yield path
    else:
        for name in (distribution.read_text("top_level.txt") or "").split():
            yield PurePosixPath(name, "__init__.py")


def _module(path: PurePosixPath) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
