"""Every TensorFlow environment of the package passes the contract of a batch."""

import functools

import numpy as np
import pytest
import tensorflow as tf

import tfagents_batch as tfb
from tests.envs.tf.batches import batch
from tfagents_batch.envs.contract import SEED, EnvContract, rollout
from tfagents_batch.envs.tf import names

for_each = pytest.mark.parametrize("id", names.ENVIRONMENTS)
# The rules of MinAtar's games are tested as compiled programs in test_minatar.
COMPILED_ELSEWHERE = [
    f"MinAtar/{game}-v1" for game in ("Asterix", "Breakout", "Freeway", "Seaquest")
]


@functools.cache  # test_init_again_repeats_the_transitions covers a second one
def record(id):
    return rollout(batch(id), Contract.steps, SEED)


class Contract(EnvContract):
    """All rules; most of them do not depend on the environment."""

    compilable = True
    steps = 45
    id = "CartPole-v1"
    # Held by the compiled program, which is compared with eager code too.
    test_graphs_and_eager_code_agree = None

    def make_env(self):
        return batch(self.id)

    def _record(self):
        return record(self.id)


class TestCartPole(Contract):
    pass


OTHERS = [id for id in names.ENVIRONMENTS if id != Contract.id]
RULES = {
    "tensors_match_the_spec": OTHERS,
    "another_seed_gives_other_transitions": OTHERS,
    "compiled_and_eager_code_agree": [x for x in OTHERS if x not in COMPILED_ELSEWHERE],
}


@pytest.mark.parametrize(
    "rule, id", [(rule, id) for rule in RULES for id in RULES[rule]]
)
def test_rules_that_depend_on_the_environment_hold(rule, id):
    contract = Contract()
    contract.id = id
    getattr(contract, f"test_{rule}")()


@for_each
def test_observations_are_within_their_space(id):
    space, observation = batch(id).spec.observation_space, record(id).steps.observation
    for row in observation.reshape(-1, *space.shape):
        assert space.contains(row), row


@for_each
def test_a_state_can_be_rendered(id):
    state, _ = batch(id).init(1)
    first = tf.nest.map_structure(lambda x: x[0].numpy(), state.inner)
    picture = batch(id).env.render(first)
    assert picture.dtype == np.uint8
    assert picture.ndim == 3 and picture.shape[2] == 3
    colors = np.unique(picture.reshape(-1, 3), axis=0)
    assert len(colors) > 1, "the picture has only one color"


def test_rows_depend_on_the_seed_and_their_number_only():
    few, many = (tfb.make_env("tf/CartPole-v1", num_envs=n) for n in (2, 5))
    actions = [np.ones(5, np.int32)] * 60
    expected = rollout(many, 60, 3, actions).steps
    found = rollout(few, 60, 3, [action[:2] for action in actions]).steps
    np.testing.assert_array_equal(found.observation, expected.observation[:, :2])
    assert found.last.sum() > 2
