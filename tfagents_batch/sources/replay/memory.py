"""Memory that a replay needs."""

from __future__ import annotations

from typing import Any

from tfagents_batch import nest
from tfagents_batch.devices import machine
from tfagents_batch.devices.placement import HOST, Placement
from tfagents_batch.errors import UserError
from tfagents_batch.sources.replay import frames
from tfagents_batch.sources.replay.layout import RingLayout
from tfagents_batch.sources.replay.storage import row_bytes
from tfagents_batch.types import EnvSpec

PART = 0.8  # of the available memory that a replay may take


def required_bytes(config: Any, spec: EnvSpec, window: int) -> int:
    """Return the bytes of a replay's variables, without what acting records.

    What acting records is known only once networks exist; policies of this package that
    learn from a replay record nothing. The bytes are those of the device in force, see
    ``graph.state.kept``.

    Args:
      config: settings of the replay.
      spec: spaces and number of the environments.
      window: steps of a window.
    """
    observation = nest.specs(spec.observation_space, (2, spec.num_envs))
    stacks = frames.find(observation, config.stack)
    stored = stacks.newest(observation) if stacks else observation
    action = nest.specs(spec.action_space, (1, spec.num_envs))
    row = sum(row_bytes(x, axis=2) for x in nest.flatten((stored, action)))
    row += 4 + 4  # reward; first, terminated, truncated, mask
    sizes = layout(config, spec.num_envs, window)
    tree = 4 * 16 / 15 if config.prioritized else 0
    return sizes.size * row + round(sizes.batch * sizes.rows * tree)


def layout(config: Any, num_envs: int, window: int) -> RingLayout:
    """Return the sizes of the storage.

    Args:
      config: settings of the replay.
      num_envs: B.
      window: steps of a window.
    """
    room = config.capacity // num_envs + 1  # the last transition needs one more step
    rows = room + config.steps + 1
    return RingLayout(num_envs, rows, config.steps, window, config.stack or 1)


def check_capacity(capacity: int, batch_size: int, sizes: RingLayout) -> None:
    """Refuse a capacity that is too small to sample from.

    Args:
      capacity: the setting.
      batch_size: windows of a sample.
      sizes: sizes of the storage.

    Raises:
      UserError: names the smallest capacity.
    """
    least = max(batch_size, 2 * sizes.batch * (sizes.window + sizes.stack - 1))
    if capacity < least:
        raise UserError(
            f"replay.capacity is {capacity}; expected at least {least}: a batch of "
            f"{batch_size}, and two windows of each of the {sizes.batch} environments; "
            "set a larger capacity"
        )


def check(size: int, placement: Placement = HOST) -> None:
    """Refuse a replay that the memory cannot hold.

    Args:
      size: bytes needed.
      placement: devices; the replay lies on the one that updates.

    Raises:
      UserError: if it needs more than ``PART`` of what is available.
    """
    on_host = placement.name == "cpu"
    available = machine.available_bytes() if on_host else placement.free_bytes
    if available is None or size <= PART * available:
        return
    where = "available" if on_host else "free on the GPU"
    raise UserError(
        f"the replay needs {machine.amount(size)}, but {machine.amount(available)} are "
        f"{where}; expected at most {PART:.0%} of them; use a smaller capacity, "
        "uint8 images, or stack to store each frame once"
    )
