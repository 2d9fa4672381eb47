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

import psutil
import requests

from tfagents_batch.serving.server import worker
from tfagents_batch.serving.server.settings import ServerSettings

DEADLINE = 30  # seconds of every wait
TOKEN = "admin"  # of the right to change the export
ADMIN = (("authorization", "Bearer admin"),)


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: Any


class InProcess:
    """Application of a server, asked without HTTP."""

    def __init__(self, export, stack, **settings):
        self.app = worker.build(ServerSettings(export=str(export), **settings), stack)
        self.models, self.log = self.app.endpoints.models, self.app.endpoints.log

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
        length = {"content-length": str(len(data))}
        if parts is not None:
            length = {"transfer-encoding": "chunked"}
        headers = {"host": "localhost"} | length | dict(headers)
        scope = types.SimpleNamespace(method=method, path=path, headers=headers)
        protocol = Protocol([data] if parts is None else parts)
        await self.app.__rsgi__(scope, protocol)
        ((status, found, text),) = protocol.answers
        is_json = found["content-type"] == "application/json"
        return Answer(status, found, json.loads(text) if is_json else text)


class Protocol:
    """Stand-in for what Granian gives to an application for a request."""

    def __init__(self, parts):
        self._parts, self.answers = parts, []

    async def __call__(self):
        await asyncio.sleep(0)
        return b"".join(self._parts)

    async def __aiter__(self):
        for part in self._parts:
            await asyncio.sleep(0)
            yield part

    def response_bytes(self, status, headers, content):
        self.answers.append((status, dict(headers), content.decode()))


class Process:
    """Server in a process of its own."""

    def __init__(self, export, *flags, wait=True):
        command = [sys.executable, "-m", "tfagents_batch", "serve"]
        self.process = subprocess.Popen(
            [*command, f"--export={export}", "--port=0", *flags],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.export, self.headers = export, {}
        if wait:
            self.wait()

    def wait(self):
        """Wait until it serves, also after its worker died."""
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(self.process.communicate()[1])
        self.url = line.split()[-1]
        self.port = int(self.url.rpartition(":")[2])

    def processes(self):
        """Return the supervisor and its worker."""
        supervisor = psutil.Process(self.process.pid)
        return [supervisor, *supervisor.children()]

    def memory(self):
        """Return the resident memory of both in bytes."""
        found = 0
        for each in self.processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                found += each.memory_info().rss
        return found

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

    def kill_worker(self, number=signal.SIGKILL):
        _, worker = self.processes()
        worker.send_signal(number)

    def kill(self):
        """Kill the supervisor; its worker ends by itself."""
        _, *workers = self.processes()
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait(DEADLINE)
        _, left = psutil.wait_procs(workers, DEADLINE)
        assert not left

    def stop(self, signal=signal.SIGTERM):
        """End the server as a user does; return its exit status and stderr."""
        if self.process.poll() is None and signal is not None:
            self.process.send_signal(signal)
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
