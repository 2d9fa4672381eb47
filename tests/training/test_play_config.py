from __future__ import annotations

import pytest

from tfagents_batch.envs import registry
from tfagents_batch.training import play_config
from tfagents_batch.training.run_flags import Config

LIFE = {"terminal_on_life_loss": True, "frame_stack": 2}


def mine(terminal_on_life_loss):
    """Stand for a function of the user."""


@pytest.mark.parametrize(
    ("env", "given", "expected"),
    [
        ("ALE/Breakout-v5", LIFE, {"frame_stack": 2}),
        ("BreakoutNoFrameskip-v4", LIFE, {"frame_stack": 2}),
        ("envpool:Breakout-v5", {"episodic_life": True}, {}),
        ("CartPole-v1", LIFE, LIFE),
        ("module:Class", LIFE, LIFE),
        (mine, LIFE, LIFE),
    ],
)
def test_a_lost_life_ends_episodes_of_training_only(env, given, expected):
    if isinstance(env, str) and "Breakout" in env and ":" not in env:
        pytest.importorskip("ale_py")
    assert registry.whole_games(env, given) == expected


def test_an_agent_plays_whole_games_unless_arguments_are_given():
    pytest.importorskip("ale_py")
    run = Config(env="ALE/Breakout-v5", env_kwargs=LIFE)

    def played(env=None, env_kwargs=None):
        return play_config.for_playing(run, env, env_kwargs, None).env_kwargs

    assert played() == played("ALE/Breakout-v5") == {"frame_stack": 2}
    assert played("ALE/Pong-v5") == {}
    assert played(env_kwargs=LIFE) == LIFE
