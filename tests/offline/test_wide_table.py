"""A table of many features of which few are present in each row."""

import pytest

from tests.support import python

LIMIT = 4e9  # bytes of resident memory
SECONDS = 600
TRAIN = """if True:
    import resource, sys
    from benchmarks.inside import wide_rows
    from tfagents_batch.offline.reader import open_rows
    from tfagents_batch.offline.timeline import TimelineConfig, build
    from tfagents_batch.offline.validator import validate

    folder = sys.argv[1]
    wide_rows.write(f"{folder}/rows.parquet", 200_000, 1000, 50)
    with open_rows(f"{folder}/rows.parquet") as rows:
        validate(rows).raise_for_errors()
        build(rows, rows.find_schema(), TimelineConfig(), f"{folder}/table")

    import tfagents_batch as tfb

    run = tfb.train_offline("dqn", f"{folder}/table", steps=1000, logdir=f"{folder}/l")
    print(run.step, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 60)
def test_200_000_rows_of_1000_features_are_learned_from_in_4_gb(tmp_path):
    done = python.run(TRAIN, tmp_path, timeout=SECONDS)
    steps, peak = map(int, done.stdout.split()[-2:])
    assert steps == 1000 and peak <= LIMIT, peak
