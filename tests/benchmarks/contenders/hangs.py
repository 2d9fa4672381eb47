"""Hang, and start a process that hangs too."""

import subprocess
import sys
import time

print("going to sleep", file=sys.stderr, flush=True)
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
time.sleep(3600)
