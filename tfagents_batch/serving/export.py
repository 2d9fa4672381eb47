"""Exports of trained policies, for programs without this package.

An export is a folder: the model in one format; ``export.json``, which describes its
inputs and outputs; and ``parity.json`` and ``parity.npz``, which say how it was
compared with the policy. Each format is a module: ``write(function, specs, folder)``
returns the name of the model in ``folder``, and ``load(path)`` a function of NumPy
arrays by name that returns the outputs.
"""

from __future__ import annotations

import importlib
import json
import os
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from tfagents_batch import spaces
from tfagents_batch.errors import UserError
from tfagents_batch.experience import NamesRows
from tfagents_batch.features.specification import Specification
from tfagents_batch.interfaces import Policy
from tfagents_batch.offline import publish
from tfagents_batch.offline.features import specification
from tfagents_batch.serving import parity
from tfagents_batch.serving.decision_function import DecisionFunction
from tfagents_batch.serving.description import (
    FEATURES,
    FILE,
    PARITY,
    PARITY_ROWS,
    PRESENCE,
    SCHEMA,
    Array,
)
from tfagents_batch.serving.parity import Parity
from tfagents_batch.training import preprocessing
from tfagents_batch.training.log import console
from tfagents_batch.training.playing import Trained
from tfagents_batch.training.run_folder import files, runs
from tfagents_batch.types import EnvSpec

Format = Literal["onnx", "saved_model", "litert"]
"""Format of an export: for ONNX Runtime, TensorFlow or LiteRT."""
_KEPT = 64  # rows of ``parity.npz``


class Export(NamedTuple):
    """A written export.

    Attributes:
      folder: its folder.
      parity: comparison with the policy.
      notices: what the caller should know, a line each.
    """

    folder: Path
    parity: Parity
    notices: tuple[str, ...]


class Origin(NamedTuple):
    """Origin of a policy, as an export states it."""

    facts: dict[str, Any]  # entries of export.json
    # Names of Discrete actions, where the log that it learned from has some
    actions: tuple[str, ...] = ()
    features: tuple[int, ...] = ()  # ids of the numbers of its observation, likewise
    notices: tuple[str, ...] = ()  # what the caller should know, a line each
    # Normalization of these numbers in the model, or None
    specification: Specification | None = None


def origin_of(trained: Trained) -> Origin:
    """Return what is known of the origin of a run's policy."""
    config, recipe = trained.config, trained.recipe
    saved = runs.facts(trained.run.folder)
    facts = {
        "name": trained.run.folder.name,
        "algorithm": config.algorithm,
        "env": recipe.describe() if recipe.env else None,
        "wrappers": list(map(str, recipe.wrappers)),
        "revision": (saved.get("checkout") or {}).get("commit"),
        "versions": runs.versions(),
        runs.TRAINING_ROWS: runs.training_rows(trained.run.folder),
    }
    actions, features, notices = _names(config)
    normalization = preprocessing.of_run(trained.run.folder)
    return Origin(
        facts,
        actions,
        normalization.ids or features,
        (*notices, *_stays(recipe)),
        normalization.specification,
    )


def _names(config: Any) -> tuple[tuple[str, ...], tuple[int, ...], list[str]]:
    """Return the names of actions and ids of features of logged rows, and notices."""
    if not isinstance(config.source, NamesRows):
        return (), (), []
    try:
        return *config.source.names(), []
    except UserError as error:
        return (), (), [f"names of actions and features are left out: {error}"]


def _stays(recipe: Any) -> list[str]:
    """Return what changes observations outside of the export, a line each."""
    parts = [f"the wrapper {x}" for x in map(str, recipe.wrappers)]
    if isinstance(recipe.env, str) and recipe.env.startswith(("ALE/", "envpool:")):
        parts.append(f"the preprocessing of {recipe.env}")
    end = "is not part of the export: give the model what it returns"
    return [f"{part} {end}" for part in parts]


def check_format(format: str) -> None:
    """Raise a UserError for a format that does not exist."""
    if format not in get_args(Format):
        raise UserError(
            f"format is {format!r}; expected one of {', '.join(get_args(Format))}"
        )


def write(
    policy: Policy,
    spec: EnvSpec,
    step: int,
    format: Format,
    outdir: str | os.PathLike[str],
    exploration: float,
    origin: Origin,
) -> Export:
    """Write a policy to a folder, which appears, or is replaced, as a whole.

    UserError if the folder is no earlier export, the policy cannot be exported, or
    differs from its export; nothing is written then.

    Args:
      policy, spec, step, exploration: see ``DecisionFunction``.
      format: of the model.
      outdir: the folder; an earlier export there is replaced.
      origin: where the policy is from.
    """
    target = Path(outdir).expanduser()
    _check_target(target)
    if format == "litert" and origin.specification is not None:
        raise UserError(
            "format is litert, which has no float64, in which this policy normalizes "
            "features; expected onnx or saved_model"
        )
    function = DecisionFunction(policy, spec, step, exploration)
    module = importlib.import_module(f"tfagents_batch.serving.{format}")
    with (
        publish.folder(target, _check_target) as folder,
        console.doing(f"exporting to {format}"),
    ):
        name = module.write(function.decide, function.specs(), folder)
        rows = parity.inputs(function, spec.observation_space)
        result, expected = parity.compare(function, module.load(folder / name), rows)
        if result.problems:
            raise UserError(
                f"the {format} export differs from its policy, so it was removed: "
                + "; ".join(result.problems)
            )
        _write_json(folder / PARITY, result.to_json())
        kept = {f"inputs/{k}": x[:_KEPT] for k, x in rows.items()}
        kept |= {f"outputs/{k}": x[:_KEPT] for k, x in expected.items()}
        np.savez(folder / PARITY_ROWS, **kept)
        if origin.specification is not None:
            specification.write(origin.specification, folder / FEATURES)
        facts = {"schema": SCHEMA, "format": format, "model": name}
        facts |= {"sha256": _hashes(folder), "step": step, "exploration": exploration}
        facts |= origin.facts | _interface(function, spec, origin)
        _write_json(folder / FILE, facts)
    return Export(target, result, origin.notices)


def _check_target(target: Path) -> None:
    """Refuse to replace anything but an earlier export."""
    if target.is_symlink():
        raise UserError(f"{target} is a link; pass the folder that it leads to")
    if not target.exists():
        return
    try:
        facts = json.loads(files.read(target / FILE))
        names = {facts["model"], FILE, PARITY, PARITY_ROWS, FEATURES}
        others = sorted({x.name for x in target.iterdir()} - names)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        others = ["what this package has not written"]
    if others:
        raise UserError(
            f"{target} is not an earlier export alone, it has {', '.join(others)}; "
            "pass another --outdir, or remove it"
        )


def _interface(
    function: DecisionFunction, spec: EnvSpec, origin: Origin
) -> dict[str, Any]:
    """Return the entries of ``export.json`` on inputs and outputs."""
    known = {} if origin.specification is None else origin.specification.features
    named = {x.name: (i, x.categories) for i, x in known.items() if x.name is not None}
    return {
        "observation_space": spaces.to_json(spec.observation_space),
        "action_space": spaces.to_json(spec.action_space),
        "actions": list(origin.actions) or None,
        "features": list(origin.features) or None,
        "names": {name: i for name, (i, _) in named.items()} or None,
        "categories": {k: list(x) for k, (_, x) in named.items() if x} or None,
        "features_sha256": getattr(origin.specification, "sha256", None),
        "presence": next(
            (x.name for x in function.inputs if x.path == (PRESENCE,)), None
        ),
        "mask": function.mask,
        "inputs": [_described(x) for x in function.inputs],
        "outputs": [_described(x) for x in function.outputs],
    }


def _described(field: Array) -> dict[str, Any]:
    entry = field._asdict() | {"shape": list(field.shape), "path": list(field.path)}
    if not field.path and field.role != "observation":
        del entry["path"]
    if not field.distribution:
        del entry["distribution"]
    return entry


def _hashes(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of all files, by their path in the folder."""
    paths = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {path.relative_to(folder).as_posix(): publish.digest(path) for path in paths}


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n")
