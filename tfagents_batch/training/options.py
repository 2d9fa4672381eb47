"""Options of ``train`` for type checkers and completion; ``RunConfig`` defines them."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar

from tfagents_batch.training.callbacks import OnCheckpoint, OnEvaluation, OnIteration

_Function = TypeVar("_Function", bound=Callable)

if TYPE_CHECKING:
    import keras

    from tfagents_batch.training.config import RunConfig


class CommonOptions(TypedDict, total=False):
    """Fields of ``RunConfig`` with their types, and sources' settings by name."""

    env_kwargs: dict
    wrappers: list
    env_options: dict
    steps: int
    seed: int
    num_envs: int
    num_workers: int | None
    envs_per_worker: int | None
    threads: int | None
    eval_every: int | None
    eval_episodes: int
    eval_max_episode_steps: int | None
    eval_actions: Literal["mode", "sample", "both"]
    log_every: int | None
    progress: bool
    checkpoint_every: float
    keep_every: int
    log_info: list
    compile: Literal["auto", "full", "update", "off"]
    overlap: bool
    precision: Literal["float32", "mixed_bfloat16"]
    compile_cache: bool
    device: Literal["auto", "cpu", "gpu"]
    on_fault: Literal["raise", "restart"]
    stop_at_return: float | None
    log_video_every: int
    track: Literal["none", "wandb", "mlflow"]
    pool_workers: int | None
    pool_options: dict
    rollout: dict
    replay: dict
    queue: dict


class RunOptions(CommonOptions, total=False):
    """``CommonOptions`` and ``table``, which ``train_offline`` has as an argument."""

    table: dict


class TrainOptions(CommonOptions, total=False):
    """Arguments of ``train`` that ``train_offline`` passes on."""

    env: Any
    config: str | RunConfig | None
    logdir: str | os.PathLike | None
    resume: str | os.PathLike | None
    init_from: str | os.PathLike | None
    init_checkpoint: str | int | None
    network: keras.Model | Callable | None
    eval_env: Any
    profile: bool
    on_iteration: OnIteration | Sequence[OnIteration] | None
    on_evaluation: OnEvaluation | Sequence[OnEvaluation] | None
    on_checkpoint: OnCheckpoint | Sequence[OnCheckpoint] | None


class LoadOptions(TypedDict, total=False):
    """Arguments of ``load``."""

    checkpoint: str | int
    env: Any
    env_kwargs: dict[str, Any] | None
    wrappers: Sequence[str | dict[str, Any]] | None
    network: keras.Model | Callable | None
    algorithm: str | type | None


class EvaluateOptions(LoadOptions, total=False):
    """Arguments of ``evaluate`` besides the run and the number of episodes."""

    env_options: dict[str, Any] | None
    seed: int
    actions: Literal["mode", "sample"]
    max_episode_steps: int | None


def showing(function: Callable) -> Callable[[_Function], _Function]:
    """Return a decorator that shows ``LoadOptions`` in a signature, and refuses others.

    Args:
      function: has them as arguments, with their defaults.
    """
    known = inspect.signature(function).parameters
    own = [known[name] for name in LoadOptions.__annotations__]

    def decorate(decorated: Any) -> Any:
        signature = inspect.signature(decorated)
        shown = [x for x in signature.parameters.values() if x.kind != x.VAR_KEYWORD]
        signature = signature.replace(parameters=[*shown, *own])

        @functools.wraps(decorated)
        def checked(*arguments: Any, **options: Any) -> Any:
            signature.bind(*arguments, **options)
            return decorated(*arguments, **options)

        vars(checked)["__signature__"] = signature
        return checked

    return decorate
