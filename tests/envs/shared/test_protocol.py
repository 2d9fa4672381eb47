import socket
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tfagents_batch.envs.shared import protocol


@pytest.fixture
def channel():
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    yield ours, theirs
    ours.close()
    theirs.close()


@settings(max_examples=40, deadline=None)
@given(
    sequence=st.integers(0, 2**64 - 1),
    status=st.integers(0, 2**32 - 1),
    payload=st.none() | st.dictionaries(st.text(), st.integers() | st.text()),
    cuts=st.lists(st.integers(1, 40), max_size=20),
)
def test_frames_can_arrive_in_any_pieces(sequence, status, payload, cuts):
    frame = protocol.pack(protocol.RESET, sequence, payload, status=status)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        inbox, found = protocol.Inbox(ours), []
        rest = frame + frame
        for cut in [*cuts, len(rest)]:
            piece, rest = rest[:cut], rest[cut:]
            theirs.sendall(piece)
            found += inbox.read()
    assert len(found) == 2
    for header, got in found:
        assert (header.sequence, header.status) == (sequence, status)
        assert got == payload


def test_an_empty_socket_gives_no_frame_and_the_end_of_the_stream_is_detected(channel):
    inbox = protocol.Inbox(channel[0])
    assert inbox.read() == [] and not inbox.closed
    channel[1].close()
    assert inbox.read() == [] and inbox.closed


@pytest.mark.parametrize(
    "data",
    [
        b"x" * 32,
        struct.pack("<IIQIII", protocol.MAGIC, 4, 1, 0, 0, 2**31),
        struct.pack("<IIQIII", protocol.MAGIC, 4, 1, 0, 0, 3) + b"{x}",
    ],
    ids=["magic", "length", "json"],
)
def test_invalid_frames_are_refused_on_both_sides(channel, data):
    channel[1].sendall(data)
    with pytest.raises(protocol.Malformed):
        protocol.Inbox(channel[0]).read()
    channel[0].sendall(data)
    with pytest.raises(protocol.Malformed):
        protocol.Inbox(channel[1]).wait()


def test_payloads_are_bounded():
    with pytest.raises(ValueError, match="limit"):
        protocol.pack(protocol.RESET, 1, "x" * (protocol.MAX_PAYLOAD + 1))


def test_a_blocking_reader_waits_for_each_frame_and_for_the_end(channel):
    inbox = protocol.Inbox(channel[1])
    channel[0].sendall(
        protocol.pack(protocol.STEP, 1) + protocol.pack(protocol.STEP, 2)
    )
    channel[0].close()
    assert [inbox.wait()[0].sequence for _ in range(2)] == [1, 2]
    assert inbox.wait() is None
