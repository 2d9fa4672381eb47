"""Specifications of features in files."""

from __future__ import annotations

from pathlib import Path

from tfagents_batch.features.specification import Specification, from_dict, to_text
from tfagents_batch.offline import publish


def read(path: str | Path) -> Specification:
    """Return the specification of a file, see ``from_dict``."""
    return from_dict(publish.read_json(path), str(path))


def write(specification: Specification, path: str | Path) -> None:
    """Write a specification to a file."""
    publish.write_text(to_text(specification), path)
