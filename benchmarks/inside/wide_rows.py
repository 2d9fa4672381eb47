"""Logged rows of many features, of which few are present in each row."""

from __future__ import annotations

import numpy as np
import pyarrow
from pyarrow import parquet


def write(
    path: str, rows: int, features: int, present: int, length: int = 10, seed: int = 0
) -> None:
    """Write random rows as Parquet, with a number of features present in each row."""
    rng = np.random.default_rng(seed)
    ids = [np.sort(rng.permutation(features)[:present]) for _ in range(min(rows, 9973))]
    starts = np.arange(0, rows * present + 1, present, dtype=np.int32)
    values = rng.normal(size=rows * present)
    states = pyarrow.MapArray.from_arrays(
        pyarrow.array(starts),
        pyarrow.array(
            np.resize(np.stack(ids), [rows, present]).ravel().astype(np.int64)
        ),
        pyarrow.array(values),
    )
    place = np.arange(rows) % length
    columns = {
        "ds": ["2026-01-01"] * rows,
        "mdp_id": [f"e{i // length}" for i in range(rows)],
        "sequence_number": place,
        "state_features": states,
        "action": rng.choice(["a", "b"], rows),
        "action_probability": np.full(rows, 0.5),
        "reward": values[::present],
        "possible_actions": [["a", "b"]] * rows,
        "terminated": place == length - 1,
    }
    parquet.write_table(pyarrow.table(columns), path, row_group_size=65536)
