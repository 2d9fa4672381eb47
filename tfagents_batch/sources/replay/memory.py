"""Memory of the replay: what it needs, what there is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tfagents_batch import nest
from tfagents_batch.errors import UserError
from tfagents_batch.sources.replay import frames
from tfagents_batch.sources.replay.layout import Layout, rows
from tfagents_batch.sources.replay.storage import row_bytes
from tfagents_batch.types import EnvSpec, Nest

PART = 0.8  # of the available memory that a replay may take


def required_bytes(config: Any, spec: EnvSpec, window: int) -> int:
    """Return the bytes of a replay's variables, without what acting records.

    Args:
      config: settings of the replay.
      spec: spaces and number of the environments.
      window: steps of a window.
    """
    observation = nest.specs(spec.observation_space, (2, spec.num_envs))
    stacks = frames.find(observation, config.stack)
    stored = stacks.newest(observation) if stacks else observation
    action = nest.specs(spec.action_space, (1, spec.num_envs))
    sizes = layout(config, spec.num_envs, window)
    return stored_bytes(sizes, (stored, action), config.prioritized)


def layout(config: Any, num_envs: int, window: int, steps: int | None = None) -> Layout:
    """Return the sizes of the storage.

    Args:
      config: settings of the replay.
      num_envs: B.
      window: steps of a window.
      steps: k of a collect; None for the setting.
    """
    steps = config.steps if steps is None else steps
    count = rows(config.capacity, num_envs, steps)
    return Layout(num_envs, count, steps, window, config.stack or 1)


def stored_bytes(layout: Layout, stored: Nest, prioritized: bool) -> int:
    """Return the bytes of a replay's variables.

    Args:
      layout: sizes.
      stored: nest of ``[T, B, ...]`` specs of all leaves but reward and flags.
      prioritized: whether there are priorities.
    """
    row = sum(row_bytes(x, axis=2) for x in nest.flatten(stored))
    row += 4 + 4  # reward; first, terminated, truncated, mask
    tree = 4 * 16 / 15 if prioritized else 0
    return layout.size * row + round(layout.batch * layout.rows * tree)


def check_capacity(capacity: int, batch_size: int, sizes: Layout) -> None:
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


def text(size: int, capacity: int) -> str:
    """Return one line for the console."""
    return f"replay: {capacity:,} transitions, {_amount(size)}"


def check(size: int, available: int | None) -> None:
    """Refuse a replay that the memory cannot hold.

    Args:
      size: bytes needed.
      available: bytes available, None if unknown.

    Raises:
      UserError: if it needs more than ``PART`` of them.
    """
    if available is None or size <= PART * available:
        return
    raise UserError(
        f"the replay needs {_amount(size)}, but {_amount(available)} are available; "
        f"expected at most {PART:.0%} of them; use a smaller capacity, uint8 images, "
        "or stack to store each frame once"
    )


def available_bytes(root: str = "/") -> int | None:
    """Return the memory that this process may still take; None if unknown.

    It is the least of the machine's and of what the process's control groups (v1 and
    v2) leave. File caches count as available.

    Args:
      root: of the file system, for tests.
    """
    found = [*_machine(Path(root)), *_groups(Path(root))]
    return max(min(found), 0) if found else None


def _machine(root: Path) -> list[int]:
    info = _columns(root / "proc/meminfo")
    return [info["MemAvailable:"] * 1024] if "MemAvailable:" in info else []


def _groups(root: Path) -> list[int]:
    """Return what each control group of this process and its parents leaves."""
    found = []
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        names = "memory.max", "memory.current", "inactive_file"
        base = root / "sys/fs/cgroup"
        if controllers:  # v1, which names the controllers of each hierarchy
            if "memory" not in controllers.split(","):
                continue
            names = (
                *("memory.limit_in_bytes", "memory.usage_in_bytes"),
                "total_inactive_file",
            )
            base /= "memory"
        folder = base / path.lstrip("/")
        # In a container the path may be that of the host; the root is then its own.
        for group in {base, folder, *(x for x in folder.parents if base in x.parents)}:
            limit, used = (_read(group / name).strip() for name in names[:2])
            if limit.isdecimal() and used.isdecimal():
                cached = _columns(group / "memory.stat").get(names[2], 0)
                found.append(int(limit) - int(used) + cached)
    return found


def _columns(path: Path) -> dict[str, int]:
    lines = (line.split() for line in _read(path).splitlines())
    return {x[0]: int(x[1]) for x in lines if len(x) > 1 and x[1].isdecimal()}


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _amount(size: int) -> str:
    return f"{size / 2**30:,.2f} GiB" if size >= 2**30 else f"{size / 2**20:,.1f} MiB"
