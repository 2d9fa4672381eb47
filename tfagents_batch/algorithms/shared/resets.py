"""Resets of agents with a replay (Nikishin et al. 2022, "The Primacy Bias").

arXiv:2205.07802: with many updates per step, an agent learns too much from its first
steps. One that begins anew, with all of their experience, learns from later ones, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf

from tfagents_batch import seeds
from tfagents_batch.nn import networks
from tfagents_batch.nn.layers import redraw
from tfagents_batch.nn.layers.batch_renorm import BatchRenorm
from tfagents_batch.nn.optimizer import Optimizer, TargetNetwork


class Resets:
    """Reset of an agent, which begins anew as in the code of the paper for SAC.

    - Trained weights of all networks are drawn again, by the same initializers.
    - Other trained numbers, such as SAC's temperature, and the moving means of
      BatchRenorm get those of the start.
    - Optimizers forget their moments and their number of steps.
    - Target networks become copies of the new networks.

    The replay and its priorities, numbers of steps and updates, schedules, and noise
    of actions stay.

    Args:
      models, optimizers, target: at the start of a run.
    """

    def __init__(
        self,
        models: Sequence[Any],
        optimizers: Iterable[Optimizer],
        target: TargetNetwork,
    ):
        self._optimizers, self._target = list(optimizers), target
        weights = {id(x): x for model in models for x in model.trainable_variables}
        layers = [layer for model in models for layer in networks.layers(model)]
        draws = redraw.draws(layers, weights.values())
        self._draws = list(zip(weights.values(), draws, strict=True))
        trained = [x for optimizer in self._optimizers for x in optimizer.trained]
        others = [x for x in trained if id(x) not in weights]
        normalized = [layer for layer in layers if isinstance(layer, BatchRenorm)]
        others += [x for layer in normalized for x in layer.non_trainable_variables]
        self._others = [(x, x.numpy()) for x in others]

    def __call__(self, key: tf.Tensor) -> tf.Tensor:
        """Reset the agent with an int32 ``[2]`` key; return true."""
        for index, (weight, draw) in enumerate(self._draws):
            weight.assign(draw(seeds.fold(key, tf.constant(index))))
        for variable, start in self._others:
            variable.assign(start)
        for optimizer in self._optimizers:
            optimizer.restart()
        self._target.copy()
        return tf.constant(True)
