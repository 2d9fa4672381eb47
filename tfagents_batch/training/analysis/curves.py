"""Learning curves of runs: read, grouped by what was asked for, and summed up."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tfagents_batch.config import flat, marked
from tfagents_batch.errors import UserError
from tfagents_batch.training.log.logger import read_metrics
from tfagents_batch.training.run_config import Config
from tfagents_batch.training.run_folder import runs

POINTS = 200  # of a grid
_ASIDE = marked(Config, "same_curve")


class Curve(NamedTuple):
    """One metric of one run.

    Attributes:
      step: i64 ``[n]``, environment steps, ascending.
      value: f64 ``[n]``, finite.
    """

    step: np.ndarray
    value: np.ndarray


class Band(NamedTuple):
    """Several curves on one grid.

    Attributes:
      step: f64 ``[POINTS]``, from where all curves have begun to where the first ends.
      mean: f64 ``[POINTS]``.
      low, high: f64 ``[POINTS]``, 95 % bootstrap interval of the mean over runs.
    """

    step: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray


class Group(NamedTuple):
    """Runs that differ by their seed only.

    Attributes:
      name: of the preset or algorithm, and the settings that tell it from groups of
        the same name.
      env: trained on.
      folders: of the runs.
    """

    name: str
    env: str
    folders: list[Path]


def read(folder: str | os.PathLike, metric: str) -> Curve:
    """A metric of a run, where it was logged and is a number.

    Raises:
      UserError: if the run does not have it, with those it has.
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


def group(folders: Sequence[str | os.PathLike]) -> list[Group]:
    """Runs by name, environment and settings; folders that hold runs are opened.

    Raises:
      UserError: if there is no run.
    """
    found: list[Path] = []
    for folder in map(Path, folders):
        inside = [] if (folder / "config.json").is_file() else runs.list_runs(folder)
        found += inside or [folder]
    alike: dict[tuple[str, str], list[tuple[Path, dict[str, Any]]]] = {}
    for folder in found:
        config = json.loads(runs.open_run(folder).config_text)["config"]
        # The folder's name without time, seed and number.
        stem = folder.name.rpartition(f"-s{config['seed']}")[0].partition("-")[2]
        settings = _settings(config)
        origin = runs.facts(folder).get(runs.STARTED_FROM)
        settings["init_from"] = origin and f"{origin['run']} at {origin['checkpoint']}"
        key = stem or config["algorithm"], config["env"]
        alike.setdefault(key, []).append((folder, settings))
    return [
        Group(f"{name}{differs}", env, members)
        for (name, env), each in alike.items()
        for differs, members in _apart(each).items()
    ]


def band(curves: Sequence[Curve], resamples: int = 1000) -> Band:
    """Mean over runs and its 95 % bootstrap interval, linear between points.

    Args:
      curves: of the same metric.
      resamples: of the bootstrap, over runs, from a fixed seed.
    """
    end = min(curve.step[-1] for curve in curves)
    start = min(max(curve.step[0] for curve in curves), end)
    grid = np.linspace(start, end, POINTS)
    values = np.stack([np.interp(grid, curve.step, curve.value) for curve in curves])
    drawn = np.random.default_rng(0).integers(
        len(values), size=(resamples, len(values))
    )
    low, high = np.percentile(values[drawn].mean(1), [2.5, 97.5], axis=0)
    return Band(grid, values.mean(0), low, high)


def _settings(config: dict[str, Any]) -> dict[str, Any]:
    """What of a config makes a difference, by short names."""
    named = flat({name: x for name, x in config.items() if name not in _ASIDE})
    return {name.removeprefix("settings."): x for name, x in named.items()}


def _apart(
    members: Sequence[tuple[Path, dict[str, Any]]],
) -> dict[str, list[Path]]:
    """Runs by the text of the settings in which not all of them agree.

    A setting that some do not know, because an older version wrote them, is no
    difference.
    """
    shared = set.intersection(*(set(settings) for _, settings in members))
    first = members[0][1]
    differing = [
        name
        for name in first
        if name in shared and any(s[name] != first[name] for _, s in members)
    ]
    found: dict[str, list[Path]] = {}
    for folder, settings in members:
        text = "".join(f", {name}={settings[name]}" for name in differing)
        found.setdefault(text, []).append(folder)
    return found
