"""Fixtures of the fault tests, which fail after one minute."""

import pathlib

import pytest


def pytest_collection_modifyitems(items):
    for item in items:
        if pathlib.Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.timeout(60))


@pytest.fixture
def drive(make_pool):
    """Return a function that resets and steps a new pool and returns its exception."""

    def run(constructors, num_workers=1, steps=12, **options):
        import numpy as np

        pool = make_pool(constructors, num_workers, **options)
        pool.reset(3)
        for _ in range(steps):
            pool.step([np.zeros(len(constructors), np.int32)])
        with pytest.raises(Exception) as caught:
            pool.check()
        return caught.value

    return run
