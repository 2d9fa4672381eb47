"""Stable-Baselines3's vectorised environments."""

from benchmarks.inside import session, vectorised, vectors


def load():
    import stable_baselines3.common.vec_env  # noqa: F401


def start(work, vectorisation):
    actions = work.actions()
    envs = vectorised.make(work.constructor(), work.num_envs, vectorisation)
    workers = 0 if vectorisation == "dummy" else work.num_envs
    return vectors.SameStep(work, envs, workers, actions)


if __name__ == "__main__":
    session.main(load, start)
