"""Stands in for ``tfagents-batch train`` in a sweep: logs a few values in no time.

Flags: ``--x`` is the value, ``--do`` what happens instead of a normal end. Each hanging
process writes its number to the pipe of the environment variable ``PIPE``.
"""

import json
import os
import signal
import sys
from pathlib import Path

from tfagents_batch.distribute import trial_process


def main(parent, command, *flags):
    trial_process.end_with(int(parent))
    assert command == "train"
    given = dict(flag.removeprefix("--").split("=", 1) for flag in flags)
    trial, do = Path(given["logdir"]), given.get("do", "train")
    if do == "refuse":
        print("a warning\nerror: x is wrong")
        sys.exit(64)
    if do == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if int(trial.name[-4:]) >= int(os.environ.get("HANG_FROM", 1e9)):
        do = "hang"
    run = trial / "run"
    run.mkdir()
    with open(run / "metrics.jsonl", "w", buffering=1) as log:
        log.write('{"event": "header"}\n{"step": 0, "eval/return_mean": null}\n')
        number = float(given["x"])
        values = [] if do == "silent" else [number - 1, number + 1, number]
        for step, value in enumerate(values, 1):
            log.write(json.dumps({"step": step, "eval/return_mean": value}) + "\n")
            log.write(json.dumps({"step": step, "loss/value": 0.5}) + "\n")
    if do == "hang":
        if "PIPE" in os.environ:
            with open(os.environ["PIPE"], "w") as pipe:
                pipe.write(f"{os.getpid()}\n")
        while True:
            signal.pause()


if __name__ == "__main__":
    main(*sys.argv[1:])
