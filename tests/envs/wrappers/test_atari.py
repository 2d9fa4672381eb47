import importlib.util
import re

import gymnasium
import numpy as np
import psutil
import pytest
from gymnasium import spaces as gs

from tests.support import python
from tfagents_batch.encoding import is_image
from tfagents_batch.envs import registry
from tfagents_batch.envs.contract import rollout
from tfagents_batch.envs.make import make_env
from tfagents_batch.envs.worker import construction
from tfagents_batch.envs.wrappers import layers
from tfagents_batch.errors import UserError

ale_py = pytest.importorskip("ale_py")
pytest.importorskip("cv2")


def make(name, **kwargs):
    return registry.constructor(name, kwargs)()


def wrappers(env):
    """Return the class names from the outside in."""
    return [type(layer).__name__ for layer in layers.walk(env)]


def frames(env):
    return env.unwrapped.ale.getEpisodeFrameNumber()


def find(env, kind):
    return next(layer for layer in layers.walk(env) if isinstance(layer, kind))


def test_an_id_gets_the_standard_preprocessing():
    with make("ALE/Breakout-v5") as env:
        assert wrappers(env) == [
            *("TimeLimit", "TransformObservation", "FrameStackObservation"),
            *("FireReset", "AtariPreprocessing", "OrderEnforcing", "AtariEnv"),
        ]
        assert env.observation_space == gs.Box(0, 255, (84, 84, 4), np.uint8)
        assert is_image(env.observation_space)
        assert env.action_space == gs.Discrete(4)
        inner = find(env, gymnasium.wrappers.AtariPreprocessing)
        assert (inner.noop_max, inner.frame_skip) == (30, 4)
        assert not inner.terminal_on_life_loss
        assert env.unwrapped.ale.getFloat("repeat_action_probability") == 0.25
        assert construction.inspect(env)["max_episode_steps"] == 27_000
        observation, _ = env.reset(seed=1)
        assert observation in env.observation_space and observation.std() > 0


def test_the_newest_frame_is_the_last_channel_and_actions_take_four_frames():
    with make("ALE/Pong-v5") as env:
        observation, _ = env.reset(seed=1)
        assert (observation == observation[..., :1]).mean() > 0.99  # except for FIRE
        for _ in range(6):
            before, last = frames(env), observation
            observation, *_ = env.step(2)
            assert frames(env) == before + 4
            np.testing.assert_array_equal(observation[..., :-1], last[..., 1:])
        raw = env.unwrapped.ale.getScreenGrayscale()
        newest = observation[..., -1]
        assert abs(float(newest.mean()) - float(raw.mean())) < 10


def test_noops_are_drawn_from_the_environments_generator():
    with make("ALE/Freeway-v5") as env:
        assert "FireReset" not in wrappers(env)  # the game does not wait for it
        expected = np.random.SeedSequence(5).generate_state(2)[0]
        generator = np.random.Generator(np.random.PCG64(int(expected)))
        for seed in (5, None, None):
            env.reset(seed=seed)
            assert frames(env) == generator.integers(1, 31)


@pytest.mark.parametrize("fire_reset, expected", [(True, 4), (False, 0)])
def test_fire_is_pressed_where_a_game_waits_for_it(fire_reset, expected):
    sticky = {"repeat_action_probability": 0.0}
    with make("ALE/Breakout-v5", noop_max=0, fire_reset=fire_reset, **sticky) as env:
        env.reset(seed=1)
        assert frames(env) == expected


@pytest.mark.parametrize(
    "kwargs, shape",
    [
        ({"frame_stack": 1, "obs_type": "grayscale"}, (84, 84, 1)),
        ({"grayscale_obs": False}, (84, 84, 12)),
        ({"screen_size": [48, 64], "frame_stack": 2}, (64, 48, 2)),
    ],
)
def test_options_determine_the_observation_shape(kwargs, shape):
    with make("ALE/Pong-v5", **kwargs) as env:
        observation, _ = env.reset(seed=1)
        assert env.observation_space.shape == observation.shape == shape


def test_colors_of_a_frame_lie_side_by_side():
    with make("ALE/Pong-v5", grayscale_obs=False, frame_stack=2) as env:
        env.reset(seed=1)
        observation = env.step(0)[0]
        plain = find(env, gymnasium.wrappers.AtariPreprocessing)._get_obs()
        np.testing.assert_array_equal(observation[..., 3:], plain)


def test_arguments_reach_ale():
    kwargs = {"full_action_space": True, "difficulty": 1, "max_episode_steps": 5}
    with make("ALE/Pong-v5", repeat_action_probability=0.0, **kwargs) as env:
        assert env.action_space == gs.Discrete(18)
        assert env.unwrapped._game_difficulty == 1
        assert env.unwrapped.ale.getFloat("repeat_action_probability") == 0
        env.reset(seed=1)
        ends = [env.step(0)[3] for _ in range(5)]
    assert ends == [False] * 4 + [True]  # actions, not frames


def test_the_frame_limit_truncates_an_episode():
    with make("ALE/Pong-v5", max_num_frames_per_episode=100) as env:
        assert construction.inspect(env)["max_episode_steps"] == 25
        env.reset(seed=1)
        flags = [env.step(0)[2:4] for _ in range(25)]
    assert (False, True) in flags and (True, False) not in flags


def test_a_lost_life_ends_an_episode_if_configured():
    lengths = []
    for option in (True, False):
        with make("ALE/Breakout-v5", terminal_on_life_loss=option) as env:
            env.reset(seed=1)
            for step in range(1, 2000):
                *_, terminated, _, info = env.step(step % 4)
                if terminated:
                    break
            assert info["lives"] == (4 if option else 0)
            lengths.append(step)
    assert lengths[0] < lengths[1]


def test_rewards_stay_those_of_the_game():
    with make("ALE/MsPacman-v5") as env:
        env.reset(seed=1)
        assert max(env.step(step % 9)[1] for step in range(300)) >= 10


def test_frames_of_ga3c_are_stretched_and_reduced_as_the_original_does():
    """The original: luma, SciPy's range to bytes, and Pillow's bilinear resize."""
    pillow = pytest.importorskip("PIL.Image")
    sticky = {"repeat_action_probability": 0.0}
    with make("ALE/Pong-v5", preprocess="ga3c", frame_stack=2, **sticky) as env:
        assert wrappers(env)[-3:] == ["GA3CFrames", "OrderEnforcing", "AtariEnv"]
        assert env.observation_space == gs.Box(0, 255, (84, 84, 2), np.uint8)
        assert construction.inspect(env)["max_episode_steps"] == 27_000
        observation, _ = env.reset(seed=1)
        np.testing.assert_array_equal(observation[..., 0], observation[..., 1])
        assert frames(env) == 0  # no no-ops, no FIRE
        last = None
        for action in (2, 2, 3, 0, 3):
            before = frames(env)
            observation, *_ = env.step(action)
            assert frames(env) == before + 4
            gray = env.unwrapped.ale.getScreenRGB() @ np.array([0.299, 0.587, 0.114])
            scale = 255 / (gray.max() - gray.min())
            stretched = ((gray - gray.min()) * scale + 0.5).astype(np.uint8)
            image = pillow.fromarray(stretched).resize((84, 84), pillow.BILINEAR)
            found = observation[..., -1].astype(int)
            assert np.abs(found - np.asarray(image, int)).max() <= 1
            assert gray.max() < 240 and found.max() > 250  # stretched
            if last is not None:
                np.testing.assert_array_equal(observation[..., 0], last)
            last = observation[..., -1]


def test_preprocessing_can_be_turned_off_and_on():
    with make("ALE/Pong-v5", preprocess=False) as env:
        assert env.observation_space.shape == (210, 160, 3)
        assert env.unwrapped._frameskip == 4
    kwargs = {"preprocess": True, "frame_stack": 2}
    old = {"Pong-v0": (kwargs, (84, 84, 2)), "PongNoFrameskip-v0": ({}, (210, 160, 3))}
    for name, (kwargs, shape) in old.items():
        with pytest.warns(UserWarning, match="out of date"):
            constructor = registry.constructor(name, kwargs)
        with constructor() as env:
            assert env.observation_space.shape == shape
    with registry.constructor("ale_py:ALE/Pong-v5")() as env:
        assert env.observation_space.shape == (84, 84, 4)


@pytest.mark.parametrize(
    "kwargs, message",
    [
        ({"frameskip": 4}, "env_kwargs['frameskip'] is 4"),
        ({"obs_type": "ram"}, "or pass preprocess=false"),
        ({"sound_obs": True}, "sound is not an image"),
        ({"continuous": True}, "pass noop_max=0 too"),
        ({"noop": 3}, "did you mean 'noop_max'?"),
        ({"preprocess": False, "noop_max": 3}, "not take with preprocess=False"),
        ({"preprocess": "ga3c", "noop_max": 3}, "not take with preprocess='ga3c'"),
        ({"preprocess": "ga3c", "obs_type": "grayscale"}, "computes gray values"),
        ({"preprocess": "nature"}, 'expected true, false or "ga3c"'),
        ({"game": "pong"}, "env_kwargs has 'game'"),
    ],
)
def test_invalid_arguments_are_refused_before_a_worker_starts(kwargs, message):
    with pytest.raises(UserError, match=re.escape(message)):
        registry.constructor("ALE/Pong-v5", kwargs)


def test_continuous_actions_work_without_noops():
    with make("ALE/Pong-v5", continuous=True, noop_max=0) as env:
        env.reset(seed=1)
        assert env.step(env.action_space.sample())[0].shape == (84, 84, 4)


def test_missing_opencv_names_the_extra(monkeypatch):
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda m: None if m == "cv2" else find_spec(m)
    )
    with pytest.raises(UserError, match=r"needs cv2 .*tfagents_batch\[atari\]"):
        registry.constructor("ALE/Pong-v5")
    assert registry.constructor("ALE/Pong-v5", {"preprocess": False})


def test_an_emulator_starts_without_its_banner():
    result = python.run(
        "from tfagents_batch.envs import registry\n"
        "registry.constructor('ALE/Pong-v5')().close()"
    )
    assert result.stdout + result.stderr == ""


def test_a_seed_determines_transitions_for_any_number_of_workers():
    options = {"env_kwargs": {"max_episode_steps": 12}, "backend": "portable"}
    with make_env("ALE/Breakout-v5", 2, 0, env_kwargs=options["env_kwargs"]) as env:
        expected = rollout(env, 30, 3).steps
    with make_env("ALE/Breakout-v5", 2, 2, **options) as env:
        found = rollout(env, 30, 3).steps
        sizes = [each.memory_info().rss >> 20 for each in psutil.Process().children()]
    np.testing.assert_array_equal(found.observation, expected.observation)
    np.testing.assert_array_equal(found.reward, expected.reward)
    assert len(sizes) == 2 and max(sizes) < 200  # MiB; TensorFlow alone needs more
