"""The users of examples/notifications, and the exact values of their policies."""

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys

import numpy as np
import pytest

import tfagents_batch as tfb
from examples.notifications import dynamics, simulator
from tfagents_batch.offline.features.find import find
from tfagents_batch.offline.reader import open_rows
from tfagents_batch.offline.validator import Options, validate
from tfagents_batch.offline.writer import RowLogger

ROOT = pathlib.Path(__file__).parents[2]


def test_values_are_those_of_the_linear_solve_of_the_specification():
    interest, fatigue, kind = np.indices(dynamics.SHAPE)
    best = dynamics.optimal()
    predicted = dynamics.predicted_rate(interest, kind)
    policies = {
        0.628888: dynamics.logger(),
        1.167643: best,
        1.086483: 0.9 * best + 0.1 * 0.5,
        0.948033: dynamics.click_rate(interest, fatigue, kind) > dynamics.PRICE,
        0.869130: predicted > 0.08,
        0.322062: np.full(dynamics.SHAPE, 0.5),
        0.321318: np.zeros(dynamics.SHAPE),
        -0.035215: np.ones(dynamics.SHAPE),
    }
    for expected, policy in policies.items():
        assert dynamics.value(1.0 * policy) == pytest.approx(expected, abs=1e-6)
    values = dynamics.action_values(best)[1, 0]
    expected = [1.019457, 1.090220, 1.231745, 1.467620]
    np.testing.assert_allclose(values[:, 1], expected, atol=1e-6)
    np.testing.assert_allclose(values[:, 0], 1.108201, atol=1e-6)
    sends = ((fatigue == 0) & (kind >= 2)) | ((fatigue == 1) & (kind == 3))
    np.testing.assert_array_equal(best, sends)


def test_simulated_returns_are_those_of_the_exact_values():
    def best(names, step, features):
        rate, fatigue = features[:, 1], features[:, 2]
        interest = np.abs(features[:, 0] - simulator.SCORES[:, None]).argmin(0)
        kinds = np.abs(rate - dynamics.predicted_rate(interest, np.c_[:4])).argmin(0)
        send = dynamics.optimal()[interest, fatigue.astype(int), kinds] == 1
        return send, np.ones(len(names))

    logged = simulator.logging_policy(0)
    for policy, exact in ((logged, 0.628888), (best, 1.167643)):
        returns = simulator.play(policy, 20_000, seed=0)
        error = 3 * returns.std() / np.sqrt(len(returns))
        assert returns.mean() == pytest.approx(exact, abs=error)


def test_logged_rows_are_valid_and_have_all_types_of_features(tmp_path):
    with RowLogger(tmp_path) as logger:
        play = simulator.logging_policy(0), 600, 0
        simulator.play(*play, lambda decided: logger.log(*simulator.rows(decided)))
    weights = {"click": 1.0, "send": -dynamics.PRICE, "activity": 1.0}
    with open_rows(tmp_path) as rows:
        assert not validate(rows, options=Options(metric_weights=weights)).findings
        found = find(rows).specification.features
        sent = rows.fetch(
            "SELECT action_probability FROM rows WHERE action = 'send' "
            "AND abs(state_features[1] - 0.08) < 1e-6"
        )
    types = {feature.feature_type for feature in found.values()}
    expected = {"PROBABILITY", "CONTINUOUS", "ENUM", "BOXCOX", "QUANTILE", "BINARY"}
    assert types == expected
    np.testing.assert_allclose(sent, 0.5, atol=1e-6)


def test_the_environment_is_one_of_gymnasium():
    assert tfb.check_env(simulator.Notifications, steps=100).ok
    env = simulator.Notifications()
    env.reset(seed=0)
    rewards, left = [], False
    while not left:
        _, reward, left, _, _ = env.step(0)
        rewards.append(reward)
    assert set(rewards) <= {0.0, 0.02, 0.05}


@pytest.mark.slow
def test_the_page_goes_around_the_circle_by_its_commands_alone(tmp_path):
    page = (ROOT / "docs/circle.md").read_text().partition("## Five agents")[0]
    blocks = re.findall(r"^```\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    paths = (str(pathlib.Path(sys.executable).parent), os.environ["PATH"])
    settings = {"PATH": os.pathsep.join(paths), "PYTHONPATH": str(ROOT)}
    running = subprocess.Popen(
        ["bash", "-e", "-c", "".join(blocks)],
        cwd=tmp_path,
        env=os.environ | settings,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        printed, _ = running.communicate(timeout=1800)
    finally:  # a command that failed leaves the server
        with contextlib.suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)
    assert running.returncode == 0, printed
    means = [float(x) for x in re.findall(r"mean return (\S+)", printed)]
    values = [
        json.loads((tmp_path / f"decision-{number}/gate.json").read_text())
        for number in (1, 2)
    ]
    assert [found["verdict"] for found in values] == ["deploy", "deploy"]
    assert means == sorted(means)
    values = [float(x) for x in re.findall(r"true value (\S+),", printed)]
    assert len(values) == 2 and values[0] > 1.0
    assert values[1] > 0.85  # of the run in the simulator
