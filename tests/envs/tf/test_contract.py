"""Every TensorFlow environment of the package passes the contract of a batch."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import tensorflow as tf

import tfagents_batch as tfb
from tfagents_batch.envs.contract import SEED, EnvContract, rollout
from tfagents_batch.envs.tf import names

for_each = pytest.mark.parametrize("id", names.ENVIRONMENTS)


@functools.cache  # a batch has no state, so all rules can share one
def make(id):
    # The rules need episodes that end, which random play may not reach.
    return tfb.make_env(f"tf/{id}", 3, env_kwargs={"max_episode_steps": 20})


@functools.cache  # test_init_again_repeats_the_transitions covers a second one
def record(id):
    return rollout(make(id), Contract.steps, SEED)


class Contract(EnvContract):
    """All rules; most of them do not depend on the environment."""

    compilable = True
    steps = 45
    id = "CartPole-v1"
    # Held by the compiled program, which is compared with eager code too.
    test_graphs_and_eager_code_agree = None

    def make_env(self):
        return make(self.id)

    def _record(self):
        return record(self.id)


class TestCartPole(Contract):
    pass


@pytest.mark.parametrize("id", [id for id in names.ENVIRONMENTS if id != Contract.id])
@pytest.mark.parametrize(
    "rule",
    [
        "tensors_match_the_spec",
        "another_seed_gives_other_transitions",
        "compiled_and_eager_code_agree",
    ],
)
def test_rules_that_depend_on_the_environment_hold(id, rule):
    contract = Contract()
    contract.id = id
    getattr(contract, f"test_{rule}")()


@for_each
def test_observations_are_within_their_space(id):
    space, observation = make(id).spec.observation_space, record(id).steps.observation
    for row in observation.reshape(-1, *space.shape):
        assert space.contains(row), row


@for_each
def test_a_state_can_be_rendered(id):
    state, _ = make(id).init(1)
    first = tf.nest.map_structure(lambda x: x[0].numpy(), state.inner)
    picture = make(id).env.render(first)
    assert picture.dtype == np.uint8
    assert picture.ndim == 3 and picture.shape[2] == 3
    colors = np.unique(picture.reshape(-1, 3), axis=0)
    assert len(colors) > 1, "the picture has only one color"


def test_rows_depend_on_the_seed_and_their_number_only():
    few, many = (tfb.make_env("tf/CartPole-v1", num_envs=n) for n in (2, 5))
    (state, step), (other, expected) = few.init(3), many.init(3)
    ended = 0
    for _ in range(60):
        np.testing.assert_array_equal(step.observation, expected.observation[:2])
        ended += int(tf.reduce_sum(tf.cast(step.last, tf.int32)))
        state, step = few.step(state, tf.ones([2], tf.int32))
        other, expected = many.step(other, tf.ones([5], tf.int32))
    assert ended > 2
