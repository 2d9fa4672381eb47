import pytest

from tfagents_batch.errors import UserError
from tfagents_batch.offline.timeline_config import (
    TimelineConfig,
    checked,
    from_horizon,
)

H19 = {
    "timeline": {
        "startDs": "2019-01-01",
        "endDs": "2019-01-01",
        "addTerminalStateRow": True,
        "actionDiscrete": True,
        "inputTableName": "cartpole_discrete",
        "outputTableName": "cartpole_discrete_training",
        "evalTableName": "cartpole_discrete_eval",
        "numOutputShards": 1,
    },
    "query": {"tableSample": 50, "actions": ["1", "0"]},
}
HEAD = {
    "startDs": "2019-01-01",
    "endDs": "2019-01-02",
    "addTerminalStateRow": False,
    "inputTableName": "a",
    "outputTableName": "b",
    "includePossibleActions": True,
    "outlierEpisodeLengthPercentile": 0.95,
    "percentileFunction": "percentile",
    "rewardColumns": ["reward", "metrics"],
    "extraFeatureColumns": ["state_id_list_features"],
    "timeWindowLimit": 3,
    "validationSql": "SELECT true",
    "steps": 2,
}


def test_a_file_of_horizon_of_2019_is_read():
    found = from_horizon(H19)
    config = TimelineConfig(
        start_ds="2019-01-01",
        end_ds="2019-01-01",
        last_row="horizon_keep",
        train_share=0.4,
        eval_share=0.1,
    )
    assert found.config == config
    assert found.mode == "discrete"
    assert found.actions == ("1", "0")
    assert [x.partition(" ")[0] for x in found.notices] == [
        "inputTableName",
        "outputTableName",
        "numOutputShards",
    ]


def test_a_file_of_the_last_horizon_is_read():
    found = from_horizon(HEAD)
    assert found.config == TimelineConfig(
        start_ds="2019-01-01",
        end_ds="2019-01-02",
        last_row="drop",
        n_step=2,
        max_length_percentile=0.95,
        time_window_limit=3,
        validation_sql="SELECT true",
        train_share=1.0,
        eval_share=0.0,
    )
    assert found.mode is None
    assert found.extra_columns == ("state_id_list_features",)
    assert from_horizon({"actionDiscrete": False}).mode == "parametric"


@pytest.mark.parametrize(
    "given, text",
    [
        ({"startDS": "1"}, "unknown key of Horizon 'startDS'; did you mean 'startDs'?"),
        ({"query": {"tableSampel": 1}}, "did you mean 'tableSample'?"),
        ({"query": 3}, "query is 3; expected an object"),
        ({"tableSample": 0}, "tableSample is 0.0; expected more than 0"),
        ({"tableSample": "all"}, "tableSample is 'all'; expected a number"),
        (
            {"addTerminalStateRow": 1},
            "addTerminalStateRow is 1; expected true or false",
        ),
        ({"actions": "ab"}, "actions is 'ab'; expected a .*list"),
        ({"rewardColumns": ["slate_reward"]}, "rewardColumns has slate_reward"),
        ({"steps": 0}, "n_step is 0; expected at least 1"),
        ({"steps": "2"}, "steps is '2'; expected a whole number"),
    ],
)
def test_a_wrong_key_of_horizon_is_refused(given, text):
    with pytest.raises(UserError, match=text.replace("?", r"\?")):
        from_horizon(given)


@pytest.mark.parametrize(
    "settings, text",
    [
        ({"gamma": 1.1}, "gamma is 1.1; expected at least 0 and at most 1"),
        ({"start_ds": "2", "end_ds": "1"}, "start_ds is 2 and end_ds is 1"),
        ({"train_share": 0.9}, "train_share is 0.9 and eval_share is 0.2; expected a"),
        ({"custom_reward": "1", "metric_weights": {}}, "pass only one of them"),
        ({"metric_weights": {"m": "1"}}, "weights.m is '1'; expected a finite number"),
        ({"last_row": "keep"}, "last_row is 'keep'; expected terminal or drop"),
        ({"max_length_percentile": 0}, "max_length_percentile is 0.0; expected more"),
        ({"time_unit": 0}, "time_unit is 0; expected at least 1"),
    ],
)
def test_a_wrong_setting_is_refused(settings, text):
    with pytest.raises(UserError, match=text):
        checked(TimelineConfig(**settings))
