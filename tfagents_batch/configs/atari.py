"""Atari (extra ``atari``), with the settings of rl-baselines3-zoo.

But for three things: the range of ratios stays as wide as it is at the start, rewards
are divided by the deviation of returns where they are cut to their sign there, and a
lost life ends no episode, so that returns are scores. Steps are 40 million frames.
"""

from tfagents_batch.configs.tuned import like, tuned

_pong = tuned(
    ("ALE/Pong-v5", 10_000_000, 8, 128),
    (2.5e-4, 4, 256),
    clip_ratio=0.1,
    entropy_scale=0.01,
)
PRESETS = {"pong": _pong, "breakout": like(_pong, env="ALE/Breakout-v5")}
