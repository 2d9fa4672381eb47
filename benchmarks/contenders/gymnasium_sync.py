"""Gymnasium's SyncVectorEnv: all environments in one process, one after the other."""

from benchmarks import session, vectors


def load():
    import gymnasium.vector  # noqa: F401


def start(work):
    import gymnasium

    actions = work.actions()
    constructors = [work.constructor()] * work.num_envs
    envs = gymnasium.vector.SyncVectorEnv(constructors, copy=False)
    return vectors.NextStep(work, envs, 0, actions)


if __name__ == "__main__":
    session.main(load, start)
