"""Stable-Baselines3's DQN, SAC and TD3."""

from __future__ import annotations

from typing import Any

from benchmarks.inside import off_policy, session, vectorised
from benchmarks.work.off_policy import OffPolicy
from benchmarks.work.stepping import versions


def load():
    import stable_baselines3  # noqa: F401


def start(
    work: OffPolicy, threads: int = 1, several: bool = False
) -> off_policy.Learning:
    """Return a session.

    Args:
      work: what to train on.
      threads: number of PyTorch's threads.
      several: use ``work.num_envs`` environments; else one.
    """
    import stable_baselines3
    import torch

    torch.set_num_threads(threads)
    count = work.num_envs if several else 1
    envs = vectorised.make(work.constructor(), count, "dummy", monitor=True)
    policy = _network(work) | {"optimizer_kwargs": {"eps": work.adam_epsilon}}
    settings = off_policy.hyperparameters(work, envs)
    if work.algorithm == "dqn":
        settings["max_grad_norm"] = work.gradient_norm
    algorithm = getattr(stable_baselines3, work.algorithm.upper())
    model = algorithm("MlpPolicy", envs, policy_kwargs=policy, device="cpu", **settings)
    target_calls = None
    if work.algorithm == "dqn":
        optimizers = {"values": model.policy.optimizer}
        target_calls = max(model.target_update_interval // count, 1)
    else:
        networks = {"values": model.critic, "actor": model.actor}
        optimizers = {name: each.optimizer for name, each in networks.items()}
    parameters = sum(_parameters(each) for each in optimizers.values())
    if work.algorithm == "sac":
        optimizers["temperature"] = model.ent_coef_optimizer
    return off_policy.Learning(
        work,
        model,
        parameters,
        lambda: {name: _steps(each) for name, each in optimizers.items()},
        target_calls,
        {"threads": threads},
        versions("stable-baselines3", "torch", "minatar"),
    )


def _parameters(optimizer: Any) -> int:
    """Return the number of numbers that an optimizer trains."""
    groups = optimizer.param_groups
    return sum(weight.numel() for group in groups for weight in group["params"])


def _steps(optimizer: Any) -> int:
    """Return the number of steps that an optimizer has made."""
    return int(next(iter(optimizer.state.values()), {"step": 0})["step"])


def _network(work: OffPolicy) -> dict[str, Any]:
    """Return the arguments of the policy for its network."""
    if work.network == "mlp":
        return {"net_arch": list(work.hidden)}
    if work.network == "small_cnn":
        return {"net_arch": [], "features_extractor_class": _small_cnn()}
    raise ValueError(f"network is {work.network!r}; expected mlp or small_cnn")


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
    session.main(load, start, OffPolicy)
