import json

import pytest

from tfagents_batch.errors import UserError
from tfagents_batch.offline.features import specification
from tfagents_batch.scripts import convert, timeline


@pytest.fixture
def flags(tmp_path, monkeypatch):
    """Write a table of 40 decisions; return the flags of its columns."""
    monkeypatch.chdir(tmp_path)
    lines = [
        f"u{k % 4},{k},{20 + k},{['DE', 'FR', ''][k % 3]},a{k % 2}" for k in range(40)
    ]
    (tmp_path / "t.csv").write_text("\n".join(["user,step,age,country,do", *lines, ""]))
    return ["--input=t.csv", "--action=do", "--episode=user", "--order=step"]


FEATURES = "--features=age", "--categories=country"


def test_names_numbers_and_types_are_kept_in_a_file(flags, capsys):
    assert convert.main([*flags, *FEATURES]) == 0
    out, err = capsys.readouterr()
    assert out == "rows\n"
    given = "--input=rows", "--features=features.json", "--output=table"
    assert f"next: tfagents-batch timeline {' '.join(given)}" in err
    found = specification.read("features.json").features
    assert [x.name for x in found.values()] == ["age", "country"]
    country = found[1]
    assert (country.feature_type, country.possible_values) == ("ENUM", (0, 1))
    assert country.categories == ("DE", "FR")
    assert timeline.main(given) == 0


def test_a_table_with_a_file_of_features_is_not_extended_without(flags):
    convert.main([*flags, *FEATURES])
    given = "--input=rows", "--output=table"
    assert timeline.main([*given, "--features=features.json"]) == 0
    with pytest.raises(UserError, match=r"missing\. Pass --features=<file> as before"):
        timeline.main(given)
    assert timeline.main([*given, "--features=features.json"]) == 0


def test_a_later_table_gets_the_numbers_of_the_file(flags, tmp_path, capsys):
    convert.main([*flags, *FEATURES])
    before = (tmp_path / "features.json").read_bytes()
    assert convert.main([*flags, "--known=features.json", "--output=later"]) == 0
    assert (tmp_path / "features.json").read_bytes() == before
    written = [tmp_path / x / "rows.parquet" for x in ("rows", "later")]
    assert written[0].read_bytes() == written[1].read_bytes()


def test_rows_that_no_conversion_wrote_stay(flags, tmp_path):
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows/rows.parquet").write_text("mine")
    with pytest.raises(UserError, match=r"rows has rows.parquet, which no convert"):
        convert.main([*flags, *FEATURES])
    assert (tmp_path / "rows/rows.parquet").read_text() == "mine"


def test_a_file_without_names_is_refused(flags, tmp_path):
    content = {"version": 2, "features": {"0": {"feature_type": "BINARY"}}}
    (tmp_path / "others.json").write_text(json.dumps(content))
    with pytest.raises(UserError, match=r"others.json has features without names of"):
        convert.main([*flags, "--known=others.json"])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "no table is given; pass --input"),
        (["--input=t.csv"], "no column of actions is given"),
        (["--input=t.csv", "--action=doo"], "--action: t.csv has no column 'doo'; did"),
        (["--input=t.csv", "--action=do"], "pass the columns of features"),
        (["--input=no.csv", "--action=do", *FEATURES], "no.csv is no file; expected"),
        (
            ["--input=t.txt", "--action=do", *FEATURES],
            "t.txt is no table; expected one",
        ),
        (["--input=t.csv", "--action=do", "--windw=3"], "did you mean --window"),
    ],
)
def test_bad_flags_are_user_errors(flags, tmp_path, given, message):
    (tmp_path / "t.txt").write_text("a\n")
    with pytest.raises(UserError, match=message):
        convert.main(given)
