"""Error texts for unknown names, with the closest known name."""

from __future__ import annotations

import difflib
import re
import warnings
from collections.abc import Collection
from typing import Any


def unknown(what: str, got: Any, known: Collection[str]) -> str:
    """Return an error text: ``unknown config 'cartpol'; did you mean 'cartpole'?``"""
    return f"unknown {what} {got!r}; {hint(str(got), known)}"


def hint(name: str, known: Collection[str]) -> str:
    """Return ``did you mean 'cartpole'?``, or the known names if none is similar."""
    close = closest(name, known)
    if close:
        return f"did you mean {close!r}?"
    return f"known: {', '.join(sorted(known)) or 'none'}"


def closest(name: str, known: Collection[str]) -> str | None:
    """Return the known name that is most similar to ``name``, or None.

    A name that differs only in its dotted prefix comes first; case is ignored.
    """
    last = name.rpartition(".")[2]
    for other in known:
        if other.rpartition(".")[2] == last:
            return other
    folded = {other.lower(): other for other in known}
    close = difflib.get_close_matches(name.lower(), folded, n=1)
    return folded[close[0]] if close else None


def similar_id(id: str, known: Collection[str]) -> str:
    """Return a hint with the newest version of an id or a similar id, or ""."""
    newest = newest_version(id, known)
    if newest is not None:
        return f"the newest version is {newest!r}"
    close = closest(id, known)
    return f"did you mean {(newest_version(close, known) or close)!r}?" if close else ""


def warn_of_age(name: str, id: str, known: Collection[str]) -> None:
    """Warn if there is a newer version of an environment's id."""
    newest = newest_version(id, known)
    if newest not in (None, id):
        warnings.warn(
            f"environment {name!r} is out of date; the newest is {newest!r}",
            stacklevel=5,
        )


def newest_version(id: str, known: Collection[str]) -> str | None:
    """Return the newest known version ``Name-v<number>`` of an id, or None."""
    stem = re.sub(r"-v\d+$", "", id)
    versions = [
        other for other in known if re.fullmatch(rf"{re.escape(stem)}-v\d+", other)
    ]
    return max(versions, key=lambda x: int(x.rpartition("-v")[2]), default=None)
