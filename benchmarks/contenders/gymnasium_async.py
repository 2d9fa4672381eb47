"""Gymnasium's AsyncVectorEnv: a process per environment, shared memory."""

from benchmarks import session, vectors


def load():
    import gymnasium.vector  # noqa: F401


def start(work, **options):
    import gymnasium

    actions = work.actions()
    envs = gymnasium.vector.AsyncVectorEnv(
        [work.constructor()] * work.num_envs, shared_memory=True, copy=False, **options
    )
    return vectors.NextStep(work, envs, work.num_envs, actions)


if __name__ == "__main__":
    session.main(load, start)
