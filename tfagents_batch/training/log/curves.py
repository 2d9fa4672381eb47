"""Learning curves: read and group them, average a group, and draw panels."""

from __future__ import annotations

import collections
import contextlib
import io
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tfagents_batch.errors import UserError, saving
from tfagents_batch.training.log.logger import read_metrics
from tfagents_batch.training.run_folder import config_file, files, runs

POINTS = 200  # number of grid points


class Curve(NamedTuple):
    """One metric of one run."""

    step: np.ndarray  # i64 ``[n]``, environment steps, ascending
    value: np.ndarray  # f64 ``[n]``, finite


class Band(NamedTuple):
    """Several curves on one grid."""

    step: np.ndarray  # f64 ``[POINTS]``, the steps that all curves cover
    mean: np.ndarray  # f64 ``[POINTS]``, mean over runs
    # f64 ``[POINTS]``, 95 % bootstrap interval of the mean over runs
    low: np.ndarray
    high: np.ndarray


class CurveGroup(NamedTuple):
    """Runs that differ only in their seed."""

    # Preset or algorithm, and the flags of the settings that differ from other groups
    # with the same one
    name: str
    env: str  # environment of the training
    seeds: dict[Path, int]  # seeds of the runs, by their folders


def read(folder: str | os.PathLike, metric: str) -> Curve:
    """Read a metric of a run; values that are not finite are left out.

    The error for a missing metric lists those that the run has.
    """
    lines = read_metrics(folder)
    points = [(line["step"], line[metric]) for line in lines if metric in line]
    points = [(step, value) for step, value in points if np.isfinite(value)]
    if not points:
        known = {name for line in lines for name in line} - {"step"}
        names = ", ".join(sorted(known)) or "none"
        raise UserError(f"{folder} has no metric {metric!r}; it has {names}")
    step, value = np.array(points, np.float64).T
    return Curve(step.astype(np.int64), value)


def group(folders: Sequence[str | os.PathLike]) -> list[CurveGroup]:
    """Group runs by name, environment and settings."""
    same_name: dict[tuple[str, str], list[tuple[Path, dict[str, Any]]]] = {}
    seeds: dict[Path, int] = {}
    for run in runs.open_runs(folders):
        folder, data = run.folder, json.loads(run.config_text)
        config = data["config"]
        seeds[folder] = config["seed"]
        # The folder's name without time, seed and number.
        stem = folder.name.rpartition(f"-s{config['seed']}")[0].partition("-")[2]
        settings = config_file.by_flag(config, data.get("source", "source"))
        origin = runs.facts(folder).get(runs.STARTED_FROM)
        settings["init_from"] = origin and origin["run"]
        settings["init_checkpoint"] = origin and origin["checkpoint"]
        key = stem or config["algorithm"], config["env"]
        same_name.setdefault(key, []).append((folder, settings))
    return [
        CurveGroup(f"{name}{flags}", env, {folder: seeds[folder] for folder in members})
        for (name, env), alike in same_name.items()
        for flags, members in _by_differences(alike).items()
    ]


def band(curves: Sequence[Curve], resamples: int = 1000) -> Band:
    """Compute the mean over runs and its 95 % bootstrap interval.

    There is a curve of the same metric for each run, interpolated linearly between its
    points. The seed of the resamples of the runs is fixed.
    """
    end = min(curve.step[-1] for curve in curves)
    start = min(max(curve.step[0] for curve in curves), end)
    grid = np.linspace(start, end, POINTS)
    values = np.stack([np.interp(grid, curve.step, curve.value) for curve in curves])
    indices = np.random.default_rng(0).integers(
        len(values), size=(resamples, len(values))
    )
    low, high = np.percentile(values[indices].mean(1), [2.5, 97.5], axis=0)
    return Band(grid, values.mean(0), low, high)


def _by_differences(
    members: Sequence[tuple[Path, dict[str, Any]]],
) -> dict[str, list[Path]]:
    """Group run folders by the settings in which they differ, as flags.

    A setting that is missing in some runs, because an older version wrote them, is
    ignored. With more than three groups, the text leaves out a value that half of
    them have, or more.
    """
    shared = set.intersection(*(set(settings) for _, settings in members))
    first = members[0][1]
    differing = [
        name
        for name in first
        if name in shared - config_file.SAME_CURVE
        and any(s[name] != first[name] for _, s in members)
    ]
    groups: dict[tuple[str, ...], list[Path]] = {}
    for folder, settings in members:
        flags = (config_file.as_flag(name, settings[name]) for name in differing)
        texts = tuple(f" {flag}" for flag in flags)
        groups.setdefault(texts, []).append(folder)
    usual = []  # of each setting, its usual text, or none
    for column in zip(*groups, strict=True):
        text, n = collections.Counter(column).most_common(1)[0]
        usual.append(text if 2 * n >= len(groups) > 3 else None)
    return {
        "".join(x for x, y in zip(texts, usual, strict=True) if x != y): folders
        for texts, folders in groups.items()
    }


@contextlib.contextmanager
def panels(
    rows: int, columns: int, size: tuple[float, float], out: str
) -> Iterator[Any]:
    """Yield matplotlib axes ``[rows, columns]``, saved as a file when the context ends.

    The size is width and height in inches.

    Raises:
      UserError: if matplotlib is missing, or does not know the kind of file.
      SaveError: if the file cannot be written.
    """
    try:
        import matplotlib
    except ImportError:
        raise UserError(
            'plots need matplotlib: pip install "tfagents_batch[plot]"'
        ) from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(rows, columns, figsize=size, squeeze=False)
    kind = Path(out).suffix[1:] or "png"
    known = figure.canvas.get_supported_filetypes()
    try:
        if kind not in known:
            raise UserError(
                f"{out} ends in .{kind}; expected .png or one of {', '.join(known)}"
            )
        yield axes
        figure.tight_layout()
        picture = io.BytesIO()
        figure.savefig(picture, dpi=120, format=kind)
        _write(Path(out), picture.getvalue())
    finally:
        pyplot.close(figure)


def _write(path: Path, data: bytes) -> None:
    """Write a file as a whole; a device, such as /dev/stdout, is written to."""
    if path.exists() and not path.is_file():
        with saving(path):
            path.write_bytes(data)
    else:
        files.write_atomic(Path(os.path.realpath(path)), data)


def mark(axis: Any, threshold: float) -> None:
    """Draw a dashed line at a threshold, with an entry for the legend."""
    label = f"threshold {threshold:,g}"
    axis.axhline(threshold, color="black", linestyle="--", linewidth=1, label=label)
