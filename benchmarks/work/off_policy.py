"""Work of training with a replay, the same for every contender."""

from __future__ import annotations

import dataclasses
import fractions
from collections.abc import Mapping
from typing import Any

from benchmarks.work.works import Learned, described


@dataclasses.dataclass(frozen=True, kw_only=True)
class OffPolicy(Learned):
    """DQN, SAC, TD3 or TQC with a uniform replay and Adam.

    DQN has Huber's loss. SAC and TQC learn their temperature. All but DQN have two
    critics, with LayerNorm if they have dropout, which makes SAC DroQ.

    A block of work is ``block`` environment steps with their updates. The first block
    also has the warm-up, so that learning has started when the measurement begins.
    """

    batch_size: int  # transitions per update
    train_every: int = 1  # env steps for ``train_updates`` updates
    train_updates: int = 1
    algorithm: str = "dqn"  # or "sac", "td3", "tqc"
    rollout_steps: int = 1  # our steps of every environment between two trainings
    learning_rate: float = 1e-4  # of Adam, in all its uses
    # DQN's probability of a random action: start, end, and env steps of the ramp.
    epsilon: tuple[float, float, int] = (1.0, 0.05, 5000)
    target_every: int = 2500  # DQN's updates between copies to the target network
    target_tau: float = 1.0  # share by which target networks move; 1 copies
    # Updates for one step of the actor: with TD3 also of the target networks, with SAC
    # of the temperature.
    policy_delay: int = 1
    dropout: float = 0.0  # share of the critics' units, after each hidden layer
    quantiles: int = 0  # of each of TQC's critics
    dropped: int = 0  # of these, in the target
    noise: float = 0.1  # of TD3's actions, in units of half their range
    target_entropy: float | None = None  # that the temperature aims at
    warmup_steps: int = 100  # env steps with random actions, before the first update
    capacity: int = 1_000_000  # transitions of the replay
    gradient_norm: float | None = 10.0
    block: int = 4000

    @property
    def block_steps(self) -> int:
        """Environment steps of a block."""
        return self.block

    @property
    def first_block(self) -> int:
        """Environment steps of the first block, with the warm-up."""
        return self.warmup_steps + self.block

    def updates_due(self, before: int, after: int) -> int:
        """Return the exact number of updates for steps ``before`` to ``after``."""

        def total(step: int) -> int:
            passed = max(0, step - self.warmup_steps)
            return passed * self.train_updates // self.train_every

        return total(after) - total(before)

    def exploration(self, step: int) -> float:
        """Return the probability of a random action at an environment step."""
        start, end, length = self.epsilon
        part = min(1.0, step / length)
        return (1 - part) * start + part * end

    def calls(self) -> tuple[int, int]:
        """Return a peer's calls of its batch between trainings, and their updates."""
        between = max(self.train_every, self.num_envs)
        trainings, rest = divmod(between, self.train_every)
        assert not rest and between % self.num_envs == self.block % between == 0
        return between // self.num_envs, self.train_updates * trainings

    def target_steps(self) -> int:
        """Return DQN's environment steps between copies to the target network."""
        steps, rest = divmod(self.target_every * self.train_every, self.train_updates)
        assert not rest and steps % self.num_envs == 0
        return steps

    def same(
        self,
        parameters: int,
        updates: Mapping[str, int | fractions.Fraction],
        env_steps: int,
        **fields: Any,
    ) -> dict[str, Any]:
        """Return what must be equal for every contender, with hyperparameters in use.

        Parameters are counted without target networks and the temperature. Updates of
        "values", and of "actor" and "temperature" if there are any, were made in some
        steps. A contender whose transitions are no multiple of ``train_every`` must
        check its counts against ``updates_due`` itself.
        """
        losses = {"dqn": "huber", "tqc": "quantile huber"}
        loss = losses.get(self.algorithm, "squared")
        norm = self.gradient_norm
        clipping = f"clipped to a norm of {norm:g}" if norm else "not clipped"
        rates = {k: str(fractions.Fraction(v, env_steps)) for k, v in updates.items()}
        return described(
            self.constructor(),
            updates_per_env_step=rates,
            parameters=parameters,
            **fields,
            loss=f"{loss}, gradients {clipping}",
            critics=f"dropout {self.dropout:g}, {self.quantiles} quantiles",
            replay=f"{self.capacity} transitions, uniform",
            precision="float32",
            counted="transitions collected; restart rows are not",
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Recurrent(OffPolicy):
    """SAC with a GRU in the actor and in the critics; ``batch_size`` counts windows.

    A window begins with the actor's state when it acted; that of the critics is zero.
    Its first steps build the states without a gradient, each other begins a transition.
    """

    sequence_length: int  # steps of a window that have a next one
    burn_in: int  # of these, the first ones that are not learned from
    algorithm: str = "sac"
