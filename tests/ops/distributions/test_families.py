"""Tests that every family of distributions must pass."""

import gymnasium.spaces as gs
import numpy as np
import pytest
import tensorflow as tf

from tfagents_batch import seeds
from tfagents_batch.errors import UserError
from tfagents_batch.interfaces import Distribution
from tfagents_batch.ops import distributions as ds

NAN = float("nan")
ROWS = 5
RNG = np.random.default_rng(0)


def box(low, high, shape=None):
    return gs.Box(np.float32(low), np.float32(high), shape, np.float32)


SPACES = {
    "discrete": (gs.Discrete(4, start=5), False),
    "multi": (gs.MultiDiscrete([2, 4, 3], start=[0, -1, 7]), False),
    "multi-equal": (gs.MultiDiscrete([3, 3]), False),
    "multi-matrix": (gs.MultiDiscrete([[2, 3], [4, 2]]), False),
    "bits": (gs.MultiBinary(3), False),
    "bit-matrix": (gs.MultiBinary([2, 3]), False),
    "box": (box(-1, 1, (3,)), False),
    "unbounded": (box([-np.inf, 0], [np.inf, np.inf]), False),
    "scalar": (box(-2, 2, ()), False),
    "matrix": (box(-2, 2, (2, 3)), False),
    "ranges": (box([-2000, 0, -1e-3], [2000, 1000, 1e-3]), False),
    "tanh": (box([-1, 0, 5], [1, 10, 5.5]), True),
    "tanh-scalar": (box(-2, 2, ()), True),
    "tanh-matrix": (box(-2, 3, (2, 3)), True),
}
MASKABLE = [name for name in SPACES if name.startswith(("discrete", "multi"))]


def make(name, seed=0, lead=(ROWS,), mask=None):
    family = ds.for_space(SPACES[name][0], squash=SPACES[name][1])
    rng = np.random.default_rng(seed)
    outputs = tf.constant(rng.normal(size=(*lead, family.size)), tf.float32)
    std = tf.constant(0.3 + rng.random(family.size), tf.float32)
    return family, family.make(outputs, std if family.needs_std else None, mask)


@pytest.fixture(params=SPACES)
def name(request):
    return request.param


def test_every_family_satisfies_the_protocol_and_samples_actions_of_its_space(name):
    family, policy = make(name)
    assert isinstance(policy, Distribution)
    sample = policy.sample(family.noise((ROWS,), 3))
    for action in (sample, policy.mode()):
        assert action.dtype == family.dtype
        assert action.shape == (ROWS, *family.shape)
    for column in (policy.log_prob(sample), policy.entropy(), policy.kl(policy)):
        assert column.shape == (ROWS,) and column.dtype == tf.float32
        assert np.isfinite(column).all()
    noise = family.noise((50, ROWS), 1)
    space = SPACES[name][0]
    bounded = not isinstance(space, gs.Box) or family.name == "TanhNormal"
    for row in policy.sample(noise).numpy().reshape(-1, *family.shape):
        assert not bounded or space.contains(np.asarray(row, space.dtype))


HUGE = np.finfo(np.float32).max


def test_outputs_are_in_halves_of_the_range_around_its_middle():
    low = [-2000, 0, -1e-3, -1, -np.inf, 0, -HUGE, 5]
    high = [2000, 1000, 1e-3, 1, np.inf, np.inf, HUGE, 5]
    space = box(low, high)
    outputs = tf.fill([1, 8], 0.5)
    policy = ds.for_space(space).make(outputs, tf.fill([8], 0.1))
    # Without two different finite bounds, the units are those of the environment.
    mean = [[1000, 750, 5e-4, 0.5, 0.5, 0.5, 0.5, 0.5]]
    np.testing.assert_allclose(policy.mean, mean, rtol=1e-6)
    std = [[200, 50, 1e-4, 0.1, 0.1, 0.1, 0.1, 0.1]]
    np.testing.assert_allclose(policy.std, std, rtol=1e-6)
    raw = ds.for_space(space, scale=False).make(outputs, tf.fill([8], 0.1))
    np.testing.assert_array_equal(raw.mean, outputs)
    np.testing.assert_array_equal(raw.std, tf.fill([1, 8], 0.1))


@pytest.mark.parametrize("space", [box(-1, 1, (2,)), box(-np.inf, np.inf, (2,))])
def test_bounds_of_one_add_no_operation(space):
    outputs, std = tf.ones([3, 2]), tf.ones([3, 2])
    policy = ds.for_space(space).make(outputs, std)
    assert policy.mean is outputs and policy.std is std


def test_noise_may_be_drawn_for_all_steps_at_once(name):
    family, policy = make(name)
    noise = family.noise((3, ROWS), 9)
    assert noise.shape[:2] == (3, ROWS)
    assert (noise.numpy() != family.noise((3, ROWS), 8).numpy()).any()
    whole = policy.sample(noise)
    for t in range(3):
        np.testing.assert_array_equal(policy.sample(noise[t]), whole[t])


def test_parameters_rebuild_the_distribution(name):
    family, policy = make(name)
    again = make(name, seed=1)[1].with_params(policy.params)
    noise = family.noise((ROWS,), 0)
    action = policy.sample(noise)
    assert type(again) is type(policy)
    assert all(tensor.shape[0] == ROWS for tensor in policy.params.values())
    np.testing.assert_array_equal(again.sample(noise), action)
    np.testing.assert_array_equal(again.log_prob(action), policy.log_prob(action))


def test_entropy_and_divergence_are_expectations_of_log_probabilities(name):
    family, policy = make(name)
    _, other = make(name, seed=1)
    np.testing.assert_allclose(policy.kl(policy), np.zeros(ROWS), atol=1e-6)
    assert (policy.kl(other).numpy() > 1e-4).all()
    action = policy.sample(family.noise((20_000, ROWS), 5))
    log_prob = policy.log_prob(action).numpy()
    entropy = -log_prob.mean(0)
    np.testing.assert_allclose(policy.entropy(), entropy, rtol=0.02, atol=0.03)
    kl = (log_prob - other.log_prob(action).numpy()).mean(0)
    np.testing.assert_allclose(policy.kl(other), kl, rtol=0.06, atol=0.03)


def test_leading_axes_of_any_number_are_kept(name):
    family, flat = make(name, lead=(6,))
    _, folded = make(name, lead=(2, 3))
    noise = family.noise((6,), 0)
    shaped = tf.reshape(noise, [2, 3, *noise.shape[1:]])
    action, expected = folded.sample(shaped), flat.sample(noise)
    np.testing.assert_array_equal(tf.reshape(action, expected.shape), expected)
    np.testing.assert_allclose(
        tf.reshape(folded.log_prob(action), [6]), flat.log_prob(expected), rtol=1e-6
    )


@pytest.mark.parametrize("name", ["discrete", "multi", "bits", "matrix", "tanh"])
def test_compiled_and_eager_agree(name):
    family, policy = make(name)
    _, other = make(name, seed=1)

    def everything(params, seed):
        current = policy.with_params(params)
        action = current.sample(family.noise((ROWS,), seed))
        # log_prob of a fixed action: the inverse of tanh amplifies rounding errors
        fixed = current.log_prob(policy.mode())
        return action, current.mode(), fixed, current.entropy(), current.kl(other)

    compiled = tf.function(everything, jit_compile=True, autograph=False)
    results = compiled(policy.params, tf.constant(3))
    for x, y in zip(everything(policy.params, 3), results, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["discrete", "multi", "bit-matrix", "matrix", "tanh"])
def test_batches_of_unknown_size_work(name):
    family, _ = make(name)
    signature = [tf.TensorSpec([None, family.size])]

    @tf.function(input_signature=signature, autograph=False)
    def mode(outputs):
        std = tf.ones([family.size]) if family.needs_std else None
        policy = family.make(outputs, std)
        return policy.mode(), policy.log_prob(policy.mode())

    action, log_prob = mode(tf.zeros([7, family.size]))
    assert action.shape == (7, *family.shape) and log_prob.shape == (7,)


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("name", ["discrete", "multi-matrix", "bits"])
def test_networks_with_nan_choose_valid_actions(name, jit):
    space, family = SPACES[name][0], ds.for_space(SPACES[name][0])
    mask = tf.tile([[False, *[True] * (family.size - 1)]], [ROWS, 1])

    def choose(logits, noise):
        policy = family.make(logits, mask=mask if name in MASKABLE else None)
        return policy.sample(noise), policy.mode()

    choose = tf.function(choose, jit_compile=jit, autograph=False)
    for seed in range(5):
        noise = family.noise((ROWS,), seed)
        for actions in choose(tf.fill([ROWS, family.size], NAN), noise):
            for action in actions.numpy():
                assert space.contains(action.astype(space.dtype))
                if name in MASKABLE:
                    assert np.ravel(action)[0] != np.ravel(space.start)[0]


def test_extreme_noise_never_chooses_an_invalid_action(monkeypatch):
    extremes = tf.constant([[0.0, 1 - 2.0**-23, 0.0]])
    monkeypatch.setattr(seeds, "uniform", lambda shape, key: extremes)
    mask = tf.constant([[True, False, True]])
    policy = ds.Categorical(tf.constant([[-80.0, 90.0, -80.0]]), 0, mask)
    noise = ds.gumbel_noise((1, 3), 0)
    assert np.isfinite(noise).all()
    assert int(policy.sample(noise)[0]) in (0, 2)
    assert np.isfinite(ds.logistic_noise((1, 3), 0)).all()


@pytest.mark.parametrize("name", MASKABLE)
def test_masked_actions_have_no_probability_and_no_gradient(name):
    family = ds.for_space(SPACES[name][0])
    mask = np.ones(family.size, bool)
    mask[0] = False
    outputs = tf.constant(RNG.normal(size=(ROWS, family.size)), tf.float32)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(outputs)
        policy = family.make(outputs, mask=tf.constant([mask] * ROWS))
        action = policy.sample(family.noise((ROWS,), 0))
        targets = policy.log_prob(action), policy.entropy(), policy.kl(policy)
    for target in targets:
        gradient = tape.gradient(target, outputs).numpy()
        assert np.isfinite(gradient).all() and not gradient[:, 0].any()
    first = policy.sample(family.noise((2000, ROWS), 1)).numpy()
    first = first.reshape(2000, ROWS, -1)[..., 0]
    start = np.ravel(SPACES[name][0].start)[0]
    assert (first != start).all()


def test_entropy_and_divergence_count_valid_actions_only():
    logits = tf.zeros([4, 3])
    mask = tf.constant([[1, 1, 1], [1, 0, 1], [0, 1, 0], [0, 0, 0]], tf.int8)
    with tf.GradientTape() as tape:
        tape.watch(logits)
        entropy = ds.Categorical(logits, 0, mask).entropy()
    expected = [np.log(3), np.log(2), 0, np.log(3)]  # no valid one: all are valid
    np.testing.assert_allclose(entropy, expected, rtol=1e-6)
    gradient = tape.gradient(entropy, logits)
    np.testing.assert_allclose(gradient, np.zeros((4, 3)), atol=1e-7)
    # The divergence to a narrower mask is finite.
    wide = ds.Categorical(tf.zeros([1, 2]))
    narrow = ds.Categorical(tf.zeros([1, 2]), 0, tf.constant([[True, False]]))
    assert np.isfinite(wide.kl(narrow)).all()
    np.testing.assert_allclose(narrow.kl(wide), [np.log(2)], rtol=1e-6)


def test_gradients_flow_into_every_parameter_and_are_finite(name):
    family, policy = make(name)
    action = policy.sample(family.noise((ROWS,), 0))
    params = policy.params
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(params)
        current = policy.with_params(params)
        log_prob, entropy = current.log_prob(action), current.entropy()
        sample = current.sample(family.noise((ROWS,), 0))
    gradients = [*tape.gradient(log_prob, params).values()]
    if isinstance(SPACES[name][0], gs.Box):  # others have no gradient through samples
        gradients += tape.gradient(sample, params).values()
    for gradient in gradients:
        assert np.isfinite(gradient).all() and np.any(gradient)
    entropy = tape.gradient(entropy, params)
    for key, gradient in entropy.items():
        if gradient is None:  # the entropy of a normal does not depend on its mean
            assert key == "mean" and type(policy) is ds.DiagNormal
        else:
            assert np.isfinite(gradient).all()


def test_squashed_density_and_gradients_are_finite_at_the_bounds():
    action = tf.constant([[-1.0], [1.0], [-0.99999994], [0.99999994]])
    params = {"mean": tf.fill([4, 1], 0.3), "std": tf.fill([4, 1], 0.5)}
    with tf.GradientTape() as tape:
        tape.watch([params, action])
        policy = ds.TanhNormal(**params, low=-1.0, high=1.0)
        log_prob = policy.log_prob(action)
    gradients = tf.nest.flatten(tape.gradient(log_prob, [params, action]))
    assert np.isfinite(log_prob).all()
    assert all(np.isfinite(gradient).all() for gradient in gradients)


@pytest.mark.parametrize("jit", [False, True])
def test_squashed_samples_lie_strictly_inside(jit):
    low, high = np.float32([-1, 0, 5, -3]), np.float32([1, 10, 5.5, 0])

    @tf.function(jit_compile=jit, autograph=False)
    def act(mean):
        policy = ds.TanhNormal(mean, tf.ones_like(mean), low, high)
        return policy.mode(), policy.sample(ds.normal_noise((2, 4), 0))

    for action in act(tf.constant([[100.0] * 4, [-100.0] * 4])):
        assert (action.numpy() > low).all() and (action.numpy() < high).all()


@pytest.mark.parametrize("mean", [0.0, 1.0, -4.0])
@pytest.mark.parametrize(("std", "error"), [(0.1, 1e-5), (1.0, 2e-5), (3.0, 1e-4)])
def test_squashed_entropy_matches_fine_integration(mean, std, error):
    z = np.linspace(-10, 10, 200_001)
    weight = np.exp(-(z**2) / 2)
    x = mean + std * z
    log_det = np.log(2.5) + 2 * (np.log(2) - x - np.logaddexp(0, -2 * x))
    expected = 0.5 * np.log(2 * np.pi * np.e) + np.log(std)
    expected += np.average(log_det, weights=weight)
    policy = ds.TanhNormal(tf.fill([1], mean), tf.fill([1], std), -1.0, 4.0)
    assert float(policy.entropy()) == pytest.approx(expected, abs=error)


@pytest.mark.parametrize(
    ("space", "squash", "message"),
    [
        (gs.Box(0, 255, (2,), np.uint8), False, "uint8"),
        (gs.Text(3), False, "Text"),
        (box([-np.inf, 0], [1, 1]), True, "finite"),
        (gs.Box(-1e300, 1e300, (1,), np.float64), True, "finite"),
        (gs.Box(-HUGE, HUGE, (1,)), True, "finite"),
        (box([1, 0], [1, 1]), True, "low < high"),
    ],
)
def test_unsupported_spaces_are_refused_by_name(space, squash, message):
    with pytest.raises(UserError, match=message):
        ds.for_space(space, squash)


def test_wrong_arguments_are_refused_with_their_shapes():
    discrete, box_ = ds.for_space(gs.Discrete(3)), ds.for_space(box(-1, 1, (2,)))
    three, two = tf.zeros([5, 3]), tf.zeros([5, 2])
    with pytest.raises(UserError, match=r"\(5, 2\).*\[\.\.\., 3\]"):
        discrete.make(two)
    with pytest.raises(UserError, match="action_mask has shape"):
        discrete.make(three, mask=two)
    with pytest.raises(UserError, match="has no std"):
        discrete.make(three, std=three)
    with pytest.raises(UserError, match="needs a std"):
        box_.make(two)
    with pytest.raises(UserError, match="cannot mask"):
        box_.make(two, std=two, mask=two)


@pytest.mark.parametrize("squash", [False, True])
def test_a_box_without_numbers_is_refused(squash):
    with pytest.raises(UserError, match=r"has no numbers.*at least one"):
        ds.for_space(box(-1, 1, (0,)), squash)


def test_bounds_that_are_too_far_apart_to_be_squashed_into_are_refused():
    largest = np.finfo(np.float32).max
    for bound in (largest, largest / 2):
        with pytest.raises(UserError, match=r"cannot be squashed.*2e\+30 apart"):
            ds.finite_bounds(box(-bound, bound, (2,)))
    low, high = ds.finite_bounds(box(-1e29, 1e29, (2,)))
    assert np.isfinite(high - low).all()
