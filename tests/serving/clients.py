"""Clients of a server on raw connections, for tests."""

from __future__ import annotations

import json
import socket
import threading

DEADLINE = 30  # seconds of every wait


def request(body, path="/v1/act"):
    """Return the bytes of a request; a body that is no bytes is sent as JSON."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = f"POST {path} HTTP/1.1", "host: localhost", f"content-length: {len(data)}"
    return "\r\n".join([*lines, "", ""]).encode() + data


def connect(port):
    return socket.create_connection(("127.0.0.1", port), DEADLINE)


def read_answer(file):
    """Return the status and the JSON of an answer; None at the end of a connection."""
    line = file.readline()
    if not line:
        return None
    length = 0
    while (header := file.readline().strip()) != b"":
        name, _, value = header.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    data = file.read(length)
    if len(data) < length:
        return None
    return int(line.split()[1]), json.loads(data)


class Clients:
    """Clients in threads, each of which sends one request after the other.

    Args:
      port: of the server.
      count: number of clients.
      body: of the requests.

    Attributes:
      ids: request ids of all answers.
      errors: other answers, and failures of connections.
      ids_changed: notified after each answer.
    """

    def __init__(self, port, count, body):
        self.ids, self.errors = [], []
        self.ids_changed = threading.Condition()
        self._active = True
        self._threads = [
            threading.Thread(target=self._run, args=(port, request(body)))
            for _ in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def wait_for(self, count):
        """Wait until there are as many answers."""
        with self.ids_changed:
            assert self.ids_changed.wait_for(
                lambda: len(self.ids) >= count or self.errors, DEADLINE
            )

    def stop(self):
        """Wait for the last answers."""
        self._active = False
        for thread in self._threads:
            thread.join(DEADLINE)
            assert not thread.is_alive()

    def _run(self, port, data):
        try:
            with connect(port) as connection, connection.makefile("rb") as file:
                while self._active:
                    connection.sendall(data)
                    answer = read_answer(file)
                    if answer is None:
                        raise ConnectionError("the connection ended")
                    status, found = answer
                    with self.ids_changed:
                        if status == 200:
                            self.ids.append(found["request_id"])
                        else:
                            self.errors.append(answer)
                        self.ids_changed.notify_all()
        except OSError as error:
            with self.ids_changed:
                self.errors.append(error)
                self.ids_changed.notify_all()
