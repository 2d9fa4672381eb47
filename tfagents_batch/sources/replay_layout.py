"""The ring of a replay: its memory, where rows are, and which start a window.

Each environment has a ring of ``rows`` rows. A row holds one step and the action taken
there. All rows of an environment lie together, so that a window is one slice:

    0 ... rows - 1 | mirror of the first rows      (environment 0)
    0 ... rows - 1 | mirror of the first rows      (environment 1)
    ...
    one unused row

The mirror keeps a window that crosses the end of the ring in one piece. Writes of rows
that have no mirror go to the unused row: XLA would copy the ring for a branch.

Let ``head`` be the row of the newest step and ``filled`` the number of stored steps:

    head - filled + 1 ... head              stored steps, oldest to newest
    the first stack - 1 of them             only frames of later stacks
    the last window - 1 of them             too new to start a window
    head + 1 ... head + k + 1               gap, which a void collect may overwrite
"""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf

from tfagents_batch import nest
from tfagents_batch.devices import machine
from tfagents_batch.devices.placement import HOST, Placement
from tfagents_batch.errors import UserError
from tfagents_batch.sources import replay_frames
from tfagents_batch.sources.replay_storage import row_bytes
from tfagents_batch.types import EnvSpec

PART = 0.8  # of the available memory that a replay may take


class RingLayout(NamedTuple):
    """Sizes of the ring."""

    batch: int  # B, number of environments
    rows: int  # R, rows of the ring of an environment
    steps: int  # k, env steps per environment and collect
    window: int  # steps of a window, n + 1
    stack: int  # frames per observation, 1 if frames are not stacked

    @property
    def mirror(self) -> int:
        """Number of mirrored rows: rows that a window needs beyond its first."""
        return self.window + self.stack - 2

    @property
    def stride(self) -> int:
        """Number of stored rows from one environment to the next."""
        return self.rows + self.mirror

    @property
    def size(self) -> int:
        """Number of stored rows, with the unused one."""
        return self.batch * self.stride + 1

    @property
    def room(self) -> int:
        """Largest number of stored steps per environment: all rows but the gap."""
        return self.rows - self.steps - 1

    def place(self, env: tf.Tensor, row: tf.Tensor) -> tf.Tensor:
        """Return the int32 stored index of a row; rows count modulo ``rows``."""
        return env * self.stride + row % self.rows

    def targets(self, rows: tf.Tensor, use: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the stored indices to write for rows of every environment.

        They are int32 ``[n * B]`` indices of the rows, int32 ``[n]``, and of their
        mirrors. Rows where ``use``, bool ``[n]``, is false go to the unused row.
        """
        rows = (rows % self.rows)[:, tf.newaxis]
        use = use[:, tf.newaxis]
        at = rows + tf.range(self.batch) * self.stride
        unused = self.size - 1
        main = tf.where(use, at, unused)
        mirror = tf.where(use & (rows < self.mirror), at + self.rows, unused)
        return tf.reshape(main, [-1]), tf.reshape(mirror, [-1])


class RingSpan(NamedTuple):
    """Stored steps of every environment, int32 ``[]`` each: see the module."""

    head: tf.Tensor
    filled: tf.Tensor


def advance(layout: RingLayout, span: RingSpan, broken: tf.Tensor) -> RingSpan:
    """Return the span after a collect.

    After a break, ``broken`` bool ``[]``, the collect's first step is a row of its own;
    otherwise it is the newest step again.
    """
    new = layout.steps + tf.cast(broken, tf.int32)
    head = (span.head + new) % layout.rows
    return RingSpan(head, tf.minimum(span.filled + new, layout.room))


def starts(layout: RingLayout, span: RingSpan) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the rows that may start a window: int32 ``[]`` first row and count."""
    first = (span.head - span.filled + layout.stack) % layout.rows
    count = span.filled - (layout.stack - 1) - (layout.window - 1)
    return first, tf.maximum(count, 0)


def changes(layout: RingLayout, before: RingSpan, after: RingSpan) -> tuple:
    """Return which rows begin and which cease to be starts of windows by a collect.

    The spans are those before and after it, equal if it is void. There are two pairs,
    for entering and leaving rows: int32 ``[k+1]`` rows, bool ``[k+1]`` whether each is
    one.
    """
    first, count = starts(layout, before)
    new_first, new_count = starts(layout, after)
    leaving = tf.minimum((new_first - first) % layout.rows, count)
    entering = new_count - (count - leaving)
    offset = tf.range(layout.steps + 1)
    end = new_first + new_count - entering
    return (end + offset, offset < entering), (first + offset, offset < leaving)


def required_bytes(config: Any, spec: EnvSpec, window: int, recorded: int = 0) -> int:
    """Return the bytes of a replay's variables, without what acting records.

    What acting records is known only once networks exist; policies of this package that
    learn from a replay record their recurrent state only, of ``recorded`` numbers. The
    bytes are those of the device in force, see ``graph.state.kept``. Windows have
    ``window`` steps.
    """
    observation = nest.specs(spec.observation_space, (2, spec.num_envs))
    stacks = replay_frames.find(observation, config.stack)
    stored = stacks.newest(observation) if stacks else observation
    action = nest.map(_kept, nest.specs(spec.action_space, (1, spec.num_envs)))
    row = sum(row_bytes(x, axis=2) for x in nest.flatten((stored, action)))
    row += 4 + 4  # reward; first, terminated, truncated, mask
    row += 4 * recorded
    sizes = ring(config, spec.num_envs, window)
    tree = 4 * 16 / 15 if config.prioritized else 0
    return sizes.size * row + round(sizes.batch * sizes.rows * tree)


def _kept(action: tf.TensorSpec) -> tf.TensorSpec:
    """Return how a part of an action is stored: as policies return it."""
    dtype = action.dtype if action.dtype.is_floating else tf.int32
    return tf.TensorSpec(action.shape, dtype)


def ring(config: Any, num_envs: int, window: int) -> RingLayout:
    """Return the sizes of the storage for B environments and a window's steps."""
    room = config.capacity // num_envs + 1  # the last transition needs one more step
    rows = room + config.length + 1
    return RingLayout(num_envs, rows, config.length, window, config.stack or 1)


def check_capacity(capacity: int, batch_size: int, sizes: RingLayout) -> None:
    """Refuse a capacity that is too small to sample a batch of windows from."""
    least = max(batch_size, 2 * sizes.batch * (sizes.window + sizes.stack - 1))
    if capacity < least:
        raise UserError(
            f"replay.capacity is {capacity}; expected at least {least}: a batch of "
            f"{batch_size}, and two windows of each of the {sizes.batch} environments; "
            "set a larger capacity"
        )


def check_memory(size: int, placement: Placement = HOST, rows: int = 0) -> None:
    """Refuse a replay of ``size`` bytes that the device that updates cannot hold.

    ``rows`` are the bytes of prior rows beside it.
    """
    on_host = placement.name == "cpu"
    available = machine.available_bytes() if on_host else placement.free_bytes
    if available is None or size + rows <= PART * available:
        return
    where = "available" if on_host else "free on the GPU"
    needs = f"the replay needs {machine.amount(size)}"
    if rows:
        needs += f" and its prior rows {machine.amount(rows)}"
    raise UserError(
        f"{needs}, but {machine.amount(available)} are {where}; expected at most "
        f"{PART:.0%} of them; use a smaller capacity, uint8 images, or stack to store "
        f"each frame once{', or fewer rows' if rows else ''}"
    )
