import json
import socket
import time

import pytest
import requests

from tests.serving import clients, exports, served
from tests.serving.test_app import lines
from tfagents_batch.errors import UserError
from tfagents_batch.offline.writer import RowLogger
from tfagents_batch.scripts import serve as script

X = [0.1, 0.2, 0.3, -0.4]


def ids_in(folder):
    """Return the request ids of all rows, after the files of a killed server ended."""
    RowLogger(folder).close()
    return {row["request_id"] for row in lines(folder)}


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """Return a server that all tests of this module may ask."""
    folder = tmp_path_factory.mktemp("serving")
    export = exports.discrete(folder / "a")
    flags = [f"--log={folder / 'log'}", "--request_seconds=1", "--max_waiting=200"]
    with served.process(export, *flags, f"--admin_token={served.TOKEN}") as found:
        yield found


def test_a_server_answers_and_ends_in_order(simple, tmp_path):
    server = served.Process(simple, f"--log={tmp_path}")
    try:
        assert server.ask("/readyz")[0] == 200
        status, body = server.ask("/v1/act", {"observation": X})
        assert status == 200
    finally:
        code, text = server.stop()
    assert (code, text) == (0, "")
    (path,) = tmp_path.glob("*.jsonl")  # the file is complete
    assert json.loads(path.read_text())["request_id"] == body["request_id"]


def test_a_server_that_is_stopped_at_once_ends_in_order(simple):
    for _ in range(3):
        server = served.Process(simple)  # until its line
        assert server.stop() == (0, "")


def test_a_file_ends_when_it_has_its_rows(simple, tmp_path):
    with served.process(simple, f"--log={tmp_path}", "--rotate_rows=10") as server:
        for _ in range(10):
            server.ask("/v1/act", {"observation": X})
        # The server looks once a second.
        wait_until(lambda: [*tmp_path.glob("*.jsonl")])
    assert len(ids_in(tmp_path)) == 10


def wait_until(condition):
    """Wait until a condition holds."""
    end = time.monotonic() + served.DEADLINE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.parametrize("part", ["head", "body"])
def test_a_slow_client_gets_408_and_holds_up_no_other(running, part):
    whole = clients.request({"observation": X})
    split = 20 if part == "head" else len(whole) - 5
    with clients.connect(running.port) as slow, slow.makefile("rb") as file:
        slow.sendall(whole[:split])
        assert running.ask("/v1/act", {"observation": X})[0] == 200
        status, body = clients.read_answer(file)
        assert status == 408 and "did not arrive in time" in body["error"]
        assert file.read() == b""  # and the connection ends
    assert running.ask("/v1/act", {"observation": X})[0] == 200


def test_an_idle_connection_stays_open(running):
    with clients.connect(running.port) as one, one.makefile("rb") as file:
        one.sendall(clients.request({"observation": X}))
        assert clients.read_answer(file)[0] == 200
        before = running.measure("requests_total")
        with clients.connect(running.port) as slow, slow.makefile("rb") as other:
            slow.sendall(b"POST")
            assert (
                clients.read_answer(other)[0] == 408
            )  # after the idle time of ``one``
        one.sendall(clients.request({"observation": X}))
        assert clients.read_answer(file)[0] == 200
        assert running.measure("requests_total") > before


def test_a_body_of_ten_megabytes_is_413(running):
    answer = requests.post(
        f"{running.url}/v1/act", data=b"x" * 10_000_000, timeout=served.DEADLINE
    )
    assert answer.status_code == 413 and "10,000,000 bytes" in answer.json()["error"]
    assert running.ask("/v1/act", {"observation": X})[0] == 200


def test_not_http_is_400_and_the_server_goes_on(running):
    with clients.connect(running.port) as one, one.makefile("rb") as file:
        one.sendall(b"\x16\x03\x01 no HTTP\r\n\r\n")
        assert file.readline().startswith(b"HTTP/1.1 400")
    assert running.ask("/v1/act", {"observation": X})[0] == 200


def test_ten_thousand_requests_at_once_are_answered_or_refused(running):
    count, batch = 10_000, [clients.request({"observation": X})]
    opened = []
    try:
        for _ in range(500):  # 20 requests each, as many connections as tests may have
            opened.append(clients.connect(running.port))
        for each in opened:
            each.sendall(b"".join(batch * (count // len(opened))))
        statuses = []
        for each in opened:
            with each.makefile("rb") as file:
                statuses += [
                    clients.read_answer(file)[0] for _ in range(count // len(opened))
                ]
    finally:
        for each in opened:
            each.close()
    # A fast server refuses none of them.
    assert len(statuses) == count and 200 in statuses and {*statuses} <= {200, 429}
    assert running.ask("/v1/act", {"observation": X})[0] == 200


def kill_under_load(export, folder, answers):
    """Kill a server under load; return the answered ids that the log lacks."""
    server = served.Process(export, f"--log={folder}")
    try:
        load = clients.Clients(server.port, 8, {"observation": X})
        load.wait_for(answers)
        server.kill()
        load.stop()
    finally:
        server.stop()
    assert len(load.ids) >= answers
    return {*load.ids} - ids_in(folder)


def test_every_answer_of_a_killed_server_is_in_the_log(simple, tmp_path):
    assert not kill_under_load(simple, tmp_path, 300)


@pytest.mark.slow
def test_ten_killed_servers_lose_no_answer(simple, tmp_path):
    for number in range(10):
        assert not kill_under_load(simple, tmp_path, 1000 + 500 * number)


def test_a_swap_under_load_fails_no_request(running):
    folder = running.export.parent
    others = [
        exports.discrete(folder / str(number), seed=number, step=number)
        for number in range(2)
    ]
    load = clients.Clients(running.port, 8, {"observation": X})
    try:
        for number in range(6):
            status, found = running.change(others[number % 2])
            assert status == 200 and found["step"] == number % 2
            load.wait_for(len(load.ids) + 50)
    finally:
        load.stop()
    assert not load.errors


def test_a_replaced_folder_is_loaded(tmp_path):
    export = exports.discrete(tmp_path / "a")
    with served.process(export, "--watch") as server:
        exports.discrete(export, step=7)
        wait_until(lambda: server.ask("/v1/model")[1]["step"] == 7)


@pytest.mark.parametrize("flags", [(), ("--token=secret",)])
def test_another_address_needs_a_token(simple, monkeypatch, flags):
    monkeypatch.delenv("TFAGENTS_BATCH_TOKEN", raising=False)
    message = "host=0.0.0.0 can be reached from other machines; pass --token"
    with pytest.raises(UserError, match=message):
        script.main([f"--export={simple}", "--host=0.0.0.0"])
    if not flags:
        monkeypatch.setenv("TFAGENTS_BATCH_TOKEN", "secret")
    with served.process(simple, "--host=0.0.0.0", *flags) as server:
        assert server.ask("/v1/act", {"observation": X})[0] == 401
        server.headers["Authorization"] = "Bearer secret"
        assert server.ask("/v1/act", {"observation": X})[0] == 200


def test_a_port_in_use_is_a_user_error(simple):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(UserError, match=f"cannot listen on 127.0.0.1:{port}"):
            script.main([f"--export={simple}", f"--port={port}"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no export is given; pass --export"),
        (["--export=none"], "none does not exist; expected the folder"),
        (["--export=a", "--prt=80"], "unknown flag --prt; did you mean --port"),
        (["--export=a", "--port=70000"], "port is 70000; expected at least 0"),
        (["--export=a", "--max_waiting=63"], "max_waiting=63 is less than --max_batch"),
    ],
)
def test_wrong_flags_are_user_errors(arguments, message):
    with pytest.raises(UserError, match=message):
        script.main(arguments)
