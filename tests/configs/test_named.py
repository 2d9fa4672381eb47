"""Tests of configs by name: presets, run folders and files of settings."""

import json

import pytest

import tfagents_batch as tfb
from tfagents_batch.configs import named
from tfagents_batch.configs.named import resolve
from tfagents_batch.errors import UserError
from tfagents_batch.training.run_folder import runs

ARGUMENTS = {
    "algorithm": "linear",
    "env": "CartPole-v1",
    "steps": 64,
    "num_envs": 2,
    "num_workers": 0,
    "rollout": {"length": 16},
    "settings": {"learning_rate": 1e-3},
    "eval_every": 0,
    "compile": "off",
}
YAML = """
algorithm: linear
env: CartPole-v1
steps: 64
num_envs: 2
num_workers: 0
rollout.length: 16
settings: {learning_rate: 1e-3}
eval_every: 0
compile: "off"
"""


def test_a_file_a_run_and_its_config_give_the_settings_of_the_arguments(
    linear, tmp_path
):
    (tmp_path / "mine.json").write_text(json.dumps(ARGUMENTS))
    (tmp_path / "mine.yaml").write_text(YAML)
    run = tfb.train(config=str(tmp_path / "mine.json"), logdir=tmp_path / "logs")
    assert runs.list_runs(tmp_path / "logs")[0].name.endswith("-mine-s0")
    options = {k: v for k, v in ARGUMENTS.items() if k not in ("algorithm", "settings")}
    expected = resolve("linear", None, None, ARGUMENTS["settings"], options)
    for name in ("mine.json", "mine.yaml", run.logdir, f"{run.logdir}/config.json"):
        assert named.find(str(tmp_path / name)).config == expected, name


def test_arguments_replace_settings_of_a_file(linear, tmp_path):
    (tmp_path / "mine.json").write_text(json.dumps(ARGUMENTS))
    options = {"steps": 32, "logdir": tmp_path / "logs", "seed": 5}
    run = tfb.train(config=str(tmp_path / "mine.json"), **options)
    assert run.step == 32 and run.logdir.endswith("-mine-s5")


@pytest.mark.parametrize(
    ("name", "text", "error"),
    [
        ("cartpol", None, "unknown config 'cartpol'; did you mean 'cartpole'"),
        ("no.json", None, "no.json cannot be read: No such file"),
        ("a.json", "{", "a.json cannot be read"),
        ("a.yaml", "a: [", "a.yaml cannot be read"),
        ("a.json", '{"a":' + "[" * 100_000, "a.json cannot be read"),
        ("a.json", "[1]", "holds list; expected arguments of train"),
        ("a.json", '{"stepz": 1}', "a.json: unknown setting 'stepz'.*'steps'"),
        (
            "a.json",
            '{"algorithm": "pp"}',
            "'pp'; did you mean 'ppo'|known: a2c",
        ),
        ("a.json", '{"config": "a.json"}', "A file can name a preset only"),
        (
            "a.json",
            '{"config": 3}',
            "config 3; .* name a preset only",
        ),
        ("a.json", '{"logdir": "x"}', "it is an argument of train"),
        (
            "a.json",
            '{"env_options": {"worker_variables": {"PYTHONPATH": "x"}}}',
            "a file cannot set them",
        ),
        (
            "a.json",
            '{"config": "cartpole", "algorithm": "dqn"}',
            "config 'cartpole' is for ppo, not for dqn; leave",
        ),
        (
            "a.json",
            '{"env": "mine:Env"}',
            "your own code and is only imported when you",
        ),
        ("a.json", '{"wrappers": ["mine:Wrapper"]}', "mine:Wrapper.* again"),
        (
            "a.json",
            '{"env": "envpool:Pong-v5", "env_kwargs": {"x": "y"}}',
            "env_kwargs .* pass all arguments again",
        ),
        (
            "a.yaml",
            "{env: CartPole-v1, pool: ray, pool_options: {address: auto}}",
            '"address": "auto".* pass it again',
        ),
        ("a.yaml", "env: !!python/object:os.system x", "a.yaml cannot be read"),
    ],
)
def test_a_config_that_cannot_be_used_is_refused(
    name, text, error, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(UserError, match=error):
        tfb.train(config=name, logdir="logs")
    assert not (tmp_path / "logs").exists()
