"""Our preparation of logged rows, and our algorithms on them."""

from __future__ import annotations

import math
import os
import pathlib
import resource
import time
from collections.abc import Callable
from typing import Any

from benchmarks.inside import session
from benchmarks.logged import arrays
from benchmarks.work.logged import LEARNERS, Learner, Logged

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
    """Prepare or train."""
    folder = pathlib.Path(work.folder)
    if work.action == "prepare":
        return prepare(folder, work.count, work.box)
    return train(folder, work.count, LEARNERS[work.learner])


def prepare(folder: pathlib.Path, count: int, box: bool = False) -> dict[str, Any]:
    """Write rows and their timeline; return seconds, and rows per second of reading."""
    import duckdb

    from tfagents_batch.offline import dense, timeline
    from tfagents_batch.offline.reader import open_rows
    from tfagents_batch.offline.timeline_config import TimelineConfig
    from tfagents_batch.offline.validator import validate

    path = folder / "rows.parquet"
    query = ROWS.replace("ACTION", BOX if box else DISCRETE)
    duckdb.execute(query.replace("PATH", str(path)), [count])
    found = {}
    mode = "continuous" if box else "discrete"
    with open_rows(path, mode=mode) as rows:
        found["validation_s"] = _seconds(lambda: validate(rows).raise_for_errors())
    with open_rows(path, mode=mode) as rows:
        config = TimelineConfig(train_share=1.0, eval_share=0.0)
        schema = rows.find_schema()
        output = folder / "table"
        build = lambda: timeline.build(rows, schema, config, output)  # noqa: E731
        found["timeline_s"] = _seconds(build)
    found["peak_gb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    start = time.perf_counter()
    dense.read(dense.partition(output))
    found["read_rows_per_s"] = count / (time.perf_counter() - start)
    arrays.write(output, folder / "rows.npz")
    return found


def train(folder: pathlib.Path, count: int, learner: Learner) -> dict[str, Any]:
    """Return gradient steps per second with one thread, after compilation."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tfagents_batch as tfb

    run = tfb.train_offline(
        learner.algorithm,
        folder / "table",
        steps=count,
        eval_every=0,
        log_every=count // 2,
        threads=1,
        logdir=folder / "runs",
        settings={
            "batch_size": learner.batch,
            "network": {"hidden": learner.hidden},
            "histograms": False,
            **learner.settings,
        },
    )
    return {"steps_per_s": run.metrics["time/gradient_steps_per_second"]}


def _seconds(function: Callable[[], Any]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


if __name__ == "__main__":
    session.figures(lambda: None, measure, Logged)
