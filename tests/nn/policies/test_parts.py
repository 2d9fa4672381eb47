"""Actions of Dict and Tuple spaces, with every algorithm that takes them."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces as gs

import tfagents_batch as tfb
from tests.algorithms.cases import make_ppo
from tests.support.space_env import SpaceEnv
from tfagents_batch.algorithms import REGISTRY
from tfagents_batch.errors import UserError
from tfagents_batch.nn.networks import NetworkConfig

ACTION = gs.Tuple(
    [
        gs.Discrete(3, start=1),
        gs.Dict(b=gs.Box(-2, 2, (2,)), a=gs.MultiDiscrete([2, 3])),
        gs.MultiBinary(2),
    ]
)
MASK = gs.Box(np.int8([1, 0, 0, 1, 0, 0, 1, 0]), np.int8(1), dtype=np.int8)
OBSERVATION = gs.Dict(x=gs.Box(-1, 1, (3,)), action_mask=MASK)


def make():
    return gymnasium.wrappers.TimeLimit(SpaceEnv(OBSERVATION, ACTION, length=5), 4)


@pytest.mark.parametrize("name", ["ppo", "a2c", "reinforce", "ga3c", "sac"])
def test_an_agent_trains_and_its_actions_are_of_the_space(name, tmp_path):
    settings = {"histograms": False, "network.hidden": (8,)}
    if name == "sac":
        settings |= {"warmup_steps": 8, "batch_size": 4}
    options = {"num_envs": 2, "num_workers": 1, "eval_every": 0, "compile": "off"}
    rollout = {"episodes": 4} if name == "reinforce" else {"length": 6}
    source = {"ga3c": "queue", "sac": "replay"}.get(name, "rollout")
    rollout = {"capacity": 50} if name == "sac" else rollout
    run = tfb.train(
        name, make, steps=24, settings=settings, **options, **{source: rollout},
        logdir=tmp_path, progress=False,
    )  # fmt: skip
    result = tfb.evaluate(run.logdir, 2, env=make, actions="sample")
    assert np.isfinite(result.mean_return) and result.failed_episodes == 0
    agent = tfb.load(run.logdir, env=make)
    observation = {"x": np.zeros(3, np.float32), "action_mask": MASK.low}
    for _ in range(5):
        action, _ = agent.predict(observation, deterministic=False)
        assert ACTION.contains(action)
        assert action[0] == 1 and (action[1]["a"] == [0, 1]).all()


def test_values_and_deterministic_policies_refuse_parts_in_one_line():
    for name in ("dqn", "td3"):
        kind, settings = REGISTRY[name]
        spec = tfb.types.EnvSpec(2, gs.Box(-1, 1, (3,)), ACTION, {})
        with pytest.raises(UserError, match="action space is Tuple"):
            kind(settings(), spec)


def test_options_that_need_a_single_box_are_refused():
    with pytest.raises(UserError, match="exploration is sde"):
        make_ppo(action=ACTION, exploration="sde")
    with pytest.raises(UserError, match=r"network.mean is tanh, .* several parts"):
        make_ppo(action=ACTION, network=NetworkConfig(mean="tanh"))
