import json
import pathlib

import gymnasium
import keras
import numpy as np
import pytest

import tfagents_batch as tfb
from tfagents_batch.algorithms import ppo
from tfagents_batch.envs.testing import CountingEnv
from tfagents_batch.errors import UserError
from tfagents_batch.training import checkpoint
from tfagents_batch.training.logger import read_events, read_metrics

SMALL = {
    "steps": 300,
    "num_envs": 2,
    "rollout_length": 50,
    "num_workers": 0,
    "eval_every": 0,
    "log_every": 1,
    "compile": "off",
    "settings": {"epochs": 1, "minibatch_size": 50},
}


def test_train_makes_a_run_and_evaluate_plays_it(tmp_path):
    run = tfb.train("ppo", env="CartPole-v1", logdir=tmp_path, **SMALL)
    folder = pathlib.Path(run.logdir)
    assert folder.parent == tmp_path
    assert run.finished
    assert run.step >= 300
    assert run.metrics["episode/return_mean"] > 5
    assert checkpoint.list_steps(folder) == [run.step]
    assert [line["step"] for line in read_metrics(folder)][-1] == run.step
    assert list(folder.glob("events.out.tfevents*"))
    result = tfb.evaluate(run.logdir, episodes=4)
    assert result.episodes == 4
    assert result.mean_return > 5


def test_equal_seeds_give_equal_lines_for_any_number_of_workers(tmp_path):
    def lines(**options):
        run = tfb.train(
            "ppo", env="CartPole-v1", logdir=tmp_path, **{**SMALL, **options}
        )
        drop = ("time/",)
        return [
            {k: v for k, v in line.items() if not k.startswith(drop)}
            for line in read_metrics(run.logdir)
        ]

    options = {"num_envs": 4, "eval_every": 200, "eval_episodes": 4}
    expected = lines(num_workers=1, **options)
    assert len(expected) >= 3
    for workers in (2, 4, 0):
        assert lines(num_workers=workers, **options) == expected
    assert lines(num_workers=2, seed=1, **options) != expected


def test_a_run_is_resumed_from_its_newest_checkpoint(tmp_path):
    run = tfb.train("ppo", env="CartPole-v1", logdir=tmp_path, **SMALL)
    more = tfb.train(resume=run.logdir, steps=600)
    assert more.logdir == run.logdir
    assert more.step >= 600
    steps = [line["step"] for line in read_metrics(run.logdir)]
    assert steps == sorted(steps)
    assert steps[-1] == more.step
    kinds = [event["event"] for event in read_events(run.logdir)]
    assert kinds.count("finished") == 2
    assert "resumed" in kinds


def test_a_finished_run_that_is_resumed_ends_at_once(tmp_path):
    run = tfb.train("ppo", env="CartPole-v1", logdir=tmp_path, **SMALL)
    again = tfb.train(resume=run.logdir)
    assert again.step == run.step
    assert again.finished


def test_each_run_has_a_folder_of_its_own(tmp_path):
    runs = [
        tfb.train("ppo", env="CartPole-v1", logdir=tmp_path, **SMALL) for _ in range(2)
    ]
    assert runs[0].logdir != runs[1].logdir


def test_the_config_is_plain_text_and_comes_back(tmp_path):
    options = SMALL | {"settings": {"learning_rate": "linear(1e-3, 0)", "epochs": 1}}
    run = tfb.train("ppo", env="CartPole-v1", logdir=tmp_path, **options)
    data = json.loads((pathlib.Path(run.logdir) / "config.json").read_text())
    assert data["config"]["env"] == "CartPole-v1"
    assert data["config"]["settings"]["learning_rate"] == "linear(0.001, 0)"
    assert data["user_code"] == {"env": None, "network": None}


class TestUserCode:
    @staticmethod
    def build(observation_space, action_space):
        return keras.Sequential([keras.layers.Dense(8, "tanh")])

    def train(self, tmp_path, **options):
        return tfb.train("ppo", logdir=tmp_path, **(SMALL | options))

    def test_a_function_that_makes_an_environment_has_to_be_passed_again(
        self, tmp_path
    ):
        run = self.train(tmp_path, env=lambda: CountingEnv(length=7))
        with pytest.raises(UserError, match=r"your own code.*pass env"):
            tfb.evaluate(run.logdir)
        with pytest.raises(UserError, match=r"your own code.*pass env"):
            tfb.train(resume=run.logdir, steps=600)
        result = tfb.evaluate(run.logdir, 2, env=lambda: CountingEnv(length=7))
        assert result.mean_return == 28
        more = tfb.train(
            resume=run.logdir, steps=600, env=lambda: CountingEnv(length=7)
        )
        assert more.step >= 600

    def test_a_network_has_to_be_passed_again(self, tmp_path):
        run = self.train(tmp_path, env="CartPole-v1", network=self.build)
        with pytest.raises(UserError, match=r"trained with the network.*again"):
            tfb.evaluate(run.logdir)
        assert tfb.evaluate(run.logdir, 2, network=self.build).episodes == 2

    def test_another_network_than_the_one_trained_is_refused(self, tmp_path):
        run = self.train(tmp_path, env="CartPole-v1", network=self.build)

        def other(observation_space, action_space):
            return keras.Sequential([keras.layers.Dense(9, "tanh")])

        with pytest.raises(UserError, match="network/"):
            tfb.evaluate(run.logdir, 2, network=other)

    def test_an_env_object_trains_and_needs_its_own_for_evaluation(self, tmp_path):
        with (
            tfb.make_env("CartPole-v1", num_envs=2, num_workers=0) as env,
            pytest.raises(UserError, match="eval_env"),
        ):
            self.train(tmp_path, env=env, eval_every=100)
        with (
            tfb.make_env("CartPole-v1", num_envs=2, num_workers=0) as env,
            tfb.make_env("CartPole-v1", num_envs=2, num_workers=0) as eval_env,
        ):
            run = self.train(
                tmp_path, env=env, eval_env=eval_env, eval_every=100, eval_episodes=2
            )
        assert run.metrics["eval/return_mean"] > 5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"algorithm": "pppo"}, "unknown algorithm 'pppo'; did you mean 'ppo'"),
        ({"config": "cartpol"}, "unknown config 'cartpol'; did you mean 'cartpole'"),
        ({"env": "CartPole-v1", "stepz": 3}, "'stepz'; did you mean 'steps'"),
        ({"env": "CartPole-v1", "settings": {"epoch": 3}}, "did you mean 'epochs'"),
        ({"env": "CartPole-v1", "steps": 2.5}, "steps is 2.5"),
        ({"env": "CartPole-v1", "num_envs": 0}, "num_envs is 0; expected at least 1"),
        ({}, "no environment"),
        ({"env": "CartPole-v7"}, "'CartPole-v7' does not exist"),
        ({"env": "CartPole-v1", "settings": 3}, "settings"),
        ({"resume": "nowhere"}, "nowhere"),
        ({"resume": "nowhere", "config": "cartpole"}, "resume takes its"),
        ({"resume": "nowhere", "seed": 3}, "seed cannot change"),
    ],
)
def test_what_cannot_be_used_is_named_and_leaves_no_folder(
    tmp_path, arguments, message
):
    with pytest.raises(UserError, match=message):
        tfb.train(logdir=tmp_path / "logs", **arguments)
    assert not (tmp_path / "logs").exists()


def test_a_logdir_that_is_no_run_is_explained(tmp_path):
    run = tfb.train("ppo", env="CartPole-v1", logdir=tmp_path, **SMALL)
    with pytest.raises(UserError, match=pathlib.Path(run.logdir).name):
        tfb.evaluate(tmp_path)


def test_a_run_without_checkpoint_is_refused(tmp_path):
    run = tfb.train("ppo", env="CartPole-v1", logdir=tmp_path, **SMALL)
    for step in checkpoint.list_steps(run.logdir):
        folder = pathlib.Path(run.logdir) / "checkpoints" / f"step-{step:012d}"
        folder.rename(folder.with_name("away"))
    for use in (tfb.evaluate, lambda folder: tfb.train(resume=folder)):
        with pytest.raises(UserError, match="checkpoint"):
            use(run.logdir)


def test_a_gymnasium_wrapper_is_an_environment_like_any_other(tmp_path):
    def make():
        env = gymnasium.make("Pendulum-v1")
        return gymnasium.wrappers.RescaleAction(env, np.float32(-1), np.float32(1))

    run = tfb.train("ppo", env=make, logdir=tmp_path, **SMALL)
    assert run.finished


def test_a_config_object_is_a_preset_too(tmp_path):
    from tfagents_batch.training.experiment import Config

    config = Config(env="CartPole-v1", settings=ppo.Config(epochs=3))
    run = tfb.train(config=config, logdir=tmp_path, **SMALL)
    data = json.loads((pathlib.Path(run.logdir) / "config.json").read_text())
    assert data["config"]["settings"]["epochs"] == 1
