"""Python interface of a native hub; constants here and in hub.h must agree."""

from __future__ import annotations

import ctypes
import os
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tfagents_batch.envs.shared import actions, layout

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
_ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "open": (_INT, _VOID, _I64),
    **dict.fromkeys(("ok", "failed", "take_used", "close", "free"), (_I64,)),
    **dict.fromkeys(("stop", "refuse", "end", "poke"), (_I64,)),
    **dict.fromkeys(("died", "revive"), (_I64, _I64)),
    **dict.fromkeys(("late", "report"), (_I64, _VOID)),
}


class HubReport(NamedTuple):
    """Record of a hub; the counters are since the start, and arrays are int64."""

    kind: int  # of the fault, NOTHING if there was none
    first: int  # received token (STALE), row (ACTION), command (WORKERS), else group
    second: int  # expected token (STALE), leaf (ACTION)
    steps: int
    waited: int  # nanoseconds
    clipped: int
    total: int
    started: int  # whether there was a reset
    seed: int  # of the last reset
    states: np.ndarray  # [W], of the workers
    sequences: np.ndarray  # [W], numbers of their last commands
    refused: np.ndarray  # the row of an action that is out of range
    over: np.ndarray  # [B], 1 for a row that had ended before the last command
    lost: np.ndarray  # [B], failed steps of each row


class Hub:
    """Native hub with its handle.

    Args:
      library: see ``build.library``.
      plan, descriptor: layout and descriptor of the shared memory.
      writer: writer of the actions, with their bounds.
      first_rows: first row of each worker, and the number of rows.
      seconds: deadlines of a reset and of a step; None waits forever.
      sequence: number of the workers' last command.
      poll: microseconds to poll before it sleeps; polling yields the core.
      replaces: whether to continue without a lost worker until it is replaced.

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
        replaces: bool = False,
    ):
        self._library = library
        for name, arguments in _ARGUMENTS.items():
            getattr(library, f"tfab_{name}").argtypes = arguments
        library.tfab_open.restype = _I64
        self._num_workers = plan.num_workers
        bounds = writer.bounds()
        width = max([1, *(leaf.width for leaf in bounds)])
        # Tuples, because NumPy 1 reads the length 1 as no axis.
        workers, rows = (plan.num_workers,), (first_rows[-1],)
        shapes: dict[str, tuple[int, ...]] = {"refused": (width,)}
        shapes |= {"states": workers, "sequences": workers, "over": rows, "lost": rows}
        self._report = np.dtype(
            [(name, np.int64, shapes.get(name, ())) for name in HubReport._fields]
        )
        limits = [-1 if limit is None else int(limit * 1e9) for limit in seconds]
        self.attention = -1  # with ``replaces``: readable after a timeout
        if replaces:
            self.attention = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        head = [plan.size, first_rows[-1], plan.num_workers, plan.num_groups]
        head += [int(replaces), self.attention, sequence]
        numbers = [*head, *limits, poll * 1000, *first_rows, *_arrays(plan)]
        places = [field.offset for field in plan.fields if field.name[:7] == "action/"]
        leaves = map(_leaf, bounds, places)
        numbers += [len(bounds), *(number for leaf in leaves for number in leaf)]
        data = np.array(numbers, np.int64)
        # The number of the hub in programs.
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
        """Return whether a failure was recorded; never waits."""
        return bool(self._library.tfab_failed(self.handle))

    def take_used(self) -> bool:
        """Return whether it was called after its end, since the last question."""
        return bool(self._library.tfab_take_used(self.handle))

    def notify(self, what: str, *worker: int) -> None:
        """Notify the hub, also of a worker; any thread may call it.

        "stop" ends the current call and fails all later ones; "poke" also makes every
        worker read its socket. "refuse" fails all later calls; "end" also records
        whether there was one. "died": a worker has ended; "revive": a new process has
        replaced it.
        """
        getattr(self._library, f"tfab_{what}")(self.handle, *worker)

    def late(self) -> list[int]:
        """Return the workers that timed out; each is reported once."""
        late = np.zeros(self._num_workers, bool)
        self._library.tfab_late(self.handle, late.ctypes.data)
        return np.flatnonzero(late).tolist()

    def close(self) -> None:
        """End the current call, wait for it, and free the memory."""
        self._library.tfab_close(self.handle)
        self._close_attention()

    def report(self) -> HubReport:
        """Return the record."""
        numbers = np.zeros((), self._report)
        self._library.tfab_report(self.handle, numbers.ctypes.data)
        values: Any = numbers.item()
        report = HubReport(*values)
        return report._replace(seed=report.seed & (2**64 - 1))

    def _close_attention(self) -> None:
        descriptor, self.attention = self.attention, -1
        if descriptor >= 0:
            os.close(descriptor)


def _free(free: Callable[[int], None], handle: int, owner: int) -> None:
    if os.getpid() == owner:  # in a forked child a lock may never be released
        free(handle)


def _arrays(plan: layout.Layout) -> list[int]:
    """Return offset and bytes per row of each array, in the order of outputs."""
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
    numbers = [x for name in names for x in columns[name]]
    for group in groups.values():
        numbers += [len(group) // 2, *group]
    return numbers


def _leaf(leaf: actions.LeafBounds, offset: int) -> list[int]:
    kinds = {actions.FLOAT_BOX: 0, actions.INT_BOX: 1, actions.RANGE: 2}
    bounds = np.stack([leaf.low, leaf.high], axis=-1).ravel()
    if leaf.kind == actions.FLOAT_BOX:
        bounds = bounds.astype(np.float64).view(np.int64)
    head = [kinds[leaf.kind], DTYPES[leaf.dtype], offset, leaf.width, leaf.clips]
    return [*map(int, head), *map(int, bounds)]
