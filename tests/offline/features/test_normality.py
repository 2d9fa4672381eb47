import numpy as np
import pytest
from scipy import stats

from tfagents_batch.offline.features import normality

RNG = np.random.default_rng(0)
SAMPLES = {
    "exponential": RNG.exponential(size=10_000),
    "normal": RNG.normal(6, 1, 1000),
    "log-normal": RNG.lognormal(size=20_000),
    "large": RNG.gamma(2, 1e9, 1000),
    "left-skewed": RNG.beta(5, 1, 5000),
    "heavy tail": np.maximum(RNG.pareto(0.5, 1000), 1e-4),
    "few": RNG.exponential(size=20),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_the_statistic_is_that_of_scipy(name):
    x = SAMPLES[name]
    expected = stats.normaltest(x).statistic
    assert normality.omnibus(x) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("name", SAMPLES)
def test_lambda_is_that_of_scipy_or_more_likely(name):
    x = SAMPLES[name]
    expected = stats.boxcox_normmax(x, method="mle")  # exact to about 1e-8
    found = normality.box_cox(x)
    assert found.power == pytest.approx(expected, abs=1e-6)
    mine, its = (stats.boxcox_llf(p, x) for p in (found.power, expected))
    assert mine >= its - 1e-9 * abs(its)
    transformed = stats.boxcox(x, lmbda=found.power)
    np.testing.assert_allclose(found.transformed, transformed, rtol=1e-9, atol=1e-9)
