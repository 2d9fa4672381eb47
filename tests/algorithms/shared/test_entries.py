"""Actors that see less than their critics: networks, statistics and updates."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces as gs

from tests.algorithms.cases import (
    B,
    assert_equal,
    collect,
    experience,
    make,
    named,
    update,
)
from tests.nn.cases import ACTIONS, make_spec, make_steps
from tfagents_batch import nest
from tfagents_batch.algorithms import ppo
from tfagents_batch.errors import UserError
from tfagents_batch.nn.policies.actor_critic import ActorCriticPolicy

SPACE = gs.Dict(position=gs.Box(-1, 1, (2,)), velocity=gs.Box(-1, 1, (3,)))
KEYS = {"actor_keys": ("position",)}
GRU = {"network.core": "gru"}
CASES = {
    "ppo": {},
    "ppo gru": GRU,
    "ppo memory of the policy": GRU | {"network.value_core": "none"},
    "a2c": {},
    "ga3c": {},
    "reinforce": {},
    "distill": {},
    "sac": {},
    "sac discrete": {},
    "td3": {},
    "ddpg": {},
}
NORMALIZED = {"normalize_observation": True}


def make_case(case, observation=SPACE, **settings):
    name, _, kind = case.partition(" ")
    action = ACTIONS["discrete"] if kind == "discrete" else None
    options = KEYS | NORMALIZED | CASES[case] | settings
    return make(name, action, observation=observation, **options)


def steps_of(space=SPACE, seed=0):
    return nest.map(lambda x: x[0], make_steps(space, 1, B, seed))


def outputs(agent, step):
    """Return the outputs of an actor and of its critics."""
    policy, seen = agent.policy, agent.policy.seen(step)
    if isinstance(policy, ActorCriticPolicy):
        heads = policy.network(seen, policy.network.initial_state(B))[0]
        return tf.concat(nest.flatten(heads.policy.params), -1), heads.value
    actor = tf.concat(nest.flatten(policy.network(seen)[0]), -1)
    size = policy.bounds.size if policy.bounds is not None else 0
    return actor, agent.critics(seen, tf.zeros([B, size]) if size else None)


@pytest.mark.parametrize("case", CASES)
def test_only_critics_have_gradients_by_their_own_entries(case):
    agent, step = make_case(case), steps_of()
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(step.observation)
        actor, value = outputs(agent, step)
    position, velocity = (step.observation[key] for key in ("position", "velocity"))
    assert tape.gradient(actor, velocity) is None
    for x, key in ((actor, position), (value, position), (value, velocity)):
        assert np.any(tape.gradient(x, key) != 0)


def test_an_update_of_actor_and_critics_equals_one_in_a_program():
    for case, critics, settings in (
        ("ppo gru", "learner/value/", {"epochs": 2}),
        ("td3", "learner/critics/", {}),
    ):
        agent, other = (make_case(case, **settings) for _ in range(2))
        trajectory, before = experience(agent, observation=SPACE), named(agent)
        for name, x in other.learner.named_variables().items():
            x.assign(before[name])
        program = functools.partial(update, other, trajectory)
        program = tf.function(program, jit_compile=True, autograph=False)
        for seed in range(1, 3):  # the actor of TD3 moves in every second update
            update(agent, trajectory, seed)
            program(tf.constant(seed))
        after = named(agent)
        assert_equal(named(other), after, rtol=2e-4, atol=2e-5)
        for part in ("policy/network/", critics):
            moved = [k for k in after if k.startswith(part)]
            assert moved and all(np.any(after[k] != before[k]) for k in moved)


@pytest.mark.parametrize("case", CASES)
def test_the_agent_acts_alike_without_what_only_critics_see(case):
    agent = make_case(case)
    earlier = make_steps(SPACE, 3, B).observation
    agent.policy.observations.update(earlier, tf.ones([3, B], tf.bool))
    whole = steps_of(seed=5)
    part = whole._replace(observation={"position": whole.observation["position"]})
    policy, alone = agent.policy, agent.policy
    if policy.of_value:
        alone = policy.alone()
        assert alone.version is policy.version
    now = tf.constant(10**6, tf.int64)

    def act(policy, step):
        state = policy.initial_state(B)
        for _ in range(2):
            action, _, state = policy.act(step, state, (), now, False)
        return action

    for step in (whole, part):
        np.testing.assert_array_equal(act(alone, step), act(policy, whole))
        decision = alone.decide(step, alone.memory(B, False), now)
        assert "value" not in decision.values
    memory = nest.flatten(alone.memory(B, False))
    assert len(memory) == ("core" in str(CASES[case]))


def test_statistics_and_weights_of_critics_are_for_training_only():
    for name in ("ppo", "td3"):
        variables = make_case(name).learner.named_variables()
        shapes = {k: x.shape for k, x in variables.items() if k.endswith("/mean")}
        assert shapes["statistics/observations/0/mean"] == (2,)
        assert shapes["learner/observations/velocity/0/mean"] == (3,)
        assert "statistics/observations/1/mean" not in shapes
        first = next(x for k, x in variables.items() if k.startswith("policy/network"))
        assert first.shape[0] == 2


def test_critics_can_see_less_than_the_actor():
    keys = {"actor_keys": (), "critic_keys": ("velocity",)}
    agent, step = make_case("ppo", **keys), steps_of()
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(step.observation)
        actor, value = outputs(agent, step)
    assert tape.gradient(value, step.observation["position"]) is None
    assert np.any(tape.gradient(actor, step.observation["velocity"]) != 0)


def test_an_actor_with_an_image_learns_beside_a_value_of_the_state():
    image = gs.Box(0, 255, (10, 10, 1), np.uint8)
    space = gs.Dict(image=image, state=gs.Box(-1, 1, (3,)))
    keys = {"actor_keys": ("image",), "critic_keys": ("state",)}
    agent = ppo.PPO(ppo.PPOConfig(**keys, epochs=1), make_spec(space, num_envs=B))
    body = agent.network.body
    assert body.encoder.is_single_image and not body.value_encoder.weights
    assert len(body.value_tower.stack) == 2  # a linear value would not do
    update(agent, collect(agent, space), 1)


def test_the_action_mask_is_for_the_actor_whatever_its_keys_are():
    space = gs.Dict(SPACE.spaces | {"action_mask": gs.MultiBinary(3)})
    agent, step = make_case("ppo", space), steps_of(space)
    mask = tf.constant([[0, 1, 0]] * B, tf.int8)
    kept = {"position": step.observation["position"], "action_mask": mask}
    policy = agent.policy.alone()
    step = step._replace(observation=kept)
    now, state = tf.constant(0, tf.int64), policy.initial_state(B)
    np.testing.assert_array_equal(policy.act(step, state, (), now, False)[0], [1] * B)
    update(agent, collect(agent, space), 1)


def own_network(observation_space, action_space):
    return keras.Sequential([keras.layers.Dense(8)])


@pytest.mark.parametrize("name", ["ppo", "sac"])
@pytest.mark.parametrize(
    ("space", "options", "text"),
    [
        (
            *(SPACE, {"actor_keys": ("speed",)}),
            r"actor_keys names the entry 'speed', but .* entries position, velocity",
        ),
        (
            *(SPACE["position"], {"critic_keys": ("position",)}),
            r"critic_keys names .* space Box.*expected entries of a Dict.*SelectEnt",
        ),
        (
            *(gs.Dict(SPACE.spaces | {"wind": gs.Discrete(3)}),),
            {"actor_keys": ("position",), "critic_keys": ("velocity",)},
            r"neither actor_keys nor critic_keys has the entry 'wind'",
        ),
        (*(SPACE, KEYS | {"network": own_network}), "need the built-in network"),
    ],
)
def test_keys_that_mean_nothing_are_refused(name, space, options, text):
    with pytest.raises(UserError, match=text) as e:
        make(name, observation=space, **options)
    assert "\n" not in str(e.value)


def test_a_value_cannot_share_the_memory_of_an_actor_that_sees_less():
    with pytest.raises(UserError, match="value_core is shared"):
        make_case("ppo gru", **{"network.value_core": "shared"})
