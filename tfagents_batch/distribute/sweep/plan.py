"""Plan of a sweep: what is searched, what is fixed and what counts."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from tfagents_batch.distribute.sweep.search import Space
from tfagents_batch.errors import UserError


@dataclasses.dataclass(frozen=True)
class Plan:
    """Plan of a sweep, which does not change when the sweep is resumed.

    Attributes:
      fixed: flags of every training, as text by name.
      search: the search space, by the names of the flags.
      metric: name of the metric in ``metrics.jsonl`` that counts.
      goal: whether larger or smaller values are better.
      value: the last value of a training, or its best.
      seed: seed of the first training of each trial.
      seeds_per_trial: trainings per trial; the trial's value is their mean.
    """

    fixed: Mapping[str, str]
    search: Space
    metric: str = "eval/return_mean"
    goal: Literal["max", "min"] = "max"
    value: Literal["last", "best"] = "last"
    seed: int = 0
    seeds_per_trial: int = 1

    def flags(self, values: Mapping[str, Any], seed: int | None = None) -> list[str]:
        """Return the flags of a training.

        Args:
          values: those of the searched flags.
          seed: seed of the training; None is the first one.
        """
        text = {name: str(value) for name, value in values.items()}
        seed = self.seed if seed is None else seed
        found = {**self.fixed, **text, "seed": seed}
        names = sorted(found, key=lambda name: name != "config")  # it comes first
        return [f"--{name}={found[name]}" for name in names]

    def distributions(self) -> dict[str, Any]:
        """Return the search space as Optuna describes it."""
        return {name: each.distribution() for name, each in self.search.items()}

    def value_of(self, series: Sequence[float]) -> float:
        """Return the value of one training from its values of the metric."""
        if self.value == "last":
            return series[-1]
        return max(series) if self.goal == "max" else min(series)

    def to_json(self) -> str:
        """Return the plan as text, to be compared with that of a folder."""
        plain = dataclasses.asdict(dataclasses.replace(self, search={}))
        plain["search"] = {name: str(each) for name, each in self.search.items()}
        return json.dumps(plain)

    def require_same(self, stored: str, folder: Any) -> None:
        """Refuse a folder whose sweep has another plan.

        Raises:
          UserError: with the first difference.
        """
        mine, theirs = _flat(self.to_json()), _flat(stored)
        for name in [*mine, *theirs]:
            if mine.get(name) != theirs.get(name):
                has, wanted = (each.get(name, "none") for each in (theirs, mine))
                raise UserError(
                    f"{folder} holds another sweep: its {name} is {has}, not {wanted}; "
                    "pass the same flags to go on with it, or another --logdir"
                )


def _flat(text: str) -> dict[str, str]:
    """Return the parts of a plan by the flags that set them."""
    plain = json.loads(text)
    fixed = {f"--{name}": value for name, value in plain.pop("fixed").items()}
    search = {f"--search={k}": value for k, value in plain.pop("search").items()}
    return fixed | search | {f"--{name}": str(value) for name, value in plain.items()}
