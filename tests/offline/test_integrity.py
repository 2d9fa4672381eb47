"""Damage of a table is noticed when the table is opened."""

import os

import pyarrow
import pytest
from pyarrow import parquet

from tests.offline import timelines
from tfagents_batch.errors import UserError
from tfagents_batch.offline import manifest, publish, table_reader


@pytest.fixture
def folder(tmp_path):
    timelines.build(tmp_path, timelines.walks())
    return manifest.newest(tmp_path)


def part_of(folder):
    (part,) = folder.glob("part-*.parquet")
    return part


def as_earlier_versions_wrote(folder):
    (part,) = manifest.read(folder)["parts"]
    timelines.change_manifest(folder, parts=[{k: part[k] for k in ("name", "bytes")}])


def refused(folder, text):
    with pytest.raises(UserError, match=text) as error:
        table_reader.partition(folder)
    assert "\n" not in str(error.value)


def flip(path, position):
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("place", [0.02, 0.3, 0.5, 0.7, 0.99])
@pytest.mark.parametrize("name", ["part", "manifest"])
def test_a_flipped_bit_is_noticed(folder, name, place):
    path = part_of(folder) if name == "part" else folder / manifest.NAME
    flip(path, int(place * path.stat().st_size))
    refused(folder, f"{path.name}|has no readable|has version")


def test_a_part_that_changes_after_it_was_read_is_noticed(folder):
    table_reader.partition(folder)
    flip(part_of(folder), 100)
    os.utime(part_of(folder), (1, 1))
    refused(folder, "has changed: its SHA-256 differs")


@pytest.mark.parametrize("size", [0, 3, 1000])
def test_a_truncated_part_is_noticed(folder, size):
    path = part_of(folder)
    path.write_bytes(path.read_bytes()[:size])
    refused(folder, f"has {size:,} bytes; expected a file of")


def test_a_missing_part_is_noticed(folder):
    part_of(folder).unlink()
    refused(folder, "is missing")


def test_a_part_with_fewer_rows_is_noticed(folder):
    path = part_of(folder)
    rows = parquet.read_table(path)
    parquet.write_table(rows.slice(0, 10), path)
    known = manifest.read(folder)
    name, size = path.name, path.stat().st_size
    refused(folder, "expected a file of")
    timelines.change_manifest(folder, parts=[{"name": name, "bytes": size}])
    refused(folder, f"has 10 rows; expected {known['rows']}")


@pytest.mark.parametrize(
    "name", ["../part-0.parquet", "/etc/passwd", "ds=1/part-0.parquet", "x.parquet", 3]
)
def test_a_name_that_leads_out_of_the_folder_is_refused(folder, name):
    path = part_of(folder)
    size = path.stat().st_size
    (folder.parent / "part-0.parquet").write_bytes(path.read_bytes())
    timelines.change_manifest(folder, parts=[{"name": name, "bytes": size}])
    refused(folder, "_manifest.json is damaged, or was changed")


@pytest.mark.parametrize("name", ["part", "manifest"])
def test_a_pipe_is_refused(folder, name):
    path = part_of(folder) if name == "part" else folder / manifest.NAME
    path.unlink()
    os.mkfifo(path)
    refused(folder, "expected a file of|it is no file")


@pytest.mark.parametrize("name", ["rows", "parts", "schema", "config"])
@pytest.mark.parametrize("value", [None, "text", [3]])
def test_a_manifest_of_another_form_is_refused(folder, name, value):
    timelines.change_manifest(folder, **{name: value})
    refused(folder, "_manifest.json is damaged, or was changed")


def test_a_table_of_an_earlier_version_is_read_and_its_rows_are_counted(folder):
    before = table_reader.read(table_reader.partition(folder))
    as_earlier_versions_wrote(folder)
    found = table_reader.partition(folder)
    assert table_reader.read(found)["reward"].tolist() == before["reward"].tolist()
    timelines.change_manifest(folder, rows=found.rows + 1)
    refused(folder, f"has {found.rows} rows; expected {found.rows + 1}")


def test_damage_in_a_table_of_an_earlier_version_is_one_line(folder):
    as_earlier_versions_wrote(folder)
    path = part_of(folder)
    data = path.read_bytes()
    path.write_bytes(data[:4] + bytes(len(data) // 2 - 4) + data[len(data) // 2 :])
    found = table_reader.partition(folder)
    with pytest.raises(UserError, match="cannot be read") as error:
        table_reader.read(found)
    assert "\n" not in str(error.value)
    path.write_bytes(bytes(len(data)))
    refused(folder, "is damaged")


def test_files_are_hashed_once_in_a_process(folder, monkeypatch):
    hashed = []

    def count(path, actual=publish.digest):
        hashed.append(path)
        return actual(path)

    monkeypatch.setattr(publish, "digest", count)
    for _ in range(3):
        table_reader.partition(folder)
    assert hashed == [part_of(folder)]


def test_a_linked_part_is_read(folder, tmp_path):
    """Tools that version data replace files by links to their store."""
    stored = part_of(folder).rename(tmp_path / "stored")
    name = manifest.read(folder)["parts"][0]["name"]
    (folder / name).symlink_to(stored)
    assert (
        table_reader.partition(folder).rows
        == pyarrow.parquet.read_table(stored).num_rows
    )
