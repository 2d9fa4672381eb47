import pathlib

import pytest

from benchmarks import caches
from tfagents_batch.errors import UserError

BUILD = """
import os, pathlib
path = pathlib.Path(os.environ["XDG_CACHE_HOME"], "engine")
path.write_text(path.read_text() + "again" if path.exists() else "built")
"""


def found(folder):
    return {path.name: path.read_text() for path in pathlib.Path(folder).iterdir()}


def test_caches_are_empty_cold_or_warm_as_asked_for_and_nothing_is_left(monkeypatch):
    monkeypatch.setattr(caches, "_ENGINE", BUILD)
    filled = []

    def fill(folder):
        filled.append(folder)
        pathlib.Path(folder, "program").write_text("compiled")

    with caches.Caches() as folders:
        pathlib.Path(folders.cold(), "program").write_text("compiled")
        assert found(folders.cold()) == {"engine": "built"}
        assert found(folders.empty()) == {}
        assert folders.warm("a", fill) == folders.warm("a", fill) == filled[0]
        assert found(filled[0]) == {"engine": "built", "program": "compiled"}
        assert folders.warm("b", fill) == filled[1]
    assert not pathlib.Path(filled[0]).parent.exists()


def test_an_engine_that_cannot_be_built_is_an_error_that_says_why(monkeypatch):
    monkeypatch.setattr(caches, "_ENGINE", "import sys; sys.exit('no compiler')")
    with (
        caches.Caches() as folders,
        pytest.raises(UserError, match="cannot be built: no compiler"),
    ):
        folders.cold()
