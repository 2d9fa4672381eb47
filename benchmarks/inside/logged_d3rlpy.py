"""Algorithms of d3rlpy on logged rows."""

from __future__ import annotations

import pathlib
import time

from benchmarks.inside import session
from benchmarks.work.logged import LEARNERS, Logged


def measure(work: Logged) -> dict[str, float]:
    """Return gradient steps per second with one thread, after a warm-up."""
    import d3rlpy
    import numpy as np
    import torch

    count = work.count
    torch.set_num_threads(1)
    with np.load(pathlib.Path(work.folder) / "rows.npz") as rows:
        dataset = d3rlpy.dataset.MDPDataset(**rows)
    factory = d3rlpy.models.VectorEncoderFactory([64, 64])
    kind = getattr(d3rlpy.algos, LEARNERS[work.learner].d3rlpy)
    config = kind(batch_size=32, encoder_factory=factory)
    agent = config.create(device="cpu")
    agent.build_with_dataset(dataset)
    quiet = {"logger_adapter": d3rlpy.logging.NoopAdapterFactory()}
    options = {"n_steps_per_epoch": count, "show_progress": False, **quiet}
    agent.fit(dataset, n_steps=count // 10, **(options | {"n_steps_per_epoch": 100}))
    start = time.perf_counter()
    agent.fit(dataset, n_steps=count, **options)
    return {"steps_per_s": count / (time.perf_counter() - start)}


if __name__ == "__main__":
    session.figures(lambda: None, measure, Logged)
