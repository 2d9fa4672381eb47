"""Stable-Baselines3's PPO, A2C, DQN, SAC and TD3, and sb3-contrib's TQC."""

from __future__ import annotations

from typing import Any

from benchmarks.inside import sb3, session
from benchmarks.work.off_policy import OffPolicy
from benchmarks.work.works import Training, versions


def start(
    work: Training | OffPolicy, threads: int = 1, vectorisation: str = "dummy"
) -> sb3.Learning:
    """Return a session."""
    import sb3_contrib
    import stable_baselines3
    import torch

    torch.set_num_threads(threads)
    count = work.num_envs
    envs = sb3.vectorised(work.constructor(), count, vectorisation, True)
    arguments = sb3.arguments(work)
    if work.algorithm == "dqn":
        arguments["max_grad_norm"] = work.gradient_norm
    library = sb3_contrib if work.algorithm == "tqc" else stable_baselines3
    algorithm = getattr(library, work.algorithm.upper())
    model = algorithm(
        "MlpPolicy" if work.network == "mlp" else "CnnPolicy", envs, **arguments
    )
    networks, target_calls = {"values": model.policy}, None
    if work.algorithm == "dqn":
        target_calls = max(model.target_update_interval // count, 1)
    elif isinstance(work, OffPolicy):
        networks = {"values": model.critic, "actor": model.actor}
    optimizers = {name: each.optimizer for name, each in networks.items()}
    parameters = sum(_parameters(each) for each in optimizers.values())
    if work.algorithm in ("sac", "tqc"):
        optimizers["temperature"] = model.ent_coef_optimizer
    workers = 0 if vectorisation == "dummy" else count
    return sb3.Learning(
        work,
        model,
        parameters,
        lambda: {name: _steps(each) for name, each in optimizers.items()},
        {"workers": workers, "threads": threads},
        versions("stable-baselines3", "sb3-contrib", "torch"),
        target_calls,
    )


def _parameters(optimizer: Any) -> int:
    """Return the number of numbers that an optimizer trains."""
    groups = optimizer.param_groups
    return sum(weight.numel() for group in groups for weight in group["params"])


def _steps(optimizer: Any) -> int:
    """Return the number of steps that an optimizer has made."""
    return int(next(iter(optimizer.state.values()), {"step": 0})["step"])


if __name__ == "__main__":
    session.main(start, "stable_baselines3")
