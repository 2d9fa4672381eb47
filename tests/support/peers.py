"""The interpreter of the peers, which many machines do not have."""

from __future__ import annotations

import os
import subprocess
from typing import Any

import pytest

from benchmarks.contenders import CONTENDERS
from benchmarks.measure import process

PYTHONS = {"peers": os.environ.get("TFAGENTS_BATCH_PEER_PYTHON", "")}
PEERS = process.python_of("peers", PYTHONS)


def require(module: str = "stable_baselines3") -> None:
    """Skip the test if the peers' interpreter does not have a module."""
    code = f"from importlib import util; assert util.find_spec({module!r})"
    if subprocess.run([PEERS, "-c", code], capture_output=True, timeout=120).returncode:
        pytest.skip(f"{PEERS} has no {module} (benchmarks.make_environments)")


def run(name: str, work: Any, module: str = "stable_baselines3") -> dict[str, Any]:
    """Return the result of a contender; skip the test if it needs a missing module."""
    if CONTENDERS[name].interpreter == "peers":
        require(module)
    result = process.run_contender(name, work, 250, PYTHONS)
    assert not isinstance(result, process.Failure), str(result)
    return result
