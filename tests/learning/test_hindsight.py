"""Goals of HER solve what rewards alone do not."""

import functools

import pytest

import tfagents_batch as tfb
from tests.sources.replay import bit_flip

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("her", "least", "most"), [("future", 0.95, 1), ("none", 0, 0.05)]
)
def test_twelve_bits_are_flipped_to_their_goal(her, least, most, tmp_path):
    make = functools.partial(bit_flip.make, 12)
    settings = {
        **{"n_step": 1, "learning_rate": 1e-3, "gamma": 0.98},
        **{"train_every": 8, "train_updates": 8, "epsilon": "linear(1, 0.1, 10000)"},
    }
    run = tfb.train(
        *("dqn", make),
        **{"num_envs": 8, "steps": 30_000, "seed": 1, "eval_every": 0},
        **{"log_info": ("is_success",), "replay": {"her": her}, "settings": settings},
        logdir=tmp_path,
    )
    result = tfb.evaluate(run.logdir, 100, env=make)
    assert least <= result.infos["is_success"].mean() <= most
