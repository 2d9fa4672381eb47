from __future__ import annotations

import copy
import functools
import importlib.util
import subprocess
import sys
import warnings

import gymnasium
import gymnasium.spaces as gs
import numpy as np
import pytest
from hypothesis import given, settings

import tfagents_batch as tfb
from tests.envs.any_space import any_space
from tests.fault_env import FaultEnv
from tests.space_env import SpaceEnv
from tfagents_batch.envs.testing import CountingEnv
from tfagents_batch.errors import UserError

BOX = gs.Box(-1, 1, (3,), np.float32)
DICT = gs.Dict({"a": BOX, "b": gs.Discrete(4)})


class Corrupted(gymnasium.Wrapper):
    """Passes results of some calls through a function."""

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
    """A healthy environment that draws from ``self.np_random``; to be derived from."""

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
    """Constructor of an environment of a space with corrupted observations."""

    def make():
        env = SpaceEnv(copy.deepcopy(space), copy.deepcopy(action_space))
        if corrupt is None:
            return env
        return Corrupted(env, lambda result: (corrupt(result[0]), *result[1:]), calls)

    return make


def stepping(change):
    """Constructor of an environment whose ``step`` results are changed."""
    return lambda: Corrupted(CountingEnv(), lambda result: change(*result), ["step"])


def check(env, steps=40, **options):
    return tfb.check_env(env, steps, raise_on_defect=False, **options)


def found(env, **options):
    """Level, kind and field of everything but hints."""
    report = check(env, **options)
    findings = report.defects + report.warnings
    return [(each.level, each.kind, each.field) for each in findings]


# Every rule has its test in test_validation; these show that the rules are applied.
OBSERVATIONS = {
    "shape": (BOX, lambda x: x[:-1], "shape", "observation"),
    "bounds": (BOX, lambda x: x + np.float32(2.5), "bounds", "observation"),
    "NaN": (BOX, lambda x: x * np.float32(np.nan), "finite", "observation"),
    "inside a dict": (DICT, lambda x: x | {"b": 4}, "bounds", "observation['b']"),
}


@pytest.mark.parametrize("call", ["reset", "step"])
@pytest.mark.parametrize("name", OBSERVATIONS)
def test_a_wrong_observation_is_the_one_defect(name, call):
    space, corrupt, kind, field = OBSERVATIONS[name]
    report = check(of_space(space, corrupt, [call]))
    (finding,) = report.defects + report.warnings
    assert (finding.level, finding.kind, finding.field) == ("defect", kind, field)
    assert finding.place.call == f"{call}()"
    assert finding.place.episode == 0
    assert list(finding.counts) == [f"{call}()"]
    assert not report.ok


def test_a_finding_is_one_line_of_bounded_length():
    space = gs.MultiDiscrete(np.full((40, 30), 2))
    report = check(of_space(space, lambda x: x + 2))
    (finding,) = report.defects
    assert finding.kind == "bounds"
    assert "\n" not in str(finding)
    assert len(str(finding)) < 2000


def test_a_defect_of_both_calls_is_one_finding_with_both_counts():
    report = check(of_space(BOX, lambda x: None), steps=8)
    (finding,) = report.defects
    assert finding.counts == {"reset()": 2, "step()": 8}
    assert str(finding.place) == "reset() of episode 0"
    assert "times seen: reset() 2, step() 8" in str(finding)


STEPS = {
    "an array as reward": (
        lambda o, r, *rest: (o, np.array([r], np.float32), *rest),
        *("type", "reward"),
    ),
    "an array without axes": (
        lambda o, r, *rest: (o, np.array(r), *rest),
        *("type", "reward"),
    ),
    "several rewards": (
        lambda o, r, *rest: (o, np.array([r, r]), *rest),
        *("type", "reward"),
    ),
    "no reward": (lambda o, r, *rest: (o, None, *rest), "type", "reward"),
    "NaN as reward": (lambda o, r, *rest: (o, np.nan, *rest), "finite", "reward"),
    "infinite reward": (lambda o, r, *rest: (o, 1e39, *rest), "finite", "reward"),
    "int flag": (lambda o, r, e, u, i: (o, r, int(e), u, i), "type", "terminated"),
    "None as flag": (lambda o, r, e, u, i: (o, r, e, None, i), "type", "truncated"),
    "array flag": (
        lambda o, r, e, u, i: (o, r, np.array([e]), u, i),
        *("type", "terminated"),
    ),
    "no info": (lambda o, r, e, u, i: (o, r, e, u, None), "type", "info"),
    "a list as info": (lambda o, r, e, u, i: (o, r, e, u, []), "type", "info"),
    "legacy": (lambda o, r, e, u, i: (o, r, e or u, i), "legacy", "step()"),
    "a list": (lambda *result: list(result), "type", "step()"),
}


@pytest.mark.parametrize("name", STEPS)
def test_a_wrong_result_of_step_is_the_one_defect(name):
    change, kind, field = STEPS[name]
    report = check(stepping(change))
    (finding,) = report.defects + report.warnings
    assert (finding.level, finding.kind, finding.field) == ("defect", kind, field)
    assert finding.counts == {"step()": 40}
    assert str(finding.place) == "step() at step 0 of episode 0"
    assert report.facts["episodes"] == 8


@pytest.mark.parametrize("change", [lambda o, i: o, lambda o, i: [o, i]])
def test_a_reset_that_returns_no_pair_is_found(change):
    env = Corrupted(CountingEnv(), lambda result: change(*result), ["reset"])
    kinds = found(env)
    assert ("defect", "type", "reset()") in kinds
    assert len(kinds) == 1 + isinstance(env.reset(), list)  # a list is no array too


def test_an_info_of_reset_that_is_no_dict_is_found():
    env = Corrupted(CountingEnv(), lambda result: (result[0], None), ["reset"])
    assert found(env) == [("defect", "type", "info")]


class TestReusedObservations:
    def test_a_buffer_that_is_written_again_is_found(self):
        report = check(functools.partial(FaultEnv, "reuse_buffer"))
        (finding,) = report.defects + report.warnings
        assert (finding.kind, finding.field) == ("reused", "observation")
        assert "observation of reset() of episode 0 changed" in finding.text
        assert "return a copy, such as observation.copy()" in finding.text
        assert str(finding.place) == "step() at step 0 of episode 0"

    def test_a_buffer_that_only_reset_writes_again_is_found(self):
        class Env(CountingEnv):
            buffer = np.zeros(2, np.float32)

            def __init__(self):
                super().__init__()
                self.buffer = np.zeros(2, np.float32)

            def reset(self, **keywords):
                self.buffer[:] = super().reset(**keywords)[0]
                return self.buffer, {}

        report = check(Env)
        (finding,) = report.defects
        assert finding.kind == "reused"
        assert str(finding.place) == "reset() of episode 1"

    def test_two_buffers_in_turn_are_found(self):
        class Env(CountingEnv):
            def __init__(self):
                super().__init__()
                self.buffers = np.zeros((2, 2), np.float32)

            def _observation(self):
                buffer = self.buffers[self._step % 2]
                buffer[:] = super()._observation()
                return buffer

        assert found(Env) == [("defect", "reused", "observation")]

    def test_the_leaf_of_a_dict_is_named(self):
        def make():
            env = SpaceEnv(copy.deepcopy(DICT))
            buffer = np.zeros(3, np.float32)

            def corrupt(result):
                buffer[:] = result[0]["a"]
                return (result[0] | {"a": buffer}, *result[1:])

            return Corrupted(env, corrupt)

        assert found(make) == [("defect", "reused", "observation['a']")]

    def test_a_dict_that_is_filled_again_is_found(self):
        def make():
            kept = {}

            def corrupt(result):
                kept.update(result[0])
                return (kept, *result[1:])

            return Corrupted(SpaceEnv(copy.deepcopy(gs.Dict({"a": BOX}))), corrupt)

        assert found(make) == [("defect", "reused", "observation['a']")]

    def test_an_array_that_never_changes_may_be_returned_again(self):
        class Env(CountingEnv):
            def __init__(self):
                super().__init__()
                self.constant = np.zeros(2, np.float32)

            def _observation(self):
                return self.constant

        assert found(Env) == []


class TestExceptions:
    def test_one_in_step_is_reported_with_its_traceback_and_the_rest_goes_on(self):
        env = functools.partial(FaultEnv, "exc", episode=1, length=5)
        report = check(env)
        (finding,) = report.defects + report.warnings
        assert (finding.kind, finding.field) == ("raised ValueError", "step()")
        assert str(finding.place) == "step() at step 3 of episode 1"
        assert "something broke, with action" in finding.text
        assert "fault_env.py" in finding.traceback_text
        assert "attempt.py" not in finding.traceback_text
        assert "something broke" in str(report)
        assert report.facts["steps"] == 40
        assert report.facts["episodes"] > 5

    def test_one_in_every_step_ends_the_run_but_hides_no_other_defect(self):
        class Env(CountingEnv):
            def reset(self, **keywords):
                return super().reset(**keywords)[0].astype(np.float64), {}

            def step(self, action):
                raise RuntimeError("never works")

        report = check(Env, steps=1000)
        kinds = {each.kind: each.counts for each in report.defects}
        assert kinds["dtype"] == {"reset()": 10}
        assert kinds["raised RuntimeError"] == {"step()": 10}
        assert not report.warnings

    def test_one_in_reset_is_reported(self):
        class Env(CountingEnv):
            def reset(self, **keywords):
                raise KeyError("map")

        report = check(Env)
        (finding,) = report.defects
        assert (finding.kind, finding.field) == ("raised KeyError", "reset()")
        assert finding.counts == {"reset()": 2}

    def test_one_in_the_constructor_is_reported(self):
        report = check(functools.partial(FaultEnv, "exc", phase="construct"))
        (finding,) = report.defects
        assert (finding.kind, finding.field) == ("raised ValueError", "constructor")
        assert "something broke" in finding.traceback_text
        assert report.facts["observation_space"] is None

    def test_one_in_close_is_reported(self):
        report = check(functools.partial(FaultEnv, "exc", phase="close"))
        (finding,) = report.defects
        assert (finding.kind, finding.field) == ("raised ValueError", "close()")

    @pytest.mark.parametrize("mode", ["exc_str", "exc_bytes", "exc_percent", "sysexit"])
    def test_one_that_cannot_be_printed_is_reported_too(self, mode):
        report = check(functools.partial(FaultEnv, mode))
        assert [each.field for each in report.defects] == ["step()"]
        assert str(report)

    def test_an_interrupt_is_the_users_and_closes_what_was_made(self):
        closed = []

        class Env(FaultEnv):
            def close(self):
                closed.append(self)

        with pytest.raises(KeyboardInterrupt):
            check(functools.partial(Env, "keyboard"))
        assert len(closed) == 1


class TestSignatures:
    def test_a_reset_without_parameters_is_found_and_stepped_nevertheless(self):
        class Env(CountingEnv):
            def reset(self):
                return super().reset()

        report = check(Env)
        kinds = [(each.kind, each.field) for each in report.defects]
        assert kinds == [("no seed", "reset()"), ("no options", "reset()")]
        assert "def reset(self, *, seed=None, options=None)" in report.defects[0].text
        assert report.facts["steps"] == 40
        assert report.facts["reproducible"] is None

    def test_a_wrapper_that_takes_no_seed_is_named(self):
        class Forgetful(gymnasium.Wrapper):
            def reset(self, options=None):
                return self.env.reset(options=options)

        report = check(lambda: Forgetful(gymnasium.wrappers.Autoreset(CountingEnv())))
        (finding,) = report.defects
        assert "reset() of Forgetful takes no seed" in finding.text

    def test_a_parameter_without_default_is_found(self):
        class Env(CountingEnv):
            def reset(self, seed, options=None):
                return super().reset(seed=seed)

        report = check(Env)
        kinds = [each.kind for each in report.defects]
        assert kinds[0] == "required"
        assert "missing a required argument: 'seed'" in report.defects[0].text

    def test_keywords_of_any_name_are_accepted(self):
        class Env(CountingEnv):
            def reset(self, **keywords):
                return super().reset(**keywords)

        assert found(Env) == []


class TestReproducibility:
    @pytest.mark.parametrize("where", ["reset", "step"])
    def test_numbers_that_no_seed_governs_are_a_warning(self, where):
        class Env(Noise):
            generator = np.random.default_rng()

            def draw(self):
                seeded = (self._step == 0) == (where == "step")
                return (self.np_random if seeded else self.generator).random(
                    2, np.float32
                )

        report = check(Env)
        (finding,) = report.warnings
        assert report.ok
        assert (finding.kind, finding.field) == ("not reproducible", "reset(seed)")
        assert finding.place.call == f"{where}()"
        assert "self.np_random" in finding.text
        assert report.facts["reproducible"] is False

    def test_a_generator_of_the_constructor_is_found(self):
        class Env(Noise):
            def __init__(self):
                super().__init__()
                self.generator = np.random.default_rng(0)

            def draw(self):
                return self.generator.random(2, np.float32)

        assert found(Env) == [("warning", "not reproducible", "reset(seed)")]

    def test_a_seed_of_zero_taken_for_none_is_found(self):
        class Env(Noise):
            def reset(self, *, seed=None, options=None):
                return super().reset(seed=seed or None)

        assert found(Env) == [("warning", "not reproducible", "reset(seed)")]

    def test_what_the_constructor_draws_is_found(self):
        class Env(Noise):
            def __init__(self):
                super().__init__()
                self.offset = np.random.default_rng().random(2, np.float32) / 2

            def draw(self):
                return super().draw() / 2 + self.offset

        assert found(Env) == [("warning", "not reproducible", "constructor")]

    def test_state_shared_by_instances_is_found(self):
        space = gs.Box(0, 1, (2,), np.float32)  # whose generator is seeded by reset

        report = check(lambda: SpaceEnv(space))
        (finding,) = report.warnings
        assert finding.field == "constructor"
        assert "not in classes or modules" in finding.text

    def test_info_may_hold_the_time(self):
        def change(result):
            return (*result[:-1], {"time": np.random.default_rng().random()})

        assert found(lambda: Corrupted(CountingEnv(), change)) == []

    def test_a_constructor_that_returns_one_object_is_a_defect(self):
        env = CountingEnv()
        assert found(lambda: env) == [("defect", "shared", "constructor")]

    def test_an_environment_that_is_alone_in_its_process_is_a_warning(self):
        class Env(CountingEnv):
            taken = False

            def __init__(self):
                super().__init__()
                if Env.taken:
                    raise OSError("port 4000 is in use")
                Env.taken = True

            def close(self):
                Env.taken = False

        report = check(Env)
        (finding,) = report.defects + report.warnings
        assert (finding.level, finding.kind) == ("warning", "alone")
        assert "port 4000 is in use" in finding.text
        assert "num_workers=num_envs" in finding.text


def test_an_action_that_step_changes_in_place_is_found():
    class Env(CountingEnv):
        def __init__(self):
            super().__init__()
            self.action_space = gs.Box(-1, 1, (2,), np.float32)

        def step(self, action):
            action *= 2
            return super().step(action)

    report = check(Env)
    (finding,) = report.defects + report.warnings
    assert (finding.kind, finding.field) == ("changed", "action")
    assert "np.array(action)" in finding.text


class TestSpaces:
    @pytest.mark.parametrize("inside", [False, True])
    def test_a_space_that_changes_is_found(self, inside):
        class Env(CountingEnv):
            def reset(self, **keywords):
                if inside:
                    self.action_space.n = np.int64(3)
                else:
                    self.action_space = gs.Discrete(3)
                return super().reset(**keywords)

        report = check(Env)
        (finding,) = report.defects + report.warnings
        assert (finding.kind, finding.field) == ("changed", "action_space")
        assert "was Discrete(2) and became Discrete(3)" in finding.text

    def test_a_new_but_equal_space_in_every_call_is_fine(self):
        class Env(CountingEnv):
            action_space = property(
                lambda self: gs.Discrete(2), lambda self, value: None
            )

        assert found(Env) == []

    @pytest.mark.parametrize("name", ["observation_space", "action_space"])
    def test_an_unsupported_space_hides_nothing_else(self, name):
        class Env(CountingEnv):
            def __init__(self):
                super().__init__()
                setattr(self, name, gs.Text(4))

            def step(self, action):
                return (*super().step(action)[:4], None)

        assert found(Env) == [
            ("defect", "unsupported", name),
            ("defect", "type", "info"),
        ]

    def test_what_is_no_space_is_found(self):
        class Env(CountingEnv):
            def __init__(self):
                super().__init__()
                self.action_space = 2

        assert found(Env) == [("defect", "unsupported", "action_space")]

    @pytest.mark.parametrize(
        ("space", "text"),
        [
            (gs.Box(-2, 2, (1,), np.float32), "RescaleAction"),
            (gs.Box(0, 1, (1,), np.float32), "RescaleAction"),
            (gs.Box(-np.inf, np.inf, (1,), np.float32), "bound it"),
            (gs.Dict({"x": gs.Box(-2, 2, (1,), np.float32)}), "action_space.'x'."),
        ],
    )
    def test_another_scale_of_actions_is_a_hint_only(self, space, text):
        report = check(of_space(BOX, action_space=space))
        assert not report.defects + report.warnings
        (hint,) = report.hints
        assert hint.kind == "scale"
        with pytest.raises(AssertionError, match=text):
            raise AssertionError(hint.text)

    def test_normalised_actions_give_no_hint(self):
        assert not check(of_space(BOX, action_space=BOX)).hints


class TestEnds:
    def test_an_environment_without_end_is_a_warning(self):
        report = check(functools.partial(CountingEnv, 10**9))
        (finding,) = report.defects + report.warnings
        assert (finding.level, finding.kind) == ("warning", "never ends")
        assert "gymnasium.wrappers.TimeLimit" in finding.text

    def test_a_time_limit_that_was_not_reached_is_a_hint(self):
        def make():
            return gymnasium.wrappers.TimeLimit(CountingEnv(10**9), 10**6)

        report = check(make)
        assert not report.defects + report.warnings
        assert [each.kind for each in report.hints] == ["never ends"]
        assert report.facts["max_episode_steps"] == 10**6

    def test_a_step_after_the_end_that_goes_on_is_a_hint(self):
        class Env(CountingEnv):
            def step(self, action):
                result = super().step(action)
                if result[2]:
                    super().reset()
                return result

        report = check(Env)
        assert not report.defects + report.warnings
        assert [each.kind for each in report.hints] == ["goes on"]
        assert report.facts["after_end"] == "goes on"

    def test_a_step_after_the_end_may_raise(self):
        class Env(CountingEnv):
            def step(self, action):
                if self._step == self._length:
                    raise RuntimeError("call reset")
                return super().step(action)

        report = check(Env)
        assert not report.findings
        assert report.facts["after_end"] == "raises RuntimeError"


def test_all_defects_are_raised_at_once_with_what_to_do():
    def change(o, r, e, u, i):
        return o[:1].astype(np.float64), np.array([r]), int(e), None, []

    with pytest.raises(UserError) as caught:
        tfb.check_env(stepping(change), steps=20)
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
        "longest_episode": 5,
        "reward": (1.0, 5.0),
        "after_end": "stays ended",
        "reproducible": True,
    }
    assert str(report).splitlines()[0].endswith("CountingEnv: no defects")


def test_an_instance_is_checked_and_not_closed():
    closed = []

    class Env(CountingEnv):
        def close(self):
            closed.append(True)

    env = Env()
    assert check(env).facts["reproducible"] is True
    assert closed == []
    assert check(Env).ok
    assert closed == [True, True]


def test_arguments_reach_the_environment():
    report = check("tfagents_batch.envs.testing:CountingEnv", env_kwargs={"length": 7})
    assert report.facts["longest_episode"] == 7


def test_masked_actions_are_not_taken():
    class Env(gymnasium.Env):
        def __init__(self):
            self.action_space = gs.MultiDiscrete([3, 2])
            mask = gs.Box(0, 1, (5,), np.int8)
            self.observation_space = gs.Dict({"action_mask": mask, "x": BOX})
            self._step = 0

        def _observation(self):
            mask = np.array([0, 1, 0, 0, 1], np.int8)
            return {"action_mask": mask, "x": np.zeros(3, np.float32)}

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self._step = 0
            return self._observation(), {}

        def step(self, action):
            if action.tolist() != [1, 1]:
                raise ValueError(f"{action} is masked")
            self._step += 1
            return self._observation(), 0.0, self._step == 3, False, {}

    assert found(Env) == []


@pytest.mark.parametrize("made", [None, 3, gymnasium.vector.SyncVectorEnv])
def test_a_constructor_that_returns_no_environment_is_found(made):
    if made is gymnasium.vector.SyncVectorEnv:
        made = made([CountingEnv])
    assert found(lambda: made) == [("defect", "type", "constructor")]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"env": "CartPol-v1"}, "did you mean 'CartPole-v1'"),
        ({"env": 3}, "env is of type"),
        ({"env": CountingEnv, "steps": 0}, "steps is 0; expected an integer, at least"),
        ({"env": CountingEnv, "steps": 1.5}, "steps is 1.5"),
        ({"env": CountingEnv, "seed": -1}, "seed is -1"),
        ({"env": CountingEnv(), "env_kwargs": {"length": 3}}, "made already"),
    ],
)
def test_arguments_that_cannot_be_used_are_refused(arguments, message):
    with pytest.raises(UserError, match=message):
        tfb.check_env(**arguments, raise_on_defect=False)


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("CartPole-v1", "gymnasium"),
        ("Pendulum-v1", "gymnasium"),
        ("Acrobot-v1", "gymnasium"),
        ("FrozenLake-v1", "gymnasium"),
        ("Blackjack-v1", "gymnasium"),
        ("HalfCheetah-v5", "mujoco"),
        ("ALE/Pong-v5", "ale_py"),
    ],
)
def test_gymnasiums_environments_have_no_defects(name, module):
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("default")  # packages of games warn of their own affairs
        report = check(name, steps=300)
    assert not report.defects + report.warnings, str(report)
    assert report.facts["reproducible"] is True


@settings(max_examples=30, deadline=None)
@given(observation_space=any_space(), action_space=any_space())
def test_samples_of_any_space_are_no_defect(observation_space, action_space):
    make = of_space(observation_space, action_space=action_space)
    assert found(make, steps=10) == []


def test_checking_loads_no_tensorflow():
    code = (
        "import sys\nimport tfagents_batch as tfb\n"
        "assert tfb.check_env('CartPole-v1', steps=50).ok\n"
        "assert 'tensorflow' not in sys.modules"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
