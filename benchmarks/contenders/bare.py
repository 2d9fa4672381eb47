"""Upper limit of speed: environments in plain loops, in one process per core.

Each process only steps its share of the batch row by row, as a worker does. The sum of
their speeds is the speed of the environments themselves.
"""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys

from benchmarks.inside import session
from benchmarks.work import machine
from benchmarks.work.stepping import Stepping


def load():
    pass


class Bare:
    """Processes that step environments; this one only waits for them."""

    unit = "env steps"

    def __init__(self, work: Stepping):
        self.same = work.same(work.constructor(), work.actions())
        count = min(machine.cores(), work.num_envs)
        self.own = {"workers": count, "autoreset": "none: reset at once"}
        self.versions: dict[str, str] = {}
        bounds = [work.num_envs * i // count for i in range(count + 1)]
        self._processes = [_launch(work, bounds[i : i + 2]) for i in range(count)]
        for process in self._processes:
            _receive(process)

    def compile(self) -> int:
        return 0

    def measure(self, seconds: float, blocks: int | None) -> session.Measured:
        for process in self._processes:
            _send(process, [seconds, blocks])
        parts = [session.Measured(*_receive(process)) for process in self._processes]
        return session.Measured(
            sum(part.count for part in parts),
            max(part.seconds for part in parts),
            sum(part.rate for part in parts),
        )

    def close(self) -> None:
        for process in self._processes:
            process.stdin.close()
            process.wait()
            process.stdout.close()


def serve(work: Stepping, rows: list[int]) -> None:
    """Step a share of the rows for each line on stdin, which says how long.

    Args:
      work: work of the whole batch.
      rows: first row, and the row after the last.
    """
    first, end = rows
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

    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        print(json.dumps(session.repeat(block, *json.loads(line))), flush=True)
    for env in envs:
        env.close()


def _launch(work: Stepping, rows: list[int]) -> subprocess.Popen:
    share = json.dumps({"rows": rows, "work": dataclasses.asdict(work)})
    return subprocess.Popen(
        [sys.executable, "-m", __spec__.name, f"--share={share}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _send(process: subprocess.Popen, message: list) -> None:
    process.stdin.write(json.dumps(message) + "\n")
    process.stdin.flush()


def _receive(process: subprocess.Popen):
    line = process.stdout.readline()
    if not line:
        raise RuntimeError(f"a process of bare environments ended: {process.wait()}")
    return json.loads(line)


if __name__ == "__main__":
    if sys.argv[1].startswith("--share="):
        share = json.loads(sys.argv[1].removeprefix("--share="))
        serve(Stepping(**share["work"]), share["rows"])
    else:
        session.main(load, Bare)
