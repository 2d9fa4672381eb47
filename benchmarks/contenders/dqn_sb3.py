"""Stable-Baselines3's DQN."""

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
    model = stable_baselines3.DQN(
        "MlpPolicy",
        envs,
        max_grad_norm=work.gradient_norm,
        policy_kwargs=policy,
        device="cpu",
        **off_policy.hyperparameters(work, count),
    )
    network, optimizer = model.policy.q_net, model.policy.optimizer
    return off_policy.Learning(
        work,
        model,
        lambda: sum(weight.numel() for weight in network.parameters()),
        lambda: int(next(iter(optimizer.state.values()), {"step": 0})["step"]),
        max(model.target_update_interval // count, 1),
        {"threads": threads},
        versions("stable-baselines3", "torch", "minatar"),
    )


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
