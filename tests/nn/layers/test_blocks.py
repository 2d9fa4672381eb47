import keras
import numpy as np
import pytest

from tfagents_batch.nn.layers import blocks, impala

IMAGE = np.random.default_rng(0).random([2, 44, 40, 3]).astype(np.float32)
NETWORKS = {
    "nature": blocks.nature_cnn,
    "small": blocks.small_cnn,
    "ga3c": blocks.ga3c_cnn,
    "impala": lambda: impala.ImpalaCNN(),
}


@pytest.fixture
def channels_first():
    before = keras.config.image_data_format()
    keras.config.set_image_data_format("channels_first")
    yield
    keras.config.set_image_data_format(before)


@pytest.mark.parametrize("name", NETWORKS)
def test_keras_global_image_format_changes_nothing(name, channels_first):
    def output():
        keras.utils.set_random_seed(0)
        return NETWORKS[name]()(IMAGE).numpy()

    first = output()
    keras.config.set_image_data_format("channels_last")
    np.testing.assert_array_equal(first, output())
