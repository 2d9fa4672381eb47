"""Our preparation of logged rows, and our algorithms on them."""

from __future__ import annotations

import os
import pathlib
import resource
import time
from collections.abc import Callable
from typing import Any

from benchmarks.inside import session
from benchmarks.work.logged import LEARNERS, Learner, Logged

FEATURES, ACTIONS, EPISODE = 10, 4, 20
MAP = ", ".join(f"{i}: round(random() * 2 - 1, 6)" for i in range(FEATURES))
ROWS = f"""
COPY (
  SELECT '2026-01-01' AS ds,
         'e' || i // {EPISODE} AS mdp_id,
         (i % {EPISODE})::BIGINT AS sequence_number,
         MAP {{{MAP}}} AS state_features,
         'a' || (i * 7919 % {ACTIONS}) AS action,
         1.0 / {ACTIONS} AS action_probability,
         random() AS reward,
         ['a0', 'a1', 'a2', 'a3'] AS possible_actions,
         i % {EPISODE} = {EPISODE - 1} AS terminated
  FROM range(?) t(i)
) TO 'PATH' (FORMAT parquet)
"""


def measure(work: Logged) -> dict[str, Any]:
    """Prepare or train."""
    folder = pathlib.Path(work.folder)
    if work.action == "prepare":
        return prepare(folder, work.count)
    return train(folder, work.count, LEARNERS[work.learner])


def prepare(folder: pathlib.Path, count: int) -> dict[str, Any]:
    """Write rows and their timeline; return seconds, and rows per second of reading."""
    import duckdb
    import numpy as np

    from tfagents_batch.offline import dense, timeline
    from tfagents_batch.offline.reader import open_rows
    from tfagents_batch.offline.timeline_config import TimelineConfig
    from tfagents_batch.offline.validator import validate

    path = folder / "rows.parquet"
    duckdb.execute(ROWS.replace("PATH", str(path)), [count])
    found = {}
    with open_rows(path) as rows:
        found["validation_s"] = _seconds(lambda: validate(rows).raise_for_errors())
    with open_rows(path) as rows:
        config = TimelineConfig(train_share=1.0, eval_share=0.0)
        schema = rows.find_schema()
        output = folder / "table"
        build = lambda: timeline.build(rows, schema, config, output)  # noqa: E731
        found["timeline_s"] = _seconds(build)
    found["peak_gb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    table = dense.partition(output)
    start = time.perf_counter()
    columns = dense.read(table)
    found["read_rows_per_s"] = count / (time.perf_counter() - start)
    names = {"observations": "state", "actions": "action", "rewards": "reward"}
    order = np.lexsort((columns["ordinal"], columns["episode"]))
    arrays = {k: columns[v][order] for k, v in names.items()}
    arrays["terminals"] = columns["terminated"][order].astype(np.float32)
    np.savez(folder / "rows.npz", **arrays)
    return found


def train(folder: pathlib.Path, count: int, learner: Learner) -> dict[str, Any]:
    """Return gradient steps per second with batches of 32."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tfagents_batch as tfb

    run = tfb.train_offline(
        learner.algorithm,
        folder / "table",
        steps=count,
        eval_every=0,
        log_every=count // 4,
        logdir=folder / "runs",
        settings={"batch_size": 32, "histograms": False, **learner.settings},
    )
    # Of the last quarter, so without compilation.
    return {"steps_per_s": run.metrics["time/gradient_steps_per_second"]}


def _seconds(function: Callable[[], Any]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


if __name__ == "__main__":
    session.figures(lambda: None, measure, Logged)
