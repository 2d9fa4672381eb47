"""Checkpoints; only complete and verified ones are used.

``<run>/checkpoints/step-000001000000/`` holds ``variables.*`` (TensorFlow's own
format), ``state.json`` and ``manifest.json``, which is written last and contains the
size and SHA-256 of the other files and of itself. A folder is written under a temporary
name and renamed when the disk has all of it, so a final name never holds an incomplete
checkpoint. The newest checkpoint is found by scanning the folders, without a pointer
file. Nothing here is pickled, and reading executes no code.

Variables are stored by name in a flat list. Saving the model object instead would
silently skip layers that a Keras model stores in a list or dict.
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import tensorflow as tf

from tfagents_batch.errors import SaveError, UserError
from tfagents_batch.training.run_folder import files, replay_file, runs

SCHEMA = 1
KEEP_NEWEST = 3
# Prefix of variables that only a resumed run needs, not evaluation or export.
RUN_ONLY = "run/"
# Prefixes of variables for training, not for acting: ``Algorithm.named_variables``.
TRAINING_ONLY = ("learner/",)
_KEY = "variables/{}/.ATTRIBUTES/VARIABLE_VALUE"  # name in tf.train.Checkpoint


class Damaged(Exception):
    """A checkpoint folder that differs from what was written; the text says how."""


def _warn(kind: str, step: int, reason: str) -> None:
    text = f"checkpoint of step {step} is damaged and skipped: {reason}"
    warnings.warn(text, RuntimeWarning, stacklevel=3)


def save(
    run_folder: str | os.PathLike,
    step: int,
    variables: Mapping[str, Any],
    state: Mapping[str, Any],
    *,
    metadata: dict[str, Any] | None = None,
) -> Path:
    """Write a checkpoint, then remove those no longer needed.

    These remain: the newest 3, the newest with ``"best": True`` in its metadata, all
    with ``"keep": True``, and that of the saved replay's step. Checkpoints of later
    steps, left over when the run was resumed from an earlier one, are removed once this
    one is verified.

    Args:
      run_folder: folder of the run.
      step: env steps so far, not negative. Saving a step again replaces it.
      variables: ``{name: tf.Variable or keras.Variable}``, of any numeric dtype.
      state: JSON-able. NaN and infinities are restored exactly.
      metadata: JSON-able facts that can be read without loading.

    Returns:
      The folder of the checkpoint.

    Raises:
      SaveError: if it could not be written.
      TypeError: if ``state`` or ``metadata`` is not JSON-able; nothing is written.
    """
    folder = Path(run_folder) / "checkpoints"
    target = files.step_folder(folder, step)
    flat = _flat(variables)
    manifest = {
        "schema": SCHEMA,
        "step": int(step),
        "versions": runs.versions(),
        "metadata": metadata or {},
        "variables": {name: _describe(x) for name, x in flat.items()},
    }
    state_text = json.dumps(state, sort_keys=True)
    try:
        with files.replacing(target) as temporary:
            _write(temporary, list(flat.values()), state_text, manifest)
            _verify(temporary, step)
    except (OSError, tf.errors.OpError, Damaged) as error:
        raise SaveError(
            f"checkpoint of step {step} could not be saved in {folder}: {error}"
        ) from error
    _prune(folder, step)
    return target


def load(
    run_folder: str | os.PathLike,
    variables: Mapping[str, Any],
    which: str | int = "newest",
    on_event: Callable[..., None] = _warn,
    leave: tuple[str, ...] = (),
) -> tuple[int, dict]:
    """Verify a checkpoint and assign its values to all variables, or to none.

    Args:
      run_folder: folder of the run.
      variables: ``{name: tf.Variable or keras.Variable}``; names, shapes and dtypes
        must equal those saved, except for the ``RUN_ONLY`` ones, see
        ``load_run_only``. Integers may have another width.
      which: ``"newest"``, ``"best"`` or a step. If "newest" or "best" is damaged, the
        next older one is used; a damaged step is an error.
      on_event: called ``("checkpoint_damaged", step=..., reason=...)`` for every
        skipped checkpoint; by default a Python warning.
      leave: prefixes of the names of variables to skip: their values do not change,
        and they need not match.

    Returns:
      The step and the saved state.

    Raises:
      UserError: if there is no such checkpoint, none is intact, a newer version of
        this package wrote it, the variables do not match, or one of them cannot hold
        its value.
    """
    folder = Path(run_folder) / "checkpoints"
    leave = (RUN_ONLY, *leave)
    flat = _without(leave, _flat(variables))
    problems = []
    for step in _candidates(folder, which):
        path = files.step_folder(folder, step)
        try:
            manifest = _verify(path, step)
            state = json.loads(files.read(path / "state.json"))
            _restore(path, manifest, _without(leave, manifest["variables"]), flat)
        except UserError:
            raise
        except Exception as error:  # any failure to read means damage
            problems.append(f"step {step}: {error}")
            on_event("checkpoint_damaged", step=step, reason=str(error))
            continue
        return step, state
    hint = "train again" if which == "newest" else "try another one"
    raise UserError(
        f"no intact checkpoint ({which}) in {folder}: {'; '.join(problems)}; {hint}"
    )


def load_run_only(
    run_folder: str | os.PathLike, step: int, variables: Mapping[str, Any]
) -> None:
    """Assign the saved values of ``RUN_ONLY`` variables, if there are any.

    ``load`` has verified the checkpoint. A UserError is raised if the variables differ
    from those saved.
    """
    path = files.step_folder(Path(run_folder) / "checkpoints", step)
    manifest = _manifest(path, step)
    described = manifest["variables"].items()
    stored = {name: x for name, x in described if name.startswith(RUN_ONLY)}
    if stored:
        _restore(path, manifest, stored, _flat(variables))


def load_fitting(
    run_folder: str | os.PathLike,
    step: int,
    variables: Mapping[str, Any],
    leave: tuple[str, ...] = (),
) -> list[str]:
    """Assign the saved values of ``TRAINING_ONLY`` variables where they fit.

    ``load`` has verified the checkpoint. Variables whose names begin with one of
    ``leave`` are skipped.

    Returns:
      Names of the variables that were not assigned, and of those only saved.
    """
    path = files.step_folder(Path(run_folder) / "checkpoints", step)
    manifest, flat = _manifest(path, step), _flat(variables)
    described = manifest["variables"].items()
    stored = {name: x for name, x in described if name.startswith(TRAINING_ONLY)}
    fitting = {
        name: variable
        for name, variable in flat.items()
        if name in stored
        and _fits(stored[name], _describe(variable))
        and not name.startswith(leave)
    }
    _restore(path, manifest, {name: stored[name] for name in fitting}, fitting)
    return sorted((stored.keys() | flat.keys()) - fitting.keys())


def _write(
    folder: Path, variables: list[tf.Variable], state_text: str, manifest: dict
) -> None:
    tf.train.Checkpoint(variables=variables).write(str(folder / "variables"))
    for path in sorted(folder.iterdir()):
        files.sync(path)
    files.write_durable(folder / "state.json", state_text.encode())
    files.sync(folder)
    names = sorted(path.name for path in folder.iterdir())
    manifest["files"] = {name: _fingerprint(folder / name) for name in names}
    files.write_manifest(folder, manifest)


def _prune(folder: Path, current: int) -> None:
    """Remove checkpoints that ``save`` does not keep; ``current`` must be verified."""
    steps = files.steps(folder)
    older = [step for step in steps if step <= current]
    best = [step for step in older if _marked(folder, step, "best")]
    marked = [step for step in older if _marked(folder, step, "keep")]
    paired = [step for step in older if step in replay_file.steps(folder.parent)]
    keep = {current, *older[-KEEP_NEWEST:], *best[-1:], *marked, *paired}
    for step in sorted({*steps} - keep):
        files.remove(files.step_folder(folder, step))


def _verify(folder: Path, step: int) -> dict:
    """Return the manifest after checking that no file has changed."""
    manifest = _manifest(folder, step)
    for name, expected in manifest["files"].items():
        fingerprint = _fingerprint(folder / _inside(name), expected.get("size"))
        if fingerprint != expected:
            raise Damaged(f"{name} has changed: {fingerprint} instead of {expected}")
    for path in folder.glob("variables.*"):
        if path.name not in manifest["files"]:
            raise Damaged(f"{path.name} is not in the manifest")
    return manifest


def _manifest(folder: Path, step: int) -> dict:
    if folder.is_symlink():
        raise Damaged(f"{folder.name} is a symbolic link")
    try:
        data = files.read_manifest(folder, step)
    except ValueError as error:
        raise Damaged(str(error)) from error
    schema = data.get("schema")
    if isinstance(schema, int) and schema > SCHEMA:
        raise UserError(
            f"checkpoint {folder} has format {schema}, this version reads {SCHEMA}; "
            f"install the tfagents_batch that wrote it: {data.get('versions')}"
        )
    parts = [data.get(key) for key in ("metadata", "variables", "files")]
    if schema != SCHEMA or not all(isinstance(part, dict) for part in parts):
        raise Damaged("manifest.json is not a manifest")
    # Variables are saved in the order of their names, see ``_flat``.
    data["indices"] = {name: i for i, name in enumerate(sorted(data["variables"]))}
    return data


def _without(leave: tuple[str, ...], named: dict[str, Any]) -> dict[str, Any]:
    return {name: x for name, x in named.items() if not name.startswith(leave)}


def _match(stored: dict, variables: dict[str, tf.Variable], path: Path) -> None:
    """Raise a UserError if variables differ from those of the checkpoint."""
    wanted = {name: _describe(x) for name, x in variables.items()}
    differences = []
    # The weights first: a user knows them, but not the optimizer's variables.
    role = lambda name: (name.startswith(TRAINING_ONLY), name)  # noqa: E731
    for name in sorted({*stored, *wanted}, key=role):
        if name not in wanted:
            differences.append(f"{name} is only in the checkpoint")
        elif name not in stored:
            differences.append(f"{name} is not in the checkpoint")
        elif not _fits(stored[name], wanted[name]):
            old, new = ("{dtype} {shape}".format(**x[name]) for x in (stored, wanted))
            differences.append(f"{name} is {old} in the checkpoint, {new} here")
    if differences:
        more = f"; and {len(differences) - 3} more" if len(differences) > 3 else ""
        raise _misfit(path, f"{'; '.join(differences[:3])}{more}")


def _fits(stored: dict, wanted: dict) -> bool:
    same = stored["shape"] == wanted["shape"]
    return same and replay_file.fits(stored["dtype"], wanted["dtype"])


def _misfit(path: Path, reason: str) -> UserError:
    return UserError(
        f"checkpoint {path} does not fit: {reason}; use the environment, network and "
        "algorithm it was trained with"
    )


def _restore(
    path: Path, manifest: dict, stored: dict, variables: dict[str, tf.Variable]
) -> None:
    """Assign the stored values to all given variables, or to none."""
    _match(stored, variables, path)
    reader = tf.train.load_checkpoint(str(path / "variables"))
    indices = manifest["indices"]
    saved = {x: reader.get_tensor(_KEY.format(indices[x])) for x in variables}
    try:
        values = [
            replay_file.cast(saved[name], variable.dtype.as_numpy_dtype, name)
            for name, variable in variables.items()
        ]
    except ValueError as error:
        raise _misfit(path, str(error)) from error
    for variable, value in zip(variables.values(), values, strict=True):
        variable.assign(value)


def _candidates(folder: Path, which: str | int) -> list[int]:
    """Return the steps to try, in this order, including damaged ones."""
    which = runs.checkpoint(folder.parent, which)
    steps = files.steps(folder)[::-1]
    if which == "newest":
        return steps
    if which == "best":
        best = [step for step in steps if _marked(folder, step, "best")]
        if not best:
            raise UserError(
                f"no checkpoint in {folder.parent} is marked best; only evaluation "
                "during training marks one, and on logged rows only if their gain is "
                "known; use newest"
            )
        return best
    return [int(which)]


def _marked(folder: Path, step: int, mark: str) -> bool:
    try:
        manifest = _manifest(files.step_folder(folder, step), step)
        return manifest["metadata"].get(mark) is True
    except (Damaged, UserError):  # a newer format is reported by loading
        return False


def _flat(variables: Mapping[str, Any]) -> dict[str, tf.Variable]:
    """Return the ``tf.Variable`` of every variable, sorted by name.

    Raises:
      ValueError: if a variable has two names; TensorFlow would store it only once.
    """
    flat: dict[str, tf.Variable] = {}
    names: dict[int, str] = {}
    for name, variable in sorted(variables.items()):
        inner = variable if isinstance(variable, tf.Variable) else variable.value
        other = names.setdefault(id(inner), name)
        if other != name:
            raise ValueError(f"{other} and {name} are one variable; pass it once")
        flat[name] = inner
    return flat


def _describe(variable: tf.Variable) -> dict:
    return {"shape": variable.shape.as_list(), "dtype": variable.dtype.name}


def _fingerprint(path: Path, expected: int | None = None) -> dict:
    """Return the size and the hash of a file; a link or a pipe is damage.

    A file whose size is not the ``expected`` one is not read.
    """
    try:
        with files.open_to_read(path) as file:
            size = os.fstat(file.fileno()).st_size
            if expected is not None and size != expected:
                return {"size": size}
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            return {"size": file.tell(), "sha256": digest}
    except (OSError, UserError) as error:
        raise Damaged(f"{path.name} cannot be read: {error}") from error


def _inside(name: str) -> PurePosixPath:
    """Return a file name of a manifest after checking that it has no folder."""
    path = PurePosixPath(name)
    if len(path.parts) != 1 or name in ("", ".", "..") or "\\" in name:
        raise Damaged(f"the manifest names {name!r}, which is not a file in the folder")
    return path
