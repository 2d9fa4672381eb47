"""Print much, also from another process, and a result at the end."""

import subprocess
import sys

from benchmarks.inside import session

with session.result_line() as result:
    print("noise")
    subprocess.run([sys.executable, "-c", "print('more noise')"], check=True)
    result.update(session.work_flag(sys.argv[1:]))
