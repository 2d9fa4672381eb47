"""Environments stepped in groups: send and receive, on the native backend."""

import functools
import time

import gymnasium
import gymnasium.spaces as gs
import numpy as np
import pytest
import tensorflow as tf

import tfagents_batch as tfb
from tests.support.fault_env import fault_envs
from tests.support.space_env import SpaceEnv
from tfagents_batch.envs.contract import rollout
from tfagents_batch.envs.testing import CountingEnv
from tfagents_batch.errors import EnvError, UserError

pytestmark = pytest.mark.parametrize("backend", ["native"], indirect=True)


@pytest.fixture
def env(make_process_env):
    """Create two groups of two environments."""
    envs = [functools.partial(CountingEnv, offset=10 * i) for i in range(4)]
    return make_process_env(envs, 2, groups=2)


cartpole = functools.partial(gymnasium.make, "CartPole-v1")


def columns(step):
    return np.concatenate([step.observation, step.reward[..., None]], -1)


def test_groups_give_the_same_transitions_as_whole_steps(make_process_env):
    actions = np.random.default_rng(0).integers(0, 2, [60, 4], np.int32)
    with tfb.make_env([cartpole] * 4, num_workers=0) as whole:
        steps = rollout(whole, 60, 3, list(actions)).steps
    expected = columns(steps)[1:]
    parts = make_process_env([cartpole] * 4, 2, groups=2)
    state, _ = parts.init(3)
    found = np.zeros_like(expected)
    for t, action in enumerate(actions):
        state = parts.send(state, action[:2], 0)
        state = parts.send(state, action[2:], 1)
        for group in (1, 0):
            state, groups, step = parts.receive(state, group)
            assert groups.numpy().tolist() == [group]
            found[t, 2 * group : 2 * group + 2] = columns(step)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("jit", [False, True])
def test_a_program_can_alternate_between_two_groups(env, jit):
    @tfb.function(jit_compile=jit)
    def run(steps):
        state, _ = env.init(1)
        for group in range(2):
            state = env.send(state, tf.zeros([2], tf.int32), group)
        seen = tf.TensorArray(tf.float32, steps, element_shape=[2, 2])
        for t in tf.range(steps):
            group = t % 2
            state, _, step = env.receive(state, group)
            seen = seen.write(t, step.observation)
            state = env.send(state, tf.zeros([2], tf.int32), group)
        state, groups, _ = env.receive(state, count=2)
        return seen.stack(), tf.sort(groups), env.ok(state)

    seen, groups, ok = run(6)
    assert bool(ok)
    assert groups.numpy().tolist() == [0, 1]
    expected = [
        [[20 * (t % 2) + 10 * i, t // 2 + 1] for i in range(2)] for t in range(6)
    ]
    assert seen.numpy().tolist() == expected


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_the_first_group_ready_is_received_first(make_process_env, tmp_path, order):
    class Waits(CountingEnv):
        """Environment that steps when a file exists."""

        def __init__(self, path, offset):
            super().__init__(offset=offset)
            self._path = path

        def step(self, action):
            while not self._path.exists():
                time.sleep(0.001)
            return super().step(action)

    paths = [tmp_path / str(i) for i in range(2)]
    envs = [functools.partial(Waits, path, 10 * i) for i, path in enumerate(paths)]
    env = make_process_env(envs, 2, groups=2)
    state, _ = env.init(1)
    state = env.send(state, [0, 0], [0, 1])
    for group in order:
        paths[group].touch()
        state, groups, step = env.receive(state, count=1)
        assert groups.numpy().tolist() == [group]
        assert step.observation.numpy().tolist() == [[10 * group, 1]]


def test_init_discards_running_steps_and_rows_follow_the_requested_order(env):
    state, _ = env.init(1)
    state = env.send(state, [0, 0], 1)
    state, step = env.init(1)
    assert step.observation[:, 1].numpy().tolist() == [0, 0, 0, 0]
    state = env.send(state, [0, 0, 1, 1], [1, 0])
    state, groups, step = env.receive(state, [1, 0])  # rows in this order
    assert groups.numpy().tolist() == [1, 0]
    assert step.observation.numpy().tolist() == [[20, 1], [30, 1], [0, 1], [10, 1]]


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda env, s: env.send(env.send(s, [0, 0], 1), [0, 0], 1), "still stepping"),
        (lambda env, s: env.step(env.send(s, [0, 0], 1), [0] * 4), "still stepping"),
        (lambda env, s: env.receive(s, 0), "group 0 has nothing to receive"),
        (lambda env, s: env.receive(s), "more groups than send has started"),
        (lambda env, s: env.send(s, [0, 0], 2), "group 2 does not exist"),
        (lambda env, s: env.send(s, [0] * 4, [1, 1]), "group 1 .* twice"),
        (lambda env, s: env.receive(s, count=3), "3 groups; expected 1 to 2"),
        (lambda env, s: env.send(s, [0] * 4, 1), r"shape \[4\]; expected \[2\]"),
    ],
)
def test_invalid_uses_of_send_and_receive_are_refused(env, use, message):
    state, _ = env.init(1)
    with pytest.raises(UserError, match=message):
        use(env, state)


def test_an_invalid_action_names_its_environment(env):
    with pytest.raises(EnvError, match="env 3") as caught:
        env.send(env.init(1)[0], [0, 7], 1)
    assert caught.value.env == 3


def test_a_failure_in_one_group_does_not_affect_the_other(make_process_env):
    envs = fault_envs("exc", 4, step=0, length=100)
    env = make_process_env(envs, 2, groups=2, on_fault="restart")
    state, _ = env.init(1)
    state = env.send(state, [0, 0, 0, 0], [0, 1])
    state, _, broken = env.receive(state, 1)
    state, _, whole = env.receive(state, 0)
    assert not broken.valid.numpy()[1]
    assert whole.valid.numpy().all()
    assert whole.observation[:, 2].numpy().tolist() == [1, 1]


def test_a_lost_worker_is_replaced_while_the_other_group_steps(
    make_process_env, tmp_path
):
    options = {"step": 2, "length": 10**6, "mark": str(tmp_path / "mark")}
    envs = fault_envs("kill", 4, **options)
    env = make_process_env(envs, 2, groups=2, on_fault="restart")
    state, _ = env.init(1)
    events, lost, back = [], False, None
    deadline = time.monotonic() + 30
    state = env.send(state, [0, 0], 0)
    while back is None and time.monotonic() < deadline:
        state = env.send(state, [0, 0], 1)  # the third one kills the worker
        for _ in range(3):  # it is replaced during these steps
            began = time.monotonic()
            state, _, other = env.receive(state, 0)
            assert other.valid.numpy().all()
            state = env.send(state, [0, 0], 0)
        state, _, step = env.receive(state, 1)
        assert time.monotonic() - began < 10  # the deadline is a minute
        valid = step.valid.numpy().tolist()
        events += env.events()
        if not all(valid):
            assert valid == [False, False]
            lost = True
        elif lost:
            back = step
    assert back.first.numpy().all()  # not a row of the killed worker
    assert back.observation[:, 2].numpy().tolist() == [0, 0]
    assert [event["event"] for event in events] == ["env_failed", "env_restarted"]


@pytest.mark.parametrize(
    ("groups", "num_workers", "message"),
    [
        (3, 2, r"groups is 3; .* environments \(4\)"),
        (2, 3, r"of workers \(3\)"),
        (0, 0, "groups is 0"),
        ("two", 0, "groups is 'two'"),
    ],
)
def test_groups_that_do_not_divide_are_refused(backend, groups, num_workers, message):
    with pytest.raises(UserError, match=message):
        tfb.make_env("CartPole-v1", 4, num_workers, groups=groups)


@pytest.mark.parametrize(
    ("num_workers", "reason"),
    [(0, "they are stepped in this process"), (2, "backend='portable' was requested")],
)
def test_groups_need_the_native_backend(backend, num_workers, reason):
    options = {"num_workers": num_workers, "backend": "portable"}
    with pytest.raises(UserError, match=f"groups is 2, but send and .*: {reason}"):
        tfb.make_env("CartPole-v1", 4, **options, groups=2)
    with tfb.make_env("CartPole-v1", 4, **options) as env:
        state, _ = env.init(1)
        for use in (lambda: env.send(state, [0] * 4, 0), lambda: env.receive(state)):
            with pytest.raises(UserError, match=f"send and receive need .*: {reason}"):
                use()


def test_groups_are_refused_if_the_spaces_need_the_portable_backend(backend):
    space = gs.Dict({f"{i}": gs.Discrete(2) for i in range(130)})
    envs = [functools.partial(SpaceEnv, space)] * 2
    with pytest.raises(UserError, match=r"groups is 2, but .* has 130 leaves"):
        tfb.make_env(envs, num_workers=2, groups=2)
