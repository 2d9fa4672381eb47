"""Presets with the settings of rl-baselines3-zoo, by the names that they have here.

They are those of PPO, A2C, DQN, QR-DQN, SAC, TD3, DDPG and TQC on classic control and
Box2D. ``docs/results.md`` has the results beside the zoo's.

Settings that are said in another way: a length of 1 episode is an update for each step;
targets that are copied between trainings are copied once for each training; ``vf_coef``
is half of ``value_scale``; noise without a number of steps is drawn for each rollout.
"""

from __future__ import annotations

from typing import Any

from tfagents_batch.configs.tuned import RAW_ACTIONS, Preset, trained_by

_TASKS: dict[str, tuple[str, dict[str, Any]]] = {
    "cartpole": ("CartPole-v1", {}),
    "mountaincar": ("MountainCar-v0", {}),
    "acrobot": ("Acrobot-v1", {}),
    "pendulum": ("Pendulum-v1", {}),
    "mountaincar-continuous": ("MountainCarContinuous-v0", {}),
    "lunarlander": ("LunarLander-v3", {}),
    "lunarlander-continuous": ("LunarLander-v3", {"continuous": True}),
    "bipedalwalker": ("BipedalWalker-v3", {}),
}
Rows = dict[str, tuple[int, dict[str, Any]]]  # by task: training steps and settings

_RAW = {"normalize_observation": False, "normalize_return": False}
_LANDER = {"gamma": 0.999, "gae_lambda": 0.98, "epochs": 4, "entropy_scale": 0.01}
_LANDER |= {"num_envs": 16, "length": 1024, **_RAW}
_PPO: Rows = {
    "cartpole": (
        100_000,
        {
            **{"num_envs": 8, "length": 32, "minibatch_size": 256, "epochs": 20},
            **{"gamma": 0.98, "gae_lambda": 0.8, "learning_rate": "linear(1e-3, 0)"},
            **{"clip_ratio": "linear(0.2, 0)", **_RAW},
        },
    ),
    "mountaincar": (
        1_000_000,
        {"num_envs": 16, "length": 16, "gae_lambda": 0.98, "epochs": 4},
    ),
    "acrobot": (
        1_000_000,
        {"num_envs": 16, "length": 256, "gae_lambda": 0.94, "epochs": 4},
    ),
    "pendulum": (
        100_000,
        {
            **{"num_envs": 4, "length": 1024, "gamma": 0.9, "learning_rate": 1e-3},
            **{"exploration": "sde", "sde_every": 4, "network": RAW_ACTIONS, **_RAW},
        },
    ),
    "mountaincar-continuous": (
        20_000,
        {
            **{"num_envs": 1, "length": 8, "minibatch_size": 8, "gamma": 0.9999},
            **{"gae_lambda": 0.9, "learning_rate": 7.77e-5, "entropy_scale": 0.00429},
            **{"clip_ratio": 0.1, "max_gradient_norm": 5.0, "value_scale": 0.38},
            **{"exploration": "sde", "sde_every": 8},
            "network": {"init_std": 0.0373, "initializer": "fan_in"},
        },
    ),
    "lunarlander": (1_000_000, _LANDER),
    "lunarlander-continuous": (1_000_000, _LANDER),
    "bipedalwalker": (
        5_000_000,
        {"num_envs": 32, "length": 2048, "gamma": 0.999, "clip_ratio": 0.18},
    ),
}

_STATE_NOISE = {
    **{"length": 8, "gae_lambda": 0.9, "value_scale": 0.8},
    **{"exploration": "sde", "sde_every": 8, "learning_rate": "linear(7e-4, 0)"},
    "network": {"init_std": 0.135, "initializer": "fan_in", **RAW_ACTIONS},
}
_A2C: Rows = {
    "cartpole": (500_000, {"num_envs": 8, **_RAW}),
    "mountaincar": (1_000_000, {"num_envs": 16}),
    "acrobot": (500_000, {"num_envs": 16}),
    "pendulum": (1_000_000, {"num_envs": 8, "gamma": 0.9, **_STATE_NOISE}),
    "mountaincar-continuous": (
        100_000,
        {
            **{"num_envs": 4, "length": 100, "exploration": "sde", "sde_every": 16},
            "network": {"initializer": "fan_in"},
        },
    ),
    "lunarlander": (
        200_000,
        {
            **{"num_envs": 8, "gamma": 0.995, "learning_rate": "linear(8.3e-4, 0)"},
            **{"entropy_scale": 1e-5, **_RAW},
        },
    ),
    "lunarlander-continuous": (5_000_000, {"num_envs": 4, **_STATE_NOISE}),
    "bipedalwalker": (
        5_000_000,
        {"num_envs": 16, **_STATE_NOISE, "learning_rate": "linear(9.6e-4, 0)"},
    ),
}

_WIDE = {"network": {"hidden": (256, 256)}}
_MANY = {"train_every": 256, "train_updates": 128, "target_every": 128}
_OFTEN = {"train_every": 4, "train_updates": 4, "target_every": 250, "warmup_steps": 0}
_CAR = {
    **{"learning_rate": 4e-3, "batch_size": 128, "gamma": 0.98},
    **{"train_every": 16, "train_updates": 8, "target_every": 300},
    **{"capacity": 10_000, "epsilon": "linear(1, 0.07, 24000)", **_WIDE},
}
_FOUR = {
    **{"learning_rate": 6.3e-4, "batch_size": 128, "capacity": 50_000, **_OFTEN},
    **{"epsilon": "linear(1, 0.1, 12000)", **_WIDE},
}
_POLE = {
    **{"learning_rate": 2.3e-3, "batch_size": 64, "capacity": 100_000, **_MANY},
    **{"epsilon": "linear(1, 0.04, 8000)", **_WIDE},
}
_DQN: Rows = {
    "cartpole": (50_000, _POLE),
    "mountaincar": (120_000, _CAR),
    "acrobot": (100_000, _FOUR),
    "lunarlander": (100_000, _FOUR),
}
_QRDQN: Rows = {
    "cartpole": (50_000, _POLE | {"atoms": 10}),
    "mountaincar": (120_000, _CAR | {"atoms": 25}),
    "acrobot": (100_000, _FOUR | {"atoms": 25}),
    "lunarlander": (
        100_000,
        {
            **{"learning_rate": "linear(1.5e-3, 0)", "batch_size": 128, "atoms": 170},
            **{"capacity": 100_000, "warmup_steps": 10_000, "gamma": 0.995},
            **{"train_every": 256, "train_updates": 256, "target_every": 256},
            **{"epsilon": "linear(1, 0.18, 24000)", **_WIDE},
        },
    ),
}

_LARGE = {"network": {"hidden": (400, 300)}}
_WALKER = {
    **{"learning_rate": 7.3e-4, "gamma": 0.98, "target_tau": 0.02},
    **{"train_every": 64, "train_updates": 64, "warmup_steps": 10_000},
    **{"capacity": 300_000, "exploration": "sde", "sde_every": 64, "sde_std": 0.0498},
    **_LARGE,
}
_SAC: Rows = {
    "pendulum": (20_000, {"learning_rate": 1e-3}),
    "mountaincar-continuous": (
        50_000,
        {
            **{"batch_size": 512, "temperature": 0.1, "gamma": 0.9999},
            **{"train_every": 32, "train_updates": 32, "target_tau": 0.01},
            **{"capacity": 50_000, "warmup_steps": 0},
            **{"exploration": "sde", "sde_every": 32, "sde_std": 0.0255},
            "network": {"hidden": (64, 64)},
        },
    ),
    "lunarlander-continuous": (
        500_000,
        {
            **{"learning_rate": "linear(7.3e-4, 0)", "target_tau": 0.01},
            **{"warmup_steps": 10_000, **_LARGE},
        },
    ),
    "bipedalwalker": (500_000, _WALKER),
}

_SMALL_REPLAY = {
    "gamma": 0.98,
    "capacity": 200_000,
    "warmup_steps": 10_000,
    **_LARGE,
}
_TD3: Rows = {
    "pendulum": (20_000, _SMALL_REPLAY),
    "mountaincar-continuous": (
        300_000,
        {"exploration": "ou", "noise": 0.5, **_LARGE},
    ),
    "lunarlander-continuous": (300_000, _SMALL_REPLAY),
    "bipedalwalker": (1_000_000, _SMALL_REPLAY),
}

# Settings of Stable-Baselines3 that the zoo leaves as they are.
_ALL_REPLAY = {"num_envs": 1, "warmup_steps": 100}
_ALL_DQN = {
    **{"n_step": 1, "target": "max", "target_tau": 1.0},
    **{"num_envs": 1, "warmup_steps": 1000},
}
_FAMILIES: dict[str, tuple[str, Rows, dict[str, Any]]] = {
    "ppo": ("ppo", _PPO, {"learning_rate": 3e-4}),
    "a2c": ("a2c", _A2C, {"length": 5, "learning_rate": 7e-4, "value_scale": 1.0}),
    "dqn": ("dqn", _DQN, _ALL_DQN),
    "qrdqn": (
        "dqn",
        _QRDQN,
        # sb3-contrib's optimizer, too.
        _ALL_DQN
        | {"distribution": "qr", "optimizer_epsilon": 1e-4, "max_gradient_norm": None},
    ),
    "sac": ("sac", _SAC, _ALL_REPLAY),
    "td3": ("td3", _TD3, _ALL_REPLAY | {"noise": 0.1}),
    "ddpg": ("ddpg", _TD3, _ALL_REPLAY | {"noise": 0.1}),
    "tqc": (
        "sac",
        _SAC,
        _ALL_REPLAY | {"quantiles": 25, "dropped": 2, "actor_value": "mean"},
    ),
}
_OF_SOURCE = ("length", "capacity")


def _preset(family: str, task: str) -> Preset:
    algorithm, rows, usual = _FAMILIES[family]
    steps, own = rows[task]
    env, arguments = _TASKS[task]
    settings = usual | own
    source = {name: settings.pop(name) for name in _OF_SOURCE if name in settings}
    run = {"env_kwargs": arguments} if arguments else None
    num_envs = settings.pop("num_envs")
    return trained_by(algorithm, (env, steps, num_envs, source), run, **settings)


PRESETS = {
    f"zoo/{family}/{task}": _preset(family, task)
    for family, (_, rows, _) in _FAMILIES.items()
    for task in rows
}
