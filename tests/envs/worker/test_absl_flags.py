import json
import sys

import pytest
from absl import flags

import tfagents_batch as tfb
from tests.support import python
from tfagents_batch.envs.checking.check import check_env
from tfagents_batch.envs.worker import inherited

MODULE = """
from absl import flags
from tfagents_batch.envs.testing import CountingEnv

flags.DEFINE_string("arena", "plain", "map of the game")
flags.DEFINE_integer("size", 3, "size of the map")

class Game(CountingEnv):
    def __init__(self):
        super().__init__(length={"plain": 1, "maze": 2}[flags.FLAGS.arena])
        assert flags.FLAGS.size == 3
"""


@pytest.fixture
def game(tmp_path, monkeypatch):
    """Return the name of an environment whose module defines flags."""
    (tmp_path / "flagged_game.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    yield "flagged_game:Game"
    sys.modules.pop("flagged_game", None)
    for name in ("arena", "size"):
        if name in flags.FLAGS:
            delattr(flags.FLAGS, name)


def length(env):
    """Return the length of an episode of a batch of one."""
    with env:
        state, timestep = env.init(1)
        while not timestep.last[0]:
            state, timestep = env.step(state, [0])
        return int(timestep.info["episode_length"][0])


def test_an_environment_that_reads_flags_is_checked_without_a_parsed_command_line(game):
    flags.FLAGS.unparse_flags()
    assert check_env(game, steps=20).ok


@pytest.mark.parametrize("num_workers", [0, 1])
def test_an_environment_reads_default_flags_that_nobody_has_parsed(game, num_workers):
    flags.FLAGS.unparse_flags()
    assert length(tfb.make_env(game, 1, num_workers)) == 1


def test_workers_get_the_flags_that_the_script_has_parsed(game):
    import flagged_game

    flags.FLAGS(["script", "--arena=maze"])
    assert length(tfb.make_env(game, 1, 1)) == 2
    assert length(tfb.make_env(flagged_game.Game, 1, 1)) == 2
    assert inherited.flags() == {"arena": "maze"}


def test_absl_is_not_imported_before_an_environment_does_and_then_adopted():
    code = """
import json, sys
from tfagents_batch.envs.wrappers.adapt import create
from tfagents_batch.envs.testing import CountingEnv
from tfagents_batch.envs.worker import inherited, serving
inherited.adopt_flags({"arena": "maze"})
create(CountingEnv)
found = ["absl" in sys.modules]
from absl import flags
flags.DEFINE_string("arena", "plain", "map")
flags.DEFINE_string("other", "default", "another")
print(json.dumps([*found, flags.FLAGS.arena, flags.FLAGS.other]))
"""
    assert json.loads(python.run(code).stdout) == [False, "maze", "default"]
