"""Tests of docs/own_network.md: what algorithms pass to a model and take back."""

import itertools
import pathlib
import re

import keras
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces as gs

from tests.algorithms.cases import KINDS, B, experience, taught, update
from tests.nn.cases import ACTIONS, VECTOR, make_spec, make_steps
from tests.nn.user import test_recurrent
from tfagents_batch import nest
from tfagents_batch.algorithms import REGISTRY
from tfagents_batch.errors import UserError
from tfagents_batch.ops import branches, distributions

PAGE = (pathlib.Path(__file__).parents[3] / "docs/own_network.md").read_text()
ACTOR_CRITICS = ("ppo", "a2c", "ga3c", "reinforce", "distill")
SPACE = gs.Dict(
    floats=gs.Box(-100, 100, (3,), np.float64),
    whole=gs.Box(-100, 100, (2,), np.int64),
    bytes=gs.Box(0, 255, (6,), np.uint8),
    discrete=gs.Discrete(4, start=2),
    many=gs.MultiDiscrete([2, 3]),
    binary=gs.MultiBinary(2),
    flags=gs.Box(0, 1, (3,), bool),
    image=gs.Box(0, 255, (10, 10, 1), np.uint8),
    pixels=gs.Box(0, 1, (9, 9, 1)),
    pair=gs.Tuple([VECTOR, gs.Discrete(2)]),
)
MASKED = gs.Dict(action_mask=gs.MultiBinary(3), **SPACE.spaces)
FLOATS = {"floats", "pair"}  # parts with numbers that may be normalized


def table(header):
    """Return the cells of the rows of the table whose header begins so."""
    text = PAGE.partition(f"| {header} ")[2].partition("\n\n")[0]
    rows = [line[2:-2].split(" | ") for line in text.splitlines()[2:]]
    assert rows
    return rows


def names(cell):
    return re.findall(r"`([^`]+)`", cell)


def make(name, build, observation=VECTOR, action=None):
    action = action or ACTIONS[KINDS.get(name, ("discrete",))[0]]
    kind, config = REGISTRY[name]
    brief = {"epochs": 1} if name in ("ppo", "distill") else {}
    settings = config(histograms=False, **brief)
    spec = make_spec(observation, action, B)
    return taught(kind(settings, spec, build), spec)


class Recorder(keras.Model):
    """Features of anything; remembers what it was called with."""

    def __init__(self):
        super().__init__()
        self.dense, self.seen = keras.layers.Dense(4), None

    def call(self, observation):
        self.seen = observation
        parts = [
            keras.ops.reshape(keras.ops.cast(x, "float32"), (-1, _size(x)))
            for x in tf.nest.flatten(observation)
        ]
        return self.dense(keras.ops.concatenate(parts, -1))


def _size(x):
    return int(np.prod(x.shape[1:], dtype=int))


@pytest.mark.parametrize("name", REGISTRY)
def test_only_actor_critics_normalize_and_only_floats(name):
    models, spaces = [], []

    def build(observation_space, action_space):
        spaces.append(observation_space)
        models.append(Recorder())
        return models[-1]

    box = KINDS.get(name, ("discrete",))[0] == "box"
    space = SPACE if box else MASKED
    agent = make(name, build, space)
    steps = nest.map(lambda x: x[0], make_steps(space, 1, B)._replace(info={}))
    policy = agent.policy
    if name in ACTOR_CRITICS:  # as after training on numbers around 1000
        for moments in filter(None, policy.observations.moments):
            moments.mean.assign(tf.fill(moments.mean.shape, tf.cast(1000, "float64")))
    noise = nest.map(lambda x: x[0], policy.noise((1, B), 0))
    policy.act(
        steps, policy.initial_state(B), noise, tf.constant(10**9, tf.int64), True
    )
    assert spaces[0] == SPACE  # without the mask
    acted = [x.seen for x in models if hasattr(tf.nest.flatten(x.seen)[0], "numpy")]
    assert len(acted) == (2 if name == "bcq" else 1)  # one of them is its imitator
    seen = acted[-1]
    assert set(seen) == set(SPACE.spaces)
    for part, given in steps.observation.items():
        if part == "action_mask":
            continue
        one, other = tf.nest.flatten(given), tf.nest.flatten(seen[part])
        for x, y in zip(one, other, strict=True):
            assert x.dtype == y.dtype
            scaled = name in ACTOR_CRITICS and part in FLOATS and x.dtype.is_floating
            np.testing.assert_array_equal(y, tf.fill(x.shape, -10.0) if scaled else x)
    assert isinstance(seen["pair"], tuple)


def _width(action):
    return distributions.for_space(action).size


RETURNS = {
    "features": lambda action: keras.Sequential([keras.layers.Dense(5)]),
    "policy": lambda action: _both(policy=_width(action), value=1),
    "q": lambda action: _both(q=_width(action)),
}


def _both(**sizes):
    x = keras.Input((3,))
    heads = {name: keras.layers.Dense(size)(x) for name, size in sizes.items()}
    return keras.Model(x, heads)


@pytest.mark.parametrize("name", REGISTRY)
def test_a_model_may_return_what_the_page_says(name):
    (row,) = [row for row in table("algorithm") if name in names(row[0])]
    taken = {"features", *names(row[2])} - {"value"}
    for kind, returned in RETURNS.items():
        models = []

        def build(observation_space, action_space, models=models, returned=returned):
            models.append(returned(action_space))
            return models[-1]

        if kind not in taken:
            with pytest.raises(UserError, match="expected features"):
                make(name, build)
            continue
        agent = make(name, build)
        assert len(models) == int(row[1])
        metrics = update(agent, experience(agent), 1)
        assert all(np.all(np.isfinite(x)) for x in metrics.values() if _is_scalar(x))


def _is_scalar(x):
    return getattr(x, "shape", None) == ()


@pytest.mark.parametrize("name", REGISTRY)
def test_actor_critics_take_recurrent_models_and_others_say_who_does(name):
    if name not in ACTOR_CRITICS:
        with pytest.raises(UserError, match=r"'elman' is recurrent.*use ppo, a2c"):
            make(name, test_recurrent.build)
        return
    agent = make(name, test_recurrent.build)
    before = [x.numpy() for x in agent.network.trainable_variables]
    update(agent, experience(agent), 1)
    after = [x.numpy() for x in agent.network.trainable_variables]
    assert any(np.any(a != b) for a, b in zip(before, after, strict=True))


def test_policies_have_the_widths_of_the_page():
    for name, width, _, values in table("action space"):
        (text,) = names(name)
        space = eval(text, {**vars(gs)})
        assert _width(space) == int(width)
        choices = branches.of(space)
        expected = str(choices.size) if choices else "none"
        assert values.partition(":")[0] == expected


def test_every_algorithm_is_in_both_tables():
    observed = PAGE.partition("| part of the observation ")[2].splitlines()[0]
    returned = itertools.chain(*(names(row[0]) for row in table("algorithm")))
    assert sorted(names(observed)) == sorted(returned) == sorted(REGISTRY)
