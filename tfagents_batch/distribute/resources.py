"""Checks of the memory and the addresses that the workers of a pool need."""

from __future__ import annotations

import socket
from collections.abc import Sequence

from tfagents_batch.devices import machine
from tfagents_batch.errors import UserError

WORKER_BYTES = 800_000_000  # TensorFlow, a small network, environments
CONNECT_SECONDS = 5.0


def check_memory(workers: int, size: int = WORKER_BYTES) -> None:
    """Refuse more workers, of ``size`` bytes each, than fit into the free memory."""
    free = machine.available_bytes()
    if free is not None and workers * size > free:
        raise UserError(
            f"{workers} workers of {machine.amount(size)} need more than the "
            f"{machine.amount(free)} of free memory; lower --pool_workers, or give the "
            "address of a larger cluster"
        )


def check_address(
    engine: str, addresses: Sequence[str], example: str, advice: str
) -> None:
    """Check within seconds that something listens at one of several ``host:port``.

    Engines themselves try for minutes where nothing answers. The error names the
    engine, has an example of an address, and says by ``advice`` what to do.
    """
    reason: Exception | None = None
    for address in addresses:
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host, int(port)), CONNECT_SECONDS).close()
            return
        except (OSError, ValueError, OverflowError) as error:
            reason = error
    raise UserError(
        f"nothing answers at {engine}'s address {','.join(addresses)} ({reason}); "
        f"expected host:port, such as {example}; {advice}"
    )
