"""Stable-Baselines3's PPO: SubprocVecEnv, and one thread of PyTorch."""

from benchmarks import session
from benchmarks.contenders import ppo_sb3
from benchmarks.training import Training


def start(work):
    return ppo_sb3.start(work, processes=True)


if __name__ == "__main__":
    session.main(ppo_sb3.load, start, Training)
