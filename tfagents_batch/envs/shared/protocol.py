"""Messages on the socket between learner and worker: headers and JSON.

A frame is a header and a payload of UTF-8 JSON, possibly empty. No message is ever
unpickled. The environments' constructors are in a file that the worker has inherited.
"""

from __future__ import annotations

import json
import socket
import struct
from typing import Any, NamedTuple

MAGIC = 0x42414654  # "TFAB"
MAX_PAYLOAD = 16 << 20  # bytes

# magic, command, sequence, first row, status, payload length
_HEADER = struct.Struct("<IIQIII")
HEADER_SIZE = _HEADER.size

# Commands.
CONSTRUCT = 1  # payload: see ``Workers.create``
ATTACH = 2  # payload: layout and options
RESET = 3  # payload: {"seed": int}
STEP = 4
CLOSE = 5
NAMES = {CONSTRUCT: "construct", ATTACH: "attach", RESET: "reset", STEP: "step"}

# Status of a reply.
OK = 0
FAILED = 1  # payload: {"failures": [...], "notes": [...]}
NOTES = 2  # payload: {"notes": [...]}
PROGRESS = 3  # before the reply: the constructor of row ``first_row`` runs next

# Exit codes of a worker.
EXIT_FULL = 77  # its memory exceeded its limit
EXIT_CUT_OFF = 78  # an environment closed its control socket


class Header(NamedTuple):
    """Fixed part of a frame; a reply repeats the request's command and number."""

    command: int
    sequence: int  # number of the request, unique in a batch
    first_row: int  # first row that the frame refers to
    status: int  # status of a reply
    length: int  # bytes of the payload that follows


class Malformed(Exception):
    """Error for bytes that are not a frame of this version."""


def pack(
    command: int,
    sequence: int,
    payload: Any = None,
    *,
    status: int = OK,
    first_row: int = 0,
) -> bytes:
    """Return the bytes of a frame; a ValueError if the payload is too large."""
    body = b"" if payload is None else json.dumps(payload).encode()
    if len(body) > MAX_PAYLOAD:
        raise ValueError(
            f"the payload of a {NAMES.get(command, command)} frame has {len(body)} "
            f"bytes; the limit is {MAX_PAYLOAD}"
        )
    return _HEADER.pack(MAGIC, command, sequence, first_row, status, len(body)) + body


def unpack(data: bytes | bytearray) -> Header:
    """Read the header at the start of ``data``, or raise ``Malformed``."""
    magic, *fields = _HEADER.unpack_from(data)
    header = Header(*fields)
    if magic != MAGIC:
        raise Malformed(f"not a frame: starts with {bytes(data[:16])!r}")
    if header.length > MAX_PAYLOAD:
        raise Malformed(f"a payload of {header.length} bytes; limit {MAX_PAYLOAD}")
    return header


class Inbox:
    """Reader of frames from one socket, where they arrive in pieces."""

    def __init__(self, channel: socket.socket):
        self._channel = channel
        self._data = bytearray()
        self._waiting: list[tuple[Header, Any]] = []  # read, not returned by ``wait``
        self.closed = False

    def wait(self) -> tuple[Header, Any] | None:
        """Wait for a frame on a blocking socket; None at the end of the stream."""
        while not self._waiting and not self.closed:
            self._waiting += self.read()
        return self._waiting.pop(0) if self._waiting else None

    def read(self) -> list[tuple[Header, Any]]:
        """Return the frames that have arrived; set ``closed`` at the end of the stream.

        Raises:
          Malformed: if the bytes are not frames of this version.
        """
        try:
            data = self._channel.recv(1 << 18)
        except (BlockingIOError, InterruptedError):
            return []
        except ConnectionError:  # the peer died before it read all data
            data = b""
        if not data:
            self.closed = True
            return []
        self._data += data
        frames = []
        while len(self._data) >= HEADER_SIZE:
            header = unpack(self._data)
            end = HEADER_SIZE + header.length
            if len(self._data) < end:
                break
            frames.append((header, _decode(self._data[HEADER_SIZE:end])))
            del self._data[:end]
        return frames


def _decode(body: bytearray) -> Any:
    """Return the payload in ``body``, or None if it is empty."""
    if not body:
        return None
    try:
        return json.loads(body)
    except ValueError as error:
        raise Malformed(f"a payload that is not JSON: {error}") from None
