from __future__ import annotations

import os
import subprocess
import sys
import textwrap

UNGUARDED = """
    import gymnasium
    import numpy as np
    import tensorflow as tf
    from tfagents_batch.envs.processes.pool import Pool
    from tfagents_batch.envs.testing import CountingEnv

    print("imported", flush=True)  # once: workers do not run this script again
    assert tf.linalg.matmul(tf.ones([9, 9]), tf.ones([9, 9]))[0, 0] == 9

    class Mine(CountingEnv):
        def step(self, action):
            observation, reward, *rest = super().step(action)
            return (observation, reward * scale, *rest)

    scale = 3.0
    pool = Pool([Mine, lambda: Mine(length=7), Mine, lambda: Mine()], 2)
    pool.engine.reset(1)
    print(pool.engine.step([np.zeros(4, np.int32)]).reward.tolist())
    pool.check()
"""

FORKING = """
    import os
    import sys
    import numpy as np
    from tfagents_batch.envs.processes.pool import Pool
    from tfagents_batch.envs.testing import CountingEnv

    pool = Pool([CountingEnv] * 2, 2)
    pool.engine.reset(1)
    for _ in range(2):
        child = os.fork()
        if child == 0:
            sys.exit(0)  # runs the child's exit handlers
        os.waitpid(child, 0)
    print(pool.engine.step([np.zeros(2, np.int32)]).observation[0].tolist())
    pool.check()
    pool.close()
    if os.fork() == 0:
        os._exit(0)
"""


def run(tmp_path, text):
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(text))
    return subprocess.run(
        [sys.executable, script],
        capture_output=True,
        text=True,
        timeout=50,
        check=True,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
    )


def test_an_unguarded_script_with_its_own_classes_and_tensorflow_works(tmp_path):
    result = run(tmp_path, UNGUARDED)
    assert result.stdout == "imported\n[3.0, 3.0, 3.0, 3.0]\n"


def test_forking_the_learner_gives_one_warning_and_does_no_harm(tmp_path):
    result = run(tmp_path, FORKING)
    assert result.stderr.count("this process is forked while environments run") == 1
    assert result.stdout == "[[0.0, 1.0], [0.0, 1.0]]\n"
