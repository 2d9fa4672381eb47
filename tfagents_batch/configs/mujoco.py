"""Presets of MuJoCo (extra ``mujoco``): batch-ppo's tasks in their newest versions."""

from tfagents_batch.configs.tuned import RAW_ACTIONS, like, tuned

# Target: a mean return of 2000 or far more.
_halfcheetah = tuned(
    ("HalfCheetah-v5", 1_000_000, 8, 256), (3e-4, 10, 64), network={"init_std": 0.6}
)
PRESETS = {
    "halfcheetah": _halfcheetah,
    "cheetah": _halfcheetah,
    # Target: a mean return of 3000.
    "walker": like(_halfcheetah, env="Walker2d-v5"),
    # Target: a mean return of 2200.
    "hopper": like(_halfcheetah, env="Hopper-v5"),
    # No target; as many steps as in rl-baselines3-zoo.
    "ant": like(_halfcheetah, env="Ant-v5", steps=2_000_000),
    # Solved at a mean return of -3.75. Episodes have 50 steps, so the low discount
    # factor of 0.9, as in rl-baselines3-zoo, has little effect.
    "reacher": tuned(
        ("Reacher-v5", 1_000_000, 8, 256),
        (3e-4, 10, 64),
        gamma=0.9,
        network={"init_std": 0.6},
    ),
    # No target. Discount factors, network and entropy bonus are the tuned ones of
    # rl-baselines3-zoo; a std of 0.135 suits actions within 0.4. There are more
    # environments, and so a larger step size.
    "humanoid": tuned(
        ("Humanoid-v5", 10_000_000, 16, 256),
        (1e-4, 5, 256),
        gamma=0.95,
        gae_lambda=0.9,
        clip_ratio=0.3,
        entropy_scale=0.002,
        network={"hidden": (256, 256), "activation": "relu", "init_std": 0.135}
        | RAW_ACTIONS,
    ),
}
