"""Presets of Box2D (extra ``box2d``)."""

from tfagents_batch.configs.tuned import tuned

PRESETS = {
    # Solved at a mean return of 200.
    "lunarlander": tuned(
        ("LunarLander-v3", 1_000_000, 16, 256),
        (5e-4, 8, 256),
        gamma=0.999,
        gae_lambda=0.98,
        entropy_scale=0.01,
    ),
    # Solved at a mean return of 300. Discount factor, clip range and step size are
    # those of rl-baselines3-zoo; rollouts are shorter and minibatches larger.
    "bipedalwalker": tuned(
        ("BipedalWalker-v3", 5_000_000, 32, 512),
        (3e-4, 10, 256),
        clip_ratio=0.18,
        gamma=0.999,
    ),
}
