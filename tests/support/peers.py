"""The interpreter of the peers, which many machines do not have."""

from __future__ import annotations

import os
import subprocess

import pytest

from benchmarks.measure import process

PYTHONS = {"peers": os.environ.get("TFAGENTS_BATCH_PEER_PYTHON", "")}
PEERS = process.python_of("peers", PYTHONS)


def require(module: str = "stable_baselines3") -> None:
    """Skip the test if the peers' interpreter does not have a module."""
    code = f"from importlib import util; assert util.find_spec({module!r})"
    if subprocess.run([PEERS, "-c", code], capture_output=True, timeout=120).returncode:
        pytest.skip(f"{PEERS} has no {module} (benchmarks.make_environments)")
