import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tfagents_batch.clocks import Every, EverySeconds
from tfagents_batch.errors import UserError


@given(st.integers(0, 50), st.lists(st.integers(1, 40), max_size=40), st.booleans())
def test_every_fires_when_n_steps_have_passed_since_it_last_fired(n, jumps, first):
    clock, step, last = Every(n, first), 0, None if first else 0
    for jump in jumps:
        step += jump
        due = n > 0 and (last is None or step - last >= n)
        assert clock.due(step) == due
        assert clock(step) == due
        last = step if due else last


@pytest.mark.parametrize("n", [-1, 2.5, "3", True])
def test_every_refuses_invalid_counts(n):
    with pytest.raises(UserError, match="n is "):
        Every(n)


def test_seconds_count_from_the_last_firing():
    now = [100.0]
    clock = EverySeconds(60, clock=lambda: now[0])
    fired = []
    for now[0] in (100.0, 159.0, 161.0, 219.0, 221.0, 500.0, 501.0):
        fired.append(clock())
    assert fired == [False, False, True, False, True, True, False]
    now[0] = 10**6
    assert not EverySeconds(0, clock=lambda: now[0])()


@settings(max_examples=50)
@given(st.lists(st.integers(0, 30), min_size=2, max_size=20), st.data())
def test_clocks_continue_from_a_saved_state(jumps, data):
    cut = data.draw(st.integers(0, len(jumps)))
    for at_once in (False, True):
        whole, first, second = (Every(25, first=at_once) for _ in range(3))
        steps = np.cumsum(jumps).tolist()
        expected, found = [], []
        for index, step in enumerate(steps):
            if index == cut:
                second.restore(json.loads(json.dumps(first.state())))
            expected.append(whole(step))
            found.append((first if index < cut else second)(step))
        assert found == expected
