import re

import pytest

from tests.support import fault_env
from tests.support.backends import on_backends, one_backend
from tests.support.fault_env import fault_envs
from tfagents_batch.envs.shared import failures
from tfagents_batch.envs.worker.construction import env_seed
from tfagents_batch.errors import EnvError, RemoteError


@on_backends("place", portable=[(0, 0, 2)], native=[(8, 1, 1)])
def test_the_error_says_where_it_happened(drive, place):
    step, episode, target = place
    constructors = fault_envs("exc", 4, step=step, episode=episode, target=target)
    texts = []
    for num_workers in (0, 2):
        error = drive(constructors, num_workers, steps=25)
        assert type(error) is EnvError
        assert (error.env, error.episode, error.step) == (target, episode, step)
        assert error.worker == (target // 2 if num_workers else None)
        assert (error.seed, error.action) == (env_seed(3, target), "0")
        assert error.phase == "step"
        texts.append(re.sub(r"worker \d, ", "", str(error)))
    assert texts[0] == texts[1]


@one_backend
def test_the_message_has_the_documented_form_and_the_traceback(drive):
    error = drive(fault_envs("exc", 4))
    first, _, rest = str(error).partition("\n")
    assert first == (
        f"env 3 (worker 0, seed {error.seed}) raised ValueError in step() at step 3 of "
        "episode 0, action 0: something broke"
    )
    assert re.search(r'fault_env\.py", line \d+, in _fail', rest)
    assert "stepper.py" not in rest


@one_backend
def test_the_cause_is_the_exception_in_process_and_its_text_from_a_worker(drive):
    assert type(drive(fault_envs("exc"), 0).__cause__) is ValueError
    cause = drive(fault_envs("exc"), 1).__cause__
    assert type(cause) is RemoteError
    assert (cause.type_name, cause.text) == ("ValueError", "something broke")
    assert "Traceback" in cause.traceback_text


EXCEPTIONS = {
    "exc_local_class": ("_local_class.<locals>.Local", "of a local class"),
    "exc_two_args": ("TwoArguments", "two arguments (7)"),
    "exc_percent": ("ValueError", "100% of %s and %d {braces}"),
    "exc_str": ("Unprintable", "<its text is unavailable: RuntimeError>"),
    "exc_bytes": ("ValueError", r"\udcff\udcfe"),
    "sysexit": ("SystemExit", "5"),
    "keyboard": ("KeyboardInterrupt", ""),
}


@pytest.mark.parametrize("mode", EXCEPTIONS)
def test_any_exception_has_a_description(mode):
    type_name, text = EXCEPTIONS[mode]
    found = failures.describe(fault_env._RAISES[mode]())
    assert found["type_name"].endswith(type_name) and text in found["text"]


# Workers of both backends have the same code for it.
@on_backends("mode", portable=["exc_bytes", "sysexit"], native=["keyboard"])
def test_exceptions_are_sent_from_workers_as_text(drive, mode):
    type_name, text = EXCEPTIONS[mode]
    error = drive(fault_envs(mode))
    assert type(error) is EnvError
    assert error.__cause__.type_name.endswith(type_name)
    assert text in error.__cause__.text
    assert f"{type_name} in step() at step 3" in str(error)
    str(error).encode("utf-8")


def test_texts_are_bounded_and_keep_both_ends():
    error = ValueError("begin" + "x" * 10**6 + "end")
    text = failures.describe(error)["text"]
    assert len(text) < failures.LIMIT + 100
    assert text.startswith("begin") and text.endswith("end")


@pytest.mark.parametrize("num_workers", [0, 2])
def test_rows_after_a_failure_repeat_the_last_valid_observation(make_pool, num_workers):
    pool = make_pool(fault_envs("exc", 4, target=1), num_workers)
    pool.reset(3)
    good = pool.steps(3)
    failed = pool.steps()
    assert failed.observation[0][1].tolist() == good.observation[0][1].tolist()
    assert failed.reward.tolist() == [4, 0, 4, 4]  # the others continue
    invalid = failed.first & failed.truncated
    assert invalid.tolist() == [False, True, False, False]
    later = pool.steps()
    assert (later.first & later.truncated).all()
    assert later.observation[0].tolist() == failed.observation[0].tolist()
    assert not later.reward.any() and not later.terminated.any()


def test_a_failure_is_raised_once_and_named_on_later_use(make_pool):
    pool = make_pool(fault_envs("exc", 4), 2)
    pool.reset(3)
    pool.steps(5)
    with pytest.raises(EnvError, match="something broke"):
        pool.check()
    pool.check()
    for use in (lambda: pool.reset(3), lambda: pool.steps()):
        use()
        with pytest.raises(
            EnvError, match="the environments are closed after EnvError in env 3"
        ):
            pool.check()


@on_backends("num_workers", portable=[0, 1], native=[3])
def test_the_failure_of_the_first_row_is_raised_if_there_are_several(
    drive, num_workers
):
    constructors = [*fault_envs(None, 1), *fault_envs("exc", 2, target=1)[1:] * 2]
    assert drive(constructors, num_workers).env == 1
