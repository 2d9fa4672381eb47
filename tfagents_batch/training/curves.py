"""Learning curves of runs: read, aligned on one grid of steps, and summed up."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tfagents_batch.errors import UserError
from tfagents_batch.training import runs
from tfagents_batch.training.logger import read_metrics

POINTS = 200  # of a grid


class Curve(NamedTuple):
    """One metric of one run.

    Attributes:
      step: i64 ``[n]``, environment steps, ascending.
      value: f64 ``[n]``.
    """

    step: np.ndarray
    value: np.ndarray


class Band(NamedTuple):
    """Several curves on one grid.

    Attributes:
      step: f64 ``[POINTS]``, as far as the shortest curve reaches.
      mean: f64 ``[POINTS]``.
      low, high: f64 ``[POINTS]``, 95 % bootstrap interval of the mean over runs.
    """

    step: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray


def read(folder: str | os.PathLike, metric: str) -> Curve:
    """A metric of a run, where it was logged.

    Raises:
      UserError: if the run does not have it, with those it has.
    """
    lines = read_metrics(folder)
    points = [(line["step"], line[metric]) for line in lines if metric in line]
    if not points:
        known = sorted({name for line in lines for name in line} - {"step"})
        raise UserError(
            f"{folder} has no metric {metric!r}; it has {', '.join(known) or 'none'}"
        )
    step, value = np.array(points, np.float64).T
    return Curve(step.astype(np.int64), value)


def label(folder: str | os.PathLike) -> str:
    """What a run is one seed of: its folder's name without time, seed and number."""
    name = Path(folder).name
    config = json.loads(runs.open_run(folder).config_text)["config"]
    stem = name.rpartition(f"-s{config['seed']}")[0].partition("-")[2]
    return f"{stem or config['algorithm']} on {config['env']}"


def group(folders: Sequence[str | os.PathLike]) -> dict[str, list[Path]]:
    """Runs by ``label``; folders that hold runs are opened.

    Raises:
      UserError: if there is no run.
    """
    found: list[Path] = []
    for folder in map(Path, folders):
        inside = [] if (folder / "config.json").is_file() else runs.list_runs(folder)
        found += inside or [folder]
    groups: dict[str, list[Path]] = {}
    for folder in found:
        groups.setdefault(label(folder), []).append(folder)
    return groups


def band(curves: Sequence[Curve], resamples: int = 1000) -> Band:
    """Mean over runs and its 95 % bootstrap interval, linear between points.

    Args:
      curves: of the same metric; a curve holds its first value back to step 0.
      resamples: of the bootstrap, over runs, from a fixed seed.
    """
    grid = np.linspace(0, min(curve.step[-1] for curve in curves), POINTS)
    values = np.stack([np.interp(grid, curve.step, curve.value) for curve in curves])
    drawn = np.random.default_rng(0).integers(
        len(values), size=(resamples, len(values))
    )
    low, high = np.percentile(values[drawn].mean(1), [2.5, 97.5], axis=0)
    return Band(grid, values.mean(0), low, high)
