"""Atari (extra ``atari``), with the settings of rl-baselines3-zoo.

Three settings differ. The clip range is constant. Rewards are divided by the standard
deviation of returns instead of clipped to their sign. A lost life does not end an
episode, so that returns are scores. The steps amount to 40 million frames.
"""

from tfagents_batch.configs.tuned import like, tuned

_pong = tuned(
    ("ALE/Pong-v5", 10_000_000, 8, 128),
    (2.5e-4, 4, 256),
    clip_ratio=0.1,
    entropy_scale=0.01,
)
PRESETS = {"pong": _pong, "breakout": like(_pong, env="ALE/Breakout-v5")}
