"""Stable-Baselines3's PPO, A2C, DQN, SAC and TD3."""

from __future__ import annotations

from typing import Any

from benchmarks.inside import sb3, session
from benchmarks.work.off_policy import OffPolicy
from benchmarks.work.works import Training, versions

_POLICIES = {"mlp": "MlpPolicy", "nature_cnn": "CnnPolicy"}


def load(**_: Any) -> None:
    import stable_baselines3  # noqa: F401


def start(work: Training | OffPolicy, threads: int = 1, **options: Any) -> sb3.Learning:
    """Return a session, with a number of PyTorch's threads."""
    import torch

    torch.set_num_threads(threads)
    make = _off_policy if isinstance(work, OffPolicy) else _on_policy
    found = make(work, **options)
    found.own["threads"] = threads
    return found


def _on_policy(work: Training, vectorisation: str = "dummy") -> sb3.Learning:
    import stable_baselines3

    arguments = sb3.on_policy_arguments(work)
    envs = sb3.vectorised(work.constructor(), work.num_envs, vectorisation, True)
    kind = getattr(stable_baselines3, work.algorithm.upper())
    model = kind(_POLICIES[work.network], envs, device="cpu", **arguments)
    policy = model.policy
    return sb3.on_policy(
        work,
        model,
        lambda: sum(weight.numel() for weight in policy.parameters()),
        lambda: _steps(policy.optimizer),
        {"workers": 0 if vectorisation == "dummy" else work.num_envs},
        versions("stable-baselines3", "torch"),
    )


def _off_policy(work: OffPolicy, several: bool = False) -> sb3.Learning:
    """Return a session with the work's number of environments, or with one."""
    import stable_baselines3

    count = work.num_envs if several else 1
    envs = sb3.vectorised(work.constructor(), count, "dummy", True)
    policy = {
        "mlp": lambda: {"net_arch": list(work.hidden)},
        "small_cnn": lambda: {"net_arch": [], "features_extractor_class": _small_cnn()},
    }[work.network]()
    policy["optimizer_kwargs"] = {"eps": work.adam_epsilon}
    arguments = sb3.off_policy_arguments(work, envs) | {"policy_kwargs": policy}
    target_calls = None
    if work.algorithm == "dqn":
        arguments["max_grad_norm"] = work.gradient_norm
    algorithm = getattr(stable_baselines3, work.algorithm.upper())
    model = algorithm("MlpPolicy", envs, device="cpu", **arguments)
    if work.algorithm == "dqn":
        optimizers = {"values": model.policy.optimizer}
        target_calls = max(model.target_update_interval // count, 1)
    else:
        networks = {"values": model.critic, "actor": model.actor}
        optimizers = {name: each.optimizer for name, each in networks.items()}
    parameters = sum(_parameters(each) for each in optimizers.values())
    if work.algorithm == "sac":
        optimizers["temperature"] = model.ent_coef_optimizer
    return sb3.off_policy(
        work,
        model,
        parameters,
        lambda: {name: _steps(each) for name, each in optimizers.items()},
        target_calls,
        {},
        versions("stable-baselines3", "torch", "minatar"),
    )


def _parameters(optimizer: Any) -> int:
    """Return the number of numbers that an optimizer trains."""
    groups = optimizer.param_groups
    return sum(weight.numel() for group in groups for weight in group["params"])


def _steps(optimizer: Any) -> int:
    """Return the number of steps that an optimizer has made."""
    return int(next(iter(optimizer.state.values()), {"step": 0})["step"])


def _small_cnn() -> type:
    """Return a class of features: 16 filters of 3 x 3 pixels, and 128 units."""
    import torch
    from stable_baselines3.common.torch_layers import BaseFeaturesExtractor

    class SmallCNN(BaseFeaturesExtractor):
        def __init__(self, space):
            super().__init__(space, 128)
            rows, columns, channels = space.shape
            size = 16 * (rows - 2) * (columns - 2)
            self.layers = torch.nn.Sequential(
                torch.nn.Conv2d(channels, 16, 3),
                torch.nn.ReLU(),
                torch.nn.Flatten(),
                torch.nn.Linear(size, 128),
                torch.nn.ReLU(),
            )

        def forward(self, observations):
            return self.layers(observations.permute(0, 3, 1, 2))

    return SmallCNN


if __name__ == "__main__":
    session.main(load, start, Training, OffPolicy)
