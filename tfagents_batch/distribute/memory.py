"""Memory that the workers of a pool take on this machine."""

from __future__ import annotations

from tfagents_batch import machine
from tfagents_batch.errors import UserError

WORKER_BYTES = 800_000_000  # TensorFlow, a small network, environments


def check(workers: int, each: int = WORKER_BYTES) -> None:
    """Refuse more workers than fit into the free memory of this machine.

    Args:
      workers: their number.
      each: bytes that one of them takes.

    Raises:
      UserError: if they do not fit.
    """
    free = machine.available_bytes()
    if free is not None and workers * each > free:
        raise UserError(
            f"{workers} workers of {machine.amount(each)} need more than the "
            f"{machine.amount(free)} of free memory; lower --pool_workers, or give the "
            "address of a larger cluster"
        )
