import json

import pytest

from tests.offline import made
from tests.support import logged
from tfagents_batch.errors import UserError
from tfagents_batch.offline import manifest, reader
from tfagents_batch.offline.timeline_config import TimelineConfig
from tfagents_batch.scripts import timeline


@pytest.fixture
def run(tmp_path):
    """Return a function that runs the command on rows, and returns its exit status."""

    def run(rows, *flags):
        path = made.write(tmp_path / "rows.jsonl", rows)
        return timeline.main([f"--input={path}", f"--output={tmp_path}/table", *flags])

    return run


def settings(tmp_path):
    folder = manifest.newest(tmp_path / "table")
    return manifest.read(folder)["config"]


def test_samples_are_published_and_summarized(run, tmp_path, capsys):
    rows = made.episode(30) + made.episode(10, "u8")[:-1]
    assert run(rows, "--last_row=drop", "--n_step=2", "--gamma=0.9") == 0
    out, _ = capsys.readouterr()
    *summary, folder = out.splitlines()
    assert [" ".join(line.split()) for line in summary] == [
        "rows read 39",
        "last rows without a next row -1",
        "samples 38",
        "episodes 2",
        "with a terminal state 1",
    ]
    assert folder == str(tmp_path / "table/ds=2026-01-01")
    assert len(logged.samples(folder)) == 38
    assert settings(tmp_path)["n_step"] == 2


def test_rows_with_errors_are_status_65_and_publish_nothing(run, tmp_path, capsys):
    assert run(made.episode(30, action_probability=1.2)) == 65
    out, err = capsys.readouterr()
    assert out.startswith("error propensity (30): ")
    assert "nothing is published" in err
    assert not (tmp_path / "table").exists()
    assert run(made.episode(30, action_probability=1.2), "--nocheck") == 0


def test_duplicates_are_an_error_unless_one_is_chosen(run, capsys):
    rows = made.episode(30) + made.episode(1)[:0] + made.episode(30)[:1]
    assert run(rows) == 65
    assert "duplicate_key" in capsys.readouterr().out
    assert run(rows, "--on_duplicate=first") == 0
    assert "duplicates" in capsys.readouterr().out


def test_a_new_name_is_refused_by_the_schema_of_the_table(run, capsys):
    assert run(made.episode(30)) == 0
    later = made.episode(30, ds="2026-01-02", metrics={"click": 1.0, "sale": 2.0})
    capsys.readouterr()
    assert run(later) == 65
    assert "metrics lost send_cost and gained sale" in capsys.readouterr().out
    assert run(later, "--on_change=accept") == 0


def test_a_day_without_some_names_keeps_the_schema_of_the_table(run, tmp_path):
    assert run(made.episode(30)) == 0
    first = manifest.schema(tmp_path / "table/ds=2026-01-01")
    assert run(made.episode(1, ds="2026-01-02", metrics={"click": 1.0})) == 0
    assert manifest.schema(tmp_path / "table/ds=2026-01-02") == first
    assert first.actions == ("drop", "send")


def test_a_file_of_horizon_gives_settings_that_flags_replace(run, tmp_path, capsys):
    path = tmp_path / "horizon.json"
    given = {"addTerminalStateRow": True, "actionDiscrete": True, "numOutputShards": 4}
    query = {"actions": ["send", "drop"]}
    path.write_text(json.dumps({"timeline": given, "query": query}))
    assert run(made.episode(30), f"--horizon={path}", "--last_row=drop") == 0
    assert settings(tmp_path)["last_row"] == "drop"
    assert settings(tmp_path)["eval_share"] == 0
    folder = manifest.newest(tmp_path / "table")
    assert manifest.schema(folder).actions == ("send", "drop")
    assert "note: numOutputShards has no effect" in capsys.readouterr().err


def test_a_given_schema_orders_the_actions(run, tmp_path):
    path = tmp_path / "schema.json"
    found = {"actions": ["send", "drop"], "features": [0, 3], "metrics": ["click"]}
    found["metrics"] += ["send_cost"]
    path.write_text(json.dumps(found))
    assert run(made.episode(30), f"--schema={path}") == 0
    folder = manifest.newest(tmp_path / "table")
    assert manifest.schema(folder).actions == ("send", "drop")


@pytest.mark.parametrize(
    "arguments, message",
    [
        ([], "no rows are given; pass --input"),
        (["--input=a"], "no folder is given for the table; pass --output"),
        (["--input=none", "--output=t"], "none does not exist"),
        (
            ["--input=a", "--output=t", "--engine=hive"],
            "engine=hive: expected duckdb or spark",
        ),
        (["--input=a", "--output=t", "--nstep=2"], "did you mean --n_step"),
        (["--input=a", "--output=t", "--horizon=no.json"], "^no.json cannot be read"),
        (["--input=a", "--output=t", "--horizon=3.json"], "^3.json is 3; expected an"),
        (["--input=a", "--output=t", "--schema=no.json"], "^no.json cannot be read"),
    ],
)
def test_bad_flags_are_user_errors(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "3.json").write_text("3")
    with pytest.raises(UserError, match=message):
        timeline.main(arguments)


def texts(folder):
    """Return the text of each file below a folder, but of no lock."""
    found = (path for path in folder.rglob("*") if path.is_file())
    return {path: path.read_bytes() for path in found if path.name != ".lock"}


def named(folder, name="rows.jsonl", **changes):
    """Write rows to a file in a folder, and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    made.write(folder / name, made.episode(30, **changes))
    return folder


def refused(tmp_path, output, message, *flags):
    """Check that nothing is lost when rows in ``logs`` become the table ``output``."""
    before = texts(tmp_path)
    with pytest.raises(UserError, match=message) as error:
        timeline.main([f"--input={tmp_path}/logs", f"--output={output}", *flags])
    assert "\n" not in str(error.value)
    assert texts(tmp_path) == before


@pytest.mark.parametrize("output", ["logs", ".", "logs/../logs", "link", "logs/ds=1"])
@pytest.mark.parametrize("flags", [[], ["--end_ds=2027-01-01"]])
def test_an_output_that_holds_an_input_is_refused(tmp_path, output, flags):
    named(tmp_path / "logs/ds=1/ds=2026-01-01")
    (tmp_path / "link").symlink_to(tmp_path / "logs")
    refused(tmp_path, tmp_path / output, "logs.*, which is read", *flags)


def test_samples_of_a_table_are_no_input_of_it(tmp_path):
    named(tmp_path / "logs")
    flags = [f"--input={tmp_path}/logs", f"--output={tmp_path}/logs/table"]
    with pytest.raises(UserError, match=r"lies in .*logs, which is read"):
        timeline.main(flags)


@pytest.mark.parametrize("name", ["mine.jsonl", "_manifest.json", "part-0.parquet"])
def test_a_partition_that_no_timeline_wrote_is_refused(tmp_path, name):
    named(tmp_path / "logs")
    named(tmp_path / "table/ds=2026-01-01", name)
    refused(
        tmp_path, tmp_path / "table", "ds=2026-01-01 has no readable _manifest.json"
    )


@pytest.mark.parametrize("name", ["notes.txt", "part-mine.parquet", "mine/notes.txt"])
def test_a_partition_with_files_of_others_is_refused(run, tmp_path, name):
    assert run(made.episode(30)) == 0
    named(tmp_path / "logs")
    mine = tmp_path / "table/ds=2026-01-01" / name
    mine.parent.mkdir(exist_ok=True)
    mine.write_text("mine")
    refused(tmp_path, tmp_path / "table", "which no timeline wrote")


def test_a_linked_partition_is_refused(run, tmp_path):
    assert run(made.episode(30)) == 0
    named(tmp_path / "logs")
    stored = (tmp_path / "table/ds=2026-01-01").rename(tmp_path / "stored")
    (tmp_path / "table/ds=2026-01-01").symlink_to(stored)
    refused(tmp_path, tmp_path / "table", "is a link")


def test_a_damaged_partition_is_made_again(run, tmp_path):
    assert run(made.episode(30)) == 0
    (part,) = (tmp_path / "table/ds=2026-01-01").glob("part-*")
    part.unlink()
    assert run(made.episode(30)) == 0
    assert len(logged.samples(part.parent)) == 30


def test_an_action_of_final_states_alone_is_refused_in_spark_too(monkeypatch):
    rows = made.episode(3)
    rows[-1]["final_possible_actions"] = ["send", "sned"]
    monkeypatch.setattr(timeline.command_line, "say", lambda text: None)
    with reader.open_rows(rows) as opened:  # has what rows of Spark have
        given = opened, None, TimelineConfig()
        with pytest.raises(UserError, match=r"no row took .*: sned\. Nothing"):
            timeline._is_right(timeline.TimelineCommand(engine="spark"), *given)
        given = opened, opened.find_schema(), TimelineConfig()
        assert timeline._is_right(timeline.TimelineCommand(engine="spark"), *given)
