"""What crosses the socket between learner and worker: headers and JSON.

A frame is a header and a payload of UTF-8 JSON, possibly empty. Nothing here is ever
unpickled; the environments' constructors travel once, in a descriptor of their own.
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
CONSTRUCT = 1  # payload: see worker.py; descriptor: the pickled constructors
ATTACH = 2  # payload: layout and options; descriptor: the shared memory
RESET = 3  # payload: {"seed": int}
STEP = 4
CLOSE = 5
NAMES = {CONSTRUCT: "construct", ATTACH: "attach", RESET: "reset", STEP: "step"}

# Status of a reply.
OK = 0
FAILED = 1  # payload: {"failures": [...], "notes": [...]}
NOTES = 2  # as FAILED, without failures
PROGRESS = 3  # no reply yet: the constructor of row ``first_row`` is about to run

# Exit codes of a worker.
EXIT_FULL = 77  # it used more memory than it may
EXIT_CUT_OFF = 78  # its control socket was closed in its own process


class Header(NamedTuple):
    """The fixed part of a frame; a reply repeats command and number of the request."""

    command: int
    sequence: int  # unique in the life of a pool
    first_row: int  # of the rows the frame is about
    status: int  # of a reply
    length: int  # bytes of the payload that follows


class Malformed(Exception):
    """Bytes that are no frame of this version."""


def pack(
    command: int,
    sequence: int,
    payload: Any = None,
    *,
    status: int = OK,
    first_row: int = 0,
) -> bytes:
    """Make a frame.

    Raises:
      ValueError: if the payload is larger than ``MAX_PAYLOAD``.
    """
    body = b"" if payload is None else json.dumps(payload).encode()
    if len(body) > MAX_PAYLOAD:
        raise ValueError(
            f"the payload of a {NAMES.get(command, command)} frame has {len(body)} "
            f"bytes; the limit is {MAX_PAYLOAD}"
        )
    return _HEADER.pack(MAGIC, command, sequence, first_row, status, len(body)) + body


def unpack(data: bytes | bytearray) -> Header:
    """Read the header at the start of ``data``.

    Raises:
      Malformed: if it is none.
    """
    magic, *fields = _HEADER.unpack_from(data)
    header = Header(*fields)
    if magic != MAGIC:
        raise Malformed(f"not a frame: starts with {bytes(data[:16])!r}")
    if header.length > MAX_PAYLOAD:
        raise Malformed(f"a payload of {header.length} bytes; limit {MAX_PAYLOAD}")
    return header


class Inbox:
    """Frames of one non-blocking socket, gathered from pieces as they arrive."""

    def __init__(self, channel: socket.socket):
        self._channel = channel
        self._data = bytearray()
        self.closed = False

    def read(self) -> list[tuple[Header, Any]]:
        """Take what has arrived; ``closed`` turns true at the end of the stream.

        Raises:
          Malformed: if that is not frames of this version.
        """
        try:
            data = self._channel.recv(1 << 18)
        except (BlockingIOError, InterruptedError):
            return []
        except OSError:  # reset by a peer that died with data unread
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
            frames.append((header, decode(self._data[HEADER_SIZE:end])))
            del self._data[:end]
        return frames


def decode(body: bytes | bytearray) -> Any:
    """The payload in ``body``, None if it is empty.

    Raises:
      Malformed: if it is not JSON.
    """
    if not body:
        return None
    try:
        return json.loads(body)
    except ValueError as error:
        raise Malformed(f"a payload that is not JSON: {error}") from None


def receive(
    channel: socket.socket, descriptor: bool = False
) -> tuple[Header, Any, int | None] | None:
    """Wait for one request.

    Args:
      channel: a blocking socket.
      descriptor: whether one may come along.

    Returns:
      header, payload and descriptor (None if there is none); None at the end of the
      stream.

    Raises:
      Malformed: if it is not a frame of this version.
    """
    data, descriptors, _, _ = socket.recv_fds(channel, HEADER_SIZE, int(descriptor))
    if not data:
        return None
    header = unpack(data + _exactly(channel, HEADER_SIZE - len(data)))
    payload = decode(_exactly(channel, header.length))
    return header, payload, descriptors[0] if descriptors else None


def _exactly(channel: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        piece = channel.recv(count - len(data))
        if not piece:
            raise Malformed(f"the stream ended {count - len(data)} bytes too early")
        data += piece
    return bytes(data)
