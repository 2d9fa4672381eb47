"""Clients that mean harm: the server keeps its memory, and answers the others."""

import contextlib
import resource
import socket
import threading
import time

import pytest

from tests.serving import clients, exports, served

X = [0.1, 0.2, 0.3, -0.4]
MOST_MEMORY = 300e6  # bytes of supervisor and worker
MOST_SECONDS = 1.0  # of an answer of /healthz
SECONDS = 5  # of an attack
CONNECTIONS = 10_000
POST = b"POST /v1/act HTTP/1.1\r\nhost: localhost\r\n"
HEALTH = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"
REQUEST = clients.request({"observation": X})


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("attacked")
    export = exports.discrete(folder / "a", hidden=64)
    flags = f"--log={folder / 'log'}", "--request_seconds=2", "--idle_seconds=3"
    with served.process(export, *flags) as found:
        yield found


class Health(threading.Thread):
    """Asks for the health of a server again and again, and looks at its memory."""

    def __init__(self, server):
        super().__init__()
        self._server, self._end = server, threading.Event()
        self.seconds, self.memory, self.errors = [], [], []

    def run(self):
        while not self._end.wait(0.05):
            start = time.monotonic()
            try:
                with clients.connect(self._server.port) as connection:
                    connection.sendall(
                        b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"
                    )
                    with connection.makefile("rb") as file:
                        assert clients.read_answer(file)[0] == 200
            except (OSError, AssertionError, TypeError) as error:
                self.errors.append(error)
            self.seconds.append(time.monotonic() - start)
            self.memory.append(self._server.memory())

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, kind, *_):
        self._end.set()
        self.join()
        print(
            f"memory at most {max(self.memory) / 1e6:.0f} MB, /healthz at most "
            f"{max(self.seconds):.3f} s, {len(self.seconds)} times"
        )
        if kind is None:
            assert not self.errors
            assert max(self.memory) < MOST_MEMORY
            assert max(self.seconds) < MOST_SECONDS


def flood(connections, data, seconds=SECONDS):
    """Send the same data on all connections for a time, and read nothing."""
    end = time.monotonic() + seconds
    for each in connections:
        each.setblocking(False)
    while time.monotonic() < end:
        for each in connections:
            with contextlib.suppress(OSError):
                each.send(data)
        time.sleep(0.001)


@contextlib.contextmanager
def connected(server, count):
    """Yield many connections."""
    with contextlib.ExitStack() as stack:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard < count + 500:
            pytest.skip(f"the limit of open files is {hard}")
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        yield [stack.enter_context(clients.connect(server.port)) for _ in range(count)]


def pipeline(server):
    with connected(server, 20) as found:
        flood(found, REQUEST * 100)


def pipeline_of_large_answers(server):
    ask = b"GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n"
    with connected(server, 20) as found:
        flood(found, ask * 100)


def head(server):
    with connected(server, 4) as found:
        for each in found:
            with contextlib.suppress(OSError):
                each.sendall(b"GET / HTTP/1.1\r\nx: " + b"a" * 40_000_000)


def slow_heads(server):
    with connected(server, CONNECTIONS) as found:
        for each in found:
            each.sendall(b"POST /v1/act HTTP/1.1\r\nx: " + b"a" * 7000)
        flood(found, b"a")


def half_heads(server):
    with connected(server, 100) as found:
        for each in found:
            each.sendall(b"POST /v1/act HTTP/1.1\r\nx: ")
        time.sleep(2 * SECONDS)


def slow_bodies(server):
    """Announce bodies, small and large, and send a part of them."""
    with connected(server, CONNECTIONS) as found:
        for number, each in enumerate(found):
            size = 4000 if number % 20 else 4_000_000
            part = (
                POST + f"content-length: {size}\r\n\r\n".encode() + b"[" * (size // 2)
            )
            each.settimeout(0.01)
            with contextlib.suppress(OSError):
                each.sendall(part)
        time.sleep(2 * SECONDS)


def large_bodies(server):
    """Send JSON that takes much more memory as objects."""
    kinds = b"{},", b"[],", b"0.5,", b'"ab",', b"[0],", b"1000,"
    asked = [
        clients.request(b'{"observation": [' + x * (4_000_000 // len(x)) + b"0]}")
        for x in kinds
    ]
    with connected(server, 24) as found:
        threads = [
            threading.Thread(target=send, args=(each, asked[number % len(asked)]))
            for number, each in enumerate(found)
        ]
        for each in threads:
            each.start()
        for each in threads:
            each.join()


def send(connection, data):
    with contextlib.suppress(OSError):
        for _ in range(5):
            connection.sendall(data)
            connection.recv(10_000)


def chunks_without_end(server):
    start = POST + b"transfer-encoding: chunked\r\n\r\n"
    with connected(server, 50) as found:
        for each in found:
            each.sendall(start)
        flood(found, b"10000\r\n" + b"x" * 65536 + b"\r\n")


def many_connections(server):
    """Open thousands of connections, and then ask on all of them at once."""
    with connected(server, CONNECTIONS) as found:
        for each in found:
            each.sendall(REQUEST)
        statuses = []
        for each in found:
            with each.makefile("rb") as file:
                statuses.append(clients.read_answer(file)[0])
    assert 200 in statuses and {*statuses} <= {200, 429}


def nested(server):
    with contextlib.ExitStack() as stack:
        found = stack.enter_context(connected(server, 20))
        files = [stack.enter_context(each.makefile("rb")) for each in found]
        for depth in (100, 975, 10_000, 1_000_000):
            body = b'{"observation": ' + b"[" * depth + b"]" * depth + b"}"
            for each in found:
                each.sendall(clients.request(body))
            statuses = {clients.read_answer(file)[0] for file in files}
            assert statuses <= {422, 429}  # the latter if many long ones arrive


ATTACKS = (
    *(pipeline, pipeline_of_large_answers, head, slow_heads, slow_bodies),
    *(large_bodies, chunks_without_end, many_connections, nested),
)


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_takes_no_memory_and_no_answers(server, attack):
    with Health(server):
        attack(server)
    assert server.ask("/v1/act", {"observation": X})[0] == 200


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("attack", [pipeline, half_heads, slow_bodies])
def test_a_server_under_attack_ends_within_ten_seconds(tmp_path, attack):
    export = exports.discrete(tmp_path / "a")
    server = served.Process(export, f"--log={tmp_path / 'log'}")
    assert server.ask("/v1/act", {"observation": X})[0] == 200
    thread = threading.Thread(target=attack, args=(server,))
    thread.start()
    time.sleep(1)
    start = time.monotonic()
    code, text = server.stop()
    seconds = time.monotonic() - start
    thread.join()
    print(f"{seconds:.2f} s")
    assert seconds < 10 and (code, text) == (0, "")
    assert [*(tmp_path / "log").glob("*.jsonl")]
    assert not [*(tmp_path / "log").glob(".*.part")]


MALFORMED = [
    *(b"", b" ", b"{", b"}", b"[", b"]", b'"', b"{}", b"[]", b"null", b"true", b"0"),
    *(
        b"\0",
        b"\xff\xfe",
        b"\xef\xbb\xbf{}",
        b"NaN",
        b"Infinity",
        b"-",
        b"1e999",
        b"//",
    ),
    *(
        b'{"observation"}',
        b'{"observation":}',
        b'{"observation":[}',
        b"{'observation':1}",
    ),
    *(
        f'{{"observation": {x}}}'.encode()
        for x in (
            *("null", "true", '"x"', "{}", "[]", "[[]]", "[1]", "[1,2,3,4,5]", "1e999"),
            *(
                "[1,2,3,null]",
                '[1,2,3,"4"]',
                "[1,2,3,[4]]",
                "[1,2,3,{}]",
                "[1,2,3,NaN]",
            ),
            *(
                "[1,2,3,Infinity]",
                "[1,2,3,1e999]",
                f"[1,2,3,{'9' * 400}]",
                "[[1,2,3,4]]",
            ),
            *(f"[1,2,3,{'9' * 5000}]", '{"0": 1}', '"\\ud800"', "[true,2,3,4,5]"),
        )
    ),
    *(
        f'{{"observation": [1,2,3,4], {x}}}'.encode()
        for x in (
            *('"mdp_id": 1', '"mdp_id": ""', '"mdp_id": "\\ud800"', '"mdp_id": [1]'),
            *('"sequence_number": 1', '"mdp_id": "a", "sequence_number": 1e300'),
            *('"state": [1]', '"possible_actions": ["0"]', '"possible_actions": 1'),
            *(
                '"episode_start": 1e999, "x": 1',
                '"observations": [[1,2,3,4]]',
                '"x": 1',
            ),
            f'"mdp_id": "{"x" * 300}"',
        )
    ),
    *(b'{"observations": 1}', b'{"observations": []}', b'{"observations": [1]}'),
]


def test_malformed_bodies_are_422(server):
    assert len(MALFORMED) >= 60
    with clients.connect(server.port) as one, one.makefile("rb") as file:
        for body in MALFORMED:
            one.sendall(clients.request(body))
            status, answer = clients.read_answer(file)
            assert status == 422 and answer["error"], body


FAULTS = [
    *(b"\r\n", b"\0" * 100, b"\x16\x03\x01\x02\0", b"GET\r\n\r\n", b"GET /\r\n\r\n"),
    *(
        b"GET / HTTP/9.9\r\n\r\n",
        b"G\xffT / HTTP/1.1\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\n",
    ),
    *(b"GET  / HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\nhost localhost\n\n"),
    b"GET http://[ HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 500 + b"\r\n",
    b"GET /" + b"a" * 10_000 + b" HTTP/1.1\r\n\r\n",
    POST + b"content-length: -1\r\n\r\n",
    POST + b"content-length: 1e3\r\n\r\n",
    POST + b"content-length: 99999999999999999999999\r\n\r\n",
    POST + b"content-length: 1\r\ncontent-length: 2\r\n\r\n12",
    POST + b"transfer-encoding: chunked\r\n\r\nzz\r\n",
    POST + b"transfer-encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
    POST + b"transfer-encoding: gzip\r\n\r\n",
    POST + b"content-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    POST + b"bad header\r\n\r\n",
    POST + b"upgrade: h2c\r\nconnection: upgrade\r\n\r\n",
]


@pytest.mark.parametrize("number", range(len(FAULTS)))
def test_faults_of_the_protocol_end_only_their_connection(server, number):
    with clients.connect(server.port) as one:
        one.sendall(FAULTS[number])
        with contextlib.suppress(OSError):  # it has ended already
            one.shutdown(socket.SHUT_WR)
        with one.makefile("rb") as file:
            line = file.readline()
    assert not line or 400 <= int(line.split()[1]) < 500
    assert server.ask("/v1/act", {"observation": X})[0] == 200
