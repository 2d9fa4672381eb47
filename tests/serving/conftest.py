"""Fixtures of a served export."""

import contextlib

import pytest

from tests.serving import exports, served


@pytest.fixture
def serve():
    """Return a function that serves an export in this process."""
    with contextlib.ExitStack() as stack:
        yield lambda export, **settings: served.InProcess(export, stack, **settings)


@pytest.fixture(scope="session")
def simple(tmp_path_factory):
    """Return an export with two actions and four numbers, epsilon-greedy."""
    return exports.discrete(tmp_path_factory.mktemp("exports") / "simple")


@pytest.fixture(scope="session")
def named(tmp_path_factory):
    """Return an export of logged rows, with names, features and a mask."""
    return exports.discrete(
        tmp_path_factory.mktemp("exports") / "named",
        masked=True,
        names=["left", "right"],
        features=[0, 3, 7, 9],
    )
