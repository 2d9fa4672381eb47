"""Actor and twin critics with a GRU each, in PyTorch."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import torch
from torch import nn

Tensor = torch.Tensor
_LOG_STD = (-20.0, 2.0)  # bounds of a log standard deviation


class Actor(nn.Module):
    """Normal distributions, squashed by tanh: dense layers, GRU, linear head.

    The GRU takes the place of the last of the ``hidden`` layers.
    """

    def __init__(self, inputs: int, hidden: Sequence[int], actions: int):
        super().__init__()
        sizes, layers = [inputs, *hidden[:-1]], []
        for before, after in itertools.pairwise(sizes):
            layers += [nn.Linear(before, after), nn.ReLU()]
        self.tower, self.core = nn.Sequential(*layers), nn.GRU(sizes[-1], hidden[-1])
        self.head = nn.Linear(hidden[-1], 2 * actions)

    def step(self, observation: Tensor, state: Tensor) -> Tensor:
        """Return the state after a step; ``[B, n]`` and ``[B, units]``."""
        # A call of the module for one step takes twice as long.
        return torch.gru_cell(self.tower(observation), state, *self.core.all_weights[0])

    def unroll(self, observation: Tensor, state: Tensor) -> Tensor:
        """Return the states after each step ``[T, B, n]``."""
        return self.core(self.tower(observation), state[None])[0]

    def sample(self, state: Tensor) -> tuple[Tensor, Tensor]:
        """Return actions in [-1, 1], ``[..., A]``, and log densities ``[...]``."""
        mean, log_std = self.head(state).chunk(2, -1)
        log_std = log_std.clamp(*_LOG_STD)
        noise = torch.randn_like(mean)
        raw = mean + log_std.exp() * noise
        normal = -0.5 * noise.square() - log_std - 0.5 * math.log(2 * math.pi)
        squashed = 2 * (math.log(2) - raw - nn.functional.softplus(-2 * raw))
        return raw.tanh(), (normal - squashed).sum(-1)


class Critics(nn.Module):
    """Two networks of values of actions, which share a GRU of observations.

    Both are multiplied at once, which is faster than one after the other.
    """

    def __init__(self, inputs: int, hidden: Sequence[int], actions: int):
        super().__init__()
        self.core = nn.GRU(inputs, hidden[-1])
        self.kernels, self.biases = nn.ParameterList(), nn.ParameterList()
        for before, after in itertools.pairwise([hidden[-1] + actions, *hidden, 1]):
            bound = 1 / math.sqrt(before)  # as of nn.Linear
            for some, rows in ((self.kernels, before), (self.biases, 1)):
                some.append(torch.empty(2, rows, after).uniform_(-bound, bound))

    def unroll(self, observation: Tensor, state: Tensor | None = None) -> Tensor:
        """Return the states after each step ``[T, B, n]``; they begin with zeros."""
        return self.core(observation, None if state is None else state[None])[0]

    def forward(self, state: Tensor, action: Tensor) -> Tensor:
        """Return the values ``[2, ...]`` of actions ``[..., A]``."""
        x = torch.cat([state, action], -1)
        shape, x = x.shape[:-1], x.flatten(0, -2).expand(2, -1, -1)
        *hidden, last = zip(self.biases, self.kernels, strict=True)
        for bias, kernel in hidden:
            x = torch.baddbmm(bias, x, kernel).relu()
        bias, kernel = last
        return torch.baddbmm(bias, x, kernel).reshape(2, *shape)
