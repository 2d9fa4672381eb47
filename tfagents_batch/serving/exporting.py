"""What an export says of the run that it was made from."""

from __future__ import annotations

from typing import Any

from tfagents_batch.errors import UserError
from tfagents_batch.serving.export import Origin
from tfagents_batch.training import preprocessing
from tfagents_batch.training.playing import Trained
from tfagents_batch.training.run_folder import runs


def origin(found: Trained) -> Origin:
    """Return what is known of the origin of a run's policy."""
    config, recipe = found.config, found.recipe
    saved = runs.facts(found.run.folder)
    facts = {
        "name": found.run.folder.name,
        "algorithm": config.algorithm,
        "env": recipe.describe() if recipe.env else None,
        "wrappers": list(map(str, recipe.wrappers)),
        "revision": (saved.get("checkout") or {}).get("commit"),
        "versions": runs.versions(),
        runs.TRAINING_ROWS: runs.training_rows(found.run.folder),
    }
    actions, features, notices = _names(config)
    normalization = preprocessing.of_run(found.run.folder)
    return Origin(
        facts,
        actions,
        normalization.ids or features,
        (*notices, *_stays(recipe)),
        normalization.specification,
    )


def _names(config: Any) -> tuple[tuple[str, ...], tuple[int, ...], list[str]]:
    """Return the names of actions and ids of features of logged rows, and notices."""
    if not hasattr(config.source, "names"):
        return (), (), []
    try:
        return *config.source.names(), []
    except UserError as error:
        return (), (), [f"names of actions and features are left out: {error}"]


def _stays(recipe: Any) -> list[str]:
    """Return what changes observations outside of the export, a line each."""
    found = [f"the wrapper {x}" for x in map(str, recipe.wrappers)]
    if isinstance(recipe.env, str) and recipe.env.startswith(("ALE/", "envpool:")):
        found.append(f"the preprocessing of {recipe.env}")
    return [
        f"{each} is not part of the export: give the model what it returns"
        for each in found
    ]
