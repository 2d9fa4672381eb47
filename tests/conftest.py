"""After every test: no child process, descriptor, shared memory or thread is left."""

from __future__ import annotations

import contextlib
import gc
import glob
import os
import re
import signal
import sys
import threading

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TFAGENTS_BATCH_COMPILE_CACHE", "off")  # of the user's
# Tests compile many programs and run each for a moment. Benchmarks and users' runs have
# XLA's own optimization level.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

import cloudpickle
import psutil
import pytest
import tensorflow as tf

# A shell that starts the tests in the background makes them and their children ignore
# Ctrl-C, and nohup the end of the terminal. Some of them send these signals.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# TensorFlow, XLA, Python and matplotlib open these at first use and keep them; pym- is
# the heap of multiprocessing, from which AsyncVectorEnv has its memory.
_LASTING = re.compile(
    r"/dev/(urandom|null)|.*\.so[.\d]*|/sys/.*|/proc/.*|.*(events\.out\.tfevents).*|.*\.ttf"
    r"|.*/pym-.*"
)


def pytest_collection_finish(session):
    """Spend the time of the tests on what they test.

    Workers get environments of test modules by value: they would import the module,
    and TensorFlow with it, for seconds. What is imported stays, so garbage collection
    need not look through it again, and tracing makes many objects that stay.
    TensorFlow's optimizer of graphs takes longer than the few steps that a test makes
    with its result.
    """
    for name in {item.module.__name__ for item in session.items}:
        if name in sys.modules:
            cloudpickle.register_pickle_by_value(sys.modules[name])
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})


@pytest.fixture(autouse=True)
def nothing_is_left():
    before = _held()
    yield
    if _extra(before):
        gc.collect()  # a test may drop what closes itself when collected
    extra = _extra(before)
    assert not extra, f"left behind: {extra}"


def _held() -> dict[str, set]:
    return {
        "processes": {
            (process.pid, process.create_time())
            for process in psutil.Process().children(recursive=True)
        },
        "descriptors": _descriptors(),
        "shared memory": set(os.listdir("/dev/shm"))
        if os.path.isdir("/dev/shm")
        else set(),
        # A thread of TensorFlow's that ran a Python function shows up as a dummy.
        "threads": {
            thread
            for thread in threading.enumerate()
            if not isinstance(thread, threading._DummyThread)
        },
    }


def _descriptors() -> set[tuple[str, str]]:
    found = set()
    for path in glob.glob("/proc/self/fd/*"):
        try:
            target = os.readlink(path)
        except FileNotFoundError:
            continue  # the listing's own
        if not _LASTING.fullmatch(target):
            found.add((path, target))
    return found


def _extra(before: dict[str, set]) -> dict[str, set]:
    after = _held()
    return {
        kind: after[kind] - before[kind] for kind in after if after[kind] - before[kind]
    }


def pytest_collection_modifyitems(items):
    """In-process environments have one backend: do not test them twice.

    The test that takes longest comes first, so that no process waits for another one
    that has begun it last.
    """
    items.sort(key=lambda item: item.path.name != "test_second_start.py")
    items[:] = [
        item
        for item in items
        if not (
            (parameters := getattr(item, "callspec", None))
            and parameters.params.get("backend") == "native"
            and parameters.params.get("num_workers") == 0
        )
    ]


@pytest.fixture(params=["portable", pytest.param("native", marks=pytest.mark.xla)])
def backend(request):
    """Both ways to worker processes; the native one where there is a compiler."""
    if request.param == "native":
        request.getfixturevalue("library")
    return request.param


@pytest.fixture(scope="session")
def library():
    """The native hub's library; skips, saying why, where it cannot be had."""
    from tfagents_batch.envs.native import build

    try:
        return build.library()
    except build.Unavailable as error:
        pytest.skip(f"no native backend: {error}")


@pytest.fixture
def make_pool(backend):
    """Makes pools and closes them."""
    from tests.support.stepped import Stepped
    from tfagents_batch.envs.processes.pool import Pool

    with contextlib.ExitStack() as stack:

        def make(constructors, num_workers=None, **options):
            chosen = backend if num_workers != 0 else "auto"
            pool = Stepped(Pool(constructors, num_workers, backend=chosen, **options))
            stack.callback(pool.close)
            return pool

        yield make


@pytest.fixture
def make_process_env(backend):
    """Makes process environments and closes them."""
    from tfagents_batch.envs.graph.process_env import ProcessEnv

    with contextlib.ExitStack() as stack:

        def make(constructors, num_workers=None, **options):
            options["backend"] = backend if num_workers != 0 else "auto"
            env = ProcessEnv(constructors, num_workers, **options)
            stack.callback(env.close)
            return env

        yield make


@pytest.fixture(scope="module")
def linear():
    """Register the algorithm of ``support/linear.py`` as "linear"; return that name."""
    from tests.support import linear
    from tfagents_batch import algorithms

    with pytest.MonkeyPatch.context() as patch:
        entry = (linear.Linear, linear.Config)
        patch.setitem(algorithms.REGISTRY, "linear", entry)
        yield "linear"
