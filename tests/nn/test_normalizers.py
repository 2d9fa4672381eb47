import itertools

import gymnasium
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces as gs
from hypothesis import given, settings
from hypothesis import strategies as st

from tfagents_batch.nn.normalizers import (
    Moments,
    ObservationNormalizer,
    RewardNormalizer,
)
from tfagents_batch.types import TimeStep, Trajectory


class TestObservationNormalizer:
    space = gs.Dict(
        image=gs.Box(0, 255, (8, 8, 3), np.uint8),
        vector=gs.Box(-np.inf, np.inf, (2,), np.float32),
        count=gs.Box(0, 60_000, (2,), np.uint16),
        flag=gs.Box(0, 1, (2,), bool),
        number=gs.Discrete(3),
        action_mask=gs.Box(0, 1, (4,), np.float32),
    )

    def observe(self, seed: int) -> dict:
        self.space.seed(seed)
        samples = [self.space.sample() for _ in range(50)]
        keys = samples[0]
        return {k: tf.constant(np.stack([s[k] for s in samples])) for k in sorted(keys)}

    def test_only_vectors_of_floats_and_integers_change(self):
        normalizer = ObservationNormalizer(self.space)
        observation = self.observe(0)
        normalizer.update(observation, tf.ones([50], tf.bool))
        seen = normalizer(observation)
        for key in ("image", "flag", "number", "action_mask"):
            assert seen[key] is observation[key]
        for key in ("vector", "count"):
            np.testing.assert_allclose(tf.reduce_mean(seen[key], 0), 0, atol=1e-5)
            np.testing.assert_allclose(np.std(seen[key], 0, ddof=1), 1, rtol=1e-4)
        assert len(normalizer.named_variables()) == 6

    def test_integers_of_a_users_network_stay_as_they_are(self):
        normalizer = ObservationNormalizer(self.space, integers=False)
        observation = self.observe(0)
        normalizer.update(observation, tf.ones([50], tf.bool))
        assert normalizer(observation)["count"] is observation["count"]

    @pytest.mark.parametrize("compiled", [False, True])
    def test_integers_that_float32_does_not_have_are_told_apart(self, compiled):
        normalizer = ObservationNormalizer(gs.Box(0, 2**31 - 1, (1,), np.int32))
        x = tf.constant([[2**30 - 1], [2**30], [2**30 + 1]])
        normalizer.update(x, tf.ones([3], tf.bool))
        seen = tf.function(normalizer, jit_compile=compiled, autograph=False)(x)
        np.testing.assert_allclose(seen, [[-1], [0], [1]], rtol=1e-6)

    def test_half_precision_is_normalized_as_float32(self):
        space = gs.Box(-4, 4, (3,), np.float16)
        normalizer = ObservationNormalizer(space)
        half = tf.constant([[0.0] * 3, [1.0] * 3, [5.0] * 3], tf.float16)
        normalizer.update(half, tf.ones([3], tf.bool))
        seen = normalizer(half)
        assert seen.dtype == tf.float32
        np.testing.assert_allclose(tf.reduce_mean(seen, 0), 0, atol=1e-3)
        np.testing.assert_allclose(np.std(seen, 0, ddof=1), 1, rtol=1e-3)

    def test_outliers_are_clipped(self):
        normalizer = ObservationNormalizer(gymnasium.spaces.Box(-1, 1, (1,)), clip=5.0)
        x = tf.random.stateless_normal([100, 1], [1, 2])
        normalizer.update(x, tf.ones([100], tf.bool))
        assert float(normalizer(tf.constant([[1e9]]))[0, 0]) == 5

    def test_it_is_the_identity_before_the_first_update(self):
        normalizer = ObservationNormalizer(gymnasium.spaces.Box(-1, 1, (2,)))
        x = tf.constant([[0.5, -0.25]])
        np.testing.assert_array_equal(normalizer(x), x)


@pytest.mark.parametrize("unit", [1e-20, 1e-8, 1e-6, 1e6])
def test_scaled_rewards_do_not_depend_on_the_unit_of_rewards(unit):
    scaled = []
    for size in (1.0, unit):
        normalizer = RewardNormalizer("per_step")
        reward = size * tf.constant([0.0, 0.0, 1.0, -0.5, 0.25])
        normalizer.moments.update(reward, tf.ones([5], tf.bool))
        scaled.append(normalizer(reward))
    np.testing.assert_allclose(*scaled, rtol=1e-5)
    assert np.ptp(scaled[0]) > 1


@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_every_return_counts_once_however_a_stream_is_cut(data):
    gamma, size = 0.9, 12
    first = np.array(data.draw(st.lists(st.booleans(), min_size=size, max_size=size)))
    reward = np.arange(1, size + 1) * np.float32(0.5) * ~first
    first[0] = True
    last = np.append(first[1:], False)
    running = []  # return of each row
    for begins, x in zip(first, reward, strict=True):
        running.append(0.0 if begins else gamma * running[-1] + x)
    cuts = data.draw(st.sets(st.integers(1, size - 2)))
    normalizer = RewardNormalizer(True)
    for begin, end in itertools.pairwise([0, *sorted(cuts), size - 1]):
        rows = slice(begin, end + 1)
        columns = [np.asarray(x)[rows, None] for x in (reward, first, last)]
        reward_, first_, last_ = map(tf.constant, columns)
        flags = first_, tf.zeros_like(last_), last_
        steps = TimeStep((), tf.cast(reward_, tf.float32), *flags, {})
        behavior = {"return": tf.constant(running[begin:end], tf.float32)[:, None]}
        normalizer.update(Trajectory(steps, (), behavior), gamma)
    expected = [x for begins, x in zip(first, running, strict=True) if not begins]
    assert float(normalizer.moments.count) == len(expected)
    if expected:
        np.testing.assert_allclose(normalizer.moments.mean, np.mean(expected), 1e-6)


@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 2**16),
    sizes=st.lists(st.integers(1, 20), min_size=1, max_size=5),
    offset=st.sampled_from([0.0, 1e6]),
)
def test_any_split_into_batches_gives_the_moments_of_numpy(seed, sizes, offset):
    random = np.random.default_rng(seed)
    batches = [offset + random.normal(size=(n, 3)) for n in sizes]
    moments = Moments([3])
    for x in batches:
        moments.update(tf.constant(x), tf.ones([len(x)], tf.bool))
    x = np.concatenate(batches)
    np.testing.assert_allclose(moments.mean, x.mean(0), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(
        moments.sum_of_squares, np.square(x - x.mean(0)).sum(0), rtol=1e-8, atol=1e-9
    )


def test_masked_samples_do_not_count_even_when_nan():
    moments = Moments([])
    x = tf.constant([1.0, np.nan, 3.0, 100.0])
    moments.update(x, tf.constant([True, False, True, False]))
    assert float(moments.count) == 2
    assert float(moments.mean) == 2
    assert float(moments.std()) == pytest.approx(np.std([1, 3], ddof=1))


def test_an_empty_batch_changes_nothing():
    moments = Moments([2])
    moments.update(tf.ones([4, 2]), tf.ones([4], tf.bool))
    before = [x.numpy() for x in moments.named_variables().values()]
    moments.update(tf.ones([4, 2]) * 7, tf.zeros([4], tf.bool))
    for a, b in zip(before, moments.named_variables().values(), strict=True):
        np.testing.assert_array_equal(a, b)


def test_std_is_one_below_two_samples_and_has_a_floor_above():
    moments = Moments([])
    assert float(moments.std()) == 1
    moments.update(tf.constant([5.0]), tf.constant([True]))
    assert float(moments.std()) == 1
    moments.update(tf.constant([5.0]), tf.constant([True]))
    assert float(moments.std(floor=1e-3)) == pytest.approx(1e-3)


def test_an_epsilon_is_added_to_the_variance_as_batch_ppo_does():
    moments = Moments([])
    moments.update(tf.constant([1.0, 3.0]), tf.ones([2], tf.bool))
    assert float(moments.std(epsilon=7.0)) == pytest.approx(3)
    moments = Moments([])
    moments.update(tf.ones([5]), tf.ones([5], tf.bool))
    assert float(moments.std(epsilon=1e-4)) == pytest.approx(0.01)
    assert float(moments.scale(epsilon=1e-4)) == 1  # equal samples are not scaled


def test_compiled_and_eager_updates_agree():
    plain, compiled = Moments([3]), Moments([3])
    x, mask = tf.random.stateless_normal([5, 4, 3], [1, 2]), tf.ones([5, 4], tf.bool)
    plain.update(x, mask)
    tf.function(compiled.update, jit_compile=True, autograph=False)(x, mask)
    np.testing.assert_allclose(
        plain.sum_of_squares, compiled.sum_of_squares, rtol=1e-12
    )


def test_equal_rewards_are_divided_by_one():
    moments = Moments([])
    assert float(moments.scale()) == 1
    moments.update(tf.constant([0.1] * 5), tf.ones([5], tf.bool))
    assert float(moments.scale()) == 1
    moments.update(tf.constant([0.3]), tf.constant([True]))
    assert float(moments.scale()) == float(moments.std()) < 1


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_rewards_that_differ_by_rounding_are_equal(unit):
    moments = Moments([])
    reward = unit * tf.constant([1.0, 1 + 2**-23, 1 - 2**-24])
    moments.update(reward, tf.ones([3], tf.bool))
    assert float(moments.scale()) == 1
