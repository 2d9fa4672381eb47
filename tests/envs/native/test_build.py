from __future__ import annotations

import json
import os
import pathlib
import stat
import subprocess
import sys

import pytest
import tensorflow as tf

from tests.support.fault_env import fault_envs
from tfagents_batch import folders
from tfagents_batch.envs.graph.process_env import ProcessEnv
from tfagents_batch.envs.native import build
from tfagents_batch.envs.processes import backends
from tfagents_batch.envs.shared import futex
from tfagents_batch.errors import UserError

PROGRAM = """
import json, logging, sys
logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
import tensorflow as tf
from tfagents_batch.envs.graph.process_env import ProcessEnv
from tests.support.fault_env import fault_envs
with ProcessEnv(fault_envs(None), 1) as env:
    reward = tf.function(lambda: env.init(1)[1].reward, jit_compile=True)()
    print(json.dumps([env.backend, env.compilable, reward.numpy().tolist()]))
"""


@pytest.fixture
def fresh_cache(tmp_path, monkeypatch):
    """Make ``build`` look for the library again, in a cache folder of this test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("CXX", sys.executable)  # is found, but must not run
    monkeypatch.delenv(build.BACKEND_VARIABLE, raising=False)
    monkeypatch.setattr(build, "_run", lambda command: pytest.fail(f"ran {command}"))
    build._load.cache_clear()
    yield
    build._load.cache_clear()


@pytest.fixture
def cached(library, fresh_cache):
    """Return the path of the library; its folder exists."""
    path = build._path()
    path.parent.mkdir(parents=True)
    return path


def test_without_a_compiler_the_portable_backend_is_used_with_a_warning(
    fresh_cache, tmp_path, monkeypatch, caplog
):
    monkeypatch.setenv("CXX", "/nonexistent/g++")
    why = "there is no C\\+\\+ compiler: CXX is '/nonexistent/g\\+\\+', not found"
    with ProcessEnv(fault_envs(None), 1) as env:
        assert (env.backend, env.compilable) == ("portable", False)
        state, _ = env.init(1)
        assert env.step(state, [0, 0])[1].reward.numpy().tolist() == [1, 1]
        with pytest.raises(UserError, match=f"under jit_compile=True: .*{why}"):
            tf.function(lambda: env.init(1)[1].reward, jit_compile=True)()
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert "2 environments in 1 worker processes: portable" in record.getMessage()
    assert "CXX is '/nonexistent/g++'" in record.getMessage()
    assert not (tmp_path / "cache").exists()


@pytest.mark.xla
def test_the_library_is_built_once_into_the_cache_folder(
    tmp_path, library, monkeypatch, caplog
):
    """Use a fake compiler that copies the library of the other tests."""
    compiler = tmp_path / "compiler"
    loop = 'while [ "$1" != -o ]; do shift; done'
    compiler.write_text(f'#!/bin/sh\n{loop}\ncp {library._name} "$2"\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("CXX", str(compiler))
    caplog.set_level("INFO", "tfagents_batch")
    build._build(build._path())
    assert caplog.text.count("built the native backend") == 1
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CXX": "none"},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == ["native", True, [0, 0]]
    assert "INFO built the native" not in done.stderr
    assert "worker processes: native backend" in done.stderr
    (folder,) = (tmp_path / "tfagents_batch").iterdir()
    assert sorted(path.name for path in folder.iterdir()) == ["hub.so", "lock"]


@pytest.mark.xla
@pytest.mark.parametrize("part", range(4), ids=["file", "version", "ours", "cache"])
@pytest.mark.parametrize("exists", [True, False], ids=["loaded", "built"])
def test_a_library_that_others_can_write_is_neither_built_nor_loaded(
    cached, part, exists
):
    shared = [cached, *cached.parents][part if exists else max(part, 1)]
    if exists:
        cached.write_bytes(b"planted")
    shared.chmod(0o777)
    with pytest.raises(build.Unavailable, match=f"{shared} can be written by"):
        build.library()
    shared.chmod(0o700)


@pytest.mark.xla
def test_a_library_that_is_not_used_is_named_in_one_line(cached, caplog):
    cached.write_bytes(b"planted")
    cached.chmod(0o777)
    with ProcessEnv(fault_envs(None), 1) as env:
        assert env.backend == "portable"
    (line,) = caplog.messages
    assert line.count(str(cached)) == 1 and "\n" not in line
    with pytest.raises(UserError, match="backend='native' is unavailable: "):
        ProcessEnv(fault_envs(None), 1, backend="native")


@pytest.mark.xla
def test_a_library_of_another_user_is_not_loaded(cached, monkeypatch):
    cached.write_bytes(b"planted")
    lstat = os.lstat

    def belongs_to_another(path):
        found = list(lstat(path))
        found[stat.ST_UID] = 4242 if path == cached else 0
        return os.stat_result(found)

    monkeypatch.setattr(folders.os, "lstat", belongs_to_another)
    with pytest.raises(build.Unavailable, match=r"hub\.so belongs to another user"):
        build.library()


@pytest.mark.xla
def test_a_library_below_a_sticky_folder_is_loaded(cached):
    cached.parents[2].chmod(0o1777)  # like /tmp
    cached.write_bytes(b"\x7fELF and no more")
    with pytest.raises(build.Unavailable, match=f"{cached} cannot be loaded"):
        build.library()


def test_the_message_of_a_failed_compiler_is_reported(tmp_path, monkeypatch):
    compiler = tmp_path / "compiler"
    compiler.write_text("#!/bin/sh\necho hub.cc:1: error: no such thing >&2\nexit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    target = tmp_path / "cache" / "hub.so"
    with pytest.raises(build.Unavailable, match=r"status 1: hub\.cc:1: error: no such"):
        build._build(target)
    assert [path.name for path in target.parent.iterdir()] == ["lock"]


def no_home(monkeypatch, tmp_path):
    def no_entry(uid):
        raise KeyError(uid)

    monkeypatch.setattr("pwd.getpwuid", no_entry)
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)


def a_file(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))


@pytest.mark.parametrize("cache", [a_file, no_home])
def test_an_unusable_cache_is_reported(fresh_cache, tmp_path, monkeypatch, cache):
    cache(monkeypatch, tmp_path)
    with pytest.raises(build.Unavailable, match="set XDG_CACHE_HOME"):
        build.library()


def test_the_variable_forces_the_portable_backend(monkeypatch):
    name = build.BACKEND_VARIABLE
    monkeypatch.setenv(name, "portable")
    with ProcessEnv(fault_envs(None), 1) as env:
        assert (env.backend, env.compilable) == ("portable", False)
    with pytest.raises(UserError, match=f"{name}.*portable"):
        ProcessEnv(fault_envs(None), 1, backend="native")


def test_an_unsupported_machine_is_named_as_the_reason(monkeypatch):
    monkeypatch.setattr(futex.platform, "machine", lambda: "riscv64")
    monkeypatch.delenv(build.BACKEND_VARIABLE, raising=False)
    library, reason = backends.choose("auto", 1)
    assert library is None
    assert "x86_64" in reason


def test_environments_in_this_process_are_portable_without_a_warning(caplog):
    with ProcessEnv(fault_envs(None), 0) as env:
        assert env.backend == "portable"
    assert caplog.messages == []
    with pytest.raises(UserError, match="num_workers=0"):
        ProcessEnv(fault_envs(None), 0, backend="native")


def test_an_unknown_backend_is_refused():
    with pytest.raises(UserError, match="backend is 'fast'"):
        ProcessEnv(fault_envs(None), 1, backend="fast")


def test_the_sources_are_part_of_the_package():
    setup = pathlib.Path(build.__file__).parents[3] / "setup.py"
    if not setup.exists():
        pytest.skip("not a checkout")
    assert '{"tfagents_batch.envs.native": ["*.cc", "*.h"]}' in setup.read_text()
    names = [path.name for path in build.sources()]
    assert names == ["c_api.cc", "calls.cc", "futex.h", "hub.cc", "hub.h"]
