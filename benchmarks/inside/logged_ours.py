"""Our preparation of logged rows, and our algorithms on them."""

from __future__ import annotations

import math
import pathlib
import resource
import tempfile
import time
from collections.abc import Callable
from typing import Any

from benchmarks.inside import logged_arrays, session
from benchmarks.inside.logged_play import play
from benchmarks.work.logged import HIDDEN, LEARNERS, Logged

FEATURES, ACTIONS, EPISODE = 10, 4, 20
NUMBER = "round(random() * 2 - 1, 6)"
DISCRETE = f"""
  'a' || (i * 7919 % {ACTIONS}) AS action,
  1.0 / {ACTIONS} AS action_probability,
  ['a0', 'a1', 'a2', 'a3'] AS possible_actions
"""
BOX = f"""
  MAP {{{", ".join(f"{FEATURES + i}: {NUMBER}" for i in range(ACTIONS))}}} AS action,
  {-ACTIONS * math.log(2)} AS action_log_density
"""
ROWS = f"""
COPY (
  SELECT '2026-01-01' AS ds,
         'e' || i // {EPISODE} AS mdp_id,
         (i % {EPISODE})::BIGINT AS sequence_number,
         MAP {{{", ".join(f"{i}: {NUMBER}" for i in range(FEATURES))}}}
           AS state_features,
         random() AS reward,
         i % {EPISODE} = {EPISODE - 1} AS terminated,
         ACTION
  FROM range(?) t(i)
) TO 'PATH' (FORMAT parquet)
"""


def measure(work: Logged) -> dict[str, Any]:
    if work.action == "prepare":
        return prepare(pathlib.Path(work.table), work.count, work.box, work.arrays)
    with tempfile.TemporaryDirectory() as folder:
        return {"speed": speed, "returns": returns}[work.action](work, folder)


def prepare(
    table: pathlib.Path, count: int, box: bool = False, samples: str = ""
) -> dict[str, Any]:
    """Write rows and their timeline; return seconds, and rows per second of reading.

    The rows are beside the timeline. ``samples`` is a path for its arrays, if any.
    """
    import duckdb

    from tfagents_batch.offline import table_reader, timeline
    from tfagents_batch.offline.reader import open_rows
    from tfagents_batch.offline.timeline_config import TimelineConfig
    from tfagents_batch.offline.validator import validate

    path, mode = table.parent / "rows.parquet", "continuous" if box else "discrete"
    query = ROWS.replace("ACTION", BOX if box else DISCRETE)
    duckdb.execute(query.replace("PATH", str(path)), [count])
    with open_rows(path, mode=mode) as rows:
        validation = _seconds(lambda: validate(rows).raise_for_errors())
    with open_rows(path, mode=mode) as rows:
        config = TimelineConfig(train_share=1.0, eval_share=0.0)
        schema = rows.find_schema()
        building = _seconds(lambda: timeline.build(rows, schema, config, table))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    reading = _seconds(lambda: table_reader.read(table_reader.partition(table)))
    if samples:
        logged_arrays.write(table, pathlib.Path(samples))
    return {
        "validation_s": validation,
        "timeline_s": building,
        "peak_gb": peak,
        "read_rows_per_s": count / reading,
    }


def speed(work: Logged, folder: str) -> dict[str, Any]:
    """Return gradient steps per second with one thread, after compilation."""
    import tfagents_batch as tfb

    learner = LEARNERS[work.learner]
    run = tfb.train_offline(
        learner.algorithm,
        work.table,
        steps=work.count,
        eval_every=0,
        log_every=work.count // 2,
        threads=1,
        logdir=folder,
        settings={
            "batch_size": learner.batch,
            "network": {"hidden": learner.hidden},
            "histograms": False,
            **learner.settings,
        },
    )
    return {"steps_per_s": run.metrics["time/gradient_steps_per_second"]}


def returns(work: Logged, folder: str) -> dict[str, float]:
    """Return the mean return of the last checkpoint, and its error."""
    import tfagents_batch as tfb

    run = tfb.train_offline(
        data=work.table,
        config=f"rows/{work.learner}",
        steps=work.count,
        seed=work.seed,
        eval_every=0,
        progress=False,
        logdir=folder,
        threads=1,
        settings={
            "batch_size": LEARNERS[work.learner].batch,
            "network": {"hidden": HIDDEN},
            "histograms": False,
        },
    )
    agent = run.load(env=work.env, checkpoint="newest")
    return play(lambda observation: agent.predict(observation)[0], work)


def _seconds(function: Callable[[], Any]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


if __name__ == "__main__":
    session.figures(measure)
