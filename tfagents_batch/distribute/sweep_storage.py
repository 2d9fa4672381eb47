"""Folder of a sweep: its lock, and the study of Optuna in SQLite."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tfagents_batch.distribute.sweep_search import SearchPlan
from tfagents_batch.errors import SaveError, UserError, no_folder
from tfagents_batch.training.run_folder import runs

FILE = "study.db"
NAME = "sweep"  # of the study
_PLAN = "flags"  # attribute of the study
_ENQUEUED = "fixed_params"  # Optuna's attribute of a trial that waited
CUT_OFF = "cut_off"  # attribute of a trial whose sweep ended before it
_LOCKED_SECONDS = 30  # how long SQLite waits for another program, such as a dashboard
_PRIME = 7919  # keeps seeds of the sampler apart


def require_optuna() -> None:
    """Raise a UserError if Optuna is missing."""
    if importlib.util.find_spec("optuna") is None:
        raise UserError('sweeps need Optuna: pip install "tfagents_batch[tune]"')


@contextlib.contextmanager
def opened(folder: Path, plan: SearchPlan, prune: bool = True) -> Iterator[Any]:
    """Lock the folder of a sweep, which may be new, and yield its study.

    Trials that an earlier process left unfinished are marked as failed, and their
    values wait to be tried again. ``prune`` stops trials below the median.

    Raises:
      UserError: if Optuna is missing, another process has locked the folder, or the
        folder has another plan or a file that is no study.
      SaveError: if the study cannot be written.
    """
    require_optuna()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise no_folder(folder, error, "--logdir") from error
    with (
        runs.lock(folder, "folder"),
        _readable(folder / FILE),
        _connected(folder / FILE) as storage,
    ):
        study = _study(storage, folder, plan, prune)
        _again(storage, study)
        yield study


def counted(study: Any) -> list[Any]:
    """Return the trials of a study that have ended and count, in their order."""
    return [
        trial
        for trial in study.get_trials(deepcopy=False)
        if trial.state.is_finished() and CUT_OFF not in trial.user_attrs
    ]


def _study(storage: Any, folder: Path, plan: SearchPlan, prune: bool) -> Any:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    summaries = optuna.get_all_study_summaries(storage, include_best_trial=False)
    own = next((summary for summary in summaries if summary.study_name == NAME), None)
    if summaries and (own is None or (own.n_trials and _PLAN not in own.user_attrs)):
        raise UserError(
            f"{folder / FILE} has a study of Optuna that this command did not make; "
            "pass another --logdir"
        )
    pruner: Any = optuna.pruners.NopPruner()
    if prune:
        pruner = optuna.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=2)
    direction = "maximize" if plan.goal == "max" else "minimize"
    options = {"study_name": NAME, "direction": direction, "load_if_exists": True}
    study = optuna.create_study(storage=storage, pruner=pruner, **options)
    trials = study.get_trials(deepcopy=False)
    if _PLAN in study.user_attrs:
        plan.require_same(study.user_attrs[_PLAN], folder)
    else:
        study.set_user_attr(_PLAN, plan.by_flag())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Optuna 4: constant_liar is experimental
        # A resumed study must not draw its first random values again.
        seed = (int(plan.fixed.get("seed", 0)) + _PRIME * len(trials)) % 2**31
        study.sampler = optuna.samplers.TPESampler(seed=seed, constant_liar=True)
    return study


def _again(storage: Any, study: Any) -> None:
    """End the trials that a process left unfinished, and enqueue their values."""
    from optuna.trial import TrialState

    for trial in study.get_trials(deepcopy=False, states=[TrialState.RUNNING]):
        waited = trial.system_attrs.get(_ENQUEUED, {})
        study.enqueue_trial(waited | trial.params)  # first: twice is better than never
        storage.set_trial_user_attr(trial._trial_id, CUT_OFF, True)
        study.tell(trial.number, state=TrialState.FAIL)


@contextlib.contextmanager
def _connected(path: Path) -> Iterator[Any]:
    import optuna
    from sqlalchemy import URL

    url = URL.create("sqlite", database=os.fspath(path.absolute()))
    options = {"connect_args": {"timeout": _LOCKED_SECONDS}}
    name = url.render_as_string()
    try:
        storage = optuna.storages.RDBStorage(name, engine_kwargs=options)
    except RuntimeError as error:
        raise UserError(
            f"{path} is of a version of Optuna other than the installed "
            f"{optuna.__version__}; install that one, or pass another --logdir"
        ) from error
    try:
        yield storage
    finally:
        storage.remove_session()
        storage.engine.dispose()


@contextlib.contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Turn errors of SQLite and Optuna into errors that say what to do."""
    from optuna.exceptions import OptunaError
    from sqlalchemy.exc import DatabaseError, OperationalError

    try:
        yield
    except (OptunaError, OperationalError) as error:
        raise SaveError(
            f"{path} cannot be written: {error.__cause__ or error}; check its "
            "permissions and the disk, then start the same command again"
        ) from error
    except DatabaseError as error:
        raise UserError(
            f"{path} cannot be read: {error.orig}; pass another --logdir"
        ) from error
