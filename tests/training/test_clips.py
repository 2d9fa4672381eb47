"""Videos of an agent during training: logged without an effect on training."""

from __future__ import annotations

import random
import re

import gymnasium
import numpy as np
import pytest
import tensorflow as tf

from tests.support import linear
from tfagents_batch import seeds
from tfagents_batch.envs.recipe import EnvRecipe
from tfagents_batch.errors import UserError
from tfagents_batch.sources import rollout_settings
from tfagents_batch.training import video
from tfagents_batch.training.assembly import Experiment
from tfagents_batch.training.config import RunConfig
from tfagents_batch.training.video import Clips

CONFIG = RunConfig(
    algorithm="linear",
    env="falling",
    num_envs=2,
    source=rollout_settings.RolloutSettings(length=32),
    eval_every=0,
    compile="off",
    compile_cache=False,
    settings=linear.Config(),
)


class Shown(gymnasium.Env):
    """An environment that renders its step and ends after ``length`` steps."""

    metadata = {"render_fps": 7}  # noqa: RUF012

    def __init__(self, length=5, render_mode=None):
        self.observation_space = gymnasium.spaces.Box(-1, 1, (4,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)
        self.render_mode, self._length, self._step = render_mode, length, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._step = 0
        return np.zeros(4, np.float32), {}

    def step(self, action):
        self._step += 1
        ended = self._step == self._length
        return np.zeros(4, np.float32), 1.0, ended, False, {}

    def render(self):
        return np.full([20, 30, 3], self._step % 256, np.uint8)


class Falling:
    """An environment in TensorFlow that renders its height; it falls from 3 to 8."""

    observation_space = gymnasium.spaces.Box(0, 10, (4,))
    action_space = gymnasium.spaces.Discrete(2)
    max_episode_steps = 10
    render_fps = 9

    def reset(self, key):
        height = 3 + seeds.integers([], key, 6)
        return height, self._observation(height)

    def step(self, state, action, key):
        state = state - 1
        return state, self._observation(state), 1.0, state == 0

    def render(self, state):
        return np.full([20, 30, 3], state, np.uint8)

    def _observation(self, height):
        return tf.fill([4], tf.cast(height, tf.float32))


@pytest.fixture(scope="module")
def experiment(linear):
    with Experiment(CONFIG, CONFIG.recipe(Falling)) as experiment:
        yield experiment


@pytest.fixture
def make(experiment):
    opened = []

    def make(env, env_kwargs=None):
        recipe = EnvRecipe(env, env_kwargs or {})
        opened.append(Clips(recipe, experiment.algorithm.policy))
        return opened[-1]

    yield make
    for each in opened:
        each.close()


def test_an_episode_is_filmed_from_its_first_to_its_last_state(make):
    before = random.getstate(), np.random.get_state()[1].tolist()
    film = make(Shown)
    frames, facts = film(1)
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before
    assert frames.shape == (6, 20, 30, 3)
    assert film.fps == 7
    assert facts == {"return": 5.0, "length": 5, "ended": True}
    for pictures in (frames, film(2)[0]):  # the next episode is also complete
        assert pictures[:, 0, 0, 0].tolist() == [0, 1, 2, 3, 4, 5]


def test_an_environment_in_tensorflow_is_filmed(make):
    film = make(Falling)
    frames, facts = film(1)
    height = facts["length"]
    assert frames[:, 0, 0, 0].tolist() == [*range(height, -1, -1)]
    assert (film.fps, facts["return"], facts["ended"]) == (9, height, True)


def test_equal_seeds_give_equal_clips(make):
    film = make(Falling)
    lengths = [film(seed)[1]["length"] for seed in range(5)]
    assert [film(seed)[1]["length"] for seed in range(5)] == lengths
    assert len(set(lengths)) > 1


def test_a_clip_of_a_long_episode_skips_pictures(make, monkeypatch):
    monkeypatch.setattr(video, "CLIP_PICTURES", 20)
    frames, facts = make(Shown, {"length": 100})(1)
    shown = frames[:, 0, 0, 0].astype(int)
    assert video.CLIP_PICTURES / 2 <= len(shown) <= video.CLIP_PICTURES
    assert facts["length"] == 100
    assert set(np.diff(shown) % 256) == {8}


def test_an_episode_without_end_is_cut_off(make, monkeypatch):
    monkeypatch.setattr(video, "CLIP_STEPS", 40)
    _, facts = make(Shown, {"length": 10**9})(1)
    assert facts == {"return": 40.0, "length": 40, "ended": False}


def test_a_clip_is_cut_off_when_training_is_to_stop(make):
    answers = iter([False, False, True])
    _, facts = make(Shown)(1, stop=lambda: next(answers))
    assert facts == {"return": 2.0, "length": 2, "ended": False}


def test_an_environment_that_cannot_be_filmed_is_refused(experiment):
    class Dark:
        observation_space = gymnasium.spaces.Box(-1, 1, (1,))
        action_space = gymnasium.spaces.Discrete(2)
        max_episode_steps = 5

        def reset(self, key):
            return (), np.zeros(1, np.float32)

        def step(self, state, action, key):
            return (), np.zeros(1, np.float32), 1.0, False

    with pytest.raises(UserError, match=r"Dark has no render\(state\)"):
        Clips(EnvRecipe(Dark), experiment.algorithm.policy)


@pytest.mark.parametrize(
    ("shape", "dtype"), [((4, 4), np.float64), ((4, 4, 4), np.uint8)]
)
def test_a_render_result_that_is_not_a_picture_is_refused(make, shape, dtype):
    class Wrong(Shown):
        def render(self):
            return np.zeros(shape, dtype)

    message = re.escape(f"render returned {np.dtype(dtype)} {list(shape)}; expected a")
    with pytest.raises(UserError, match=message):
        make(Wrong)(1)


def test_pictures_are_reduced_by_means():
    picture = np.zeros([8, 12, 3], np.uint8)
    picture[:, ::2] = 100
    found = video.smaller(picture, 6)
    assert found.shape == (4, 6, 3)
    assert (found == 50).all()
    assert video.smaller(picture, 12) is picture
    assert video.smaller(np.zeros([7, 13, 3], np.uint8), 6).shape == (3, 5, 3)
