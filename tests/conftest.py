"""Shared fixtures; after each test no process, descriptor or thread may be left."""

from __future__ import annotations

import contextlib
import gc
import glob
import os
import pathlib
import random
import re
import signal
import sys
import threading

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TFAGENTS_BATCH_COMPILE_CACHE", "off")  # spare the user's cache
# Tests compile many programs and run each for a moment. Benchmarks and users' runs use
# XLA's defaults, which take three times as long to compile; XLA_FLAGS="" tests those.
# A second core would compile parts of a program, but runs other tests.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
    " --xla_cpu_parallel_codegen_split_count=1",
)
# Each function that is not compiled would be searched for operations of oneDNN, which
# takes longer than the few steps of a test.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

import cloudpickle
import psutil
import pytest
import tensorflow as tf
from tensorflow.python.eager import context
from tensorflow.python.util import tf_stack

# Some tests send these signals. A shell that starts the tests in the background makes
# processes ignore Ctrl-C, and nohup makes them ignore the end of the terminal.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# TensorFlow, XLA, Python and matplotlib open these at first use and leave them open;
# pym- is the heap of multiprocessing, which AsyncVectorEnv uses.
_LASTING = re.compile(
    r"/dev/(urandom|null)|.*\.so[.\d]*|/sys/.*|/proc/.*|.*(events\.out\.tfevents).*|.*\.ttf"
    r"|.*/pym-.*"
)
_DEVICE_EVENTS = "15"  # NETLINK_KOBJECT_UEVENT


def pytest_collection_finish(session):
    """Make the tests faster.

    Workers get environments of test modules by value; otherwise they would import the
    module and TensorFlow, which takes seconds. Imported modules are excluded from
    garbage collection, which also runs less often, because most objects are permanent.
    TensorFlow's graph optimizer is disabled: it takes longer than the few steps of a
    test. Where operations are made is not recorded: that takes a tenth of the time
    of a test that trains. A new seed keeps the kernels of operations, which take
    as long to make again; only random operations that have a state need new ones.
    """
    for name in {item.module.__name__ for item in session.items}:
        if name in sys.modules:
            cloudpickle.register_pickle_by_value(sys.modules[name])
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    context.Context._set_global_seed = _set_global_seed
    if "PYTEST_XDIST_WORKER" in os.environ:  # and not with -n 0, to debug
        lines = tf_stack.extract_stack()
        tf_stack.extract_stack = lambda stacklevel=1: lines


def _set_global_seed(self, seed):
    self._seed = seed
    self._rng = random.Random(seed if seed is None else int(seed))


@pytest.fixture(autouse=True)
def nothing_is_left():
    others, before = set(psutil.pids()), _resources()
    yield
    if extra := _extra(before, others):
        gc.collect()  # some objects close when they are collected
        for thread in extra.get("threads", ()):
            if type(thread).__name__ == "FinalizerWorker":
                thread.join(10)  # py4j's thread ends within a second
    extra = _extra(before, others)
    assert not extra, f"left behind: {extra}"


def _resources() -> dict[str, set]:
    return {
        "processes": {
            (process.pid, process.create_time())
            for process in psutil.Process().children(recursive=True)
        }
        if _has_children()
        else set(),
        "descriptors": _descriptors(),
        "shared memory": set(_shared_memory()),
        # A TensorFlow thread that ran a Python function appears as a dummy thread.
        "threads": {
            thread
            for thread in threading.enumerate()
            if not isinstance(thread, threading._DummyThread)
        },
    }


def _has_children() -> bool:
    """Return whether this process has children, much faster than a list of them."""
    if not hasattr(os, "waitid"):
        return True  # macOS
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _descriptors() -> set[tuple[str, str]]:
    found = set()
    for path in glob.glob("/proc/self/fd/*"):
        try:
            target = os.readlink(path)
        except FileNotFoundError:
            continue  # the descriptor of this listing
        if not _LASTING.fullmatch(target):
            found.add((path, target))
    if not any(target.startswith("socket:") for _, target in found):
        return found
    lasting = _device_sockets()
    return {each for each in found if each[1] not in lasting}


def _device_sockets() -> set[str]:
    """Return the sockets that tell SDL, so pygame, about new input devices.

    A picture of Gymnasium's classic control opens two, and they last.
    """
    try:
        lines = pathlib.Path("/proc/net/netlink").read_text().splitlines()
    except OSError:
        return set()
    rows = (line.split() for line in lines)
    return {f"socket:[{row[-1]}]" for row in rows if row[1] == _DEVICE_EVENTS}


def _extra(before: dict[str, set], others: set[int]) -> dict[str, set]:
    after = _resources()
    extra = {kind: after[kind] - before[kind] for kind in after}
    if extra["shared memory"]:
        mapped, inodes = _mapped_by_others(others), _shared_memory()  # in this order
        own = {name for name, inode in inodes.items() if inode not in mapped}
        extra["shared memory"] &= own
    return {kind: left for kind, left in extra.items() if left}


def _shared_memory() -> dict[str, int]:
    """Return the inode of each file of shared memory."""
    found = {}
    for name in os.listdir("/dev/shm") if os.path.isdir("/dev/shm") else ():
        with contextlib.suppress(FileNotFoundError):
            found[name] = os.stat(f"/dev/shm/{name}").st_ino
    return found


def _mapped_by_others(others: set[int]) -> set[int]:
    """Return the inodes of shared memory in use by other tests.

    They are not compared by name, because a semaphore is mapped under another one.
    ``others`` are the processes from before this test. A new one whose parent is gone
    may belong to this test.
    """
    me = os.getpid()
    others = others - {me, *(process.pid for process in psutil.Process().parents())}
    inodes = set()
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            line = {process.pid, *(each.pid for each in process.parents())}
            if me not in line and line & others:
                maps = pathlib.Path(f"/proc/{process.pid}/maps").read_text()
                inodes |= {int(x) for x in re.findall(r"(\d+)\s+/dev/shm/", maps)}
    return inodes


def pytest_collection_modifyitems(items):
    """Test in-process environments once, as they have one backend.

    The longest test comes first, so that no test process waits for it at the end.
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
    """Return the name of each backend; the native one needs a compiler."""
    if request.param == "native":
        request.getfixturevalue("library")
    return request.param


@pytest.fixture(scope="session")
def library():
    """Return the native hub's library; skip the test if it cannot be built."""
    from tfagents_batch.envs.native import build

    try:
        return build.library()
    except build.Unavailable as error:
        pytest.skip(f"no native backend: {error}")


@pytest.fixture
def make_pool(backend):
    """Return a function that creates a ``Stepped``, closed after the test."""
    from tests.support.stepped import Stepped
    from tfagents_batch.envs.graph.process_env import ProcessEnv

    with contextlib.ExitStack() as stack:

        def make(constructors, num_workers=None, **options):
            chosen = backend if num_workers != 0 else "auto"
            env = ProcessEnv(constructors, num_workers, backend=chosen, **options)
            stack.callback(env.close)
            return Stepped(env)

        yield make


@pytest.fixture
def make_process_env(backend):
    """Return a function that creates a ``ProcessEnv``, closed after the test."""
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
