"""What a recurrent network learns, and one without memory does not."""

import dataclasses

import pytest

import tfagents_batch as tfb
from tests.learning.hidden import HiddenVelocities
from tfagents_batch.algorithms import ppo
from tfagents_batch.nn import networks
from tfagents_batch.schedules import Linear

SETTINGS = ppo.Config(
    learning_rate=Linear(1e-3, 0.0), minibatch_size=512, sequence_length=32
)


def train(core, seed, folder):
    settings = dataclasses.replace(SETTINGS, network=networks.Config(core=core))
    if core == "none":
        settings = dataclasses.replace(settings, sequence_length=None)
    run = tfb.train(
        "ppo",
        env=HiddenVelocities,
        steps=100_000,
        seed=seed,
        num_envs=16,
        rollout_length=128,
        eval_every=0,
        logdir=folder,
        settings=settings,
    )
    played = tfb.evaluate(run.logdir, episodes=100, env=HiddenVelocities)
    return played.mean_return


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("core", ["gru", "lstm"])
def test_hidden_velocities_are_remembered(core, tmp_path):
    returns = [train(core, seed, tmp_path) for seed in range(1, 4)]
    assert min(returns) >= 400, returns


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_without_memory_they_are_missed(tmp_path):
    returns = [train("none", seed, tmp_path) for seed in range(1, 4)]
    assert max(returns) < 100, returns
