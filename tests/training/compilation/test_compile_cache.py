import os
import pathlib
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from tfagents_batch.training.compilation import compile_cache
from tfagents_batch.training.compilation.compile_cache import Cache

NAME = "xla_compile_cache__1__2__XLA_CPU_JIT.pb"


@pytest.fixture
def opened(tmp_path):
    """Return a function that opens caches on one store; they are closed at the end."""
    caches = []

    def make(key="key"):
        caches.append(Cache(tmp_path / "xla", key))
        return caches[-1]

    yield make
    for cache in caches:
        cache.close()


def entries(tmp_path, key="key", kind="pb"):
    return sorted((tmp_path / "xla" / key).glob(f"*.{kind}"))


def compile_to(cache, data=b"program", name=NAME):
    """Write a compiled program, as TensorFlow does."""
    (cache.folder / name).write_bytes(data)


def test_the_next_process_finds_compiled_programs(opened):
    first = opened()
    compile_to(first)
    assert first.publish() == 1
    second = opened()
    assert (second.folder / NAME).read_bytes() == b"program"
    assert second.publish() == 0
    assert not list(opened("other").folder.iterdir())


def test_processes_that_start_at_once_keep_their_folders(tmp_path):
    with ThreadPoolExecutor(8) as pool:
        caches = list(pool.map(lambda _: Cache(tmp_path / "xla", "key"), range(16)))
    assert len({cache.folder for cache in caches}) == 16
    for cache in caches:
        assert cache.folder.is_dir()
        cache.close()


def test_closing_publishes_and_leaves_no_folder(opened, tmp_path):
    cache = opened()
    compile_to(cache)
    cache.close()
    cache.close()
    assert not cache.folder.exists()
    assert len(entries(tmp_path)) == 1


def test_the_next_process_reads_written_entries(opened, tmp_path):
    first = opened()
    assert first.read("name") is None
    first.write("name", b"old")
    first.write("name", b"new")
    first.write("another", b"x")
    written = entries(tmp_path, kind="entry")
    os.utime(min(written, key=lambda path: path.read_bytes() != b"old"), (1, 1))
    second = opened()
    assert second.read("name") == b"new"
    assert second.read("another") == b"x"
    assert second.read("nam") is None
    assert not list(second.folder.iterdir())  # nothing that TensorFlow would look at
    assert opened("other").read("name") is None


@pytest.mark.parametrize("damage", [b"", b"ol", b"olb"])
def test_a_damaged_written_entry_is_deleted(opened, tmp_path, damage):
    cache = opened()
    cache.write("name", b"old")
    entries(tmp_path, kind="entry")[0].write_bytes(damage)
    assert cache.read("name") is None
    assert not entries(tmp_path, kind="entry")


def test_written_entries_count_towards_the_size_limit(opened, tmp_path, monkeypatch):
    monkeypatch.setattr(compile_cache, "MAX_BYTES", 25)
    cache = opened()
    cache.write("name", bytes(20))
    os.utime(entries(tmp_path, kind="entry")[0], (1000, 1000))
    compile_to(cache, bytes(10))
    cache.publish()
    assert not entries(tmp_path, kind="entry") and len(entries(tmp_path)) == 1


@pytest.mark.parametrize("damage", [b"", b"prog", b"progrbm"])
def test_a_damaged_entry_is_deleted_before_it_is_read(opened, tmp_path, damage):
    compile_to(cache := opened())
    cache.publish()
    entries(tmp_path)[0].write_bytes(damage)
    assert not list(opened().folder.iterdir())
    assert not entries(tmp_path)


def test_a_pruned_entry_stays_in_a_process_that_linked_it(opened, tmp_path):
    compile_to(first := opened())
    first.publish()
    second = opened()
    entries(tmp_path)[0].unlink()
    assert (second.folder / NAME).read_bytes() == b"program"


def test_the_oldest_entries_above_the_limit_are_deleted(opened, tmp_path, monkeypatch):
    monkeypatch.setattr(compile_cache, "MAX_BYTES", 25)
    for number, key in enumerate(["old", "key", "key", "key"]):
        cache = opened(key)
        compile_to(cache, bytes(10), f"x{number}.pb")
        os.utime(cache.folder / f"x{number}.pb", (1000 + number, 1000 + number))
        cache.publish()
    assert [path.name[:2] for path in entries(tmp_path)] == ["x2", "x3"]
    assert not entries(tmp_path, "old")


def test_unfinished_files_are_left_alone(opened, tmp_path):
    cache = opened()
    compile_to(cache, name=f"{NAME}host-1-2.tmp")
    assert cache.publish() == 0
    assert not entries(tmp_path)


def test_folders_of_killed_processes_are_removed(opened, tmp_path):
    living = opened()
    dead = tmp_path / "xla" / "live-dead"
    dead.mkdir()
    (dead / NAME).write_bytes(b"program")
    opened()
    assert not dead.exists()
    assert living.folder.exists()


@pytest.mark.parametrize(
    ("part", "mode"),
    [("xla/key", 0o777), ("xla", 0o777), ("xla", 0o1777), (".", 0o777)],
)
def test_a_folder_that_others_may_write_to_is_not_used(opened, tmp_path, part, mode):
    opened()
    (tmp_path / part).chmod(mode)
    with pytest.raises(compile_cache._Off, match="can be written by other users"):
        opened()
    (tmp_path / part).chmod(0o700)


def test_a_disk_that_is_nearly_full_is_not_used(opened, monkeypatch):
    monkeypatch.setattr(compile_cache, "FREE_BYTES", 1 << 80)
    with pytest.raises(compile_cache._Off, match="nearly full"):
        opened()


def test_a_path_that_tensorflow_would_split_is_not_used(tmp_path):
    with pytest.raises(compile_cache._Off, match="cannot use a folder"):
        Cache(tmp_path / "a b" / "xla", "key")


def test_a_store_that_was_deleted_causes_no_error(opened, tmp_path):
    cache = opened()
    compile_to(cache)
    (tmp_path / "xla" / "key").rmdir()
    assert cache.publish() == 0


def test_the_key_depends_on_everything_that_changes_compiled_code():
    base = compile_cache.key(1, {})
    assert compile_cache.key(1, {"HOME": "/x", "TF_CPP_MIN_LOG_LEVEL": "3"}) == base
    assert compile_cache.key(1, {"XLA_FLAGS": "--xla_cpu_enable_fast_math"}) != base
    assert compile_cache.key(1, {"TF_ENABLE_ONEDNN_OPTS": "0"}) != base
    assert compile_cache.key(2, {}) != base


PROGRAM = """if True:
    import sys
    import tensorflow as tf
    from tfagents_batch.training.compilation import compile_cache
    print("off:", compile_cache.enable())
    import os
    assert "persistent_cache" not in os.environ.get("TF_XLA_FLAGS", "")

    for function in (tf.sin, tf.cos):
        program = tf.function(lambda x: function(x) + 1.0, jit_compile=True)
        print(f"{function.__name__}:", program(tf.ones([3])).numpy())
    print("published:", compile_cache.publish())
"""


def python(tmp_path, **variables):
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path), **variables}
    environment.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if compile_cache.VARIABLE not in variables:
        environment.pop(compile_cache.VARIABLE, None)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return dict(line.split(":", 1) for line in done.stdout.splitlines())


def stored(tmp_path):
    return list(pathlib.Path(tmp_path, "tfagents_batch", "xla").glob("*/*.pb"))


def test_tensorflow_finds_its_programs_again_and_survives_damage(tmp_path):
    first = python(tmp_path)
    assert (first["off"].strip(), first["published"].strip()) == ("", "2")
    entry, _ = stored(tmp_path)
    with open(entry, "r+b") as file:
        file.truncate(100)
    again = python(tmp_path)
    assert again["published"].strip() == "1"  # it was compiled, and the other one read
    assert [again[x] for x in ("sin", "cos")] == [first[x] for x in ("sin", "cos")]
    assert not list(entry.parent.parent.glob("live-*"))


@pytest.fixture
def fresh(tmp_path, monkeypatch):
    """Simulate a process in which TensorFlow has not run."""
    monkeypatch.delenv(compile_cache.VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(compile_cache, "_cache", None)
    monkeypatch.setattr(compile_cache, "has_run", lambda: False)
    return monkeypatch


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        (compile_cache.VARIABLE, "off", "is off"),
        ("TF_XLA_FLAGS", "--tf_xla_persistent_cache_directory=x", "another folder"),
    ],
)
def test_it_can_be_switched_off(name, value, reason, fresh):
    fresh.setenv(name, value)
    assert reason in compile_cache.enable()


def test_without_a_home_folder_it_is_off_with_a_warning(fresh, caplog):
    def no_entry(uid):
        raise KeyError(uid)

    fresh.delenv("XDG_CACHE_HOME")
    fresh.delenv("HOME", raising=False)
    fresh.setattr("pwd.getpwuid", no_entry)
    assert "no home folder" in compile_cache.enable()
    assert "programs are not stored: there is no home folder" in caplog.text


def test_it_is_off_if_tensorflow_has_run_before(tmp_path, fresh):
    fresh.setattr(compile_cache, "has_run", lambda: True)
    assert compile_cache.enable() == "TensorFlow had run before"
    assert not stored(tmp_path)


def test_missing_folders_are_created_for_the_user_only(tmp_path):
    before = os.umask(0o002)
    try:
        cache = compile_cache.Cache(tmp_path / "cache" / "package" / "xla", "key")
    finally:
        os.umask(before)
    try:
        created = [tmp_path / "cache", tmp_path / "cache/package", cache.folder]
        for folder in (*created, tmp_path / "cache/package/xla/key"):
            assert folder.stat().st_mode & 0o777 == 0o700
    finally:
        cache.close()
