import pytest

from tests.support.linear import Config as Settings
from tfagents_batch.configs import PRESETS
from tfagents_batch.training.config import RunConfig


@pytest.fixture
def preset(linear, monkeypatch):
    """Return the name of a preset that trains quickly, because its agent is linear."""
    options = {"num_envs": 2, "num_workers": 1, "settings": Settings()}
    config = RunConfig(linear, "CartPole-v1", compile="off", **options)
    monkeypatch.setitem(PRESETS, "cartpole", lambda: config)
    return "cartpole"
