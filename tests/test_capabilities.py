"""Train the cells of ``support/capabilities.py`` and check the refusals."""

from __future__ import annotations

import itertools

import gymnasium
import keras
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces as gs

import tfagents_batch as tfb
from tests.support import capabilities
from tests.support.capabilities import FACTORS, REFUSED, level
from tests.support.space_env import SpaceEnv
from tfagents_batch import nest, seeds, spaces
from tfagents_batch.algorithms import ppo
from tfagents_batch.envs.native import build
from tfagents_batch.errors import UserError
from tfagents_batch.metrics import Interval
from tfagents_batch.nn import networks
from tfagents_batch.training.assembly import Experiment
from tfagents_batch.training.config import RunConfig, with_options

LIMIT = 4  # steps of an episode
VECTOR = gs.Box(-1, 1, (3,))
OBSERVATIONS = {
    "Box": VECTOR,
    "image": gs.Box(0, 255, (36, 36, 1), np.uint8),  # the least that convolves
    "Dict": gs.Dict(place=VECTOR, kind=gs.Discrete(3, start=1)),
    "Tuple": gs.Tuple([VECTOR, gs.MultiBinary(2)]),
    "Discrete": gs.Discrete(4, start=-1),
    "MultiBinary": gs.MultiBinary(3),
    "MultiDiscrete": gs.MultiDiscrete([3, 2]),
}
ACTIONS = {
    "Discrete": gs.Discrete(3, start=2),
    "MultiDiscrete": gs.MultiDiscrete([3, 2]),
    "MultiBinary": gs.MultiBinary(3),
    "Box": VECTOR,
    "Dict": gs.Dict(turn=gs.Discrete(3), push=VECTOR),
}
MASKS = {  # the lowest masks: one action of each choice is valid
    "Discrete": [1, 0, 0],
    "MultiDiscrete": [1, 0, 0, 1, 0],
    "MultiBinary": [1, 0, 0],
    "Box": [1, 0, 0],
    "Dict": [1, 0, 0],
}
CORES = {"feed-forward": "none", "GRU": "gru", "LSTM": "lstm"}


class TensorSpaceEnv:
    """``SpaceEnv`` in TensorFlow: it observes samples of a space."""

    max_episode_steps = LIMIT
    samples = 16

    def __init__(self, observation_space, action_space):
        self.observation_space = observation_space
        self.action_space = action_space
        rows = [
            spaces.flatten(observation_space, observation_space.sample())
            for _ in range(self.samples)
        ]
        self._columns = [np.stack(column) for column in zip(*rows, strict=True)]

    def reset(self, key):
        return tf.zeros([], tf.int32), self._draw(key)

    def step(self, state, action, key):
        parts = [tf.reduce_sum(tf.cast(x, tf.float32)) for x in nest.flatten(action)]
        return state + 1, self._draw(key), tf.add_n(parts), tf.constant(False)

    def _draw(self, key):
        row = tf.cast(self.samples * seeds.uniform([], key), tf.int32)
        leaves = spaces.leaves(self.observation_space)
        drawn = [
            tf.gather(tf.constant(column, leaf.dtype), row)
            for column, leaf in zip(self._columns, leaves, strict=True)
        ]
        return spaces.pack(self.observation_space, drawn)


def environment(cell):
    """Return the argument ``env`` of ``train``."""
    observation = OBSERVATIONS[level(cell, "observation")]
    action = ACTIONS[level(cell, "action")]
    if level(cell, "mask") == "mask":
        low = np.array(MASKS[level(cell, "action")], np.int8)
        mask = gs.Box(low, np.ones_like(low), dtype=np.int8)
        parts = (
            observation if isinstance(observation, gs.Dict) else {"seen": observation}
        )
        observation = gs.Dict({**parts, "action_mask": mask})
    if level(cell, "backend") == "in the graph":
        return TensorSpaceEnv(observation, action)

    def make():
        env = SpaceEnv(observation, action, length=LIMIT + 1)
        return gymnasium.wrappers.TimeLimit(env, LIMIT)

    return make


def options(cell):
    """Return the other arguments of ``train``."""
    chosen = {
        "algorithm": level(cell, "algorithm"),
        "num_envs": 2,
        "rollout.length": 6,
        "steps": 24,
        "eval_every": 0,
        "compile": level(cell, "compile"),
        "settings": ppo.PPOConfig(
            epochs=1,
            minibatch_size=6,
            learning_rate=0.01,
            histograms=False,  # they double the time to compile
            network=networks.NetworkConfig(
                hidden=(8,), core=CORES[level(cell, "core")]
            ),
        ),
    }
    if level(cell, "backend") != "in the graph":
        chosen["num_workers"] = int(level(cell, "backend") != "in process")
    if level(cell, "source") == "episodes":
        del chosen["rollout.length"]
        chosen["rollout.episodes"] = 4
    if level(cell, "collecting") == "overlap":
        chosen["overlap"] = True
    if level(cell, "precision") == "bfloat16":
        chosen["precision"] = "mixed_bfloat16"
    return chosen


@pytest.fixture
def on_backend(cell, monkeypatch, request):
    """Select the backend of a cell."""
    if level(cell, "backend") == "portable":
        monkeypatch.setenv(build.BACKEND_VARIABLE, "portable")
    if level(cell, "backend") == "native":
        request.getfixturevalue("library")


def parameter(cell, *others, names, slow):
    marks = [pytest.mark.xla] if level(cell, "backend") == "native" else []
    marks += [pytest.mark.slow] if slow else []
    name = "-".join(names).replace(" ", "_")
    return pytest.param(cell, *others, marks=marks, id=name)


def trained_parameters():
    first = capabilities.cells(1)
    quick = first[2:4]
    for cell in dict.fromkeys(first + capabilities.cells(2)):
        # Quick tests of others: bfloat16 and overlap in tests/test_api.py, observations
        # in tests/nn/test_networks.py.
        yield parameter(cell, names=cell, slow=cell not in quick)


@pytest.mark.usefixtures("on_backend")
@pytest.mark.parametrize("cell", list(trained_parameters()))
def test_every_combination_trains(cell):
    keras.utils.set_random_seed(0)
    before, after, metrics = train(cell)
    assert "loss/total" in metrics
    for name, values in (metrics | after).items():
        for x in map(np.asarray, nest.flatten(values)):  # a rule has several
            if np.issubdtype(x.dtype, np.floating) and "episode/" not in name:
                assert np.all(np.isfinite(x)), name
    kernels = [name for name in before if "kernel" in name and "network/" in name]
    assert kernels
    assert any(np.any(before[name] != after[name]) for name in kernels)


def train(cell):
    config = with_options(RunConfig(env="spaces"), options(cell))
    with Experiment(config, config.recipe(environment(cell))) as experiment:
        experiment.start(0)
        before = _values(experiment.named_variables())
        for _ in range(2):
            interval = Interval()
            interval.add(experiment.program(2**62, rounds=1))
        after = _values(experiment.named_variables())
        assert experiment.program.mode == level(cell, "compile")
        if level(cell, "backend") != "in the graph":
            native = level(cell, "backend") == "native"
            assert experiment.envs[0].backend == ("native" if native else "portable")
            processes = level(cell, "backend") != "in process"
            assert experiment.envs[0].num_workers == int(processes)
    # Histograms have NaN in masked rows.
    numbers = {k: np.array(x) for k, x in interval.summary().items() if np.ndim(x) == 0}
    return before, after, numbers


def _values(named):
    return {name: np.array(values.numpy()) for name, values in named.items()}


def refused_parameters():
    for refusal in REFUSED:
        for number, levels in enumerate(capabilities.combinations(refusal)):
            cell, names = capabilities.refused_cell(levels), [x for _, x in levels]
            yield parameter(cell, refusal, names=names, slow=number > 0)


@pytest.mark.usefixtures("on_backend")
@pytest.mark.parametrize(("cell", "refusal"), list(refused_parameters()))
def test_refused_combinations_raise_a_user_error(cell, refusal, tmp_path):
    with pytest.raises(UserError, match=refusal.error):
        tfb.train(env=environment(cell), logdir=tmp_path, **options(cell))


@pytest.mark.parametrize("size", [1, 2])
def test_every_level_and_pair_of_levels_is_trained_or_refused(size):
    trained = set()
    for cell in capabilities.cells(size):
        trained |= capabilities.groups(zip(FACTORS, cell, strict=True), size)
    for factors in itertools.combinations(FACTORS, size):
        for names in itertools.product(*(FACTORS[factor] for factor in factors)):
            levels = tuple(zip(factors, names, strict=True))
            is_trained = frozenset(levels) in trained
            assert is_trained != bool(capabilities.refusals(levels)), levels


def test_the_page_matches_the_table_of_combinations():
    advice = "run python -m tests.support.capabilities to update both pages"
    assert capabilities.PAGE.read_text() == capabilities.page(), advice
    readme = capabilities.README.read_text()
    assert capabilities.with_algorithms(readme) == readme, advice
