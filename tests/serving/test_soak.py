"""Long tests of a server under load."""

import time

import pytest

from benchmarks.inside import http_load
from benchmarks.measure import process
from benchmarks.work.serving import Load
from tests.serving import exports, served

SECONDS, SWAPS = 600, 20


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
