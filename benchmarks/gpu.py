"""All that needs a GPU, in at most seven minutes: ``python -m benchmarks.gpu``."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import gc
import importlib
import importlib.util
import os
import pathlib
import sys
import tempfile
import traceback
from collections.abc import Callable
from typing import Any

from benchmarks.contenders import CONTENDERS
from benchmarks.inside import session
from benchmarks.measure import command, process, results, rows, tables
from benchmarks.measure.gpu_rows import ROWS, Row, Run
from benchmarks.measure.process import Failure, Result, report
from benchmarks.work import machine
from benchmarks.work.off_policy import OffPolicy
from benchmarks.work.works import Asynchronous, Stepping, Training
from tfagents_batch.config import option
from tfagents_batch.devices import gpu_remarks as diagnostics
from tfagents_batch.scripts import command_line

_FEW = {"num_envs": 2, "num_workers": 1, "seconds": 0.0, "blocks": 1}
_SMALL: dict[str, Any] = {"hidden": (8,)}
_CARTPOLE: dict[str, Any] = {"env": "CartPole-v1", "env_kwargs": {}}
TINY: dict[type, dict[str, Any]] = {  # changes of a dry run by type of work
    Training: _SMALL
    | {"rollout_length": 4, "epochs": 1, "minibatch_size": 4, "block": 1},
    OffPolicy: _SMALL
    | {"batch_size": 4, "warmup_steps": 4, "block": 8, "capacity": 64},
    Asynchronous: _SMALL | _CARTPOLE | {"network": "mlp", "train_rows": 10, "block": 1},
    Stepping: {"block": 4},
}


@dataclasses.dataclass(frozen=True)
class Command:
    """Flags of this benchmark."""

    rows: tuple[str, ...] = option((), "rows to measure, such as pong; all by default")
    seconds: float = option(3.0, "minimum of measured seconds of a figure", above=0)
    limits: float = option(1.0, "factor of the time limits of the rows", above=0)
    dry_run: bool = option(
        False, "run all rows tiny, on a second logical CPU; record nothing"
    )
    folder: str = option(str(results.FOLDER), "folder of the file to append to")


def main(flags: Command) -> int:
    """Measure the rows, append each to the file of results, and print one table."""
    chosen = rows.select(flags.rows, ROWS)
    device = second_cpu() if flags.dry_run else gpu()
    if device is None:
        reason = diagnostics.problem() or "TensorFlow sees no GPU"
        report(f"error: {reason}; --dry_run runs all rows on the CPU")
        return 1
    import tensorflow as tf

    context = {**results.context(), "tensorflow": tf.__version__}
    context["machine"] |= {"gpu": device}
    path, lines = pathlib.Path(flags.folder) / "gpu.jsonl", []
    for name, row in chosen.items():
        report(f"== {name}: {row.title}")
        runs = (run._replace(work=adapted(run.work, flags)) for run in row.runs)
        row = row._replace(runs=tuple(runs))
        measured = row_lines(name, row, measure(row, flags))
        if not flags.dry_run:
            results.append(path, context, measured)
        lines += [{**context, **line} for line in measured]
    if flags.dry_run:
        print("Dry run: no figure means anything, and none is recorded.\n")
    print(tables.gpu(lines))
    return int(any("failed" in line for line in lines))


def gpu() -> str | None:
    """Return the name of TensorFlow's first GPU; None without one."""
    command_line.import_tensorflow()
    import tensorflow as tf

    # JAX would take most of its memory, while another process uses it too.
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    for found in tf.config.list_physical_devices("GPU"):
        details = tf.config.experimental.get_device_details(found)
        return details.get("device_name", found.name)
    return None


def second_cpu() -> str:
    """Let a second logical CPU take the place of a GPU in this process."""
    fast = "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
    os.environ["XLA_FLAGS"] = fast  # to compile three times as fast
    gc.disable()  # spares a tenth of the time of tracing
    command_line.import_tensorflow()
    import tensorflow as tf

    from tfagents_batch.devices import placement

    (cpu,) = tf.config.list_physical_devices("CPU")
    parts = [tf.config.LogicalDeviceConfiguration()] * 2
    tf.config.set_logical_device_configuration(cpu, parts)
    placement.GPU = "/CPU:1"
    return "dry run on a second logical CPU"


def measure(row: Row, flags: Command) -> list[Result | Failure | str]:
    """Return the result of each run, its failure, or why it was skipped."""
    with contextlib.ExitStack() as stack:
        turns = stack.enter_context(tempfile.NamedTemporaryFile()).name
        starts = [started(row, run, flags, turns) for run in row.runs]
        results_of = [stack.enter_context(start) for start in starts]
        measured = [wait(row.seconds * flags.limits) for wait in results_of]
    for run, result in zip(row.runs, measured, strict=True):
        shown = result["value"] if isinstance(result, dict) else result
        report(f"{run.setting}: {shown}")
    return measured


def started(
    row: Row, run: Run, flags: Command, turns: str
) -> contextlib.AbstractContextManager[Callable[[float], Any]]:
    """Return a context as ``process.started``; a dry run of ours is in this process."""
    contender = CONTENDERS[run.contender]
    options = {**contender.options, **run.options}
    if reason := missing(row, run):
        return contextlib.nullcontext(lambda _: reason)
    if flags.dry_run and contender.interpreter == "ours":
        options.pop("precision", "")  # to compile no program twice
        if not isinstance(run.work, Stepping):
            options["histograms"] = False  # quicker to trace
        arguments = process.arguments(run.work, options)
        return contextlib.nullcontext(lambda _: done(contender.module, *arguments))
    module = f"benchmarks.contenders.{contender.module}"
    python = process.python_of(contender.interpreter) or sys.executable
    return process.started(module, run.work, python, options | {"turns": turns})


@functools.cache  # tiny works of several rows are equal
def done(module: str, *arguments: str) -> Result | Failure:
    """Run one of our contenders in this process, with arguments of its process."""
    work, options = session.flags(arguments)
    contender = importlib.import_module(f"benchmarks.contenders.{module}")
    try:
        return session.run(functools.partial(contender.start, **options), work)
    except Exception as error:
        return Failure(module, f"raised {error!r}", traceback.format_exc())


def adapted(work: Any, flags: Command) -> Any:
    """Return a work with the flags' seconds and a worker per core, or a tiny one."""
    if not flags.dry_run:
        workers = min(machine.cores(), work.num_envs)
        return dataclasses.replace(work, seconds=flags.seconds, num_workers=workers)
    changes = _FEW | TINY[type(work)]
    if "game" in work.env_kwargs and "env_kwargs" not in changes:
        changes["env_kwargs"] = work.env_kwargs | {"screen_size": 36}
    return dataclasses.replace(work, **changes)


def missing(row: Row, run: Run) -> str:
    """Return which package a run lacks; empty if it lacks none."""
    own = CONTENDERS[run.contender].interpreter == "ours"
    package = row.package if own else "jax"
    here = own or process.python_of("peers") == sys.executable
    if package and here and importlib.util.find_spec(package) is None:
        return f"{package} is not installed"
    return ""


def row_lines(name: str, row: Row, measured: list[Any]) -> list[Result]:
    """Return the lines to record: one for each run."""
    recorded: dict[str, Result] = {}
    for run, result in zip(row.runs, measured, strict=True):
        recorded[run.setting] = line = {
            "row": name,
            "title": row.title,
            "setting": run.setting,
            "contender": run.contender,
            "options": dict(run.options),
            "against": run.against,
            "unit": row.unit,
            "config": dataclasses.asdict(run.work),
        }
        if isinstance(result, str):
            line["skipped"] = result
        elif isinstance(result, Failure):
            line["failed"] = result._asdict()
        elif (used := result["own"]["device"]) != run.options.get("device", "gpu"):
            failure = Failure(run.contender, f"used the {used}", "")
            ours = CONTENDERS[run.contender].interpreter == "ours"
            unseen = {"skipped": "it sees no GPU"}
            line |= {"failed": failure._asdict()} if ours else unseen
        else:
            rate = result["value"]
            line["value"] = 1e6 / rate if row.unit == "µs" else rate
            line["work"] = result["same"]
            line |= {key: result[key] for key in ("phases", "own", "versions")}
    for line in recorded.values():
        reference = recorded.get(line["against"], {}).get("value")
        if reference is not None:
            line["reference"] = reference
    return [*recorded.values()]


if __name__ == "__main__":
    command.run(Command, main)
