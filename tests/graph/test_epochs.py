import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tfagents_batch import seeds
from tfagents_batch.graph import epochs
from tfagents_batch.graph.epochs import loop as run_epochs


def loop(step, carry, rows, mask=None, epochs=1, minibatch_size=4, seed=0, **options):
    """Run the loop over rows, which are all valid without a ``mask``."""
    mask = tf.fill(rows.shape[:1], True) if mask is None else tf.constant(mask)
    sizes = {"epochs": epochs, "minibatch_size": minibatch_size}
    return run_epochs(step, carry, rows, mask, **sizes, seed=seed, **options)


def visits(mask, *, epochs=1, minibatch_size=4, run=lambda f: f(), **options):
    """Return the number of minibatches, and their row numbers (-1 if masked)."""
    size, width = len(mask), min(minibatch_size, len(mask))
    most = max(1, epochs * -(-size // width))
    rows = {"id": tf.range(size), "pair": tf.stack([tf.range(size)] * 2, 1)}

    def step(rows, valid, carry):
        count, log = carry
        same = tf.reduce_all(rows["pair"] == rows["id"][:, None])  # rows stay whole
        seen = tf.where(valid & same, rows["id"], -1)
        log = tf.where((tf.range(most) == count)[:, None], seen, log)
        return count + 1, log

    start = (0, tf.fill([most, width], -1))
    sizes = {"epochs": epochs, "minibatch_size": minibatch_size}
    count, log = run(lambda: loop(step, start, rows, mask, **sizes, **options))
    return int(count), log.numpy()[: int(count)]


def compile_and_run(function):
    return tf.function(function, jit_compile=True, autograph=False)()


def by_epoch(count, log, epochs):
    """Return the row numbers of each epoch in the order of their visits."""
    return [part[part >= 0] for part in np.split(log, epochs)] if count else []


MASKS = st.lists(st.booleans(), min_size=1, max_size=24)


@settings(max_examples=15, deadline=None)
@given(MASKS, st.integers(1, 9), st.integers(1, 3), st.integers(0, 2**31 - 1))
def test_every_epoch_visits_each_valid_row_once_and_no_other(
    mask, minibatch_size, epochs, seed
):
    count, log = visits(mask, epochs=epochs, minibatch_size=minibatch_size, seed=seed)
    valid = np.flatnonzero(mask)
    width = min(minibatch_size, len(mask))
    assert count == epochs * -(-len(valid) // width)
    for order in by_epoch(count, log, epochs):
        np.testing.assert_array_equal(np.sort(order), valid)
    sizes = (log >= 0).sum(1)
    assert count == 0 or (sizes.max() - sizes.min() <= 1 and sizes.min() >= 1)


@settings(max_examples=15, deadline=None)
@given(MASKS, st.integers(1, 9), st.integers(0, 2**31 - 1))
def test_drop_last_drops_different_rows_in_each_epoch(mask, minibatch_size, seed):
    options = {"minibatch_size": minibatch_size, "drop_last": True}
    count, log = visits(mask, epochs=2, seed=seed, **options)
    valid, width = sum(mask), min(minibatch_size, len(mask))
    assert count == 2 * (max(valid // width, 1) if valid else 0)
    sizes = (log >= 0).sum(1)
    assert set(sizes) <= {min(valid, width)}
    for order in by_epoch(count, log, 2):
        assert len({*order}) == len(order) and np.all(np.array(mask)[order])


def test_drop_last_visits_every_row_over_many_epochs():
    options = {"minibatch_size": 4, "drop_last": True, "run": compile_and_run}
    count, log = visits([True] * 7, epochs=40, **options)
    assert count == 40
    assert {*log.ravel()} == {*range(7)}


@settings(max_examples=8, deadline=None)
@given(MASKS, st.integers(0, 9))
def test_appending_masked_rows_changes_neither_visits_nor_updates(mask, extra):
    short, long = (
        visits(m, epochs=2, minibatch_size=1) for m in (mask, mask + [False] * extra)
    )
    assert short[0] == long[0]
    np.testing.assert_array_equal(np.sort(short[1], None), np.sort(long[1], None))


def test_without_valid_rows_nothing_is_visited():
    assert visits([False] * 7, epochs=3)[0] == 0
    assert visits([False] * 7, epochs=3, run=compile_and_run)[0] == 0


def test_orders_differ_between_epochs_and_between_seeds():
    mask = [True] * 40
    first, second = by_epoch(*visits(mask, epochs=2), 2)
    other = by_epoch(*visits(mask, seed=1), 1)[0]
    again = by_epoch(*visits(mask), 1)[0]
    assert (first != second).any() and (first != other).any()
    assert (first != np.arange(40)).any()
    np.testing.assert_array_equal(first, again)


def test_every_row_comes_first_equally_often():
    mask = [True, True, False, True, True]
    count, log = visits(mask, epochs=2000, minibatch_size=5, run=compile_and_run)
    assert count == 2000
    share = np.bincount(log[:, 0], minlength=5) / count
    np.testing.assert_allclose(share, [0.25, 0.25, 0, 0.25, 0.25], atol=0.04)


def test_compiled_and_eager_code_visit_the_same_rows():
    mask = np.random.default_rng(0).random(33) < 0.8
    options = {"epochs": 3, "minibatch_size": 8}
    count, log = visits(mask, **options)
    compiled_count, compiled_log = visits(mask, run=compile_and_run, **options)
    assert count == compiled_count
    np.testing.assert_array_equal(log, compiled_log)


def test_a_stop_flag_skips_all_remaining_minibatches():
    def step(rows, mask, carry):
        return carry[0] + 1, carry[0] + 1 >= 3

    # Two minibatches per epoch, so it stops in the second epoch.
    options = {"epochs": 4, "minibatch_size": 5, "stop": lambda carry: carry[1]}
    count, stopped = compile_and_run(
        lambda: loop(step, (0, False), tf.zeros([10, 2]), **options)
    )
    assert int(count) == 3 and bool(stopped)


def test_steps_train_variables_one_after_the_other():
    weight = tf.Variable(0.0)
    target = tf.constant(np.arange(12), tf.float32)

    def step(rows, mask, carry):
        with tf.GradientTape() as tape:
            errors = tf.where(mask, tf.square(rows - weight), 0.0)
            loss = tf.reduce_sum(errors)
        weight.assign_sub(0.01 * tape.gradient(loss, weight))
        return carry + loss

    compile_and_run(lambda: loop(step, 0.0, target, epochs=60, seed=3))
    assert float(weight) == pytest.approx(5.5, abs=0.6)


def test_without_a_size_the_whole_batch_is_one_minibatch():
    def step(rows, mask, carry):
        return carry[0] + 1, carry[1] + tf.where(mask, rows, 0.0)

    mask, rows = [True, False, True], tf.constant([1.0, 2.0, 4.0])
    options = {"epochs": 3, "minibatch_size": None, "stop": lambda carry: carry[0] >= 2}
    count, total = loop(step, (0, tf.zeros([3])), rows, mask, **options)
    assert int(count) == 2
    np.testing.assert_array_equal(total, [2, 0, 8])


def test_without_a_size_and_a_valid_row_nothing_is_visited():
    def step(rows, mask, count):
        return count + 1

    none = [False] * 3
    assert int(loop(step, 0, tf.zeros([3]), none, epochs=3, minibatch_size=None)) == 0


def order(size, count, seed):
    key = seeds.key(seed, "test")
    return epochs.random_order(size, tf.constant(count), key).numpy()


@settings(max_examples=40, deadline=None)
@given(st.data(), st.integers(1, 300), st.integers(0, 2**31 - 1))
def test_an_order_contains_every_number_below_the_count_once(data, size, seed):
    count = data.draw(st.integers(0, size))
    found = order(size, count, seed)
    assert found.dtype == np.int32 and found.shape == (size,)
    assert sorted(found[:count]) == list(range(count))
    assert ((found >= 0) & (found < 2 * size)).all() or size == 1


def test_different_seeds_give_different_orders():
    first, again, other = order(500, 500, 1), order(500, 500, 1), order(500, 500, 2)
    np.testing.assert_array_equal(first, again)
    assert (first != other).any() and (first != np.arange(500)).any()


@pytest.mark.parametrize("jit", [False, True])
def test_compiled_graph_and_eager_orders_agree(jit):
    @tf.function(jit_compile=jit, autograph=False)
    def program(count):
        return epochs.random_order(40, count, seeds.key(3, "test"))

    for count in (1, 2, 33, 40):
        found = program(tf.constant(count))
        np.testing.assert_array_equal(found[:count], order(40, count, 3)[:count])


@pytest.mark.parametrize("size", [13, 16])
def test_positions_and_neighbors_are_uniform(size):
    draws = 20_000

    @tf.function(jit_compile=True, autograph=False)
    def count():
        def body(index, places, pairs):
            key = seeds.fold(seeds.key(5, "test"), index)
            found = epochs.random_order(size, tf.constant(size), key)
            hot = tf.one_hot(found, size)
            return index + 1, places + hot, pairs + hot[0][:, None] * hot[1]

        zeros = tf.zeros([size, size])
        return tf.while_loop(lambda i, *_: i < draws, body, (0, zeros, zeros))[1:]

    places, pairs = (x.numpy().astype(np.float64) for x in count())
    apart = ~np.eye(size, dtype=bool)
    cells = {"places": (places, (size - 1) ** 2), "pairs": (pairs[apart], None)}
    for name, (seen, freedom) in cells.items():
        freedom = freedom or seen.size - 1
        expected = seen.sum() / seen.size
        chi_square = (np.square(seen - expected) / expected).sum()
        # Five standard deviations of the statistic.
        assert abs(chi_square - freedom) < 5 * np.sqrt(2 * freedom), name


@settings(max_examples=60, deadline=None)
@given(st.lists(st.booleans(), min_size=1, max_size=70))
def test_true_first_lists_the_true_indices_of_a_mask(mask):
    found = epochs.true_first(tf.constant(mask)).numpy()
    expected = np.flatnonzero(mask)
    np.testing.assert_array_equal(found[: len(expected)], expected)
    np.testing.assert_array_equal(found[len(expected) :], len(mask))
