"""Reference in PyTorch: PPO as one plain loop, in the style of CleanRL.

Vectorised environments of Gymnasium, tensors that hold one rollout, advantages by a
backward loop, epochs of shuffled minibatches; nothing is compiled. Written for this
comparison: the releases of CleanRL that can be installed as a package are too old for
the Python and the Gymnasium that the other contenders have.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.training import Training


class Rollout(NamedTuple):
    """One iteration's tensors ``[T, B, ...]``, written in place."""

    observation: Tensor
    action: Tensor
    log_prob: Tensor
    value: Tensor
    reward: Tensor  # with the discounted value of what a cut-off episode left
    over: Tensor  # 1 where the step was an episode's last


class Rows(NamedTuple):
    """Of a minibatch, ``[rows, ...]``."""

    observation: Tensor
    action: Tensor
    log_prob: Tensor
    advantage: Tensor
    target: Tensor


class Networks(nn.Module):
    """Two towers; a categorical or a diagonal Gaussian policy.

    Args:
      observation_space: a vector's.
      action_space: ``Discrete`` or a vector's.
      hidden: units of each layer.
    """

    def __init__(
        self,
        observation_space: gymnasium.Space,
        action_space: gymnasium.Space,
        hidden: tuple[int, ...],
    ):
        super().__init__()
        (inputs,) = observation_space.shape
        self.discrete = isinstance(action_space, gymnasium.spaces.Discrete)
        outputs = int(action_space.n) if self.discrete else action_space.shape[0]
        self.policy = _tower([inputs, *hidden, outputs], 0.01)
        self.value = _tower([inputs, *hidden, 1], 1.0)
        if not self.discrete:
            self.log_std = nn.Parameter(torch.zeros(outputs))

    def distribution(self, observation: Tensor) -> torch.distributions.Distribution:
        """Of actions."""
        output = self.policy(observation)
        if self.discrete:
            return torch.distributions.Categorical(logits=output, validate_args=False)
        normal = torch.distributions.Normal(
            output, self.log_std.exp().expand_as(output), validate_args=False
        )
        return torch.distributions.Independent(normal, 1, validate_args=False)


class Loop:
    """Iterations of PPO.

    Args:
      work: what to train on.
      envs: Gymnasium's vector environments, restarting in the same step.
    """

    def __init__(self, work: Training, envs: gymnasium.vector.VectorEnv):
        mode = envs.metadata["autoreset_mode"].name
        if mode != "SAME_STEP":
            raise ValueError(f"autoreset mode {mode}; every row is to be a transition")
        torch.manual_seed(work.seed)
        self._work, self._envs = work, envs
        self.networks = Networks(
            envs.single_observation_space, envs.single_action_space, work.hidden
        )
        self._optimizer = torch.optim.Adam(
            self.networks.parameters(), lr=work.learning_rate, eps=work.adam_epsilon
        )
        self._rollout = _empty(work, envs)
        first, _ = envs.reset(seed=work.seed)
        self._observation = torch.as_tensor(first, dtype=torch.float32)
        self._return = np.zeros(work.num_envs)
        self.returns: list[float] = []  # of all episodes, in order
        self.rows = 0  # of a minibatch, as it came to the loss

    @property
    def gradient_steps(self) -> int:
        """That Adam has counted."""
        return int(next(iter(self._optimizer.state.values()))["step"])

    def iterate(self) -> int:
        """Collect and update; returns the transitions there were."""
        for t in range(self._work.rollout_length):
            self._step(t)
        rows = self._prepared()
        for indices in self._minibatches():
            self._update(Rows(*(x[indices] for x in rows)))
        return self._work.batch

    @torch.no_grad()
    def _step(self, t: int) -> None:
        into, observation = self._rollout, self._observation
        distribution = self.networks.distribution(observation)
        action = distribution.sample()
        into.observation[t] = observation
        into.action[t] = action
        into.log_prob[t] = distribution.log_prob(action)
        into.value[t] = self.networks.value(observation)[:, 0]
        played = action.numpy()
        if not self.networks.discrete:
            space = self._envs.single_action_space
            played = np.clip(played, space.low, space.high)
        after, reward, terminated, truncated, infos = self._envs.step(played)
        over = terminated | truncated
        self._return += reward
        if over.any():
            self.returns += self._return[over].tolist()
            self._return[over] = 0.0
            cut = truncated & ~terminated
            if cut.any():
                last = np.stack(infos["final_obs"][cut])
                last = torch.as_tensor(last, dtype=torch.float32)
                reward = reward.copy()
                reward[cut] += (
                    self._work.gamma * self.networks.value(last)[:, 0].numpy()
                )
        into.reward[t] = torch.as_tensor(reward)
        into.over[t] = torch.as_tensor(over)
        self._observation = torch.as_tensor(after, dtype=torch.float32)

    @torch.no_grad()
    def _prepared(self) -> Rows:
        """The rollout as rows, with advantages."""
        work, rollout = self._work, self._rollout
        goes_on = 1.0 - rollout.over
        next_value = self.networks.value(self._observation)[:, 0]
        later = torch.zeros(work.num_envs)
        advantage = torch.empty_like(rollout.value)
        for t in reversed(range(work.rollout_length)):
            future = work.gamma * goes_on[t]
            error = rollout.reward[t] + future * next_value - rollout.value[t]
            later = error + future * work.gae_lambda * later
            advantage[t], next_value = later, rollout.value[t]
        target = advantage + rollout.value
        columns = rollout.observation, rollout.action, rollout.log_prob
        return Rows(*(x.flatten(0, 1) for x in (*columns, advantage, target)))

    def _minibatches(self) -> Iterator[Tensor]:
        for _ in range(self._work.epochs):
            order = torch.randperm(self._work.batch)
            yield from order.split(self._work.minibatch_size)

    def _update(self, rows: Rows) -> None:
        work = self._work
        self.rows = max(self.rows, len(rows.advantage))
        advantage = rows.advantage
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        distribution = self.networks.distribution(rows.observation)
        ratio = (distribution.log_prob(rows.action) - rows.log_prob).exp()
        clipped = ratio.clamp(1 - work.clip_ratio, 1 + work.clip_ratio)
        objective = torch.minimum(ratio * advantage, clipped * advantage).mean()
        value = self.networks.value(rows.observation)[:, 0]
        loss = work.value_scale * (value - rows.target).square().mean() - objective
        if work.entropy_scale:
            loss = loss - work.entropy_scale * distribution.entropy().mean()
        self._optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.networks.parameters(), work.gradient_norm)
        self._optimizer.step()


def _tower(sizes: list[int], last_scale: float) -> nn.Sequential:
    layers: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise(sizes):
        layer = nn.Linear(inputs, outputs)
        nn.init.orthogonal_(layer.weight, math.sqrt(2))
        nn.init.zeros_(layer.bias)
        layers += [layer, nn.Tanh()]
    nn.init.orthogonal_(layers[-2].weight, last_scale)
    return nn.Sequential(*layers[:-1])


def _empty(work: Training, envs: Any) -> Rollout:
    size = work.rollout_length, work.num_envs
    space = envs.single_action_space
    kind = torch.int64 if space.dtype.kind == "i" else torch.float32
    return Rollout(
        observation=torch.zeros(*size, *envs.single_observation_space.shape),
        action=torch.zeros(*size, *space.shape, dtype=kind),
        log_prob=torch.zeros(size),
        value=torch.zeros(size),
        reward=torch.zeros(size),
        over=torch.zeros(size),
    )
