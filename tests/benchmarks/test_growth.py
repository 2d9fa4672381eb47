"""Trends of long runs, medians of batch sizes and of starts."""

import numpy as np
import pytest

from benchmarks import endurance, scaling, startup
from benchmarks.inside.scaled import Scaled
from benchmarks.process import Failure

STEPS = [50_000 * i for i in range(1, 21)]


def trend(values, name="learner_rss_mib"):
    points = [{"steps": s, name: v} for s, v in zip(STEPS, values, strict=False)]
    return endurance.trend(points, name)


def noisy(slope):
    return [100 + slope * s / 1e6 + (-1) ** (s // 50_000) for s in STEPS]


def test_a_slope_is_per_million_steps_and_time_in_microseconds():
    found = trend([100 + s / 1e4 for s in STEPS])
    assert found.slope == pytest.approx(100)
    assert (found.verdict, found.first, found.last) == ("grows", 105, 200)
    assert trend([2e-5] * 20, "seconds_per_step").first == pytest.approx(20)
    assert trend([100.0]).slope == 0  # of a single point


@pytest.mark.parametrize(
    ("slope", "verdict"),
    [(0, "level"), (30, "grows"), (-30, "falls"), (0.5, "level"), (-0.5, "level")],
)
def test_growth_is_separated_from_noise(slope, verdict):
    assert trend(noisy(slope)).verdict == verdict


def test_a_leak_in_much_noise_is_not_called_level():
    noise = np.random.default_rng(0).normal(0, 10, len(STEPS))
    found = trend([100 + 5 * s / 1e6 + x for s, x in zip(STEPS, noise, strict=True)])
    assert found.low <= 0 <= found.high
    assert found.verdict == "unclear"


def test_neither_the_first_point_nor_an_odd_one_makes_a_slope():
    values = noisy(0)
    values[0], values[9] = 900, 900
    assert trend(values).verdict == "level"


def test_a_batch_size_is_a_line_of_medians():
    def scaled(rate):
        more = {"workers": 2, "route": "native", "versions": {}}
        figures = dict.fromkeys(scaling.FIGURES, 1.0)
        return figures | {"env_steps_per_second": rate} | more

    works = {"training": Scaled(8), "acting": Scaled(8, train=False)}
    found = {
        "training": [scaled(x) for x in (1000.0, 3000.0, 2000.0)],
        "acting": [scaled(x) for x in (9000.0, 8000.0, 7000.0)],
    }
    line = scaling.line(works, found)
    assert line["training"]["env_steps_per_second"] == 2000
    assert line["acting"]["values"]["env_steps_per_second"] == [9000, 8000, 7000]


def started(seconds):
    phases = {"import": 1.0, "construction": 0.5, "first_iteration": seconds - 1.5}
    return {
        "seconds": seconds,
        "phases": phases,
        "steps": 2048,
        "own": {},
        "versions": {"keras": "3"},
        "same": {"versions": {"numpy": "2"}},
    }


def test_starts_are_medians_and_one_that_fails_is_recorded():
    found = {name: [started(x) for x in (9.0, 3.0, 4.0)] for name in startup.STARTS}
    failure = Failure("learn_sb3", "ended with status 1", "")
    *lines, failed = startup.lines(found, {"sb3": failure})
    assert [line["row"] for line in lines] == ["first-ever", "cold", "warm"]
    assert {line["value"] for line in lines} == {4.0}
    assert failed["failed"] == failure._asdict()
    assert not {"cache_home", "launched"} & {*lines[0]["config"]}
