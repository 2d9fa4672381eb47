import gzip
import json
import os
import time

import numpy as np
import pytest

from tests.offline.made import row as made_row
from tests.offline.made import write
from tests.serving import exports
from tests.serving.test_app import lines
from tfagents_batch.errors import UserError
from tfagents_batch.offline.reader import open_rows
from tfagents_batch.offline.validator import validate
from tfagents_batch.scripts import join as script
from tfagents_batch.scripts import rows as rows_script
from tfagents_batch.scripts import timeline as timeline_script
from tfagents_batch.scripts import train as train_script
from tfagents_batch.serving import join as joining
from tfagents_batch.serving.description import TIME_DIGITS
from tfagents_batch.serving.join import JoinConfig, join
from tfagents_batch.serving.server.decision_log import FEEDBACK_FOLDER

DAY = 86_400


def decide(app, count, **body):
    """Return the request ids of decisions."""
    asked = {"observation": {"0": 1.0}} | body
    answers = app.ask_all([("/v1/act", asked)] * count)
    assert {x.status for x in answers} == {200}
    return [x.body["request_id"] for x in answers]


def answer(app, request_id, reward, **body):
    body |= {"request_id": request_id, "reward": reward}
    assert app.ask("/v1/feedback", body).status == 200


@pytest.fixture
def logged(serve, named, tmp_path):
    """Return a served export with its log, and a function that joins it."""
    folder = tmp_path / "log"
    app = serve(named, log=str(folder))

    def run(now=None, **settings):
        app.log.close()
        summary = join(
            folder,
            folder / FEEDBACK_FOLDER,
            tmp_path / "rows",
            config=JoinConfig(**settings),
            now=now,
        )
        with open_rows(tmp_path / "rows") as rows:
            assert not validate(rows).errors
            found = rows.fetch("SELECT request_id, reward FROM rows")
        return summary, dict(found)

    app.join = run
    return app


def test_feedback_gives_the_reward_and_others_get_the_default(logged, tmp_path):
    one, two, three = decide(logged, 3)
    answer(logged, one, 2.5, metrics={"click": 1}, final_observation={"3": 1})
    answer(logged, two, -1, truncated=True)
    answer(logged, "unknown", 7)
    summary, rewards = logged.join(default_reward=-0.25)
    assert rewards == {one: 2.5, two: -1.0, three: -0.25}
    assert (summary.rows, summary.answered, summary.unanswered) == (3, 2, 1)
    assert summary.unknown == 1
    with open_rows(tmp_path / "rows") as rows:
        found = rows.fetch(
            "SELECT metrics, terminated, truncated, final_state_features FROM rows "
            "ORDER BY request_id"
        )
    assert found[0] == ({"click": 1.0}, True, None, {3: 1.0})
    assert found[1][1:3] == (False, True)  # the feedback replaces the end of the row
    counts = json.loads((tmp_path / "rows/_summary.json").read_text())
    assert counts["unanswered"] == 1 and counts["settings"]["default_reward"] == -0.25
    assert (counts["repeated"], counts["settings"]["repeated"]) == (0, "last")


@pytest.mark.parametrize(
    ("repeated", "reward"), [("last", 4), ("first", 1), ("sum", 7)]
)
def test_several_feedbacks_on_a_decision(logged, repeated, reward):
    (one,) = decide(logged, 1)
    for value in (1, 2, 4):
        answer(logged, one, value)
    summary, rewards = logged.join(repeated=repeated)
    assert rewards == {one: reward}
    assert (summary.answered, summary.repeated) == (1, 2)


@pytest.mark.parametrize(
    ("repeated", "expected"),
    [
        ("last", (4.0, True, False, None, {0: 2.0})),
        ("first", (1.0, False, True, {"click": 1.0}, None)),
        ("sum", (5.0, True, False, None, {0: 2.0})),
    ],
)
def test_flags_and_all_else_are_of_the_feedback_of_the_reward(
    logged, tmp_path, repeated, expected
):
    (one,) = decide(logged, 1)
    answer(logged, one, 1, truncated=True, metrics={"click": 1})
    answer(logged, one, 4, terminated=True, final_observation={"0": 2})
    logged.join(repeated=repeated)
    with open_rows(tmp_path / "rows") as rows:
        (found,) = rows.fetch(
            "SELECT reward, terminated, truncated, metrics, final_state_features "
            "FROM rows"
        )
    assert found == expected


def test_lines_that_cannot_be_read_are_counted_and_left_out(logged, tmp_path):
    one, two = decide(logged, 2)
    answer(logged, one, 1)
    logged.log.close()
    (path,) = (tmp_path / "log").glob("*.jsonl")
    text = path.read_text()
    surrogate = json.dumps(json.loads(text.splitlines()[0]) | {"mdp_id": "\ud800"})
    path.write_text('{"ds":\n' + text + surrogate + "\n[1]\n")
    (path,) = (tmp_path / "log" / FEEDBACK_FOLDER).glob("*.jsonl")
    wrong = {"request_id": two, "reward": 1, "metrics": {"\udfff": 1}, "time": 1}
    path.write_text(json.dumps(wrong) + "\n{\n" + path.read_text())
    summary, rewards = logged.join()
    assert rewards == {one: 1.0, two: 0.0}
    assert (summary.damaged, summary.answered, summary.unknown) == (5, 1, 0)


def test_a_damaged_decision_does_not_cut_a_hole_into_its_episode(tmp_path):
    rows = [
        made_row(request_id=f"{name}{k}", mdp_id=name, sequence_number=k, metrics=None)
        for name in ("whole", "holed")
        for k in range(3)
    ]
    rows[4]["action_probability"] = "high"
    write(tmp_path / "decisions.jsonl", rows)
    write(tmp_path / "feedback.jsonl", [])
    found = join(
        [str(tmp_path / "decisions.jsonl")],
        tmp_path / "feedback.jsonl",
        tmp_path / "rows",
    )
    assert (found.rows, found.damaged) == (3, 3)
    with open_rows(tmp_path / "rows") as joined:
        assert joined.fetch("SELECT DISTINCT mdp_id FROM rows") == [("whole",)]


def test_a_window_leaves_late_feedback_out(logged, tmp_path):
    one, two = decide(logged, 2)
    answer(logged, one, 1)
    logged.log.close()
    (path,) = (tmp_path / "log" / FEEDBACK_FOLDER).glob("*.jsonl")
    late = {"request_id": two, "reward": 5, "time": int((time.time() + DAY) * 1e6)}
    path.write_text(path.read_text() + json.dumps(late) + "\n")
    later = time.time() + 3 * DAY
    summary, rewards = logged.join(window=3600, now=later)
    assert rewards == {one: 1.0, two: 0.0}
    assert (summary.open, summary.late, summary.unanswered) == (0, 1, 1)
    assert logged.join(window=2 * DAY, now=later)[1] == {one: 1.0, two: 5.0}


@pytest.fixture
def aged(tmp_path):
    """Return a function that joins decisions of given ages, some of them answered.

    It takes the seconds since each decision and its reward or None, by episode, and
    returns the counts and the rewards of the rows by episode and number.
    """
    now = 1_800_000_000

    def run(episodes, window):
        decisions, feedback = [], []
        for name, steps in episodes.items():
            for k, (age, reward) in enumerate(steps):
                made = int((now - age) * 1e6)
                request = f"{made:0{TIME_DIGITS}x}{len(decisions):010x}"
                given = {"request_id": request, "mdp_id": name, "sequence_number": k}
                decisions.append(made_row(metrics=None, reward=None, **given))
                if reward is not None:
                    line = {"request_id": request, "reward": reward, "time": made + 1}
                    feedback.append(line)
        write(tmp_path / "decisions.jsonl", decisions)
        write(tmp_path / "feedback.jsonl", feedback)
        found = join(
            [str(tmp_path / "decisions.jsonl")],
            tmp_path / "feedback.jsonl",
            tmp_path / "rows",
            config=JoinConfig(window=window),
            now=now,
        )
        with open_rows(tmp_path / "rows") as rows:
            found_rows = rows.fetch("SELECT mdp_id, sequence_number, reward FROM rows")
        return found, {(name, k): reward for name, k, reward in found_rows}

    return run


def test_answers_do_not_choose_which_young_decisions_are_joined(aged):
    """1 in 10 old decisions has a reward; young ones are answered only if they have."""
    old = {f"old{i}": [(2 * DAY, 1.0 if i % 10 == 0 else None)] for i in range(100)}
    young = {f"young{i}": [(60, 1.0 if i % 10 == 0 else None)] for i in range(100)}
    summary, rows = aged(old | young, window=3600)
    assert np.mean(list(rows.values())) == pytest.approx(0.1)
    assert (summary.rows, summary.open) == (100, 100)
    assert (summary.answered, summary.unanswered) == (10, 90)
    assert not [name for name, _ in rows if name.startswith("young")]


def test_episodes_that_are_still_open_are_left_out_as_a_whole(aged):
    episodes = {
        "ended": [(9 * DAY, 1.0), (8 * DAY, None), (7 * DAY, 2.0)],
        "open": [(2 * DAY, 1.0), (DAY, None), (60, 2.0)],
        "in the middle": [(60, 1.0), (2 * DAY, None), (2 * DAY, None)],
    }
    summary, rows = aged(episodes, window=3600)
    assert rows == {("ended", 0): 1.0, ("ended", 1): 0.0, ("ended", 2): 2.0}
    assert (summary.rows, summary.open, summary.answered) == (3, 6, 2)
    summary, rows = aged(episodes, window=None)
    assert len(rows) == 9 and summary.open == 0


def test_rows_without_any_feedback_are_joined(logged):
    (one,) = decide(logged, 1)
    summary, rewards = logged.join()
    assert rewards == {one: 0.0} and summary.unanswered == 1


@pytest.mark.parametrize("where", ["a.jsonl.gz", "2026/a.jsonl"])
def test_feedback_is_found_where_decisions_are(logged, tmp_path, where):
    """Old files of a log are often compressed, or moved to a folder."""
    (one,) = decide(logged, 1)
    answer(logged, one, 2.0)
    logged.log.close()
    folder = tmp_path / "log" / FEEDBACK_FOLDER
    (path,) = folder.glob("*.jsonl")
    data = path.read_bytes()
    path.unlink()
    target = folder / where
    target.parent.mkdir(exist_ok=True)
    target.write_bytes(gzip.compress(data) if target.suffix == ".gz" else data)
    summary, rewards = logged.join()
    assert rewards == {one: 2.0} and summary.answered == 1


def test_feedback_that_is_gone_is_refused(logged, tmp_path):
    decide(logged, 1)
    (tmp_path / "log" / FEEDBACK_FOLDER / "a.jsonl").symlink_to(tmp_path / "gone")
    with pytest.raises(UserError, match=r"a\.jsonl is a link to"):
        logged.join()


def test_only_the_output_of_a_join_is_replaced(logged, tmp_path):
    decide(logged, 1)
    logged.join()
    logged.join()
    (tmp_path / "rows/mine.txt").write_text("")
    with pytest.raises(UserError, match=r"rows has .*, which no join wrote"):
        logged.join()
    assert not [*tmp_path.glob(".rows*")]


@pytest.mark.parametrize("kind", ["no summary", "a link", "a folder"])
def test_rows_that_no_join_wrote_stay(logged, tmp_path, kind):
    decide(logged, 1)
    folder, mine = tmp_path / "rows", tmp_path / "mine.parquet"
    folder.mkdir()
    mine.write_text("mine")
    if kind == "no summary":
        mine = mine.rename(folder / "rows.parquet")
    else:
        (folder / "_summary.json").write_text("{}")
    if kind == "a link":
        (folder / "rows.parquet").symlink_to(mine)
    if kind == "a folder":
        (folder / "rows.parquet").mkdir()
        mine = mine.rename(folder / "rows.parquet/part-0.parquet")
    with pytest.raises(UserError, match=r"has rows\.parquet, which no join wrote"):
        logged.join()
    assert mine.read_text() == "mine"
    assert os.path.lexists(folder / "rows.parquet")


@pytest.mark.parametrize("decisions", ["rows", "rows/rows.parquet", "rows/*.parquet"])
def test_a_join_does_not_replace_what_it_reads(logged, tmp_path, decisions):
    decide(logged, 2)
    logged.join()
    before = (tmp_path / "rows/rows.parquet").read_bytes()
    feedback = tmp_path / "log" / FEEDBACK_FOLDER
    with pytest.raises(UserError, match=r"holds .*rows\.parquet, which is read"):
        join(str(tmp_path / decisions), feedback, tmp_path / "rows")
    assert (tmp_path / "rows/rows.parquet").read_bytes() == before


def test_feedback_is_not_replaced_by_rows(logged, tmp_path):
    decide(logged, 1)
    logged.log.close()
    feedback = tmp_path / "log" / FEEDBACK_FOLDER
    with pytest.raises(UserError, match=r"_feedback, which is read"):
        join(tmp_path / "log", feedback, feedback)
    with pytest.raises(UserError, match=r"_feedback, which is read"):
        join(tmp_path / "log", feedback, feedback / "rows")


def test_a_file_that_comes_during_a_join_stays(logged, tmp_path, monkeypatch):
    decide(logged, 1)
    logged.join()
    mine, summary = tmp_path / "rows/mine.jsonl", joining._summary

    def collect(*arguments):
        mine.write_text("mine")
        return summary(*arguments)

    monkeypatch.setattr(joining, "_summary", collect)
    with pytest.raises(UserError, match=r"has mine\.jsonl, which no join wrote"):
        logged.join()
    assert mine.read_text() == "mine"
    assert not [*tmp_path.glob(".rows*")]


def test_other_rows_and_repeated_decisions_are_refused(logged, tmp_path):
    decide(logged, 2)
    logged.log.close()
    (path,) = (tmp_path / "log").glob("*.jsonl")
    text = path.read_text()
    path.write_text(text + text)
    with pytest.raises(UserError, match="0 decisions have no request_id, and 2 repeat"):
        logged.join()
    row = json.loads(text.splitlines()[0])
    del row["request_id"]
    path.write_text(json.dumps(row) + "\n")
    with pytest.raises(UserError, match="1 decisions have no request_id"):
        logged.join()


def test_wrong_flags_are_user_errors(tmp_path):
    with pytest.raises(UserError, match="pass --decisions"):
        script.main([])
    with pytest.raises(UserError, match="none does not exist"):
        script.main([f"--decisions={tmp_path / 'none'}"])
    with pytest.raises(UserError, match="window is -1"):
        script.main(["--decisions=a", "--window=-1"])


def test_continuous_decisions_are_joined(serve, tmp_path, capsys):
    app = serve(exports.continuous(tmp_path / "a"), log=str(tmp_path / "log"))
    ids = decide(app, 3, observation=[0.5, -0.5])
    answer(app, ids[0], 1.0)
    app.log.close()
    output = str(tmp_path / "rows")
    flags = [f"--decisions={tmp_path / 'log'}", f"--output={output}"]
    with pytest.raises(UserError, match=r"3 decisions are no names, .*--mode=c"):
        script.main(flags)
    assert script.main([*flags, "--mode=continuous"]) == 0
    out, err = capsys.readouterr()
    assert out.strip() == output and "answered    1\n" in err
    assert rows_script.main([f"--input={output}", "--mode=continuous"]) == 0


def test_discrete_decisions_are_not_joined_as_continuous_ones(logged, tmp_path):
    decide(logged, 1)
    logged.log.close()
    flags = [f"--decisions={tmp_path / 'log'}", f"--output={tmp_path / 'rows'}"]
    with pytest.raises(UserError, match=r"no maps of numbers, .*--mode=discrete"):
        script.main([*flags, "--mode=continuous"])


def play(app, episodes, seed):
    """Play a game in which the sign of a number says which action is rewarded."""
    generator = np.random.default_rng(seed)
    for episode in range(episodes):
        for step in range(4):
            x = {str(k): float(generator.normal()) for k in (0, 3, 7, 9)}
            asked = {"observation": x, "mdp_id": f"u{episode}", "sequence_number": step}
            found = app.ask("/v1/act", asked).body
            right = (x["3"] > 0) == (found["action_name"] == "right")
            answer(app, found["request_id"], float(right), terminated=step == 3)


def test_a_served_log_trains_by_the_offline_commands(
    serve, named, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    app = serve(
        exports.discrete(  # explores enough to learn from
            tmp_path / "export",
            masked=True,
            names=["left", "right"],
            features=[0, 3, 7, 9],
            exploration=0.8,
        ),
        log="decisions",
    )
    play(app, episodes=150, seed=1)
    app.log.close()
    rows = lines(tmp_path / "decisions")
    # The propensity is the frequency of the action: here, of the greedy one.
    greedy = np.array([row["action_probability"] > 0.5 for row in rows])
    expected = 0.6
    error = np.sqrt(expected * (1 - expected) / len(rows))
    assert abs(greedy.mean() - expected) < 5 * error  # other noise in each run
    assert script.main(["--decisions=decisions", "--output=rows"]) == 0
    assert rows_script.main(["--input=rows"]) == 0
    assert timeline_script.main(["--input=rows", "--output=table"]) == 0
    flags = ["--algorithm.network.hidden=16", "--algorithm.histograms=false"]
    assert train_script.main(["--data=table", "--steps=400", *flags]) == 0
    out, err = capsys.readouterr()
    after = f"tfagents-batch decide --logdir={out.splitlines()[-1]} --data=table"
    assert err.splitlines()[-1].split(maxsplit=1) == ["decide:", after]
