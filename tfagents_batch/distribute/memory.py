"""Memory of this machine, and how much of it workers take."""

from __future__ import annotations

from tfagents_batch.errors import UserError

WORKER_BYTES = 800_000_000  # TensorFlow, a small network, environments
_MEMORY = "/proc/meminfo"


def check_memory(workers: int, each: int = WORKER_BYTES) -> None:
    """Refuse more workers than fit into the free memory of this machine.

    Raises:
      UserError: if they do not fit.
    """
    free = available_bytes()
    if free is not None and workers * each > free:
        raise UserError(
            f"{workers} workers of {each / 1e6:,.0f} MB need more than the "
            f"{free / 1e6:,.0f} MB of free memory; lower --pool_workers, or give the "
            "address of a larger cluster"
        )


def available_bytes(path: str = _MEMORY) -> int | None:
    """Return the memory that programs could take; None if it is not known."""
    try:
        with open(path) as file:
            found = dict(line.split(":", 1) for line in file)
        return int(found["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return None
