"""Upper limit of speed: environments in plain loops, in one process per core.

Each steps its share row by row, as a worker does, and the sum of their speeds counts.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from concurrent import futures

from benchmarks.inside import session
from benchmarks.work import machine
from benchmarks.work.works import Stepping

_BLOCKS: list[Callable[[], int]] = []  # of this process


class Bare:
    """Processes that step environments; this one only waits for them."""

    def __init__(self, work: Stepping):
        self.same = work.same(work.actions())
        count = min(machine.cores(), work.num_envs)
        self.own = {"workers": count, "autoreset": "none: reset at once"}
        self.versions: dict[str, str] = {}
        bounds = [work.num_envs * i // count for i in range(count + 1)]
        context = multiprocessing.get_context("spawn")
        self._pools = [
            futures.ProcessPoolExecutor(1, context, prepare, (work, *bounds[i : i + 2]))
            for i in range(count)
        ]
        self.measure(0.0, 0)  # which waits for the processes

    def measure(self, seconds: float, blocks: int | None) -> session.Measured:
        found = [pool.submit(step, seconds, blocks) for pool in self._pools]
        counts, times, rates = zip(*[each.result() for each in found], strict=True)
        return session.Measured(sum(counts), max(times), sum(rates))

    def close(self) -> None:
        for pool in self._pools:
            pool.shutdown()


def prepare(work: Stepping, first: int, end: int) -> None:
    """Create the environments from row ``first`` to before ``end`` in a process."""
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

    _BLOCKS.append(block)


def step(seconds: float, blocks: int | None) -> session.Measured:
    """Step the environments of this process."""
    return session.repeat(_BLOCKS[0], seconds, blocks)


if __name__ == "__main__":
    session.main(Bare)
