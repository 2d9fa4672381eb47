import asyncio
import os
import shutil
import threading

import pytest

from tests.serving import exports, served
from tests.serving.test_predictor import truncate
from tfagents_batch.serving.server import models as served_models
from tfagents_batch.serving.server import run, watching
from tfagents_batch.serving.server.models import Models
from tfagents_batch.serving.server.settings import Settings

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
    make = served_models.Model

    def slow(*arguments):
        entered.set()
        assert go_on.wait(30)
        return make(*arguments)

    monkeypatch.setattr(served_models, "Model", slow)
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


def test_the_newest_of_several_exports_is_served(tmp_path):
    for number, name in enumerate(("b", "a")):
        folder = exports.discrete(tmp_path / "all" / name)
        os.utime(folder / "export.json", (number, number))
    found = watching.newest(str(tmp_path / "all"))
    assert found.folder == str(tmp_path / "all/a")
    (tmp_path / "all/.a").mkdir()
    (tmp_path / "all/.a/export.json").write_text("{}")
    assert watching.newest(str(tmp_path / "all")) == found
    shutil.rmtree(found.folder)  # the one before is the newest again
    assert watching.newest(str(tmp_path / "all")).folder == str(tmp_path / "all/b")
    assert watching.newest(str(tmp_path / "none")) is None


def test_an_export_that_was_not_copied_completely_is_tried_again(tmp_path):
    folder = exports.discrete(tmp_path / "a")
    model = (folder / "model.onnx").read_bytes()
    truncate(folder)
    before = watching.newest(str(folder))
    (folder / "model.onnx").write_bytes(model)
    after = watching.newest(str(folder))
    assert before != after and before.modified == after.modified


def test_a_watched_folder_is_loaded_after_it_changed(tmp_path, monkeypatch):
    folder, said = exports.discrete(tmp_path / "a"), []
    found = watching.newest(str(folder))
    models = Models(str(folder), 1, logs=False)
    settings = Settings(export=str(folder), watch=True)
    ticks = run.Ticks(settings, models, None, found, None, said.append)
    first = models.current
    try:
        asyncio.run(ticks._look_for_exports())
        assert models.current is first and not said
        exports.discrete(folder, actions=3)
        asyncio.run(ticks._look_for_exports())
        asyncio.run(
            ticks._look_for_exports()
        )  # one that was refused is not tried again
        assert models.current is first and len(said) == 1 and "refused: " in said[0]
        exports.discrete(folder, seed=3)
        with monkeypatch.context() as patch:
            patch.setattr(served_models, "Model", lambda *_: {}["anything"])
            asyncio.run(ticks._look_for_exports())
            asyncio.run(ticks._look_for_exports())
        assert models.refusals == 2 and len(said) == 2 and "KeyError" in said[1]
        exports.discrete(folder, seed=4)
        asyncio.run(ticks._look_for_exports())
        assert models.current is not first and said[2].startswith("serving run-100-")
    finally:
        asyncio.run(ticks.stop())
        models.close()
