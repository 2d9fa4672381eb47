"""Presets of "Building Deep Reinforcement Learning Applications on Apache Spark".

The talk of 2018 (Analytics Zoo and BigDL) trained small networks with several
algorithms. These presets keep its networks and the sizes of its batches. They leave out
its penalties for the end of an episode, so that returns are those of the environment. A
comment gives what the talk reached, if it is known, and what is reached here.
"""

from __future__ import annotations

from tfagents_batch.configs.tuned import Preset, trained_by


def _vanilla(loss: str) -> Preset:
    return trained_by(
        "reinforce",
        ("CartPole-v1", 250_000, 5, {"episodes": 5}),
        learning_rate=0.01,
        baseline="none",
        loss=loss,
        network={"hidden": (24, 24), "activation": "relu"},
    )


PRESETS = {
    # There, an agent without target network did not learn. With so small a replay,
    # values diverge unless targets are double and move slowly. Two of three seeds reach
    # a return of 475.
    "deck/dqn-cartpole": trained_by(
        "dqn",
        ("CartPole-v1", 100_000, 4, {"capacity": 2000}),
        gamma=0.95,
        n_step=1,
        learning_rate="linear(5e-4, 0)",
        batch_size=32,
        train_every=4,
        train_updates=4,
        warmup_steps=500,
        target_tau=0.005,
        epsilon="linear(1, 0.05, 20000)",
        network={"hidden": (24, 24)},
    ),
    # Its network, frames, discount and replay. Double targets of 3 rewards learn in a
    # twentieth of its 3 million steps. 10 pipes or more, which is a return of 9.
    "deck/flappy": trained_by(
        "dqn",
        ("tf/Flappy-v0", 150_000, 8, {"capacity": 50_000, "stack": 4}),
        batch_size=32,
        target_tau=1.0,
        learning_rate=2.5e-4,
        train_every=8,
        warmup_steps=5000,
        target_every=500,
        epsilon="linear(0.5, 0.0001, 100000)",
    ),
    # The mean return of each time step is the baseline. 480 or more; there: 498 after
    # 314,000 steps.
    "deck/reinforce-cartpole": trained_by(
        "reinforce",
        ("CartPole-v1", 450_000, 15, {"episodes": 15}),
        gamma=0.95,
        learning_rate=5e-3,
        optimizer="rmsprop_tf",
        max_gradient_norm=None,
        baseline="time_step",
        network={"hidden": (10,)},
    ),
    # The same in two workers of Spark. Episodes end after 498 steps, so 498 is perfect.
    # Observations are not normalized, and RMSProp's step decreases. 498 within 60
    # iterations.
    "deck/distributed-reinforce-cartpole": trained_by(
        "reinforce",
        ("CartPole-v1", 450_000, 15, {"episodes": 15}),
        {
            "env_kwargs": {"max_episode_steps": 498},
            "pool": "spark",
            "pool_workers": 2,
        },
        gamma=0.95,
        learning_rate="linear(0.04, 0)",
        optimizer="rmsprop",
        max_gradient_norm=None,
        normalize_observation=False,
        baseline="time_step",
        network={"hidden": (10,)},
    ),
    # Adam's step of 0.01 after 5 games. 500; there: 475 after 65 updates. The second
    # has the gradient of its ``VanillaPGCriterion``.
    "deck/vanilla-pg-cartpole": _vanilla("log_likelihood"),
    "deck/vanilla-pg-squared-cartpole": _vanilla("squared_error"),
    # Two passes over minibatches of 40 with a clip range of 0.1. 500; there: 316.
    "deck/ppo-cartpole": trained_by(
        "ppo",
        ("CartPole-v1", 200_000, 8, {"length": 100}),
        learning_rate="linear(1e-3, 0)",
        clip_ratio=0.1,
        epochs=2,
        minibatch_size=40,
    ),
    # An update after every 32 steps. -240 or more.
    "deck/ppo-pendulum": trained_by(
        "ppo",
        ("Pendulum-v1", 500_000, 8, {"length": 32}),
        {"wrappers": [{"name": "RangeNormalize", "observation": False}]},
        gamma=0.95,
        learning_rate="linear(5e-4, 0)",
        network={
            "hidden": (100,),
            "activation": "relu",
            "mean": "tanh",
            "std": "softplus",
        },
    ),
    # Adam replaces its steps of 0.001 of gradient descent. 410 or more.
    "deck/a2c-cartpole": trained_by(
        "a2c",
        ("CartPole-v1", 500_000, 8, {"length": 5}),
        learning_rate="linear(3e-3, 0)",
        optimizer="adam",
        network={"hidden": (24,), "activation": "relu"},
    ),
    # Differences of frames, 200 units, and returns that end at each point.
    "deck/reinforce-pong": trained_by(
        "reinforce",
        ("ALE/Pong-v5", 10_000_000, 8, {"length": 256}),
        {
            "env_kwargs": {"screen_size": 80, "frame_stack": 1},
            "wrappers": [
                {"name": "FrameDelta", "reset_value": "zeros"},
                {"name": "RangeNormalize", "action": False},
            ],
        },
        learning_rate=1e-3,
        normalize_observation=False,
        normalize_return=False,
        reset_return=True,
        baseline="none",
        network={"hidden": (200,), "activation": "relu"},
    ),
    # GA3C's network, an episode for each life, and rewards clipped to their sign.
    "deck/a2c-breakout": trained_by(
        "a2c",
        ("ALE/Breakout-v5", 10_000_000, 8, {"length": 5}),
        {"env_kwargs": {"terminal_on_life_loss": True}},
        entropy_scale=0.01,
        normalize_return="clip",
        reward_clip=1.0,
        network={"cnn": "ga3c"},
    ),
}
