import keras
import pytest

from tests.nn.cases import make_spec
from tests.support import linear as small
from tfagents_batch import algorithms
from tfagents_batch.algorithms import ppo
from tfagents_batch.errors import UserError
from tfagents_batch.nn import networks
from tfagents_batch.nn.layers import kernels
from tfagents_batch.training.assembly import create_algorithm, seeded
from tfagents_batch.training.config import RunConfig

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


def test_an_algorithm_without_a_learner_is_its_own(monkeypatch, linear):
    monkeypatch.delattr(small.Linear, "learner")
    algorithm = create_algorithm(RunConfig(algorithm=linear), make_spec())
    assert algorithm.learner is algorithm


def test_state_that_no_checkpoint_would_have_is_refused(monkeypatch):
    class Mine(ppo.PPO):
        def named_variables(self):
            return {"learner/mine": self.mine}

    entry = Mine, algorithms.REGISTRY["ppo"][1]
    monkeypatch.setitem(algorithms.REGISTRY, "ppo", entry)
    with pytest.raises(UserError, match="Mine has both a learner and named_variables"):
        create_algorithm(RunConfig(algorithm="ppo"), make_spec())
