"""The model of cells: exact values, reach and visits in a small chain."""

import numpy as np
import pytest

from tfagents_batch.evaluation import cells


def chain(rows, policy):
    """Return the order of the states, the model of a chain, and its starts.

    The chain is 0 -> 1 -> end; action 1 ends at once.

    Args:
      rows: number of rows of each (state, action).
      policy: pi_e, ``[2, 2]``.
    """
    state, action = np.repeat([(s, a) for s in (0, 1) for a in (0, 1)], rows, 0).T
    goes_on = (state == 0) & (action == 0)
    after = np.where(goes_on, 1, 0)
    states = np.eye(2)[state]
    found = cells.find(states, 2)
    order = cells.number(found, np.eye(2))
    first = np.zeros(10, int)
    policy = np.asarray(policy, float)
    model = cells.model(
        found,
        order[state],
        action,
        order[after],
        policy[after],
        0.9 * goes_on,
        np.where(action == 0, 1.0, 0.5)[:, np.newaxis],
    )
    return order, model, cells.starts(found, order[first], policy[first])


def test_values_are_those_of_the_evaluated_policy():
    order, model, _ = chain([20, 20, 20, 20], [[0.5, 0.5], [0.25, 0.75]])
    values = cells.values(model)[..., 0]
    second = 0.25 * 1 + 0.75 * 0.5
    assert values[order[1]] == pytest.approx([1, 0.5])
    assert values[order[0]] == pytest.approx([1 + 0.9 * second, 0.5])


def test_an_action_without_rows_is_worth_an_average_one():
    order, model, _ = chain([20, 0, 20, 60], [[1, 0], [0, 1]])
    values = cells.values(model)[..., 0]
    assert values[order[0]] == pytest.approx([1.45, 1.45])
    assert values[order[1]] == pytest.approx([1, 0.5])


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([20, 20, 20, 20], 0.0),
        ([20, 20, 20, 4], 0.9 * 0.5 * 0.75),
        ([20, 0, 20, 20], 0.5),
    ],
)
def test_reach_is_the_chance_of_a_rare_decision(rows, expected):
    _, model, start = chain(rows, [[0.5, 0.5], [0.25, 0.75]])
    assert cells.reach(model, start) == pytest.approx(expected)


def test_visits_of_a_policy_per_row():
    order, model, start = chain([10, 20, 30, 40], [[0.5, 0.5], [0.25, 0.75]])
    found = cells.occupancy(model, start)[order]
    expected = [[0.5 / 10, 0.5 / 20], [0.45 * 0.25 / 30, 0.45 * 0.75 / 40]]
    np.testing.assert_allclose(found, expected)


def test_many_states_become_groups_of_similar_ones():
    random = np.random.default_rng(0)
    states = random.normal(size=[5000, 3]) + 10 * random.integers(0, 2, [5000, 1])
    found = cells.find(states, 2)
    assert not found.exact
    assert 10 < found.number <= 100
    side = states.mean(1) > 5
    number = cells.number(found, states)
    assert not set(number[side]) & set(number[~side])
