"""Each rule of the contract accepts a valid environment and finds its defect."""

import pytest
import tensorflow as tf
from gymnasium import spaces as gs

from tfagents_batch import seeds
from tfagents_batch.envs.contract import EnvContract
from tfagents_batch.types import EnvSpec, TimeStep

LENGTH = 4


class GraphEnv:
    """A random walk written in TensorFlow, with at most one defect."""

    instances = 0

    def __init__(self, defect=None):
        self.defect = defect
        info = {"episode_return": "float32", "episode_length": "int32"}
        box = gs.Box(-100, 100, (1,))
        self.spec = EnvSpec(2, box, gs.Discrete(3), info, LENGTH)
        GraphEnv.instances += 1
        self.offset = GraphEnv.instances if defect == "drift" else 0.0

    def init(self, seed):
        seed = 0 if self.defect == "seed" else seed
        if self.defect == "memory":
            self.offset += 1.0
        start = seeds.uniform([2, 1], seeds.key(seed, "walk")) + self.offset
        zeros = tf.zeros([2], tf.int32)
        if self.defect == "open":
            zeros += 1
        return self._results(start, zeros, tf.zeros([2]), tf.zeros([2]))

    def step(self, state, action):
        place, length, total = state
        if self.defect == "eager" and tf.executing_eagerly():
            action = action * 0
        if self.defect == "compiled" and not tf.executing_eagerly():
            action = action * 0
        restart = length >= LENGTH
        move = tf.cast(action, tf.float32)
        used = move if self.defect == "ignored" else tf.where(restart, 0.0, move)
        reward = tf.where(restart, 1.0 if self.defect == "reward" else 0.0, move)
        if self.defect == "restart":
            restart = tf.zeros_like(restart)
        total = tf.where(restart, 0.0, total + reward)
        length = tf.where(restart, 0, length + 1)
        return self._results(place + used[:, None], length, total, reward)

    def ok(self, state):
        return (
            tf.reduce_all(state[1] < LENGTH)
            if self.defect == "ok"
            else tf.ones([], tf.bool)
        )

    def _results(self, place, length, total, reward):
        if self.defect == "dtype":
            reward = tf.cast(reward, tf.float64)
        last = length >= LENGTH
        counted = total * 2 if self.defect == "statistics" else total
        info = {"episode_return": counted, "episode_length": length}
        step = TimeStep(place, reward, length == 0, last, tf.zeros_like(last), info)
        return (place, length, total), step


class TestHealthy(EnvContract):
    compilable = True
    steps = 20

    def make_env(self):
        return GraphEnv()


class Broken(EnvContract):
    compilable = True
    __test__ = False

    def __init__(self, defect, steps=20):
        self.defect, self.steps = defect, steps

    def make_env(self):
        return GraphEnv(self.defect)


@pytest.mark.parametrize(
    "rule, defect",
    [
        ("tensors_match_the_spec", "dtype"),
        ("init_starts_an_episode_in_every_row", "open"),
        ("rows_restart_after_their_last_step_and_only_then", "restart"),
        ("rewards_of_first_steps_are_zero", "reward"),
        ("actions_of_last_steps_are_ignored", "ignored"),
        ("episode_statistics_add_up", "statistics"),
        ("init_again_repeats_the_transitions", "memory"),
        ("the_same_seed_gives_the_same_transitions", "drift"),
        ("another_seed_gives_other_transitions", "seed"),
        ("graphs_and_eager_code_agree", "eager"),
        ("compiled_and_eager_code_agree", "compiled"),
        ("a_healthy_environment_stays_ok", "ok"),
    ],
)
def test_a_rule_finds_its_defect(rule, defect):
    with pytest.raises(AssertionError):
        getattr(Broken(defect), f"test_{rule}")()


def test_a_rollout_without_an_end_is_refused():
    with pytest.raises(AssertionError, match="raise `steps`"):
        Broken(None, steps=2).test_rows_restart_after_their_last_step_and_only_then()
