import pytest
import tensorflow as tf

from tfagents_batch.errors import UserError
from tfagents_batch.programs import rounds


def test_a_failure_of_the_gpus_driver_is_one_line_with_a_way_out():
    text = "tfab:cuda:3: the GPU cannot step environments: cuX failed with CUDA_Y"
    error = tf.errors.AbortedError(None, None, f"{text}\n\t[[{{node step}}]]")
    with pytest.raises(UserError) as raised:
        rounds.refused(error)
    assert str(raised.value) == (
        "the GPU cannot step environments: cuX failed with CUDA_Y; use "
        "--compile=update, which steps them from the CPU"
    )


@pytest.mark.parametrize(
    "text",
    [
        "No registered 'PyFunc' OpKernel for XLA_CPU_JIT",
        "unsupported operations: PyFunc",
    ],
)
def test_an_operation_that_xla_refuses_is_named(text):
    error = tf.errors.InvalidArgumentError(None, None, text)
    assert rounds.refused(error) == "PyFunc"
    with pytest.raises(ValueError):
        rounds.refused(ValueError(text))
