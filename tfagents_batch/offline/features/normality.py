"""Distance of numbers from a normal distribution, and the power that brings them near.

The numbers are those of SciPy's ``normaltest`` and ``boxcox``.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

_WIDEST = 32.0  # magnitude of lambda, up to which the maximum is searched
_SMALL = 1e-4  # magnitude of lambda below which series are exact to 1e-12


def omnibus(x: np.ndarray) -> float:
    """Return K^2 of D'Agostino and Pearson, the larger the less normal.

    It is the sum of the squared test statistics of skewness (D'Agostino 1970) and of
    kurtosis (Anscombe and Glynn 1983), of at least 20 numbers that are not all equal.
    """
    n, d = len(x), np.asarray(x, np.float64)
    d = d - d.mean()
    m2, m3, m4 = (float(np.mean(d**k)) for k in (2, 3, 4))
    return _skewness(m3 / m2**1.5, n) ** 2 + _kurtosis(m4 / m2**2, n) ** 2


def _skewness(g1: float, n: int) -> float:
    """Return the test statistic of a sample's skewness."""
    y = g1 * math.sqrt((n + 1) * (n + 3) / (6 * (n - 2)))
    beta = 3 * (n**2 + 27 * n - 70) * (n + 1) * (n + 3)
    beta /= (n - 2) * (n + 5) * (n + 7) * (n + 9)
    w2 = -1 + math.sqrt(2 * (beta - 1))
    return math.asinh(y / math.sqrt(2 / (w2 - 1))) / math.sqrt(0.5 * math.log(w2))


def _kurtosis(b2: float, n: int) -> float:
    """Return the test statistic of a sample's kurtosis."""
    mean = 3 * (n - 1) / (n + 1)
    variance = 24 * n * (n - 2) * (n - 3) / ((n + 1) ** 2 * (n + 3) * (n + 5))
    x = (b2 - mean) / math.sqrt(variance)
    skew = 6 * (n**2 - 5 * n + 2) / ((n + 7) * (n + 9))
    skew *= math.sqrt(6 * (n + 3) * (n + 5) / (n * (n - 2) * (n - 3)))
    a = 6 + 8 / skew * (2 / skew + math.sqrt(1 + 4 / skew**2))
    below = 1 + x * math.sqrt(2 / (a - 4))
    root = math.copysign(np.cbrt((1 - 2 / a) / abs(below)), below) if below else np.nan
    return float((1 - 2 / (9 * a) - root) / math.sqrt(2 / (9 * a)))


class BoxCox(NamedTuple):
    """Transform of Box and Cox (1964): (x^lambda - 1) / lambda."""

    power: float  # lambda of the largest likelihood
    transformed: np.ndarray  # f64 [n], the transformed numbers


def box_cox(x: np.ndarray) -> BoxCox:
    """Return the transform with the largest likelihood of a normal distribution.

    The numbers are positive and not all equal.
    """
    logs = np.log(np.asarray(x, np.float64))
    power = _root(logs - logs.mean())
    if abs(power) < _SMALL:  # the transform of a specification divides by it
        power = math.copysign(_SMALL, power)
    with np.errstate(over="ignore"):
        return BoxCox(power, np.expm1(power * logs) / power)


def _powers(power: float, d: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (e^(lambda d) - 1) / lambda and its derivative by lambda, ``[n]``."""
    if abs(power) < _SMALL:
        return (
            d * (1 + power * d / 2 * (1 + power * d / 3)),
            d**2 * (0.5 + power * d / 3 + (power * d) ** 2 / 8),
        )
    value = np.expm1(power * d) / power
    return value, (d * np.exp(power * d) - value) / power


def _slope(power: float, d: np.ndarray) -> float:
    """Return the derivative of half the log of the variance: 0 at the maximum.

    With d the logs without their mean, the log-likelihood is -n/2 log var((e^(lambda
    d) - 1) / lambda) and a constant. Powers are divided by the largest one.
    """
    value, slope = _powers(power, d)
    scale = np.abs(value).max()
    value, slope = value / scale, slope / scale
    value = value - value.mean()
    return float(np.mean(value * slope) / np.mean(value**2))


def _root(d: np.ndarray) -> float:
    """Return where ``_slope`` is 0, by false position (Illinois); it increases."""
    low, high = -2.0, 2.0
    with np.errstate(over="ignore", invalid="ignore"):
        at_low, at_high = _slope(low, d), _slope(high, d)
        while at_high < 0 and high < _WIDEST:
            low, at_low, high = high, at_high, 2 * high
            at_high = _slope(high, d)
        while at_low > 0 and -low < _WIDEST:
            high, at_high, low = low, at_low, 2 * low
            at_low = _slope(low, d)
        if not at_low < 0 < at_high:  # no maximum within, or numbers overflow
            return low if at_low > 0 else high
        power, side = 0.0, 0
        for _ in range(100):
            power = (low * at_high - high * at_low) / (at_high - at_low)
            at = _slope(power, d)
            if at == 0 or high - low < 1e-12:
                break
            if at < 0:
                if abs(power - low) < 1e-12:
                    break
                low, at_low = power, at
                at_high /= 2 if side < 0 else 1
                side = -1
            else:
                if abs(high - power) < 1e-12:
                    break
                high, at_high = power, at
                at_low /= 2 if side > 0 else 1
                side = 1
    return power
