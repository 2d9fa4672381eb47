import contextlib
import json
import shutil
import signal
import socket
import subprocess
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
    flags = [f"--log={folder / 'log'}", "--request_seconds=1", "--idle_seconds=3"]
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
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        server = served.Process(simple)  # until its line
        assert server.stop(number) == (0, "")


def test_a_worker_that_is_stopped_before_it_is_ready_ends_at_once(simple):
    server = served.Process(simple)
    server.kill_worker(signal.SIGTERM)  # so another one starts
    start = time.monotonic()
    assert server.stop()[0] in (0, 1)
    assert time.monotonic() - start < 5


def test_a_log_that_cannot_be_completed_is_an_error_of_saving(simple, tmp_path):
    server = served.Process(simple, f"--log={tmp_path / 'log'}")
    try:
        assert server.ask("/v1/act", {"observation": X})[0] == 200
        shutil.rmtree(tmp_path / "log")
        (tmp_path / "log").write_text("no folder")
    finally:
        code, text = server.stop()
    assert code == 74 and "error: rows cannot be written to" in text


def test_rows_of_a_removed_folder_are_written_again_and_the_server_says_so(
    simple, tmp_path
):
    log, answered = tmp_path / "log", []
    server = served.Process(simple, f"--log={log}")
    try:
        for number in range(10):
            if number == 5:
                shutil.rmtree(log)
            body = server.ask("/v1/act", {"observation": X})[1]
            answered.append(body["request_id"])
        wait_until(lambda: [*log.glob(".*.part")])
    finally:
        code, text = server.stop()
    assert code == 0 and "was removed; its 10 rows were written again" in text
    assert "starting" not in text
    assert [row["request_id"] for row in lines(log)] == answered


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


def test_a_slow_body_is_408_and_holds_up_no_other(running):
    whole = clients.request({"observation": X})
    with clients.connect(running.port) as slow, slow.makefile("rb") as file:
        slow.sendall(whole[:-5])
        assert running.ask("/v1/act", {"observation": X})[0] == 200
        status, body = clients.read_answer(file)
        assert status == 408 and "did not arrive in time" in body["error"]
        assert file.read() == b""  # and the connection ends
    assert running.ask("/v1/act", {"observation": X})[0] == 200


def test_a_slow_head_ends_its_connection(running):
    with contextlib.ExitStack() as stack:
        files = []
        for before in (0, 1):
            slow = stack.enter_context(clients.connect(running.port))
            files.append(stack.enter_context(slow.makefile("rb")))
            slow.sendall(clients.request({"observation": X}) * before + b"POST /v1")
        assert clients.read_answer(files[1])[0] == 200
        assert [file.read() for file in files] == [b"", b""]
    assert running.ask("/v1/act", {"observation": X})[0] == 200


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


def kill_under_load(server, answers, kill):
    """Kill a server, or its worker, under load; return the ids that were answered."""
    load = clients.Clients(server.port, 8, {"observation": X})
    try:
        load.wait_for(answers)
        kill()
    finally:
        load.stop()
    assert len(load.ids) >= answers
    return load.ids


def check_log(folder, answered):
    """Compare the rows of a folder with the ids that clients know."""
    RowLogger(folder).close()
    found = [row["request_id"] for row in lines(folder)]
    assert len(found) == len({*found}) and {*answered} <= {*found}


def test_every_answer_of_a_killed_server_is_in_the_log(simple, tmp_path):
    server = served.Process(simple, f"--log={tmp_path}")
    try:
        answered = kill_under_load(server, 300, server.kill)
    finally:
        server.stop()
    check_log(tmp_path, answered)


def test_another_worker_goes_on_with_the_export_and_the_log(tmp_path):
    first = exports.discrete(tmp_path / "a")
    other = exports.discrete(tmp_path / "b", step=7)
    log = tmp_path / "log"
    with served.process(first, f"--log={log}", "--admin_token=admin") as server:
        assert server.change(other)[0] == 200
        answered = kill_under_load(server, 100, server.kill_worker)
        server.wait()
        assert server.ask("/v1/model")[1]["step"] == 7
        answered += kill_under_load(server, 100, lambda: None)
        assert server.stop()[0] == 0
    check_log(log, answered)


@pytest.mark.slow
def test_ten_killed_servers_lose_no_answer(simple, tmp_path):
    answered = []
    for number in range(10):
        server = served.Process(simple, f"--log={tmp_path}")
        try:
            answered += kill_under_load(server, 1000 + 500 * number, server.kill)
        finally:
            server.stop()
        check_log(tmp_path, answered)
    print(len(answered))


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_ten_killed_workers_lose_no_answer_and_come_back(simple, tmp_path):
    answered, seconds = [], []
    with served.process(simple, f"--log={tmp_path}") as server:
        for number in range(10):
            answered += kill_under_load(server, 1000 + 500 * number, server.kill_worker)
            killed = time.monotonic()
            server.wait()
            seconds.append(time.monotonic() - killed)
            assert server.ask("/v1/act", {"observation": X})[0] == 200
            # Granian gives up if a worker ends soon after it was started.
            time.sleep(max(0.0, 6 - (time.monotonic() - killed)))
    check_log(tmp_path, answered)
    print(len(answered), f"at most {max(seconds):.2f} s")
    assert max(seconds) < 5


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


@pytest.mark.skipif(not shutil.which("openssl"), reason="openssl makes a certificate")
def test_a_certificate_makes_it_https(simple, tmp_path):
    files = [tmp_path / "key.pem", tmp_path / "certificate.pem"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes"]
    command += ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    command += ["-keyout", str(files[0]), "-out", str(files[1])]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    flags = f"--tls_key={files[0]}", f"--tls_certificate={files[1]}"
    with served.process(simple, *flags) as server:
        assert server.url.startswith("https://127.0.0.1:")
        asked = {"verify": str(files[1]), "timeout": served.DEADLINE}
        assert requests.get(f"{server.url}/healthz", **asked).status_code == 200
        with clients.connect(server.port) as plain, plain.makefile("rb") as file:
            plain.sendall(clients.request({"observation": X}))
            assert not file.read().startswith(b"HTTP/1.1 2")
    files[0].write_text("no key")
    with pytest.raises(UserError, match=r"--tls_key=.* cannot be used"):
        script.main([f"--export={simple}", "--port=0", *flags])


def test_a_port_in_use_is_a_user_error(simple):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(UserError, match=f"cannot listen on 127.0.0.1:{port}"):
            script.main([f"--export={simple}", f"--port={port}"])


def test_a_worker_that_cannot_start_is_an_error_of_one_line(simple, tmp_path):
    (tmp_path / "file").write_text("")
    for flags, status, message in (
        ([tmp_path / "none"], 64, "none does not exist; expected the folder"),
        ([simple, f"--log={tmp_path / 'file'}"], 74, "rows cannot be written to"),
    ):
        server = served.Process(*flags, wait=False)
        code, text = server.stop(signal=None)
        assert code == status and message in text
        assert text.startswith("error: ") and text.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no export is given; pass --export"),
        (["--export=a", "--prt=80"], "unknown flag --prt; did you mean --port"),
        (["--export=a", "--port=70000"], "port is 70000; expected at least 0"),
        (["--export=a", "--tls_key=b"], "TLS needs both --tls_certificate and"),
        (["--export=a", "--token=b", "--admin_token=b"], "are the same"),
    ],
)
def test_wrong_flags_are_user_errors(arguments, message):
    with pytest.raises(UserError, match=message):
        script.main(arguments)
