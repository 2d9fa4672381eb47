"""Servers for tests: in this process without sockets, and in one of their own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import types
from typing import Any, NamedTuple

import requests

from tfagents_batch.serving.server import run
from tfagents_batch.serving.server.settings import Settings

DEADLINE = 30  # seconds of every wait
TOKEN = "admin"  # of the right to change the export
ADMIN = ((b"authorization", b"Bearer admin"),)


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: Any


class InProcess:
    """Application of a server, asked without HTTP."""

    def __init__(self, export, stack, **settings):
        self.said = []
        state = types.SimpleNamespace(tasks=set(), connections=set())
        settings = Settings(export=str(export), **settings)
        self.app = run.build(settings, state, self.said.append, stack)
        self.models = self.app._endpoints.models
        self.log = self.app._endpoints._log

    def ask(self, path, body=None, method=None, headers=(), parts=None):
        """Return the answer to a request; a body that is no bytes is sent as JSON."""
        return self.ask_all([(path, body)], method, headers, parts)[0]

    def change(self, body, path="/v1/model"):
        """Return the answer to a request with the right of ``admin_token=admin``."""
        return self.ask(path, body, headers=ADMIN)

    def ask_all(self, asked, method=None, headers=(), parts=None):
        """Return the answers to requests that arrive together."""

        async def run():
            work = (self._ask(*each, method, headers, parts) for each in asked)
            return await asyncio.wait_for(asyncio.gather(*work), DEADLINE)

        return asyncio.run(run())

    async def _ask(self, path, body, method, headers, parts):
        method = method or ("GET" if body is None else "POST")
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        messages = [
            {"type": "http.request", "body": x, "more_body": True}
            for x in ([data] if parts is None else parts)
        ]
        messages[-1]["more_body"] = False
        sent = []

        async def receive():
            return messages.pop(0)

        async def send(message):
            sent.append(message)

        scope = {"type": "http", "method": method, "path": path}
        headers = [(b"host", b"localhost"), *headers]
        await self.app(scope | {"headers": headers}, receive, send)
        start, content = sent
        found = {k.decode(): x.decode() for k, x in start["headers"]}
        text = content["body"].decode()
        is_json = found["content-type"] == "application/json"
        return Answer(start["status"], found, json.loads(text) if is_json else text)


class Process:
    """Server in a process of its own."""

    def __init__(self, export, *flags):
        command = [sys.executable, "-m", "tfagents_batch.scripts.serve"]
        self.process = subprocess.Popen(
            [*command, f"--export={export}", "--port=0", *flags],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(self.process.communicate()[1])
        self.url = line.split()[-1]
        self.port = int(self.url.rpartition(":")[2])
        self.export, self.headers = export, {}

    def change(self, export):
        """Load another export; the server has the flag ``--admin_token=admin``."""
        headers = {"Authorization": f"Bearer {TOKEN}"}
        return self.ask("/v1/model", {"export": str(export)}, headers)

    def ask(self, path, body=None, headers=None):
        """Return the answer's status and JSON."""
        method = "GET" if body is None else "POST"
        headers = self.headers if headers is None else headers
        url, options = self.url + path, {"headers": headers, "timeout": DEADLINE}
        found = requests.request(method, url, json=body, **options)
        return found.status_code, found.json()

    def measure(self, name):
        """Return the sum of a measure over its labels."""
        text = requests.get(f"{self.url}/metrics", timeout=DEADLINE).text
        lines = [x for x in text.splitlines() if x.startswith(f"tfagents_batch_{name}")]
        return sum(float(line.rpartition(" ")[2]) for line in lines)

    def resident(self):
        """Return the resident memory in bytes."""
        return self.measure("resident_bytes")

    def kill(self):
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait(DEADLINE)

    def stop(self):
        """End the server as a user does; return its exit status and stderr."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            _, text = self.process.communicate(timeout=DEADLINE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        finally:
            self.process.stdout.close()
            self.process.stderr.close()
        return self.process.returncode, text


@contextlib.contextmanager
def process(export, *flags):
    """Yield a server that is stopped at the end."""
    found = Process(export, *flags)
    try:
        yield found
    finally:
        found.stop()
