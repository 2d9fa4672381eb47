import signal
import threading

import pytest

from tfagents_batch.envs.processes import owner_thread
from tfagents_batch.envs.processes.owner_thread import Abandoned, Owner

SECONDS = 20  # longest wait of a test


def never() -> bool:
    return False


def elsewhere(function):
    """Run a function in another thread to its end; return its result."""
    found = []
    thread = threading.Thread(target=lambda: found.append(function()), daemon=True)
    thread.start()
    thread.join(SECONDS)
    assert found, "the other thread did not end"
    return found[0]


def test_a_program_runs_beside_the_owner_and_its_calls_run_in_the_owner():
    owner = owner_thread.current()

    def program():
        return threading.get_ident(), owner.call(threading.get_ident, never)

    helper, called = owner.run(program, interrupted=lambda: None)
    assert helper != threading.get_ident() == called


def test_calls_run_where_they_are_made_while_the_owner_does_not_wait():
    owner = owner_thread.current()
    assert owner.call(threading.get_ident, never) == threading.get_ident()
    there, called = elsewhere(
        lambda: (threading.get_ident(), owner.call(threading.get_ident, never))
    )
    assert there == called


def test_each_thread_has_its_own_owner():
    assert owner_thread.current() is owner_thread.current()
    assert elsewhere(owner_thread.current) is not owner_thread.current()


def test_exceptions_of_calls_and_programs_arrive_where_they_belong():
    owner = Owner()

    def program():
        with pytest.raises(ZeroDivisionError):
            owner.call(lambda: 1 / 0, never)
        raise KeyError("of the program")

    with pytest.raises(KeyError, match="of the program"):
        owner.run(program, interrupted=lambda: None)
    assert owner.run(lambda: 3, interrupted=lambda: None) == 3


def test_a_call_may_run_a_program_itself():
    owner = Owner()

    def inner():
        return owner.run(
            lambda: owner.call(threading.get_ident, never), interrupted=lambda: None
        )

    found = owner.run(lambda: owner.call(inner, never), interrupted=lambda: None)
    assert found == threading.get_ident()


@pytest.mark.parametrize("place", ["in a call", "between calls"])
def test_ctrl_c_ends_the_program_and_is_raised_in_the_owner(place):
    owner, ending, found = Owner(), threading.Event(), []

    def interrupt():
        signal.raise_signal(signal.SIGINT)

    def program():
        try:
            if place == "in a call":
                owner.call(interrupt, ending.is_set)
            else:
                signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
                assert ending.wait(SECONDS)
                owner.call(lambda: None, ending.is_set)
        except Abandoned:
            found.append("abandoned")
        found.append("ended")

    with pytest.raises(KeyboardInterrupt):
        owner.run(program, interrupted=ending.set)
    assert found[-1] == "ended"
    assert ("abandoned" in found) == (place == "in a call")


def test_a_call_is_given_up_when_its_end_is_wanted_but_the_owner_hangs():
    owner, hangs, ending = Owner(), threading.Event(), threading.Event()

    def program():
        def stop():
            ending.set()

        threading.Timer(0.1, stop).start()
        with pytest.raises(Abandoned):
            owner.call(lambda: hangs.wait(SECONDS), ending.is_set)
        hangs.set()
        return "returned"

    assert owner.run(program, interrupted=lambda: None) == "returned"


def test_a_call_that_nobody_waits_for_is_made_before_the_owner_goes_on():
    owner, began, made = Owner(), threading.Event(), []

    def program():
        def hold():
            began.set()
            return elsewhere(give_up)

        def give_up():
            with pytest.raises(Abandoned):
                owner.call(lambda: made.append(threading.get_ident()), lambda: True)

        owner.call(hold, never)

    owner.run(program, interrupted=lambda: None)
    assert began.is_set() and made == [threading.get_ident()]
