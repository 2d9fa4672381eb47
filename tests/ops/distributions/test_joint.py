"""Actions with parts: every number is the sum over the distributions of the parts."""

import gymnasium.spaces as gs
import hypothesis
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import strategies as st

from tfagents_batch import spaces
from tfagents_batch.errors import UserError
from tfagents_batch.interfaces import Distribution
from tfagents_batch.ops import distributions as ds

ROWS = 4
LEAVES = (
    gs.Discrete(3, start=2),
    gs.MultiDiscrete([2, 4]),
    gs.MultiBinary(3),
    gs.Box(np.float32([-1, 0]), np.float32([1, 10])),
    gs.Box(-2, 2, ()),
)
NESTED = gs.Dict(
    kind=LEAVES[0], rest=gs.Tuple([LEAVES[3], gs.Dict(a=LEAVES[1], b=LEAVES[2])])
)


@st.composite
def nests(draw):
    """Draw a Tuple, or a Dict with a Tuple, of one to five leaves."""
    leaves = draw(st.lists(st.sampled_from(LEAVES), min_size=1, max_size=5))
    if draw(st.booleans()):
        return gs.Tuple(leaves)
    return gs.Dict(b=gs.Tuple(leaves), a=draw(st.sampled_from(LEAVES)))


def make(space, squash, seed):
    """Return the joint distribution, and those of its leaves by themselves."""
    family = ds.for_space(space, squash)
    rng = np.random.default_rng(seed)
    outputs = tf.constant(rng.normal(size=[ROWS, family.size]), tf.float32)
    std = tf.constant(0.3 + rng.random(family.std_size), tf.float32)
    joint = family.make(outputs, std=std if family.needs_std else None)
    alone = []
    for leaf in spaces.leaves(space):
        part = ds.for_space(leaf.space, squash)
        own, outputs = outputs[:, : part.size], outputs[:, part.size :]
        own_std, std = std[: part.std_size], std[part.std_size :]
        alone.append(part.make(own, own_std if part.needs_std else None))
    return family, joint, alone


@hypothesis.given(nests(), st.booleans(), st.integers(0, 99))
@hypothesis.settings(max_examples=25, deadline=None)
def test_log_probabilities_entropies_and_kl_are_sums_of_parts(space, squash, seed):
    family, joint, alone = make(space, squash, seed)
    others = make(space, squash, seed + 1)[1]
    assert isinstance(joint, Distribution)
    noise = family.noise([ROWS], seed)
    action = joint.sample(noise)
    parts = spaces.flatten(space, action)
    for part, one, own in zip(parts, alone, noise, strict=True):
        np.testing.assert_array_equal(part, one.sample(own))
    mode = spaces.flatten(space, joint.mode())
    for part, one in zip(mode, alone, strict=True):
        np.testing.assert_array_equal(part, one.mode())

    def total(numbers):
        return pytest.approx(np.sum([*numbers], 0), rel=1e-5, abs=1e-5)

    pairs = list(zip(alone, parts, strict=True))
    assert joint.log_prob(action).numpy() == total(x.log_prob(y) for x, y in pairs)
    assert joint.entropy().numpy() == total(x.entropy() for x in alone)
    kl = zip(alone, others.parts, strict=True)
    assert joint.kl(others).numpy() == total(x.kl(y) for x, y in kl)
    again = joint.with_params(joint.params)
    np.testing.assert_array_equal(again.log_prob(action), joint.log_prob(action))


@pytest.mark.parametrize("squash", [False, True])
def test_samples_are_in_the_space_and_parts_are_independent(squash):
    family, joint, _ = make(NESTED, squash, 0)
    actions = joint.sample(family.noise([500, ROWS], 3))
    flat = [x.numpy() for x in spaces.flatten(NESTED, actions)]
    leaves = spaces.leaves(NESTED)
    for x, leaf in zip(flat, leaves, strict=True):
        if squash or not isinstance(leaf.space, gs.Box):
            for row in x.reshape(-1, *leaf.shape):
                assert leaf.space.contains(row.astype(leaf.space.dtype))
    # Two parts of the same kind have noise of their own.
    twins = ds.for_space(gs.Tuple([LEAVES[4], LEAVES[4]]))
    one, two = twins.noise([4000], 5)
    assert abs(np.corrcoef(one, two)[0, 1]) < 0.06


def test_gradients_equal_those_of_the_parts_in_xla():
    family, _, _ = make(NESTED, False, 0)
    std = tf.fill([family.std_size], 0.7)
    drawn = [np.stack([x.space.sample()] * ROWS) for x in spaces.leaves(NESTED)]
    drawn = [x.astype("float32" if x.dtype.kind == "f" else "int32") for x in drawn]
    action = spaces.pack(NESTED, [tf.constant(x) for x in drawn])
    outputs = tf.random.stateless_normal([ROWS, family.size], [1, 2])

    @tf.function(jit_compile=True, autograph=False)
    def compiled(outputs):
        with tf.GradientTape() as tape:
            tape.watch(outputs)
            value = tf.reduce_sum(family.make(outputs, std).log_prob(action))
        return tape.gradient(value, outputs)

    first, expected = 0, []
    parts = zip(family.parts, spaces.flatten(NESTED, action), strict=True)
    for part, chosen in parts:
        own = outputs[:, first : first + part.size]
        first += part.size
        with tf.GradientTape() as tape:
            tape.watch(own)
            own_std = tf.fill([part.std_size], 0.7) if part.needs_std else None
            value = tf.reduce_sum(part.make(own, own_std).log_prob(chosen))
        expected.append(tape.gradient(value, own))
    np.testing.assert_allclose(
        compiled(outputs), np.concatenate(expected, 1), atol=1e-5
    )


def test_a_mask_has_the_entries_of_the_parts_that_can_be_masked():
    family, _, _ = make(NESTED, False, 0)
    assert family.mask_size == 3 + 2 + 4
    mask = np.zeros([ROWS, 9], bool)
    mask[:, [1, 4, 5]] = True  # one choice of each
    outputs = np.random.default_rng(0).normal(size=[ROWS, family.size])
    std = tf.ones([family.std_size])
    joint = family.make(tf.constant(outputs, tf.float32), std, tf.constant(mask))
    action = joint.sample(family.noise([ROWS], 1))
    np.testing.assert_array_equal(action["kind"], [3] * ROWS)
    np.testing.assert_array_equal(action["rest"][1]["a"], [[1, 0]] * ROWS)
    with pytest.raises(UserError, match="cannot mask actions"):
        plain = ds.for_space(gs.Tuple([LEAVES[4]]))
        plain.make(tf.zeros([1, 1]), tf.ones([1]), tf.ones([1, 1]))


def test_what_has_no_distribution_is_refused():
    with pytest.raises(UserError, match=r"Box.*not supported"):
        ds.for_space(gs.Tuple([gs.Box(0, 9, (2,), np.int64)]))
    with pytest.raises(UserError, match="no parts"):
        ds.for_space(gs.Dict({}))
