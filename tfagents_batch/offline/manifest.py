"""Manifest of a partition: its files, what its samples are, and how they were made."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import functools
import hashlib
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tfagents_batch import config as configs
from tfagents_batch.errors import UserError, first_line
from tfagents_batch.offline import publish
from tfagents_batch.offline.schema import Schema
from tfagents_batch.offline.timeline_config import OF_SAMPLES, TimelineConfig

NAME, FEATURES = "_manifest.json", "_features.json"
_VERSION = 1
_HASH = "manifest_sha256"
_NEEDED = {"rows": int, "parts": list, "schema": dict, "config": dict}
_PART = re.compile(r"part-[\w-]+\.parquet")  # no name leads out of the folder
_AGAIN = "restore it from a copy, or make the timeline again"
_SETTINGS = {"n_step", "gamma", "discount"}  # that readers need


def write(
    folder: Path, schema: Schema, config: TimelineConfig, facts: dict[str, Any]
) -> None:
    """Write the manifest of a folder with the parts of a partition, and more facts."""
    settings = configs.to_dict(config)
    content = {
        "version": _VERSION,
        **facts,
        "parts": [_described(x) for x in sorted(folder.glob("part-*.parquet"))],
        "schema": dataclasses.asdict(schema),
        "config": settings,
        "config_sha256": _hash(settings),
    }
    content[_HASH] = _hash(content)
    (folder / NAME).write_text(json.dumps(content, indent=2))


def read(folder: Path) -> dict[str, Any]:
    """Return the manifest of a folder; UserError if it is not one of this version."""
    path = folder / NAME
    try:
        if path.exists() and not path.is_file():
            raise ValueError("it is no file")  # a pipe might never end
        content = json.loads(path.read_text())
        version = content["version"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise UserError(
            f"{folder} has no readable {NAME} ({error}); expected a partition that the "
            "timeline has written; bring it back, or move the folder away"
        ) from None
    if version != _VERSION:
        raise UserError(
            f"{path} has version {version!r}; expected {_VERSION}. Run the timeline "
            "again"
        )
    rest = {name: value for name, value in content.items() if name != _HASH}
    is_whole = _HASH not in content or content[_HASH] == _hash(rest)
    if not is_whole or not _has_form(content):
        raise UserError(
            f"{path} is damaged, or was changed; expected a manifest as the timeline "
            "has written it. Restore it from a copy, or make the timeline again"
        )
    if content["config"].get("form", "rows") != "rows":  # from before 0.1.0
        raise UserError(
            f"{path} has samples in the form {content['config']['form']}; expected one "
            "next row in each sample. Make the timeline again from the logged rows"
        )
    return content


def check_target(folder: Path) -> None:
    """Refuse a folder with other files than a timeline's, which would be lost."""
    if not os.path.lexists(folder):
        return
    try:
        known = read(folder)
    except UserError as error:
        raise UserError(
            f"{error}. Its files would be lost: move them away, or pass another "
            "--output"
        ) from None
    names = {part["name"] for part in known["parts"]}
    publish.check_only(folder, {*names, NAME, FEATURES}, "timeline", NAME)


def newest(output: Path) -> Path | None:
    """Return the last partition of a table; None if it has none."""
    # Also one without a manifest, which is damaged: an older one would be learned from.
    folders = [folder for folder in sorted(output.glob("ds=*")) if folder.is_dir()]
    return folders[-1] if folders else None


def schema(folder: Path) -> Schema:
    """Return the schema of a partition."""
    return Schema.from_dict(read(folder)["schema"])


def check_change(
    output: Path, new: Schema, config: TimelineConfig, features: bool
) -> None:
    """Refuse new samples that mean something else than those of the newest partition.

    Args:
      output: the table.
      new: what the rows contain.
      config: settings.
      features: whether a specification of features is given.
    """
    folder = newest(output)
    if folder is None or config.on_change == "accept":
        return
    content = read(folder)
    before, after = content["config"], configs.to_dict(config)
    known = Schema.from_dict(content["schema"])
    changes = [known.difference(new)] if known != new else []
    flags = []
    for name in OF_SAMPLES:
        if before.get(name) != after[name]:
            changes.append(f"{name} {before.get(name)} became {after[name]}")
            flags.append(f"--{name}={before.get(name)}")
    if "features_sha256" in content and not features:
        changes.append("the specification of features is missing")
        flags.append("--features=<file>")
    if changes:
        same = f"{' '.join(flags)} as before, " if flags else ""
        raise UserError(
            f"the samples differ from those of {folder}: {'; '.join(changes)}. Pass "
            f"{same}another --output, or --on_change=accept. Nothing is published"
        )


def _has_form(content: dict[str, Any]) -> bool:
    """Return whether a manifest has what readers need."""
    return (
        all(isinstance(content.get(name), x) for name, x in _NEEDED.items())
        and content["config"].keys() >= _SETTINGS
        and all(
            isinstance(part, dict)
            and isinstance(part.get("bytes"), int)
            and isinstance(part.get("name"), str)
            and _PART.fullmatch(part["name"])
            for part in content["parts"]
        )
    )


def _hash(content: dict[str, Any]) -> str:
    """Return the SHA-256 of content as it is in a file."""
    read_again = json.loads(json.dumps(content))
    text = json.dumps(read_again, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _described(path: Path) -> dict[str, Any]:
    """Return what a manifest says of a file: its name, size, rows and SHA-256."""
    facts = {"name": path.name, "bytes": path.stat().st_size}
    return facts | {"rows": _rows(path), "sha256": publish.digest(path)}


def check_parts(folder: Path, known: Mapping[str, Any]) -> None:
    """Refuse files that are missing or were changed; their contents are read once.

    Manifests of earlier versions have no SHA-256. Then only the sizes of the files and
    the number of all rows are checked.
    """
    states = []
    for part in known["parts"]:
        path = folder / part["name"]
        try:
            status = path.stat()
        except OSError as error:
            raise UserError(f"{path} is missing ({error.strerror}); {_AGAIN}") from None
        if not path.is_file() or status.st_size != part["bytes"]:
            raise UserError(
                f"{path} has {status.st_size:,} bytes; expected a file of "
                f"{part['bytes']:,}, which the timeline wrote; {_AGAIN}"
            )
        states.append((str(path), status.st_mtime_ns, status.st_ino))
    _check(folder, tuple(states), json.dumps(known["parts"]), known["rows"])


@functools.lru_cache(maxsize=64)
def _check(
    folder: Path, files: tuple[tuple[str, int, int], ...], parts: str, rows: int
):
    """Check the contents of files; a file that has changed is another one here."""
    paths = [Path(path) for path, *_ in files]
    hashes = [part.get("sha256") for part in json.loads(parts)]
    hashed = [x for x in zip(paths, hashes, strict=True) if x[1] is not None]
    pool = concurrent.futures.ThreadPoolExecutor(os.cpu_count())
    try:
        digests = pool.map(publish.digest, (path for path, _ in hashed))
        for (path, expected), digest in zip(hashed, digests, strict=True):
            if digest != expected:
                raise UserError(f"{path} has changed: its SHA-256 differs; {_AGAIN}")
    finally:
        pool.shutdown(cancel_futures=True)
    if (count := sum(map(_rows, paths))) != rows:
        raise UserError(
            f"{folder} has {count:,} rows; expected {rows:,}, which the timeline "
            f"wrote; {_AGAIN}"
        )


def _rows(path: Path) -> int:
    import pyarrow
    from pyarrow import parquet

    try:
        return parquet.read_metadata(path).num_rows
    except (pyarrow.ArrowInvalid, OSError) as error:
        raise UserError(f"{path} is damaged ({first_line(error)}); {_AGAIN}") from None
