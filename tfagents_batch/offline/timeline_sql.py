"""SQL texts of the timeline, from a schema and settings.

The rows of an episode are k = 1..L in the order of ``sequence_number``. An end is a row
of its own behind row L: an end marker of the log, or one made here where flags (or
``last_row``) say how the episode ends. Then one rule holds everywhere: the next row of
k is row k + h with h = min(n, rows after k), and a row without a next one is dropped.

Each text reads a table that the one before it describes: ``INPUT``, ``ROWS``,
``EPISODES``, and then the samples.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from tfagents_batch.errors import UserError
from tfagents_batch.offline.reading.dialect import DUCKDB, Dialect, weighted
from tfagents_batch.offline.schema import ACTION, FEATURES, METRICS, Schema, types
from tfagents_batch.offline.timeline_config import TimelineConfig

INPUT = "timeline_input"  # rows between start_ds and end_ds
ROWS = "timeline_rows"  # the same with their rewards, without duplicates
EPISODES = "timeline_episodes"  # a row for each episode, with how it ends
OUTPUT = "timeline_output"  # samples that were written

_KEYS = float(2**60)  # number of values of mdp_key
_ORDER = "PARTITION BY episode ORDER BY sequence_number, is_end"
_OF_EPISODE = "episode", "mdp_key", "split", "ending", "length", "first"
_OF_LOGGERS = "request_id", "model_version", "policy"  # not columns of ``ROWS``
_OF_SAMPLE = "action_probability", "action_log_density", "reward", "metrics"
# Names that a further column cannot have; nor can it begin as these do.
_RESERVED = {
    *_OF_EPISODE,
    *("last", "markers", "known", "continues", "is_end", "ordinal", "steps", "step"),
    *("sequence_number_ordinal", "time_diff", "time_since_first", "not_terminal"),
    *("discount", "possible_next_actions"),
}
_RESERVED_START = "next_", "frame_"
# SQL of whether an episode has neither an end marker nor flags, and its ending.
UNFLAGGED = "(markers = 0 AND NOT known AND coalesce(terminated, truncated) IS NULL)"
_UNFLAGGED = {"terminal": "terminal", "drop": "open", "horizon_keep": "kept"}


@dataclasses.dataclass(frozen=True)
class Generator:
    """Generator of the texts; all methods are pure."""

    schema: Schema
    config: TimelineConfig
    dialect: Dialect = DUCKDB

    def __post_init__(self):
        for name in self.schema.extra_columns:
            if name in _RESERVED or name.startswith(_RESERVED_START):
                raise UserError(
                    f"the extra column {name!r} has the name of a column of the "
                    "timeline; rename it"
                )

    def input(self, view: str) -> str:
        """Return a query of the rows between two partitions, compared as text."""
        terms = []
        if self.config.start_ds is not None:
            terms.append(f"ds >= {self.dialect.text(self.config.start_ds)}")
        if self.config.end_ds is not None:
            terms.append(f"ds <= {self.dialect.text(self.config.end_ds)}")
        where = f" WHERE {' AND '.join(terms)}" if terms else ""
        return f"SELECT * FROM {view}{where}"

    def rows(self) -> str:
        """Return a query of rows with their final rewards and whether they are ends."""
        is_end, choices = self._is_empty_action("action"), ""
        if self._has_choices:
            is_end += f" OR {self.dialect.is_empty('possible_actions')}"
            choices = f"""
  CASE WHEN possible_actions IS NOT NULL THEN possible_actions
    WHEN {is_end} THEN {self._no_actions} ELSE {self._all_actions}
  END AS possible_actions,
  final_possible_actions,"""
        name = self.dialect.name
        extra = "".join(f"\n  {name(x)}," for x in self.schema.extra_columns)
        # Writers of tables fill a column with {} where there is no final state.
        final = "final_state_features"
        is_none = self.dialect.is_empty_map(final)
        final = f"CASE WHEN NOT {is_none} THEN {final} END AS {final}"
        rows = f"""SELECT
  ds, mdp_id, sequence_number,
  coalesce(state_features, {self._no_features}) AS state_features,
  coalesce({name("action")}, {self._no_action}) AS {name("action")},
  action_probability, action_log_density,
  {self._reward()} AS reward,
  metrics, terminated, truncated, {final},{choices}{extra}
  {name("file")}, {name("row")},
  coalesce({is_end}, false) AS is_end
FROM {INPUT}"""
        return self.dialect.gathered(rows)

    def without_duplicates(self) -> str:
        """Return a query of the first or last row of each key.

        ``ds`` decides, then the MD5 of all columns that have a meaning, so that all
        engines agree.
        """
        down = " DESC" if self.config.on_duplicate == "last" else ""
        texts = ", ".join(
            self.dialect.canonical(self.dialect.name(name), kind)
            for name, kind in sorted(types(self.schema.mode).items())
            if name not in _OF_LOGGERS
        )
        return f"""SELECT * FROM (
  SELECT *, row_number() OVER (
    PARTITION BY mdp_id, sequence_number
    ORDER BY ds{down}, md5(concat_ws('|', {texts})){down}
  ) AS frame_place
  FROM {ROWS}
) WHERE frame_place = 1"""

    def episodes(self, view: str) -> str:
        """Return a query of each episode: its key, split, length, bounds and ending.

        The ending is "marker", "terminal", "known" (not terminal, but the state after
        the last row is known), "kept" (see ``horizon_keep``) or "open". The view has
        all rows. An episode with rows after ``end_ds`` is not at its end. One for
        evaluation with rows before ``start_ds`` has no split: its value would be that
        of a part.
        """
        continues, after = self._beyond(view, "later", ">", self.config.end_ds)
        is_part, before = self._beyond(view, "earlier", "<", self.config.start_ds)
        share = split("mdp_key", self.config, self.dialect)
        if before:
            is_part = f"coalesce({is_part} AND ({share}) = 'eval', false)"
            share = f"CASE WHEN {is_part} THEN NULL ELSE {share} END"
        ending = self.dialect.text(_UNFLAGGED[self.config.last_row])
        if self.config.last_row != "horizon_keep":
            ending = f"CASE WHEN {continues} THEN 'open' ELSE {ending} END"
        known = "final_state_features IS NOT NULL"
        if self.schema.mode == "parametric":  # no candidates, no value of that state
            known += f" AND NOT ({self.dialect.is_empty('final_possible_actions')})"
        numbers = "NULL"
        if self.config.on_duplicate == "error":
            numbers = "count(DISTINCT sequence_number)"
        return f"""SELECT
  *,
  {continues} AS continues,
  {is_part} AS is_part,
  {self.dialect.group("mdp_id")} AS episode,
  {share} AS split,
  CASE
    WHEN markers > 0 THEN 'marker'
    WHEN terminated THEN 'terminal'
    WHEN known THEN 'known'
    WHEN {UNFLAGGED} THEN {ending}
    ELSE 'open'
  END AS ending
FROM (
  SELECT
    mdp_id,
    {key_of_episode(self.config, self.dialect)} AS mdp_key,
    count(*) FILTER (WHERE NOT is_end) AS length,
    min(sequence_number) FILTER (WHERE NOT is_end) AS first,
    max(sequence_number) FILTER (WHERE NOT is_end) AS last,
    count(*) FILTER (WHERE is_end) AS markers,
    {numbers} AS numbers,
    bool_or(terminated) FILTER (WHERE NOT is_end) AS terminated,
    bool_or(truncated) FILTER (WHERE NOT is_end) AS truncated,
    coalesce(bool_or({known}) FILTER (WHERE NOT is_end), false) AS known
  FROM {ROWS}
  GROUP BY mdp_id
) AS grouped{after}{before}"""

    def _beyond(
        self, view: str, name: str, order: str, ds: str | None
    ) -> tuple[str, str]:
        """Return whether an episode has rows beyond a bound, and the join for it."""
        if ds is None:
            return "false", ""
        condition = f"ds {order} {self.dialect.text(ds)}"
        return (
            f"{name}_id IS NOT NULL",
            f"""
LEFT JOIN (
  SELECT DISTINCT mdp_id AS {name}_id FROM {view} WHERE {condition}
) AS {name} ON mdp_id = {name}_id""",
        )

    def samples(self, max_length: float | None = None) -> str:
        """Return a query of the samples, shuffled, of episodes up to a length."""
        keep = ""
        if max_length is not None:
            keep = f" AND length <= {self.dialect.number(max_length)}"
        limit = self.config.time_window_limit
        within = "" if limit is None else f" AND sequence_number - first <= {limit}"
        columns = self._listed(self._columns(), "  ")
        return f"""WITH chosen AS (
  SELECT * FROM {EPISODES} WHERE split IS NOT NULL AND length > 0{keep}
),
joined AS (
{self._joined()}
),
placed AS (
{self._placed()}
)
SELECT
  {columns}
FROM placed
WHERE NOT is_end AND (steps > 0 OR ending = 'kept'){within}
{self.dialect.shuffled("mdp_key", "sequence_number")}"""

    # ---- parts of ``samples``

    def _joined(self) -> str:
        """Return a query of rows with their episodes, and of ends that are implied."""
        final = f"coalesce(r.final_state_features, {self._no_features})"
        end = {"state_features": final, "action": self._no_action}
        if self._has_choices:
            last = "r.final_possible_actions"
            end["possible_actions"] = f"""CASE
      WHEN e.ending = 'terminal' THEN {self._no_actions}
      WHEN {self.dialect.is_empty(last)} OR {last} IS NULL THEN {self._all_actions}
      ELSE {last} END"""
        names, name = [*self._carried(), *_OF_SAMPLE], self.dialect.name
        episode = ", ".join(f"e.{x}" for x in _OF_EPISODE)
        later = f"CASE WHEN e.ending = 'known' THEN {self.config.time_unit} ELSE 0 END"
        rows = f"""  SELECT {episode}, r.mdp_id, r.sequence_number, r.is_end,
    {", ".join(f"r.{name(x)}" for x in names)}
  FROM {ROWS} r JOIN chosen e ON r.mdp_id = e.mdp_id
  UNION ALL
  SELECT {episode}, r.mdp_id, r.sequence_number + {later}, true,
    {", ".join(end.get(x, "NULL") for x in names)}
  FROM {ROWS} r JOIN chosen e ON r.mdp_id = e.mdp_id
  WHERE e.ending IN ('terminal', 'known') AND r.sequence_number = e.last"""
        return self.dialect.gathered(rows)

    def _placed(self) -> str:
        """Return a query that adds a row's place, and what it needs of later rows."""
        n, place = self.config.n_step, "row_number() OVER by_time"
        ends = "CASE WHEN ending IN ('open', 'kept') THEN 0 ELSE 1 END"
        columns = {
            "ordinal": place,
            "steps": f"least({n}, length + {ends} - {place})",
        }
        for name in (*self._carried(), "sequence_number"):
            columns[_next(name)] = self.dialect.later(
                self.dialect.name(name), n, "by_time", "until_next"
            )
        if n > 1:
            for name in ("reward", "metrics", "sequence_number"):
                columns[f"frame_{name}"] = self.dialect.frame(name, "rewarded")
        return f"""  SELECT *,
    {self._listed(columns, "    ")}
  FROM joined
  WINDOW
    by_time AS ({_ORDER}),
    until_next AS ({_ORDER} ROWS BETWEEN CURRENT ROW AND {n} FOLLOWING),
    rewarded AS ({_ORDER} ROWS BETWEEN CURRENT ROW AND {n - 1} FOLLOWING)"""

    def _listed(self, columns: Mapping[str, str], indent: str) -> str:
        """Return expressions with their names, a line each."""
        names = {name: self.dialect.name(name) for name in columns}
        return f",\n{indent}".join(
            names[name] if value == names[name] else f"{value} AS {names[name]}"
            for name, value in columns.items()
        )

    def _columns(self) -> dict[str, str]:
        """Return the expression of each column of a sample."""
        expressions = self._sums()
        beyond = "steps = 0 OR (ordinal + steps > length AND ending <> 'known')"
        expressions |= {
            "sequence_number_ordinal": "CAST(ordinal AS BIGINT)",
            "time_since_first": "sequence_number - first",
            "step": "CAST(greatest(steps, 1) AS BIGINT)",
            "not_terminal": f"NOT ({beyond})",
        }
        names = [
            *("mdp_id", "mdp_key", "split", "state_features", "action"),
            "action_probability",
            *(() if self.schema.mode != "continuous" else ("action_log_density",)),
            *("reward", "metrics", "next_state_features", "next_action"),
            *("sequence_number", "sequence_number_ordinal", "time_diff"),
            *("time_since_first", "step", "not_terminal"),
            "discount",
        ]
        if self._has_choices:
            names += ["possible_actions", "possible_next_actions"]
        for extra in self.schema.extra_columns:
            names += [extra, _next(extra)]
        return {name: expressions.get(name, self.dialect.name(name)) for name in names}

    def _sums(self) -> dict[str, str]:
        """Return the columns that are discounted sums, or values of the next row."""
        columns, time = {}, "next_sequence_number - sequence_number"
        if self.config.last_row == "horizon_keep":  # samples without a next row
            for name, absent in self._carried().items():
                value = self.dialect.name(_next(name))
                columns[_next(name)] = self._if_next(value, absent)
            time = self._if_next(time, "0")
        columns["time_diff"] = time
        columns["metrics"] = f"coalesce(metrics, {self.dialect.map([], [], METRICS)})"
        if self.config.n_step > 1:
            columns["reward"] = self._sum(self.dialect.at("frame_reward", "i"))
            names = [*map(self.dialect.text, self.schema.metrics)]
            metrics = self.dialect.at("frame_metrics", "i")
            values = (self.dialect.lookup(metrics, x) for x in names)
            sums = [self._sum(f"coalesce({value}, 0)") for value in values]
            columns["metrics"] = self.dialect.map(names, sums, METRICS)
        exponent = time if self.config.discount == "time" else "steps"
        columns["discount"] = power(exponent, self.config, self.dialect)
        return columns

    def _if_next(self, value: str, otherwise: str) -> str:
        return f"CASE WHEN steps > 0 THEN {value} ELSE {otherwise} END"

    def _sum(self, value: str) -> str:
        """Return the discounted sum of a value of the i-th rewarded row, from 1."""
        time = f"{self.dialect.at('frame_sequence_number', 'i')} - sequence_number"
        exponent = time if self.config.discount == "time" else "i - 1"
        factor = power(exponent, self.config, self.dialect)
        return self.dialect.sum("greatest(steps, 1)", "i", f"{factor} * {value}")

    def _reward(self) -> str:
        """Return the reward of one row."""
        if self.config.custom_reward is not None:
            return f"coalesce(CAST(({self.config.custom_reward}) AS DOUBLE), 0)"
        if self.config.metric_weights is None:
            return "reward"
        return weighted(self.dialect, self.config.metric_weights)

    def _carried(self) -> dict[str, str]:
        """Return what a sample has of its next row, and what stands for none."""
        absent = {"state_features": self._no_features, "action": self._no_action}
        if self._has_choices:
            absent["possible_actions"] = self._no_actions
        return absent | dict.fromkeys(self.schema.extra_columns, "NULL")

    # ---- constants of a mode

    def _is_empty_action(self, value: str) -> str:
        if self.schema.mode == "discrete":
            return f"{value} = ''"
        return self.dialect.is_empty_map(value)

    @property
    def _has_choices(self) -> bool:
        return self.schema.mode != "continuous"

    @property
    def _no_features(self) -> str:
        return self.dialect.map([], [], FEATURES)

    @property
    def _no_action(self) -> str:
        return "''" if self.schema.mode == "discrete" else self._no_features

    @property
    def _no_actions(self) -> str:
        return self.dialect.list([], f"{ACTION[self.schema.mode]}[]")

    @property
    def _all_actions(self) -> str:
        names = map(self.dialect.text, self.schema.actions)
        return self.dialect.list(names, f"{ACTION[self.schema.mode]}[]")


def power(exponent: str, config: TimelineConfig, dialect: Dialect = DUCKDB) -> str:
    """Return gamma to the power of steps, or of time in its unit."""
    if config.discount == "time":
        exponent = f"({exponent}) / {dialect.number(config.time_unit)}"
    return f"pow({dialect.number(config.gamma)}, {exponent})"


def key_of_episode(config: TimelineConfig, dialect: Dialect = DUCKDB) -> str:
    """Return the ``mdp_key`` of a row."""
    return dialect.key(f"concat({dialect.text(config.salt)}, mdp_id)")


def split(key: str, config: TimelineConfig, dialect: Dialect = DUCKDB) -> str:
    """Return the split of an episode with a key; NULL if it is in none."""
    share = f"{key} / {dialect.number(_KEYS)}"
    return f"""CASE
    WHEN {share} < {dialect.number(config.train_share)} THEN 'train'
    WHEN {share} >= {dialect.number(1 - config.eval_share)} THEN 'eval'
  END"""


def _next(column: str) -> str:
    """Return the name of a column's value in the next row."""
    known = {"possible_actions": "possible_next_actions"}
    return known.get(column, f"next_{column}")
