import os
import pathlib
import stat
import sys

import pytest
import tensorflow as tf

from tests.support.fault_env import fault_envs
from tfagents_batch.envs.graph.process_env import ProcessEnv
from tfagents_batch.envs.native import build
from tfagents_batch.envs.processes import backends
from tfagents_batch.envs.recipe import EnvRecipe
from tfagents_batch.errors import UserError
from tfagents_batch.training import assembly
from tfagents_batch.training.config import RunConfig


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
            tf.function(
                lambda: env.init(1)[1].reward, jit_compile=True, autograph=False
            )()
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert "2 environments in 1 worker processes: portable" in record.getMessage()
    assert "CXX is '/nonexistent/g++'" in record.getMessage()
    assert not (tmp_path / "cache").exists()


def test_the_library_is_built_once_into_the_cache_folder(
    fresh_cache, tmp_path, monkeypatch, caplog
):
    def compile_once(command):
        assert not caplog.messages, "it was built again"
        pathlib.Path(command[command.index("-o") + 1]).write_bytes(b"a library")

    monkeypatch.setattr(build, "_run", compile_once)
    monkeypatch.setattr(build, "_open", lambda path: path)
    caplog.set_level("INFO", "tfagents_batch")
    assert build.is_due()
    path = build.library()
    assert not build.is_due()
    build._load.cache_clear()  # as in another process
    assert build.library() == path and path.read_bytes() == b"a library"
    assert caplog.text.count("built the native backend") == 1
    (folder,) = (tmp_path / "cache" / "tfagents_batch").iterdir()
    assert sorted(path.name for path in folder.iterdir()) == ["hub.so", "lock"]


@pytest.mark.xla
def test_with_a_library_programs_are_compiled_and_the_backend_is_logged(
    library, monkeypatch, caplog
):
    monkeypatch.delenv(build.BACKEND_VARIABLE, raising=False)
    caplog.set_level("INFO", "tfagents_batch")
    with ProcessEnv(fault_envs(None), 1) as env:
        assert (env.backend, env.compilable) == ("native", True)
        reward = tf.function(
            lambda: env.init(1)[1].reward, jit_compile=True, autograph=False
        )()
    assert reward.numpy().tolist() == [0, 0]
    assert "worker processes: native backend" in caplog.text


@pytest.mark.xla
@pytest.mark.parametrize(
    ("part", "exists"), [*((part, True) for part in range(4)), (1, False), (3, False)]
)
def test_a_library_that_others_can_write_is_neither_built_nor_loaded(
    cached, part, exists
):
    shared = [cached, *cached.parents][part]
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

    monkeypatch.setattr(build.os, "lstat", belongs_to_another)
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


@pytest.mark.parametrize("cache", ["a file", None])
def test_an_unusable_cache_is_reported(fresh_cache, tmp_path, monkeypatch, cache):
    if cache:
        (tmp_path / cache).touch()
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / cache))
    else:  # and no home
        monkeypatch.setattr("pwd.getpwuid", {}.__getitem__)
        monkeypatch.delenv("HOME", raising=False)
        monkeypatch.delenv("XDG_CACHE_HOME")
    with pytest.raises(build.Unavailable, match="set XDG_CACHE_HOME"):
        build.library()


def test_the_variable_forces_the_portable_backend(monkeypatch):
    name = build.BACKEND_VARIABLE
    monkeypatch.setenv(name, "portable")
    with ProcessEnv(fault_envs(None), 1) as env:
        assert (env.backend, env.compilable) == ("portable", False)
    with pytest.raises(UserError, match=f"{name}.*portable"):
        ProcessEnv(fault_envs(None), 1, backend="native")


def test_a_start_names_the_native_backend_only_if_it_is_built(monkeypatch):
    config, recipe = RunConfig(env="CartPole-v1"), EnvRecipe("CartPole-v1")
    for due in (False, True):
        monkeypatch.setattr(build, "is_due", lambda due=due: due)
        text = assembly.start_of(config, recipe, None)
        assert ("native backend" in text) == due
    assert "native" not in assembly.start_of(config, EnvRecipe("tf/Catch-v0"), None)


def test_an_unsupported_machine_is_named_as_the_reason(monkeypatch):
    monkeypatch.setattr(build.platform, "machine", lambda: "riscv64")
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
    assert '"tfagents_batch.envs.native": ["*.cc", "*.h"]' in setup.read_text()
