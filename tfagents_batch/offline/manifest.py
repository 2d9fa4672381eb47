"""Manifest of a partition: what its samples are, and how they were made."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import Any

from tfagents_batch import config as configs
from tfagents_batch.errors import UserError
from tfagents_batch.offline.schema import Schema
from tfagents_batch.offline.timeline_config import OF_SAMPLES, TimelineConfig

NAME, FEATURES = "_manifest.json", "_features.json"
_VERSION = 1


def write(
    folder: Path, schema: Schema, config: TimelineConfig, facts: dict[str, Any]
) -> None:
    """Write the manifest of a folder with the parts of a partition, and more facts."""
    settings = configs.to_dict(config)
    text = json.dumps(settings, sort_keys=True)
    found = {
        "version": _VERSION,
        **facts,
        "parts": [
            {"name": path.name, "bytes": path.stat().st_size}
            for path in sorted(folder.glob("part-*.parquet"))
        ],
        "schema": dataclasses.asdict(schema),
        "config": settings,
        "config_sha256": hashlib.sha256(text.encode()).hexdigest(),
    }
    (folder / NAME).write_text(json.dumps(found, indent=2))


def read(folder: Path) -> dict[str, Any]:
    """Return the manifest of a folder.

    Raises:
      UserError: if it is missing, or of another version.
    """
    try:
        found = json.loads((folder / NAME).read_text())
        version = found["version"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{folder} has no readable {NAME} ({error}); expected a partition that the "
            "timeline has written"
        ) from None
    if version != _VERSION:
        raise UserError(
            f"{folder / NAME} has version {version!r}; expected {_VERSION}. Run the "
            "timeline again"
        )
    return found


def newest(output: Path) -> Path | None:
    """Return the last partition of a table; None if it has none."""
    found = sorted(output.glob(f"ds=*/{NAME}"))
    return found[-1].parent if found else None


def schema(folder: Path) -> Schema:
    """Return the schema of a partition."""
    return Schema.from_dict(read(folder)["schema"])


def check_change(output: Path, found: Schema, config: TimelineConfig) -> None:
    """Check that new samples mean the same as those of the newest partition.

    Raises:
      UserError: with the differences.
    """
    folder = newest(output)
    if folder is None or config.on_change == "accept":
        return
    before, after = read(folder)["config"], configs.to_dict(config)
    parts = [schema(folder).difference(found)] if schema(folder) != found else []
    for name in OF_SAMPLES:
        if before.get(name) != after[name]:
            parts.append(f"{name} {before.get(name)} became {after[name]}")
    if parts:
        raise UserError(
            f"the samples differ from those of {folder}: {'; '.join(parts)}. Pass "
            "another --output, or --on_change=accept. Nothing is published"
        )
