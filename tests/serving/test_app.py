import contextlib
import errno
import json
import multiprocessing
import os
import shutil
from unittest import mock

import numpy as np
import pytest

from tests.serving import exports, served
from tfagents_batch.errors import SaveError, UserError
from tfagents_batch.offline.writer import RowLogger
from tfagents_batch.serving.server import endpoints, worker
from tfagents_batch.serving.server.arrivals import Refused

X = [0.1, 0.2, 0.3, -0.4]
NAN = float("nan")


def lines(folder):
    """Return the logged rows, also those of files that are not complete."""
    found = [*folder.glob("*.jsonl"), *folder.glob(".*.part")]
    return [json.loads(x) for path in found for x in path.read_text().splitlines()]


def test_an_action_is_answered_and_logged(serve, simple, tmp_path):
    app = serve(simple, log=str(tmp_path))
    status, _, body = app.ask("/v1/act", {"observation": X})
    assert status == 200 and body["action"] in (0, 1)
    assert body["propensity"] == pytest.approx((0.05, 0.95)[body["propensity"] > 0.5])
    (row,) = lines(tmp_path)
    assert row["request_id"] == row["mdp_id"] == body["request_id"]
    assert row["action"] == str(body["action"])
    assert row["action_probability"] == body["propensity"]
    assert row["model_version"] == body["model_version"] and row["terminated"]
    found = [row["state_features"][str(k)] for k in range(4)]
    np.testing.assert_array_equal(np.float32(found), np.float32(X))


def test_names_features_and_possible_actions_are_those_of_the_rows(
    serve, named, tmp_path
):
    app = serve(named, log=str(tmp_path))
    asked = {"observation": {"3": 1.5}, "mdp_id": 'u"7', "sequence_number": 4}
    status, _, body = app.ask("/v1/act", asked | {"possible_actions": ["right"]})
    assert (status, body["action"], body["action_name"]) == (200, 1, "right")
    assert body["propensity"] == 1.0
    (row,) = lines(tmp_path)
    assert (row["mdp_id"], row["sequence_number"]) == ('u"7', 4)
    assert row["state_features"] == {"3": 1.5}
    assert (row["action"], row["possible_actions"]) == ("right", ["right"])
    assert "missing_features_total 3" in app.ask("/metrics").body
    assert app.ask("/v1/predict", {"observations": [{"3": 1}, {}]}).status == 200
    assert "missing_features_total 10" in app.ask("/metrics").body


def test_a_number_that_became_a_float_is_whole_in_the_row(serve, simple, tmp_path):
    app = serve(simple, log=str(tmp_path))
    asked = {"observation": X, "mdp_id": "a", "sequence_number": 4.0}
    assert app.ask("/v1/act", asked).status == 200
    (row,) = lines(tmp_path)
    assert repr(row["sequence_number"]) == "4"


def test_several_observations_are_several_decisions(serve, named, tmp_path):
    app = serve(named, log=str(tmp_path))
    asked = {
        "observations": [{"0": 1}, {"3": 2}],
        "mdp_id": ["a", "b"],
        "possible_actions": [["left"], None],
    }
    status, _, body = app.ask("/v1/act", asked)
    assert status == 200 and len(body["decisions"]) == 2
    assert [row["mdp_id"] for row in lines(tmp_path)] == ["a", "b"]
    assert body["decisions"][0]["action_name"] == "left"


def test_requests_that_arrive_together_are_one_batch(serve, simple):
    app = serve(simple)
    app.app.endpoints._acting._count_requests = lambda: 100
    answers = app.ask_all([("/v1/act", {"observation": X})] * 100)
    assert {x.status for x in answers} == {200}
    assert len({x.body["request_id"] for x in answers}) == 100
    assert "\ntfagents_batch_batches_total 2\n" in app.ask("/metrics").body  # 64, 36


def test_predictions_are_greedy_and_not_logged(serve, simple, tmp_path):
    app = serve(simple, log=str(tmp_path))
    answers = app.ask_all([("/v1/predict", {"observation": X})] * 20)
    (first,) = {json.dumps(x.body) for x in answers}
    body = json.loads(first)
    assert body["action"] == int(np.argmax(body["values"]))
    assert max(body["probabilities"]) == pytest.approx(0.95)
    assert lines(tmp_path) == []
    several = app.ask("/v1/predict", {"observations": [X, X]}).body
    assert several["predictions"] == [body, body]


def test_continuous_actions_are_vectors_with_densities(serve, tmp_path):
    app = serve(exports.continuous(tmp_path / "a"), log=str(tmp_path / "log"))
    body = app.ask("/v1/act", {"observation": [0.5, -0.5]}).body
    (row,) = lines(tmp_path / "log")
    assert row["action"] == dict(
        zip(("1000000", "1000001"), body["action"], strict=True)
    )
    assert row["action_log_density"] == body["log_density"]
    assert "possible_actions" not in row


@pytest.mark.parametrize(
    ("make", "observation", "mode"),
    [
        (exports.discrete, X, "discrete"),
        (exports.continuous, [0.5, 1e-7], "continuous"),
    ],
)
def test_logged_lines_are_rows_of_the_schema(serve, tmp_path, make, observation, mode):
    app = serve(make(tmp_path / "a"), log=str(tmp_path / "log"))
    assert app.ask("/v1/act", {"observation": observation}).status == 200
    rows = lines(tmp_path / "log")
    with RowLogger(tmp_path / "again", mode) as logger:
        logger.log(*rows)
    assert lines(tmp_path / "again") == rows


@pytest.mark.parametrize("name", ["state.0", "state_0"])
def test_a_recurrent_state_is_sent_back_by_the_client(serve, tmp_path, name):
    app = serve(exports.recurrent(tmp_path / "a", name))
    first = app.ask("/v1/act", {"observation": [1.0]}).body
    assert first["state"] == [[1.0]]
    second = {"observation": [-0.25], "state": first["state"]}
    assert app.ask("/v1/act", second).body["state"] == [[0.75]]
    again = second | {"episode_start": True}
    assert app.ask("/v1/act", again).body["state"] == [[-0.25]]
    several = {"observations": [[1.0], [2.0]], "state": [[[1.0]], [[5.0]]]}
    found = app.ask("/v1/act", several).body["decisions"]
    assert [x["state"] for x in found] == [[[2.0]], [[7.0]]]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"observation": [1.0], "state": [[1.0, 2.0]]}, "state[0] has 2 numbers"),
        ({"observation": [1.0], "state": []}, "state is no list of 1 arrays"),
        ({"observation": [1.0], "state": [[1e39]]}, "state[0][0] is 1e+39"),
        ({"observation": [1.0], "episode_start": False}, "there is no state"),
        ({"observation": [1.0], "episode_start": "x"}, "episode_start is 'x'"),
        (
            {"observation": [1.0], "episode_start": 1},
            "episode_start is 1; expected true or false",
        ),
    ],
)
def test_a_wrong_state_is_named(serve, tmp_path, body, message):
    app = serve(exports.recurrent(tmp_path / "a"))
    answer = app.ask("/v1/act", body)
    assert answer.status == 422 and message in answer.body["error"]


def nested(depth, key='"observation": '):
    """Return a body with lists or objects inside of each other."""
    return f"{{{key}{'[' * depth}{']' * depth}}}".encode()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{", "the body is no JSON"),
        (b"\xff", "the body is no JSON"),
        (b"[" * 100_000, "depth limit exceeded"),
        *((nested(depth), "observation") for depth in (40, 400)),
        (nested(975), "observation is no array"),
        (nested(3000), "depth limit exceeded"),
        (nested(1020, f'"observation": {X}, "mdp_id": '), "nested too deeply"),
        (b"[1]", "expected a JSON object"),
        (b"", "the body is no JSON"),
        ({}, "the body has no observation"),
        ({"observation": X, "observations": [X]}, "both observation and observations"),
        ({"observation": X, "seed": 1}, "the body has the unknown key 'seed'"),
        ({"observation": X[:3]}, "observation has 3 numbers; expected 4"),
        ({"observation": [*X[:3], NAN]}, "JSON has no NaN"),
        ({"observation": [*X[:3], 1e39]}, "observation[3] is 1e+39"),
        ({"observations": []}, "at least one observation"),
        ({"observations": [X, X[:2]]}, "observations[1]: observation has 2 numbers"),
        ({"observations": [X], "mdp_id": "a"}, "mdp_id is no list of 1"),
        ({"observation": X, "mdp_id": 7}, "mdp_id is 7; expected text"),
        ({"observation": X, "mdp_id": "\ud800"}, "the body is no JSON: "),
        ({"observation": X, "mdp_id": "a", "sequence_number": 1.5}, "expected a whole"),
        ({"observation": X, "sequence_number": 1}, "sequence_number needs an mdp_id"),
        *(
            ({"observation": X, "mdp_id": "a", "sequence_number": x}, "up to 2^62")
            for x in (2**63 - 1, -(2**63), 2.0**53)
        ),
        ({"observation": X, "state": [[0]]}, "this policy has none"),
    ],
)
def test_wrong_bodies_are_422_and_named(serve, simple, body, message):
    app = serve(simple)
    for path in ("/v1/act", "/v1/predict"):
        answer = app.ask(path, body)
        assert answer.status == 422 and message in answer.body["error"]


def test_a_long_body_is_413(serve, simple):
    app = serve(simple, max_body=1000)
    long = [("content-length", "1001")]
    answer = app.ask("/v1/act", {"observation": X}, headers=long)
    assert answer.status == 413 and "1,001 bytes" in answer.body["error"]
    parts = [b"x" * 400] * 3  # without the header
    assert app.ask("/v1/act", b"", parts=parts).status == 413
    assert app.ask("/v1/act", b"x" * 1001).status == 413
    parts = [b'{"observation":', b"[1,2,3,4]}"]
    assert app.ask("/v1/act", b"", parts=parts).status == 200


def test_long_bodies_that_arrive_together_are_429(serve, simple):
    app = serve(simple, max_body=1 << 17)
    long = json.dumps({"observation": X}).encode().ljust(1 << 17)
    answers = app.ask_all([("/v1/act", long)] * 2 + [("/v1/act", {"observation": X})])
    assert [x.status for x in answers] == [200, 429, 200]
    assert app.ask("/v1/act", long).status == 200


def test_bodies_of_unknown_length_take_room_as_they_grow(serve, simple):
    app = serve(simple, max_body=1 << 17)
    one = json.dumps({"observation": X}).encode()
    asked = [("/v1/act", b"")]
    assert {x.status for x in app.ask_all(asked * 50, parts=[one])} == {200}
    parts = [b" " * 50_000] * 2 + [one]
    statuses = [x.status for x in app.ask_all(asked * 3, parts=parts)]
    assert statuses == [200, 429, 429]
    assert app.ask_all(asked, parts=parts)[0].status == 200
    assert app.ask_all(asked, parts=parts * 2)[0].status == 413


def test_more_than_a_batch_is_413(serve, simple):
    app = serve(simple, max_batch=8)
    answer = app.ask("/v1/act", {"observations": [X] * 9})
    assert answer.status == 413 and "at most 8" in answer.body["error"]


def test_what_would_wait_too_long_is_429_at_once(serve, simple):
    app = serve(simple, max_batch=8, max_wait_ms=1)
    answers = app.ask_all([("/v1/act", {"observation": X})] * 1000)
    statuses = [x.status for x in answers]
    assert {*statuses} == {200, 429} and statuses[:8] == [200] * 8
    refused = next(x for x in answers if x.status == 429)
    assert refused.headers["retry-after"] == "1"
    assert "--max_wait_ms" in refused.body["error"]
    assert app.ask("/healthz").status == 200
    assert app.ask("/v1/act", {"observation": X}).status == 200


def test_a_full_disk_is_503_and_the_server_goes_on(
    serve, simple, tmp_path, monkeypatch
):
    app = serve(simple, log=str(tmp_path))
    assert app.ask("/v1/act", {"observation": X}).status == 200

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        answer = app.ask("/v1/act", {"observation": X})
        assert answer.status == 503 and "No space left" in answer.body["error"]
        assert answer.headers["retry-after"] == "10"
        feedback = {"request_id": "a", "reward": 1}
        assert app.ask("/v1/feedback", feedback).status == 503
        assert app.ask("/v1/predict", {"observation": X}).status == 200
        text = app.ask("/metrics").body
        assert "\ntfagents_batch_unlogged_total 1\n" in text
        assert "\ntfagents_batch_log_failures_total 2\n" in text
    assert app.ask("/v1/act", {"observation": X}).status == 200
    assert len(lines(tmp_path)) == 2


def test_feedback_is_logged_beside_the_decisions(serve, simple, tmp_path):
    app = serve(simple, log=str(tmp_path))
    body = {
        "request_id": "a-1",
        "reward": 2,
        "truncated": True,
        "metrics": {"click": 1},
        "final_observation": [1, 2, 3, 4],
    }
    assert app.ask("/v1/feedback", body).status == 200
    (line,) = lines(tmp_path / "_feedback")
    assert line.pop("time") > 1.7e15
    assert line == {
        "request_id": "a-1",
        "reward": 2.0,
        "truncated": True,
        "metrics": {"click": 1.0},
        "final_state_features": {"0": 1.0, "1": 2.0, "2": 3.0, "3": 4.0},
        "final_possible_actions": ["0", "1"],
    }


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"reward": 1}, "the body lacks request_id"),
        ({"request_id": "a"}, "the body lacks reward"),
        ({"request_id": "a", "reward": NAN}, "JSON has no NaN"),
        ({"request_id": "a", "reward": "1"}, "reward is '1'"),
        ({"request_id": "a", "reward": 10**400}, "number is infinity"),
        ({"request_id": "\udfff", "reward": 1}, "the body is no JSON: invalid"),
        (
            {"request_id": "a", "reward": 1, "metrics": {"\ud800": 1}},
            "the body is no JSON: no low",
        ),
        (
            {"request_id": "a", "reward": 1, "metrics": {"x": -(10**400)}},
            "number is infinity",
        ),
        ({"request_id": "a", "reward": 1, "done": True}, "unknown key 'done'"),
        ({"request_id": "a", "reward": 1, "metrics": {"x": None}}, "metrics.x is null"),
        ({"request_id": "a", "reward": 1, "terminated": 1}, "terminated is 1"),
        (
            {"request_id": "a", "reward": 1, "terminated": True, "truncated": True},
            "both terminated and truncated",
        ),
        ({"request_id": "a", "reward": 1, "final_observation": [1]}, "has 1 numbers"),
    ],
)
def test_wrong_feedback_is_422_and_named(serve, simple, tmp_path, body, message):
    app = serve(simple, log=str(tmp_path))
    answer = app.ask("/v1/feedback", body)
    assert answer.status == 422 and message in answer.body["error"]
    assert lines(tmp_path / "_feedback") == []


def test_feedback_on_a_decision_of_nobody_is_not_known_yet(serve, simple, tmp_path):
    app = serve(simple, log=str(tmp_path))
    known = app.ask("/v1/act", {"observation": X}).body["request_id"]
    later = f"{known[:-1]}1"  # the next decision of this server
    for name, expected in {known: True, later: False, "a-1": False}.items():
        answer = app.ask("/v1/feedback", {"request_id": name, "reward": 1})
        assert answer.status == 200 and answer.body["logged"] is True
        assert answer.body["known"] is expected


def test_feedback_without_a_log_is_409(serve, simple):
    answer = serve(simple).ask("/v1/feedback", {"request_id": "a", "reward": 1})
    assert answer.status == 409 and "--log" in answer.body["error"]


def test_pixels_are_served_but_not_logged(serve, tmp_path):
    export = exports.pixels(tmp_path / "a")
    app = serve(export)
    pixels = np.zeros((4, 4, 3), int)
    pixels[1, 1, 2] = 255
    assert app.ask("/v1/act", {"observation": pixels.tolist()}).body["action"] == 2
    with pytest.raises(UserError, match=r"\[4, 4, 3\], and rows have features"):
        serve(export, log=str(tmp_path / "log"))


def test_a_token_is_needed_for_all_but_health(serve, simple):
    app = serve(simple, token="secret")
    for path in ("/v1/model", "/metrics", "/docs", "/openapi.json"):
        answer = app.ask(path)
        assert answer.status == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        for wrong in ("Bearer secre", "secret", "Bearer secret2", "Basic secret"):
            assert app.ask(path, headers=[("authorization", wrong)]).status == 401
        for right in ("Bearer secret", "bearer secret", "BEARER secret"):
            assert app.ask(path, headers=[("authorization", right)]).status == 200
    assert app.ask("/healthz").status == 200


@pytest.mark.parametrize("path", ["/v1/model", "/v1/rollback"])
def test_changing_the_export_is_a_right_of_its_own(serve, simple, path):
    asked = {"export": str(simple)}
    for settings in ({}, {"token": "secret"}):
        app = serve(simple, **settings)
        for token in ("secret", "admin", ""):
            headers = [("authorization", f"Bearer {token}")]
            answer = app.ask(path, asked, headers=headers)
            assert answer.status == 403 and "--admin_token" in answer.body["error"]
    app = serve(simple, token="secret", admin_token="admin")
    assert app.ask(path, asked).status == 401
    wrong = [("authorization", "Bearer secret")]
    assert app.ask(path, asked, headers=wrong).status == 401
    assert app.change(asked, "/v1/model").status == 200
    assert app.change(asked, path).status == 200
    assert app.ask("/v1/act", {"observation": X}, headers=served.ADMIN).status == 401


def test_errors_do_not_tell_which_paths_exist(serve, tmp_path):
    simple = exports.discrete(tmp_path / "exports/a")
    app = serve(simple, admin_token="admin")
    (tmp_path / "there").mkdir()
    paths = [tmp_path / "there", tmp_path / "not", "/etc", "/none", "~root", "~none"]
    paths += [f"{simple}/../../there", simple.parent, "/", "."]
    (simple.parent / "link").symlink_to(tmp_path / "there")
    (simple.parent / "broken").symlink_to(tmp_path / "not")
    paths += [
        simple.parent / "link",
        simple.parent / "link/x",
        simple.parent / "broken",
    ]
    paths.append("a\0b")
    for path in map(str, paths):
        answer = app.change({"export": path})
        said = answer.body["error"].replace(f"{path!r:.80}", "")
        assert (answer.status, said) == (
            422,
            "export is ; expected a folder below the one that has the export of the "
            "server's start, which must not be /",
        )


def test_an_export_may_be_named_by_a_link(serve, tmp_path):
    """Links often say which export is current."""
    first = exports.discrete(tmp_path / "store/1")
    exports.discrete(tmp_path / "store/2", seed=1)
    links = tmp_path / "links"
    links.mkdir()
    for name in ("1", "2"):
        (links / name).symlink_to(tmp_path / "store" / name)
    for start in (first, links / "1"):
        app = serve(start, admin_token="admin")
        for path in (links / "2", tmp_path / "store/2"):
            assert app.change({"export": str(path)}).status == 200


@pytest.mark.parametrize("path", ["/model", "/model/x", "/etc", "/", "model", "a\0b"])
def test_beside_an_export_in_the_root_no_other_one_is_taken(path):
    parent = endpoints.parent_of("/model")
    with pytest.raises(Refused, match="expected a folder below") as error:
        endpoints.below(parent, path)
    assert error.value.status == 422


@pytest.mark.parametrize(
    ("host", "status"),
    [
        *((x, 200) for x in ("localhost", "LOCALHOST:80", "127.0.0.1:8080")),
        *((x, 200) for x in ("127.1.2.3", "[::1]", "[::1]:8080")),
        *((x, 403) for x in ("rebound.example:8080", "10.0.0.1", "", "localhost.evil")),
        *(
            (x, 403)
            for x in ("127.0.0.1.nip.io", "[::2]:80", "local\xe9", ":80", "::2")
        ),
    ],
)
def test_without_a_token_the_host_is_of_this_machine(serve, simple, host, status):
    headers = [("host", host)]
    assert serve(simple).ask("/v1/model", headers=headers).status == status
    with_token = [*headers, ("authorization", "Bearer secret")]
    assert serve(simple, token="secret").ask("/v1/model", headers=with_token)[0] == 200


def test_null_features_are_missing(serve, named, tmp_path):
    app = serve(named, log=str(tmp_path))
    asked = {"observation": {"0": None, "3": 1.5, "9": None}}
    assert app.ask("/v1/act", asked).status == 200
    feedback = {"request_id": "a", "reward": 1, "final_observation": {"3": None}}
    assert app.ask("/v1/feedback", feedback).status == 200
    (row,) = lines(tmp_path)
    assert row["state_features"] == {"3": 1.5}
    assert lines(tmp_path / "_feedback")[0]["final_state_features"] == {}
    assert "missing_features_total 3" in app.ask("/metrics").body


@pytest.mark.parametrize("kind", ["removed", "moved", "replaced"])
def test_answers_survive_their_folder(serve, simple, tmp_path, capfd, kind):
    app = serve(simple, log=str(tmp_path / "log"))
    folders, ids = [tmp_path / "log", tmp_path / "moved"], set()

    def act():
        answer = app.ask("/v1/act", {"observation": X})
        ids.add(answer.body["request_id"])
        feedback = {"request_id": answer.body["request_id"], "reward": 1}
        assert app.ask("/v1/feedback", feedback).status == 200

    act()
    if kind == "removed":
        shutil.rmtree(folders[0])
    else:
        folders[0].rename(folders[1])
    if kind == "replaced":
        folders[0].mkdir()
    act()
    assert app.log.rotate_if_due() == [] == app.log.rotate_if_due()
    said = capfd.readouterr().err
    assert said.count("warning: ") == 2
    assert said.count("was removed" if kind == "removed" else "was moved") == 2
    act()
    app.log.close()
    found = [row["request_id"] for folder in folders for row in lines(folder)]
    assert len(found) == 3 and {*found} == ids
    found = [x["request_id"] for y in folders for x in lines(y / "_feedback")]
    assert len(found) == 3 and {*found} == ids


def test_a_log_that_is_removed_while_no_file_is_open_goes_on(serve, simple, tmp_path):
    log = tmp_path / "log"
    app = serve(simple, log=str(log), rotate_rows=1)
    assert app.ask("/v1/act", {"observation": X}).status == 200
    assert app.log.rotate_if_due() == []  # no file is open now
    shutil.rmtree(log)
    answer = app.ask("/v1/act", {"observation": X})
    assert answer.status == 200
    feedback = {"request_id": answer.body["request_id"], "reward": 1}
    assert app.ask("/v1/feedback", feedback).status == 200
    app.log.close()
    ids = [row["request_id"] for row in lines(log) + lines(log / "_feedback")]
    assert ids == [answer.body["request_id"]] * 2


def test_a_full_disk_is_said_once_for_many_requests(
    serve, simple, tmp_path, monkeypatch
):
    app = serve(simple, log=str(tmp_path / "log"))

    def full(lines):
        raise SaveError("rows cannot be written: No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(app.log.decisions._files, "write", full)
        for _ in range(3):
            assert app.ask("/v1/act", {"observation": X}).status == 503
    text = "rows cannot be written: No space left on device"
    for _ in range(2):  # the same text, which the server says once
        assert app.log.rotate_if_due() == [text]
    assert app.ask("/v1/act", {"observation": X}).status == 200
    assert app.log.rotate_if_due() == []


def test_a_folder_that_cannot_come_back_is_503_until_it_can(
    serve, simple, tmp_path, capfd
):
    app = serve(simple, log=str(tmp_path / "log"))
    assert app.ask("/v1/act", {"observation": X}).status == 200
    shutil.rmtree(tmp_path / "log")
    (tmp_path / "log").write_text("no folder")
    assert len(app.log.rotate_if_due()) == 1
    answer = app.ask("/v1/act", {"observation": X})
    assert answer.status == 503 and "no decision was made" in answer.body["error"]
    (tmp_path / "log").unlink()
    assert app.ask("/v1/act", {"observation": X}).status == 200
    assert "its 1 rows were written again" in capfd.readouterr().err
    app.log.close()
    assert len(lines(tmp_path / "log")) == 2


def test_a_forced_end_hands_on_what_the_disk_refused(serve, simple, tmp_path):
    """Granian waits for slow clients only so long."""
    app = serve(simple, log=str(tmp_path / "log"))
    app.ask("/v1/act", {"observation": X})
    shutil.rmtree(tmp_path / "log")
    (tmp_path / "log").write_text("no folder")
    sent, sender = multiprocessing.Pipe(duplex=False)
    ended = worker.ServerWorker(app.app, None, sender, contextlib.ExitStack())
    with mock.patch.object(os, "_exit") as leave:
        ended._end_now()
    assert sent.poll() and str(sent.recv()).count("rows cannot be written to") == 1
    leave.assert_called_once()
    (tmp_path / "log").unlink()


def test_a_server_that_ends_completes_a_file_that_was_removed_and_says_so(
    serve, simple, tmp_path, capfd
):
    app = serve(simple, log=str(tmp_path / "log"))
    assert app.ask("/v1/act", {"observation": X}).status == 200
    shutil.rmtree(tmp_path / "log")
    app.log.close()
    assert "its 1 rows were written again" in capfd.readouterr().err
    assert len([*(tmp_path / "log").glob("*.jsonl")]) == 1
    assert len(lines(tmp_path / "log")) == 1


def test_web_pages_may_not_send_requests_without_a_token(serve, simple):
    origin = [("origin", "https://example.org")]
    answer = serve(simple).ask("/v1/act", {"observation": X}, headers=origin)
    assert answer.status == 403


def test_unknown_paths_and_methods_are_named(serve, simple):
    app = serve(simple)
    assert app.ask("/v1/acts", {}).status == 404
    answer = app.ask("/v1/act")
    assert answer.status == 405 and "GET /v1/act" in answer.body["error"]


def test_the_document_and_the_page_describe_every_endpoint(serve, named):
    app = serve(named)
    document = app.ask("/openapi.json").body
    endpoints = {path for _, path in app.app._routes} | {"/metrics"}
    assert {*document["paths"]} == endpoints
    body = document["paths"]["/v1/act"]["post"]["requestBody"]
    asked = body["content"]["application/json"]["schema"]["properties"]
    assert {*asked["observation"]["properties"]} == {"0", "3", "7", "9"}
    assert asked["possible_actions"]["items"]["enum"] == ["left", "right", 0, 1]
    page = app.ask("/docs")
    assert page.headers["content-type"].startswith("text/html")
    assert "<script" not in page.body and "http://" not in page.body
    assert all(path in page.body for path in endpoints)


def test_measures_are_in_the_text_format_of_prometheus(serve, simple):
    app = serve(simple)
    app.ask("/v1/act", {"observation": X})
    app.ask("/v1/act", b"{")
    answer = app.ask("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    names = [x.split()[2] for x in answer.body.splitlines() if x.startswith("# TYPE")]
    assert len(names) == len({*names})
    for line in answer.body.splitlines():
        if not line.startswith("#"):
            float(line.rpartition(" ")[2])
            assert line.startswith(tuple(names))
    assert 'requests_total{path="/v1/act",status="200"} 1' in answer.body
    assert 'requests_total{path="/v1/act",status="422"} 1' in answer.body
    assert 'request_seconds_bucket{le="+Inf"} 2' in answer.body


def test_a_version_in_measures_is_utf_8_with_the_escapes_of_prometheus(serve, tmp_path):
    app = serve(exports.discrete(tmp_path / "a", name='é"\\'))
    assert r'tfagents_batch_model{version="é\"\\-100-' in app.ask("/metrics").body


def test_an_error_of_the_model_is_500_and_the_server_goes_on(
    serve, simple, monkeypatch
):
    app = serve(simple)
    with monkeypatch.context() as patch:
        patch.setattr(app.models.current.predictor, "run", lambda *_, **__: 1 / 0)
        answer = app.ask("/v1/act", {"observation": X})
        assert (answer.status, answer.body["error"]) == (
            500,
            "ZeroDivisionError in the server",
        )
    assert app.ask("/v1/act", {"observation": X}).status == 200


@pytest.mark.parametrize("path", ["/v1/act", "/v1/predict"])
def test_values_that_are_not_finite_cost_only_their_own_request(serve, tmp_path, path):
    app = serve(exports.recurrent(tmp_path / "a"), log=str(tmp_path / "log"))
    app.app.endpoints._acting._count_requests = lambda: 100  # all in one batch
    large = {"observation": [3e38], "state": [[3e38]], "mdp_id": "large"}
    several = {"observations": [[0.5], [3e38]], "state": [[[1]], [[3e38]]]}
    good = {"observation": [0.5], "state": [[0.25]], "mdp_id": "good"}
    asked = [(path, body) for body in (good, large, several, good)]
    answers = app.ask_all(asked)
    assert [x.status for x in answers] == [200, 422, 422, 200]
    assert answers[0].body["state"] == answers[3].body["state"] == [[0.75]]
    assert "the observation leads to" in answers[1].body["error"]
    assert "observations[1] leads to values of state" in answers[2].body["error"]
    rows = lines(tmp_path / "log")
    assert [x["mdp_id"] for x in rows] == ["good"] * (2 if path == "/v1/act" else 0)
    assert all(x["state_features"] == {"0": 0.5} for x in rows)
    assert app.ask(*asked[1]).status == 422  # alone


def test_decisions_of_an_episode_get_increasing_numbers(serve, simple, tmp_path):
    app = serve(simple, log=str(tmp_path))
    app.app.endpoints._acting._count_requests = lambda: 100
    several = {"observations": [X] * 20, "mdp_id": ["a"] * 20}
    one = {"observation": X, "mdp_id": "a"}
    app.ask_all([("/v1/act", several), ("/v1/act", one), ("/v1/act", one)])
    app.ask("/v1/act", one)
    numbers = [row["sequence_number"] for row in lines(tmp_path)]
    assert len(numbers) == 23 and numbers == sorted({*numbers})


def test_numbers_without_ids_of_their_own_are_no_rows(serve, tmp_path):
    export = exports.discrete(tmp_path / "a", features=[0, 3])
    app = serve(export)
    assert app.ask("/v1/act", {"observation": X}).status == 200
    with pytest.raises(UserError, match="have 4 numbers and 2 ids of features"):
        serve(export, log=str(tmp_path / "log"))
