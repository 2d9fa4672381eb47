"""Gymnasium's vector environments, in one process or in one per environment."""

from benchmarks.inside import session, vectors


def load():
    import gymnasium.vector  # noqa: F401


def start(work, processes, max_concurrency=None):
    from gymnasium import vector

    actions = work.actions()
    constructors = [work.constructor()] * work.num_envs
    if not processes:
        envs = vector.SyncVectorEnv(constructors, copy=False)
        return vectors.NextStep(work, envs, 0, actions)
    envs = vector.AsyncVectorEnv(
        constructors, shared_memory=True, copy=False, max_concurrency=max_concurrency
    )
    return vectors.NextStep(work, envs, work.num_envs, actions)


if __name__ == "__main__":
    session.main(load, start)
