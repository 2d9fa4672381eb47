"""Presets of SAC with other critics: DroQ, REDQ, CrossQ and TQC.

A family has the same critics for all tasks, unlike in the papers: two of 256 units, but
for REDQ's ten. CrossQ's paper has 2048 units, TQC's five critics. One environment gives
each update the newest data.
"""

from __future__ import annotations

from typing import Any

from tfagents_batch.configs.tuned import Preset, trained_by

# The temperature is updated with the actor, a twentieth as often as the critics. From
# 1.0, it keeps HalfCheetah's actions random for 8,000 steps.
_MANY = {
    "train_updates": 20,
    "policy_delay": 20,
    "actor_value": "mean",
    "start_temperature": 0.1,
}
_FAMILIES: dict[str, dict[str, Any]] = {
    "droq": _MANY | {"critic": {"dropout": 0.01, "layer_norm": True}},
    "redq": _MANY | {"num_critics": 10, "critics_in_target": 2},
    "crossq": {
        "critic": {"batch_renorm": True},
        "policy_delay": 3,
        "beta_1": 0.5,
        "learning_rate": 1e-3,
    },
    "tqc": {"quantiles": 25, "dropped": 2, "actor_value": "mean"},
}
_TASKS: dict[str, tuple[str, int, dict[str, Any]]] = {
    "pendulum": ("Pendulum-v1", 20_000, {}),
    "halfcheetah": ("HalfCheetah-v5", 100_000, {}),
    "hopper": ("Hopper-v5", 100_000, {}),
    "lunarlander": ("LunarLander-v3", 100_000, {"continuous": True}),
}
_OTHER: dict[str, tuple[int, dict[str, Any]]] = {
    # Target: SAC's mean return after 20,000 steps.
    "crossq/pendulum": (
        10_000,
        {"learning_rate": "linear(1e-3, 0)", "policy_delay": 1},
    ),
    # Settings of rl-baselines3-zoo. Target: a mean return of at least -160 on Pendulum,
    # and of at least 270 on LunarLander.
    "tqc/pendulum": (20_000, {"learning_rate": 1e-3}),
    "tqc/lunarlander": (
        500_000,
        {
            "learning_rate": "linear(7.3e-4, 0)",
            "warmup_steps": 10_000,
            "target_tau": 0.01,
            "network": {"hidden": (400, 300)},
        },
    ),
    "tqc/halfcheetah": (1_000_000, {"warmup_steps": 10_000}),
    "tqc/hopper": (1_000_000, {"warmup_steps": 10_000, "dropped": 5}),
}


def _preset(family: str, task: str) -> Preset:
    env, usual, arguments = _TASKS[task]
    steps, settings = _OTHER.get(f"{family}/{task}", (usual, {}))
    run = {"env_kwargs": arguments} if arguments else None
    size = {"capacity": min(steps, 1_000_000)}
    return trained_by(
        "sac", (env, steps, 1, size), run, **(_FAMILIES[family] | settings)
    )


PRESETS = {
    f"{family}/{task}": _preset(family, task) for family in _FAMILIES for task in _TASKS
}
