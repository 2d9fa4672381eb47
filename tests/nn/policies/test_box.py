import gymnasium.spaces as gs
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.nn.policies.cases import (
    actor,
    assert_frequencies,
    at,
    make_step,
    sample,
)
from tfagents_batch import nest
from tfagents_batch.errors import UserError
from tfagents_batch.nn.actor import Bounds, bounds
from tfagents_batch.nn.policies.box import (
    ActionNoise,
    ClippedNormal,
    Deterministic,
    SquashedNormal,
)
from tfagents_batch.schedules import Constant, Linear
from tfagents_batch.types import EnvSpec

LIMITS = Bounds(np.float32([-2]), np.float32([6]))
# In float32, low + 2 (high / 2 - low / 2) is less than high.
UNEVEN = Bounds(np.float32([-2.611573]), np.float32([1.6531452]))


def squashed(limits=LIMITS, warmup=100):
    return SquashedNormal(actor("mean", "log_std"), limits, warmup)


def deterministic(limits=LIMITS, warmup=100, scale=0.5, exploration="gaussian"):
    scale = scale if isinstance(scale, Linear) else Constant(scale)
    noise = None if exploration == "none" else ActionNoise(exploration, scale)
    return Deterministic(actor("action"), limits, warmup, noise)


def normal_step(mean, std, rows, size=1):
    row = np.ones([rows, size])
    outputs = {"mean": mean * row, "log_std": np.log(std) * row}
    return make_step({name: np.float32(x) for name, x in outputs.items()})


def tanh_step(unit, rows, size=1, first=False):
    action = np.full([rows, size], np.arctanh(unit), np.float32)
    return make_step({"action": action}, first)


def both_step(mean, std, rows, size=1):
    """Return a step for either policy."""
    step, other = normal_step(mean, std, rows, size), tanh_step(mean, rows, size)
    return step._replace(observation=step.observation | other.observation)


def log_density(policy, step, actions, now=100, state=()):
    action = tf.constant(actions, tf.float32)
    found = policy.log_density(step, state, action, at(now))
    assert found.dtype == tf.float32 and found.shape == (len(actions),)
    return found.numpy()


def test_squashed_log_densities_are_those_computed_by_hand():
    # Half of the range is 4. At x = 0: -ln(4 sqrt(2 pi)). Half way to the bound x is
    # atanh(0.5) = 0.5493061: less its square / 2, less ln(1 - 0.25).
    found = log_density(squashed(), normal_step(0, 1, 4), [[2], [4], [6.1], [-2.1]])
    np.testing.assert_allclose(
        found, [-2.3052329, -2.1684194, -np.inf, -np.inf], rtol=1e-5
    )


def test_log_densities_with_noise_are_those_computed_by_hand():
    # The actor's action is 0.5 of [-1, 1], 4 of [-2, 6], and the std 0.5: 2 there.
    # P(0.5 + 0.5 z > 1) = P(z > 1) = 0.1586553, P(0.5 + 0.5 z < -1) = 0.0013499.
    actions = [[4], [2], [6], [-2], [6.1], [-2.1]]
    found = log_density(deterministic(), tanh_step(0.5, 6), actions)
    expected = [-1.6120857, -2.1120857, -1.8410216, -6.6077262, -np.inf, -np.inf]
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def clipped(limits=LIMITS):
    return ClippedNormal(actor("action", "log_std"), limits)


def clipped_step(unit, std, rows):
    row = np.ones([rows, 1])
    outputs = {"action": np.arctanh(unit) * row, "log_std": np.log(std) * row}
    return make_step({name: np.float32(x) for name, x in outputs.items()})


def test_log_densities_of_a_clipped_normal_are_those_of_normal_noise():
    actions = [[4], [2], [6], [-2], [6.1], [-2.1]]
    found = log_density(clipped(), clipped_step(0.5, 0.5, 6), actions)
    expected = [-1.6120857, -2.1120857, -1.8410216, -6.6077262, -np.inf, -np.inf]
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_a_clipped_normal_takes_its_mean_or_clips_what_it_samples():
    policy, step = clipped(), clipped_step(0.5, 0.5, 2000)
    noise = nest.map(lambda x: x[0], policy.noise((1, 2000), 0))
    mean, _, _ = policy.act(step, (), noise, at(100), False)
    np.testing.assert_allclose(mean, np.full([2000, 1], 4.0), rtol=1e-6)
    taken, _, _ = policy.act(step, (), noise, at(100), True)
    assert np.min(taken) >= -2 and np.max(taken) == 6
    assert np.mean(taken == 6) == pytest.approx(0.1587, abs=0.03)  # P(z > 1)


def test_log_densities_with_ou_noise_are_given_the_acting_state():
    # The noise was -0.4: its mean is now -0.34, and that of actions 0.16 or 2.64.
    policy = deterministic(exploration="ou")
    state = tf.constant([[-0.4], [-0.4]])
    found = log_density(policy, tanh_step(0.5, 2), [[2.64], [6.0]], state=state)
    # P(z > (1 - 0.16) / 0.5) = P(z > 1.68) = 0.0464787
    np.testing.assert_allclose(found, [-1.6120857, -3.0687613], rtol=1e-5)
    first = log_density(policy, tanh_step(0.5, 1, first=True), [[4]], state=state[:1])
    np.testing.assert_allclose(first, [-1.6120857], rtol=1e-5)


@pytest.mark.parametrize("policy", [squashed(), deterministic()])
def test_warmup_is_uniform_within_the_bounds(policy):
    step = both_step(0.3, 0.5, 5)
    found = log_density(policy, step, [[-2], [1], [6], [6.1], [-2.1]], now=99)
    np.testing.assert_allclose(found, [-np.log(8)] * 3 + [-np.inf] * 2, rtol=1e-6)
    rows = nest.map(lambda x: tf.repeat(x, 20_000, 0), step)
    counts = np.histogram(sample(policy, rows, 99), np.linspace(-2, 6, 11))[0]
    assert_frequencies(counts, np.full(10, 0.1))
    after = log_density(policy, step, [[-2], [1], [6], [6.1], [-2.1]])
    assert np.all(after[:3] != found[:3])


def mass(policy, step, limits, now=100, state=(), bins=20, parts=500):
    """Return the probability of each bin between the bounds, and of each bound."""
    low, high = (np.float64(x[0]) for x in limits)
    edges = np.linspace(low, high, bins * parts + 1)
    middle = np.float32((edges[1:] + edges[:-1]) / 2)[:, np.newaxis]
    rows = nest.map(lambda x: tf.repeat(x, len(middle), 0), (step, state))
    density = policy.log_density(*rows, middle, at(now))
    width = (high - low) / (bins * parts)
    inside = np.exp(np.float64(density)).reshape(bins, parts).sum(1) * width
    ends = [
        np.exp(float(policy.log_density(step, state, x[np.newaxis], at(now))[0]))
        for x in limits
    ]
    return inside, ends


@pytest.mark.parametrize("limits", [LIMITS, UNEVEN], ids=["even", "uneven"])
@pytest.mark.parametrize("mean, std", [(0.0, 0.3), (0.5, 0.7), (-1.0, 0.6), (0.2, 1.4)])
def test_squashed_densities_integrate_to_one_and_are_of_the_actions(limits, mean, std):
    policy, count = squashed(limits), 100_000
    inside, _ = mass(policy, normal_step(mean, std, 1), limits)
    np.testing.assert_allclose(inside.sum(), 1, rtol=2e-3)
    actions = sample(policy, normal_step(mean, std, count), 100)
    edges = np.linspace(*(np.float64(x[0]) for x in limits), 21)
    assert_frequencies(np.histogram(actions, edges)[0], inside / inside.sum())


@pytest.mark.parametrize("limits", [LIMITS, UNEVEN], ids=["even", "uneven"])
@pytest.mark.parametrize("exploration", ["gaussian", "ou"])
@pytest.mark.parametrize("unit, scale", [(0.0, 0.2), (0.6, 0.5), (-0.9, 0.3)])
def test_densities_with_noise_and_probabilities_of_bounds_are_of_the_actions(
    limits, exploration, unit, scale
):
    policy, count = deterministic(limits, 100, scale, exploration), 100_000
    state = tf.constant([[0.3]]) if exploration == "ou" else ()
    inside, ends = mass(policy, tanh_step(unit, 1), limits, state=state)
    np.testing.assert_allclose(inside.sum() + sum(ends), 1, rtol=2e-4)
    states = tf.repeat(state, count, 0) if exploration == "ou" else ()
    actions = sample(policy, tanh_step(unit, count), 100, states)
    low, high = (actions == x[0] for x in limits)
    edges = np.linspace(*(np.float64(x[0]) for x in limits), 21)
    counts = np.histogram(actions[~low & ~high], edges)[0]
    counts, found = [*counts, low.sum(), high.sum()], np.array([*inside, *ends])
    assert_frequencies(counts, found / found.sum())


@pytest.mark.parametrize("kind", [squashed, deterministic])
def test_densities_of_several_numbers_are_products(kind):
    low, high = np.float32([[-1, 0, 5]]), np.float32([[1, 10, 7]])
    both = kind(bounds(EnvSpec(1, gs.Box(-1, 1), gs.Box(low, high), {})), 0)
    action = np.float32([[[0.2, 3.0, 5.5]], [[1.0, 0.0, 6.0]]])
    found = log_density(both, both_step(0.4, 0.5, 2, 3), action)
    parts = [
        log_density(
            kind(Bounds(low[0, [i]], high[0, [i]]), 0),
            both_step(0.4, 0.5, 2),
            action[:, 0, i, np.newaxis],
        )
        for i in range(3)
    ]
    np.testing.assert_allclose(found, np.sum(parts, 0), rtol=1e-5)


def test_densities_follow_the_schedule_of_noise():
    policy = deterministic(scale=Linear(1.0, 0.0, 1000), warmup=0)
    found = [
        log_density(policy, tanh_step(0.5, 1), [[4]], now)[0] for now in (0, 500, 750)
    ]
    np.testing.assert_allclose(np.diff(found), np.log(2), rtol=1e-5)


def test_without_noise_there_is_no_density():
    policy = deterministic(scale=Linear(1.0, 0.0, 1000))
    step, action = tanh_step(0.5, 2), tf.constant([[4.0], [6.0]])
    assert np.all(np.isnan(policy.log_density(step, (), action, at(1000))))
    policy = deterministic(scale=0.0)
    function = tf.function(
        lambda now: policy.log_density(step, (), action, now), autograph=False
    )
    with pytest.raises(UserError, match=r"not available without noise.*noise above 0"):
        function.get_concrete_function(tf.TensorSpec([], tf.int64))


@pytest.mark.parametrize("policy", [squashed(), deterministic()])
def test_a_box_has_no_probabilities(policy):
    with pytest.raises(UserError, match=r"action space is a Box.*call log_density"):
        policy.probabilities(normal_step(0, 1, 1), (), at(0))


@pytest.mark.parametrize("kind", [squashed, deterministic])
def test_compiled_densities_are_the_same(kind):
    policy, rows = kind(UNEVEN), 2000
    step, noise = both_step(0.6, 0.9, rows), policy.noise((rows,), 1)

    def both(now):
        action, _, _ = policy.act(step, (), noise, now, True)
        return action, policy.log_density(step, (), action, now)

    for now in (0, 100):
        action, found = tf.function(both, jit_compile=True, autograph=False)(at(now))
        expected = policy.log_density(step, (), action, at(now))
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    assert kind is squashed or np.sum(action == UNEVEN.high) > 100


finite = st.floats(-1e6, 1e6, width=32, allow_subnormal=False)


@given(finite, finite)
@example(-2.611573, 1.6531452)
@settings(max_examples=100, deadline=None)
def test_ends_of_the_range_are_exactly_the_bounds(low, high):
    low, high = sorted((np.float32(low), np.float32(high)))
    if low < high:
        limits = Bounds(low[np.newaxis], high[np.newaxis])
        found = limits.action(tf.constant([[-1.0], [1.0], [np.nan]])).numpy()
        assert found[0] == low and found[1] == high and np.isnan(found[2])
