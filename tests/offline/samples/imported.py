"""Samples written by hand, and their import."""

from tests.offline import made
from tests.support import logged
from tfagents_batch.offline import manifest
from tfagents_batch.offline.samples import partition
from tfagents_batch.offline.timeline_config import TimelineConfig

# A timeline of Horizon (2019): JSON lines, maps with keys of strings.
H19 = [
    {
        "mdp_id": "10",
        "sequence_number": 0,
        "propensity": 0.9,
        "state_features": {"0": 0.5, "1": -1.0},
        "action": "left",
        "reward": 1.0,
        "next_state_features": {"0": 0.25},
        "next_action": "right",
        "sequence_number_ordinal": 1,
        "time_diff": 1,
        "possible_actions": ["left", "right"],
        "possible_next_actions": ["left", "right"],
        "metrics": {"reward": 1.0},
        "ds": "2019-01-01",
    },
    {
        "mdp_id": "10",
        "sequence_number": 1,
        "propensity": 0.8,
        "state_features": {"0": 0.25},
        "action": "right",
        "reward": 2.0,
        "next_state_features": {},
        "next_action": "",
        "sequence_number_ordinal": 2,
        "time_diff": 0,
        "possible_actions": ["left", "right"],
        "possible_next_actions": [],
        "metrics": {"reward": 2.0},
        "ds": "2019-01-01",
    },
]
# One of ReAgent for three rewards: what follows is in arrays.
ARRAYS = {
    "mdp_id": "10",
    "sequence_number": 3,
    "sequence_number_ordinal": 1,
    "state_features": {"1": 1.0},
    "action": "a",
    "action_probability": 0.5,
    "reward": [1.0, 2.0, 4.0],
    "metrics": [{"m": 10.0}, {"m": 20.0}, {}],
    "next_state_features": [{"1": 2.0}, {"1": 3.0}, {"1": 4.0}],
    "next_action": ["b", "a", "b"],
    "time_diff": [2, 5, 6],
    "possible_actions": ["a", "b"],
    "possible_next_actions": [["a"], ["b"], ["a", "b"]],
    "time_since_first": 0,
    "ds": "2019-01-01",
}


def lines(folder, rows):
    return made.write(folder / "part-00000.json", rows)


def write(data, folder, mode="discrete", actions=(), **settings):
    config = TimelineConfig(**{"gamma": 0.5} | settings)
    target, count = partition.write(data, folder / "table", config, mode, actions)
    found = logged.samples(target)
    assert len(found) == count
    return found, manifest.schema(target)
