"""Videos of episodes: the requested number, complete, with their returns."""

from __future__ import annotations

import functools
import io
import shutil
import sys

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.classic_control import CartPoleEnv
from gymnasium.error import DependencyNotInstalled
from PIL import Image, ImageSequence

import tfagents_batch as tfb
from tests.support.brief import QUICK
from tfagents_batch.errors import UserError
from tfagents_batch.scripts import visualize
from tfagents_batch.training.log.tensorboard import gif
from tfagents_batch.training.video import write_mp4

imageio_ffmpeg = pytest.importorskip("imageio_ffmpeg")


def frames(path):
    return imageio_ffmpeg.count_frames_and_secs(str(path))[0]


@pytest.fixture(scope="module")
def run(linear, tmp_path_factory):
    logdir = tmp_path_factory.mktemp("logs")
    return tfb.train(linear, env="CartPole-v1", logdir=logdir, **QUICK)


@pytest.mark.parametrize("env", [None, "tf/CartPole-v1"])
def test_the_requested_episodes_are_filmed_from_first_to_last_state(run, env, tmp_path):
    found = tfb.visualize(run.logdir, tmp_path / "videos", 3, env=env)
    assert len(found) == 3
    files = sorted((tmp_path / "videos").iterdir())
    assert [episode.path for episode in found] == files
    for number, episode in enumerate(found):
        assert episode.path.name.startswith(f"episode-{number:03d}-return-")
        # The reward of CartPole is 1 per step.
        assert episode.return_ == episode.length > 5
        assert frames(episode.path) == episode.length + 1
    played = tfb.evaluate(run.logdir, 3, env=env)  # in one environment, one by one
    assert [episode.return_ for episode in found] == list(played.returns)


def test_a_gif_shows_the_pictures_at_the_speed_of_the_environment(run, tmp_path):
    [episode] = tfb.visualize(run.logdir, tmp_path, 1, format="gif")
    with Image.open(episode.path) as picture:
        assert picture.format == "GIF"
        shown = [x.info["duration"] for x in ImageSequence.Iterator(picture)]
    # Equal pictures are one that is shown longer. CartPole has 50 pictures a second.
    assert sum(shown) == 20 * (episode.length + 1) and min(shown) == 20  # milliseconds
    with pytest.raises(UserError, match="format is 'webm'; expected 'mp4' or 'gif'"):
        tfb.visualize(run.logdir, tmp_path, 1, format="webm")


def test_without_the_extra_the_error_names_the_flag_of_the_other_format(
    monkeypatch, tmp_path
):
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(UserError, match="flag --format=gif"):
        write_mp4(tmp_path / "a.mp4", 30, [])


@pytest.mark.parametrize("fps", [15, 30, 50, 60, 67, 125])
def test_a_gif_lasts_as_long_as_its_pictures_at_a_speed_that_browsers_show(
    fps,
):
    pictures = [np.full([4, 4, 3], number % 250, np.uint8) for number in range(2 * fps)]
    with Image.open(io.BytesIO(gif(pictures, fps))) as picture:
        shown = [x.info["duration"] for x in ImageSequence.Iterator(picture)]
    assert abs(sum(shown) - 2000) <= 1000 * 3 / fps and min(shown) >= 20


@pytest.mark.filterwarnings("ignore:.*calling render method")  # Gymnasium's own
def test_an_environment_that_renders_nothing_is_refused(run, tmp_path):
    make = functools.partial(gymnasium.make, "CartPole-v1", render_mode=None)
    with pytest.raises(UserError, match=r"renders nothing; create it with.*rgb_array"):
        tfb.visualize(run.logdir, tmp_path, 1, env=make)
    assert list(tmp_path.iterdir()) == []


def test_a_package_that_pictures_need_is_named_with_its_extra(run, tmp_path):
    class Canvas(CartPoleEnv):
        def render(self):
            raise DependencyNotInstalled("pygame is not installed")

    text = r"another package: pygame is not .*tfagents_batch\[video\]"
    with pytest.raises(UserError, match=text):
        tfb.visualize(run, tmp_path, 1, env=Canvas, format="gif")


def test_an_environment_without_render_is_named(run, tmp_path):
    class Garden(CartPoleEnv):
        def render(self):
            raise NotImplementedError

    with pytest.raises(UserError, match=r'Garden has no render.*mode="rgb_array"'):
        tfb.visualize(run.logdir, tmp_path, 1, env=Garden)
    assert list(tmp_path.iterdir()) == []


def test_pictures_of_another_size_are_refused_and_leave_no_file(run, tmp_path):
    class Growing(CartPoleEnv):
        def render(self):
            self._size = getattr(self, "_size", 14) + 2
            return np.zeros([16, self._size, 3], np.uint8)

    with pytest.raises(UserError, match="need the same size"):
        tfb.visualize(run.logdir, tmp_path, 1, env=Growing)
    assert list(tmp_path.iterdir()) == []


def test_odd_sizes_are_filmed(tmp_path):
    pictures = [np.full([33, 41, 3], 50 * value, np.uint8) for value in range(5)]
    write_mp4(tmp_path / "x.mp4", 30, pictures)
    assert frames(tmp_path / "x.mp4") == 5


def test_the_script_films_a_moved_run_and_prints_a_line_for_every_video(
    run, tmp_path, capsys
):
    moved = shutil.copytree(run.logdir, tmp_path / "moved")
    flags = [f"--logdir={moved}", f"--outdir={tmp_path}", "--episodes=2"]
    assert visualize.main(flags) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 and all(".mp4  return " in line for line in lines)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no run folder is given; pass --logdir"),
        (["--logdir=nowhere"], "nowhere does not exist"),
        (["--logdir=x", "--episodes=0"], "--episodes is 0; expected at least 1"),
    ],
)
def test_bad_flags_are_named(arguments, message):
    with pytest.raises(UserError, match=message):
        visualize.main(arguments)
