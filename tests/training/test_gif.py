import io

import numpy as np
from PIL import Image

from tfagents_batch.training import gif


def decoded(data):
    image = Image.open(io.BytesIO(data))
    frames = []
    for number in range(image.n_frames):
        image.seek(number)
        frames.append(np.asarray(image.convert("RGB")))
    return np.array(frames), image


def test_frames_and_their_speed_survive():
    frames = np.zeros([3, 20, 30, 3], np.uint8)
    frames[0, :, :, 0] = 255
    frames[1, :10] = (0, 0, 255)
    frames[2] = 128
    found, image = decoded(gif.encode(frames, fps=10))
    assert image.format == "GIF"
    assert image.info["duration"] == 100
    assert image.info["loop"] == 0  # for ever
    assert np.abs(found.astype(int) - frames).max() <= 2


def test_no_picture_is_shown_for_less_than_browsers_allow():
    frames = np.random.default_rng(0).integers(0, 255, [3, 8, 8, 3], np.uint8)
    _, image = decoded(gif.encode(frames, fps=1000))
    assert image.info["duration"] == gif.FASTEST
