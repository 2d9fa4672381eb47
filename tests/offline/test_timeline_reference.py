"""Samples of random rows, compared with a slow loop over each episode."""

import itertools
import random

import pytest

from tests.support import logged

LAST_ROWS = "terminal", "drop", "horizon_keep"
ENDS = {
    "none": {},
    "terminated": {"terminated": True},
    "truncated": {"truncated": True},
    "state": {"truncated": True, "final_state_features": {0: -1.0}},
}


def episodes(seed):
    """Yield the rows of episodes with random rewards, times and ends."""
    draw = random.Random(seed)
    for number in range(60):
        times = sorted(draw.sample(range(50), draw.randint(1, 7)))
        rows = [
            {
                "ds": f"2026-01-0{1 + k % 3}",
                "mdp_id": f"mdp{number}",
                "sequence_number": time,
                "state_features": {0: draw.random()},
                "action": draw.choice("abc"),
                "action_probability": 0.5,
                "reward": draw.gauss(0, 1),
                "metrics": {"m": draw.random()} if draw.random() < 0.7 else {},
            }
            for k, time in enumerate(times)
        ]
        end = draw.choice([*ENDS, "marker"])
        rows[-1] |= ENDS.get(end, {})
        if end == "marker":
            rows.append({**rows[-1], "sequence_number": 60, "action": ""})
        yield rows, end


def expected(rows, end, n, gamma, by_time, unit, last_row):
    """Yield the samples of an episode by the definition."""
    marker = rows[-1] if end == "marker" else None
    rows = rows[: len(rows) - (marker is not None)]
    last = rows[-1]
    terminal = end in ("marker", "terminated")
    terminal |= end == "none" and last_row == "terminal"
    beyond = terminal or end == "state"
    kept = end == "none" and last_row == "horizon_keep"
    for k, row in enumerate(rows):
        left = len(rows) - 1 - k
        h = min(n, left + beyond)
        if not h and not kept:
            continue
        nexts = rows[k + h] if h <= left else marker
        time = last["sequence_number"] if nexts is None else nexts["sequence_number"]
        time -= row["sequence_number"]
        if h > left and end == "state":
            time += unit
        state, action = {}, ""
        if h and nexts is not None:
            state, action = nexts["state_features"], nexts["action"]
        elif h and end == "state":
            state = last["final_state_features"]
        reward = metric = 0.0
        for i, other in enumerate(rows[k : k + max(h, 1)]):
            passed = other["sequence_number"] - row["sequence_number"]
            factor = gamma ** (passed / unit if by_time else i)
            reward += factor * other["reward"]
            metric += factor * other["metrics"].get("m", 0.0)
        yield {
            "key": (row["mdp_id"], row["sequence_number"]),
            "reward": reward,
            "metric": metric,
            "state": state,
            "action": action,
            "time": time if h else 0,
            "step": max(h, 1),
            "not_terminal": h > 0 and not (terminal and h > left),
            "discount": gamma ** (time / unit if by_time else h),
        }


def actual(sample):
    return {
        "key": (sample["mdp_id"], sample["sequence_number"]),
        "reward": sample["reward"],
        "metric": sample["metrics"].get("m", 0.0),
        "state": sample["next_state_features"],
        "action": sample["next_action"],
        "time": sample["time_diff"],
        "step": sample["step"],
        "not_terminal": sample["not_terminal"],
        "discount": sample["discount"],
    }


@pytest.mark.parametrize("seed, last_row", [*enumerate(LAST_ROWS)])
@pytest.mark.parametrize("n_step, discount", [(1, "step"), (3, "step"), (4, "time")])
def test_samples_equal_those_of_the_definition(
    tmp_path, seed, last_row, n_step, discount
):
    found = [*episodes(seed)]
    rows = [*itertools.chain(*(rows for rows, _ in found))]
    random.Random(seed).shuffle(rows)
    settings = {"n_step": n_step, "discount": discount, "last_row": last_row}
    settings |= {"gamma": 0.9, "time_unit": 4}
    _, samples = logged.build(rows, tmp_path, **settings)
    rule = n_step, 0.9, discount == "time", 4, last_row
    wanted = [x for rows, end in found for x in expected(rows, end, *rule)]
    wanted.sort(key=lambda sample: sample["key"])
    assert len(samples) == len(wanted) > 150
    for sample, want in zip(samples, wanted, strict=True):
        have = actual(sample)
        for name in ("reward", "metric", "discount"):
            assert have.pop(name) == pytest.approx(want.pop(name), abs=1e-12), want
        assert have == want
