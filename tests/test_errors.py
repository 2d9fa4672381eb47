"""First lines of exceptions."""

import keras
import numpy as np
import pytest

from tfagents_batch.errors import first_line, headline


@pytest.mark.parametrize(
    ("text", "line"), [("", ""), ("\n a \nb", "a"), (ValueError("a\nb"), "a")]
)
def test_the_headline_is_the_first_line(text, line):
    assert headline(text) == line


def test_an_exception_inside_of_keras_says_what_went_wrong():
    class Broken(keras.layers.Layer):
        def call(self, x):
            raise ValueError("these two do not fit")

    with pytest.raises(ValueError, match="Exception encountered") as raised:
        Broken()(np.zeros([1, 2], np.float32))
    assert first_line(raised.value) == "ValueError: these two do not fit"
