"""Tests of algorithms whose noise is a function of the state (gSDE)."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfagents_batch as tfb
from tests.algorithms.cases import (
    B,
    T,
    assert_equal,
    collect,
    experience,
    make,
    train,
    update,
    variables,
)
from tests.nn.cases import ACTIONS, VECTOR, make_spec, make_steps
from tfagents_batch import config, nest
from tfagents_batch.algorithms import REGISTRY
from tfagents_batch.algorithms.ppo import PPO, PPOConfig
from tfagents_batch.errors import UserError
from tfagents_batch.sources.rollout import Rollout

BOX = ACTIONS["box"]
NOW = tf.constant(10**6, tf.int64)  # after the warm-up
BOTH = pytest.mark.parametrize("name", ["ppo", "sac"])


def agent(name, **settings):
    return make(name, BOX, exploration="sde", **{"sde_every": 3, **settings})


def one_step(seed=0):
    return nest.map(lambda x: x[0], make_steps(VECTOR, 1, B, seed))


def play(policy, steps, count=7, explore=True):
    """Return the actions of each step, f32 ``[B, A]``, and the last behavior."""
    noise, state, rows = policy.noise((count, B), 1), policy.initial_state(B), []
    behavior = {}
    for t in range(count):
        now = nest.map(lambda x, t=t: x[t], noise)
        action, behavior, state = policy.act(steps, state, now, NOW, explore)
        rows.append(action)
    return rows, behavior


@BOTH
def test_an_action_depends_only_on_the_state_while_a_matrix_is_kept(name):
    actions, _ = play(agent(name).policy, one_step())
    for t in range(1, 7):
        assert np.all(actions[t] == actions[t - 1]) == (t % 3 != 0)


@BOTH
def test_compiled_actions_are_the_eager_ones(name):
    policy = agent(name).policy
    eager, _ = play(policy, one_step())
    program = tf.function(
        lambda steps: play(policy, steps)[0], jit_compile=True, autograph=False
    )
    np.testing.assert_allclose(program(one_step()), eager, rtol=1e-4, atol=1e-5)


def test_recorded_log_probabilities_are_those_over_all_matrices():
    policy = agent("ppo", **{"network.scale_actions": False}).policy
    actions, behavior = play(policy, one_step())
    action = actions[-1].numpy()
    heads, sigma = (
        policy._heads(one_step(), ())[0],
        np.exp(policy.network.trained_std.numpy()),
    )
    features, mean = (
        np.asarray(x, np.float64) for x in (heads.features, heads.policy.mean)
    )
    assert features.shape == (B, 8) and sigma.shape == (8, BOX.shape[0])
    for n in range(B):
        expected = 0.0
        for a in range(mean.shape[1]):
            variance = sum((features[n, f] * sigma[f, a]) ** 2 for f in range(8)) + 1e-6
            expected -= (action[n, a] - mean[n, a]) ** 2 / (2 * variance)
            expected -= np.log(2 * np.pi * variance) / 2
        assert float(behavior["log_prob"][n]) == pytest.approx(expected, rel=1e-5)


@BOTH
def test_greedy_actions_and_decisions_are_the_means(name):
    policy, steps = agent(name).policy, one_step()
    greedy, _ = play(policy, steps, explore=False)
    assert nest.flatten(policy.memory(B, True)) == []  # exports have no matrix
    np.testing.assert_array_equal(policy.decide(steps, (), NOW).action, greedy[0])
    np.testing.assert_array_equal(greedy[-1], greedy[0])
    decision = policy.decide(steps, (), NOW, tf.zeros([B, BOX.shape[0]]))
    np.testing.assert_allclose(decision.action, greedy[0], rtol=1e-5, atol=1e-6)
    log = policy.log_density(steps, policy.initial_state(B), decision.action, NOW)
    np.testing.assert_allclose(decision.log_density, log, rtol=1e-4)


def test_means_of_sac_before_tanh_are_within_2():
    policy = agent("sac").policy
    policy.network.heads[0].bias.assign([9.0, -9.0][: BOX.shape[0]])
    mean = policy.distribution(one_step()).params["mean"]
    np.testing.assert_array_equal(mean[:, 0], [2.0] * B)


@pytest.mark.parametrize("name", ["ppo", "a2c", "reinforce", "sac"])
def test_an_update_trains_the_standard_deviations(name):
    learner = agent(name)
    found = learner.policy.network.state_noise.kernel
    before = found.numpy()
    trajectory = experience(learner)
    # An advantage of noise may be 0 for a number, but not for all of them.
    metrics = update(learner, trajectory, 1)
    assert np.all(np.isfinite(found)) and np.any(found != before)
    assert np.isfinite(metrics["policy/entropy"])
    assert any(found is x for x in learner.policy.named_variables().values())


@pytest.mark.parametrize("core", ["gru", "lstm"])
def test_a_recurrent_core_has_features(core):
    learner = agent("ppo", **{"network.core": core})
    trajectory = collect(learner)
    steps = nest.map(lambda x: x[:T], trajectory.steps)
    steps = steps._replace(observation=learner.policy.observations(steps.observation))
    heads, _ = learner.network.unroll(steps, trajectory.state[0])
    log_prob = heads.policy.log_prob(trajectory.action)
    np.testing.assert_allclose(
        log_prob, trajectory.behavior["log_prob"], rtol=1e-4, atol=1e-4
    )
    update(learner, trajectory, 1)


def test_squashed_actions_and_your_own_features_work():
    settings = {"network.squash": True, "exploration": "sde", "sde_every": 3}
    settings = config.replace(PPOConfig(), settings)
    network = keras.Sequential([keras.layers.Dense(5, "tanh")])
    learner = PPO(settings, make_spec(action=BOX, num_envs=B), network)
    assert learner.network.trained_std.shape[0] == 5
    actions, _ = play(learner.policy, one_step())
    assert np.all(np.abs(actions) < 1)
    assert np.all(actions[0] == actions[2]) and np.any(actions[2] != actions[3])
    update(learner, collect(learner), 1)


def test_without_it_there_are_no_more_weights_and_no_matrix():
    for name in ("ppo", "sac"):
        policy = make(name, BOX).policy
        assert policy.network.state_noise is None
        assert not any("state_noise" in x.path for x in policy.network.variables)
        assert len(nest.flatten(policy.initial_state(B))) == (name == "ppo")


def test_a_rollout_with_the_variables_of_another_goes_on_with_its_matrices():
    env, now = tfb.make_env("tf/Pendulum-v1", num_envs=B), tf.constant(0, tf.int64)
    settings = {"exploration": "sde", "sde_every": 7, "network.hidden": (4,)}
    policy = PPO(config.replace(PPOConfig(), settings), env.spec).policy
    one, two = (Rollout(env, policy, 5, seed) for seed in (0, 1))
    collect_one, collect_two = (
        tf.function(x.collect, autograph=False) for x in (one, two)
    )
    collect_one(0, now)
    for name, variable in one.named_variables().items():
        two.named_variables()[name].assign(variable)
    first, second = (x(1, now).trajectory for x in (collect_one, collect_two))
    np.testing.assert_array_equal(second.action, first.action)
    np.testing.assert_array_equal(first.state[2].age, [5] * B)
    assert np.all(first.state[2].matrix != 0)


@pytest.mark.slow
@BOTH
def test_a_stopped_and_resumed_run_equals_a_straight_one(name, tmp_path):
    # It stops after 80 or 75 steps of each environment, when a matrix is not yet due.
    settings = {"exploration": "sde", "sde_every": 7, "network": {"hidden": [8]}}
    more = {
        "ppo": {"minibatch_size": 32, "epochs": 1},
        "sac": {"warmup_steps": 100, "train_every": 4, "batch_size": 16},
    }
    options = {"env": "tf/Pendulum-v1", "compile": "off"}
    options["settings"] = settings | more[name]
    straight = train(name, tmp_path / "straight", steps=600, **options)
    stopped = train(name, tmp_path / "stopped", steps=300, **options)
    resumed = tfb.train(resume=stopped.logdir, steps=600)
    assert resumed.step == straight.step > stopped.step
    assert_equal(variables(resumed), variables(straight))


@pytest.mark.parametrize("name", ["ppo", "a2c", "sac"])
@pytest.mark.parametrize("action", ["discrete", "multi_discrete"])
def test_other_actions_than_a_box_are_refused(name, action):
    if name == "sac" and action != "discrete":
        return
    with pytest.raises(UserError, match="exploration is sde, but the action space is"):
        make(name, ACTIONS[action], exploration="sde")


@pytest.mark.parametrize("name", ["cql", "td3", "ddpg", "td3_bc"])
def test_algorithms_without_such_a_policy_refuse_it(name):
    with pytest.raises(
        UserError, match="exploration is 'sde'; expected none or gaussian or ou"
    ):
        config.replace(REGISTRY[name][1](), {"exploration": "sde"}).check()


def test_a_model_that_returns_the_policy_is_refused():
    inputs = keras.Input([3])
    outputs = {
        "policy": keras.layers.Dense(BOX.shape[0])(inputs),
        "value": keras.layers.Dense(1)(inputs),
    }
    with pytest.raises(UserError, match=r"returns the policy itself.*return features"):
        make("ppo", BOX, keras.Model(inputs, outputs), exploration="sde")
