import copy
import functools
import importlib.util
import warnings

import gymnasium
import gymnasium.spaces as gs
import numpy as np
import pytest
from hypothesis import given, settings

import tfagents_batch as tfb
from tests.envs.any_space import any_space
from tests.support import python
from tests.support.fault_env import FaultEnv
from tests.support.masked_env import MaskedEnv
from tests.support.space_env import SpaceEnv
from tfagents_batch.envs.testing import CountingEnv
from tfagents_batch.errors import UserError

BOX = gs.Box(-1, 1, (3,), np.float32)
DICT = gs.Dict({"a": BOX, "b": gs.Discrete(4)})


class Corrupted(gymnasium.Wrapper):
    """Wrapper that passes the results of some calls through a function."""

    def __init__(self, env, corrupt, calls=("reset", "step")):
        super().__init__(env)
        self._corrupt = corrupt
        self._calls = calls

    def reset(self, *, seed=None, options=None):
        result = self.env.reset(seed=seed, options=options)
        return self._corrupt(result) if "reset" in self._calls else result

    def step(self, action):
        result = self.env.step(action)
        return self._corrupt(result) if "step" in self._calls else result


class Noise(gymnasium.Env):
    """A base class: a healthy environment that draws from ``self.np_random``."""

    def __init__(self):
        self.observation_space = gs.Box(0, 1, (2,), np.float32)
        self.action_space = gs.Discrete(2)
        self._step = 0

    def draw(self):
        return self.np_random.random(2, np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._step = 0
        return self.draw(), {}

    def step(self, action):
        self._step += 1
        return self.draw(), 1.0, self._step == 5, False, {}


def of_space(space, corrupt=None, calls=("reset", "step"), action_space=None):
    """Return a constructor of an environment with corrupted observations."""

    def make():
        env = SpaceEnv(copy.deepcopy(space), copy.deepcopy(action_space))
        if corrupt is None:
            return env
        return Corrupted(env, lambda result: (corrupt(result[0]), *result[1:]), calls)

    return make


def returns(change, call="step"):
    """Return a constructor of an environment with changed results of a call."""
    return lambda: Corrupted(CountingEnv(), lambda result: change(*result), [call])


def check(env, steps=40, **options):
    return tfb.check_env(env, steps, raise_on_defect=False, **options)


def found(report):
    """Return kind and field of all findings except hints, as text."""
    findings = report.defects + report.warnings
    return ", ".join(f"{each.kind} of {each.field}" for each in findings)


@pytest.mark.parametrize("call", ["reset", "step"])
def test_a_wrong_observation_is_the_only_defect(call):
    report = check(of_space(DICT, lambda x: x | {"b": 4}, [call]))
    (finding,) = report.defects + report.warnings
    assert (finding.level, finding.kind) == ("defect", "bounds")
    assert finding.field == "observation['b']"
    assert (finding.place.call, finding.place.episode) == (f"{call}()", 0)
    assert list(finding.counts) == [f"{call}()"]
    assert not report.ok


def test_a_finding_is_one_line_of_bounded_length():
    space = gs.MultiDiscrete(np.full((40, 30), 2))
    (finding,) = check(of_space(space, lambda x: x + 2)).defects
    assert finding.kind == "bounds"
    assert "\n" not in str(finding)
    assert len(str(finding)) < 2000


def test_a_defect_of_both_calls_is_one_finding_with_both_counts():
    report = check(of_space(BOX, lambda x: None), steps=8)
    (finding,) = report.defects
    assert finding.counts == {"reset()": 2, "step()": 8}
    assert str(finding.place) == "reset() of episode 0"
    assert "times seen: reset() 2, step() 8" in str(finding)


def rewarded(value):
    return lambda o, r, *rest: (o, value, *rest)


def flagged(value):
    return lambda o, r, e, u, i: (o, r, e, value, i)


# The rules of observations are tested in test_validation.
STEPS = [
    (lambda o, r, *rest: (o, np.array([r]), *rest), "type", "reward"),
    (rewarded(np.zeros(2)), "type", "reward"),
    *((rewarded(value), "type", "reward") for value in (None, "1", [1.0])),
    (rewarded(np.array(1.0)), "type", "reward"),
    *((rewarded(value), "finite", "reward") for value in (np.nan, np.inf, -1e39)),
    (lambda o, r, e, u, i: (o, r, int(e), u, i), "type", "terminated"),
    (lambda o, r, e, u, i: (o, r, np.array([e]), u, i), "type", "terminated"),
    *((flagged(value), "type", "truncated") for value in (None, 0, 0.0)),
    (lambda o, r, e, u, i: (o, r, e, u, []), "type", "info"),
    (lambda o, r, e, u, i: (o, r, e or u, i), "legacy", "step()"),
    (lambda *result: list(result), "type", "step()"),
]


@pytest.mark.parametrize(("change", "kind", "field"), STEPS)
def test_a_wrong_result_of_step_is_the_only_defect(change, kind, field):
    report = check(returns(change))
    (finding,) = report.defects + report.warnings
    assert (finding.level, finding.kind, finding.field) == ("defect", kind, field)
    assert finding.counts == {"step()": 40}
    assert str(finding.place) == "step() at step 0 of episode 0"
    assert report.facts["episodes"] == 8


class ResetBuffer(CountingEnv):
    """Environment that returns the same array from every reset."""

    def __init__(self):
        super().__init__()
        self.buffer = np.zeros(2, np.float32)

    def reset(self, **keywords):
        self.buffer[:] = super().reset(**keywords)[0]
        return self.buffer, {}


def refilled(nested):
    """Return a constructor: the environment reuses one dict, or one array in it."""

    def make():
        reused, buffer = {}, np.zeros(3, np.float32)

        def corrupt(result):
            if not nested:
                reused.update(result[0])
                return (reused, *result[1:])
            buffer[:] = result[0]["a"]
            return (result[0] | {"a": buffer}, *result[1:])

        space = DICT if nested else gs.Dict({"a": BOX})
        return Corrupted(SpaceEnv(copy.deepcopy(space)), corrupt)

    return make


class TwoBuffers(CountingEnv):
    """Environment that returns two arrays in turn."""

    def __init__(self):
        super().__init__()
        self.buffers = np.zeros((2, 2), np.float32)

    def _observation(self):
        buffer = self.buffers[self._step % 2]
        buffer[:] = super()._observation()
        return buffer


class NeverWorks(CountingEnv):
    """Environment that raises in every step and observes a wrong dtype."""

    def reset(self, **keywords):
        return super().reset(**keywords)[0].astype(np.float64), {}

    def step(self, action):
        raise RuntimeError("never works")


def with_(**attributes):
    """Return a class of environments with other attributes."""
    return type("Changed", (CountingEnv,), attributes)


NoParameters = with_(reset=lambda self: CountingEnv.reset(self))


class Forgetful(gymnasium.Wrapper):
    """Wrapper that takes no seed, around another wrapper."""

    def __init__(self):
        super().__init__(gymnasium.wrappers.Autoreset(CountingEnv()))

    def reset(self, options=None):
        return self.env.reset(options=options)


class Unseeded(Noise):
    """Environment that draws from its own generator in ``where``, or everywhere."""

    def __init__(self, where, seed=None):
        super().__init__()
        self.where, self.generator = where, np.random.default_rng(seed)

    def draw(self):
        here = self.where in ("step" if self._step else "reset", "both")
        return (self.generator if here else self.np_random).random(2, np.float32)


class ZeroIsNone(Noise):
    """Environment that ignores the seed 0."""

    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed or None)


class DrawnOnce(Noise):
    """Environment that draws in its constructor."""

    def __init__(self):
        super().__init__()
        self.offset = np.random.default_rng().random(2, np.float32) / 2

    def draw(self):
        return super().draw() / 2 + self.offset


class Alone(CountingEnv):
    """Environment that can exist only once in a process."""

    taken = False

    def __init__(self):
        super().__init__()
        if Alone.taken:
            raise OSError("port 4000 is in use")
        Alone.taken = True

    def close(self):
        Alone.taken = False


class OddSpace(CountingEnv):
    """Environment with an unsupported space, and no info."""

    def __init__(self, name, space):
        super().__init__()
        setattr(self, name, space)

    def step(self, action):
        return (*super().step(action)[:4], None)


class SharedSpace(SpaceEnv):
    """Environment with one space that all instances share and seed."""

    space = gs.Box(0, 1, (2,), np.float32)

    def __init__(self):
        super().__init__(self.space)


class Masked(CountingEnv):
    """Environment that raises for an action that its mask forbids."""

    def __init__(self):
        super().__init__(3)
        self.action_space = gs.MultiDiscrete([3, 2])
        mask = gs.Box(0, 1, (5,), np.int8)
        self.observation_space = gs.Dict({"action_mask": mask})

    def _observation(self):
        return {"action_mask": np.array([0, 1, 0, 0, 1], np.int8)}

    def step(self, action):
        if action.tolist() != [1, 1]:
            raise ValueError(f"{action} is masked")
        return super().step(action)


def fault(*args, **options):
    return functools.partial(FaultEnv, *args, **options)


CONSTANT = np.zeros(2, np.float32)
SHARED_ENV = CountingEnv()
UNSEEDED = "not reproducible of reset(seed)"
# Environment, expected findings, and a part of the report's text.
MISTAKES = [
    (returns(lambda o, i: o, "reset"), "type of reset()", ""),
    (returns(lambda o, i: [o, i], "reset"), "type of reset(), type of observation", ""),
    (returns(lambda o, i: (o, None), "reset"), "type of info", ""),
    (fault("reuse_buffer"), "reused of observation", "such as observation.copy()"),
    (ResetBuffer, "reused of observation", "reset() of episode 1"),
    (TwoBuffers, "reused of observation", ""),
    (refilled(nested=True), "reused of observation['a']", ""),
    (refilled(nested=False), "reused of observation['a']", ""),
    (with_(_observation=lambda self: CONSTANT), "", ""),
    # The check stops stepping an environment that always raises, but reports the rest.
    (NeverWorks, "dtype of observation, raised RuntimeError of step()", "step() 10]"),
    (
        fault("exc", phase="reset", episode=None),
        *("raised ValueError of reset()", "times seen: reset() 2]"),
    ),
    (fault("exc", phase="construct"), "raised ValueError of constructor", "broke"),
    (fault("exc", phase="close"), "raised ValueError of close()", ""),
    (fault("exc_str"), "raised Unprintable of step()", ""),
    (fault("sysexit"), "raised SystemExit of step()", ""),
    (NoParameters, "no seed of reset(), no options of reset()", "def reset(self, *, s"),
    (with_(env=NoParameters()), "", ""),  # adapter of an object that is no wrapper
    (Forgetful, "no seed of reset()", "reset() of Forgetful takes no seed"),
    (
        with_(
            reset=lambda self, seed, options=None: CountingEnv.reset(self, seed=seed)
        ),
        *("raised TypeError of reset()", "argument: 'seed'"),
    ),
    (lambda: Unseeded("reset"), UNSEEDED, "from self.np_random"),
    (lambda: Unseeded("step"), UNSEEDED, "[step() at step"),
    (lambda: Unseeded("both", seed=0), UNSEEDED, ""),  # seeded by its constructor
    (ZeroIsNone, UNSEEDED, ""),
    (DrawnOnce, "not reproducible of constructor", ""),
    (SharedSpace, "not reproducible of constructor", "not in classes or modules"),
    (returns(lambda *x: (*x[:-1], {"time": np.random.default_rng().random()})), "", ""),
    (lambda: SHARED_ENV, "shared of constructor", ""),
    (Alone, "alone of constructor", "port 4000 is in use; expected any number"),
    *(
        (lambda x=x: OddSpace(*x), f"unsupported of {x[0]}, type of info", "")
        for x in (
            *(("observation_space", gs.Text(4)), ("action_space", gs.Text(4))),
            ("action_space", gs.Box(-1, 1, (0,))),
            ("observation_space", gs.Box(-1, 1, (0,))),
        )
    ),
    (lambda: OddSpace("action_space", 2), "unsupported of action_space", ""),
    (functools.partial(CountingEnv, 10**9), "never ends of step()", "TimeLimit(env,"),
    (Masked, "", ""),
    (
        lambda: MaskedEnv(3),
        *("no action of observation['action_mask']", "return terminated=True"),
    ),
    (lambda: None, "type of constructor", ""),
    (lambda: gymnasium.vector.SyncVectorEnv([CountingEnv]), "type of constructor", ""),
]
WARNINGS = ("not reproducible", "alone", "never ends")


@pytest.mark.parametrize(("env", "expected", "words"), MISTAKES)
def test_each_mistake_is_found_and_nothing_else(env, expected, words):
    report = check(env)
    assert found(report) == expected
    assert words in str(report)
    for finding in report.findings:
        assert (finding.level == "warning") == (finding.kind in WARNINGS)


def test_an_exception_in_step_has_its_traceback_and_the_check_continues():
    report = check(fault("exc", episode=1, length=5))
    (finding,) = report.defects + report.warnings
    assert (finding.kind, finding.field) == ("raised ValueError", "step()")
    assert str(finding.place) == "step() at step 3 of episode 1"
    assert "something broke, with action" in finding.text
    assert "fault_env.py" in finding.traceback_text
    assert "findings.py" not in finding.traceback_text
    assert report.facts["steps"] == 40
    assert report.facts["episodes"] > 5


def test_an_interrupt_ends_the_check_and_closes_the_environment():
    closed = []

    class Env(FaultEnv):
        def close(self):
            closed.append(self)

    with pytest.raises(KeyboardInterrupt):
        check(functools.partial(Env, "keyboard"))
    assert len(closed) == 1


def test_reproducibility_is_a_fact_of_the_report():
    assert check(NoParameters).facts["reproducible"] is None
    assert check(lambda: Unseeded("reset")).facts["reproducible"] is False


@pytest.mark.parametrize(
    ("space", "text"),
    [
        (gs.Box(-2, 2, (1,), np.float32), "RescaleAction"),
        (gs.Box(-np.inf, np.inf, (1,), np.float32), "give it bounds"),
        (gs.Dict({"x": gs.Box(-2, 2, (1,), np.float32)}), "action_space['x']"),
        (BOX, None),
    ],
)
def test_another_scale_of_actions_is_a_hint_only(space, text):
    report = check(of_space(BOX, action_space=space))
    assert found(report) == ""
    assert [each.kind for each in report.hints] == ["scale"] * (text is not None)
    assert text is None or text in str(report)


def test_a_time_limit_that_was_not_reached_is_a_fact_and_a_hint():
    report = check(lambda: gymnasium.wrappers.TimeLimit(CountingEnv(10**9), 10**6))
    assert found(report) == ""
    assert [each.kind for each in report.hints] == ["never ends"]
    assert report.facts["max_episode_steps"] == 10**6


def test_all_defects_are_raised_in_one_error():
    def change(o, r, e, u, i):
        return o[:1].astype(np.float64), np.array([r]), int(e), None, []

    with pytest.raises(UserError) as caught:
        tfb.check_env(returns(change), steps=20)
    first, *lines = str(caught.value).splitlines()
    assert first.endswith("6 defects")
    expected = ["terminated", "truncated", "reward", "info", "shape", "dtype"]
    assert len(lines) == len(expected)
    for line, name in zip(lines, expected, strict=True):
        assert line.startswith("defect: ")
        assert name in line
        assert "step() at step 0 of episode 0" in line


def test_a_healthy_environment_has_a_report_of_facts():
    report = tfb.check_env(CountingEnv, steps=12)
    assert report.ok
    assert report.findings == ()
    assert report.facts == {
        "env": "tfagents_batch.envs.testing:CountingEnv",
        "observation_space": "Box(0.0, inf, (2,), float32)",
        "action_space": "Discrete(2)",
        "max_episode_steps": None,
        "steps": 12,
        "episodes": 2,
        "shortest_episode": 5,
        "longest_episode": 5,
        "reward": (1.0, 5.0),
        "reproducible": True,
    }
    assert str(report).splitlines()[0].endswith("CountingEnv: no defects")
    assert repr(report) == str(report)  # what a notebook shows


def test_an_instance_is_checked_and_not_closed():
    closed = []

    class Env(CountingEnv):
        def close(self):
            closed.append(True)

    assert check(Env()).facts["reproducible"] is True and closed == []
    refused = Env()
    refused.possible_agents = ["a", "b"]
    assert not check(refused).ok and closed == []
    assert check(Env).ok and closed == [True, True]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"env": "CartPol-v1"}, "did you mean 'CartPole-v1'"),
        ({"env": 3}, "env is of type"),
        ({"env": CountingEnv, "steps": 0}, "steps is 0; expected an integer, at least"),
        ({"env": CountingEnv, "steps": 1.5}, "steps is 1.5"),
        ({"env": CountingEnv, "seed": -1}, "seed is -1"),
        ({"env": CountingEnv(), "env_kwargs": {"length": 3}}, "an instance of"),
    ],
)
def test_arguments_that_cannot_be_used_are_refused(arguments, message):
    with pytest.raises(UserError, match=message):
        tfb.check_env(**arguments, raise_on_defect=False)


PACKAGES = {"HalfCheetah-v5": "mujoco", "ALE/Pong-v5": "ale_py"}


@pytest.mark.parametrize(
    "name", ["CartPole-v1", "Pendulum-v1", "FrozenLake-v1", "Blackjack-v1", *PACKAGES]
)
def test_gymnasiums_environments_have_no_defects(name):
    if name in PACKAGES and importlib.util.find_spec(PACKAGES[name]) is None:
        pytest.skip(f"{PACKAGES[name]} is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("default")  # packages of games have their own warnings
        report = check(name, steps=300)
    assert not report.defects + report.warnings, str(report)
    assert report.facts["reproducible"] is True


@settings(max_examples=30, deadline=None)
@given(observation_space=any_space(), action_space=any_space())
def test_samples_of_any_space_are_not_defects(observation_space, action_space):
    make = of_space(observation_space, action_space=action_space)
    assert found(check(make, steps=10)) == ""


def test_checking_loads_no_tensorflow():
    python.run(
        "import sys\nimport tfagents_batch as tfb\n"
        "assert tfb.check_env('CartPole-v1', steps=50).ok\n"
        "assert 'tensorflow' not in sys.modules",
        warnings="error",
    )
