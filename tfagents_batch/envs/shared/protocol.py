"""Messages on the socket between learner and worker: headers and JSON.

A frame is a header and a payload of UTF-8 JSON, possibly empty. No message is ever
unpickled. The environments' constructors are sent once, in a file descriptor.
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
CONSTRUCT = 1  # payload: see ``Requests``; descriptor: the pickled constructors
ATTACH = 2  # payload: layout and options; descriptor: the shared memory
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
EXIT_FULL = 77  # memory exceeded its limit
EXIT_CUT_OFF = 78  # its control socket was closed inside the worker


class Header(NamedTuple):
    """Fixed part of a frame; a reply repeats the request's command and number."""

    command: int
    sequence: int  # number of the request, unique in a pool
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
    """Return the bytes of a frame.

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
      Malformed: if it is not a header of this version.
    """
    magic, *fields = _HEADER.unpack_from(data)
    header = Header(*fields)
    if magic != MAGIC:
        raise Malformed(f"not a frame: starts with {bytes(data[:16])!r}")
    if header.length > MAX_PAYLOAD:
        raise Malformed(f"a payload of {header.length} bytes; limit {MAX_PAYLOAD}")
    return header


class Inbox:
    """Reader of frames from one non-blocking socket, where they arrive in pieces."""

    def __init__(self, channel: socket.socket):
        self._channel = channel
        self._data = bytearray()
        self.closed = False

    def read(self) -> list[tuple[Header, Any]]:
        """Return the frames that have arrived; set ``closed`` at the end of the stream.

        Raises:
          Malformed: if the bytes are not frames of this version.
        """
        try:
            data = self._channel.recv(1 << 18)
        except (BlockingIOError, InterruptedError):
            return []
        except OSError:  # the peer died before it read all data
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
    """Return the payload in ``body``, or None if it is empty.

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
      descriptor: whether the request may carry a file descriptor.

    Returns:
      header, payload and descriptor (None if there is none); None at the end of the
      stream.

    Raises:
      Malformed: if it is not a frame of this version.
    """
    data, descriptors, _, _ = socket.recv_fds(channel, HEADER_SIZE, int(descriptor))
    if not data:
        return None
    header = unpack(data + _receive_exactly(channel, HEADER_SIZE - len(data)))
    payload = decode(_receive_exactly(channel, header.length))
    return header, payload, descriptors[0] if descriptors else None


def _receive_exactly(channel: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        piece = channel.recv(count - len(data))
        if not piece:
            raise Malformed(f"the stream ended {count - len(data)} bytes too early")
        data += piece
    return bytes(data)
