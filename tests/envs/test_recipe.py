import gymnasium
import pytest

from tfagents_batch.envs.recipe import EnvRecipe

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
    assert EnvRecipe(env, given).whole_games().env_kwargs == expected


def test_arguments_apply_to_the_same_name_only():
    recipe = EnvRecipe("ALE/Breakout-v5", LIFE, ["a wrapper"])
    assert recipe.other("ALE/Breakout-v5", own=False).env_kwargs == LIFE
    assert recipe.other("ALE/Pong-v5", own=True).env_kwargs == {}
    assert recipe.other(mine, own=True).env_kwargs == LIFE
    assert recipe.other(mine, own=False).env_kwargs == {}
    assert recipe.other(mine, own=False).wrappers == ["a wrapper"]
    assert recipe.other(gymnasium.make("CartPole-v1"), own=False).wrappers == ()


@pytest.mark.parametrize(
    ("env", "episodes", "most", "expected"),
    [
        ("CartPole-v1", 20, 8, (5, 20)),
        ("CartPole-v1", 7, 4, (1, 7)),
        ("CartPole-v1", 64, 8, (8, 64)),
        ([mine] * 3, 8, 8, (2, 8)),  # equal ones: fewer are enough
        ([mine, "CartPole-v1", mine], 8, 8, (3, 9)),
    ],
)
def test_environments_of_an_evaluation_divide_its_episodes(
    env, episodes, most, expected
):
    assert EnvRecipe(env).for_evaluation(episodes, most) == expected
