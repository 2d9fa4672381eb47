import importlib.util
import sys

from tfagents_batch.envs.worker.inherited import when_imported


def test_a_module_is_passed_on_after_its_import_which_is_not_caused(
    tmp_path, monkeypatch
):
    (tmp_path / "late_import.py").write_text("value = 3\n")
    monkeypatch.syspath_prepend(tmp_path)
    found = []
    when_imported("late_import", lambda module: found.append(module.value))
    assert found == []
    assert importlib.util.find_spec("late_import").origin  # looks, imports nothing
    assert "late_import" not in sys.modules
    module = importlib.import_module("late_import")
    assert found == [3]
    when_imported("late_import", found.append)  # already imported
    assert found[1] is sys.modules.pop("late_import") is module


def test_a_module_that_does_not_exist_is_reported_as_usual():
    when_imported("no_such_module", lambda module: None)
    try:
        importlib.import_module("no_such_module")
    except ModuleNotFoundError as error:
        assert error.name == "no_such_module"
