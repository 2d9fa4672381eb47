import json
import subprocess
import sys

import pyarrow
import pytest
from pyarrow import parquet

from tests.offline import made
from tfagents_batch.errors import UserError
from tfagents_batch.offline import manifest
from tfagents_batch.offline.features import specification
from tfagents_batch.scripts import features, timeline


@pytest.fixture
def path(tmp_path):
    rows = made.episode(200)
    for k, row in enumerate(rows):
        row["state_features"] = {"0": k / 7 - 3, "3": 7, "5": [-1, 0.5, 2][k % 3]}
    return made.write(tmp_path / "rows.jsonl", rows)


def test_the_command_writes_a_specification_and_a_page(path, tmp_path, capsys):
    output, report = tmp_path / "features.json", tmp_path / "features.html"
    given = [f"--input={path}", f"--output={output}", f"--report={report}"]
    assert features.main(given) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[0].split() == ["BINARY", "1", "3"]
    assert out.splitlines()[-1] == f"sha256 {specification.read(output).sha256}"
    assert "note: feature 3: constant: every value is 7" in err
    assert "note: feature 5: few values: only 3 values: -1, 0.5, 2" in err
    page = report.read_text()
    assert page.startswith("<!doctype html>") and page.count("<svg ") == 6
    assert "http" not in page and "<script" not in page
    assert "every value is 7" in page and "feature 5, normalized values" in page


def test_infinite_values_are_status_65_and_only_the_page_is_written(tmp_path, capsys):
    rows = made.episode(30)
    rows[4]["state_features"] = {"0": 1e300, "3": 7}
    path = made.write(tmp_path / "rows.jsonl", rows)
    output, report = tmp_path / "features.json", tmp_path / "page.html"
    given = [f"--input={path}", f"--output={output}", f"--report={report}"]
    assert features.main(given) == 65
    (line,) = (x for x in capsys.readouterr().err.splitlines() if "error" in x)
    assert "feature 0 is infinite" in line and "rows.jsonl, row 5" in line
    assert not output.exists() and "infinite" in report.read_text()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([], "no file is given; pass --output"),
        (["--output=x.json"], "no rows are given; pass --input"),
    ],
)
def test_a_command_without_files_is_refused(flags, message):
    with pytest.raises(UserError, match=message):
        features.main(flags)


def test_the_timeline_publishes_a_specification(path, tmp_path, capsys):
    output, table = tmp_path / "features.json", tmp_path / "table"
    assert features.main([f"--input={path}", f"--output={output}"]) == 0
    given = [f"--input={path}", f"--output={table}", f"--features={output}"]
    assert timeline.main(given) == 0
    found = manifest.newest(table)
    expected = specification.read(output)
    assert specification.read(found / manifest.FEATURES) == expected
    assert manifest.read(found)["features_sha256"] == expected.sha256
    content = json.loads(output.read_text())
    content["features"]["99"] = {"feature_type": "BINARY"}
    output.write_text(json.dumps(content))
    with pytest.raises(UserError, match="features 99, which the rows do not have"):
        timeline.main(given)


def test_commands_on_rows_do_not_import_tensorflow(path, tmp_path):
    code = f"""if True:
        import sys
        from tfagents_batch.scripts import command_line, features, rows, timeline

        for command, *flags in (
            (rows,),
            (features, "--report={tmp_path}/page.html"),
            (timeline, "--output={tmp_path}/table"),
        ):
            sys.argv = ["command", "--input={path}", *flags]
            assert not command_line.run(command.main)
        sys.exit("tensorflow" in sys.modules)
    """
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


@pytest.mark.parametrize(
    ("name", "odd", "shown"),
    [
        ("rows.parquet", {"0": "0,5", "3": "7"}, "0,5"),
        ("rows.jsonl", {"0": "0,5", "3": "7"}, '"0":"0,5"'),
        ("rows.jsonl", {"0": None, "3": "7"}, '"0":null'),
        ("rows.jsonl", {"age": 1.0}, "age"),
        ("rows.jsonl", "none", "none"),
    ],
)
def test_values_that_cannot_be_read_are_status_65(name, odd, shown, tmp_path, capsys):
    """A specification of the others would be that of other rows."""
    rows = made.episode(60)
    for k, row in enumerate(rows):
        row["state_features"] = {"0": str(k / 7), "3": "7"} if k != 5 else odd
    path = tmp_path / name
    if path.suffix == ".jsonl":
        made.write(path, rows)
    else:
        parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    output = tmp_path / "features.json"
    assert features.main([f"--input={path}", f"--output={output}"]) == 65
    (line,) = (x for x in capsys.readouterr().err.splitlines() if "error" in x)
    assert "cannot be read in 1 of 60 rows" in line
    assert shown in line and f"{name}, row 6" in line
    assert not output.exists()


def test_a_value_that_is_nan_or_unread_elsewhere_is_a_missing_feature(tmp_path):
    rows = made.episode(60)
    rows[5] |= {"state_features": {"0": float("nan")}, "action_probability": "much"}
    path = made.write(tmp_path / "rows.jsonl", rows)
    given = [f"--input={path}", f"--output={tmp_path}/x.json", "--min_samples=20"]
    assert features.main(given) == 0
