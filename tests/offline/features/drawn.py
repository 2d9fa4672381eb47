"""Features of known distributions, as in Horizon's own test of normalization."""

import numpy as np
import pyarrow


def values(n=10_000, seed=1):
    """Return f32 ``[n]`` by id, drawn by NumPy's legacy generator."""
    rng = np.random.RandomState(seed)
    found = {1: rng.binomial(1, 0.5, n), 2: rng.binomial(1, 0.5, n)}
    found |= {4: rng.normal(0, 1, n), 5: rng.normal(0, 1, n)}
    found[3] = rng.exponential(1, n)
    found[6] = 1000 * rng.randint(0, 10, n)
    halves = rng.normal(0, 1, n // 2), rng.exponential(1, n // 2)
    found[8] = np.concatenate(halves)
    found[7] = np.clip(rng.beta(2, 2, n), 0.01, 0.99)
    found |= {9: rng.normal(0, 1, n), 10: rng.normal(0, 1, n)}
    found[11] = np.clip(rng.normal(0, 1e-6, n), -1e-5, 1e-5)
    return {i: found[i].astype(np.float32) for i in sorted(found)}


def table(features, rewards=None):
    """Return rows as a table of Arrow; NaN is a feature that a row does not have."""
    columns = np.stack([*features.values()], 1).astype(np.float64)
    n = len(columns)
    present = ~np.isnan(columns)
    ids = np.broadcast_to([*features], columns.shape)[present]
    ends = np.concatenate([[0], np.cumsum(present.sum(1))]).astype(np.int32)
    maps = pyarrow.MapArray.from_arrays(
        pyarrow.array(ends), pyarrow.array(ids), pyarrow.array(columns[present])
    )
    return pyarrow.table(
        {
            "ds": ["2026-01-01"] * n,
            "mdp_id": ["e"] * n,
            "sequence_number": np.arange(n),
            "state_features": maps,
            "action": ["go"] * n,
            "reward": np.zeros(n) if rewards is None else rewards,
        }
    )
