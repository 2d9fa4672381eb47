"""Agent of d3rlpy that learns from arrays, with one thread."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable
from typing import Any

from benchmarks.work.logged import Learner

EPOCH = 10_000  # steps of d3rlpy's default; its logs cost more in longer ones


def create(
    learner: Learner, arrays: pathlib.Path, hidden: tuple[int, ...]
) -> tuple[Any, Callable[[int], None]]:
    """Return the agent, and a function that makes gradient steps.

    Its settings are d3rlpy's defaults but for the network, the batch, and the scale of
    actions: without a scale it never leaves -1 to 1.
    """
    import d3rlpy
    import numpy as np
    import torch

    torch.set_num_threads(1)
    space = d3rlpy.ActionSpace
    with np.load(arrays) as rows:
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
