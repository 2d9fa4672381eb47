import gymnasium.spaces as gs
import numpy as np
import pytest

from tests.support.masked_env import MaskedEnv
from tfagents_batch import spaces
from tfagents_batch.envs.shared import layout
from tfagents_batch.envs.testing import CountingEnv
from tfagents_batch.envs.worker import construction, stepper


def make(envs, info=None, first_row=0, **options):
    plan = layout.make_layout(
        spaces.leaves(envs[0].observation_space),
        spaces.leaves(envs[0].action_space),
        {**layout.STATISTICS, **(info or {})},
        len(envs),
        1,
    )
    memory = bytearray(plan.size)
    arrays, words = layout.views(plan, memory, worker=0), layout.control(memory, 0)
    return stepper.Stepper(envs, arrays, words, first_row, **options), arrays


def test_finished_rows_restart_and_ignore_their_action():
    batch, arrays = make([CountingEnv(length=2), CountingEnv(length=3, truncate=True)])
    batch.reset(seed=1)
    seen = []
    for _ in range(4):
        assert batch.step() == []
        flags = arrays.first, arrays.terminated, arrays.truncated
        columns = arrays.observation[0], arrays.reward, *flags
        seen.append([column.tolist() for column in columns])
    assert seen == [
        [[[0, 1], [0, 1]], [1, 1], [0, 0], [0, 0], [0, 0]],
        [[[0, 2], [0, 2]], [2, 2], [0, 0], [1, 0], [0, 0]],
        [[[1, 0], [0, 3]], [0, 3], [1, 0], [0, 0], [0, 1]],
        [[[1, 1], [1, 0]], [1, 0], [0, 1], [0, 0], [0, 0]],
    ]


def test_returns_are_summed_in_double_precision():
    class Tenth(CountingEnv):
        def step(self, action):
            observation, _, *rest = super().step(action)
            return (observation, 0.1, *rest)

    batch, arrays = make([Tenth(length=10**6)])
    batch.reset(seed=1)
    for _ in range(20_000):
        batch.step()
    assert arrays.info["episode_return"][0] == np.float32(2000.0)


def test_seeds_depend_only_on_the_index_in_the_batch():
    class Seeded(CountingEnv):
        def reset(self, *, seed=None, options=None):
            self.seeds = [*getattr(self, "seeds", []), seed]
            return super().reset(seed=seed)

    envs = [Seeded(length=1) for _ in range(4)]
    for part in (envs[:1], envs[1:]):
        batch, _ = make(part, first_row=envs.index(part[0]))
        batch.reset(seed=7)
        batch.step()
        batch.step()
    first = [env.seeds[0] for env in envs]
    assert first == [construction.env_seed(7, index) for index in range(4)]
    assert len(set(first)) == 4
    assert all(env.seeds[1:] == [None] for env in envs)


def test_action_space_is_seeded_too():
    samples = []
    for _ in range(2):
        env = CountingEnv()
        env.action_space = gs.Box(0, 1, (3,), np.float32)
        batch, _ = make([env])
        batch.reset(seed=5)
        samples.append(env.action_space.sample().tolist())
    assert samples[0] == samples[1]


def test_the_stop_word_skips_the_remaining_rows():
    calls = []

    class Stopping(CountingEnv):
        def step(self, action):
            calls.append(self)
            words[layout.STOP] = 1
            return super().step(action)

    batch, _arrays = make([Stopping(), Stopping()])
    words = batch._words
    batch.reset(seed=1)
    batch.step()
    assert len(calls) == 1


class Informed(CountingEnv):
    def __init__(self, value):
        super().__init__()
        self._value = value

    def step(self, action):
        *rest, _ = super().step(action)
        return (*rest, {"x": self._value})


def test_declared_info_is_copied_and_missing_info_is_nan():
    batch, arrays = make([Informed(np.float64(2.5))], {"x": "float32", "n": "int32"})
    batch.reset(seed=1)
    assert np.isnan(arrays.info["x"][0])
    batch.step()
    assert arrays.info["x"][0] == 2.5
    assert arrays.info["n"][0] == 0


def test_a_state_that_allows_no_action_is_a_failure_unless_it_is_terminal():
    batch, arrays = make([MaskedEnv(2), MaskedEnv(3)])
    assert batch.reset(seed=1) == batch.step() == []
    (failure,) = batch.step()
    assert (failure.env, failure.step, failure.phase) == (1, 1, "step")
    assert "observation['action_mask'] allows no action" in failure.text
    assert arrays.terminated.tolist() == [True, False]
    assert arrays.truncated.tolist() == [False, True]


@pytest.mark.parametrize("value", [np.zeros(2), "text", 2.5, [1]])
def test_info_that_the_column_cannot_hold_is_a_failure(value):
    batch, _ = make([Informed(value)], {"x": "int32"})
    batch.reset(seed=1)
    (failure,) = batch.step()
    assert "info['x']" in failure.text


def test_close_closes_every_environment():
    closed = []

    class Closing(CountingEnv):
        def close(self):
            closed.append(self)
            raise ValueError("cannot close")

    batch, _ = make([Closing(), Closing()])
    found = batch.close()
    assert len(closed) == len(found) == 2
