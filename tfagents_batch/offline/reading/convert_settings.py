"""Settings of a conversion: the meaning of the columns of an ordinary table."""

from __future__ import annotations

import dataclasses
from typing import Literal, NamedTuple

from tfagents_batch.config import option


@dataclasses.dataclass(frozen=True)
class ConvertSettings:
    """Columns of a table of decisions, and of a table of rewards."""

    action: str = option("", "column of the action; required", group="decisions")
    features: tuple[str, ...] = option(
        (),
        "columns that describe a decision: numbers, or names of --categories",
        group="decisions",
    )
    categories: tuple[str, ...] = option(
        (),
        "columns of names, such as countries; others than features are added",
        group="decisions",
    )
    episode: str | None = option(
        None,
        "column of the episode, such as the user; none: each row is one",
        group="decisions",
    )
    order: str | None = option(
        None,
        "column of times or numbers that order an episode; none: as in the file",
        group="decisions",
    )
    probability: str | None = option(
        None,
        "column of the probability with which the action was chosen",
        group="decisions",
    )
    reward: str | None = option(
        None, "column of the reward, in --rewards if given", group="decisions"
    )
    terminated: str | None = option(
        None, "column of whether the episode ended with this row", group="decisions"
    )
    id: str | None = option(
        None, "column of the decision's own id, each once", group="decisions"
    )
    on_duplicate: Literal["error", "first", "keep"] = option(
        "error",
        "rows of the same time stamp that are equal in all that is read: error, or "
        "those that are kept: the first ones, or all",
        group="decisions",
    )
    nulls: tuple[str, ...] = option(
        ("NULL", "null", "\\N", "NaN", "nan"),
        "texts of a CSV file that are no value",
        group="decisions",
    )
    max_categories: int = option(
        1000, "most names in a column of categories", least=2, group="decisions"
    )
    default_reward: float = option(
        0.0, "reward of decisions without one", group="decisions"
    )
    rewards: tuple[str, ...] = option(
        (), "files of rewards that came later", group="rewards"
    )
    reward_id: str | None = option(
        None,
        "column of the decision's id there; none: the last decision before it counts",
        group="rewards",
    )
    reward_episode: str | None = option(
        None, "column of the episode there; none: the same name", group="rewards"
    )
    reward_time: str | None = option(
        None, "column of the time there; none: the name in --order", group="rewards"
    )
    window: float | None = option(
        None,
        "seconds in which a reward counts; younger decisions are left out; none: any",
        above=0,
        group="rewards",
    )


class Column(NamedTuple):
    """A column that became a feature, whose id is its position."""

    name: str  # name of the column
    # Names whose numbers are their positions; None for a number
    categories: tuple[str, ...] | None = None
