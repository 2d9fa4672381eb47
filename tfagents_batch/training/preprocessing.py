"""Normalization of features in a run: where it is from, and who uses it.

Rows are normalized when they are loaded, so the algorithm of a run learns from
normalized features. Who plays its agent has raw ones: evaluations, videos,
``load(run).predict`` and exports use the agent that ``Preprocessing.player`` returns.
"""

from __future__ import annotations

import functools
import os
from typing import Any, NamedTuple

from tfagents_batch.errors import UserError
from tfagents_batch.features import specification
from tfagents_batch.features.layout import layout
from tfagents_batch.features.specification import Specification
from tfagents_batch.interfaces import Algorithm
from tfagents_batch.nn.layers.feature_normalizer import FeatureNormalizer
from tfagents_batch.nn.policies.preprocessed import (
    Player,
    Preprocessed,
    normalized_space,
)
from tfagents_batch.training.run_folder import runs
from tfagents_batch.types import EnvSpec

_KEY = "features"  # of run.json


class Preprocessing(NamedTuple):
    """Normalization of the features of a run, or none."""

    # Types and parameters; None if features are not normalized
    specification: Specification | None = None
    ids: tuple[int, ...] = ()  # id of each raw column

    def seen(self, spec: EnvSpec) -> EnvSpec:
        """Return the spec of what the algorithm sees of raw observations."""
        if self.specification is None:
            return spec
        sizes = len(self.ids), layout(self.specification, self.ids).size
        space = normalized_space(spec.observation_space, *sizes)
        return spec._replace(observation_space=space)

    def player(self, algorithm: Algorithm) -> Algorithm | Player:
        """Return the agent that takes raw observations of what the actor sees."""
        if self.specification is None:
            split = getattr(algorithm.policy, "of_value", None)
            return Player(algorithm, lambda x: x.alone()) if split else algorithm
        layer = functools.partial(FeatureNormalizer, self.specification, self.ids)
        return Player(algorithm, lambda policy: Preprocessed(policy, layer()))

    def remarks(self) -> list[str]:
        """Return a note of numbers that an old specification leaves large."""
        if self.specification is None:
            return []
        version, known = self.specification.version, specification.STANDARDIZED
        large = set(known[specification.VERSION]) - set(known[version])
        features = self.specification.features.items()
        ids = [str(i) for i, x in features if x.feature_type in large]
        if not ids:
            return []
        shown = ", ".join(ids[:5]) + ", ..." * (len(ids) > 5)
        return [
            f"note: the specification of features has version {version}, which does "
            f"not standardize the features {shown}: their log odds and "
            "logarithms can be as large as 11.5, from which networks learn badly; "
            "write it again with tfagents-batch features"
        ]

    def facts(self) -> dict[str, Any]:
        """Return entries of run.json."""
        if self.specification is None:
            return {}
        content = {
            "sha256": self.specification.sha256,
            "ids": list(self.ids),
            "specification": specification.to_dict(self.specification),
        }
        return {_KEY: content}


def of_source(source: Any) -> Preprocessing:
    """Return the normalization of a source of experience."""
    parts = getattr(source, "preprocessing", lambda: None)()
    return Preprocessing() if parts is None else Preprocessing(*parts)


def of_run(folder: str | os.PathLike) -> Preprocessing:
    """Return the normalization of a run, whose hash is the one that was written."""
    content = runs.facts(folder).get(_KEY)
    if content is None:
        return Preprocessing()
    where = f"the specification of features in {folder}/run.json"
    saved = specification.from_dict(content["specification"], where)
    if saved.sha256 != content["sha256"]:
        raise UserError(
            f"{where} has the hash {saved.sha256[:12]}..., but the run was trained "
            f"with {content['sha256'][:12]}...: the file was changed; restore it from "
            "a copy of the run"
        )
    return Preprocessing(saved, tuple(content["ids"]))


def check_same(folder: str | os.PathLike, own: Preprocessing, what: str) -> None:
    """Refuse a run that normalizes otherwise than the one whose weights it takes."""
    its = of_run(folder)
    if _text(its) != _text(own):
        raise UserError(
            f"{what} features are normalized by {_text(its)}, but this run's by "
            f"{_text(own)}; pass the same --table.features"
        )


def _text(normalization: Preprocessing) -> str:
    if normalization.specification is None:
        return "no specification"
    return (
        f"the specification with the hash {normalization.specification.sha256[:12]}..."
    )
