"""Runs whose critics see more than the actor, and their students."""

import json
import os
import pathlib
import shutil
import sys
import types

import numpy as np
import pytest

import tfagents_batch as tfb
from tests.algorithms.cases import assert_equal, named, variables
from tests.envs.tf.split_cartpole import Hidden, More, Split
from tests.support.brief import QUICK
from tfagents_batch.errors import UserError
from tfagents_batch.serving.decision_function import DecisionFunction
from tfagents_batch.training import playing, training_run

FEW = {"histograms": False, "epochs": 1, "minibatch_size": None}  # to be quick
FORM = FEW | {"network": {"hidden": [8], "core": "gru"}}
SEES_LESS = FORM | {"actor_keys": ["position"]}
SHORT = QUICK | {"rollout.length": 16, "env": Split}


def train(name, folder, settings, **options):
    return tfb.train(name, logdir=folder, settings=settings, **SHORT | options)


@pytest.fixture(scope="module")
def teacher(tmp_path_factory):
    settings = FEW | {"network": {"hidden": [8]}}
    return train("ppo", tmp_path_factory.mktemp("teacher"), settings).logdir


@pytest.fixture(scope="module")
def student(tmp_path_factory, teacher):
    folder, relative = tmp_path_factory.mktemp("student"), os.path.relpath(teacher)
    return train("distill", folder, SEES_LESS | {"teacher": relative}).logdir


@pytest.fixture(scope="module")
def split(tmp_path_factory):
    options = {"eval_every": 300, "eval_episodes": 2, "eval_env": Hidden}
    return train("ppo", tmp_path_factory.mktemp("split"), SEES_LESS, **options)


@pytest.fixture(params=["split", "student"])
def run(request):
    run = request.getfixturevalue(request.param)
    return getattr(run, "logdir", run)


def test_an_evaluation_in_training_needs_the_actors_entries_alone(split):
    assert split.metrics["eval/length_mean"] > 0


def test_predict_asks_for_the_actors_entries_alone(run):
    agent = tfb.load(run)
    assert set(agent.observation_space.spaces) == {"position"}
    random = np.random.default_rng(0)
    state = other = None
    for _ in range(3):
        position, velocity = random.normal(size=(2, 4, 2)).astype(np.float32)
        action, state = agent.predict({"position": position}, state)
        whole = {"position": position, "velocity": velocity}
        again, other = agent.predict(whole, other)
        np.testing.assert_array_equal(action, again)
    with pytest.raises(UserError, match="does not have the structure"):
        agent.predict({"velocity": velocity})


def test_an_export_never_asks_for_a_privileged_entry(run, tmp_path):
    trained = playing.trained(run, plays=False)
    with playing.loaded(trained, trained.spec) as (agent, step):
        function = DecisionFunction(agent.policy, trained.spec, step, 1.0)
    roles = [x.role for x in function.inputs]
    assert roles == ["observation", "episode_start", "state", "noise"]
    assert function.inputs[0].path == ("position",)
    assert "value" not in {x.name for x in function.outputs}
    tfb.export(run, "saved_model", outdir=tmp_path / "model")
    facts = json.loads((tmp_path / "model/export.json").read_text())
    assert set(facts["observation_space"]["spaces"]) == {"position"}


def test_an_evaluation_is_the_same_without_the_other_entries(run):
    """Neither those of critics nor those that training did not have matter."""
    envs = Split, Hidden, More
    one, *others = (tfb.evaluate(run, 4, env=env).returns for env in envs)
    for other in others:
        np.testing.assert_array_equal(one, other)


def test_a_start_from_a_value_that_sees_the_same_is_refused(teacher, tmp_path):
    settings = FEW | {"network": {"hidden": [8]}, "critic_keys": ["position"]}
    with pytest.raises(UserError, match=r"sees what the actor .* critic_keys=position"):
        train("ppo", tmp_path, settings, init_from=teacher)


@pytest.fixture
def begun(monkeypatch, tmp_path):
    """Return a function that returns the variables of a run before its steps."""
    found = []

    def run(experiment, *_):
        found.append(named(experiment.algorithm))
        raise UserError("before the update is traced")

    def begin(*arguments, **options):
        with pytest.raises(UserError, match="before the update is traced"):
            train(arguments[0], tmp_path, *arguments[1:], **options)
        return found.pop()

    monkeypatch.setattr(training_run, "run", run)
    return begin


def test_another_run_goes_on_with_the_actor_where_only_its_entries_are(
    run, begun, tmp_path
):
    options = {"init_from": run, "env": Hidden}
    before = variables(types.SimpleNamespace(logdir=run))
    after = begun("ppo", SEES_LESS, **options)
    acting = [k for k in before if k.startswith(("policy/", "statistics/"))]
    assert "statistics/observations/0/mean" in acting
    for k in acting:
        np.testing.assert_array_equal(after[k], before[k], err_msg=k)
    with pytest.raises(UserError, match=r"has actor_keys=position"):
        train("ppo", tmp_path, FORM, **options)


def test_an_environment_without_an_entry_of_the_actor_is_refused(split):
    with pytest.raises(UserError, match="names the entry 'position', but"):
        tfb.evaluate(split.logdir, 2, env="CartPole-v1")


def test_a_resumed_run_equals_a_straight_one(tmp_path, teacher):
    its = shutil.copytree(teacher, tmp_path / "teacher")
    settings = SEES_LESS | {"teacher": str(its)}
    straight = train("distill", tmp_path / "straight", settings, steps=200)
    stopped = train("distill", tmp_path / "stopped", settings, steps=100)
    # What its teacher learns later has no influence.
    tfb.train(resume=its, env=Split, steps=400)
    resumed = tfb.train(resume=stopped.logdir, env=Split, steps=200)
    assert resumed.step == straight.step > stopped.step
    found, expected = variables(resumed), variables(straight)
    assert any(k.startswith("learner/value/") for k in found)
    assert_equal(found, expected)


def test_a_student_is_played_without_its_teacher_but_not_resumed(
    student, teacher, tmp_path
):
    folder = shutil.copytree(student, tmp_path / "student")
    # A relative path is kept as an absolute one, see the fixture.
    text = (folder / "config.json").read_text()
    assert json.dumps(teacher) in text
    (folder / "config.json").write_text(text.replace(teacher, str(tmp_path / "gone")))
    assert tfb.evaluate(folder, 2, env=Split).episodes == 2
    with pytest.raises(UserError, match=r"^teacher: .*gone does not exist"):
        tfb.train(resume=folder, env=Split, steps=1000)


def test_the_folder_of_a_teacher_starts_nothing(teacher, begun, tmp_path):
    its = shutil.copytree(teacher, tmp_path / "teacher")
    module = tmp_path / "hostile_teacher.py"
    module.write_text(
        "import pathlib\npathlib.Path(__file__).with_suffix('.ran').touch()"
    )
    data = json.loads((its / "config.json").read_text())
    data["config"] |= {
        "env": "./hostile_teacher.py:Env",
        "wrappers": [{"name": f"{module}:Wrapper"}],
        "env_kwargs": {"path": "hostile_teacher.py"},
    }
    (its / "config.json").write_text(json.dumps(data))
    sys.path.insert(0, str(tmp_path))
    try:
        taught = begun("distill", SEES_LESS | {"teacher": str(its)})
    finally:
        sys.path.remove(str(tmp_path))
    assert any(k.startswith("run/teacher/policy/network/") for k in taught)
    assert "hostile_teacher" not in sys.modules
    assert not module.with_suffix(".ran").exists()


@pytest.mark.parametrize(
    ("env", "change", "text"),
    [
        (
            Split,
            {"teacher": ""},
            "distill needs a teacher; pass --algorithm.teacher=<run",
        ),
        (
            Split,
            {"teacher": "none"},
            "teacher: .*none does not exist; pass the run folder",
        ),
        (Split, {"teacher_checkpoint": "7"}, "teacher: no checkpoint 7"),
        (Hidden, {}, "teacher: .* names the entry 'velocity', but .* entries position"),
        ("CartPole-v1", {"actor_keys": []}, "teacher: .* names the entry 'position'"),
        ("Acrobot-v1", {"actor_keys": []}, r"teacher: .*Discrete\(2\), but the envir"),
    ],
)
def test_a_teacher_that_does_not_fit_is_refused_early(
    env, change, text, teacher, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    settings = SEES_LESS | {"teacher": teacher} | change
    with pytest.raises(UserError, match=text) as e:
        train("distill", "logs", settings, env=env)
    assert "\n" not in str(e.value)
    assert not list(pathlib.Path().glob("logs/*"))
