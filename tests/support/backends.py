"""Levels of a parameter on one of the two backends each."""

import pytest


def on_backends(name, portable, native):
    """Parametrize a test by levels of an argument, each on one backend."""
    levels = [pytest.param(x, "portable") for x in portable]
    levels += [pytest.param(x, "native", marks=pytest.mark.xla) for x in native]
    return pytest.mark.parametrize((name, "backend"), levels, indirect=["backend"])


# For claims about the code of workers and their start, which both backends share.
one_backend = pytest.mark.parametrize("backend", ["portable"], indirect=True)
