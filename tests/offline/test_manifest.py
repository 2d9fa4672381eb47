import hashlib
import shutil

import pytest

from tests.offline import made, timelines
from tests.support import logged
from tfagents_batch.errors import UserError
from tfagents_batch.offline import manifest, table_reader
from tfagents_batch.offline.schema import Schema
from tfagents_batch.offline.timeline_config import TimelineConfig


def days(*names):
    return [row for x in names for row in made.episode(mdp_id=x, ds=f"2026-01-0{x}")]


def test_a_manifest_describes_its_partition(tmp_path):
    summary, _ = logged.build(days("1", "2"), tmp_path, n_step=2)
    found = manifest.read(summary.folder)
    (part,) = found.pop("parts")
    path = summary.folder / part["name"]
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert part == {
        "name": path.name,
        "bytes": path.stat().st_size,
        "rows": 6,
        "sha256": digest,
    }
    assert found.pop("engine").startswith("duckdb v")
    assert len(found.pop("config_sha256")) == len(found.pop("manifest_sha256")) == 64
    config = found.pop("config")
    assert config["n_step"] == 2
    assert config["end_ds"] == "2026-01-02"
    schema = Schema.from_dict(found.pop("schema"))
    assert schema == manifest.schema(summary.folder)
    assert schema.actions == ("drop", "send")
    assert schema.features == (0, 3)
    assert found.pop("dropped").keys() == summary.dropped.keys()
    assert found == {
        "version": 1,
        "ds": "2026-01-02",
        "rows": 6,
        "episodes": 2,
        "terminals": 2,
        "rows_read": 6,
        "min_ds": "2026-01-01",
        "max_ds": "2026-01-02",
    }


def test_the_hash_of_the_settings_is_that_of_equal_settings(tmp_path):
    hashes = []
    for number, gamma in enumerate((0.5, 0.5, 0.6)):
        folder = tmp_path / f"{number}"
        summary, _ = logged.build(days("1"), folder, gamma=gamma)
        hashes.append(manifest.read(summary.folder)["config_sha256"])
    assert hashes[0] == hashes[1] != hashes[2]


def test_a_new_run_has_files_of_other_names(tmp_path):
    names = [
        {x.name for x in logged.build(days("1"), tmp_path)[0].folder.glob("part-*")}
        for _ in range(2)
    ]
    assert names[0].isdisjoint(names[1])


@pytest.mark.parametrize(
    "changes, settings, text",
    [
        ({"action": "wait"}, {}, "actions gained wait"),
        ({"state_features": {"3": 1, "5": 1}}, {}, "features lost 0 and gained 5"),
        ({"metrics": {"click": 1.0}}, {}, "metrics lost send_cost"),
        ({}, {"n_step": 3}, "n_step 1 became 3"),
        ({}, {"gamma": 0.7, "n_step": 2}, "n_step 1 became 2; gamma 0.5 became 0.7"),
        (
            {},
            {"train_share": 0.5, "eval_share": 0.5},
            "train_share 0.8 became 0.5; eval_share 0.2 became 0.5. Pass "
            "--train_share=0.8 --eval_share=0.2 as before, another --output",
        ),
        ({}, {"salt": "x"}, "salt  became x. Pass --salt= as before"),
    ],
)
@pytest.mark.parametrize("day", ["1", "2"])  # the same partition, and the next one
def test_samples_of_another_kind_are_refused(tmp_path, day, changes, settings, text):
    logged.build(days("1"), tmp_path)
    before = sorted(tmp_path.rglob("*.*"))
    new = [row | changes for row in days(day)]
    for row in new:
        row["possible_actions"] = ["send", "drop", row["action"]]
    with pytest.raises(UserError, match=f"{text}.*Nothing is published"):
        logged.build(new, tmp_path, **settings)
    assert sorted(tmp_path.rglob("*.*")) == before
    logged.build(new, tmp_path, on_change="accept", **settings)


def test_equal_samples_extend_the_table(tmp_path):
    logged.build(days("1"), tmp_path)
    logged.build(days("1", "2"), tmp_path, start_ds="2026-01-02")
    assert manifest.newest(tmp_path) == tmp_path / "ds=2026-01-02"
    assert len(list(tmp_path.glob("ds=*"))) == 2


def set_form(folder, form):
    """Let a partition have the setting ``form`` of an earlier release."""
    config = manifest.read(folder)["config"] | {"form": form}
    timelines.change_manifest(folder, config=config)


def test_a_partition_with_the_old_form_of_rows_is_read_and_extended(tmp_path):
    set_form(logged.build(days("1"), tmp_path)[0].folder, "rows")
    assert table_reader.partition(tmp_path).manifest["rows"] == 3
    logged.build(days("1", "2"), tmp_path, start_ds="2026-01-02")


def test_a_partition_of_arrays_is_refused(tmp_path):
    folder = logged.build(days("1"), tmp_path)[0].folder
    set_form(folder, "arrays")
    text = r"manifest\.json has samples in the form arrays; .* the timeline again"
    with pytest.raises(UserError, match=text):
        table_reader.partition(tmp_path)
    for name in "12":  # in its place, and beside it
        with pytest.raises(UserError, match=text):
            logged.build(days(name), tmp_path)
    logged.build(days("2"), tmp_path, on_change="accept")


def test_a_newest_partition_without_a_manifest_is_no_older_one(tmp_path):
    logged.build(days("1"), tmp_path)
    last = logged.build(days("1", "2"), tmp_path, start_ds="2026-01-02")[0].folder
    (last / manifest.NAME).unlink()
    text = rf"{last} has no readable _manifest\.json.*; bring it back"
    with pytest.raises(UserError, match=text):
        table_reader.partition(tmp_path)
    with pytest.raises(UserError, match=text):
        logged.build(days("3"), tmp_path, start_ds="2026-01-03")
    shutil.rmtree(last)
    (tmp_path / "ds=notes").touch()  # no folder
    assert table_reader.partition(tmp_path).folder == tmp_path / "ds=2026-01-01"


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 2}'])
def test_a_manifest_that_is_not_readable_is_refused(tmp_path, text):
    (tmp_path / manifest.NAME).write_text(text)
    with pytest.raises(UserError, match=r"_manifest.json"):
        manifest.read(tmp_path)
    (tmp_path / "ds=1").mkdir()
    (tmp_path / "ds=1" / manifest.NAME).write_text(text)
    with pytest.raises(UserError):
        manifest.check_change(tmp_path, Schema(), TimelineConfig(), False)
