"""Presets of environments written in TensorFlow, which run in the compiled program.

Those of classic control have the same targets as in ``classic_control``. Most have more
environments, which cost little here, and shorter rollouts.
"""

from tfagents_batch.configs import classic_control
from tfagents_batch.configs.tuned import Preset, like, tuned


def _larger(name: str, env: str) -> Preset:
    original = classic_control.PRESETS[name]
    return like(original, env=env, num_envs=32, rollout={"length": 64})


def _minatar(game: str) -> Preset:
    return tuned(
        (f"tf/MinAtar/{game}-v1", 2_000_000, 64, 64),
        (2e-3, 6, 256),
        entropy_scale=0.01,
        normalize_observation=False,
    )


PRESETS = {
    "tf/cartpole": like(
        classic_control.PRESETS["cartpole"],
        env="tf/CartPole-v1",
        num_envs=16,
        rollout={"length": 128},
    ),
    "tf/pendulum": like(classic_control.PRESETS["pendulum"], env="tf/Pendulum-v1"),
    "tf/acrobot": _larger("acrobot", "tf/Acrobot-v1"),
    "tf/mountaincar": _larger("mountaincar", "tf/MountainCar-v0"),
    "tf/mountaincar-continuous": _larger(
        "mountaincar-continuous", "tf/MountainCarContinuous-v0"
    ),
    # The ball is always caught at a mean return of 1.
    "tf/catch": tuned(("tf/Catch-v0", 100_000, 32, 32), (1e-3, 4, 128)),
    # Four rooms; the shortest paths give a mean return of about 0.9.
    "tf/gridworld": tuned(
        ("tf/GridWorld-v0", 200_000, 32, 32),
        (1e-3, 4, 128),
        run={"env_kwargs": {"one_hot": True, "step_reward": -0.01}},
    ),
    # A GRU remembers the sign: it reaches a mean return of 4 instead of 1.5.
    "tf/tmaze": tuned(
        ("tf/TMaze-v0", 200_000, 32, 64),
        (1e-3, 4, 256),
        entropy_scale=0.01,
        network={"core": "gru"},
    ),
    "tf/asterix-minatar": _minatar("Asterix"),
    "tf/breakout-minatar": _minatar("Breakout"),
    "tf/freeway-minatar": _minatar("Freeway"),
    "tf/seaquest-minatar": _minatar("Seaquest"),
    "tf/spaceinvaders-minatar": _minatar("SpaceInvaders"),
}
