"""Reports of algorithms on the rows of a table."""

import gymnasium as gym
import numpy as np
import pytest

from tests.offline import timelines
from tfagents_batch import config
from tfagents_batch.algorithms import REGISTRY
from tfagents_batch.devices.placement import HOST
from tfagents_batch.logged import seen
from tfagents_batch.logged.table_settings import TableSettings
from tfagents_batch.offline import table_reader
from tfagents_batch.types import EnvSpec

SPEC = EnvSpec(1, gym.spaces.Box(-1, 1, (5,)), gym.spaces.Discrete(2), {})


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return timelines.build(tmp_path_factory.mktemp("walks"), timelines.walks(100))


def reporter(data, algorithm="dqn", table=(), spec=SPEC, **settings):
    kind, defaults = REGISTRY[algorithm]
    settings = {"network": {"hidden": [8]}} | settings
    agent = kind(config.replace(defaults(), settings), spec)
    return TableSettings(str(data), **dict(table)).evaluator(agent, HOST)


def evaluation_rows(data):
    """Return the half of the rows for evaluation that are reported on."""
    found = table_reader.partition(data)
    last = seen.reported(found).high
    return table_reader.of_split(found, table_reader.EVALUATE, 1000, last_key=last)


def test_rows_for_training_and_for_evaluation_have_td_errors(data):
    found = reporter(data)(0).metrics()
    size = len(evaluation_rows(data)["reward"])
    assert len(found["td_loss"]) == len(found["eval_td_loss"]) == size
    assert found["td_loss/mean"] == pytest.approx(found["td_loss"].mean())
    assert found["eval_td_loss/mean"] == pytest.approx(found["eval_td_loss"].mean())
    assert found["td_loss/mean"] != found["eval_td_loss/mean"]


def test_rows_that_choose_a_checkpoint_are_not_those_that_judge_it(data):
    found = table_reader.partition(data)
    run = seen.from_dict(seen.of_timeline(found), "run.json")
    judges = table_reader.episodes(found, seen.unseen(found, [run]))["reward"]
    every = table_reader.of_split(found, table_reader.EVALUATE, 1000)["reward"]
    chose = reporter(data)(0).metrics()["eval_td_loss"]
    assert len(chose) and len(judges)
    assert len(chose) + len(judges) == len(every)


def test_rows_for_training_are_reported_where_none_are_for_evaluation(tmp_path):
    data = timelines.build(
        tmp_path, timelines.walks(20), train_share=1.0, eval_share=0.0
    )
    report = reporter(data)(0)
    found = report.metrics()
    assert len(found["td_loss"]) == table_reader.partition(data).rows
    assert not [name for name in found if name.startswith("eval_")]
    assert "actions/gain" in found and np.isnan(report.score)


def test_rows_for_evaluation_are_scored_by_their_gain(data):
    report = reporter(data)(0)
    found = report.metrics()
    assert report.score == found["actions/gain"] - found["actions/gain_error"]
    assert report.measure == "score (actions/gain - actions/gain_error)"


ENDS = "terminated", "truncated", "final_state_features", "final_possible_actions"


@pytest.mark.parametrize("absent", [("action_probability",), ENDS])
def test_without_a_gain_there_is_no_score(absent, tmp_path):
    rows = [{k: v for k, v in x.items() if k not in absent} for x in timelines.walks()]
    report = reporter(timelines.build(tmp_path, rows, last_row="drop"))(0)
    found = report.metrics()
    assert "actions/gain" not in found and "eval_td_loss/mean" in found
    assert ("mc_loss/rmse" in found) == (absent != ENDS)
    assert np.isnan(report.score)


def test_td_errors_of_sarsa_are_those_of_rows_whose_next_action_is_known(data):
    columns = evaluation_rows(data)
    known = (columns["next_action"] != table_reader.UNKNOWN) | columns["terminated"]
    found = reporter(data, target="sarsa")(0).metrics()
    assert 0 < known.sum() < len(known)
    assert len(found["eval_td_loss"]) == known.sum()


def test_behavior_cloning_has_probabilities_and_no_values(data):
    table = {"target_action_distribution": {"left": 0.5, "right": 0.5}}
    report = reporter(data, "bc", table)(0)
    found = report.metrics()
    groups = {name.partition("/")[0] for name in found}
    assert groups == {"actions", "propensities", "reward"}
    greedy = found["actions/model/left"]
    assert found["actions/target_mse"] == pytest.approx((greedy - 0.5) ** 2)
    shares = [found[f"propensities/model/{x}"] for x in timelines.ACTIONS]
    assert sum(shares) == pytest.approx(1)
    # The mean probability of the logged actions; not trained, all are about the same.
    assert report.score == pytest.approx(0.5, abs=0.01)
    assert report.measure == "mean probability of logged actions"
    np.testing.assert_allclose(found["propensities/logged/left"], 0.5)


@pytest.fixture(scope="module")
def box_data(tmp_path_factory):
    rows = timelines.vector_walks(100, lambda k: {100: (k % 7) / 7})
    return timelines.build(tmp_path_factory.mktemp("box"), rows, "continuous")


@pytest.mark.parametrize("name", ["sac", "td3", "cql", "iql", "crr", "bc"])
def test_rows_with_box_actions_have_td_errors_returns_and_densities(name, box_data):
    spec = SPEC._replace(action_space=gym.spaces.Box(0, 1, (1,)))
    report = reporter(box_data, name, spec=spec)(0)
    found = report.metrics()
    if name == "bc":
        assert set(found) == {"actions/log_density"}
        assert report.score == found["actions/log_density"]
        assert report.measure == "mean log density of logged actions"
        return
    columns = evaluation_rows(box_data)
    assert len(found["td_loss"]) == len(found["eval_td_loss"]) == len(columns["reward"])
    assert np.isnan(report.score)
    assert found["value/logged"] == pytest.approx(
        np.nanmean(table_reader.returns(columns))
    )
    assert ("actions/log_density" in found) == (name != "td3")


def test_a_report_that_is_stopped_is_none(data):
    assert reporter(data)(0, lambda: True) is None
