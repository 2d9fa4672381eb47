"""Stable-Baselines3's PPO and A2C."""

from __future__ import annotations

from benchmarks.inside import baselines, session, vectorised
from benchmarks.work.stepping import versions
from benchmarks.work.training import Training

_POLICIES = {"mlp": "MlpPolicy", "nature_cnn": "CnnPolicy"}


def load():
    import stable_baselines3  # noqa: F401


def start(
    work: Training, vectorisation: str = "dummy", threads: int = 1
) -> baselines.Learning:
    import stable_baselines3
    import torch

    torch.set_num_threads(threads)
    settings = baselines.hyperparameters(work, networks=tuple(_POLICIES))
    envs = vectorised.make(
        work.constructor(), work.num_envs, vectorisation, monitor=True
    )
    kind = getattr(stable_baselines3, work.algorithm.upper())
    model = kind(_POLICIES[work.network], envs, device="cpu", **settings)
    own = {
        "workers": 0 if vectorisation == "dummy" else work.num_envs,
        "autoreset": "same step",
        "threads": threads,
        "wrapper": "Monitor",
    }
    return baselines.of_torch(work, model, own, versions("stable-baselines3", "torch"))


if __name__ == "__main__":
    session.main(load, start, Training)
