"""Policies that are evaluated from logged rows: those of runs, and functions."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
import tensorflow as tf

from tfagents_batch import config
from tfagents_batch.errors import UserError
from tfagents_batch.evaluation import counterfactual, fitted_q
from tfagents_batch.evaluation.counterfactual import Candidate, Normalize
from tfagents_batch.evaluation.episode_rows import EVERY, Judges
from tfagents_batch.evaluation.fitting import EvaluationSettings
from tfagents_batch.evaluation.result import OfflineEvaluation
from tfagents_batch.features.layout import layout
from tfagents_batch.logged import seen, table_settings
from tfagents_batch.logged.table import MASK, PRESENCE, STATE
from tfagents_batch.offline import table_reader
from tfagents_batch.offline.features import twin
from tfagents_batch.offline.table_reader import Columns, Partition
from tfagents_batch.serving.decision_function import DecisionFunction
from tfagents_batch.serving.export import Origin, origin_of
from tfagents_batch.tracing import anew
from tfagents_batch.training import playing
from tfagents_batch.training.run_folder import runs
from tfagents_batch.types import EnvSpec

_ROWS = 8192  # of a call


def evaluate_offline(
    policy: str | os.PathLike[str] | Any | Callable,
    data: str | os.PathLike[str],
    *,
    exploration: float = 0.0,
    checkpoint: str | int = "newest",
    settings: Mapping[str, Any] | None = None,
    say: Callable[[str], Any] = lambda text: None,
) -> OfflineEvaluation:
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
      UserError: if the policy does not fit the rows, or they allow no evaluation.
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
) -> Iterator[Callable[[Callable[[str], Any]], OfflineEvaluation]]:
    """Open what ``evaluate_offline`` needs, and check it; yield what evaluates."""
    timeline = table_reader.partition(data)
    judges = _judges(policy, timeline)
    counterfactual.check(timeline, settings, judges)
    normalize = _normalize(timeline)
    with _candidate(policy, timeline, exploration, checkpoint) as candidate:

        def evaluated(say: Callable[[str], Any]) -> OfflineEvaluation:
            fits = fitted_q.Fit, normalize
            result = counterfactual.evaluate(
                timeline, candidate, settings, *fits, say, judges
            )
            step = getattr(candidate, "step", None)
            facts = {"exploration": exploration, "step": step, **result.facts}
            return dataclasses.replace(result, facts=facts)

        yield evaluated


@contextlib.contextmanager
def _candidate(
    policy: Any, timeline: Partition, exploration: float, checkpoint: str | int
) -> Iterator[Candidate]:
    folder = _folder(policy)
    if folder is None:
        yield Function(policy)
        return
    run = playing.trained(folder, checkpoint=checkpoint, plays=False)
    origin, name = origin_of(run), run.run.folder.name
    with playing.loaded(run, run.spec) as (agent, step):
        decide = DecisionFunction(agent.policy, run.spec, step, exploration)
        yield Served(decide, run.spec, timeline, origin, name, step)


def _folder(policy: Any) -> str | os.PathLike[str] | None:
    """Return the folder of a run; None for a function."""
    folder = getattr(policy, "logdir", policy)
    return folder if isinstance(folder, (str, os.PathLike)) else None


def _judges(policy: Any, timeline: Partition) -> Judges:
    """Return the rows for evaluation that the training of a policy has not seen."""
    folder, where = _folder(policy), None
    if folder is None:
        return EVERY
    run = runs.open_run(folder).folder
    records = runs.training_rows(run)
    if isinstance(records, list) and None not in records:
        trainings = [seen.from_dict(x, f"{run}/run.json") for x in records]
        where = seen.unseen(timeline, trainings)
    if where is None:
        return EVERY._replace(origin="unknown")
    return Judges(where, "unseen" if records else "no rows")


def _normalize(timeline: Partition) -> Normalize | None:
    """Return the normalization of the table's features, or None."""
    known = table_settings.newest(timeline.folder).preprocessing()
    if known is None:
        return None
    return functools.partial(twin.normalize, layout(*known))


class Served:
    """Probabilities of the actions of an exported policy, an ``evaluate.Candidate``.

    UserError if the policy cannot decide on these rows.

    Args:
      decide: the function of the export.
      spec: spaces of the policy's environments.
      timeline: the rows.
      origin: names of the policy's actions and ids of its features.
      name, step: of the run and its checkpoint, for reports.
    """

    def __init__(
        self,
        decide: DecisionFunction,
        spec: EnvSpec,
        timeline: Partition,
        origin: Origin,
        name: str,
        step: int,
    ):
        self.name, self.step = name, step
        self._places, self._own = _places(spec, timeline, origin.actions)
        self._columns = _columns(spec, timeline, origin.features)
        if any(x.role == "state" for x in decide.inputs):
            raise UserError(
                "the policy has a memory of earlier decisions; a policy that decides "
                "by the state alone can be evaluated from logged rows"
            )
        self._inputs = decide.inputs
        self._decide = tf.function(anew(decide.decide), autograph=False)

    def probabilities(self, columns: Columns, part: str) -> np.ndarray:
        """Return the probabilities of the log's actions, f32 ``[N, A]``."""
        size = len(columns["reward"])
        blocks = [
            self._block({k: x[i : i + _ROWS] for k, x in columns.items()}, part)
            for i in range(0, size, _ROWS)
        ]
        return np.concatenate(blocks) if blocks else np.zeros([0, len(self._places)])

    def _block(self, columns: Columns, part: str) -> np.ndarray:
        size = len(columns["reward"])
        raw = columns[f"{part}state"][:, self._columns]
        parts = {
            STATE: np.nan_to_num(raw),
            PRESENCE: ~np.isnan(raw),
            MASK: columns[f"{part}mask"][:, self._own],
        }
        inputs = {}
        for field in self._inputs:
            # Probabilities do not depend on the noise that would draw an action.
            x = np.zeros([size, *field.shape])
            if field.role == "observation":
                x = parts[field.path[0] if field.path else STATE]
            padded = np.concatenate([x, x[:1].repeat(_ROWS - size, 0)])  # one shape
            inputs[field.name] = tf.constant(padded.astype(field.dtype))
        probabilities = self._decide(inputs)["probabilities"].numpy()[:size]
        none = np.zeros([size, 1], probabilities.dtype)  # of other actions
        return np.hstack([probabilities, none])[:, self._places]


class Function:
    """Probabilities of a function of the user's, an ``evaluate.Candidate``."""

    def __init__(self, function: Callable[[np.ndarray, np.ndarray], np.ndarray]):
        self.name = getattr(function, "__name__", "function")
        self._function = function

    def probabilities(self, columns: Columns, part: str) -> np.ndarray:
        """Return the probabilities of the log's actions, f64 ``[N, A]``."""
        mask = columns[f"{part}mask"]
        mask = mask | ~mask.any(1, keepdims=True)  # after the end nothing is possible
        # Nothing follows terminal rows, so no decision is asked for there.
        used = ~columns["terminated"] if part else np.ones(len(mask), bool)
        probabilities = mask / mask.sum(1, keepdims=True)
        if used.any():
            probabilities[used] = self._asked(columns[f"{part}state"][used], mask[used])
        return probabilities

    def _asked(self, state: np.ndarray, mask: np.ndarray) -> np.ndarray:
        """Return what the function says, checked."""
        probabilities = np.asarray(self._function(state, mask), np.float64)
        if probabilities.shape != mask.shape:
            raise UserError(
                f"{self.name} returned the shape {list(probabilities.shape)}; expected "
                f"a probability of every action, {list(mask.shape)}"
            )
        sums_are_1 = np.allclose(probabilities.sum(1), 1, atol=1e-4)
        if not (sums_are_1 and (probabilities >= 0).all()):
            raise UserError(
                f"{self.name} returned numbers that are no probabilities; expected "
                "numbers that are at least 0 and whose sum is 1 in every row, also "
                "where features are missing (NaN)"
            )
        if (probabilities * ~mask).any():
            raise UserError(
                f"{self.name} returned a probability above 0 for an action that was "
                "not possible; expected 0 there"
            )
        return probabilities


def _places(
    spec: EnvSpec, timeline: Partition, actions: Sequence[str]
) -> tuple[list[int], list[int]]:
    """Return the policy's number of each action of the log, -1 if it has none, and the
    log's number of each action of the policy."""
    space = spec.action_space
    if not isinstance(space, gym.spaces.Discrete):
        raise UserError(
            f"the policy's action space is {space}; expected Discrete actions"
        )
    names = list(actions) or [str(space.start + i) for i in range(int(space.n))]
    logged = list(timeline.schema.actions)
    if unknown := [x for x in names if x not in logged]:
        raise UserError(
            f"the policy can take {', '.join(unknown)}, which no row of "
            f"{timeline.folder} has; the actions there are {', '.join(logged)}. "
            "Nothing is known of what follows other actions; log decisions with all of "
            "them"
        )
    places = [names.index(x) if x in names else -1 for x in logged]
    return places, [logged.index(x) for x in names]


def _columns(spec: EnvSpec, timeline: Partition, features: Sequence[int]) -> list[int]:
    """Return the column of each of the policy's features."""
    space = spec.observation_space
    parts = space.spaces if isinstance(space, gym.spaces.Dict) else {STATE: space}
    known = {STATE, PRESENCE, MASK}
    shape = getattr(parts.get(STATE), "shape", None) or ()
    if set(parts) - known or len(shape) != 1:
        raise UserError(
            f"the policy's observations are {space}; expected numbers of one row of "
            "features, with or without a mask of actions"
        )
    ids = list(features) or list(range(shape[0]))
    logged = list(timeline.schema.features)
    if unknown := [str(x) for x in ids if x not in logged]:
        raise UserError(
            f"the policy uses the features {', '.join(unknown)}, which no row of "
            f"{timeline.folder} has; evaluate it on rows with the features of its "
            "training"
        )
    return [logged.index(x) for x in ids]
