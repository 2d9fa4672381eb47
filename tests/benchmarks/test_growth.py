import dataclasses
import json

import numpy as np
import pytest

from benchmarks import endurance, scaling, startup
from benchmarks.inside.enduring import Enduring
from benchmarks.inside.scaled import Scaled
from benchmarks.process import Failure
from tests.benchmarks.learning_lines import RUN

STEPS = [50_000 * i for i in range(1, 21)]


def points(values, name="learner_rss_mib"):
    return [{"steps": s, name: v} for s, v in zip(STEPS, values, strict=True)]


def noisy(slope):
    return [100 + slope * s / 1e6 + (-1) ** (s // 50_000) for s in STEPS]


def test_a_slope_is_per_million_steps():
    found = endurance.trend(points([100 + s / 1e4 for s in STEPS]), "learner_rss_mib")
    assert found.slope == pytest.approx(100)
    assert found.verdict == "grows"
    assert (found.first, found.last) == (105, 200)


@pytest.mark.parametrize(
    ("slope", "verdict"),
    [(0, "level"), (30, "grows"), (-30, "falls"), (0.5, "level"), (-0.5, "level")],
)
def test_growth_is_told_from_noise(slope, verdict):
    assert endurance.trend(points(noisy(slope)), "learner_rss_mib").verdict == verdict


def test_a_leak_in_much_noise_is_not_called_level():
    noise = np.random.default_rng(0).normal(0, 10, len(STEPS))
    values = [100 + 5 * s / 1e6 + x for s, x in zip(STEPS, noise, strict=True)]
    found = endurance.trend(points(values), "learner_rss_mib")
    assert found.low <= 0 <= found.high
    assert found.verdict == "unclear"


def test_neither_the_first_point_nor_an_odd_one_makes_a_slope():
    values = noisy(0)
    values[0], values[9] = 900, 900
    assert endurance.trend(points(values), "learner_rss_mib").verdict == "level"


def test_time_is_told_in_microseconds():
    found = endurance.trend(points([2e-5] * 20, "seconds_per_step"), "seconds_per_step")
    assert found.first == pytest.approx(20)


def test_a_trend_needs_no_more_than_one_point():
    assert endurance.trend(points(noisy(0))[:1], "learner_rss_mib").slope == 0


def test_the_table_of_a_long_run_says_what_grows():
    looks = [
        {"steps": s, "learner_rss_mib": 100 + s / 1e4, "workers_rss_mib": 80.0}
        | {"seconds_per_step": 2e-5, "traces": 1 + i // 10}
        for i, s in enumerate(STEPS)
    ]
    trends = {x: endurance.trend(looks, x)._asdict() for x in endurance.FIGURES}
    line = {"row": "cartpole-1000000", "points": looks, "own": {"workers": 2}}
    config = dataclasses.asdict(Enduring())
    text = endurance.markdown([RUN | line | trends | {"config": config}])
    head, _, learner, workers, time, traces, _, origin = text.splitlines()
    assert {x.count("|") for x in (head, learner, workers, time, traces)} == {7}
    assert learner.endswith("| grows |") and workers.endswith("| level |")
    named = "| `cartpole-1000000` | "
    assert traces == f"{named}traces of the update | 1 | 2 | | grows |"
    assert "every 50,000 steps" in origin


def scaled(rate):
    return {
        "env_steps_per_second": rate,
        "iteration_seconds": 0.5,
        "first_iteration_seconds": 3.0,
        "learner_rss_mib": 900.0,
        "workers_rss_mib": 80.0,
        "workers": 2,
        "route": "native",
        "versions": {},
    }


def test_a_batch_size_is_a_line_of_medians():
    works = {"training": Scaled(8), "acting": Scaled(8, train=False)}
    found = {
        "training": [scaled(x) for x in (1000.0, 3000.0, 2000.0)],
        "acting": [scaled(x) for x in (9000.0, 8000.0, 7000.0)],
    }
    line = scaling.line(works, found)
    assert line["training"]["env_steps_per_second"] == 2000
    assert line["acting"]["values"]["env_steps_per_second"] == [9000, 8000, 7000]
    text = scaling.markdown([RUN | line])
    assert "| CartPole-v1 | 8 | 2,000 | 500.0 | 0.5000 | 8,000 | 900 | 80 |" in text
    assert "medians of 3 processes of 5 s" in text


def test_batch_sizes_stand_in_their_order():
    works = {n: {"training": Scaled(n), "acting": Scaled(n)} for n in (32, 8)}
    ran = {"training": [scaled(1.0)], "acting": [scaled(1.0)]}
    lines = [RUN | scaling.line(works[n], ran) for n in (32, 8)]
    text = scaling.markdown(lines)
    assert text.index("| 8 |") < text.index("| 32 |")


def test_work_survives_the_command_line():
    for work in (Scaled(8), Enduring()):
        assert type(work)(**json.loads(json.dumps(dataclasses.asdict(work)))) == work


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


def test_starts_are_medians_with_their_goals():
    found = {name: [started(x) for x in (9.0, 3.0, 4.0)] for name in startup.STARTS}
    lines = startup.lines(found, {})
    assert [line["row"] for line in lines] == [*startup.STARTS]
    assert {line["value"] for line in lines} == {4.0}
    text = startup.markdown([RUN | line for line in lines])
    assert "| 4.00 (3.00 to 9.00) | 1.00 | 0.50 | 2.50 | 2,048 | at most 12 |" in text
    assert lines[0]["config"]["preset"] == "cartpole"
    assert not {"cache_home", "launched"} & {*lines[0]["config"]}


def test_the_starts_that_goals_are_for_have_a_name(monkeypatch, tmp_path):
    asked = []

    class Folders:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def cold(self):
            return "cold"

        empty = None

        def warm(self, name, fill):
            return "warm"

    def start(name, home, flags):
        asked.append(home)
        return started(3.0)

    monkeypatch.setattr(startup.caches, "Caches", Folders)
    monkeypatch.setattr(startup, "_start", start)
    path = tmp_path / "startup.jsonl"
    assert startup.main(["--row=PF-10", "--repeats=2", f"--results={path}"]) == 0
    assert asked == ["cold", "warm", "warm", "cold"]


def test_a_start_that_fails_is_shown():
    failure = Failure("learn_sb3", "ended with status 1", "")
    found = {name: [] for name in startup.STARTS} | {"cold": [started(2.0)]}
    lines = startup.lines(found, {"sb3": failure})
    assert [line["row"] for line in lines] == ["cold", "sb3"]
    text = startup.markdown([RUN | line for line in lines])
    assert "failed: ended with status 1" in text
