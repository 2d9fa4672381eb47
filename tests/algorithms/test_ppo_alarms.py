"""PPO's alarms: none on runs that solved their task, one for each planted fault."""

import csv
import math
import pathlib
import re

import numpy as np
import pytest
from gymnasium import spaces as gs

from tfagents_batch.algorithms import ppo
from tfagents_batch.algorithms.ppo_penalty import KLConfig
from tfagents_batch.metrics import Limit
from tfagents_batch.nn import networks
from tfagents_batch.settings import parsing
from tfagents_batch.sources import rollout_settings
from tfagents_batch.training import alarms
from tfagents_batch.training.alarms import Alarms
from tfagents_batch.training.config import RunConfig
from tfagents_batch.types import EnvSpec

RUNS = sorted((pathlib.Path(__file__).parent / "healthy").glob("*.csv"))
VECTOR, TWO = gs.Box(-1, 1, (3,)), gs.Discrete(2)
LINE = {
    "env/action_clipped_fraction": 0.0,
    "env/masked": 0.01,
    "grad/skipped": 0.0,
    "loss/value": 0.1,
    "policy/approx_kl": 0.01,
    "policy/clip_fraction": 0.1,
    "policy/entropy": 0.5,
    "value/explained_variance": 0.8,
}
SPACES = {
    "cartpole": (TWO, 8, 500, 1.0),
    "pendulum": (gs.Box(-2, 2, (1,)), 8, 200, 1.0),
    "lunarlander": (gs.Discrete(4), 16, 1000, 1.0),
    "halfcheetah": (gs.Box(-1, 1, (6,)), 8, 1000, 0.6),
}


def rows(action=TWO, observation=VECTOR, **settings):
    spec = EnvSpec(8, observation, action, {}, 500)
    return ppo.PPOConfig(**settings).alarms(spec)


def line(number, rising=True, **changes):
    """Return a healthy line with some values changed (``__`` is a slash in names)."""
    return_ = 20 + math.sin(7.3 * number) + (2 * number if rising else 0)
    changed = {name.replace("__", "/"): value for name, value in changes.items()}
    return LINE | {"episode/return_mean": return_} | changed


def raised(lines, limits=None):
    watch = Alarms(rows() if limits is None else limits, 100_000, num_envs=8)
    every = 100_000 // len(lines)
    return [
        alarm.name
        for number, each in enumerate(lines)
        for alarm in watch.check(each, every * (number + 1))
    ]


@pytest.mark.parametrize("path", RUNS, ids=lambda path: path.stem)
def test_a_healthy_run_raises_no_alarm(path):
    space, num_envs, limit, std = SPACES[path.stem.partition("-")[0]]
    with open(path) as file:
        lines = list(csv.DictReader(file))
    limits = rows(space, network=networks.NetworkConfig(init_std=std))
    watch = Alarms(limits, int(lines[-1]["step"]), num_envs, limit)
    for each in lines:
        step = int(each.pop("step"))
        metrics = {name: float(value) for name, value in each.items() if value}
        assert watch.check(metrics, step) == []


def test_healthy_runs_are_present():
    assert len(RUNS) >= 4


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("gradients_skipped", {"grad__skipped": 0.01}),
        ("value_loss", {"loss__value": 150.0}),
        ("value_loss", {"loss__value": math.nan}),
        ("explained_variance", {"value__explained_variance": -0.5}),
        ("kl", {"policy__approx_kl": 0.5}),
        ("kl", {"policy__approx_kl": math.inf}),
        ("clip_fraction", {"policy__clip_fraction": 0.8}),
        ("actions_clipped", {"env__action_clipped_fraction": 0.99}),
    ],
)
def test_a_planted_fault_raises_its_own_alarm_once(name, changes):
    healthy = [line(i) for i in range(30)]
    assert raised(healthy) == []
    assert raised(healthy + [line(i, **changes) for i in range(30, 100)]) == [name]


def test_one_update_that_loses_the_policy_is_enough():
    lines = [line(i, policy__approx_kl=9.8 if i == 20 else 0.01) for i in range(40)]
    assert raised(lines) == ["kl"]


def test_the_kl_limit_follows_the_target_of_the_penalty():
    lines = [line(i, policy__approx_kl=0.5) for i in range(40)]
    assert raised(lines, rows(objective="kl", kl=KLConfig(target=0.1))) == ["kl"]
    assert raised(lines, rows(objective="kl", kl=KLConfig(target=0.2))) == []


@pytest.mark.parametrize(
    ("loss", "explained"),
    [
        (1e-5, -9.0),  # of a variance of about 1e-6
        (0.05, -25.0),  # returns are equal, and values miss them by a little
        (0.55, -0.01),  # returns vary with what is not observed, such as the time
    ],
)
def test_a_solved_task_raises_no_alarm_of_explained_variance(loss, explained):
    values = {"loss__value": loss, "value__explained_variance": explained}
    assert raised([line(i, **values) for i in range(100)]) == []


@pytest.mark.parametrize("scaling", [False, "per_step"])
def test_unscaled_rewards_have_a_higher_limit_of_value_loss(scaling):
    limits = rows(normalize_return=scaling)
    unit = {"loss__value": 9e3, "value__explained_variance": -0.1}
    assert raised([line(i, **unit) for i in range(40)], limits) == []
    assert raised([line(i, loss__value=2e14) for i in range(40)], limits) == [
        "value_loss"
    ]


@pytest.mark.parametrize(
    ("scaling", "names"),
    [(True, []), ("per_step", []), *((x, ["small_returns"]) for x in ("clip", False))],
)
def test_tiny_returns_raise_an_alarm_if_rewards_are_not_divided(scaling, names):
    returns = {"episode__return_min": -2e-5, "episode__return_max": 1e-4}
    lines = [line(i, **returns) for i in range(40)]
    assert raised(lines, rows(normalize_return=scaling)) == names


@pytest.mark.parametrize(
    ("space", "healthy", "dead"),
    [
        (gs.Discrete(4), 0.1, 0.01),
        (gs.MultiDiscrete([3, 3]), 0.2, 0.01),
        (gs.MultiBinary(4), 0.2, 0.01),
        (gs.Box(-1, 1, (1,)), 1.42 - 2.5, 1.42 - 6.0),
        (gs.Box(-math.inf, math.inf, (2, 3)), 6 * (1.42 - 2.5), 6 * (1.42 - 6.0)),
        (gs.Box(0, 1000, (2,)), 2 * (7.63 - 2.5), 2 * (7.63 - 6.0)),
        (gs.Tuple([]), 0.0, None),
    ],
)
def test_the_entropy_limit_depends_on_the_action_space(space, healthy, dead):
    def found(entropy):
        lines = [line(i, False, policy__entropy=entropy) for i in range(9)]
        return raised(lines, rows(space))

    assert found(healthy) == []
    assert dead is None or found(dead) == ["entropy"]


def test_the_alarms_of_box_actions_name_the_range():
    space = gs.Box(np.float32([-1, -1, 0]), np.float32([1, 1, 1000]))
    text = {limit.name: limit.text for limit in rows(space)}
    assert "outside of their range, -1 to 1 and 0 to 1000," in text["actions_clipped"]
    assert "nats, with actions of -1 to 1 and 0 to 1000" in text["entropy"]
    text = {limit.name: limit.text for limit in rows(TWO)}
    assert "entropy is {policy/entropy:.3g} nats. The" in text["entropy"]


def test_low_entropy_is_healthy_after_returns_rose():
    late = [line(i, policy__entropy=0.6 if i < 50 else 0.003) for i in range(100)]
    assert raised(late) == []


def test_squashed_and_masked_actions_have_no_entropy_limit():
    lines = [line(i, False, policy__entropy=-99.0) for i in range(9)]
    squashed = networks.NetworkConfig(squash=True)
    assert raised(lines, rows(gs.Box(-1, 1, (2,)), network=squashed)) == []
    masked = gs.Dict({"x": VECTOR, "action_mask": gs.MultiBinary(2)})
    assert raised(lines, rows(observation=masked)) == []


def test_every_flag_and_metric_named_in_a_text_exists():
    text = parsing.help_text(
        [
            (RunConfig, ""),
            (rollout_settings.RolloutSettings, "rollout"),
            (ppo.PPOConfig, "algorithm"),
        ]
    )
    values = re.findall(r"^  --([\w.]+)=", text, re.M)
    shared = [row for row in vars(alarms).values() if isinstance(row, Limit)]
    texts = [row.text for row in (*rows(), *shared)]
    assert len(texts) == 11
    named = {name for text in texts for name in re.findall(r"--([a-z][\w.]*\w)", text)}
    # The flag --env belongs to the script check.
    assert len(named) > 8 and named <= set(values)
    metrics = set(re.findall(r"{([a-z_/]+)", "".join(row.text for row in rows())))
    assert metrics <= set(LINE)
