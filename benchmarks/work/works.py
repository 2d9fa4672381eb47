"""Works: what contenders step or train, the same for every contender of a row."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import importlib
import importlib.metadata
import platform
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

OBJECTIVE = "importance weighting, adaptive KL penalty with a cutoff"


@dataclasses.dataclass(frozen=True)
class Work:
    """Environments, and how long to measure; subclasses say what is done with them."""

    env: str  # Gymnasium id, or module:function
    num_envs: int  # B
    _: dataclasses.KW_ONLY
    env_kwargs: dict[str, Any] = dataclasses.field(default_factory=dict)
    num_workers: int = 1  # processes; contenders that cannot choose report their own
    seed: int = 1  # of environments, weights and actions
    block: int = 1  # amount of work between two readings of the clock
    seconds: float = 10.0  # minimum of measured seconds
    blocks: int | None = None  # minimum of measured blocks; None: only ``seconds``

    def __post_init__(self):
        for field in dataclasses.fields(self):
            if isinstance(value := getattr(self, field.name), list):  # from JSON
                object.__setattr__(self, field.name, tuple(value))

    def constructor(self) -> Callable[[], gymnasium.Env]:
        """Return a function that creates one environment."""
        return functools.partial(make, self.env, self.env_kwargs)


@dataclasses.dataclass(frozen=True)
class Stepping(Work):
    """Random actions in a batch of environments; blocks of ``block`` steps of it."""

    block: int = 256

    def actions(self) -> np.ndarray:
        """Return actions ``[block, B, ...]``; every block of steps plays the same ones.

        They are drawn before the clock starts, so that only environments are measured.
        """
        env = self.constructor()()
        spaces = gymnasium.vector.utils.batch_space(env.action_space, self.num_envs)
        env.close()
        spaces.seed(self.seed)
        return np.stack([spaces.sample() for _ in range(self.block)])

    def same(
        self,
        actions: np.ndarray,
        constructor: Callable[[], gymnasium.Env] | None = None,
    ) -> dict[str, Any]:
        """Return what must be equal, with the actions and the environments in use."""
        return described(
            constructor or self.constructor(),
            num_envs=self.num_envs,
            policy="random actions",
            actions=hashlib.sha256(actions.tobytes()).hexdigest()[:16],
            counted="real transitions; restart rows are not",
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Learned(Work):
    """Training; subclasses have ``block_steps``, the environment steps of a block."""

    steps: int  # env steps of a whole run, with warm-up
    algorithm: str
    learning_rate: float
    gamma: float = 0.99
    gradient_norm: float | None = 0.5  # largest global norm; None does not clip
    adam_epsilon: float = 1e-8
    hidden: tuple[int, ...] = (64, 64)  # units of each network "mlp"
    network: str = "mlp"  # with ``hidden`` units, or the name of one for frames
    compare_returns: bool = True  # whether runs are long enough for it

    @property
    def first_block(self) -> int:
        """Environment steps of the first block, with the warm-up."""
        return self.block_steps

    @property
    def iterations(self) -> int:
        """Number of blocks of a whole run."""
        return 1 + max(0, -(-(self.steps - self.first_block) // self.block_steps))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Training(Learned):
    """PPO with clipped objective, two tanh networks, Adam and global-norm clipping.

    Advantages are standardised in each minibatch. Observations and rewards are not
    normalised. An iteration collects ``rollout_length`` steps of every environment, and
    trains ``epochs`` over them. A block has ``block`` iterations; ours makes them in
    one call of its program, as it does in a run if they are short. A2C has one gradient
    step in an iteration, RMSProp, and advantages that are not standardised.
    """

    rollout_length: int  # T, steps of each environment per iteration
    epochs: int  # passes over the T * B transitions
    minibatch_size: int  # transitions per gradient step
    algorithm: str = "ppo"  # or "a2c"
    learning_rate: float = 3e-4
    gae_lambda: float = 0.95
    clip_ratio: float = 0.2
    entropy_scale: float = 0.0
    value_scale: float = 0.5
    adam_epsilon: float = 1e-5

    @property
    def batch(self) -> int:
        """Number of transitions of an iteration."""
        return self.num_envs * self.rollout_length

    @property
    def block_steps(self) -> int:
        """Environment steps of a block."""
        return self.batch * self.block

    def gradient_steps(self, transitions: float) -> float:
        """Return an iteration's gradient steps, with a smaller last minibatch."""
        if self.algorithm == "a2c":
            return 1
        return self.epochs * -(-transitions // self.minibatch_size)

    def same(
        self,
        parameters: int,
        gradient_steps: int,
        samples: int,
        constructor: Callable[[], gymnasium.Env] | None = None,
    ) -> dict[str, Any]:
        """Return what must be equal: trainable numbers, steps, rows of a minibatch.

        A contender that leaves out restart rows has fewer than ``batch`` transitions in
        an iteration, and must check its counts against ``gradient_steps`` itself. The
        constructor is that of the environments in use; None: the work's.
        """
        a2c = self.algorithm == "a2c"
        return described(
            constructor or self.constructor(),
            num_envs=self.num_envs,
            env_steps_an_iteration=self.batch,
            gradient_steps_an_iteration=gradient_steps,
            samples_a_gradient_step=samples,
            parameters=parameters,
            advantages="not standardised" if a2c else "standardised by minibatch",
            precision="float32",
            counted="transitions collected; restart rows are not",
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class PresetTraining(Training):
    """``Training`` as in batch-ppo's presets: iterations of whole episodes.

    Episodes have ``rollout_length`` steps. The objective is not clipped: it has an
    adaptive KL penalty with a cutoff. Environments have BatchPPO's standard stack.
    Running statistics normalise observations and rewards.
    """

    learning_rate: float = 1e-4
    gamma: float = 0.995
    gae_lambda: float = 1.0
    gradient_norm: float | None = None
    adam_epsilon: float = 1e-8
    hidden: tuple[int, ...] = (200, 100)
    chunk_length: int = 50  # steps of an episode that stay together in a minibatch

    @property
    def chunks(self) -> int:
        """Number of chunks of a minibatch."""
        return self.minibatch_size // self.chunk_length


@dataclasses.dataclass(frozen=True, kw_only=True)
class Asynchronous(Learned):
    """Actor-critic training without waiting; a block has ``block`` updates."""

    length: int  # largest number of steps of an environment in a piece of experience
    train_rows: int  # transitions of an update
    algorithm: str = "ga3c"
    learning_rate: float = 7e-4
    entropy_scale: float = 0.01
    block: int = 10
    compare_returns: bool = False

    @property
    def block_steps(self) -> int:
        """Environment steps of a block."""
        return self.train_rows * self.block

    def same(self, parameters: int, rows: int) -> dict[str, Any]:
        """Return what must be equal, with the parameters and the rows of an update."""
        return described(
            self.constructor(),
            num_envs=self.num_envs,
            transitions_an_update=rows,
            parameters=parameters,
            precision="float32",
            counted="transitions learned from",
        )


def make(name: str, kwargs: dict[str, Any]) -> gymnasium.Env:
    """Create an environment without Gymnasium's checker, which no contender needs."""
    module, colon, kind = name.partition(":")
    if colon:
        return getattr(importlib.import_module(module), kind)(**kwargs)
    return gymnasium.make(name, disable_env_checker=True, **kwargs)


def described(
    constructor: Callable[[], gymnasium.Env], **fields: Any
) -> dict[str, Any]:
    """Return what must be equal for every contender: environment, versions, fields."""
    env = constructor()
    try:
        modules = " ".join(kind.__module__ for kind in type(env.unwrapped).__mro__)
        engines = {"mujoco": "mujoco", "ale_py": "ale-py"}
        used = [package for name, package in engines.items() if name in modules]
        packages = versions("gymnasium", "numpy", *used)
        return {"environment": _describe(env), **fields, "versions": packages}
    finally:
        env.close()


def _describe(env: gymnasium.Env) -> dict[str, Any]:
    """Return id with version, arguments, wrappers and time limit of an environment."""
    spec, layers = env.spec, []
    while isinstance(env, gymnasium.Wrapper):
        layers.append(type(env).__name__)
        env = env.env
    return {
        "id": spec.id if spec else type(env).__name__,
        "kwargs": dict(spec.kwargs) if spec else {},
        "wrappers": layers,
        "time_limit": spec.max_episode_steps if spec else None,
    }


def versions(*packages: str) -> dict[str, str]:
    """Return the versions of Python and of those packages that are installed."""
    installed = {"python": platform.python_version()}
    for package in packages:
        try:
            installed[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return installed
