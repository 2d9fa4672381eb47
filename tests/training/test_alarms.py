"""Alarms: silent on runs that went well, each heard where its own fault is planted."""

import csv
import math
import pathlib
import re

import numpy as np
import pytest
from absl import flags
from gymnasium import spaces as gs
from hypothesis import given, settings
from hypothesis import strategies as st

from tfagents_batch import config
from tfagents_batch.algorithms import ppo
from tfagents_batch.nn import networks
from tfagents_batch.training import alarms, episode_symptoms, update_symptoms
from tfagents_batch.training.alarms import Alarms, Facts
from tfagents_batch.training.experiment import Config
from tfagents_batch.types import EnvSpec

STEPS = 100_000
FACTS = Facts(
    steps=STEPS,
    num_envs=8,
    settings=ppo.Config(),
    action_space=gs.Discrete(2),
    max_episode_steps=500,
)
LINE = {
    "env/action_clipped_fraction": 0.0,
    "env/masked": 0.01,
    "episode/return_mean": 20.0,
    "grad/learning_rate": 3e-4,
    "grad/skipped": 0.0,
    "loss/value": 0.1,
    "policy/approx_kl": 0.01,
    "policy/clip_fraction": 0.1,
    "policy/entropy": 0.5,
    "value/explained_variance": 0.8,
}
RUNS = pathlib.Path(__file__).parent / "healthy"


def line(number, **changes):
    """A healthy line, returns rising; changes by names with ``__`` for a slash."""
    noise = math.sin(7.3 * number)
    made = LINE | {"episode/return_mean": 20.0 + 2 * number + noise}
    made |= {name.replace("__", "/"): value for name, value in changes.items()}
    return {name: value for name, value in made.items() if value is not None}


def raised(lines, facts=FACTS):
    """Names of the alarms, in order, of lines that are evenly spread over the run."""
    watch = Alarms(facts)
    every = facts.steps // len(lines)
    return [
        alarm.name
        for number, each in enumerate(lines)
        for alarm in watch.check(each, every * (number + 1))
    ]


def told(lines, name, facts=FACTS):
    watch = Alarms(facts)
    every = facts.steps // len(lines)
    found = [
        alarm.text
        for number, each in enumerate(lines)
        for alarm in watch.check(each, every * (number + 1))
        if alarm.name == name
    ]
    assert found, f"no alarm {name}"
    return found[0]


SPACES = {
    "cartpole": (gs.Discrete(2), 500, 1.0),
    "pendulum": (gs.Box(-2, 2, (1,)), 200, 1.0),
    "lunarlander": (gs.Discrete(4), 1000, 1.0),
    "halfcheetah": (gs.Box(-1, 1, (6,)), 1000, 0.6),
}


@pytest.mark.parametrize("path", sorted(RUNS.glob("*.csv")), ids=lambda p: p.stem)
def test_a_run_that_solved_its_task_raises_nothing(path):
    space, limit, std = SPACES[path.stem.partition("-")[0]]
    with open(path) as file:
        rows = list(csv.DictReader(file))
    learned = ppo.Config(network=networks.Config(init_std=std))
    num_envs = 16 if path.stem.startswith("lunarlander") else 8
    watch = Alarms(Facts(int(rows[-1]["step"]), num_envs, learned, space, limit))
    for row in rows:
        step = int(row.pop("step"))
        metrics = {name: float(value) for name, value in row.items() if value}
        assert watch.check(metrics, step) == []


def test_there_are_runs_that_solved_their_tasks():
    assert len(list(RUNS.glob("*.csv"))) >= 4


def test_healthy_lines_raise_nothing():
    assert raised([line(i) for i in range(100)]) == []


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("gradients_skipped", {"grad__skipped": 0.01}),
        ("value_loss", {"loss__value": 1e7, "value__explained_variance": -3.0}),
        ("value_loss", {"loss__value": math.nan}),
        ("value_loss", {"loss__value": 15.0, "value__explained_variance": -1.0}),
        ("explained_variance", {"value__explained_variance": -0.5}),
        ("kl", {"policy__approx_kl": 0.5}),
        ("kl", {"policy__approx_kl": math.inf}),
        ("clip_fraction", {"policy__clip_fraction": 0.8}),
        ("policy_still", {"policy__clip_fraction": 0.0, "policy__approx_kl": 1e-7}),
        ("actions_clipped", {"env__action_clipped_fraction": 0.99}),
        ("no_episodes", {"episode__return_mean": None}),
        ("no_reward", {"episode__return_mean": 0.0}),
    ],
)
def test_a_planted_fault_raises_its_own_alarm_once(name, changes):
    lines = [line(i, **changes if i >= 30 else {}) for i in range(100)]
    if name == "no_reward":
        lines = [line(i, **changes) for i in range(100)]
    found = raised(lines)
    assert found.count(name) == 1
    assert set(found) <= {name, "explained_variance"}


@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_an_agent_that_was_trained_before_need_not_get_better(noise):
    noise *= np.random.default_rng(0).normal(size=100)
    lines = [line(i, episode__return_mean=500 + noise[i]) for i in range(100)]
    assert raised(lines) in (["return_flat"], ["no_reward"])
    assert raised(lines, FACTS._replace(inherited=True)) == []


def test_returns_that_stand_still_are_told_at_half_of_the_run():
    noise = np.random.default_rng(0).normal(size=100)
    lines = [line(i, episode__return_mean=20 + noise[i]) for i in range(100)]
    assert raised(lines) == ["return_flat"]
    assert raised(lines[:40], FACTS._replace(steps=2 * STEPS)) == ["return_flat"]
    watch = Alarms(FACTS)
    for number, each in enumerate(lines[:49]):
        assert watch.check(each, 1000 * (number + 1)) == []


def test_a_task_that_is_learned_at_once_is_not_taken_for_one_that_stands_still():
    returns = [20, 35, 60, 180, 450] + [500] * 95
    lines = [line(i, episode__return_mean=x) for i, x in enumerate(returns)]
    assert raised(lines) == []


def test_returns_that_are_lost_again_are_told():
    returns = [*np.linspace(20, 400, 50), *np.linspace(400, 30, 5), *[25.0] * 45]
    noise = np.random.default_rng(0).normal(size=100)
    lines = [line(i, episode__return_mean=x + noise[i]) for i, x in enumerate(returns)]
    assert raised(lines) == ["return_fell"]


def test_an_early_certain_policy_is_told_a_late_one_that_learned_is_not():
    early = [
        line(i, policy__entropy=0.003, episode__return_mean=9.0 + i % 2)
        for i in range(40)
    ]
    assert "entropy" in raised(early)
    late = [line(i, policy__entropy=0.6 if i < 50 else 0.003) for i in range(100)]
    assert raised(late) == []
    dead = [line(i, policy__entropy=0.6 if i < 50 else 1e-6) for i in range(100)]
    assert raised(dead) == ["entropy"]


@pytest.mark.parametrize(
    ("space", "healthy", "dead"),
    [
        (gs.Discrete(4), 0.1, 0.01),
        (gs.MultiDiscrete([3, 3]), 0.2, 0.01),
        (gs.MultiBinary(4), 0.2, 0.01),
        (gs.Box(-1, 1, (1,)), 1.42 - 2.5, 1.42 - 6.0),
        (gs.Box(-np.inf, np.inf, (2, 3)), 6 * (1.42 - 2.5), 6 * (1.42 - 6.0)),
    ],
)
def test_entropy_is_measured_by_what_the_action_space_could_have(space, healthy, dead):
    facts = FACTS._replace(action_space=space)

    def flat(entropy):
        lines = [
            line(i, policy__entropy=entropy, episode__return_mean=20.0 + i % 2)
            for i in range(20)
        ]
        return raised(lines, facts)

    assert "entropy" not in flat(healthy)
    assert "entropy" in flat(dead)


def test_a_policy_that_is_certain_is_not_told_to_move():
    still = {"policy__clip_fraction": 0.0, "policy__approx_kl": 0.0}
    lines = [line(i, policy__entropy=1e-9, **still) for i in range(40)]
    assert raised(lines) == ["entropy"]


def test_one_update_that_loses_the_policy_is_enough():
    lines = [line(i, policy__approx_kl=9.8 if i == 20 else 0.01) for i in range(40)]
    assert raised(lines) == ["kl"]


def test_masked_actions_are_measured_by_the_first_line():
    lines = [
        line(i, policy__entropy=0.004, episode__return_mean=20.0 + i % 2)
        for i in range(20)
    ]
    assert "entropy" in raised(lines)
    assert "entropy" not in raised(lines, FACTS._replace(masked=True))


@pytest.mark.parametrize("beta", [1e3, 1e-4])
def test_a_kl_penalty_at_its_bounds_is_told(beta):
    lines = [line(i, policy__kl_penalty=beta, policy__kl=0.1) for i in range(40)]
    assert raised(lines) == ["kl_penalty"]


def test_what_stands_still_because_its_learning_rate_ended_is_healthy():
    def rate(i):
        return 3e-4 * (1 - i / 100)

    still = {"policy__clip_fraction": 0.0, "policy__approx_kl": 1e-6}
    lines = [
        line(i, grad__learning_rate=rate(i), policy__kl_penalty=0.1, policy__kl=0)
        for i in range(80)
    ]
    lines += [
        line(
            i,
            grad__learning_rate=rate(i),
            policy__kl_penalty=1e-4,
            policy__kl=0.0,
            **still,
        )
        for i in range(80, 100)
    ]
    assert raised(lines) == []


def test_a_negative_explained_variance_of_what_is_all_alike_is_healthy():
    lines = [
        line(i, loss__value=1e-5, value__explained_variance=-9.0) for i in range(100)
    ]
    assert raised(lines) == []


def test_a_value_loss_that_grows_with_returns_that_are_learned_is_healthy():
    facts = FACTS._replace(settings=ppo.Config(normalize_return=False))
    lines = [line(i, loss__value=0.1 * 1.15**i) for i in range(100)]
    assert raised(lines, facts) == []


@pytest.mark.parametrize("scaling", [False, "per_step"])
def test_a_value_loss_in_the_unit_of_the_task_is_no_alarm(scaling):
    """As of batch_ppo/pendulum: returns of up to 2000 deviations of a reward."""
    facts = FACTS._replace(settings=ppo.Config(normalize_return=scaling))
    losses = [9e3, 7.8e3, 6e3, *[4e3] * 27]
    lines = [
        line(i, loss__value=loss, value__explained_variance=-0.1)
        for i, loss in enumerate(losses)
    ]
    assert "value_loss" not in raised(lines, facts)
    exploded = [
        *lines,
        *(
            line(30 + i, loss__value=9e5, value__explained_variance=-1.0)
            for i in range(5)
        ),
    ]
    assert "value_loss" in raised(exploded, facts)


def test_entropy_inside_bounds_is_compared_with_that_at_the_start():
    facts = FACTS._replace(
        settings=ppo.Config(network=networks.Config(squash=True)),
        action_space=gs.Box(-0.1, 0.1, (2,)),
    )
    start = 2 * math.log(0.05)  # of tanh between narrow bounds
    steady = [line(i, policy__entropy=start, episode__return_mean=0) for i in range(30)]
    assert "entropy" not in raised(steady, facts)
    gone = [
        line(i, policy__entropy=start - 0.5 * i, episode__return_mean=0)
        for i in range(30)
    ]
    assert "entropy" in raised(gone, facts)


def test_an_unscaled_value_loss_beyond_all_units_is_told():
    facts = FACTS._replace(settings=ppo.Config(normalize_return=False))
    lines = [line(i, loss__value=2e14) for i in range(20)]
    assert "normalize_return=true" in told(lines, "value_loss", facts)


def test_a_value_loss_that_doubles_from_line_to_line_is_told():
    lines = [line(i, value__explained_variance=-0.1) for i in range(40)]
    for i in range(40, 50):
        lines.append(line(i, loss__value=2.0 ** (i - 38), value__explained_variance=-1))
    assert "value_loss" in raised(lines)


@pytest.mark.parametrize(("limit", "after"), [(500, 2 * 501 * 8), (None, 10_000 * 8)])
def test_no_episode_is_told_after_what_the_limit_allows(limit, after):
    watch = Alarms(FACTS._replace(max_episode_steps=limit))
    for step in range(1000, after + 1000, 1000):
        assert watch.check(line(0, episode__return_mean=None), step) == []
    (alarm,) = watch.check(line(0, episode__return_mean=None), after + 2000)
    assert alarm.name == "no_episodes"
    watch.check(line(0), after + 3000)
    assert "no_episodes" not in watch.active


def test_lines_of_evaluations_say_nothing_of_episodes():
    watch = Alarms(FACTS)
    for step in range(1000, 100_000, 1000):
        assert watch.check({"eval/return_mean": 1.0}, step) == []


def test_environments_that_take_all_of_the_time_are_told():
    def lines(milliseconds):
        return [
            line(i)
            | {
                "time/elapsed_seconds": 10.0 * i,
                "time/env_step_ms": milliseconds,
            }
            for i in range(60)
        ]

    # 1666 steps a line of 8 environments: 210 steps of the batch, 10 seconds.
    assert raised(lines(46.5)) == ["env_share"]
    assert raised(lines(30.0)) == []


def test_an_alarm_comes_again_only_after_it_had_cleared():
    watch = Alarms(FACTS)
    bad, good, between = 0.5, 0.01, 0.15
    names = []
    for i, kl in enumerate(
        [bad] * 8
        + [good] * 4
        + [bad] * 8  # four good lines do not clear it
        + [between] * 9
        + [bad] * 4  # nor do those in between
        + [good] * 5
        + [bad] * 2
        + [between]
        + [bad] * 3  # five do
    ):
        found = watch.check(line(i, policy__approx_kl=kl), 1000 * (i + 1))
        names += [(i, alarm.name) for alarm in found]
    assert names == [(2, "kl"), (43, "kl")]


def test_active_alarms_can_be_asked_for():
    watch = Alarms(FACTS)
    assert watch.active == ()
    watch.check(line(0, grad__skipped=0.5), 1000)
    assert watch.active == ("gradients_skipped",)
    for i in range(20):
        watch.check(line(i), 2000 + i)
    assert watch.active == ()


def test_a_resumed_run_is_not_told_again_what_it_was_told():
    lines = [line(i, policy__approx_kl=0.5) | {"step": 1000 * i} for i in range(30)]
    watch = Alarms(FACTS)
    watch.replay(lines)
    assert watch.active == ("kl",)
    assert watch.check(line(31, policy__approx_kl=0.5), 31_000) == []


def test_facts_are_those_of_the_run():
    masked = gs.Dict({"x": gs.Box(0, 1, (2,)), "action_mask": gs.MultiBinary(3)})
    made = alarms.facts(
        Config(env="x", steps=7, num_envs=3), EnvSpec(3, masked, gs.Discrete(3), {}, 9)
    )
    assert made == Facts(7, 3, ppo.Config(), gs.Discrete(3), 9, masked=True)
    plain = EnvSpec(3, gs.Box(0, 1, (2,)), gs.Discrete(3), {}, 9)
    assert not alarms.facts(Config(env="x"), plain).masked


def test_a_text_says_what_is_seen_with_its_number():
    lines = [line(i, policy__approx_kl=0.517) for i in range(10)]
    text = told(lines, "kl")
    assert "0.517 nats" in text
    assert "What to try" in text


def test_every_flag_that_a_text_names_is_one():
    values = flags.FlagValues()
    config.define_flags(values, Config())
    config.define_flags(values, ppo.Config(), prefix="algorithm")
    named = set()
    for module in (update_symptoms, episode_symptoms):
        source = pathlib.Path(module.__file__).read_text()
        named |= set(re.findall(r"--([a-z][\w.]*\w)", source))
    assert len(named) > 10
    # Of the scripts themselves: train --profile, check --env.
    assert named - set(values) <= {"profile"}


NUMBER = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True), st.floats(-2, 2), st.just(0.0)
)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(
                [
                    *LINE,
                    "time/elapsed_seconds",
                    "time/env_step_ms",
                    "policy/kl",
                    "policy/kl_penalty",
                ]
            ),
            NUMBER,
        ),
        max_size=40,
    ),
    st.sampled_from([None, gs.Discrete(3), gs.Box(-1, 1, (2,)), gs.Tuple([])]),
)
def test_whatever_is_logged_no_line_is_an_error(lines, space):
    watch = Alarms(FACTS._replace(action_space=space))
    for number, each in enumerate(lines):
        before = set(watch.active)
        for alarm in watch.check(each, 1000 * number):
            assert alarm.name not in before
            assert alarm.text


def test_numbers_may_be_of_numpy_and_vectors_are_passed_over():
    watch = Alarms(FACTS)
    metrics = {"policy/approx_kl": np.float32(0.5), "policy/action": np.ones(3)}
    names = [a.name for i in range(5) for a in watch.check(metrics, i)]
    assert names == ["kl"]


def test_an_algorithm_without_these_metrics_raises_nothing():
    assert (
        raised(
            [
                {"loss/q": 1.0, "env/masked": 0.0, "episode/return_mean": 2.0 * i}
                for i in range(100)
            ],
            FACTS._replace(settings=object(), action_space=None),
        )
        == []
    )
