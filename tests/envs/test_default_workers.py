import pytest
from gymnasium.envs.classic_control import CartPoleEnv

from tfagents_batch.envs import default_workers, make, registry
from tfagents_batch.envs.shared import cpus


@pytest.fixture
def cores(monkeypatch):
    """Give this process four cores."""
    monkeypatch.setattr(cpus, "available", lambda: [0, 1, 2, 3])


@pytest.fixture
def measured(monkeypatch):
    """Return a list; steps of measured environments take its last number of us."""
    found = [10.0]
    monkeypatch.setattr(default_workers, "step_microseconds", lambda make: found[-1])
    return found


def choose(env, num_envs, **options):
    return default_workers.choose(env, registry.constructor(env), num_envs, **options)


def test_one_worker_steps_small_environments_and_one_per_core_others(cores, measured):
    few = choose("CartPole-v1", 8)
    assert few.num_workers == 1 and few.reason.startswith("they are quick")
    many = choose("CartPole-v1", 10)
    assert (
        many.num_workers is None
        and many.reason == "they are slow, a step of all takes 100 us"
    )


def test_only_environments_without_effects_outside_are_stepped(cores, monkeypatch):
    def forbidden(make):
        raise AssertionError("it was stepped")

    monkeypatch.setattr(default_workers, "step_microseconds", forbidden)
    unknown = default_workers.Choice(None, "")
    name = "tfagents_batch.envs.testing:CountingEnv"
    for env in (lambda: CartPoleEnv(), CartPoleEnv, name):
        assert choose(env, 8) == unknown
    assert choose("CartPole-v1", 1) == choose("CartPole-v1", 8, groups=2) == unknown
    window = {"render_mode": "human"}
    assert choose("CartPole-v1", 8, env_kwargs=window) == unknown


def test_a_step_is_measured_on_a_copy_that_is_closed():
    class Closing(CartPoleEnv):
        closed = 0

        def close(self):
            Closing.closed += 1

    assert 0 < default_workers.step_microseconds(Closing) < 1e6
    assert Closing.closed == 1


def test_an_environment_that_cannot_be_created_is_left_to_the_workers(cores):
    make = registry.constructor("CartPole-v1", {"gravitation": 9.8})
    found = default_workers.choose("CartPole-v1", make, 8)
    assert found == default_workers.Choice(None, "")


@pytest.mark.any_backend
@pytest.mark.parametrize(("given", "expected"), [(None, 1), (2, 2)])
def test_a_number_that_is_given_is_used(cores, measured, given, expected):
    measured.append(1.0)
    with make.make_env("CartPole-v1", 8, given, pin_workers=False) as env:
        assert env.num_workers == expected
        assert bool(env.workers_reason) == (given is None)
