"""Networks that are fitted to logged rows."""

import numpy as np
import pytest

from tfagents_batch.evaluation import fitted_q
from tfagents_batch.evaluation.fitting import EvaluationSettings, FitSample, FitSettings


def test_a_fit_makes_as_many_passes_over_few_rows_as_they_bear():
    usual = FitSettings()
    counts = [usual.steps_of(rows) for rows in (100, 1_024, 20_000)]
    assert counts == [500, 1_000, 10_000]
    assert FitSettings(steps=7).steps_of(100) == 7


def imitated(rows, chance, steps):
    """Return states, and how likely networks think action 1 in those of others' rows.

    Args:
      rows: number of rows; one half judges the network of the other.
      chance: from states ``[N, 6]`` to the probability of action 1.
      steps: of the fit.
    """
    random = np.random.default_rng(0)
    state = random.normal(size=[rows, 6]).astype(np.float32)
    action = (random.random(rows) < chance(state)).astype(np.int32)
    sample = FitSample(
        state,
        state,
        action,
        np.ones([rows, 2], bool),
        np.full([rows, 2], 0.5, np.float32),
        np.zeros(rows, np.float32),
        np.zeros([rows, 1], np.float32),
    )
    settings = EvaluationSettings(fit=FitSettings(steps=steps, batch_size=256))
    half = rows // 2
    fit = fitted_q.Fit(sample, (half, half), settings)
    parts = state[:half], state[half:]
    masks = np.ones([half, 2], bool)
    found = [fit.predict(x, masks, k).behavior for k, x in enumerate(parts)]
    return state, np.concatenate(found)[:, 1]


def test_many_passes_over_few_rows_make_no_logged_decision_look_rare():
    _, found = imitated(1000, lambda state: np.full(len(state), 0.1), 1000)
    assert (found < 0.01).mean() < 0.01
    assert found.mean() == pytest.approx(0.1, abs=0.02)


@pytest.mark.slow
def test_decisions_that_were_never_logged_look_rare():
    state, found = imitated(20_000, lambda state: 0.9 * (state[:, 0] > 0), 2000)
    never = state[:, 0] < -0.1
    assert (found[never] < 0.01).mean() > 0.95
    assert (found[state[:, 0] > 0.1] > 0.5).mean() > 0.95
