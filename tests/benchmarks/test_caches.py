import pathlib

import pytest

from benchmarks import caches
from tfagents_batch.errors import UserError

BUILD = """
import os, pathlib
path = pathlib.Path(os.environ["XDG_CACHE_HOME"], "engine")
path.write_text(path.read_text() + "again" if path.exists() else "built")
"""


@pytest.fixture
def folders(monkeypatch):
    monkeypatch.setattr(caches, "_ENGINE", BUILD)
    with caches.Caches() as folders:
        yield folders


def found(folder):
    return {path.name: path.read_text() for path in pathlib.Path(folder).iterdir()}


def test_a_cold_cache_has_the_engine_and_nothing_that_a_run_left(folders):
    first = folders.cold()
    pathlib.Path(first, "program").write_text("compiled")
    assert found(folders.cold()) == {"engine": "built"}


def test_a_warm_cache_is_filled_once_and_then_shared(folders):
    filled = []

    def fill(folder):
        filled.append(folder)
        pathlib.Path(folder, "program").write_text("compiled")

    assert folders.warm("a", fill) == folders.warm("a", fill) == filled[0]
    assert found(filled[0]) == {"engine": "built", "program": "compiled"}
    assert folders.warm("b", fill) == filled[1]


def test_the_first_start_ever_finds_nothing(folders):
    folders.cold()
    assert found(folders.empty()) == {}


def test_nothing_is_left(monkeypatch):
    monkeypatch.setattr(caches, "_ENGINE", BUILD)
    with caches.Caches() as folders:
        made = [folders.empty(), folders.cold()]
    assert not any(map(pathlib.Path.exists, map(pathlib.Path, made)))


def test_an_engine_that_cannot_be_built_is_an_error_that_says_why(monkeypatch):
    monkeypatch.setattr(caches, "_ENGINE", "import sys; sys.exit('no compiler')")
    with (
        caches.Caches() as folders,
        pytest.raises(UserError, match="cannot be built: no compiler"),
    ):
        folders.cold()
