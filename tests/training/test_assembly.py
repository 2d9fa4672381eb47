import keras
import pytest

from tests.nn.cases import make_spec
from tfagents_batch.nn import networks
from tfagents_batch.nn.layers import kernels
from tfagents_batch.training.assembly import seeded

CREATIONS = 4  # of kernels


class Interrupted(keras.initializers.Zeros):
    """Initializer that raises at one of its calls, for all instances together."""

    calls_left = CREATIONS

    def __call__(self, shape, dtype=None):
        type(self).calls_left -= 1
        if type(self).calls_left == 0:
            raise KeyboardInterrupt
        return super().__call__(shape, dtype)


@pytest.mark.parametrize("call", range(1, CREATIONS + 1))
def test_a_network_whose_creation_is_interrupted_leaves_the_next_one_intact(
    monkeypatch, call
):
    with monkeypatch.context() as patch:
        patch.setattr(Interrupted, "calls_left", call)
        patch.setattr(kernels, "hidden", lambda kind: Interrupted())
        with pytest.raises(KeyboardInterrupt), seeded(0):
            networks.actor_critic(make_spec())
    for variable in networks.actor_critic(make_spec()).variables:
        variable.assign(variable.value)
