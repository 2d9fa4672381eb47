"""The shared memory of a batch: one array ``[num_envs, ...]`` per leaf, and controls.

The learner computes a layout from the spaces once and sends it to workers as JSON.
Arrays start at multiples of 64 bytes. The control words come first: one cache line of
32-bit words per worker, then the learner's lines. Aligned words serve as futexes, so
the native hub uses the same workers and the same memory.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tfagents_batch.devices import machine
from tfagents_batch.errors import UserError
from tfagents_batch.spaces import Leaf

LINE = 64  # bytes: alignment of arrays, size of a worker's control words
WORDS = LINE // 4

# Control words of a worker, uint32 each.
COMMAND_SEQUENCE = 0  # number of the last command, written by the learner
COMMAND = 1  # code of that command
REPLY_SEQUENCE = 2  # number of the last finished command, written by the worker
STATUS = 3  # status of that reply: OK or FAILED of ``protocol``
STOP = 4  # nonzero: skip the remaining rows, because stepping is ending
ROW = 5  # row being stepped, NO_ROW between commands
OUT_OF_BOUNDS = 6  # observations seen outside their space
NOT_FINITE = 7  # NaN and infinite values that were replaced or truncated an episode

# Words of the learner's lines, one line per worker group. Only the first line has the
# words after PENDING.
PENDING = 0  # workers still running; the last one to finish wakes the hub
UNUSED = 1  # futex that nothing waits on, for a call that needs two
SEED_LOW = 2  # halves of the seed of a reset
SEED_HIGH = 3

NO_ROW = 2**32 - 1

TIMINGS = 256  # number of recent steps with recorded durations, per worker
LONGEST = 2**32 - 2  # microseconds, the longest duration that can be recorded

# Columns of every batch besides observation, action and info.
_COLUMNS = {
    "reward": "float32",
    "first": "bool",
    "terminated": "bool",
    "truncated": "bool",
    "episode": "int32",  # number of the row's episode, for error messages
    "seed": "int32",  # seed of the environment, for error messages
}
STATISTICS = {"episode_return": "float32", "episode_length": "int32"}


class Field(NamedTuple):
    """Name, shape, dtype and place of one array."""

    name: str  # {observation,action}/<leaf number>, info/<column>, or in _COLUMNS
    shape: tuple[int, ...]  # of the whole array, [num_envs, ...]
    dtype: str  # NumPy's name
    offset: int  # bytes from the start of the memory


class Layout(NamedTuple):
    """Sizes and places of all arrays in a batch's memory.

    ``timing`` is the offset of ``TIMINGS`` uint32 per worker: durations of its last
    steps in microseconds, plus 1. An entry of 0 is empty.
    """

    num_workers: int  # control lines from offset 0
    num_groups: int  # worker groups; the learner has one control line per group
    fields: tuple[Field, ...]
    timing: int
    size: int  # bytes in total

    def group(self, worker: int) -> int:
        """Return the index of a worker's group."""
        return worker * self.num_groups // self.num_workers

    def to_json(self) -> dict:
        return {**self._asdict(), "fields": [list(field) for field in self.fields]}

    @classmethod
    def from_json(cls, data: dict) -> Layout:
        fields = (Field(x[0], tuple(x[1]), *x[2:]) for x in data["fields"])
        return cls(**{**data, "fields": tuple(fields)})


class Arrays(NamedTuple):
    """Views of a batch's memory: of all rows, or of the rows of one worker."""

    observation: list[np.ndarray]  # [B, ...] per leaf, in the order of spaces.leaves
    action: list[np.ndarray]  # likewise
    reward: np.ndarray  # f32 [B]
    first: np.ndarray  # bool [B]
    terminated: np.ndarray  # bool [B]
    truncated: np.ndarray  # bool [B]
    episode: np.ndarray  # int32 [B]
    seed: np.ndarray  # int32 [B]
    info: dict[str, np.ndarray]  # column: [B]
    timing: np.ndarray  # uint32 [W, TIMINGS]; [TIMINGS] for one worker

    def info_columns(self) -> dict[str, np.ndarray]:
        """Return the columns of ``info`` without the statistics."""
        items = self.info.items()
        return {name: column for name, column in items if name not in STATISTICS}


def make_layout(
    observation: Sequence[Leaf],
    action: Sequence[Leaf],
    info: dict[str, str],
    num_envs: int,
    num_workers: int,
    num_groups: int = 1,
) -> Layout:
    """Return a layout with the arrays one after the other; ``info`` has dtypes."""
    wanted = [
        *((f"observation/{i}", x.shape, x.dtype) for i, x in enumerate(observation)),
        *((f"action/{i}", x.shape, x.dtype) for i, x in enumerate(action)),
        *((name, (), dtype) for name, dtype in _COLUMNS.items()),
        *((f"info/{name}", (), dtype) for name, dtype in info.items()),
    ]
    offset = LINE * (num_workers + num_groups)
    fields = []
    for name, shape, dtype in wanted:
        fields.append(Field(name, (num_envs, *shape), dtype, offset))
        count = int(np.prod((num_envs, *shape), dtype=np.int64))
        offset += count * np.dtype(dtype).itemsize
        offset = -(-offset // LINE) * LINE
    size = offset + 4 * TIMINGS * num_workers
    return Layout(num_workers, num_groups, tuple(fields), offset, size)


def views(
    layout: Layout, memory, worker: int | None = None, rows=slice(None)
) -> Arrays:
    """Return views of ``memory``, a writable buffer, of all rows or of some.

    With a worker, the timing is that of this worker.
    """
    leaves: dict[str, list[np.ndarray]] = {"observation": [], "action": []}
    columns: dict[str, np.ndarray] = {}
    info: dict[str, np.ndarray] = {}
    for name, shape, dtype, offset in layout.fields:
        array = np.ndarray(shape, dtype, memory, offset)[rows]
        group, _, key = name.partition("/")
        if group in leaves:
            leaves[group].append(array)
        elif group == "info":
            info[key] = array
        else:
            columns[name] = array
    shape = (layout.num_workers, TIMINGS)
    timing = np.ndarray(shape, np.uint32, memory, layout.timing)
    timing = timing if worker is None else timing[worker]
    fields: dict[str, Any] = {**leaves, **columns}
    return Arrays(**fields, info=info, timing=timing)


def control(memory, worker: int) -> memoryview:
    """Return the uint32 words of a worker's line; index W is the learner's first."""
    return memoryview(memory)[LINE * worker : LINE * (worker + 1)].cast("I")


def seed(learner: memoryview) -> int:
    """Return the seed of the last reset from the learner's line."""
    return learner[SEED_LOW] | learner[SEED_HIGH] << 32


def allocate(layout: Layout, descriptor: int) -> mmap.mmap:
    """Map an empty file of memory, with all pages allocated.

    Raises:
      UserError: if it does not fit into memory; the error names the size.
    """
    available = machine.available_bytes()
    if available is not None and layout.size > available:
        raise UserError(
            _does_not_fit(layout, f"{machine.amount(available)} are available")
        )
    try:
        # Pages are allocated now: a lack of memory later would be a bus error.
        os.posix_fallocate(descriptor, 0, layout.size)
        return mmap.mmap(descriptor, layout.size)
    except OSError as error:
        raise UserError(_does_not_fit(layout, error.strerror)) from None


def _does_not_fit(layout: Layout, reason: str | None) -> str:
    largest = max(layout.fields, key=lambda field: np.prod(field.shape))
    return (
        f"the shared memory of {largest.shape[0]} environments needs "
        f"{machine.amount(layout.size)}: {reason}; use fewer environments or smaller "
        f"observations (the largest array is {largest.name}, {largest.dtype} "
        f"{list(largest.shape)})"
    )
