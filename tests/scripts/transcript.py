"""Lines that every command prints, with their times.

    python -m tests.scripts.transcript
    python -m tests.scripts.transcript train evaluate

Commands run in a temporary folder, in an order in which each finds the files of those
before it; the ones that are named bring the ones before them along. A last table has,
for each command, when its first line came and how long it was silent at most. The exit
status is 1 if that was more than 2 s or 5 s. On a quiet machine it is 0; a test of the
gate only checks that no command is missing.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path
from typing import IO, NamedTuple

FIRST, SILENCE = 2.0, 5.0  # seconds, at most
_PORT = 18099
# {run} and {rows_run} are the runs of the two trainings.
COMMANDS = (
    "doctor",
    "check --env=CartPole-v1",
    "demo --steps=100000",
    "train --config=cartpole --steps=60000",
    "evaluate --logdir={run}",
    "visualize --logdir={run} --format=gif --episodes=2",
    "plot --logdir=logs",
    "export --logdir={run} --outdir=export",
    "predict --export=export --input=observations.jsonl",
    "collect --env=CartPole-v1 --rows=60000",
    "rows --input=rows",
    "features --input=rows --output=features.json",
    "convert --input=rows/*.jsonl --output=converted --action=action "
    "--features=sequence_number --specification=converted.json",
    "timeline --input=rows --output=table",
    "train --data=table --steps=20000",
    "decide --logdir={rows_run} --data=table",
    f"serve --export=export --port={_PORT} --log=decisions",
    "join --decisions=decisions --output=served",
    "sweep --config=cartpole --steps=20000 --trials=2 --logdir=sweep",
)


class Line(NamedTuple):
    """A line, the stream that it came on, and the seconds since the command began."""

    seconds: float
    stream: str
    text: str


class Done(NamedTuple):
    """What a command printed, and how it ended."""

    lines: list[Line]
    seconds: float
    status: int

    @property
    def first(self) -> float:
        return min([line.seconds for line in self.lines], default=self.seconds)

    @property
    def silence(self) -> float:
        """Seconds between two lines, or after the last one, at most."""
        times = [*(line.seconds for line in self.lines), self.seconds]
        return max(after - before for before, after in itertools.pairwise(times))


def run(command: str, folder: Path) -> Done:
    """Run a command in a folder, to its end; a server ends after a decision."""
    lines: list[Line] = []
    program = [sys.executable, "-m", "tfagents_batch", *command.split()]
    began = time.monotonic()

    def read(stream: IO[str], name: str) -> None:
        for text in stream:
            line = Line(time.monotonic() - began, name, text.rstrip("\n"))
            lines.append(line)
            print(f"{line.seconds:7.1f} {name}  {line.text}", flush=True)
            if "serve " in command and name == "out":
                ready.set()

    ready = threading.Event()
    with subprocess.Popen(
        program,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        streams = {"out": process.stdout, "err": process.stderr}
        readers = [
            threading.Thread(target=read, args=(stream, name))
            for name, stream in streams.items()
        ]
        for reader in readers:
            reader.start()
        if command.startswith("serve"):
            ready.wait(60)
            decide()
            process.terminate()
        status = process.wait()
        seconds = time.monotonic() - began
        for reader in readers:
            reader.join()
    return Done(sorted(lines), seconds, status)


def decide() -> None:
    """Ask the server for a decision, and answer it."""
    asked = {"observation": [0.0, 0.0, 0.0, 0.0]}
    found = _post("act", asked)
    _post("feedback", {"request_id": found["request_id"], "reward": 1})


def _post(endpoint: str, body: dict) -> dict:
    request = urllib.request.Request(
        f"http://127.0.0.1:{_PORT}/v1/{endpoint}",
        json.dumps(body).encode(),
        {"content-type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)


def main() -> int:
    """Run the commands, print their lines and the table, and return the status."""
    named = set(sys.argv[1:]) or {command.split()[0] for command in COMMANDS}
    last = max(i for i, each in enumerate(COMMANDS) if each.split()[0] in named)
    found, runs = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        rows = '{"observation": [0, 0, 0, 0]}\n'
        (Path(folder) / "observations.jsonl").write_text(rows)
        for command in COMMANDS[: last + 1]:
            command = command.format(**runs)
            print(f"\n$ tfagents-batch {command}", flush=True)
            done = found[command] = run(command, Path(folder))
            if command.startswith("train"):
                name = "rows_run" if "--data" in command else "run"
                out = [line.text for line in done.lines if line.stream == "out"]
                runs[name] = out[-1]
    print("\nfirst  silence  all  status")
    late = 0
    for command, done in found.items():
        late += (done.first > FIRST) + (done.silence > SILENCE)
        numbers = f"{done.first:5.1f} {done.silence:8.1f} {done.seconds:4.0f}"
        print(f"{numbers} {done.status:7}  {command.split()[0]}")
    return int(late > 0)


if __name__ == "__main__":
    sys.exit(main())
