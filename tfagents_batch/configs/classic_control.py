"""Presets of classic control, and of CartPole without velocities."""

from tfagents_batch.configs.tuned import RAW_ACTIONS, tuned

PRESETS = {
    # Solved at a mean return of 475.
    "cartpole": tuned(
        ("CartPole-v1", 200_000, 8, 256), (1e-3, 10, 128), gae_lambda=0.98
    ),
    # Velocities are hidden, and a GRU infers them. Target: a mean return of 475.
    "cartpole-hidden": tuned(
        ("CartPole-v1", 200_000, 16, 128),
        (1e-3, 10, 512),
        run={"wrappers": [{"name": "SelectEntries", "indices": [0, 2]}]},
        sequence_length=32,
        network={"core": "gru"},
    ),
    # Target: a mean return of -200.
    "pendulum": tuned(
        ("Pendulum-v1", 300_000, 8, 256),
        (5e-4, 10, 64),
        gamma=0.95,
        network={"init_std": 2.0} | RAW_ACTIONS,
    ),
    # Solved at a mean return of -100.
    "acrobot": tuned(("Acrobot-v1", 500_000, 16, 128), (1e-3, 4, 128), gae_lambda=0.94),
    # Solved at a mean return of -110.
    "mountaincar": tuned(
        ("MountainCar-v0", 1_000_000, 16, 128), (1e-3, 4, 128), gae_lambda=0.98
    ),
    # Solved at a mean return of 90.
    "mountaincar-continuous": tuned(
        ("MountainCarContinuous-v0", 500_000, 16, 128),
        (1e-3, 4, 128),
        gamma=0.999,
        gae_lambda=0.98,
        network={"init_std": 2.0},
    ),
}
