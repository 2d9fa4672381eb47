"""Episodes that training has seen, so that others judge its policy.

The key of an episode is a hash of its id. A range of keys therefore says which episodes
a run has seen in its own timeline, and also in a later one of the same log. Half of the
episodes for evaluation are seen, too: training reports on them, and they choose the
best checkpoint. The others are left for the decision whether to deploy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tfagents_batch.errors import UserError
from tfagents_batch.offline import table_reader
from tfagents_batch.offline.table_reader import EVALUATE, TRAIN, Partition
from tfagents_batch.offline.timeline_config import TimelineConfig
from tfagents_batch.offline.timeline_sql import key_of_episode

_CHECKED = 1000  # rows whose keys are computed again


class Keys(NamedTuple):
    """Range of keys of episodes, inclusive."""

    low: int
    high: int

    @property
    def sql(self) -> str:
        """SQL condition of the rows of these episodes."""
        return f"mdp_key BETWEEN {int(self.low)} AND {int(self.high)}"


class Seen(NamedTuple):
    """Episodes that one training has seen."""

    fingerprint: str  # of the timeline
    # Text before the ids in the hash; None if the keys are no such hashes
    salt: str | None
    trained: Keys  # keys of the episodes that it learned from
    # Keys of the episodes for evaluation that it reported on; None if there are none
    reported: Keys | None


def reported(timeline: Partition) -> Keys | None:
    """Return the keys of the lower half of the episodes for evaluation, or None."""
    of_evaluation = f"FILTER (WHERE split = '{EVALUATE}')"
    bounds = "min(mdp_key)", "quantile_disc(DISTINCT mdp_key, 0.5)"
    low, high = table_reader.facts(timeline, *(f"{x} {of_evaluation}" for x in bounds))
    return None if low is None else Keys(int(low), int(high))


def of_timeline(timeline: Partition) -> dict[str, Any]:
    """Return what training on a timeline sees, as JSON can hold it."""
    salt = timeline.manifest["config"]["salt"]
    key = key_of_episode(TimelineConfig(salt=salt))
    # Samples that another program made may have keys of their own.
    some = f"(SELECT mdp_key, mdp_id FROM {timeline.table} LIMIT {_CHECKED})"
    (hashed,) = table_reader.facts_of(timeline, some, f"bool_and(mdp_key = {key})")
    of_training = f"FILTER (WHERE split = '{TRAIN}')"
    bounds = (f"{x}(mdp_key) {of_training}" for x in ("min", "max"))
    low, high = (int(x or 0) for x in table_reader.facts(timeline, *bounds))
    salt, trained = salt if hashed else None, Keys(low, high)
    return Seen(timeline.fingerprint, salt, trained, reported(timeline))._asdict()


def from_dict(record: Mapping[str, Any], where: str) -> Seen:
    """Return what ``of_timeline`` has written; UserError if it is something else."""
    try:
        ranges = [
            None if record[x] is None else Keys(*map(int, record[x]))
            for x in ("trained", "reported")
        ]
        salt = record["salt"]
        if not isinstance(salt, str | None) or ranges[0] is None:
            raise TypeError("no ranges of keys")
        return Seen(str(record["fingerprint"]), salt, *ranges)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise UserError(
            f"{where} has training_rows that cannot be read ({error!r}); expected what "
            "training wrote there. Train the policy again"
        ) from None


def unseen(timeline: Partition, runs: Sequence[Seen]) -> str | None:
    """Return the SQL condition of rows for evaluation that no training has seen.

    None if it is not known which these are. ``runs`` are what was seen by each training
    that the policy went through.
    """
    terms = [f"split = '{EVALUATE}'"]
    salt = of_timeline(timeline)["salt"]
    for run in runs:
        if run.fingerprint != timeline.fingerprint:
            if salt is None or run.salt != salt:
                return None
            terms.append(f"NOT ({run.trained.sql})")
        if run.reported is not None:
            terms.append(f"NOT ({run.reported.sql})")
    return " AND ".join(terms)
