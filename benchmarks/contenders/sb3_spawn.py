"""Stable-Baselines3's SubprocVecEnv: a fresh process per environment."""

from benchmarks import session, vectors
from benchmarks.contenders import sb3_dummy


def start(work, start_method="spawn"):
    from stable_baselines3.common import vec_env

    actions = work.actions()
    constructors = [work.constructor()] * work.num_envs
    envs = vec_env.SubprocVecEnv(constructors, start_method=start_method)
    return vectors.SameStep(work, envs, work.num_envs, actions)


if __name__ == "__main__":
    session.main(sb3_dummy.load, start)
