"""Stable-Baselines3's DummyVecEnv: all environments in one process."""

from benchmarks import session, vectors


def load():
    import stable_baselines3.common.vec_env  # noqa: F401


def start(work):
    from stable_baselines3.common import vec_env

    actions = work.actions()
    envs = vec_env.DummyVecEnv([work.constructor()] * work.num_envs)
    return vectors.SameStep(work, envs, 0, actions)


if __name__ == "__main__":
    session.main(load, start)
