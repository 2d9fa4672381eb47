"""Join of decisions and feedback to logged rows.

The row of a decision gets the reward and the flags of the feedback with the same
request id. Feedback that comes later than a window is not used, and episodes with a
decision that is younger than the window are left out, so rows do not depend on when
they are joined. A line that cannot be read is counted and left out, with its episode if
the id can be read, so that it does not cost the rest of a log.
"""

from __future__ import annotations

import dataclasses
import json
import time
from pathlib import Path
from typing import Any, Literal

from tfagents_batch.config import option
from tfagents_batch.errors import UserError, saving
from tfagents_batch.offline import publish, schema
from tfagents_batch.offline.reading import files
from tfagents_batch.offline.reading.dialect import literal_paths
from tfagents_batch.serving.description import TIME_DIGITS

ROWS, SUMMARY = "rows.parquet", "_summary.json"
_LINE = {
    "request_id": "VARCHAR",
    "reward": "DOUBLE",
    "terminated": "BOOLEAN",
    "truncated": "BOOLEAN",
    "metrics": "MAP(VARCHAR, DOUBLE)",
    "final_state_features": schema.FEATURES,
    "final_possible_actions": "VARCHAR[]",
    "time": "BIGINT",
}
_NEEDED = ("request_id", "reward", "time")  # without them, a line is damaged
_FLAGS = ("terminated", "truncated")
_TAKEN = tuple(x for x in _LINE if x not in _NEEDED)
_ACTIONS = {
    "discrete": "names",
    "parametric": "maps of features",
    "continuous": "maps of numbers",
}


@dataclasses.dataclass(frozen=True)
class JoinConfig:
    """Settings of a join."""

    default_reward: float = option(0.0, "reward of decisions without feedback")
    window: float | None = option(
        None,
        "seconds after a decision in which feedback counts; episodes with a younger "
        "decision are left out; none: any time",
        above=0,
    )
    repeated: Literal["last", "first", "sum"] = option(
        "last", "which feedback on a decision: last, first, or the sum of rewards"
    )


@dataclasses.dataclass(frozen=True)
class JoinSummary:
    """Counts of a join."""

    rows: int  # rows that were written
    answered: int  # rows with feedback
    unanswered: int  # rows without, which have the default reward
    # Decisions of episodes with a decision that is younger than the window; they are
    # left out, and a later join has them
    open: int
    late: int  # feedbacks that came after the window
    unknown: int  # feedbacks on decisions that are not there
    repeated: int  # feedbacks beyond the first on a decision
    # Lines that cannot be read, and the other decisions of their episodes
    damaged: int

    def text(self) -> str:
        """Return the counts as lines."""
        return "\n".join(
            f"{name:<11} {value:,}" for name, value in dataclasses.asdict(self).items()
        )


def join(
    decisions: str | Path | list[str],
    feedback: str | Path,
    output: str | Path,
    mode: schema.Mode = "discrete",
    config: JoinConfig | None = None,
    now: float | None = None,
) -> JoinSummary:
    """Write the rows of decisions with their feedback; return the counts.

    UserError for input that cannot be read, a decision that was logged twice, and an
    output that holds the input, or files of something else.

    Args:
      decisions: what ``open_rows`` reads, the folder of the server's log.
      feedback: folder or file of the server's feedback.
      output: folder of the rows, replaced as a whole if it is one of a join.
      mode: kind of actions, see ``Schema``.
      config: settings; None for the defaults.
      now: seconds since 1970 instead of the present.
    """
    from tfagents_batch.offline.reader import open_rows

    config = config or JoinConfig()
    output = Path(output).expanduser()
    read = [*(files.find(decisions) or ()), Path(feedback)]
    files.check_outside(output, read)
    _check_output(output)
    until = int((time.time() if now is None else now) * 1e6)
    with (
        open_rows(decisions, mode) as rows,
        publish.folder(output, _check_output) as staged,
    ):
        rows.fetch(_decisions(rows.view))
        _check_mode(rows)
        if rows.unknown_columns:
            raise UserError(
                f"the decisions have the unknown columns {rows.unknown_columns}; pass "
                "the folder that the server logged to"
            )
        # Without one of its decisions, the return of an episode would be wrong.
        broken = "SELECT mdp_id FROM decisions WHERE unread IS NOT NULL"
        broken = f"unread IS NOT NULL OR mdp_id IN ({broken})"
        damaged = _drop(rows, "decisions", broken)
        _check_ids(rows)
        rows.fetch(_feedback(_files(feedback)))
        broken = " OR ".join(f"{name} IS NULL" for name in _NEEDED)
        damaged += _drop(rows, "feedback", broken)
        rows.connection.execute(_matched(config, until))
        with saving(output):
            rows.write(_joined(mode, config), staged / ROWS)
        rows.check_unchanged()
        summary = _summary(rows, damaged)
        settings = {"settings": dataclasses.asdict(config)}
        text = json.dumps(settings | dataclasses.asdict(summary))
        (staged / SUMMARY).write_text(text)
    return summary


def _check_output(folder: Path) -> None:
    """Refuse to replace anything but the output of a join."""
    publish.check_only(folder, {ROWS, SUMMARY}, "join", SUMMARY)


def _decisions(view: str) -> str:
    """Return the query that stores the decisions with their time in microseconds."""
    return (
        f"CREATE TABLE decisions AS SELECT * EXCLUDE (file, row), "
        f"TRY_CAST('0x' || left(request_id, {TIME_DIGITS}) AS BIGINT) AS made "
        f"FROM {view}"
    )


def _feedback(paths: list[str]) -> str:
    """Return the query that stores all feedback."""
    if not paths:
        empty = ", ".join(f"NULL::{kind} AS {name}" for name, kind in _LINE.items())
        return f"CREATE TABLE feedback AS SELECT {empty} LIMIT 0"
    columns = ", ".join(f"{name}: '{kind}'" for name, kind in _LINE.items())
    return (
        f"CREATE TABLE feedback AS SELECT * FROM read_json({literal_paths(paths)}, "
        f"format='newline_delimited', columns={{{columns}}}, ignore_errors=true)"
    )


def _drop(rows: Any, table: str, condition: str) -> int:
    """Remove the lines of a table that could not be read; return their number."""
    ((count,),) = rows.fetch(f"DELETE FROM {table} WHERE {condition}")
    return count


def _matched(config: JoinConfig, until: int) -> str:
    """Return queries that store the feedback of each decision, and what is complete.

    That is the episodes without a decision that is younger than the window. Answered or
    not, young decisions are left out: answers that come early are often the good ones.
    """
    window = 2**62 if config.window is None else int(config.window * 1e6)
    # A decision of an earlier version has no time, and no window then.
    late = f"coalesce(feedback.time - made > {window}, false)"
    pick = "arg_min" if config.repeated == "first" else "arg_max"
    reward = "total" if config.repeated == "sum" else "taken.reward"
    # All of one feedback, because parts of several may contradict each other.
    columns = ", ".join(f"{x} := {x}" for x in ("reward", *_TAKEN))
    taken = ", ".join(f"taken.{x} AS {x}" for x in _TAKEN)
    return f"""
        CREATE TABLE used AS
        SELECT request_id, {reward} AS reward, count, {taken}
        FROM (
          SELECT request_id, count(*) AS count, sum(reward) AS total,
                 {pick}(struct_pack({columns}), time) AS taken
          FROM (
            SELECT feedback.* FROM feedback JOIN decisions USING (request_id)
            WHERE NOT {late}
          ) GROUP BY request_id
        );
        CREATE TABLE late AS
        SELECT count(*) AS count
        FROM feedback JOIN decisions USING (request_id) WHERE {late};
        CREATE TABLE complete AS
        SELECT decisions.* FROM decisions ANTI JOIN (
          SELECT mdp_id FROM decisions
          WHERE {config.window is not None} AND {until} - made < {window}
        ) USING (mdp_id)
    """


def _joined(mode: schema.Mode, config: JoinConfig) -> str:
    """Return the query of the rows."""
    known = schema.types(mode)
    columns = []
    for name, kind in known.items():
        if name == "reward":
            columns.append(
                f"coalesce(used.reward, {config.default_reward!r}) AS reward"
            )
        elif name in _FLAGS:  # of the feedback, if it has one of them
            columns.append(
                "CASE WHEN coalesce(used.terminated, used.truncated) IS NULL "
                f"THEN complete.{name} ELSE coalesce(used.{name}, false) END AS {name}"
            )
        elif name in _TAKEN:
            columns.append(f"coalesce(used.{name}, complete.{name})::{kind} AS {name}")
        else:
            columns.append(f"complete.{name}")
    return (
        f"SELECT {', '.join(columns)} FROM complete LEFT JOIN used USING (request_id) "
        "ORDER BY complete.ds, complete.mdp_id, complete.sequence_number"
    )


def _summary(rows: Any, damaged: int) -> JoinSummary:
    ((decisions, complete, answered, repeated, late, unknown),) = rows.fetch("""
        SELECT (SELECT count(*) FROM decisions), (SELECT count(*) FROM complete),
               (SELECT count(*) FROM used JOIN complete USING (request_id)),
               (SELECT coalesce(sum(count - 1), 0)::BIGINT
                FROM used JOIN complete USING (request_id)),
               (SELECT count FROM late),
               (SELECT count(*) FROM feedback ANTI JOIN decisions USING (request_id))
    """)
    unanswered, young = complete - answered, decisions - complete
    counts = complete, answered, unanswered, young, late, unknown, repeated
    return JoinSummary(*counts, damaged)


def _check_mode(rows: Any) -> None:
    """Refuse decisions of which no action is one of the mode."""
    ((read, others),) = rows.fetch(
        "SELECT count(action), count(*) FILTER (WHERE map_contains(unread, 'action')) "
        "FROM decisions"
    )
    if others and not read:
        other = "continuous" if rows.mode == "discrete" else "discrete"
        raise UserError(
            f"the actions of {others:,} decisions are no {_ACTIONS[rows.mode]}, as "
            f"--mode={rows.mode} expects; pass --mode={other}"
        )


def _check_ids(rows: Any) -> None:
    """Refuse decisions without a request id, or with the same one."""
    ((without, several),) = rows.fetch(
        "SELECT count(*) FILTER (WHERE request_id IS NULL), "
        "count(request_id) - count(DISTINCT request_id) FROM decisions"
    )
    if without or several:
        raise UserError(
            f"{without:,} decisions have no request_id, and {several:,} repeat one; "
            "expected the log of a server, each file once"
        )


def _files(feedback: str | Path) -> list[str]:
    """Return the complete files of feedback."""
    path = Path(feedback).expanduser()
    if path.is_file():
        return [str(path)]
    if not path.is_dir():
        raise UserError(
            f"--feedback={feedback} does not exist; expected the folder _feedback in "
            "the server's --log"
        )
    return [str(x) for x in files.below(path) if files.kind(x) in files.JSON]
