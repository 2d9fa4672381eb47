"""One native hub, as Python sees it; numbers here and in hub.cc agree."""

from __future__ import annotations

import ctypes
import os
import struct
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tfagents_batch.envs import actions, layout

MAX_BUFFERS = 128

# Kinds of records.
NOTHING, STALE, NO_RESET, ACTION, WORKERS, GROUP, BUSY, IDLE = range(8)
# States of workers after a command.
WAITING, REPLIED, FAILED, DEAD, LATE, CUT, AWAY = range(7)

# XLA's numbers of dtypes.
DTYPES = {
    "bool": 1,
    **{"int8": 2, "int16": 3, "int32": 4, "int64": 5},
    **{"uint8": 6, "uint16": 7, "uint32": 8, "uint64": 9},
    **{"float16": 10, "float32": 11},
}

_I64, _INT, _VOID = ctypes.c_int64, ctypes.c_int, ctypes.c_void_p
_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "tfab_open": (_I64, [_INT, _VOID, _I64]),
    "tfab_ok": (_INT, [_I64]),
    "tfab_flags": (_INT, [_I64]),
    "tfab_stop": (None, [_I64]),
    "tfab_died": (None, [_I64, _I64]),
    "tfab_revive": (None, [_I64, _I64]),
    "tfab_late": (None, [_I64, _VOID]),
    "tfab_lost": (None, [_I64, _VOID]),
    "tfab_refuse": (None, [_I64]),
    "tfab_end": (None, [_I64]),
    "tfab_poke": (None, [_I64]),
    "tfab_report": (None, [_I64, _VOID]),
    "tfab_refused": (None, [_I64, _VOID]),
    "tfab_over": (None, [_I64, _VOID]),
    "tfab_close": (None, [_I64]),
    "tfab_free": (None, [_I64]),
}


class Report(NamedTuple):
    """What a hub has recorded.

    Attributes:
      kind: of the fault, NOTHING if there was none.
      first, second: got and wanted token (STALE), row and leaf (ACTION), command
        (WORKERS), group (GROUP, BUSY, IDLE).
      steps, waited, clipped, total: counters since the start; waited in nanoseconds.
      used: whether it was called after its end, since the last report.
      token: the last one.
      started: whether there was a reset.
      seed: of the last one.
      states: of the workers.
      sequences: numbers of the workers' last commands.
    """

    kind: int
    first: int
    second: int
    steps: int
    waited: int
    clipped: int
    total: int
    used: int
    token: int
    started: int
    seed: int
    states: list[int]
    sequences: list[int]


class Hub:
    """A hub and its handle.

    Args:
      library: see ``build.library``.
      plan: where the arrays lie.
      descriptor: of the shared memory.
      writer: the action leaves and their bounds.
      first_rows: first row of each worker, and the number of rows.
      seconds: deadlines of a reset and of a step; None for never.
      sequence: number of the last command the workers got.
      poll: microseconds to look, and give the core away, before it sleeps.
      heals: go on without a worker that is lost, until it is revived.

    Attributes:
      handle: its number, in programs.
      attention: descriptor that is readable when a worker was late, if it heals.

    Raises:
      ValueError: if the memory cannot be used.
    """

    def __init__(
        self,
        library: ctypes.CDLL,
        plan: layout.Layout,
        descriptor: int,
        writer: actions.ActionWriter,
        first_rows: Sequence[int],
        seconds: Sequence[float | None],
        sequence: int,
        poll: int,
        heals: bool = False,
    ):
        self._library = library
        for name, (result, arguments) in _SIGNATURES.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
        self._num_workers = plan.num_workers
        bounds = writer.bounds()
        self._width = max([1, *(leaf.width for leaf in bounds)])
        limits = [-1 if limit is None else int(limit * 1e9) for limit in seconds]
        self.attention = -1
        if heals:
            self.attention = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        head = [plan.size, first_rows[-1], plan.num_workers, plan.num_groups]
        head += [int(heals), self.attention, sequence]
        numbers = [*head, *limits, poll * 1000, *first_rows, *_arrays(plan)]
        places = [field.offset for field in plan.fields if field.name[:7] == "action/"]
        leaves = map(_leaf, bounds, places)
        numbers += [len(bounds), *(number for leaf in leaves for number in leaf)]
        data = np.array(numbers, np.int64)
        self.handle = library.tfab_open(descriptor, data.ctypes.data, len(data))
        if self.handle == 0:
            self._close_attention()
            raise ValueError("the native hub cannot use the shared memory")
        weakref.finalize(self, _free, library.tfab_free, self.handle, os.getpid())

    @property
    def ok(self) -> bool:
        return bool(self._library.tfab_ok(self.handle))

    @property
    def failed(self) -> bool:
        """Whether there is something to report; never waits."""
        return bool(self._library.tfab_flags(self.handle) & 1)

    @property
    def used(self) -> bool:
        """Whether it was called after its end; a report clears it."""
        return bool(self._library.tfab_flags(self.handle) & 2)

    def stop(self) -> None:
        """End the call under way and fail all later ones; from any thread."""
        self._library.tfab_stop(self.handle)

    def died(self, worker: int) -> None:
        """Say that a worker has ended; from any thread."""
        self._library.tfab_died(self.handle, worker)

    def revive(self, worker: int) -> None:
        """Say that another process is there for a worker; from any thread."""
        self._library.tfab_revive(self.handle, worker)

    def late(self) -> list[int]:
        """Workers that were given up as late, each told once."""
        flags = np.zeros(self._num_workers, bool)
        self._library.tfab_late(self.handle, flags.ctypes.data)
        return np.flatnonzero(flags).tolist()

    def lost(self, num_envs: int) -> np.ndarray:
        """int64 ``[B]``: failed rows since the start."""
        rows = np.zeros(num_envs, np.int64)
        self._library.tfab_lost(self.handle, rows.ctypes.data)
        return rows

    def refuse(self) -> None:
        """Fail all later calls; the caller knows why."""
        self._library.tfab_refuse(self.handle)

    def end(self) -> None:
        """Fail all later calls, and note that there was one."""
        self._library.tfab_end(self.handle)

    def poke(self) -> None:
        """Stop, and have every worker look at its socket."""
        self._library.tfab_poke(self.handle)

    def close(self) -> None:
        """Give the memory back; waits for a call under way, which ends at once."""
        self._library.tfab_close(self.handle)
        self._close_attention()

    def report(self) -> Report:
        """What is recorded."""
        count = len(Report._fields) - 2
        words = np.zeros(count + 2 * self._num_workers, np.int64)
        self._library.tfab_report(self.handle, words.ctypes.data)
        numbers = words.tolist()
        split = count + self._num_workers
        report = Report(*numbers[:count], numbers[count:split], numbers[split:])
        return report._replace(seed=report.seed & (2**64 - 1))

    def refused(self) -> np.ndarray:
        """int64, the numbers of the row of an action that is out of range."""
        row = np.zeros(self._width, np.int64)
        self._library.tfab_refused(self.handle, row.ctypes.data)
        return row

    def _close_attention(self) -> None:
        descriptor, self.attention = self.attention, -1
        if descriptor >= 0:
            os.close(descriptor)

    def over(self, num_envs: int) -> np.ndarray:
        """bool ``[B]``: the rows that were last before the last command."""
        rows = np.zeros(num_envs, bool)
        self._library.tfab_over(self.handle, rows.ctypes.data)
        return rows


def _free(free: Callable[[int], None], handle: int, owner: int) -> None:
    if os.getpid() == owner:  # in a forked copy a lock may be held for ever
        free(handle)


def _arrays(plan: layout.Layout) -> list[int]:
    """Offset and bytes of a row, of the arrays in the order of the outputs."""
    groups: dict[str, list[int]] = {"info": [], "observation": []}
    columns = {}
    for name, shape, dtype, offset in plan.fields:
        group = name.partition("/")[0]
        size = int(np.prod(shape[1:], dtype=np.int64)) * np.dtype(dtype).itemsize
        if group in groups:
            groups[group] += [offset, size]
        else:
            columns[name] = [offset, size]
    names = ("reward", "first", "terminated", "truncated")
    found = [x for name in names for x in columns[name]]
    for group in groups.values():
        found += [len(group) // 2, *group]
    return found


def _leaf(leaf: actions.LeafBounds, offset: int) -> list[int]:
    kinds = {actions.FLOAT_BOX: 0, actions.INT_BOX: 1, actions.RANGE: 2}
    bounds = np.stack([leaf.low, leaf.high], axis=-1).ravel().tolist()
    if leaf.kind == actions.FLOAT_BOX:
        bounds = [struct.unpack("<q", struct.pack("<d", x))[0] for x in bounds]
    head = [kinds[leaf.kind], DTYPES[leaf.dtype], offset, leaf.width, leaf.clips]
    return [*map(int, head), *map(int, bounds)]
