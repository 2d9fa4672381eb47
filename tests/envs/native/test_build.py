from __future__ import annotations

import json
import os
import pathlib
import stat
import subprocess
import sys

import pytest

from tests.fault_env import fault_envs
from tfagents_batch import folders
from tfagents_batch.envs import futex, routes
from tfagents_batch.envs.native import build
from tfagents_batch.envs.process_env import ProcessEnv
from tfagents_batch.errors import UserError

PROGRAM = """
import json, logging, sys
logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
import tensorflow as tf
from tfagents_batch.envs.process_env import ProcessEnv
from tests.fault_env import fault_envs
with ProcessEnv(fault_envs(None), 1) as env:
    state, step = env.init(1)
    state, step = env.step(state, [0, 0])
    text = ""
    try:
        tf.function(lambda: env.init(1)[1].reward, jit_compile=True)()
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
    found = [env.route, env.compilable, step.reward.numpy().tolist(), text]
print(json.dumps(found))
"""


def fresh(**variables):
    """What PROGRAM finds in a process of its own, and its log."""
    variables = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", **variables}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=variables,
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    lines = [x for x in done.stderr.splitlines() if x.startswith(("INFO", "WARN"))]
    return json.loads(done.stdout), [x for x in lines if "tensorflow" not in x]


def test_without_a_compiler_the_portable_route_is_taken_and_said(tmp_path):
    found, log = fresh(
        CXX="/nonexistent/g++", XDG_CACHE_HOME=str(tmp_path), TFAGENTS_BATCH_ROUTE=""
    )
    route, compilable, reward, error = found
    assert (route, compilable, reward) == ("portable", False, [1, 1])
    assert "there is no C++ compiler: CXX is '/nonexistent/g++', not found" in error
    assert "UserError" in error
    assert "jit_compile=True" in error
    (line,) = [x for x in log if "portable" in x]
    assert line.startswith("WARNING 2 environments in 1 worker processes: portable")
    assert "CXX is '/nonexistent/g++'" in line
    assert not (tmp_path / "tfagents_batch").exists()


@pytest.mark.xla
def test_it_is_built_once_into_the_cache_folder(tmp_path, library):
    for index in range(2):
        (route, compilable, reward, error), log = fresh(XDG_CACHE_HOME=str(tmp_path))
        assert (route, compilable, reward, error) == ("native", True, [1, 1], "")
        assert any("built the native" in line for line in log) == (index == 0)
        assert any("native route" in line for line in log)
    (made,) = (tmp_path / "tfagents_batch").iterdir()
    assert sorted(path.name for path in made.iterdir()) == ["hub.so", "lock"]


@pytest.mark.xla
def test_a_damaged_library_is_not_used_and_named(tmp_path, monkeypatch, library):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = build._path()
    path.parent.mkdir(parents=True)
    path.write_bytes(b"\x7fELF and no more")
    build._load.cache_clear()
    try:
        with pytest.raises(build.Unavailable, match=f"{path} cannot be loaded"):
            build.library()
    finally:
        build._load.cache_clear()


@pytest.fixture
def cached(tmp_path, monkeypatch, library):
    """Where the library belongs, in a cache folder of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("CXX", sys.executable)  # found, and must never run
    monkeypatch.setattr(build, "_run", lambda command: pytest.fail(f"ran {command}"))
    path = build._path()
    path.parent.mkdir(parents=True)
    build._load.cache_clear()
    yield path
    build._load.cache_clear()


@pytest.mark.xla
@pytest.mark.parametrize("part", range(4), ids=["file", "version", "ours", "cache"])
@pytest.mark.parametrize("there", [True, False], ids=["loaded", "built"])
def test_a_library_that_others_can_write_is_neither_built_nor_loaded(
    cached, caplog, part, there
):
    shared = [cached, *cached.parents][part if there else max(part, 1)]
    if there:
        cached.write_bytes(b"planted")
    shared.chmod(0o777)
    with pytest.raises(build.Unavailable, match=f"{shared} can be written to by"):
        build.library()
    with ProcessEnv(fault_envs(None), 1) as env:
        assert env.route == "portable"
    (line,) = caplog.messages
    assert line.count(str(shared)) == 1 and "\n" not in line
    with pytest.raises(UserError, match="route='native' cannot be had: "):
        ProcessEnv(fault_envs(None), 1, route="native")
    shared.chmod(0o700)


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
def test_a_library_below_a_folder_where_nobody_can_replace_it_is_loaded(cached):
    cached.parents[2].chmod(0o1777)  # as /tmp is
    cached.write_bytes(b"own, and damaged")
    with pytest.raises(build.Unavailable, match="cannot be loaded"):
        build.library()


def test_a_compiler_that_fails_is_told_with_its_message(tmp_path, monkeypatch):
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
def test_a_cache_folder_that_cannot_be_made_is_told(tmp_path, monkeypatch, cache):
    cache(monkeypatch, tmp_path)
    monkeypatch.setenv("CXX", sys.executable)  # found, and never run
    monkeypatch.delenv(build.ROUTE_VARIABLE, raising=False)
    build._load.cache_clear()
    try:
        with pytest.raises(build.Unavailable, match="set XDG_CACHE_HOME"):
            build.library()
    finally:
        build._load.cache_clear()


def test_the_variable_forces_the_portable_route(monkeypatch):
    monkeypatch.setenv(build.ROUTE_VARIABLE, "portable")
    with ProcessEnv(fault_envs(None), 1) as env:
        assert (env.route, env.compilable) == ("portable", False)
    with pytest.raises(UserError, match="TFAGENTS_BATCH_ROUTE=portable is set"):
        ProcessEnv(fault_envs(None), 1, route="native")


def test_an_unknown_machine_is_told(monkeypatch):
    monkeypatch.setattr(futex.platform, "machine", lambda: "riscv64")
    monkeypatch.delenv(build.ROUTE_VARIABLE, raising=False)
    library, reason = routes.choose("auto", 1)
    assert library is None
    assert "x86_64" in reason


def test_environments_in_this_process_are_portable_without_a_warning(caplog):
    with ProcessEnv(fault_envs(None), 0) as env:
        assert env.route == "portable"
    assert caplog.messages == []
    with pytest.raises(UserError, match="num_workers=0"):
        ProcessEnv(fault_envs(None), 0, route="native")


def test_an_unknown_route_is_refused():
    with pytest.raises(UserError, match="route is 'fast'"):
        ProcessEnv(fault_envs(None), 1, route="fast")


def test_the_source_is_part_of_the_package():
    setup = pathlib.Path(build.__file__).parents[3] / "setup.py"
    if not setup.exists():
        pytest.skip("not a checkout")
    assert '{"tfagents_batch.envs.native": ["hub.cc"]}' in setup.read_text()
    assert build._SOURCE.exists()
