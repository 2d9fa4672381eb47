"""Serving beside FastAPI: ``python -m benchmarks.serving --pairs=8``.

Our server logs its decisions; the FastAPI endpoint runs the same ONNX model for each
request and logs nothing. Each has a process of its own, and so have the clients.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

from benchmarks.measure import command, process, results
from benchmarks.measure.process import Failure, Played, Result
from benchmarks.work import machine
from benchmarks.work.serving import Load
from tfagents_batch.config import option

OURS, FASTAPI = "tfagents_batch", "fastapi"
DEADLINE = 60  # seconds of a start, and of the clients beyond their work
FIGURES = ("requests_per_s", "p50_ms", "p99_ms")


@dataclasses.dataclass(frozen=True)
class Command:
    """Flags of this script."""

    clients: tuple[int, ...] = option((1, 8, 64), "numbers of clients")
    pairs: int = option(8, "alternating pairs", least=1)
    seconds: float = option(2.0, "seconds of each part", above=0)
    python: str = option("", "interpreter with FastAPI; empty: that of the peers")
    record: bool = option(True, "append to benchmarks/results/serving.jsonl")


def main(flags: Command) -> int:
    """Measure, and print a line for each side; 1 if something failed."""
    from tests.serving import exports

    context, lines, failed = results.context(), [], False
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        export = str(exports.discrete(pathlib.Path(folder, "export"), hidden=64))
        # The one that is not asked takes no time, so both run throughout.
        ports = {
            name: stack.enter_context(_served(name, flags, export, folder))
            for name in (OURS, FASTAPI)
        }
        for clients in flags.clients:

            def ask(name: str, number: int, clients=clients) -> Result | Failure:
                work = Load(ports[name], clients, flags.seconds)
                limit = flags.seconds + DEADLINE
                return process.run("benchmarks.inside.http_load", work, limit)

            played = process.alternate((OURS, FASTAPI), flags.pairs, ask)
            _show(clients, played)
            failed |= bool(played.failures)
            lines += [
                {"row": f"{clients} clients", "contender": name, "pair": pair, **found}
                for name, rounds in played.results.items()
                for pair, found in enumerate(rounds, 1)
            ]
    if flags.record:
        results.append(results.FOLDER / "serving.jsonl", context, lines)
    print(machine.summary())
    return int(failed)


def _show(clients: int, played: Played) -> None:
    """Print the medians of both, and the ratio of pairs."""
    for name, rounds in played.results.items():
        if rounds:
            middle = {x: statistics.median(each[x] for each in rounds) for x in FIGURES}
            print(
                f"{clients:3} clients, {name:15} {middle['requests_per_s']:7,.0f} "
                f"requests/s, p50 {middle['p50_ms']:.2f}, p99 {middle['p99_ms']:.2f} "
                f"ms, {sum(each['errors'] for each in rounds)} errors"
            )
    rates = played.figures("requests_per_s").values()
    if ratios := [ours / theirs for ours, theirs in zip(*rates, strict=False)]:
        print(f"{clients:3} clients, ratio {statistics.median(ratios):.2f}, of pairs")


@contextlib.contextmanager
def _served(name: str, flags: Command, export: str, folder: str) -> Iterator[int]:
    """Yield the port of a server that is ended with the context."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    if name == OURS:
        module = [sys.executable, "-m", "tfagents_batch", "serve"]
        arguments = [f"--export={export}", f"--port={port}", f"--log={folder}/log"]
    else:
        python = process.python_of("peers", {"peers": flags.python}) or sys.executable
        module = [python, "-m", "benchmarks.inside.fastapi_server"]
        arguments = [f"{export}/model.onnx", str(port)]
    # Our package lets ONNX Runtime send no telemetry; neither does the other one.
    environment = os.environ | {"ORT_DISABLE_TELEMETRY": "1"}
    server = subprocess.Popen(
        [*module, *arguments],
        stdout=subprocess.DEVNULL,
        cwd=machine.ROOT,
        env=environment,
    )
    try:
        _wait(port, server)
        yield port
    finally:
        server.terminate()
        server.wait(DEADLINE)


def _wait(port: int, server: subprocess.Popen) -> None:
    """Wait until a server accepts connections."""
    end = time.monotonic() + DEADLINE
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            if server.poll() is not None or time.monotonic() > end:
                raise RuntimeError("the server did not start") from None
        time.sleep(0.1)


if __name__ == "__main__":
    command.run(Command, main)
