import json

import pytest

from tests.offline import made
from tfagents_batch.errors import UserError
from tfagents_batch.scripts import rows


def test_clean_rows_are_status_zero(tmp_path, capsys):
    path = made.write(tmp_path / "a.jsonl", made.episode(30))
    assert rows.main([f"--input={path}"]) == 0
    assert capsys.readouterr().out == "30 rows: 0 errors, 0 warnings\n"


def test_errors_are_a_table_and_status_65(tmp_path, capsys):
    path = made.write(tmp_path / "a.jsonl", made.episode(30, action_probability=1.2))
    assert rows.main([f"--input={path}"]) == 65
    out = capsys.readouterr().out
    assert out.startswith("error propensity (30): ") and "a.jsonl, row 1: 1.2" in out


def test_json_is_a_list_and_notices_go_to_stderr(tmp_path, capsys):
    given = made.episode(30, action_probability=None, propensity=1.2)
    path = made.write(tmp_path / "a.jsonl", given)
    assert rows.main([f"--input={path}", "--json"]) == 65
    out, err = capsys.readouterr()
    assert [each["rule"] for each in json.loads(out)] == ["propensity"]
    assert err.startswith("note: column propensity is read as action_probability")


def test_a_written_schema_is_the_expected_one_of_later_rows(tmp_path, capsys):
    first = made.write(tmp_path / "a.jsonl", made.episode(30, price=1))
    later = made.write(tmp_path / "b.jsonl", made.episode(30, metrics={"sale": 1}))
    schema = tmp_path / "schema.json"
    given = [f"--write_schema={schema}", "--extra_columns=price"]
    assert rows.main([f"--input={first}", *given]) == 0
    assert rows.main([f"--input={first}", f"--schema={schema}"]) == 0
    capsys.readouterr()
    assert rows.main([f"--input={later}", f"--schema={schema}"]) == 65
    out = capsys.readouterr().out
    assert "metrics lost click, send_cost and gained sale" in out


def test_several_inputs_and_options_are_flags(tmp_path, capsys):
    for name in "ab":
        made.write(tmp_path / f"{name}.jsonl", made.episode(30)[:-1])
    inputs = ",".join(str(path) for path in tmp_path.iterdir())
    flags = ["--on_duplicate=last", "--errors=no_terminal"]
    assert rows.main([f"--input={inputs}", *flags]) == 65
    out = capsys.readouterr().out
    assert "error no_terminal (1)" in out and "warning duplicate_key (29)" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no rows are given; pass --input"),
        (["--input=none/"], "none does not exist"),
        (["--input=a", "--mod=discrete"], "unknown flag --mod; did you mean --mode"),
        (
            ["--input=a", "--schema=no.json"],
            "no.json cannot be read: No such file",
        ),
    ],
)
def test_bad_flags_are_user_errors(arguments, message):
    with pytest.raises(UserError, match=message):
        rows.main(arguments)
