"""Addresses of engines, which themselves try for minutes where nothing answers."""

from __future__ import annotations

import socket
from collections.abc import Sequence

from tfagents_batch.errors import UserError

CONNECT_SECONDS = 5.0


def check(engine: str, addresses: Sequence[str], example: str, advice: str) -> None:
    """Check within seconds that something listens at one of several addresses.

    Args:
      engine: its name, for the error.
      addresses: ``host:port`` each.
      example: an address as the user writes it.
      advice: what to do if nothing answers.

    Raises:
      UserError: if nothing answers at any of them.
    """
    reason: Exception | None = None
    for each in addresses:
        host, _, port = each.rpartition(":")
        try:
            socket.create_connection((host, int(port)), CONNECT_SECONDS).close()
            return
        except (OSError, ValueError, OverflowError) as error:
            reason = error
    raise UserError(
        f"nothing answers at {engine}'s address {','.join(addresses)} ({reason}); "
        f"expected host:port, such as {example}; {advice}"
    )
