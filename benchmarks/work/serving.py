"""Work of clients of a server."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Load:
    """Clients that ask a server for decisions, each one request after the other."""

    port: int
    clients: int
    seconds: float
    host: str = "127.0.0.1"
    path: str = "/v1/act"
    numbers: int = 4  # of an observation
    warm_up_seconds: float = 1.0
    rate: float = 0.0  # requests a second of all clients at most; 0 for no limit
    seed: int = 1
