import itertools
import os

import gymnasium.spaces as gs
import numpy as np
import pytest

from tfagents_batch import spaces
from tfagents_batch.envs.shared import layout
from tfagents_batch.errors import UserError

OBSERVATION = gs.Dict(
    {"image": gs.Box(0, 255, (5, 3), np.uint8), "speed": gs.Box(-1, 1, (), np.float64)}
)
ACTION = gs.Tuple([gs.Discrete(3), gs.MultiBinary(7)])


@pytest.fixture
def descriptor():
    """Return the descriptor of an empty file of memory."""
    descriptor = os.memfd_create("test")
    yield descriptor
    os.close(descriptor)


def plan(num_envs=3, num_workers=2):
    return layout.make_layout(
        spaces.leaves(OBSERVATION),
        spaces.leaves(ACTION),
        {**layout.STATISTICS, "x": "float32"},
        num_envs,
        num_workers,
    )


def spans(found):
    for field in found.fields:
        size = int(np.prod(field.shape)) * np.dtype(field.dtype).itemsize
        yield field.offset, field.offset + size


def test_arrays_start_at_cache_lines_after_the_control_words():
    found = plan(num_workers=4)
    assert all(field.offset % 64 == 0 for field in found.fields)
    first = min(field.offset for field in found.fields)
    assert first == (4 + 1) * 64  # four workers and the learner


def test_arrays_do_not_overlap_and_fit():
    ordered = sorted(spans(plan()))
    for (_, end), (start, _) in itertools.pairwise(ordered):
        assert end <= start
    assert ordered[-1][1] <= plan().size


def test_wide_leaves_are_narrowed_and_rows_come_first():
    views = layout.views(plan(), bytearray(plan().size))
    image, speed = views.observation
    assert (image.shape, image.dtype) == ((3, 5, 3), np.uint8)
    assert (speed.shape, speed.dtype) == ((3,), np.float32)
    assert [array.dtype for array in views.action] == [np.int32, np.int8]


def test_allocation_reserves_all_pages(descriptor):
    leaf = spaces.leaves(gs.Box(0, 1, (1 << 20,), np.float32))
    found = layout.make_layout(leaf, [], {}, 2, 1)
    memory = layout.allocate(found, descriptor)
    assert os.fstat(descriptor).st_blocks * 512 >= found.size
    memory.close()


def test_memory_that_does_not_fit_is_refused_with_its_size(descriptor):
    leaf = [spaces.Leaf((), (1 << 30, 1 << 10), "float32", gs.Discrete(2))]
    found = layout.make_layout(leaf, [], {}, 4, 1)
    with pytest.raises(UserError, match=r"4 environments needs 16,384\.00 GiB"):
        layout.allocate(found, descriptor)
