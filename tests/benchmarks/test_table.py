import json

import pytest

from benchmarks import make_environments, results, table, workers
from benchmarks.inside import costs
from tfagents_batch.errors import UserError

OLD = {
    "date": "2026-01-01T00:00:00+00:00",
    "commit": "abc",
    "machine": {"cpu": "A CPU", "cores": 2, "load": 0.1},
}
NEW = {**OLD, "date": "2026-01-02T00:00:00+00:00"}


def line(kind, setting, theirs, peer="Peer", goal=None, row="two"):
    return {
        "row": row,
        "title": "2 things",
        "peer": peer,
        "kind": kind,
        "setting": setting,
        "goal": goal,
        "unit": "env steps/s",
        "pairs": 5,
        "subject_value": 151_234.0,
        "rival_value": theirs,
        "ratio": {"median": 151_234 / theirs, "low": 1.0, "high": 99.5},
        "config": {"seconds": 10.0},
        "subject_own": {"workers": 2},
    }


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "environments.jsonl"
    results.append(path, OLD, [line("Kind", "of old", 1.0)])
    lines = [
        line("Parallel", "slow", 5_000.0, goal=8),
        line("Parallel", "fast", 10_000.0, goal=8),
        line("Serial", "", 50_000.0),
        line("bare", "", 200_000.0, peer="limit", goal=0.6),
    ]
    results.append(path, NEW, lines)
    return path


def test_it_shows_the_best_of_a_peer_and_of_a_kind_with_a_goal(path):
    assert table.markdown(results.read(path)).splitlines() == [
        "| work | ours | against | theirs | ratio (95 %) | goal |",
        "|---|---|---|---|---|---|",
        "| 2 things | 151,000 | Peer, Parallel, fast | 10,000 | 15.1 (1 to 99.5) | 8 |",
        "| 2 things | 151,000 | Peer, Serial | 50,000 | 3.02 (1 to 99.5) |  |",
        "| 2 things | 151,000 | limit, bare | 200,000 | 0.756 (1 to 99.5) | 0.6 |",
        "",
        "`two`: env steps/s, 5 pairs of 10 s, ours in 2 workers; 2 cores of A CPU, "
        "load 0.1, commit abc, 2026-01-02.",
    ]


def test_it_can_show_every_setting(path):
    text = table.markdown(results.read(path), everything=True)
    assert "slow" in text and "of old" not in text


def test_a_failure_is_shown(path):
    failed = {"contender": "fast", "reason": "ended with status 1", "stderr": ""}
    broken = {**line("Parallel", "fast", 1.0), "failed": failed}
    later = {**OLD, "date": "2026-01-03"}
    results.append(path, later, [broken, line("Serial", "", 10.0)])
    assert "failed: fast ended with status 1" in table.markdown(results.read(path))


def trained(**changes):
    mean = {"mean": 200.0, "low": 150.0, "high": 250.0}
    alone = {"mean": 90.0, "low": None, "high": None}
    return {
        **line("DummyVecEnv", "1 thread", 10_000.0, goal=10),
        "subject_setting": "compile=auto",
        "config": {"steps": 60_000, "seconds": 10.0},
        "subject_return": mean,
        "rival_return": alone,
        "parity": None,
        "differs": {},
        **changes,
    }


def test_training_shows_returns_beside_speed(tmp_path):
    path = tmp_path / "training.jsonl"
    other = {"rival": {"samples": {"is": 1, "why": "because"}}}
    failed = {"contender": "x", "reason": "ended with status 1", "stderr": ""}
    lines = [trained(parity=True), trained(differs=other), trained(failed=failed)]
    results.append(path, NEW, lines)
    rows = table.training(results.read(path)).splitlines()
    assert rows[2] == (
        "| 2 things, compile=auto | 151,000 | Peer, DummyVecEnv, 1 thread | 10,000 "
        "| 15.1 (1 to 99.5) | 10 | 200 (150 to 250) | 90 | yes |"
    )
    assert rows[3].endswith("| 200 (150 to 250) | 90 | * |")
    assert "failed: x ended with status 1" in rows[4]
    assert {row.count("|") for row in rows[:5]} == {10}
    assert rows[-1].startswith(
        "`two`: env steps/s, 5 pairs of 60,000 env steps and 10 s"
    )
    assert "does other work (rival: samples)" in rows[-1]


def test_the_command_prints_both_tables(path, capsys):
    cost = {"row": "x", "title": "a cost", "unit": "s", "goal": 2, "value": 0.5}
    file = path.with_name("workers.jsonl")
    results.append(file, NEW, [{**cost, "values": [0.4, 0.5, 0.7]}])
    assert table.main([f"--folder={path.parent}"]) == 0
    printed = capsys.readouterr().out
    assert "Peer, Parallel, fast" in printed
    assert "| a cost | 0.5 s | 0.4 to 0.7 | at most 2 |" in printed


def test_a_damaged_results_file_is_named(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text(json.dumps({}) + "\nbroken\n")
    with pytest.raises(UserError, match="line 2 is not JSON"):
        results.read(path)


def test_results_that_are_not_there_are_no_lines(tmp_path):
    assert results.read(tmp_path / "none.jsonl") == []


def test_costs_are_medians_with_their_goals():
    found = [{"ready_seconds": x} for x in (3.0, 1.0, 2.0)]
    (line,) = workers.lines(found, {})
    assert (line["row"], line["value"], line["goal"]) == ("ready_seconds", 2.0, 1.5)


def test_the_work_of_costs_is_one_environment_a_worker():
    assert costs.Costs().num_workers == 4


def test_peers_get_the_releases_that_are_installed_here():
    found = {"python": "3.11", "numpy": "2.0", "gymnasium": "1.2"}
    assert make_environments.pins(found) == ["gymnasium==1.2", "numpy==2.0"]


def test_the_cpu_build_of_pytorch_is_tried_first():
    first, second = make_environments.torch_attempts("torch", "")
    assert "--no-index" in first and second == ["torch"]
    (only,) = make_environments.torch_attempts("torch", "https://example.org/cpu")
    assert only == ["torch", "--index-url", "https://example.org/cpu"]


def test_tables_are_written_between_their_marks():
    page = "a <!-- table: x --> old <!-- end --> b"
    new = "a <!-- table: x -->\n\nnew\n\n<!-- end --> b"
    assert table.written(page, {"x": "new"}) == new
    assert table.written(new, {"x": "new"}) == new


def test_a_page_without_the_marks_is_refused():
    with pytest.raises(UserError, match="no <!-- table: x -->"):
        table.written("<!-- table: y --> <!-- end -->", {"x": "new"})
