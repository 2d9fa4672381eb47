"""Print much, also from another process; then a result, or fail in a given way."""

import dataclasses
import subprocess
import sys
import time

from benchmarks.inside import session


@dataclasses.dataclass(frozen=True)
class Work:
    end: str = ""  # "fails", "mumbles" or "hangs"
    value: int = 3


if __name__ == "__main__":
    work, _ = session.flags()
    print("the last words", file=sys.stderr, flush=True)
    if work.end == "fails":
        sys.exit(3)
    if work.end == "hangs":  # with a process that it started
        sleep = [sys.executable, "-c", "import time; time.sleep(3600)"]
        print(subprocess.Popen(sleep).pid, file=sys.stderr, flush=True)
        time.sleep(3600)
    if work.end == "mumbles":
        print("not JSON")
    with session.result_line() as result:
        print("noise")
        subprocess.run([sys.executable, "-c", "print('more noise')"], check=True)
        result["value"] = work.value
