import asyncio
import threading

import pytest

from tests.serving import exports, served
from tests.serving.test_predictor import truncate
from tfagents_batch.serving.server import models as served_models

X = {"observation": [0.1, 0.2, 0.3, -0.4]}


@pytest.fixture
def app(serve, tmp_path):
    """Return a server whose export may be changed to others in ``tmp_path``."""
    return serve(exports.discrete(tmp_path / "a"), admin_token="admin")


def version(app):
    return app.ask("/v1/model").body["model_version"]


def test_another_export_takes_over_and_the_previous_one_comes_back(app, tmp_path):
    first = version(app)
    other = exports.discrete(tmp_path / "b", seed=1, step=200)
    answer = app.change({"export": str(other)})
    assert answer.status == 200 and answer.body["previous"] == first
    assert answer.body["step"] == 200
    assert app.ask("/v1/act", X).body["model_version"] == version(app) != first
    assert app.change({}, "/v1/rollback").body["model_version"] == first
    assert app.ask("/v1/act", X).body["model_version"] == first
    assert app.change({}, "/v1/rollback").body["previous"] == first


def test_an_export_may_explore_less_than_the_one_before(app, tmp_path):
    greedy = exports.discrete(tmp_path / "b", exploration=0.0)
    assert app.change({"export": str(greedy)}).status == 200
    assert app.ask("/v1/act", X).body["propensity"] == 1.0


@pytest.mark.parametrize(
    ("changes", "spoil", "message"),
    [
        ({"actions": 3}, None, "another interface: actions: "),
        ({"size": 5}, None, "another interface: observations: "),
        ({"names": ["a", "b"]}, None, "names of actions: None became ('a', 'b')"),
        ({"masked": True}, None, "action mask: None became"),
        ({}, truncate, "is truncated or was changed"),
    ],
)
def test_another_interface_or_a_spoilt_export_is_refused(
    app, tmp_path, changes, spoil, message
):
    before = version(app)
    other = exports.discrete(tmp_path / "b", **changes)
    if spoil:
        spoil(other)
    answer = app.change({"export": str(other)})
    assert answer.status == 422 and message in answer.body["error"]
    assert app.ask("/v1/act", X).body["model_version"] == before
    assert "\ntfagents_batch_refusals_total 1\n" in app.ask("/metrics").body


@pytest.mark.parametrize(
    "body",
    [
        *({}, {"export": 1}, {"export": ""}, {"path": "a"}),
        *({"export": "~nosuchuser/x"}, {"export": "a\0"}, {"export": "\ud800"}),
    ],
)
def test_a_swap_needs_a_path(app, body):
    assert app.change(body).status == 422


def test_the_old_export_answers_while_another_one_loads(app, tmp_path, monkeypatch):
    other = exports.discrete(tmp_path / "b", seed=1)
    entered, go_on = threading.Event(), threading.Event()
    make = served_models.ServedModel

    def slow(*arguments):
        entered.set()
        assert go_on.wait(30)
        return make(*arguments)

    monkeypatch.setattr(served_models, "ServedModel", slow)
    before = version(app)

    async def run():
        loading = asyncio.ensure_future(app.models.load(str(other)))
        await asyncio.get_running_loop().run_in_executor(None, entered.wait, 30)
        answer = await app._ask("/v1/act", X, "POST", (), None)
        assert answer.body["model_version"] == before
        asked = {"export": str(other)}
        again = await app._ask("/v1/model", asked, "POST", served.ADMIN, None)
        assert again.status == 409
        back = await app._ask("/v1/rollback", {}, "POST", served.ADMIN, None)
        assert back.status == 409
        go_on.set()
        await asyncio.wait_for(loading, 30)
        return await app._ask("/v1/act", X, "POST", (), None)

    assert asyncio.run(run()).body["model_version"] != before


def test_a_slow_model_runs_in_a_thread(serve, simple, monkeypatch):
    app, names = serve(simple), []
    app.models.current.slow = True
    inner = app.models.current.predictor.run

    def run(*arguments, **options):
        names.append(threading.current_thread().name)
        return inner(*arguments, **options)

    monkeypatch.setattr(app.models.current.predictor, "run", run)
    answers = app.ask_all([("/v1/act", X)] * 200)
    assert {x.status for x in answers} == {200}
    assert {name.partition("_")[0] for name in names} == {"model"}
    assert len(names) < 200  # what waits is taken together
