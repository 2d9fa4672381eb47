"""Experience of the user's own: each kind is a module, and training knows none."""

import dataclasses
import pickle
import queue
import subprocess
import sys
import threading

import gymnasium
import numpy as np
import pytest
import tensorflow as tf

import tfagents_batch as tfb
from tests.support.counting import Counting
from tfagents_batch import nest, seeds
from tfagents_batch.envs.recipe import EnvRecipe
from tfagents_batch.errors import UserError
from tfagents_batch.sources.rollout import Rollout
from tfagents_batch.types import Collected, EnvSpec, TimeStep, Trajectory

SPACES = gymnasium.spaces.Box(-1.0, 1.0, (3,)), gymnasium.spaces.Discrete(3)


# ---- a table of logged rows: 25 lines


@dataclasses.dataclass(frozen=True)
class Table:
    columns: Trajectory  # steps [2, N, ...], actions [1, N]
    name, kind, unit, program = "table", "rows", "gradient steps", "synchronous"
    beside, takes_turns = 0, False

    check = lambda self, run: self  # noqa: E731
    transitions = lambda self, *_: 1  # noqa: E731
    environments = lambda self, recipe, run: ((), EnvSpec(1, *SPACES, {}))  # noqa: E731
    open = lambda self, envs, agent, seed, run, _: Rows(self.columns, run)  # noqa: E731


class Rows(tf.Module):
    envs, compilable = (), True

    def __init__(self, columns, run):
        super().__init__()
        self._columns = nest.map(lambda x: tf.Variable(x, trainable=False), columns)
        self._size = columns.action.shape[1]
        self._batch = run.settings.accepts()["rows"].batch_size
        self.named_variables, self.feedback = lambda: {}, lambda priority: None

    def collect(self, seed, step):
        one = tf.constant(1)
        return Collected(tf.cast(one, tf.int64), tf.constant(True), one, {})

    def sample(self, collected, seed, step):
        drawn = seeds.uniform([self._batch], seeds.key(seed, "table"))
        index = tf.cast(drawn * self._size, tf.int32)
        return nest.map(lambda x: tf.gather(x, index, axis=1), self._columns)


def logged(size=512):
    """Return rows in which the action of the largest observation earns 1."""
    rng = np.random.default_rng(0)
    observation = rng.uniform(-1, 1, [2, size, 3]).astype(np.float32)
    action = rng.integers(0, 3, [1, size]).astype(np.int32)
    reward = (action == observation[:1].argmax(-1)).astype(np.float32)
    false = np.zeros([2, size], bool)
    last = np.concatenate([false[:1], ~false[:1]])
    reward = np.concatenate([0 * reward, reward])
    steps = TimeStep(observation, reward, false, last, false, {})
    return nest.map(tf.constant, Trajectory(steps, action, {}))


def test_a_table_trains_without_an_environment(tmp_path):
    options = {"source": Table(logged()), "steps": 400, "logdir": tmp_path}
    options["compile"] = "off"
    settings = {"n_step": 1, "target_tau": 0.1, "network": {"hidden": [32]}}
    run = tfb.train("dqn", settings=settings, log_every=100, **options)
    assert run.step == 400 and run.metrics["grad/updates"] == 1
    assert run.metrics["time/gradient_steps_per_second"] > 0
    agent = tfb.load(run.logdir)
    observation = logged(200).steps.observation[0].numpy()
    action, _ = agent.predict(observation)
    assert np.mean(action == observation.argmax(-1)) > 0.9
    with pytest.raises(UserError, match="pass it again as source="):
        tfb.train(resume=run.logdir, steps=500)
    source = options["source"]
    assert tfb.train(resume=run.logdir, steps=500, source=source).step == 500


def test_rows_are_refused_where_they_are_not_accepted(tmp_path):
    options = {"source": Table(logged()), "steps": 9, "logdir": tmp_path}
    for algorithm, settings in (("ppo", {}), ("dqn", {"n_step": 3})):
        with pytest.raises(UserError, match="table gives rows, but"):
            tfb.train(algorithm, settings=settings, **options)
    with pytest.raises(UserError, match="no environment is given"):
        tfb.train("dqn", steps=2000, logdir=tmp_path)
    assert not list(tmp_path.iterdir())


# ---- a thread that produces rollouts: 40 lines


@dataclasses.dataclass(frozen=True)
class Producer:
    length: int = 5
    name, kind, unit, program = "producer", "rollouts", "env steps", "host"
    beside, takes_turns = 1, False

    def check(self, run):
        return self

    def environments(self, recipe, run):
        env = recipe.make(run.num_envs, **run.make_options(run.num_envs))
        return (env,), env.spec

    def transitions(self, num_envs, limit):
        return num_envs * self.length

    def open(self, envs, algorithm, seed, run, placement):
        return Produced(envs, algorithm.make_policy(), self.length, seed)


class Produced:
    compilable = False
    named_variables = report = staticmethod(lambda *_: {})
    check = start = staticmethod(lambda *_: None)

    def __init__(self, envs, policy, length, seed):
        self.envs, self._policy, self._seed = envs, policy, seed
        rollout = Rollout(envs[0], policy, length, seed)
        self._collect = tf.function(rollout.collect, autograph=False)
        self._ready, self._asked = queue.Queue(1), queue.Queue(1)
        self._thread = threading.Thread(target=self._produce, name="producer")

    def _produce(self):
        while (step := self._asked.get()) is not None:
            made = self._collect(
                tf.constant(self._seed + step), tf.constant(step, tf.int64)
            )
            self._ready.put(made)

    def fetch(self, step):
        self._thread.is_alive() or self._thread.start()
        self._asked.put(step)
        made = self._ready.get()
        stacked = nest.map(lambda x: x[tf.newaxis], made.trajectory)
        return Collected(int(made.steps), True, 1, {}, stacked)

    def publish(self, policy):
        self._policy.assign_from(policy)

    def traces(self):
        return self._collect.experimental_get_tracing_count()

    def close(self):
        self._asked.put(None)
        self._thread.is_alive() and self._thread.join()


def test_a_thread_that_produces_rollouts_trains(tmp_path, linear):
    run = tfb.train(
        linear,
        "tf/CartPole-v1",
        source=Producer(),
        steps=400,
        eval_episodes=2,
        compile="off",
        logdir=tmp_path,
    )
    assert run.step >= 400 and run.metrics["eval/return_mean"] > 0
    assert (
        run.metrics["system/traces"] == 1 and 0 < run.metrics["async/update_wait"] < 1
    )
    assert not [x for x in threading.enumerate() if x.name == "producer"]


# ---- recipes


OTHER = """
import pickle, sys
for recipe in pickle.loads(sys.stdin.buffer.read()):
    env = recipe.constructor()()
    name = env.unwrapped.__class__.__name__
    print("recipe:", recipe.describe(), name, recipe.has_workers)
"""


def test_a_recipe_is_the_same_in_another_process():
    makes = "CartPole-v1", lambda: Counting(life=2), Counting
    sent = pickle.dumps([EnvRecipe(x) for x in makes])
    command = [sys.executable, "-c", OTHER]
    received = subprocess.run(command, input=sent, capture_output=True, timeout=120)
    lines = received.stdout.decode().splitlines()
    named, function, kind = [x for x in lines if x.startswith("recipe:")]
    assert named == "recipe: CartPole-v1 CartPoleEnv True", received.stderr.decode()
    assert function.endswith("Counting True") and kind.endswith("Counting True")


def test_an_instance_cannot_be_sent_to_another_process():
    with pytest.raises(UserError, match="cannot be sent to another process"):
        pickle.dumps(EnvRecipe(Counting()))
