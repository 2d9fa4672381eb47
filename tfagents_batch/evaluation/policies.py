"""Evaluation of a trained agent from logged rows."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tfagents_batch import config
from tfagents_batch.evaluation import evaluate, fitted_q
from tfagents_batch.evaluation.candidate import Function, Served
from tfagents_batch.evaluation.evaluate import Candidate, Normalize
from tfagents_batch.evaluation.logged_rows import EVERY, Judges
from tfagents_batch.evaluation.result import Evaluation
from tfagents_batch.evaluation.settings import EvaluationSettings
from tfagents_batch.features.layout import layout
from tfagents_batch.logged import seen, table_settings
from tfagents_batch.offline import table_reader
from tfagents_batch.offline.features import twin
from tfagents_batch.offline.table_reader import Partition
from tfagents_batch.serving import exporting
from tfagents_batch.serving.signature import Signature
from tfagents_batch.training import playing
from tfagents_batch.training.run_folder import runs


def evaluate_offline(
    policy: str | os.PathLike[str] | Any | Callable,
    data: str | os.PathLike[str],
    *,
    exploration: float = 0.0,
    checkpoint: str | int = "newest",
    settings: Mapping[str, Any] | None = None,
    say: Callable[[str], Any] = lambda text: None,
) -> Evaluation:
    """Estimate from logged rows what a policy is worth, before it acts.

        result = tfb.evaluate_offline("logs/<run>", "table")
        print(result.estimates["wsdr"]["reward"].value)

    Args:
      policy: a run, or its folder; or a function from states f32 ``[N, F]`` (NaN where
        a feature is missing) and flags bool ``[N, A]`` of possible actions to
        probabilities ``[N, A]``. Features and actions are in the order of the table's
        ``_manifest.json``. A run is judged by episodes that its training has not seen;
        a function must not have been made from the rows for evaluation.
      data: folder of a timeline with one reward in each sample, which
        ``tfagents-batch timeline`` writes.
      exploration: share of random decisions, as in ``export``; of a run only.
      checkpoint: "newest", "best" or a step; of a run only.
      settings: settings of ``EvaluationSettings`` that differ from the defaults.
      say: called with a line when a part begins.

    Raises:
      UserError: if the policy does not fit the rows, or they do not allow an
        evaluation.
    """
    checked = config.replace(EvaluationSettings(), dict(settings or {})).check()
    with opened(policy, data, exploration, checkpoint, checked) as evaluated:
        return evaluated(say)


@contextlib.contextmanager
def opened(
    policy: Any,
    data: str | os.PathLike[str],
    exploration: float,
    checkpoint: str | int,
    settings: EvaluationSettings,
) -> Iterator[Callable[[Callable[[str], Any]], Evaluation]]:
    """Open and check all that an evaluation needs; yield what evaluates, with ``say``.

    For arguments and errors see ``evaluate_offline``.
    """
    found = table_reader.partition(data)
    judges = _judges(policy, found)
    evaluate.check(found, settings, judges)
    normalize = _normalize(found)
    with _candidate(policy, found, exploration, checkpoint) as candidate:

        def evaluated(say: Callable[[str], Any]) -> Evaluation:
            result = evaluate.evaluate(
                found, candidate, settings, fitted_q.Fit, normalize, say, judges
            )
            step = getattr(candidate, "step", None)
            facts = {"exploration": exploration, "step": step}
            return dataclasses.replace(result, facts=facts | dict(result.facts))

        yield evaluated


@contextlib.contextmanager
def _candidate(
    policy: Any, found: Partition, exploration: float, checkpoint: str | int
) -> Iterator[Candidate]:
    folder = _folder(policy)
    if folder is None:
        yield Function(policy)
        return
    run = playing.trained(folder, None, None, None, None, plays=False)
    origin = exporting.origin(run)
    with playing.loaded(run, run.spec, None, checkpoint) as (agent, step):
        names = origin.actions, origin.features
        name = run.run.folder.name
        signature = Signature(agent.policy, run.spec, step, exploration)
        yield Served(signature, run.spec, found, *names, name, step)


def _folder(policy: Any) -> str | os.PathLike[str] | None:
    """Return the folder of a run; None for a function."""
    folder = getattr(policy, "logdir", policy)
    return folder if isinstance(folder, (str, os.PathLike)) else None


def _judges(policy: Any, found: Partition) -> Judges:
    """Return the rows for evaluation that the training of a policy has not seen."""
    folder = _folder(policy)
    if folder is None:
        return EVERY
    run = runs.open_run(folder).folder
    records = runs.training_rows(run)
    if not isinstance(records, list) or None in records:
        return EVERY._replace(origin="unknown")
    where = seen.unseen(found, [seen.from_dict(x, f"{run}/run.json") for x in records])
    if where is None:
        return EVERY._replace(origin="unknown")
    return Judges(where, "unseen" if records else "no rows")


def _normalize(found: Partition) -> Normalize | None:
    """Return the normalization of the table's features, or None."""
    known = table_settings.newest(found.folder).preprocessing()
    if known is None:
        return None
    return functools.partial(twin.normalize, layout(*known))
