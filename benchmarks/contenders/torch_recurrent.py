"""SAC with GRUs as a loop in PyTorch, with what was fastest on a CPU.

That is ``torch.nn.GRU``, fused Adam, both critics in one product, and a plain list of
environments. The actor passes over a window once, for targets and for its own loss.
"""

from __future__ import annotations

import collections
import copy
from typing import Any

import numpy as np
import torch

from benchmarks.inside import session
from benchmarks.inside.torch_networks import Actor, Critics
from benchmarks.inside.window_replay import Replay, Windows
from benchmarks.work.off_policy import Recurrent
from benchmarks.work.works import versions

DIFFERS = {
    "parameters": "torch.nn.GRU has a second bias",
    "cell": "torch.nn.GRU has no other",
    "windows": "torch.nn.GRU cannot reset its state inside of a window",
}


class Learner:
    """Actor, critics and their optimizers."""

    def __init__(self, work: Recurrent, inputs: int, actions: int):
        self._work = work
        sizes = inputs, work.hidden, actions
        self.actor, self.critics = Actor(*sizes), Critics(*sizes)
        self._targets = copy.deepcopy(self.critics).requires_grad_(False)
        self._log_temperature = torch.zeros([], requires_grad=True)
        self._trained = {
            "values": [*self.critics.parameters()],
            "actor": [*self.actor.parameters(), self._log_temperature],
        }
        settings = {"lr": work.learning_rate, "eps": work.adam_epsilon, "fused": True}
        self._optimizers = {
            name: torch.optim.Adam(weights, **settings)
            for name, weights in self._trained.items()
        }
        trained = *self._trained["values"], *self.actor.parameters()
        self.parameters = sum(weight.numel() for weight in trained)

    def updates(self) -> dict[str, int]:
        """Return the number of steps so far, by the names in ``OffPolicy.same``."""
        made = {
            name: int(next(iter(each.state.values()), {"step": 0})["step"])
            for name, each in self._optimizers.items()
        }
        return made | {"temperature": made["actor"]}

    def update(self, windows: Windows) -> None:
        """Make a step of critics, actor, temperature and target networks."""
        work, actor, critics = self._work, self.actor, self.critics
        observation, *rest, state = map(torch.from_numpy, windows)
        action, reward, terminated = (x[work.burn_in :] for x in rest)
        burned, learned = observation[: work.burn_in], observation[work.burn_in :]
        temperature = self._log_temperature.detach().exp()
        zeros = torch.zeros_like(state)
        with torch.no_grad():
            before = zeros
            if work.burn_in:
                state = actor.unroll(burned, state)[-1]
                before = critics.unroll(burned, zeros)[-1]
            later = self._targets.unroll(observation, zeros)[work.burn_in + 1 :]
        drawn, log = actor.sample(actor.unroll(learned, state))
        with torch.no_grad():
            value = self._targets(later, drawn[1:]).amin(0) - temperature * log[1:]
            target = reward + work.gamma * (1 - terminated) * value
        error = critics(critics.unroll(learned[:-1], before), action) - target
        self._step("values", 0.5 * error.square().sum(0).mean())
        with torch.no_grad():
            now = critics.unroll(observation[:-1], zeros)[work.burn_in :]
        value, log = critics(now, drawn[:-1]).amin(0), log[:-1]
        excess = -log.detach().mean() - work.target_entropy
        loss = (temperature * log - value).mean() + self._log_temperature * excess
        self._step("actor", loss)
        targets, trained = [*self._targets.parameters()], self._trained["values"]
        torch._foreach_lerp_(targets, [x.detach() for x in trained], work.target_tau)

    def _step(self, name: str, loss: torch.Tensor) -> None:
        optimizer = self._optimizers[name]
        optimizer.zero_grad()
        loss.backward(inputs=self._trained[name])
        optimizer.step()


class Loop:
    """Session; environments restart in the step that ends their episode."""

    def __init__(self, work: Recurrent, threads: int = 1):
        torch.set_num_threads(threads)
        torch.manual_seed(work.seed)
        self._work, count = work, work.num_envs
        self._random = np.random.default_rng(work.seed)
        self._envs = [work.constructor()() for _ in range(count)]
        seeded = [env.reset(seed=work.seed + i) for i, env in enumerate(self._envs)]
        self._observation = np.stack([observation for observation, _ in seeded])
        space = self._envs[0].action_space
        self._low, self._half = space.low, (space.high - space.low) / 2
        inputs, actions = self._observation.shape[1], space.shape[0]
        self.learner = Learner(work, inputs, actions)
        units, length = work.hidden[-1], work.sequence_length
        self._state, self._returns = torch.zeros(count, units), np.zeros(count)
        sizes = inputs, actions, units
        rows = work.capacity // count
        self._replay = Replay(rows, count, length, sizes, work.seed)
        self.episodes: list[float] = []
        self._total, self._first = 0, collections.Counter[str]()
        self.own = {"workers": 0, "threads": threads, "autoreset": "same step"}
        self.versions, self.differs = versions("torch"), DIFFERS

    @property
    def same(self) -> dict[str, Any]:
        work = self._work
        made = collections.Counter(self.learner.updates()) - self._first
        return work.same(
            self.learner.parameters,
            made,
            self._total - work.first_block,
            samples_an_update=work.batch_size,
            updates_between_targets=1,
            learning_rate=work.learning_rate,
            gamma=work.gamma,
            target_tau=work.target_tau,
            target_entropy=work.target_entropy,
            n_step=1,
            double_q=False,
            core="gru",
            cell="the reset gate multiplies the product with the state",
            sequence_length=work.sequence_length,
            burn_in=work.burn_in,
            stored_state=True,
            windows="within an episode",
        )

    def block(self) -> int:
        work, first = self._work, not self._total
        steps = work.first_block if first else work.block_steps
        for _ in range(steps // work.num_envs):
            self._collect()
            before, self._total = self._total, self._total + work.num_envs
            for _ in range(work.updates_due(before, self._total)):
                self.learner.update(self._replay.sample(work.batch_size))
        if first:
            self._first.update(self.learner.updates())
        return steps

    def close(self) -> None:
        for env in self._envs:
            env.close()

    @torch.no_grad()
    def _collect(self) -> None:
        """Step all environments, and store it."""
        observation, before = self._observation, self._state
        actor = self.learner.actor
        self._state = actor.step(torch.from_numpy(observation), before)
        unit = actor.sample(self._state)[0].numpy()
        if self._total < self._work.warmup_steps:
            unit = self._random.uniform(-1, 1, unit.shape).astype(np.float32)
        action = self._low + self._half * (unit + 1)
        after, reward, terminated, truncated, _ = zip(
            *(env.step(x) for env, x in zip(self._envs, action, strict=True)),
            strict=True,
        )
        after, reward = np.stack(after), np.array(reward, np.float32)
        terminated = np.array(terminated)
        over = terminated | truncated
        self._replay.add(
            observation, unit, reward, after, terminated, over, before.numpy()
        )
        self._returns += reward
        self._observation = after
        if over.any():
            self._restart(np.flatnonzero(over))

    def _restart(self, ended: np.ndarray) -> None:
        self.episodes += self._returns[ended].tolist()
        self._returns[ended], self._state[ended] = 0, 0
        for i in ended:
            self._observation[i], _ = self._envs[i].reset()


if __name__ == "__main__":
    session.main(Loop)
