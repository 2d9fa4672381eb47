from __future__ import annotations

import functools

import gymnasium.spaces as gs
import numpy as np
import pytest

from tests.support.space_env import SpaceEnv
from tfagents_batch.envs.processes.pool import Pool
from tfagents_batch.errors import UserError

BOX = gs.Box(-1, 1, (3,), np.float32)
PAIRS = [
    (
        BOX,
        gs.Box(-1, 1, (4,), np.float32),
        r"observation_space.shape is \[4\], not \[3\]",
    ),
    (BOX, gs.Box(-1, 1, (3,), np.float64), "dtype is float64, not float32"),
    (BOX, gs.Box(-1, 2, (3,), np.float32), r"high is 2\.0, not 1\.0"),
    (BOX, gs.Discrete(3), "type is Discrete, not Box"),
    (gs.Discrete(3), gs.Discrete(3, start=1), "start is 1, not 0"),
    (gs.Dict(a=BOX), gs.Dict(a=BOX, b=BOX), "has 'b' only in"),
    (gs.Tuple([BOX]), gs.Tuple([BOX, BOX]), "observation_space.spaces is"),
]


@pytest.mark.parametrize(
    ("one", "other", "text", "num_workers"),
    [*((*pair, 0) for pair in PAIRS), (*PAIRS[0], 2)],
)
def test_the_first_difference_is_reported(one, other, text, num_workers):
    constructors = [functools.partial(SpaceEnv, space) for space in (one, one, other)]
    with pytest.raises(UserError, match=f"env 2 and env 0 disagree: .*{text}"):
        Pool(constructors, num_workers)


def test_action_spaces_are_compared_too():
    constructors = [functools.partial(SpaceEnv, BOX, gs.Discrete(n)) for n in (2, 3)]
    with pytest.raises(UserError, match=r"action_space\.n is 3, not 2"):
        Pool(constructors, 2)


def test_equal_spaces_of_different_objects_agree(make_pool):
    one = np.ones(3, np.float32)
    spaces = [gs.Box(-1, 1, (3,), np.float32), gs.Box(-one, one)]
    make_pool([functools.partial(SpaceEnv, space) for space in spaces], 2)
