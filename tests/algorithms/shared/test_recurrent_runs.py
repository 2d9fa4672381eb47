"""Runs of algorithms with a replay whose networks have memory, and their agents."""

import functools

import numpy as np
import pytest
import tensorflow as tf

import tfagents_batch as tfb
from tests.algorithms import cases
from tests.nn.cases import ACTIONS, VECTOR, make_steps
from tests.sources.cases import assert_same_specs, outline
from tfagents_batch import nest
from tfagents_batch.algorithms import dqn
from tfagents_batch.distribute import wire
from tfagents_batch.envs.tf.batch import TensorBatch
from tfagents_batch.envs.tf.cartpole import CartPole
from tfagents_batch.errors import UserError
from tfagents_batch.logged.table_settings import TableSettings
from tfagents_batch.nn import q_network
from tfagents_batch.serving.decision_function import DecisionFunction
from tfagents_batch.sources import prior
from tfagents_batch.sources.replay_settings import ReplaySettings
from tfagents_batch.sources.rollout import Rollout
from tfagents_batch.training.config import RunConfig

MEMORY = {"sequence_length": 6, "network": {"core": "gru", "hidden": (8,)}}
SETTINGS = MEMORY | {"histograms": False, "warmup_steps": 60, "batch_size": 8}


def train(folder, **options):
    replay = {"capacity": 400, "prioritized": True, "beta": 0.5}
    common = {"settings": SETTINGS, "replay": replay, "compile": "off"}
    return cases.train("dqn", folder, **common | options)


@functools.cache
def agents():
    """Return an agent of each kind of policy, by name."""
    dqn = {"epsilon": 0.1, "warmup_steps": 0}
    return {
        "dqn": cases.make("dqn", **flat(MEMORY | dqn)),
        "pqn": cases.make("pqn", **flat(MEMORY | {"normalize_return": True})),
        "softmax": cases.make("sac", ACTIONS["discrete"], **flat(MEMORY)),
        "sac": cases.make("sac", **flat(MEMORY | {"warmup_steps": 0})),
        "sde": cases.make("sac", **flat(MEMORY | {"exploration": "sde"})),
        "td3": cases.make("td3", **flat(MEMORY | {"exploration": "ou"})),
    }


def flat(settings):
    """Return settings for ``cases.make``, whose ``network`` is another argument."""
    network = settings["network"]
    rest = {k: v for k, v in settings.items() if k != "network"}
    return rest | {f"network.{k}": v for k, v in network.items()}


def test_predict_takes_and_returns_the_state_and_resets_it(tmp_path):
    agent = tfb.load(train(tmp_path, steps=80).logdir)
    random = np.random.default_rng(0)
    first, second = random.normal(size=(2, 3, 4)).astype(np.float32)
    _, begun = agent.predict(first)
    _, state = agent.predict(second, begun)
    _, fresh = agent.predict(second)
    _, reset = agent.predict(second, begun, episode_start=[True, False, True])
    own, its, other = (nest.flatten(x)[0].numpy() for x in (reset, fresh, state))
    np.testing.assert_array_equal(own[[0, 2]], its[[0, 2]])
    np.testing.assert_array_equal(own[1], other[1])
    assert np.any(own[0] != other[0])


@pytest.mark.parametrize("name", ["dqn", "pqn", "softmax", "sac", "sde", "td3"])
def test_decisions_outside_of_training_are_greedy_actions_with_the_same_state(name):
    agent = agents()[name]
    policy, steps = agent.policy, make_steps(VECTOR, 3, 2)
    now = tf.constant(10**6, tf.int64)
    acting, memory = policy.initial_state(2), policy.memory(2, False)
    assert len(nest.flatten(memory)) == 1  # nothing that only training uses
    for t in range(3):
        row = nest.map(lambda x, t=t: x[t], steps)
        action, behavior, acting = policy.act(row, acting, (), now, False)
        decision = policy.decide(row, memory, now)
        np.testing.assert_allclose(action, decision.action, rtol=1e-6)
        recorded = nest.flatten(behavior["state"])[0]
        np.testing.assert_array_equal(recorded, nest.flatten(memory)[0])
        memory = decision.state
        after = nest.flatten(policy.parts(acting)[0])[0]
        np.testing.assert_array_equal(after, nest.flatten(memory)[0])


@pytest.mark.parametrize(("name", "exploration"), [("dqn", 0.1), ("sac", 1.0)])
def test_an_export_has_the_state_as_input_and_output(name, exploration):
    agent = agents()[name]
    function = DecisionFunction(agent.policy, agent._spec, 100, exploration)
    inputs = {x.name for x in function.inputs}
    assert {"episode_start", "state_0"} <= inputs and "state_1" not in inputs
    assert "next_state_0" in {x.name for x in function.outputs}


@pytest.mark.parametrize("stored", [True, False])
def test_workers_of_a_pool_know_what_is_recorded(stored):
    agent = cases.make("dqn", **flat(MEMORY | {"stored_state": stored}))
    env = TensorBatch(CartPole(), cases.B)
    agent = type(agent)(agent.config, env.spec)
    found = wire.outline(env.spec, agent.policy, 3, cases.B)
    rollout = Rollout(env, agent.policy, 3, seed=0)
    assert ("state" in found.behavior) == stored
    for known in found, rollout.outline():
        assert_same_specs(known, outline(rollout))


def test_logged_rows_are_refused():
    network = q_network.QConfig(core="lstm")
    settings = dqn.DQNConfig(n_step=1, network=network)
    run = RunConfig("dqn", settings=settings, source=TableSettings("x"))
    with pytest.raises(UserError, match="learns from windows; use another source"):
        run.check()
    with pytest.raises(UserError, match=r"network.core=lstm needs the steps before"):
        prior.check(ReplaySettings(prior="x"), settings.accepts()["windows"])
