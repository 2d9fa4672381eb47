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
from collections.abc import Iterator
from typing import Any

from benchmarks.measure import command, process, results
from benchmarks.measure.process import Failure, Result
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
    export: str = option("", "ONNX export; empty: a small network of the tests")
    loads: bool = option(True, "also measure while exports of 50 MB are loaded")
    python: str = option("", "interpreter with FastAPI; empty: that of the peers")
    record: bool = option(True, "append to benchmarks/results/serving.jsonl")


def main(flags: Command) -> int:
    """Measure, and print a line for each number of clients; 1 if something failed."""
    context, lines, failed = results.context(), [], False
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        export = flags.export or _export(pathlib.Path(folder) / "export")
        # The one that is not asked takes no time, so both run throughout.
        ports = {
            name: stack.enter_context(_served(name, flags, str(export), folder))
            for name in (OURS, FASTAPI)
        }
        for clients in flags.clients:
            process.report(f"{clients} clients")
            works = {x: Load(ports[x], clients, flags.seconds) for x in ports}

            def ask(name: str, number: int, works=works) -> Result | Failure:
                limit = flags.seconds + DEADLINE
                found = process.run("benchmarks.inside.http_load", works[name], limit)
                if isinstance(found, Failure):
                    return found._replace(contender=name)
                return {key: found[key] for key in FIGURES}

            played = process.alternate((OURS, FASTAPI), flags.pairs, ask)
            failed = failed or bool(played.failures)
            lines += [
                {"row": _row(clients), "contender": name, "pair": pair, **found}
                for name, rounds in played.results.items()
                for pair, found in enumerate(rounds, 1)
            ]
        if flags.loads and not failed:
            more = _while_loading(flags, ports[OURS], pathlib.Path(folder))
            failed = not more
            lines += more
    if flags.record and lines:
        results.append(results.FOLDER / "serving.jsonl", context, lines)
    print(", ".join(map(str, machine.describe().values())))
    for clients in flags.clients:
        _show(clients, lines)
    for row in (QUIET, LOADING):
        _show_one(row, lines)
    return 1 if failed else 0


def _export(folder: pathlib.Path) -> pathlib.Path:
    from tests.serving import exports

    return exports.discrete(folder, hidden=64)


def _row(clients: int) -> str:
    return f"{clients} clients"


def _while_loading(flags: Command, port: int, folder: pathlib.Path) -> list[dict]:
    """Return lines of 64 clients, in turn with and without exports that take over."""
    from tests.serving import exports

    # Of the same speed as the served one; most of their weights are not used.
    large = [
        str(exports.discrete(folder / f"large-{x}", hidden=64, ballast=50, seed=x))
        for x in range(2)
    ]
    work = Load(port, 64, 2 * flags.seconds)

    def ask(row: str, number: int) -> Result | Failure:
        process.report(row)
        limit = work.seconds + DEADLINE
        with process.started("benchmarks.inside.http_load", work) as result:
            count, end = 0, time.monotonic() + work.warm_up_seconds + work.seconds
            while row == LOADING and time.monotonic() < end:
                _load(port, large[count % 2])
                count += 1
                time.sleep(PAUSE_SECONDS)
            found = result(limit)
        if isinstance(found, Failure):
            return found
        return {key: found[key] for key in FIGURES} | {"exports": count}

    played = process.alternate((QUIET, LOADING), max(1, flags.pairs // 2), ask)
    if played.failures:
        return []
    return [
        {"row": row, "contender": OURS, "pair": pair, **found}
        for row, rounds in played.results.items()
        for pair, found in enumerate(rounds, 1)
    ]


def _load(port: int, export: str) -> None:
    """Let an export take over."""
    body = json.dumps({"export": export}).encode()
    url = f"http://127.0.0.1:{port}/v1/model"
    with urllib.request.urlopen(url, body, timeout=DEADLINE) as answer:
        answer.read()


@contextlib.contextmanager
def _served(name: str, flags: Command, export: str, folder: str) -> Iterator[int]:
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


def _wait(port: int, server: Any) -> None:
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


def _show(clients: int, lines: list[dict]) -> None:
    """Print the medians of both, and the ratio of pairs."""
    rates = {}
    for name in (OURS, FASTAPI):
        mine = [
            x
            for x in lines
            if (x["row"], x["contender"]) == (f"{clients} clients", name)
        ]
        if not mine:
            return
        rates[name] = [x["requests_per_s"] for x in mine]
        middle = {x: statistics.median(each[x] for each in mine) for x in FIGURES}
        print(
            f"{clients:3} clients, {name:15} {middle['requests_per_s']:7,.0f} "
            f"requests/s, p50 {middle['p50_ms']:.2f}, p99 {middle['p99_ms']:.2f} ms, "
            f"{sum(x['errors'] for x in mine)} errors"
        )
    ratios = [a / b for a, b in zip(*rates.values(), strict=False)]
    print(
        f"{clients:3} clients, ratio {statistics.median(ratios):.2f}, median of pairs"
    )


def _show_one(row: str, lines: list[dict]) -> None:
    """Print the medians of a row of ours."""
    mine = [x for x in lines if x["row"] == row]
    if mine:
        middle = {x: statistics.median(each[x] for each in mine) for x in FIGURES}
        print(
            f"{row:25} p50 {middle['p50_ms']:.2f}, p99 {middle['p99_ms']:.2f}, "
            f"largest {middle['max_ms']:.1f} ms, {sum(x['exports'] for x in mine)} "
            f"exports, {sum(x['errors'] for x in mine)} errors"
        )


if __name__ == "__main__":
    command.run(Command, main)
