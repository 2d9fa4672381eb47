"""Actions of several choices, and of choices with parameters, are learned; slow."""

import pytest

import tfagents_batch as tfb
from tests.learning.hidden_target import HiddenTarget

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("name", ["dqn", "pqn", "sac"])
def test_a_hidden_target_of_four_choices_is_found(name, seed, tmp_path):
    settings = {}
    if name == "pqn":  # which makes few updates by default
        settings = {"epochs": 4, "minibatch_size": 32, "learning_rate": 1e-3}
        settings["epsilon"] = "linear(1, 0.05, 20000)"
    options = {"num_envs": 8, "steps": 50_000, "eval_every": 0, "settings": settings}
    run = tfb.train(name, HiddenTarget, seed=seed, logdir=tmp_path, **options)
    result = tfb.evaluate(run.logdir, 100, env=HiddenTarget)
    assert result.mean_return >= 9.5  # of 10; random actions have 2


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("name", "steps", "settings"),
    [
        ("ppo", 1_000_000, {}),
        (
            "sac",
            300_000,
            {"train_every": 4, "choice_entropy": 0.5, "network.hidden": (128, 128)},
        ),
    ],
)
def test_choices_with_parameters_are_learned(name, steps, settings, tmp_path):
    pytest.importorskip("gym_platform", reason="pip install hybrid-platform numba")
    env = "gym_platform:Platform-v0"
    run = tfb.train(
        *(name, env),
        **{"num_envs": 16, "steps": steps, "seed": 1, "eval_every": 0},
        settings=settings,
        logdir=tmp_path,
    )
    assert tfb.evaluate(run.logdir, 200, env=env).mean_return >= 0.9
