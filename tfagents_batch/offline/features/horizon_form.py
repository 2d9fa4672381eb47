"""Horizon's form of a specification: ``{"<id>": "<JSON of the feature>"}``.

Files whose names end in ``.gz`` are compressed, as Horizon's are.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from tfagents_batch.errors import SaveError, UserError
from tfagents_batch.offline.features.specification import (
    Specification,
    from_entry,
    of_features,
    to_entry,
)

_GATE = "fixed"  # the only one that Horizon has


def read(path: str | Path) -> Specification:
    """Return the specification of a file in Horizon's form.

    Raises:
      UserError: if it cannot be read, or is in another form.
    """
    path = Path(path)
    try:
        data = path.read_bytes()
        text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
        given = json.loads(text)
    except (OSError, EOFError, ValueError) as error:
        raise UserError(f"{path} cannot be read: {error}") from None
    if not isinstance(given, dict) or not all(
        isinstance(x, str) for x in given.values()
    ):
        raise UserError(
            f'{path} is not in Horizon\'s form; expected {{"<id>": "<JSON of the '
            'feature>"}, as its normalization writes it'
        )
    features = {}
    for name, entry in given.items():
        where = f"{path}: feature {name}"
        try:
            content = json.loads(entry)
        except ValueError as error:
            raise UserError(f"{where} is no JSON: {error}") from None
        features[name] = from_entry(content, where)
    return of_features(features, str(path), 0, _GATE)


def write(given: Specification, path: str | Path) -> None:
    """Write a specification in Horizon's form, which has no ``n`` and no gate.

    Raises:
      SaveError: if the file cannot be written.
    """
    path = Path(path)
    entries = {str(i): json.dumps(to_entry(x)) for i, x in given.features.items()}
    data = json.dumps(entries, indent=2).encode()
    try:
        path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)
    except OSError as error:
        raise SaveError(f"{path} cannot be written: {error.strerror}") from error
