"""Long tests of a server under load."""

import time

import pytest

from benchmarks.inside import http_load
from benchmarks.measure import process
from benchmarks.work.serving import Load
from tests.serving import exports, served

SECONDS, SWAPS = 600, 20


def play(work):
    """Return what clients measured."""
    with process.started(http_load.__name__, work) as result:
        found = result(work.seconds + 60)
    assert not isinstance(found, process.Failure), found
    return found


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_ten_minutes_at_80_percent_lose_no_row_and_have_level_memory(tmp_path):
    export = exports.discrete(tmp_path / "a", hidden=64)
    with served.process(export, f"--log={tmp_path / 'log'}") as server:
        most = play(Load(server.port, 64, 5.0))
        work = Load(server.port, 64, SECONDS, rate=0.8 * most["requests_per_s"])
        with process.started(http_load.__name__, work) as result:
            resident, end = [], time.monotonic() + SECONDS
            while time.monotonic() < end:
                resident.append(server.memory())
                time.sleep(5)
            found = result(SECONDS + 60)
        assert not isinstance(found, process.Failure), found
        logged = server.measure("logged_total")
        assert server.stop()[0] == 0
    print(most, found, [round(x / 1e6, 1) for x in resident])
    assert found["errors"] == 0
    ids = [
        line.rpartition('"request_id":"')[2].partition('"')[0]
        for path in (tmp_path / "log").glob("*.jsonl")
        for line in path.read_text().splitlines()
    ]
    assert len(ids) == len({*ids}) == logged >= found["requests"]
    steady = resident[len(resident) // 4 :]
    assert max(steady) <= 1.05 * min(steady)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_ten_minutes_with_swaps_have_no_error_and_level_memory(tmp_path):
    large = [
        exports.discrete(tmp_path / str(k), ballast=50, seed=k, step=k)
        for k in range(2)
    ]
    flags = [f"--log={tmp_path / 'log'}", "--rotate_seconds=30", "--admin_token=admin"]
    with served.process(large[0], *flags) as server:
        work = Load(server.port, 64, SECONDS)
        with process.started(http_load.__name__, work) as result:
            start, resident = time.monotonic(), []
            for swap in range(1, SWAPS + 1):
                status, found = server.change(large[swap % 2])
                assert status == 200 and found["step"] == swap % 2
                pause = start + SECONDS * swap / (SWAPS + 1) - time.monotonic()
                time.sleep(max(0.0, pause))
                resident.append(server.memory())
            found = result(SECONDS + 60)
    assert not isinstance(found, process.Failure), found
    assert found["errors"] == 0 and found["requests"] > 100 * SECONDS
    print(found, resident)
    # After a few swaps there are two models and one's file in the memory.
    steady = resident[4:]
    assert max(steady) <= 1.02 * min(steady), resident
