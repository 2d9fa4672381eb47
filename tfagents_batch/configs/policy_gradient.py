"""Presets of A2C, GA3C and REINFORCE; the Atari games need the extra ``atari``.

A comment gives the return that is reached, or the target where no result is recorded
yet.
"""

from __future__ import annotations

from tfagents_batch.configs.tuned import RAW_ACTIONS, Preset, trained_by

_STEPS = 10_000_000
_GAMES = {
    name.lower(): f"ALE/{name}-v5"
    for name in (
        "Amidar",
        "Boxing",
        "Centipede",
        "MsPacman",
        "NameThisGame",
        "Pong",
        "Qbert",
        "Seaquest",
        "UpNDown",
    )
}


def _tuned(env: str) -> Preset:
    return trained_by(
        "ga3c",
        (env, _STEPS, 16, {}),
        {"env_kwargs": {"preprocess": "ga3c"}},
        learning_rate="linear(7e-4, 0)",
        gae_lambda=0.95,
        entropy_scale=0.01,
        normalize_return="clip",
        reward_clip=1.0,
        network={"cnn": "ga3c"},
    )


def _paper(env: str) -> Preset:
    return trained_by(
        "ga3c",
        (
            env,
            _STEPS,
            32,
            {
                "length": 5,
                "predictors": 2,
                "train_batch": 5,
                "capacity": 500,
                "rollouts_per_call": 1,
                "adjust": True,
            },
        ),
        {"env_kwargs": {"preprocess": "ga3c"}},
        gamma=0.99,
        learning_rate=3e-4,
        max_gradient_norm=None,
        entropy_scale=0.01,
        optimizer="rmsprop_tf",
        optimizer_epsilon=0.1,
        reduction="sum",
        value_scale=1.0,
        correction="log_floor",
        normalize_return="clip",
        reward_clip=1.0,
        network={"cnn": "ga3c", "initializer": "fan_in"},
    )


PRESETS = {
    # 500.
    "a2c/cartpole": trained_by(
        "a2c",
        ("CartPole-v1", 500_000, 16, {"length": 5}),
        learning_rate="linear(2e-3, 0)",
        optimizer="rmsprop_tf",
    ),
    # Four of five seeds reach -200.
    "a2c/pendulum": trained_by(
        "a2c",
        ("Pendulum-v1", 1_000_000, 4, {"length": 5}),
        gamma=0.9,
        gae_lambda=0.9,
        learning_rate="linear(1e-3, 0)",
        optimizer="adam",
        network=RAW_ACTIONS,
    ),
    # rl-baselines3-zoo's sizes; not trained here.
    "a2c/pong": trained_by(
        "a2c",
        ("ALE/Pong-v5", 10_000_000, 16, {"length": 5}),
        learning_rate="linear(7e-4, 0)",
        entropy_scale=0.01,
        normalize_return="clip",
        reward_clip=1.0,
    ),
    # 500.
    "ga3c/cartpole": trained_by(
        "ga3c",
        ("CartPole-v1", 500_000, 16, {"length": 5}),
        {"num_workers": 2},
        learning_rate="linear(2e-3, 0)",
        optimizer="rmsprop_tf",
    ),
    # 500.
    "reinforce/cartpole": trained_by(
        "reinforce", ("CartPole-v1", 500_000, 16, {"episodes": 16})
    ),
    # Rewards are dense, so a short horizon makes returns less noisy. Not solved: -800.
    "reinforce/pendulum": trained_by(
        "reinforce",
        ("Pendulum-v1", 1_000_000, 4, {"episodes": 4}),
        gamma=0.9,
        learning_rate=3e-3,
        network=RAW_ACTIONS,
    ),
    # Whole games would have thousands of steps. Returns end at each point.
    "reinforce/pong": trained_by(
        "reinforce",
        ("ALE/Pong-v5", 10_000_000, 16, {"length": 128}),
        learning_rate=5e-4,
        entropy_scale=0.01,
        normalize_return=False,
        reset_return=True,
    ),
    # GA3C's paper has these games. ``ga3c_paper/`` has the settings of its code
    # (Babaeizadeh et al. 2017, arXiv:1611.06256). The others are for few cores: fewer
    # agents, GAE, V-trace, and updates of 40 transitions or more.
    **{f"ga3c/{name}": _tuned(env) for name, env in _GAMES.items()},
    **{f"ga3c_paper/{name}": _paper(env) for name, env in _GAMES.items()},
}
