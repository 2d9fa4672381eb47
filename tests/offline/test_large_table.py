"""A table that is larger than memory."""

import json
import os

import pytest

from tests.support import python

SIZE = 20e9  # bytes of Parquet
LIMIT = 2e9  # bytes of resident memory
PREPARE = """if True:
    import pathlib, sys
    from benchmarks.inside import logged_ours as ours
    ours.prepare(pathlib.Path(sys.argv[1]) / "table", 1_000_000)
"""
TRAIN = """if True:
    import resource, sys
    import tfagents_batch as tfb
    run = tfb.train_offline(
        "dqn", sys.argv[1], steps=1000, eval_every=0, table={"stream": True},
        settings={"network": {"hidden": (64, 64)}}, logdir=sys.argv[2],
    )
    print(run.step, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


@pytest.mark.slow
def test_a_table_of_20_gb_is_learned_from_in_2_gb(tmp_path):
    python.run(PREPARE, tmp_path, timeout=300)
    (folder,) = tmp_path.glob("table/ds=*")
    known = json.loads((folder / "_manifest.json").read_text())
    (part,) = known["parts"]
    del known["manifest_sha256"]
    # The same rows under many names, which need no room on the disk.
    copies = int(SIZE / part["bytes"]) + 1
    for i in range(1, copies):
        name = f"part-{i:04d}.parquet"
        os.link(folder / part["name"], folder / name)
        known["parts"].append(part | {"name": name})
    for name in ("rows", "episodes", "terminals", "rows_read"):
        known[name] *= copies
    (folder / "_manifest.json").write_text(json.dumps(known))
    done = python.run(TRAIN, tmp_path / "table", tmp_path / "runs", timeout=1200)
    steps, peak = map(int, done.stdout.split()[-2:])
    assert steps == 1000 and peak <= LIMIT, peak
