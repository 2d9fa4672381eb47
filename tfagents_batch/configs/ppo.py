"""Presets of PPO: classic control, Box2D, MuJoCo, Atari, and tasks in TensorFlow."""

from typing import Any

from tfagents_batch.configs.tuned import (
    RAW_ACTIONS,
    Preset,
    like,
    trained_by,
    tuned,
)


def _split(position: list[int], velocity: list[int]) -> dict[str, list[dict]]:
    parts = {"position": position, "velocity": velocity}
    return {"wrappers": [{"name": "SelectEntries", "indices": parts}]}


_SPLIT = _split([0, 2], [1, 3])
# Students, with a GRU. Short rollouts matter: a student soon learns from its mistakes.
_STUDENT = {
    "learning_rate": "linear(2e-3, 0)",
    "epochs": 30,
    "minibatch_size": 256,
    "actor_keys": ("position",),
    "sequence_length": 32,
}
_GRU: dict[str, Any] = {"core": "gru", "value_core": "none"}
# Classic control, and CartPole without velocities.
_CLASSIC = {
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
    # The value sees the velocities, and so needs no memory. Target: a mean of 475.
    "cartpole-privileged": tuned(
        ("CartPole-v1", 200_000, 16, 128),
        (1e-3, 10, 512),
        run=_SPLIT,
        actor_keys=("position",),
        sequence_length=32,
        network=_GRU,
    ),
    # A student for the task before, whose run it starts with; needs a teacher.
    "distill/cartpole-hidden": trained_by(
        "distill",
        ("CartPole-v1", 50_000, 16, {"length": 32}),
        run=_SPLIT,
        network=_GRU,
        **_STUDENT,
    ),
    # It sees the eight positions. Its teacher is a run of halfcheetah with the same
    # wrapper. Target: 90 % of the teacher's mean return.
    "distill/halfcheetah-hidden": trained_by(
        "distill",
        ("HalfCheetah-v5", 100_000, 16, {"length": 32}),
        run=_split([*range(8)], [*range(8, 17)]),
        network=_GRU | {"hidden": (128, 128), "init_std": 0.1},
        **_STUDENT,
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
# Box2D (extra ``box2d``).
_BOX2D = {
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
# MuJoCo (extra ``mujoco``): batch-ppo's tasks in their newest versions.
# Target: a mean return of 2000 or far more.
_halfcheetah = tuned(
    ("HalfCheetah-v5", 1_000_000, 8, 256), (3e-4, 10, 64), network={"init_std": 0.6}
)
_MUJOCO = {
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
# Atari (extra ``atari``), with the settings of rl-baselines3-zoo. Three differ. The
# clip range is constant. Rewards are divided by the standard deviation of returns
# instead of clipped to their sign. A lost life does not end an episode, so that returns
# are scores. The steps amount to 40 million frames.
_pong = tuned(
    ("ALE/Pong-v5", 10_000_000, 8, 128),
    (2.5e-4, 4, 256),
    clip_ratio=0.1,
    entropy_scale=0.01,
)
_ATARI = {"pong": _pong, "breakout": like(_pong, env="ALE/Breakout-v5")}


def _larger(name: str, env: str) -> Preset:
    original = _CLASSIC[name]
    return like(original, env=env, num_envs=32, rollout={"length": 64})


def _minatar(game: str) -> Preset:
    return tuned(
        (f"tf/MinAtar/{game}-v1", 2_000_000, 64, 64),
        (2e-3, 6, 256),
        entropy_scale=0.01,
        normalize_observation=False,
    )


# Environments written in TensorFlow, which run in the compiled program. Those of
# classic control have the same targets as above. Most have more environments, which
# cost little here, and shorter rollouts.
_TENSORFLOW = {
    "tf/cartpole": like(
        _CLASSIC["cartpole"],
        env="tf/CartPole-v1",
        num_envs=16,
        rollout={"length": 128},
    ),
    "tf/pendulum": like(_CLASSIC["pendulum"], env="tf/Pendulum-v1"),
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
PRESETS = _CLASSIC | _BOX2D | _MUJOCO | _ATARI | _TENSORFLOW
