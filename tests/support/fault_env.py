"""Environment with planted faults; workers import it, so it has no TensorFlow."""

from __future__ import annotations

import ctypes
import functools
import os
import signal
import socket
import sys
import threading
import time
from typing import Any

import gymnasium
import numpy as np


class FaultEnv(gymnasium.Env):
    """Environment that observes ``(env, episode, step)`` and fails once.

    Args:
      mode: one of ``MODES`` below, or None for a healthy environment.
      phase: "construct", "reset", "step" or "close".
      step: steps completed in the episode when it fails (phase "step").
      episode: episode in which it fails, counted from 0; None for every one.
      env: index of this environment, observed.
      target: index of the environment that fails; the others are healthy.
      length: steps in an episode.
      seconds: sleeping time of ``hang`` and the ``slow`` modes.
      mark: path of a file that is created at the failure. An environment does not fail
        if the file exists, so that a replacement is healthy.
    """

    def __init__(
        self,
        mode: str | None = None,
        *,
        phase: str = "step",
        step: int = 3,
        episode: int | None = 0,
        env: int = 0,
        target: int = 0,
        length: int = 10,
        seconds: float = 3600.0,
        mark: str | None = None,
    ):
        if mode is not None and mode not in MODES:
            raise ValueError(f"mode is {mode!r}; expected one of {', '.join(MODES)}")
        self.observation_space = gymnasium.spaces.Box(0, 1e6, (3,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)
        self._mode = mode if env == target else None
        self._place = (phase, step, episode)
        self._env = env
        self._length = length
        self._seconds = seconds
        self._mark = mark
        self._episode = -1
        self._step = 0
        self._buffer = np.zeros(3, np.float32)
        if self._is_due("construct"):
            self._fail()

    def reset(self, *, seed: int | None = None, options: dict | None = None):
        super().reset(seed=seed)
        self._episode = 0 if seed is not None else self._episode + 1
        self._step = 0
        result = (self._observation(), {})
        if not self._is_due("reset"):
            return result
        self._fail()
        return _corrupt(self._mode, result)

    def step(self, action):
        is_due = self._is_due("step")
        if is_due:
            self._fail()
        self._step += 1
        ended = self._step >= self._length
        result = (self._observation(), float(self._step), ended, False, {})
        return _corrupt(self._mode, result) if is_due else result

    def close(self):
        if self._is_due("close"):
            self._fail()

    def _is_due(self, phase: str) -> bool:
        where, step, episode = self._place
        if self._mode is None or phase != where:
            return False
        if phase not in ("construct", "close"):
            here = episode is None or episode == self._episode
            if not here or (phase != "reset" and step != self._step):
                return False
        if self._mark is None:
            return True
        failed_before = os.path.exists(self._mark)
        open(self._mark, "w").close()
        return not failed_before

    def _observation(self) -> np.ndarray:
        values = (self._env, self._episode, self._step)
        if self._mode != "reuse_buffer":
            return np.array(values, np.float32)
        self._buffer[:] = values
        return self._buffer

    def _fail(self) -> None:
        """Do what the mode does, apart from changing the returned values."""
        mode = self._mode
        if mode in _RAISES:
            raise _RAISES[mode]()
        if mode in ("hang", "slow_once", "slow_always"):
            time.sleep(self._seconds)
        elif mode in _ACTS:
            _ACTS[mode]()
        if mode == "slow_always":
            where, step, _ = self._place
            self._place = (where, (step + 1) % self._length, None)


def fault_envs(mode: str | None, num_envs: int = 2, **options: Any) -> list[Any]:
    """Return the constructors of a batch in which one environment fails.

    Args:
      mode: as in ``FaultEnv``.
      num_envs: size of the batch.
      options: arguments of ``FaultEnv``; the default of ``target`` is the last one.
    """
    options = {"target": num_envs - 1, **options}
    return [
        functools.partial(FaultEnv, mode, env=i, **options) for i in range(num_envs)
    ]


class TwoArguments(Exception):
    """Exception that cannot be unpickled: ``args`` lacks a constructor argument."""

    def __init__(self, code: int, text: str):
        super().__init__(f"{text} ({code})")


class Unprintable(Exception):
    """Exception that cannot be converted to text."""

    def __str__(self) -> str:
        raise RuntimeError("no text for you")


def _local_class() -> Exception:
    class Local(Exception):
        pass

    return Local("of a local class")


_RAISES: dict[str, Any] = {
    "exc": lambda: ValueError("something broke"),
    "exc_local_class": _local_class,
    "exc_two_args": lambda: TwoArguments(7, "two arguments"),
    "exc_percent": lambda: ValueError("100% of %s and %d {braces}"),
    "exc_bytes": lambda: ValueError(b"\xff\xfe".decode("utf-8", "surrogateescape")),
    "exc_str": Unprintable,
    "sysexit": lambda: SystemExit(5),
    "keyboard": KeyboardInterrupt,
}


def _hang_with_gil() -> None:
    7 ** (10**8)  # one bytecode that runs for minutes


def _out_of_memory() -> None:
    import resource  # not on Windows

    with open("/proc/self/statm") as file:
        pages = int(file.read().split()[0])
    limit = pages * resource.getpagesize() + (64 << 20)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    np.ones(1 << 30, np.uint8)


def _steal_signals() -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
        signal.signal(number, lambda *_: None)


def _fork_child() -> None:
    if os.fork() == 0:
        time.sleep(3600)
        os._exit(0)


def control_socket() -> socket.socket:
    """Return a duplicate of this worker's control socket, for faults on the channel."""
    return socket.socket(fileno=os.dup(int(sys.argv[2])))


def _send(frame: bytes) -> None:
    with control_socket() as channel:
        channel.sendall(frame)


def _stale_reply() -> None:
    from tfagents_batch.envs.shared import protocol

    _send(protocol.pack(protocol.STEP, sequence=1))


_ACTS: dict[str, Any] = {
    "exit": lambda: os._exit(3),
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "segv": lambda: ctypes.string_at(0),
    "oom": _out_of_memory,
    "hang_gil": _hang_with_gil,  # a named function, which appears in the stack
    "stop": lambda: os.kill(os.getpid(), signal.SIGSTOP),
    "flood_stdout": lambda: print("flood " * 100_000),
    "chdir": lambda: os.chdir("/"),
    "steal_signals": _steal_signals,
    "threads": lambda: threading.Thread(target=time.sleep, args=(3600,)).start(),
    "fork_child": _fork_child,
    "stale_reply": _stale_reply,
    "garbage_reply": lambda: _send(b"this is not a header of ours, it is text"),
    "close_descriptors": lambda: os.closerange(3, 64),
    "reuse_descriptors": lambda: os.dup2(0, int(sys.argv[2])),
}

_OBSERVATIONS: dict[str, Any] = {
    "nan": lambda x: np.full_like(x, np.nan),
    "inf": lambda x: np.full_like(x, -np.inf),
    "shape": lambda x: x[:-1],
    "out_of_bounds": lambda x: x - 5,
}


_STEPS: dict[str, Any] = {
    "reward_array": lambda obs, reward, *rest: (obs, np.array([reward]), *rest),
    "reward_nan": lambda obs, reward, *rest: (obs, float("nan"), *rest),
    "flag_int": lambda obs, reward, over, *rest: (obs, reward, int(over), *rest),
    "legacy_tuple": lambda obs, reward, over, *_: (obs, reward, over, {}),
}
_ELSEWHERE = {"hang", "slow_once", "slow_always", "info_list", "reuse_buffer"}
MODES = {*_RAISES, *_ACTS, *_OBSERVATIONS, *_STEPS, *_ELSEWHERE}


def _corrupt(mode: str | None, result: tuple) -> tuple:
    """Return ``result`` of ``reset`` or ``step`` with the defect of the mode."""
    if mode in _OBSERVATIONS:
        return (_OBSERVATIONS[mode](result[0]), *result[1:])
    if mode == "info_list":
        return (*result[:-1], [])
    if len(result) == 5:
        return _STEPS[mode](*result) if mode in _STEPS else result
    return result[0] if mode == "legacy_tuple" else result
