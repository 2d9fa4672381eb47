"""What ``train`` returns: short as text, its history, and its agent."""

import gymnasium
import numpy as np
import pytest

import tfagents_batch as tfb
from tests.support import untrained
from tfagents_batch.errors import UserError
from tfagents_batch.training.log.logger import Logger
from tfagents_batch.training.training_run import Run


def test_a_run_is_short_as_text_and_has_its_history(tmp_path):
    with Logger(tmp_path) as logger:
        logger.write({"loss/total": 2.0}, 10)
        logger.write({"loss/total": 1.0, "eval/return_mean": 7.0}, 20)
    run = Run(str(tmp_path), 20, {"episode/return_mean": 12.345}, True)
    assert repr(run) == f"Run({str(tmp_path)!r}, finished at step 20, return 12.35)"
    assert repr(run._replace(metrics={}, finished=False)).endswith(
        "stopped at step 20)"
    )
    history = run.history()
    assert sorted(history) == ["eval/return_mean", "loss/total", "step"]
    np.testing.assert_array_equal(history["step"], [10, 20])
    np.testing.assert_array_equal(history["loss/total"], [2, 1])
    np.testing.assert_array_equal(history["eval/return_mean"], [np.nan, 7])


def test_an_agent_is_loaded_without_its_environment(tmp_path):
    def make():
        return gymnasium.make("CartPole-v1")

    folder = untrained.folder("ppo", make, tmp_path, num_envs=1, num_workers=0)
    run = Run(str(folder), 100, {}, True)
    agent = run.load()
    assert agent.predict(np.zeros(4, np.float32))[0] in (0, 1)
    with pytest.raises(UserError, match=r"pass env to tfagents_batch\.load"):
        agent.make_env()
    with pytest.raises(UserError, match=r"pass env \(flag --env\)"):
        run.evaluate(2)
    assert run.evaluate(2, env=make).episodes == 2
    run.load(env=make).make_env().close()
    assert tfb.export(run, outdir=tmp_path / "export").parity.problems == ()
