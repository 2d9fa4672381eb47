"""Every contender counts the actual steps of its environments."""

import os
import subprocess

import pytest

from benchmarks.contenders import CONTENDERS
from benchmarks.measure import process, rows

PYTHONS = {"peers": os.environ.get("TFAGENTS_BATCH_PEER_PYTHON", "")}
PEERS = process.python_of("peers", PYTHONS)
STEPPING = rows.contenders(rows.ENVIRONMENTS)
LENGTH, ENVS, BLOCK, BLOCKS = 3, 4, 10, 2


def marked(name):
    marks = [pytest.mark.xla] if name == "native" else []
    return pytest.param(name, marks=marks)


def require(name):
    if CONTENDERS[name].interpreter == "ours":
        return
    code = "import stable_baselines3"
    if subprocess.run([PEERS, "-c", code], capture_output=True, timeout=120).returncode:
        pytest.skip(f"{PEERS} has no Stable-Baselines3 (benchmarks.make_environments)")


@pytest.mark.parametrize("name", [marked(name) for name in STEPPING])
def test_the_counted_steps_are_those_of_the_environments(name, tmp_path, request):
    if name == "native":
        request.getfixturevalue("library")
    tally = tmp_path / "tally"
    work = {
        "env": "tests.benchmarks.counting:TallyEnv",
        "env_kwargs": {"path": str(tally), "length": LENGTH},
        "num_envs": ENVS,
        "num_workers": 2,
        "block": BLOCK,
        "blocks": BLOCKS,
    }
    require(name)
    result = process.run_contender(name, work, 200, PYTHONS)
    assert not isinstance(result, process.Failure), str(result)
    count = result["count"]
    assert sum(count.values()) == tally.stat().st_size
    # All play the same rows; one in four is a restart row with NEXT_STEP, else none.
    steps = [BLOCK * (1 + bool(count["compile"])), BLOCK * BLOCKS]
    played = sum(steps)
    restarts = played // (LENGTH + 1) if "next" in result["own"]["autoreset"] else 0
    assert sum(count.values()) == ENVS * (played - restarts)
    assert result["value"] == pytest.approx(
        count["steady"] / result["phases"]["steady"], rel=1
    )
    assert {"import", "construction", "compile", "warm_up"} <= {*result["phases"]}
