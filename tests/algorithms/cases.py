"""Agents, trajectories and short runs for the tests of algorithms."""

import collections

import keras
import numpy as np
import tensorflow as tf

import tfagents_batch as tfb
from tests.nn.cases import ACTIONS, VECTOR, make_spec, make_steps
from tfagents_batch import config, interfaces, nest
from tfagents_batch.algorithms import REGISTRY, ppo
from tfagents_batch.metrics import Metrics
from tfagents_batch.types import TimeStep, Trajectory

T, B = 12, 4

BRIEF = {"network": {"hidden": [8]}, "histograms": False}  # short to compile
# Algorithms that learn from logged rows only, see tests/logged/test_table.py.
OF_ROWS = {k for k, (_, kind) in REGISTRY.items() if {*kind().accepts()} == {"rows"}}
# Algorithms that need the run of a teacher, see shared/test_entries_of_runs.py.
STUDENTS = {"distill"}
KINDS = {  # of actions, by algorithm, if it does not take all
    "bc": ("discrete", "box"),
    "bcq": ("discrete",),
    "cql": ("box",),
    "crr": ("box",),
    "crr_discrete": ("discrete",),
    "dqn": ("discrete",),
    "iql": ("box",),
    "pqn": ("discrete",),
    "ddpg": ("box",),
    "sac": ("box", "discrete"),
    "td3": ("box",),
    "td3_bc": ("box",),
}
# Options of short runs of 4 environments, if an algorithm needs others.
RUNS = collections.defaultdict(lambda: {"settings": BRIEF})
RUNS |= {
    "dqn": {
        "replay": {"capacity": 400},
        "settings": BRIEF
        | {
            "warmup_steps": 100,
            "batch_size": 16,
            "target_every": 20,
            "learning_rate": 1e-3,
            "epsilon": "linear(1, 0.1, 300)",
        },
    },
    **{
        name: {
            "env": "tf/Pendulum-v1",
            "replay": {"capacity": 400},
            "settings": BRIEF
            | {"warmup_steps": 100, "train_every": 4, "batch_size": 16},
        }
        for name in ("ddpg", "sac", "td3")
    },
    "ga3c": {"env": "CartPole-v1", "settings": BRIEF},
    "reinforce": {"rollout": {"episodes": 8}, "settings": BRIEF},
    "ppo": {
        "rollout.length": 16,
        "settings": BRIEF | {"minibatch_size": 32, "epochs": 2},
    },
}


def make_ppo(observation=VECTOR, action=ACTIONS["discrete"], seed=0, **settings):
    """Return PPO with two minibatches and one epoch, unless the settings differ."""
    keras.utils.set_random_seed(seed)
    chosen = ppo.PPOConfig(**{"minibatch_size": 24, "epochs": 1, **settings})
    chosen = chosen if "network" in settings else small(chosen)
    return ppo.PPO(chosen, make_spec(observation, action, B))


def make(
    name, action=None, network=None, observation=VECTOR, seed=0, **settings
) -> interfaces.Algorithm:
    """Return an algorithm with a small network; its settings differ in ``settings``."""
    kind, defaults = REGISTRY[name]
    usual = KINDS.get(name, ("discrete",))[0]
    spec = make_spec(observation, ACTIONS[usual] if action is None else action, B)
    keras.utils.set_random_seed(seed)
    return taught(
        kind(small(config.replace(defaults(), settings)), spec, network), spec
    )


def taught(agent, spec):
    """Return an agent; a student gets a teacher with initial weights."""
    if getattr(agent, "imitation", None) is not None:
        teacher = ppo.PPO(small(ppo.PPOConfig()), spec)
        agent.imitation.teach(teacher.policy, (), 0)
    return agent


def at(batch, row):
    """Return one row of the steps of windows or of logged rows."""
    return nest.map(lambda x: x[row], batch.steps)


def small(settings):
    """Return an algorithm's settings with a network that is fast in eager code."""
    return config.replace(settings, {"network": {"hidden": (8,)}})


def update(agent, trajectory, seed, step=0) -> Metrics:
    """Update an agent when the run is at ``step``; return the metrics."""
    return agent.update(trajectory, seed, tf.cast(step, tf.int64)).metrics


def assert_gradients(loss, optimizer) -> None:
    """Check that an optimizer's only step was along the gradient of a loss.

    Args:
      loss: returns f32 ``[]``.
      optimizer: ``nn.optimizer.Optimizer``, which did not clip.
    """
    weights = [variable.value for variable in optimizer.trained]
    with tf.GradientTape() as tape:
        tape.watch(weights)
        value = loss()
    found = optimizer.rule.mean_gradients()
    for expected, x in zip(tape.gradient(value, weights), found, strict=True):
        assert np.any(expected != 0)
        np.testing.assert_allclose(x, expected, rtol=1e-3, atol=1e-6)


def named(agent) -> dict[str, np.ndarray]:
    """Return a copy of all saved variables of an agent or a policy, by name."""
    variables = getattr(agent, "learner", agent).named_variables()
    return {k: np.array(v.numpy()) for k, v in variables.items()}


def assert_same(agents, **tolerance) -> None:
    """Check that two agents save equal variables, exactly if there is no tolerance."""
    expected, found = map(named, agents)
    assert_equal(found, expected, **tolerance)


def collect(
    agent, observation=VECTOR, seed=0, length=5, terminate=False, state=None
) -> Trajectory:
    """Return a trajectory of the agent with random observations and rewards.

    Args:
      length: steps of every episode; streams are at different steps.
      terminate: True ends episodes in terminal states, False by truncation.
      state: acting state of the agent at the start.
    """
    random = np.random.default_rng(seed)
    drawn = make_steps(observation, T + 1, B, seed).observation
    rows, actions, behaviors = [], [], []
    state = start = agent.policy.initial_state(B) if state is None else state
    noise = agent.policy.noise((T, B), seed)
    now = tf.constant(0, tf.int64)
    clock = np.arange(B) % length
    for t in range(T + 1):
        first, last = clock == 0, clock == length
        step = TimeStep(
            nest.map(lambda x, t=t: x[t], drawn),
            tf.constant(np.where(first, 0, random.normal(size=B)), tf.float32),
            tf.constant(first),
            tf.constant(last & terminate),
            tf.constant(last & (not terminate)),
            {},
        )
        rows.append(step)
        clock = np.where(last, 0, clock + 1)
        if t < T:
            row_noise = nest.map(lambda x, t=t: x[t], noise)
            action, behavior, state = agent.policy.act(
                step, state, row_noise, now, True
            )
            actions.append(action)
            behaviors.append(behavior)

    def stack(parts):
        return nest.map(lambda *xs: tf.stack(xs), *parts)

    return Trajectory(stack(rows), stack(actions), stack(behaviors), start)


def experience(agent, **options) -> Trajectory:
    """Return what the agent's source samples: a trajectory, or windows of one.

    Windows begin at every step, so some begin with a restart row.

    Args:
      **options: arguments of ``collect``.
    """
    trajectory = collect(agent, **options)
    accepted = agent.config.accepts()
    if "windows" not in accepted:
        return trajectory
    size = accepted["windows"].length
    starts = range(T + 2 - size)

    def cut(nested, rows):
        return nest.map(
            lambda x: tf.concat([x[t : t + rows] for t in starts], 1), nested
        )

    behavior = cut(trajectory.behavior, size - 1)
    return Trajectory(
        cut(trajectory.steps, size),
        cut(trajectory.action, size - 1),
        behavior,
        nest.map(lambda x: x[0], behavior.pop("state", ())),
        tf.ones([len(starts) * B]),
    )


def rows(agent, seed=0) -> Trajectory:
    """Return a batch of rows: steps of the agent, each with the next one."""
    made = collect(agent, seed=seed, terminate=True)
    pairs = nest.map(
        lambda x: tf.stack([nest.fold(x[:-1]), nest.fold(x[1:])]), made.steps
    )
    return Trajectory(pairs, nest.fold(made.action)[tf.newaxis], {})


def train(name, folder, **options):
    """Train a short run; the options replace those of ``RUNS``."""
    common = {"env": "tf/CartPole-v1", "num_envs": 4, "eval_every": 0}
    return tfb.train(name, logdir=folder, **common | RUNS[name] | options)


def variables(run):
    """Return what the run has learned, and its statistics."""
    policy = tfb.load(run.logdir)._policy
    return {key: x.numpy() for key, x in policy.named_variables().items()}


def assert_equal(found, expected, **tolerance):
    """Check that two results of ``variables`` or ``named`` are equal.

    Args:
      **tolerance: arguments of ``assert_allclose``; none: they are exactly equal.
    """
    check = np.testing.assert_allclose if tolerance else np.testing.assert_array_equal
    assert list(found) == list(expected)
    for key, value in expected.items():
        check(found[key], value, err_msg=key, **tolerance)
