"""Stable-Baselines3's PPO to a threshold, with the presets of rl-baselines3-zoo.

The numbers are those of its ``hyperparams/ppo.yml``; HalfCheetah's were published for
v4. The files of the zoo are left out.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from benchmarks.inside import learned, sb3, session
from benchmarks.work.works import Learning, make


class Linear(NamedTuple):
    """Schedule from ``start`` at the first step of a preset to 0 at its last."""

    start: float

    def __call__(self, remaining: float) -> float:
        return remaining * self.start


class Preset(NamedTuple):
    """Preset of the zoo."""

    num_envs: int
    steps: int  # env steps of a run; linear schedules end with them
    settings: dict[str, Any]  # of PPO
    normalize: bool = False  # observations and rewards, by running statistics
    network: dict[str, Any] | None = None  # units and activation; None: the defaults


PRESETS = {
    "CartPole-v1": Preset(
        8,
        100_000,
        {
            "n_steps": 32,
            "batch_size": 256,
            "gae_lambda": 0.8,
            "gamma": 0.98,
            "n_epochs": 20,
            "ent_coef": 0.0,
            "learning_rate": Linear(0.001),
            "clip_range": Linear(0.2),
        },
    ),
    "Pendulum-v1": Preset(
        4,
        100_000,
        {
            "n_steps": 1024,
            "gae_lambda": 0.95,
            "gamma": 0.9,
            "n_epochs": 10,
            "ent_coef": 0.0,
            "learning_rate": 1e-3,
            "clip_range": 0.2,
            "use_sde": True,
            "sde_sample_freq": 4,
        },
    ),
    "HalfCheetah-v5": Preset(
        1,
        1_000_000,
        {
            "batch_size": 64,
            "n_steps": 512,
            "gamma": 0.98,
            "learning_rate": 2.0633e-05,
            "ent_coef": 0.000401762,
            "clip_range": 0.1,
            "n_epochs": 20,
            "gae_lambda": 0.92,
            "max_grad_norm": 0.8,
            "vf_coef": 0.58096,
        },
        normalize=True,
        network={
            "log_std_init": -2,
            "ortho_init": False,
            "activation_fn": "ReLU",
            "net_arch": {"pi": [256, 256], "vf": [256, 256]},
        },
    ),
}


def load(**_):
    import stable_baselines3  # noqa: F401


def start(work, threads=1, vectorisation="dummy"):
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common import callbacks, vec_env
    from torch import nn

    torch.set_num_threads(threads)
    preset, network = PRESETS[work.env], PRESETS[work.env].network
    if network is not None:
        network = network | {"activation_fn": getattr(nn, network["activation_fn"])}

    def make_envs(count, vectorisation, **normalized):
        constructor = functools.partial(make, work.env, {})
        envs = sb3.vectorised(constructor, count, vectorisation, monitor=True)
        if preset.normalize:  # with the preset's discount factor, as in the zoo
            gamma = preset.settings["gamma"]
            envs = vec_env.VecNormalize(envs, gamma=gamma, **normalized)
        return envs

    def learn():
        envs = make_envs(preset.num_envs, vectorisation)
        evaluated = make_envs(work.episodes, "dummy", training=False, norm_reward=False)
        watch = callbacks.EvalCallback(
            evaluated,
            callbacks.StopTrainingOnRewardThreshold(work.threshold),
            n_eval_episodes=work.episodes,
            eval_freq=max(1, work.eval_every // preset.num_envs),  # calls of the batch
            verbose=0,
        )
        settings = {"policy_kwargs": network, "seed": work.seed, **preset.settings}
        model = PPO("MlpPolicy", envs, device="cpu", **settings)
        model.learn(preset.steps, watch)
        for each in (envs, evaluated):
            each.close()
        reached = watch.best_mean_reward >= work.threshold
        return model.num_timesteps if reached else None

    own = {"preset": f"rl-baselines3-zoo, {work.env}", "num_envs": preset.num_envs}
    own |= {"threads": threads, "vectorisation": vectorisation}
    return learned.Learned(work, learn, own, "stable-baselines3", "torch")


if __name__ == "__main__":
    session.main(load, start, Learning)
