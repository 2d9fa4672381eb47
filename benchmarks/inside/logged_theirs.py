"""Algorithms of d3rlpy on logged rows, with one thread."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Any

from benchmarks.inside import session
from benchmarks.inside.logged_play import play
from benchmarks.work.logged import HIDDEN, LEARNERS, Logged

EPOCH = 10_000  # steps of d3rlpy's default; its logs cost more in longer ones


def measure(work: Logged) -> dict[str, float]:
    """Return gradient steps per second after a warm-up, or the mean return."""
    import d3rlpy

    if work.action == "speed":
        _, fit = create(work, LEARNERS[work.learner].hidden)
        fit(work.count // 10)
        start = time.perf_counter()
        fit(work.count)
        return {"steps_per_s": work.count / (time.perf_counter() - start)}
    d3rlpy.seed(work.seed)
    agent, fit = create(work, HIDDEN)
    fit(work.count)
    return play(lambda observation: agent.predict(observation[None])[0], work)


def create(work: Logged, hidden: tuple[int, ...]) -> tuple[Any, Callable[[int], None]]:
    """Return the agent, and a function that makes gradient steps.

    Its settings are d3rlpy's defaults but for the network, the batch, and the scale of
    actions: without a scale it never leaves -1 to 1.
    """
    import d3rlpy
    import numpy as np
    import torch

    torch.set_num_threads(1)
    learner, space = LEARNERS[work.learner], d3rlpy.ActionSpace
    with np.load(work.arrays) as rows:
        dataset = d3rlpy.dataset.MDPDataset(
            **rows, action_space=space.CONTINUOUS if learner.box else space.DISCRETE
        )
    kind = getattr(d3rlpy.algos, learner.d3rlpy)
    factory = d3rlpy.models.VectorEncoderFactory([*hidden])
    names = [field.name for field in dataclasses.fields(kind)]
    settings = {name: factory for name in names if name.endswith("encoder_factory")}
    if learner.box:
        settings["action_scaler"] = d3rlpy.preprocessing.MinMaxActionScaler()
    agent = kind(batch_size=learner.batch, **settings).create(device="cpu")
    agent.build_with_dataset(dataset)

    def fit(steps: int) -> None:
        epochs, rest = divmod(steps, EPOCH)  # it leaves out an incomplete epoch
        for count, length in ((epochs * EPOCH, EPOCH), (rest, rest)):
            if count:
                agent.fit(
                    dataset,
                    n_steps=count,
                    n_steps_per_epoch=length,
                    show_progress=False,
                    logger_adapter=d3rlpy.logging.NoopAdapterFactory(),
                )

    return agent, fit


if __name__ == "__main__":
    session.figures(measure)
