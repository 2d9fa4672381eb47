"""Presets of GA3C for the Atari games of its paper (extra ``atari``).

Those in ``ga3c_paper/`` have the settings of the paper's code (Babaeizadeh et al. 2017,
arXiv:1611.06256). The others are for few cores: fewer agents, GAE, V-trace, and updates
of 40 transitions or more.
"""

from __future__ import annotations

from tfagents_batch.configs.tuned import Preset, trained_by

_STEPS = 10_000_000
_GAMES = {
    name.lower(): f"ALE/{name}-v5"
    for name in (
        *("Amidar", "Boxing", "Centipede", "MsPacman", "NameThisGame", "Pong"),
        *("Qbert", "Seaquest", "UpNDown"),
    )
}


def _tuned(env: str) -> Preset:
    return trained_by(
        "ga3c",
        env,
        _STEPS,
        16,
        {},
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
    **{f"ga3c/{name}": _tuned(env) for name, env in _GAMES.items()},
    **{f"ga3c_paper/{name}": _paper(env) for name, env in _GAMES.items()},
}
