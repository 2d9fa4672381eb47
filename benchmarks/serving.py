"""Serving beside FastAPI: ``python -m benchmarks.serving --pairs=8``.

Our server logs its decisions; the FastAPI endpoint runs the same ONNX model for each
request and logs nothing. Each has a process of its own, and so have the clients. The
order alternates. Result lines are appended to ``benchmarks/results/serving.jsonl``.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence

from benchmarks.measure import command, process, results
from benchmarks.measure.process import Failure, Played, Result
from benchmarks.work import machine
from benchmarks.work.serving import Load
from tfagents_batch.config import option

OURS, FASTAPI = "tfagents_batch", "fastapi"
QUIET, LOADING = "64 clients, no load", "64 clients, exports load"
PAUSE_SECONDS = 0.1  # between two exports
DEADLINE = 60  # seconds of a start, and of the clients beyond their work
FIGURES = ("requests_per_s", "p50_ms", "p99_ms", "max_ms", "errors", "client_core")


@dataclasses.dataclass(frozen=True)
class Command:
    """Flags of this script."""

    clients: tuple[int, ...] = option((1, 8, 64), "numbers of clients")
    pairs: int = option(8, "alternating pairs", least=1)
    seconds: float = option(2.0, "seconds of each part", above=0)
    loads: bool = option(True, "also measure while exports of 50 MB are loaded")
    python: str = option("", "interpreter with FastAPI; empty: that of the peers")
    record: bool = option(True, "append to benchmarks/results/serving.jsonl")


def main(flags: Command) -> int:
    """Measure, and print a line for each side; 1 if something failed."""
    from tests.serving import exports

    context, lines, failed = results.context(), [], False
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = pathlib.Path(name)
        export = str(exports.discrete(folder / "export", hidden=64))
        # The one that is not asked takes no time, so both run throughout.
        ports = {
            name: stack.enter_context(_served(name, flags, export, folder))
            for name in (OURS, FASTAPI)
        }
        for clients in flags.clients:

            def ask(name: str, number: int, clients=clients) -> Result | Failure:
                return _asked(Load(ports[name], clients, flags.seconds))

            row = f"{clients} clients"
            played = process.alternate((OURS, FASTAPI), flags.pairs, ask)
            lines += [
                {"row": row, "contender": name, **line} for name, line in _shown(played)
            ]
            failed |= bool(played.failures)
            rates = played.figures("requests_per_s").values()
            ratios = [ours / theirs for ours, theirs in zip(*rates, strict=False)]
            print(f"{row}: ratio {statistics.median(ratios or [0]):.2f}, of pairs")
        if flags.loads and not failed:
            played = _while_loading(flags, ports[OURS], folder)
            lines += [
                {"row": row, "contender": OURS, **line} for row, line in _shown(played)
            ]
            failed |= bool(played.failures)
    if flags.record:
        results.append(results.FOLDER / "serving.jsonl", context, lines)
    print(machine.summary())
    return int(failed)


def _asked(work: Load, exports: Sequence[str] = ()) -> Result | Failure:
    """Run clients, while exports take over in turn, if any; return their figures."""
    with process.started("benchmarks.inside.http_load", work) as result:
        count, end = 0, time.monotonic() + work.warm_up_seconds + work.seconds
        while exports and time.monotonic() < end:
            body = json.dumps({"export": exports[count % len(exports)]}).encode()
            url = f"http://{work.host}:{work.port}/v1/model"
            with urllib.request.urlopen(url, body, timeout=DEADLINE) as answer:
                answer.read()
            count += 1
            time.sleep(PAUSE_SECONDS)
        found = result(work.seconds + DEADLINE)
    if isinstance(found, Failure):
        return found
    return {key: found[key] for key in FIGURES} | {"exports": count}


def _while_loading(flags: Command, port: int, folder: pathlib.Path) -> Played:
    """Measure 64 clients, in turn with and without exports that take over."""
    from tests.serving import exports

    # Of the same speed as the served one; most of their weights are not used.
    large = [
        str(exports.discrete(folder / f"large-{x}", hidden=64, ballast=50, seed=x))
        for x in range(2)
    ]
    work = Load(port, 64, 2 * flags.seconds)

    def ask(row: str, number: int) -> Result | Failure:
        return _asked(work, large if row == LOADING else [])

    return process.alternate((QUIET, LOADING), max(1, flags.pairs // 2), ask)


@contextlib.contextmanager
def _served(
    name: str, flags: Command, export: str, folder: pathlib.Path
) -> Iterator[int]:
    """Yield the port of a server that is ended with the context."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    if name == OURS:
        module = [sys.executable, "-m", "tfagents_batch.scripts.serve"]
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


def _shown(played: Played) -> Iterator[tuple[str, Result]]:
    """Print the medians of each name, and yield its numbered results."""
    for name, rounds in played.results.items():
        if rounds:
            middle = {x: statistics.median(each[x] for each in rounds) for x in FIGURES}
            print(
                f"{name:25} {middle['requests_per_s']:7,.0f} requests/s, "
                f"p50 {middle['p50_ms']:.2f}, p99 {middle['p99_ms']:.2f}, "
                f"largest {middle['max_ms']:.1f} ms, "
                f"{sum(x['errors'] for x in rounds)} errors, "
                f"{sum(x['exports'] for x in rounds)} exports"
            )
        for pair, found in enumerate(rounds, 1):
            yield name, {"pair": pair, **found}


if __name__ == "__main__":
    command.run(Command, main)
