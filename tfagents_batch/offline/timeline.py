"""Timeline: samples of a step, with its next row, from logged rows.

The samples replace one partition of a table as a whole::

    with reader.open_rows("logs/") as rows:
        summary = build(rows, rows.find_schema(), TimelineConfig(), "table/")
    print(summary.text())
"""

from __future__ import annotations

import dataclasses
import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfagents_batch.errors import UserError
from tfagents_batch.features.layout import layout
from tfagents_batch.features.specification import Specification
from tfagents_batch.offline import manifest, publish
from tfagents_batch.offline.features import specification
from tfagents_batch.offline.reading import files
from tfagents_batch.offline.schema import Schema
from tfagents_batch.offline.timeline_checks import (
    check_metrics,
    check_rows,
    check_samples,
)
from tfagents_batch.offline.timeline_config import TimelineConfig, checked
from tfagents_batch.offline.timeline_sql import (
    EPISODES,
    INPUT,
    OUTPUT,
    ROWS,
    UNFLAGGED,
    Generator,
)

if TYPE_CHECKING:
    from tfagents_batch.offline.reader import LoggedRows
    from tfagents_batch.offline.reading.spark_rows import SparkRows

ROW_GROUP = 65536  # rows
_USUAL = 0.1  # of the episodes, with which a first sequence_number is usual
Progress = Callable[[float, str], None]


@dataclasses.dataclass(frozen=True)
class TimelineSummary:
    """Counts of a timeline that was written."""

    folder: Path  # folder of the partition
    read: int  # rows that were read
    dropped: dict[str, int]  # how many of them are no sample, by reason
    samples: int  # samples that were written
    episodes: int  # episodes with a sample
    terminals: int  # episodes of these with a sample whose next state is terminal
    notices: tuple[str, ...] = ()  # what the user should know, a line each

    def text(self) -> str:
        """Return the summary as lines."""
        rows = {
            "rows read": self.read,
            **{f"  {why}": -count for why, count in self.dropped.items() if count},
            "samples": self.samples,
            "episodes": self.episodes,
            "  with a terminal state": self.terminals,
        }
        width = max(map(len, rows))
        lines = [f"{name:{width}}  {count:>13,}" for name, count in rows.items()]
        return "\n".join([*lines, *(f"note: {x}" for x in self.notices)])


def build(
    rows: LoggedRows | SparkRows,
    schema: Schema,
    config: TimelineConfig,
    output: str | os.PathLike[str],
    progress: Progress | None = None,
    features: Specification | None = None,
) -> TimelineSummary:
    """Write the samples of rows as partition ``end_ds`` of a table.

    The folder ``<output>/ds=<end_ds>`` appears, or is replaced, as a whole and only if
    everything succeeded.

    Args:
      rows: open rows. The timeline runs in their engine.
      schema: what the rows contain; the order of its actions is that of their numbers.
      config: settings.
      output: folder of the table.
      progress: called with the part that is done (0 to 1) and the current work.
      features: specification of features for those who learn from the samples.

    Raises:
      UserError: if the rows cannot be ordered, an action is not in the schema, no
        sample is left, ``validation_sql`` refuses the samples, those of the newest
        partition differ in kind, a file changed while it was read, the specification
        has a feature that the rows do not have, or the folder has files that would be
        lost: rows that are read, or those of a partition that no timeline wrote.
      SaveError: if a file cannot be written.
    """
    config, output = checked(config), Path(output)
    if rows.mode != schema.mode:
        raise UserError(
            f"the rows are {rows.mode} and the schema is {schema.mode}; expected the "
            "same mode"
        )
    files.check_outside(output, (file.path for file in rows.files))
    check_metrics(schema, config)
    if features is not None:
        layout(features, schema.features)  # which checks the ids
    work = _Work(rows, schema, config, progress or (lambda part, text: None))
    try:
        work.read()
        config = work.config  # with its end_ds
        target = publish.partition(output, config.end_ds)
        manifest.check_target(target)
        manifest.check_change(output, schema, config, features is not None)
        with publish.staging(target, manifest.check_target) as staged:
            work.write(staged)
            rows.check_unchanged()
            if config.validation_sql is not None:
                check_samples(rows.engine, config.validation_sql)
            summary = work.summary(target)
            if not summary.samples:
                raise UserError(f"no sample is left:\n{summary.text()}")
            facts = work.facts(summary)
            if features is not None:
                specification.write(features, staged / manifest.FEATURES)
                facts["features_sha256"] = features.sha256
            manifest.write(staged, schema, config, facts)
            work.tell(0.95, "publishing")
        work.tell(1.0, "publishing")
    finally:
        rows.engine.drop(OUTPUT, EPISODES, ROWS, INPUT)
    return summary


class _Work:
    """The steps of one timeline, on temporary tables of an engine."""

    def __init__(
        self,
        rows: LoggedRows | SparkRows,
        schema: Schema,
        config: TimelineConfig,
        tell: Progress,
    ):
        self.config, self.tell = config, tell
        self._given = config  # perhaps without an end_ds: no row is after it
        self._rows, self._engine, self._schema = rows, rows.engine, schema
        self._duplicates = self._read = 0
        self._bounds: list[str | None] = [None, None]  # first and last ds
        self._longest: float | None = None
        self._notices: list[str] = []

    def read(self) -> None:
        """Read and check rows and episodes, and find which episodes are too long."""
        texts = self._texts()
        self._engine.view(INPUT, texts.input(self._rows.view))
        self._part(0.0, 0.25, "reading rows", lambda: self._create_rows(texts.rows()))
        if not self._read:
            self._refuse_nothing()
        if self.config.end_ds is None:
            self.config = dataclasses.replace(self.config, end_ds=self._bounds[1])
        self._part(0.25, 0.35, "finding episodes", self._find_episodes)

    def write(self, staged: Path) -> None:
        """Write the samples into a folder."""
        # A reader that has listed the old files must not open new ones of that name.
        prefix = f"part-{secrets.token_hex(4)}-"
        what = self._texts().samples(self._longest), staged, prefix, ROW_GROUP
        self._part(0.35, 0.95, "writing samples", lambda: self._engine.write(*what))
        self._engine.read(OUTPUT, [*map(str, sorted(staged.glob("part-*")))])

    def summary(self, target: Path) -> TimelineSummary:
        """Return what was written."""
        samples, episodes, terminals = self._row(
            "SELECT coalesce(sum(samples), 0), count(*), count(*) FILTER (WHERE ends) "
            "FROM (SELECT count(*) AS samples, bool_or(NOT not_terminal) AS ends "
            f"FROM {OUTPUT} GROUP BY mdp_id) AS episodes"
        )
        kept = "split IS NOT NULL AND length > 0"
        if self._longest is not None:
            kept += f" AND length <= {self._engine.dialect.number(self._longest)}"
        # One query, because each one has a cost of its own in Spark.
        judges = f"{kept} AND split = 'eval'"
        markers, unshared, parts, part_rows, long, last, *others = self._row(f"""SELECT
          sum(markers),
          coalesce(sum(length) FILTER (WHERE split IS NULL AND NOT is_part), 0),
          count(*) FILTER (WHERE is_part),
          coalesce(sum(length) FILTER (WHERE is_part), 0),
          coalesce(sum(length) FILTER (WHERE split IS NOT NULL AND NOT ({kept})), 0),
          count(*) FILTER (WHERE {kept} AND ending = 'open'),
          count(*) FILTER (WHERE {kept} AND NOT {UNFLAGGED}),
          count(*) FILTER (WHERE {kept} AND {UNFLAGGED} AND ending = 'terminal'),
          count(*) FILTER (WHERE {kept} AND {UNFLAGGED} AND ending = 'open'
            AND continues),
          count(first), count(*) FILTER (WHERE first = 0),
          count(*) FILTER (WHERE first = 1),
          count(*) FILTER (WHERE {judges} AND first > 0),
          count(*) FILTER (WHERE {judges} AND first > 1)
          FROM {EPISODES}""")
        endings, beginnings = others[:3], others[3:]
        dropped = {
            "duplicates": self._duplicates,
            "end markers": markers,
            "of episodes in neither share": unshared,
            "of episodes for evaluation that began before start_ds": part_rows,
            "of episodes that are too long": long,
            "last rows without a next row": last,
        }
        late = self._read - sum(dropped.values()) - samples
        dropped["after time_window_limit"] = late
        notices = [*self._rows.notices, *self._notices, *self._about_endings(*endings)]
        notices += self._about_beginnings(*beginnings)
        if parts:
            notices.append(
                f"episodes for evaluation that began before start_ds "
                f"{self.config.start_ds}: {parts:,}; they are left out, because their "
                "rewards until then are not read"
            )
        if samples and not terminals:
            notices.append(
                "no episode has a terminal state: right for a task that continues, "
                "wrong for one that ends"
            )
        return TimelineSummary(
            *(target, self._read, dropped, samples, episodes, terminals, tuple(notices))
        )

    def _about_endings(self, flagged: int, ended: int, later: int) -> Iterator[str]:
        """Yield notices on episodes that do not say how they end."""
        if ended and flagged:
            yield (
                f"episodes without flag and end marker, unlike others: {ended:,}; they "
                "count as ended in a terminal state. Log terminated or truncated in "
                "their last rows, or pass --last_row=drop if they go on"
            )
        if later:
            yield (
                f"episodes that go on after end_ds {self.config.end_ds}: {later:,}; "
                "the last row of each is dropped, because its next one is not read"
            )

    def _about_beginnings(
        self, episodes: int, zeros: int, ones: int, after_0: int, after_1: int
    ) -> Iterator[str]:
        """Yield a notice on episodes whose first rows are not in the input.

        Numbers may also be times, or begin anywhere; then few episodes begin with 0 or
        1, and nothing can be said.
        """
        usual, later = (0, after_0) if zeros >= ones else (1, after_1)
        if later and max(zeros, ones) >= _USUAL * episodes:
            yield (
                "episodes for evaluation that do not begin with sequence_number "
                f"{usual}, as others do: {later:,}; their values would be those of "
                "parts. Pass the rows of earlier days too, and --start_ds; if these "
                "are gone, leave the episodes out of the input"
            )

    def facts(self, summary: TimelineSummary) -> dict[str, Any]:
        """Return entries of the manifest."""
        return {
            "ds": self.config.end_ds,
            "rows": summary.samples,
            "episodes": summary.episodes,
            "terminals": summary.terminals,
            "rows_read": summary.read,
            "dropped": summary.dropped,
            "min_ds": self._bounds[0],
            "max_ds": self._bounds[1],
            "engine": self._engine.version,
        }

    def _create_rows(self, query: str) -> None:
        reward = self.config.custom_reward
        what = "rows cannot be read"
        if reward is not None:
            what = f"custom_reward {reward!r} cannot be computed"
        try:
            with self._engine.failing(what):
                self._engine.rows(ROWS, query)
                # The rewards are computed here at the latest.
                facts = "count(*), min(ds), max(ds), count(reward)"
                self._read, *self._bounds, _ = self._row(f"SELECT {facts} FROM {ROWS}")
        except UserError:
            self._rows.check_unchanged()
            raise

    def _find_episodes(self) -> None:
        texts = self._texts()
        if self.config.on_duplicate != "error":
            self._engine.table(ROWS, texts.without_duplicates())
            (left,) = self._row(f"SELECT count(*) FROM {ROWS}")
            self._duplicates = self._read - left
        generator = Generator(self._schema, self._given, self._engine.dialect)
        self._engine.table(EPISODES, generator.episodes(self._rows.view))
        check_rows(self._engine, self._schema, self.config)
        self._find_longest()

    def _refuse_nothing(self) -> None:
        low, high = self._row(f"SELECT min(ds), max(ds) FROM {self._rows.view}")
        if low is None:
            raise UserError("there are no rows; expected at least one with a ds")
        raise UserError(
            f"no row has a ds from {self.config.start_ds or low} to "
            f"{self.config.end_ds or high}; the rows have {low} to {high}"
        )

    def _find_longest(self) -> None:
        """Find the length of the longest episodes to keep, see HEAD of Horizon."""
        share = self.config.max_length_percentile
        if share is None:
            return
        percentile = self._engine.dialect.percentile("length", share)
        (length,) = self._row(f"SELECT {percentile} FROM {EPISODES} WHERE length > 0")
        longest = round(length, 6)  # engines differ in the last digit
        longer, all_ = self._row(
            f"SELECT count(*) FILTER (WHERE length > {longest!r}), count(*) "
            f"FROM {EPISODES} WHERE length > 0"
        )
        removed = longer / all_
        if abs(removed - (1 - share)) > 0.1 * (1 - share) + 1e-9:
            self._notices.append(
                f"max_length_percentile is not applied: it would remove {removed:.2%} "
                f"of the episodes, not {1 - share:.2%}"
            )
        else:
            self._longest = longest

    def _part(
        self, start: float, end: float, text: str, work: Callable[[], None]
    ) -> None:
        """Run statements that are a part of the work, and tell the progress."""
        done = start

        def tell(part: float) -> None:
            nonlocal done  # each statement begins at 0
            done = max(done, start + (end - start) * part)
            self.tell(done, text)

        self.tell(start, text)
        self._engine.run(work, tell)
        self.tell(end, text)

    def _texts(self) -> Generator:
        return Generator(self._schema, self.config, self._engine.dialect)

    def _row(self, query: str) -> tuple[Any, ...]:
        (row,) = self._engine.fetch(query)
        return row
