"""Stable-Baselines3's PPO on EnvPool's environments, which are C++ in threads.

EnvPool restarts an environment in the step after its last one; Stable-Baselines3
wants it restarted in the same step. What lies between is here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.inside import baselines, session
from benchmarks.stepping import versions
from benchmarks.training import Training


def load():
    import envpool  # noqa: F401
    import stable_baselines3  # noqa: F401


def start(work: Training, env_threads: int = 1, threads: int = 1) -> baselines.Learning:
    import envpool
    import stable_baselines3
    import torch
    from stable_baselines3.common.vec_env import VecMonitor

    torch.set_num_threads(threads)
    pool = envpool.make(
        work.env,
        env_type="gymnasium",
        num_envs=work.num_envs,
        num_threads=env_threads,
        seed=work.seed,
        **work.env_kwargs,
    )
    model = stable_baselines3.PPO(
        "MlpPolicy",
        VecMonitor(vec_env(pool)),
        device="cpu",
        **baselines.hyperparameters(work),
    )
    environment = {
        "id": f"{work.env} of EnvPool",
        "kwargs": work.env_kwargs,
        "time_limit": pool.spec.config.max_episode_steps,
    }
    return baselines.of_torch(
        work,
        model,
        {
            "workers": 0,
            "environment threads": env_threads,
            "threads": threads,
            "autoreset": "next step, turned into same step",
            "wrapper": "VecMonitor",
        },
        versions("envpool", "stable-baselines3", "torch"),
        other={"environment": environment},
        differs={"environment": "EnvPool has its own, in C++"},
    )


def play(pool: Any, actions: np.ndarray) -> tuple[Any, Any, Any, list[dict]]:
    """One step by Stable-Baselines3's contract; what is over restarts within it.

    Args:
      pool: of EnvPool, with Gymnasium's interface.
      actions: ``[B, ...]``.

    Returns:
      Observations ``[B, ...]``, the first of a new episode where one began; rewards
      f32 ``[B]``; dones ``[B]``; and infos, which have the last observation of an
      episode and whether it was cut off.
    """
    observation, reward, terminated, truncated, _ = pool.step(actions)
    done = terminated | truncated
    infos: list[dict[str, Any]] = [{} for _ in done]
    over = np.flatnonzero(done)
    if not over.size:
        return observation, reward, done, infos
    observation = observation.copy()  # the pool may write there again
    for row in over:
        cut = bool(truncated[row] and not terminated[row])
        infos[row]["TimeLimit.truncated"] = cut
        infos[row]["terminal_observation"] = observation[row].copy()
    first, known = pool.reset(over.astype(np.int32))
    observation[known["env_id"]] = first  # which come in any order
    return observation, reward, done, infos


def vec_env(pool: Any) -> Any:
    """The ``VecEnv`` of a pool."""
    from stable_baselines3.common import vec_env

    class PoolVecEnv(vec_env.VecEnv):
        def __init__(self):
            super().__init__(pool.num_envs, pool.observation_space, pool.action_space)
            self._actions = None

        def reset(self):
            return pool.reset()[0]

        def step_async(self, actions):
            self._actions = actions

        def step_wait(self):
            return play(pool, self._actions)

        def close(self):
            pool.close()

        def get_attr(self, attr_name, indices=None):
            if attr_name != "render_mode":
                raise AttributeError(f"EnvPool's environments show no {attr_name!r}")
            return [None for _ in self._get_indices(indices)]

        def set_attr(self, attr_name, value, indices=None):
            raise AttributeError(f"EnvPool's environments show no {attr_name!r}")

        def env_method(self, method_name, *args, indices=None, **kwargs):
            raise AttributeError(f"EnvPool's environments show no {method_name!r}")

        def env_is_wrapped(self, wrapper_class, indices=None):
            return [False for _ in self._get_indices(indices)]

    return PoolVecEnv()


if __name__ == "__main__":
    session.main(load, start, Training)
