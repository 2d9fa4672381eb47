"""Presets of A2C, GA3C and REINFORCE.

A comment gives the return that is reached, or the target where no result is recorded
yet.
"""

from __future__ import annotations

from tfagents_batch.configs.tuned import RAW_ACTIONS, trained_by

PRESETS = {
    # 500.
    "a2c/cartpole": trained_by(
        "a2c",
        "CartPole-v1",
        500_000,
        16,
        {"length": 5},
        learning_rate="linear(2e-3, 0)",
        optimizer="rmsprop_tf",
    ),
    # Four of five seeds reach -200.
    "a2c/pendulum": trained_by(
        "a2c",
        "Pendulum-v1",
        1_000_000,
        4,
        {"length": 5},
        gamma=0.9,
        gae_lambda=0.9,
        learning_rate="linear(1e-3, 0)",
        optimizer="adam",
        network=RAW_ACTIONS,
    ),
    # rl-baselines3-zoo's sizes; not trained here.
    "a2c/pong": trained_by(
        "a2c",
        "ALE/Pong-v5",
        10_000_000,
        16,
        {"length": 5},
        learning_rate="linear(7e-4, 0)",
        entropy_scale=0.01,
        normalize_return="clip",
        reward_clip=1.0,
    ),
    # 500.
    "ga3c/cartpole": trained_by(
        "ga3c",
        "CartPole-v1",
        500_000,
        16,
        {"length": 5},
        {"num_workers": 2},
        learning_rate="linear(2e-3, 0)",
        optimizer="rmsprop_tf",
    ),
    # 500.
    "reinforce/cartpole": trained_by(
        "reinforce", "CartPole-v1", 500_000, 16, {"episodes": 16}
    ),
    # Rewards are dense, so a short horizon makes returns less noisy. Not solved: -800.
    "reinforce/pendulum": trained_by(
        "reinforce",
        "Pendulum-v1",
        1_000_000,
        4,
        {"episodes": 4},
        gamma=0.9,
        learning_rate=3e-3,
        network=RAW_ACTIONS,
    ),
    # Whole games would have thousands of steps. Returns end at each point.
    "reinforce/pong": trained_by(
        "reinforce",
        "ALE/Pong-v5",
        10_000_000,
        16,
        {"length": 128},
        learning_rate=5e-4,
        entropy_scale=0.01,
        normalize_return=False,
        reset_return=True,
    ),
}
