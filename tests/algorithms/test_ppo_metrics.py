"""Tests of the metrics of PPO's update."""

import numpy as np
import pytest

from tests.algorithms.cases import assert_same, collect, make_ppo, update
from tests.nn.cases import ACTIONS
from tfagents_batch.schedules import Constant

HISTOGRAMS = (
    *("histogram/action", "histogram/mode", "histogram/log_prob", "histogram/entropy"),
    *("histogram/kl", "histogram/target", "histogram/value_loss"),
    *("histogram/weights", "histogram/weights_policy", "histogram/weights_value"),
    *("histogram/gradient", "histogram/gradient_policy", "histogram/gradient_value"),
    *("histogram/observation", "histogram/observation_mean"),
    "histogram/observation_std",
)


def test_the_cutoff_is_logged_only_with_a_kl_penalty():
    share = []
    for objective, rate in (("clip", 0.1), ("both", 1e-7), ("both", 0.1)):
        options = {"objective": objective, "learning_rate": Constant(rate)}
        agent = make_ppo(**options, epochs=3, histograms=False)
        metrics = update(agent, collect(agent), 1)
        share.append(metrics.get("policy/kl_cutoff"))
    none, small, large = share
    assert none is None
    assert small == 0 and 0 < large <= 1


@pytest.mark.parametrize("action", ["discrete", "box"])
def test_masked_rows_are_nan_in_histograms(action):
    agent = make_ppo(action=ACTIONS[action])
    trajectory = collect(agent)
    metrics = update(agent, trajectory, 1)
    mask = trajectory.mask.numpy()
    taken = metrics["histogram/action"].numpy()
    expected = trajectory.action.numpy()[mask].ravel()
    np.testing.assert_array_equal(taken[np.isfinite(taken)], expected)
    assert taken.dtype == np.float32 and len(taken) == trajectory.action.numpy().size
    finite = np.isfinite(metrics["histogram/target"].numpy())
    np.testing.assert_array_equal(finite, mask.ravel())


def test_histograms_can_be_disabled_and_do_not_change_training():
    agents = [make_ppo(objective="kl", histograms=on) for on in (True, False)]
    vectors = []
    for agent in agents:
        metrics = update(agent, collect(agent), 1)
        vectors.append({name for name, value in metrics.items() if value.shape.rank})
        for name in vectors[-1]:
            assert np.any(np.isfinite(metrics[name])), name
    assert vectors == [{*HISTOGRAMS}, set()]
    assert_same(agents)


def test_means_of_histograms_equal_the_scalars():
    agent = make_ppo(
        minibatch_size=None,
        action=ACTIONS["box"],
        objective="both",
        max_gradient_norm=None,
    )
    trajectory = collect(agent)
    metrics = {k: x.numpy() for k, x in update(agent, trajectory, 1).items()}
    mask = trajectory.mask.numpy()

    def finite(name):
        return metrics[name][np.isfinite(metrics[name])]

    np.testing.assert_allclose(
        np.linalg.norm(finite("histogram/gradient")), metrics["grad/norm"], rtol=1e-5
    )
    assert len(finite("histogram/gradient")) == agent.network.count_params()
    for name in ("histogram/gradient", "histogram/weights"):
        parts = [finite(f"{name}_{group}") for group in ("policy", "value")]
        assert sum(map(len, parts)) == len(finite(name))
    entropy = finite("histogram/entropy")
    assert len(entropy) == mask.sum()
    assert entropy.mean() == pytest.approx(metrics["policy/entropy"], rel=1e-5)
    assert finite("histogram/value_loss").mean() == pytest.approx(
        metrics["loss/value"], rel=1e-4
    )
    assert len(finite("histogram/kl")) == mask.sum()
    assert finite("histogram/kl").mean() == pytest.approx(
        metrics["policy/kl"], rel=1e-5
    )
    log_prob = trajectory.behavior["log_prob"].numpy()[mask]
    np.testing.assert_allclose(finite("histogram/log_prob"), log_prob, rtol=1e-6)
    mean = trajectory.behavior["policy"]["mean"].numpy()[mask].ravel()
    np.testing.assert_array_equal(finite("histogram/mode"), mean)
