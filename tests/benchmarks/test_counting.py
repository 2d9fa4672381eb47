"""Every contender counts the actual steps of its environments."""

import functools

import pytest

from benchmarks.contenders import CONTENDERS, stepping_ours
from benchmarks.inside import session
from benchmarks.measure import rows
from benchmarks.work.works import Stepping
from tests.support import peers

STEPPING = rows.contenders(rows.ENVIRONMENTS)
MARKS = {"native": pytest.mark.xla, "portable": pytest.mark.slow}
LENGTH, ENVS, BLOCK, BLOCKS = 3, 4, 10, 2


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=MARKS.get(name, ())) for name in STEPPING]
)
def test_the_counted_steps_are_those_of_the_environments(name, tmp_path, request):
    if name == "native":
        request.getfixturevalue("library")
    tally = tmp_path / "tally"
    work = Stepping(
        "tests.benchmarks.counting:TallyEnv",
        ENVS,
        env_kwargs={"path": str(tally), "length": LENGTH},
        num_workers=2,
        block=BLOCK,
        seconds=0.0,
        blocks=BLOCKS,
    )
    contender = CONTENDERS[name]
    if contender.module == "stepping_ours":  # its process would import TensorFlow
        start = functools.partial(stepping_ours.Loop, **contender.options)
        result = session.run(start, work)
    else:
        result = peers.run(name, work)
    count = result["count"]
    assert sum(count.values()) == tally.stat().st_size
    # All play the same rows; one in four is a restart row with NEXT_STEP, else none.
    played = BLOCK * (1 + BLOCKS)
    restarts = played // (LENGTH + 1) if "next" in result["own"]["autoreset"] else 0
    assert sum(count.values()) == ENVS * (played - restarts)
    rate = count["steady"] / result["phases"]["steady"]
    if name == "bare":  # a sum of rates: each process has its own time, none longer
        assert result["value"] >= rate * (1 - 1e-9)
    else:
        assert result["value"] == pytest.approx(rate)
    assert {"import", "construction", "warm_up"} <= {*result["phases"]}
