"""Upper limit of speed: environments in plain loops, in one process per core.

Each process only steps its share of the batch row by row, as a worker does. The sum of
their speeds is the speed of the environments themselves.
"""

from __future__ import annotations

import multiprocessing
from multiprocessing.connection import Connection

from benchmarks.inside import session
from benchmarks.work import machine
from benchmarks.work.works import Stepping


class Bare:
    """Processes that step environments; this one only waits for them."""

    def __init__(self, work: Stepping):
        self.same = work.same(work.actions())
        count = min(machine.cores(), work.num_envs)
        self.own = {"workers": count, "autoreset": "none: reset at once"}
        self.versions: dict[str, str] = {}
        bounds = [work.num_envs * i // count for i in range(count + 1)]
        context = multiprocessing.get_context("spawn")
        self._pipes, self._processes = [], []
        for i in range(count):
            mine, its = context.Pipe()
            arguments = its, work, bounds[i], bounds[i + 1]
            process = context.Process(target=serve, args=arguments)
            process.start()
            its.close()  # so that the end of the process is noticed
            self._pipes.append(mine)
            self._processes.append(process)
        for pipe in self._pipes:
            pipe.recv()

    def measure(self, seconds: float, blocks: int | None) -> session.Measured:
        for pipe in self._pipes:
            pipe.send((seconds, blocks))
        counts, times, rates = zip(*[x.recv() for x in self._pipes], strict=True)
        return session.Measured(sum(counts), max(times), sum(rates))

    def close(self) -> None:
        for pipe, process in zip(self._pipes, self._processes, strict=True):
            pipe.close()
            process.join()


def serve(pipe: Connection, work: Stepping, first: int, end: int) -> None:
    """Step the rows from ``first`` to before ``end`` for each received duration."""
    envs = [work.constructor()() for _ in range(first, end)]
    for row, env in enumerate(envs, first):
        env.reset(seed=work.seed + row)
    actions = work.actions()[:, first:end]
    # In the form that environments take, so that the loop converts nothing.
    actions = actions.tolist() if actions.ndim == 2 else [list(x) for x in actions]
    pairs = [(env.step, env.reset) for env in envs]

    def block() -> int:
        for row in actions:
            for (step, reset), action in zip(pairs, row, strict=True):
                _, _, terminated, truncated, _ = step(action)
                if terminated or truncated:
                    reset()
        return len(actions) * len(pairs)

    pipe.send("ready")
    try:
        while True:
            pipe.send(session.repeat(block, *pipe.recv()))
    except EOFError:
        pass  # the measurement has ended
    for env in envs:
        env.close()


if __name__ == "__main__":
    session.main(lambda **_: None, Bare, Stepping)
