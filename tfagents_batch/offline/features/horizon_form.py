"""Horizon's form of a specification: ``{"<id>": "<JSON of the feature>"}``.

Files whose names end in ``.gz`` are compressed, as Horizon's are.
"""

from __future__ import annotations

import json
from pathlib import Path

from tfagents_batch.errors import UserError
from tfagents_batch.offline import text_files
from tfagents_batch.offline.features import specification
from tfagents_batch.offline.features.specification import Specification

# What Horizon has: one gate, and log odds that are not standardized.
_GATE, _VERSION = "fixed", 1


def read(path: str | Path) -> Specification:
    """Return the specification of a file in Horizon's form.

    Raises:
      UserError: if it cannot be read, or is in another form.
    """
    features = {}
    for name, entry in text_files.read_json(path).items():
        try:
            features[name] = json.loads(entry)
        except (TypeError, ValueError):
            raise UserError(
                f"{path}: feature {name} is {entry!r:.80}, which is not Horizon's form;"
                ' expected {"<id>": "<JSON of the feature>"}'
            ) from None
    content = {"version": _VERSION, "gate": _GATE, "features": features}
    return specification.from_dict(content, str(path))


def write(given: Specification, path: str | Path) -> None:
    """Write a specification in Horizon's form, which has no ``n``, gate or names."""
    entries = {}
    for name, entry in specification.to_dict(given)["features"].items():
        own = {k: x for k, x in entry.items() if k not in specification.NAMES}
        entries[name] = json.dumps(own)
    text_files.write(json.dumps(entries, indent=2), path)
