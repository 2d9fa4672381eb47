"""The timeline in Spark: the cases of ``test_timeline`` and random rows."""

import math
import pathlib

import numpy as np
import pytest

import tfagents_batch as tfb
from tests.install import extras
from tests.offline import test_timeline, timelines
from tests.support import logged
from tfagents_batch.offline import reader, timeline
from tfagents_batch.offline.reading import spark_engine, spark_rows
from tfagents_batch.offline.timeline_config import TimelineConfig

extras.skip_without("spark")
# PySpark warns about versions of pandas.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(params=[False, pytest.param(True, marks=pytest.mark.slow)])
def one_partition(request, monkeypatch):
    """Let rows be grouped in one partition, as with one thread, or in two."""
    monkeypatch.setattr(
        spark_engine, "_has_one_partition", lambda session: request.param
    )


CASES = [
    getattr(test_timeline, name)
    for name in dir(test_timeline)
    if name.startswith("test_")
]


# Every case runs with the arguments that it has there.
def _arguments(case):
    """Yield the arguments of each run of a test that is parametrized."""
    runs = [{}]
    for mark in getattr(case, "pytestmark", ()):
        names = mark.args[0]
        if isinstance(names, str):
            names = [x.strip() for x in names.split(",")]
        values = [x if len(names) > 1 else (x,) for x in mark.args[1]]
        runs = [
            run | dict(zip(names, value, strict=True))
            for run in runs
            for value in values
        ]
    return runs


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_cases_of_the_timeline_hold_in_spark(spark, case, tmp_path):
    with logged.in_spark(spark):
        for i, arguments in enumerate(_arguments(case)):
            folder = tmp_path / str(i)
            folder.mkdir()
            case(folder, **arguments)


@pytest.mark.usefixtures("one_partition")
def test_two_golden_cases_hold_in_spark(spark, tmp_path):
    with logged.in_spark(spark):
        test_timeline.test_sums_of_rewards_end_at_a_terminal_state(tmp_path / "1")
        test_timeline.test_gamma_may_count_time(tmp_path / "2")


@pytest.mark.slow
def test_temporary_files_of_java_lie_in_the_folder_that_is_removed(spark):
    java = spark.sparkContext._jvm.java.lang.System
    folder = pathlib.Path(spark.conf.get("spark.local.dir"))
    assert folder.name.startswith("tfagents_rows_")
    assert java.getProperty("java.io.tmpdir") == str(folder)
    # Java writes counters of performance to /tmp whatever that folder is.
    process = str(spark.sparkContext._gateway.proc.pid)
    assert not list(pathlib.Path("/tmp").glob(f"hsperfdata_*/{process}"))


@pytest.mark.slow
def test_a_dataframe_gives_the_weights_of_its_parquet_files(spark, tmp_path):
    rows = timelines.walks(200)
    with reader.open_rows(rows) as opened:
        path = logged.write_parquet(opened, tmp_path / "rows.parquet")
    table = timelines.build(tmp_path / "table", path)
    frame = spark.read.parquet(str(path)).where("sequence_number >= 0")
    found = []
    for data in (table, frame):
        settings = {"network": {"hidden": [16]}, "batch_size": 16}
        options = {"steps": 60, "eval_every": 0, "progress": False}
        run = tfb.train_offline(
            "dqn", data, settings=settings, logdir=tmp_path / "runs", **options
        )
        named = tfb.load(run.logdir)._policy.named_variables()
        found.append({name: np.asarray(x) for name, x in named.items()})
    for name, value in found[0].items():
        np.testing.assert_array_equal(value, found[1][name])
    assert not list((tmp_path / "table").glob(".rows*"))


@pytest.mark.slow
def test_a_folder_of_a_partition_gives_the_ds_of_its_rows(spark, tmp_path):
    for name in ("ds=2026-01-05", "others"):
        with reader.open_rows(timelines.walks(2)) as opened:
            logged.write_parquet(opened, tmp_path / name / "rows.parquet")
    with spark_rows.open_rows(spark, tmp_path) as rows:
        query = f"SELECT DISTINCT file, ds FROM {rows.view} ORDER BY ds DESC"
        found = rows.engine.fetch(query)
    files = [
        str(tmp_path / name / "rows.parquet") for name in ("ds=2026-01-05", "others")
    ]
    assert found == [*zip(files, ("2026-01-05", "2026-01-01"), strict=True)]
    with spark_rows.open_rows(spark, files[1]) as rows:
        assert rows.engine.fetch(f"SELECT DISTINCT ds FROM {rows.view}") == [
            ("2026-01-01",)
        ]


# ---- random rows


def random_rows(count, mode, seed):
    """Return a table of random rows: all ends, missing values, ties and gaps."""
    rng = np.random.default_rng(seed)
    columns, episode = [], 0
    while len(columns) < count:
        episode += 1
        length = int(rng.integers(1, 30))
        times = np.cumsum(rng.integers(1, 5, length))
        end = rng.integers(5)
        for k, time in enumerate(times.tolist()):
            last = k + 1 == length
            row = _row(rng, mode) | {
                "ds": f"2026-01-0{1 + k * 3 // length}",
                "mdp_id": f"ü{episode}'\\",
                "sequence_number": time,
            }
            if last and end == 1:
                row["terminated"] = True
            if last and end in (2, 3):
                row["truncated"] = True
            if last and end == 3:
                row["final_state_features"] = _features(rng, 0)
                if mode != "continuous" and rng.random() < 0.5:
                    row["final_possible_actions"] = row["possible_actions"]
            columns.append(row)
            if rng.random() < 0.02:  # a duplicate with other values
                columns.append(row | _row(rng, mode))
        if end == 4:
            empty = "" if mode == "discrete" else {}
            marker = {"ds": "2026-01-03", "action": empty, "possible_actions": []}
            marker |= {
                "mdp_id": f"ü{episode}'\\",
                "sequence_number": int(times[-1]) + 2,
            }
            columns.append(_row(rng, mode) | marker)
    return columns


def _features(rng, start):
    ids = rng.choice(12, rng.integers(0, 6), replace=False) + start
    return {
        int(i): float(x) for i, x in zip(ids, rng.normal(size=len(ids)), strict=True)
    }


def _row(rng, mode):
    if mode == "discrete":
        possible = [str(x) for x in rng.permutation(["a", "b'", "c\\", "d"])[:3]]
    else:
        possible = [_features(rng, 100) | {99: float(k)} for k in range(3)]
    metrics = {x: float(rng.normal()) for x in ("m", "n'") if rng.random() < 0.7}
    return {
        "state_features": _features(rng, 0),
        "action": possible[0],
        "action_probability": float(rng.random()) if rng.random() < 0.9 else None,
        "action_log_density": float(rng.normal()) if mode == "continuous" else None,
        "reward": float(rng.normal() * 10.0 ** rng.integers(-8, 8)),
        "metrics": metrics if rng.random() < 0.9 else None,
        "possible_actions": possible if mode != "continuous" else None,
    }


def same(one, other):
    """Return whether values are equal, doubles to 1e-12."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-12, abs_tol=1e-12)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(
            same(x, other[k]) for k, x in one.items()
        )
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


SETTINGS = {
    "discrete": {
        "n_step": 3,
        "discount": "time",
        "time_unit": 2,
        "end_ds": "2026-01-03",
    },
    "parametric": {"n_step": 2, "last_row": "drop"},
    "continuous": {"last_row": "horizon_keep", "end_ds": "2026-01-02"},
}


@pytest.mark.slow
@pytest.mark.usefixtures("one_partition")
@pytest.mark.parametrize("mode", SETTINGS)
def test_random_rows_give_equal_samples_in_both_engines(spark, mode, tmp_path):
    given = random_rows(100_000, mode, seed=7)
    settings = {"on_duplicate": "last", "max_length_percentile": 0.9} | SETTINGS[mode]
    config = TimelineConfig(gamma=0.9, train_share=0.7, **settings)
    with reader.open_rows(given, mode) as rows:
        schema = rows.find_schema()
        path = logged.write_parquet(rows, tmp_path / "rows.parquet")
    summaries = []
    with reader.open_rows(path, mode) as rows:
        summaries.append(timeline.build(rows, schema, config, tmp_path / "duckdb"))
    with spark_rows.open_rows(spark, path, mode) as rows:
        assert rows.find_schema() == schema
        summaries.append(timeline.build(rows, schema, config, tmp_path / "spark"))
    one, other = summaries
    assert one.dropped == other.dropped and one.notices == other.notices
    first, second = (logged.samples(x.folder) for x in summaries)
    assert len(first) == len(second) > 40_000
    for left, right in zip(first, second, strict=True):
        assert list(left) == list(right)
        assert same(left, right), (left, right)
