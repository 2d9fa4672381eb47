"""Clients of an HTTP server that send one request after the other.

Each client has a connection that stays open. It parses no more of an answer than its
length, so that 64 clients take a small part of a core.
"""

from __future__ import annotations

import asyncio
import dataclasses
import re
import time
from typing import Any

import numpy as np

from benchmarks.inside import session
from benchmarks.work.serving import Load

_LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)
_END = b"\r\n\r\n"


def measure(work: Load) -> dict[str, Any]:
    """Return requests per second and durations of answers in milliseconds."""
    import uvloop

    draw = np.random.default_rng(work.seed)
    bodies = draw.uniform(-1, 1, (64, work.numbers)).round(4).tolist()
    requests = [_request(work, observation) for observation in bodies]
    warm_up = dataclasses.replace(work, seconds=work.warm_up_seconds)
    uvloop.run(_load(warm_up, requests))
    return uvloop.run(_load(work, requests))


def _request(work: Load, observation: list[float]) -> bytes:
    body = f'{{"observation": {observation}}}'.encode()
    head = f"POST {work.path} HTTP/1.1\r\nhost: {work.host}\r\n"
    head += "content-type: application/json\r\n"
    return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body


async def _load(work: Load, requests: list[bytes]) -> dict[str, Any]:
    loop = asyncio.get_running_loop()
    answers: list[float] = []
    errors: list[str] = []
    clients = []
    for number in range(work.clients):
        pause = work.clients / work.rate if work.rate else 0.0
        client = _Client(requests, number, pause, answers, errors)
        await loop.create_connection(lambda client=client: client, work.host, work.port)
        clients.append(client)
    start, cpu = time.perf_counter(), time.process_time()
    for client in clients:
        client.send()
    await asyncio.sleep(work.seconds)
    for client in clients:
        client.active = False
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    await asyncio.sleep(0.2)  # answers on their way
    for client in clients:
        client.close()
    found = sorted(answers)
    if not found:
        raise RuntimeError(f"no answers, {len(errors)} errors: {errors[-1:]}")
    return {
        "requests": len(found),
        "requests_per_s": len(found) / seconds,
        "p50_ms": 1e3 * found[len(found) // 2],
        "p99_ms": 1e3 * found[int(0.99 * len(found))],
        "max_ms": 1e3 * found[-1],
        "errors": len(errors),
        "client_core": cpu / seconds,  # share of a core that the clients took
    }


class _Client(asyncio.Protocol):
    """A client on its connection, which appends seconds of answers, and errors."""

    def __init__(
        self,
        requests: list[bytes],
        number: int,
        pause: float,
        answers: list,
        errors: list,
    ):
        self._requests, self._next, self._pause = requests, number, pause
        self._answers, self._errors, self._data = answers, errors, b""
        self.active, self._closing = True, False

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def send(self) -> None:
        self._next = (self._next + 1) % len(self._requests)
        self._start = time.perf_counter()
        self._transport.write(self._requests[self._next])

    def close(self) -> None:
        self._closing = True
        self._transport.close()

    def data_received(self, data: bytes) -> None:
        self._data = data = self._data + data if self._data else data
        head = data.find(_END)
        if head < 0:
            return
        match = _LENGTH.search(data, 0, head)
        if len(data) < head + len(_END) + int(match[1]):
            return
        self._data = b""
        if data.startswith(b"HTTP/1.1 200"):
            self._answers.append(time.perf_counter() - self._start)
        else:
            self._errors.append(data[:300].decode(errors="replace"))
        later = self._start + self._pause - time.perf_counter()
        if self.active and later > 0:
            asyncio.get_running_loop().call_later(later, self._send_if_active)
        elif self.active:
            self.send()

    def _send_if_active(self) -> None:
        if self.active:
            self.send()

    def connection_lost(self, error: Exception | None) -> None:
        if not self._closing:
            self._errors.append(f"connection lost: {error}")


if __name__ == "__main__":
    session.figures(measure)
