"""Users' modules and files: imported, told apart, and refused with the reason."""

import sys

import pytest

from tfagents_batch.envs.shared import user_code
from tfagents_batch.errors import UserError


def test_a_file_is_imported_once_and_not_confused_with_another_of_its_name(tmp_path):
    values = []
    for folder in ("one", "two"):
        path = tmp_path / folder / "same.py"
        path.parent.mkdir()
        path.write_text(f"class A:\n    B = {folder!r}\n")
        module = user_code.load(str(path))
        assert user_code.load(str(path)) is module
        values.append(user_code.attribute(module, "A.B"))
        del sys.modules[module.__name__]
    assert values == ["one", "two"]


@pytest.mark.parametrize(
    "broken, message",
    [
        ("raise RuntimeError('no licence')", "raised RuntimeError: no licence"),
        ("import xyzzy_missing", "No module named 'xyzzy_missing'"),
        ("def f(:", "raised SyntaxError"),
    ],
)
def test_the_reason_is_given_if_a_file_cannot_be_imported(tmp_path, broken, message):
    path = tmp_path / "broken.py"
    path.write_text(broken)
    for _ in range(2):  # also the second time
        with pytest.raises(UserError, match=message):
            user_code.import_attribute(f"{path}:Mine", str(path), "Mine")


def test_only_classes_and_functions_of_a_file_are_suggested(tmp_path):
    path = tmp_path / "garden.py"
    path.write_text(
        "import numpy as np\nfrom pathlib import PurePath as Nopes\nNope1 = 3\n"
        "class Garden: pass\ndef make_garden(): pass\n"
    )
    hints = {"Nope": "", "Gardens": "Garden", "make_gardn": "make_garden"}
    for wrong, right in hints.items():
        with pytest.raises(UserError) as raised:
            user_code.import_attribute(f"./garden.py:{wrong}", str(path), wrong)
        hint = f"; did you mean {right!r}?" if right else ""
        assert str(raised.value).endswith(f"garden.py has no {wrong!r}{hint}")
