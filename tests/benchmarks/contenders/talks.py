"""Print much, also from another process, and a result at the end."""

import dataclasses
import subprocess
import sys

from benchmarks.inside import session


@dataclasses.dataclass(frozen=True)
class Work:
    value: int = 0


if __name__ == "__main__":
    with session.result_line() as result:
        print("noise")
        subprocess.run([sys.executable, "-c", "print('more noise')"], check=True)
        work, _ = session.flags(Work)
        result.update(dataclasses.asdict(work))
