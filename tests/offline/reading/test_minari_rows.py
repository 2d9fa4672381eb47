"""Minari datasets as rows, in the interface of Minari's documentation."""

import collections
import math
import sys
import types

import numpy as np
import pytest
from gymnasium import spaces

import tfagents_batch as tfb
from tests.offline import timelines
from tests.offline.test_reader import read
from tfagents_batch.errors import UserError
from tfagents_batch.offline.reader import open_rows
from tfagents_batch.offline.reading import minari_rows
from tfagents_batch.training.log.logger import read_metrics

Episode = collections.namedtuple(
    "Episode", "id observations actions rewards terminations truncations infos"
)
BOX = spaces.Box(-9, 9, (2,), np.float32)
PAIRS = np.arange(6.0).reshape(3, 2)


class Dataset:
    """Dataset of one episode of two steps that is cut."""

    def __init__(
        self, action_space, actions, space=None, observations=None, scores=(None, None)
    ):
        names = "ref_min_score", "ref_max_score"
        metadata = dict(zip(names, scores, strict=True))
        self.storage = types.SimpleNamespace(metadata=metadata)
        self.action_space = action_space
        self.observation_space = space or spaces.Dict(
            pole=BOX, cart=spaces.Box(-9, 9, (), np.float32)
        )
        if space is None:  # HDF5 has the keys in the order of the alphabet
            observations = {"cart": np.ones([3]), "pole": PAIRS}
        self.episode = Episode(
            *(4, observations, actions, np.float32([1, 2])),
            *(np.array([False, False]), np.array([False, True]), {}),
        )

    def iterate_episodes(self, episode_indices=None):
        yield self.episode


def test_discrete_episodes_of_minari_are_rows():
    dataset = Dataset(spaces.Discrete(3), np.array([2, 0]))
    first, second = read(dataset)
    assert first["mdp_id"] == "4" and first["action"] == "2"
    assert first["state_features"] == {0: 0.0, 1: 1.0, 2: 1.0}
    assert first["possible_actions"] == ["0", "1", "2"]
    assert first["final_state_features"] is None and first["truncated"] is False
    assert second["reward"] == 2 and second["truncated"] is True
    assert second["final_state_features"] == {0: 4.0, 1: 5.0, 2: 1.0}
    assert second["action_probability"] is None


def test_continuous_episodes_of_minari_have_other_ids_for_actions():
    dataset = Dataset(spaces.Box(-1, 1, (2,)), np.array([[0.5, 1], [0, 0]]))
    first, _ = read(dataset, mode="continuous")
    assert first["action"] == {3: 0.5, 4: 1.0}
    with pytest.raises(UserError, match="pass mode='continuous'"):
        open_rows(dataset)


def test_a_name_of_minari_is_loaded(monkeypatch):
    dataset = Dataset(spaces.Discrete(3), np.array([2, 0]))
    module = collections.namedtuple("Module", "load_dataset")({"a-v0": dataset}.get)
    monkeypatch.setitem(sys.modules, "minari", module)
    assert len(read("minari:a-v0")) == 2


def test_the_mode_of_a_dataset_is_that_of_its_actions():
    discrete = Dataset(spaces.Discrete(3), np.array([2, 0]))
    assert minari_rows.mode_of(discrete) == "discrete"
    box = Dataset(spaces.Box(-1, 1, (2,)), np.zeros([2, 2]))
    assert minari_rows.mode_of(box) == "continuous"
    with pytest.raises(UserError, match="expected a Discrete space or a Box"):
        minari_rows.mode_of(Dataset(spaces.MultiBinary(2), np.zeros([2, 2])))


def test_training_from_a_name_keeps_a_table_and_scores_evaluations(
    tmp_path, monkeypatch
):
    observation = spaces.Box(-9, 9, (4,), np.float32)
    seen = np.random.default_rng(0).normal(size=(41, 4)).astype(np.float32)
    dataset = Dataset(
        spaces.Discrete(2), np.arange(40) % 2, observation, seen, scores=(10.0, 60.0)
    )
    dataset.episode = dataset.episode._replace(
        rewards=np.ones(40, np.float32),
        terminations=np.arange(40) == 39,
        truncations=np.zeros(40, bool),
    )
    loaded = []

    def load(name):
        loaded.append(name)
        return dataset

    module = types.SimpleNamespace(load_dataset=load)
    monkeypatch.setitem(sys.modules, "minari", module)
    options = {
        "env": "tf/CartPole-v1",
        "logdir": tmp_path,
        "steps": 2,
        "settings": {"network": {"hidden": [8]}, "batch_size": 4},
        "timeline": {"train_share": 1.0, "eval_share": 0.0},
        "eval_episodes": 2,
        "eval_every": 2,
        "compile": "off",
    }
    run = tfb.train_offline("bc", "minari:d/cart-v0", **options)
    (table,) = (tmp_path / "tables").glob("[!.]*")
    assert table.name.startswith("d-cart-v0-")
    lines = [x for x in read_metrics(run.logdir) if "eval/return_mean" in x]
    for line in lines:
        expected = (line["eval/return_mean"] - 10) / 50
        assert line["eval/normalized_score"] == pytest.approx(expected)
    assert lines
    written = table.stat().st_mtime_ns
    tfb.train(resume=run.logdir, steps=3)  # the table is still there
    assert table.stat().st_mtime_ns == written
    assert set(loaded) == {"d/cart-v0"}


def test_scores_that_mean_nothing_are_refused(tmp_path):
    data = timelines.build(tmp_path / "data", timelines.walks(20))
    for scores in ({"min": 3}, {"min": 3, "max": 3}, {"min": 0, "max": math.inf}):
        with pytest.raises(UserError, match="reference_scores is"):
            tfb.train_offline(
                *("bc", data), table={"reference_scores": scores}, logdir=tmp_path
            )


NESTED = spaces.Dict(
    z=spaces.Dict(y=BOX, x=spaces.Discrete(3, start=5)), a=spaces.MultiBinary(2)
)
SPACES = {
    "nested": (
        NESTED,
        {
            "a": np.array([[0, 1], [1, 1], [0, 0]]),
            "z": {"x": np.array([5, 7, 6]), "y": PAIRS},
        },
    ),
    "tuple": (
        spaces.Tuple([spaces.MultiDiscrete([2, 3]), BOX]),
        (np.array([[1, 2], [0, 0], [1, 1]]), PAIRS),
    ),
    "image": (
        spaces.Box(0, 255, (2, 2), np.uint8),
        np.arange(12, dtype=np.uint8).reshape(3, 2, 2),
    ),
    "discrete": (spaces.Discrete(4), np.array([3, 0, 1])),
}


def _at(value, step):
    if isinstance(value, dict):
        return {key: _at(each, step) for key, each in value.items()}
    if isinstance(value, tuple):
        return tuple(_at(each, step) for each in value)
    return value[step]


@pytest.mark.parametrize("name", SPACES)
def test_features_are_in_the_order_of_the_space(name):
    space, values = SPACES[name]
    data = Dataset(spaces.Discrete(2), np.array([0, 1]), space, values)
    for step, row in enumerate(read(data)):
        expected = spaces.flatten(space, _at(values, step)).ravel().tolist()
        assert [*row["state_features"].values()] == expected
        assert [*row["state_features"]] == [*range(len(expected))]


@pytest.mark.parametrize("actions", [np.array([[4], [5]]), np.array([4.0, 5.0])])
def test_actions_of_other_shapes_and_types_have_their_names(actions):
    data = Dataset(spaces.Discrete(2, start=4), actions, BOX, PAIRS)
    assert [row["action"] for row in read(data)] == ["4", "5"]


DISCRETE, ACTIONS = spaces.Discrete(2), np.array([0, 1])
TEXT = spaces.Dict(image=BOX, mission=spaces.Text(20))
REFUSED = {
    "text": (DISCRETE, ACTIONS, TEXT, {"image": PAIRS, "mission": ["go"] * 3}, "Text"),
    "no last observation": (DISCRETE, ACTIONS, BOX, PAIRS[:2], r"\[2, 2\]"),
    "other shape": (DISCRETE, ACTIONS, BOX, np.zeros((3, 4)), r"expected \[3, 2\]"),
    "missing key": (DISCRETE, ACTIONS, TEXT, {"mission": ["go"] * 3}, "lacks 'image'"),
    "graph": (DISCRETE, ACTIONS, spaces.Sequence(BOX), [PAIRS] * 3, "no features"),
    "vectors of choices": (
        *(spaces.MultiDiscrete([2, 2]), np.array([[0, 1], [1, 1]]), BOX, PAIRS),
        "expected a Discrete space or a Box",
    ),
    "dicts of actions": (
        *(
            spaces.Dict(a=BOX),
            {"a": PAIRS[:2]},
            BOX,
            PAIRS,
            "expected a Discrete space",
        ),
    ),
    "fractions": (DISCRETE, np.array([0.0, 0.5]), BOX, PAIRS, "a whole number in its"),
    "beyond the space": (DISCRETE, np.array([0, 2]), BOX, PAIRS, "number 2 of 2"),
    "too many actions": (
        DISCRETE,
        np.array([0, 1, 1]),
        BOX,
        PAIRS,
        "action has the sh",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_dataset_that_has_no_rows_is_refused(name):
    *arguments, text = REFUSED[name]
    with pytest.raises(UserError, match=text) as caught:
        open_rows(Dataset(*arguments))
    assert "mode='continuous'" not in str(caught.value)
