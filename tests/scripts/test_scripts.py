"""The scripts as a shell runs them: their output and exit status."""

import contextlib
import json
import os
import pathlib
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from typing import NamedTuple

import psutil
import pytest

import tfagents_batch.__main__ as commands
from tests.support import fault_env
from tfagents_batch.algorithms import REGISTRY
from tfagents_batch.configs import PRESETS
from tfagents_batch.errors import SaveError
from tfagents_batch.scripts import command_line, evaluate, train

QUICK = [
    "--env=CartPole-v1",
    "--num_envs=2",
    "--algorithm=linear",
    "--rollout.length=64",
    "--num_workers=1",
    "--eval_every=0",
    "--compile=off",
]
# Training with the algorithm of support/linear.py, also from a queue. TensorFlow uses
# oneDNN, and a package that is not needed cannot be imported while the script trains.
TRAIN_LINEAR = """if True:
    import platform, sys
    from tfagents_batch.scripts import command_line

    def main(argv):
        assert "matplotlib" not in sys.modules
        from tensorflow.python.util import _pywrap_util_port as port
        assert port.IsMklEnabled() or platform.machine() != "x86_64"  # oneDNN
        from tests.support import linear
        from tfagents_batch.algorithms import REGISTRY
        from tfagents_batch.scripts import train

        queued = type("Queued", (linear.Config,), {"source": ("queue", {})})
        REGISTRY["linear"] = linear.Linear, linear.Config
        REGISTRY["queued"] = linear.Linear, queued
        return train.main(argv)

    status = command_line.run(main, trains=True)
    import matplotlib  # it can still be imported
    sys.exit(status)
"""
ROOT = pathlib.Path(__file__).parents[2]


def faulty(**kwargs):
    """Return the flags of an environment that misbehaves."""
    return f"--env={fault_env.__file__}:FaultEnv", f"--env_kwargs={json.dumps(kwargs)}"


def run(command, **options):
    return subprocess.run(
        command, capture_output=True, text=True, timeout=240, **options
    )


@pytest.fixture
def run_here(tmp_path, monkeypatch, capfd):
    """Return a function that runs a script in this process, by default training."""
    monkeypatch.chdir(tmp_path)

    def run_here(arguments, script=train):
        name = script.__name__.rpartition(".")[2]
        monkeypatch.setattr(sys, "argv", ["tfagents-batch", name, *arguments])
        monkeypatch.setattr(sys, "path", [*sys.path])
        handlers = {x: signal.getsignal(x) for x in (signal.SIGTERM, signal.SIGHUP)}
        try:
            with pytest.raises(SystemExit) as ended:
                commands.main()
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
        return ended.value.code, *capfd.readouterr()

    return run_here


@contextlib.contextmanager
def training(folder, flags=QUICK, after="checkpoints/step-*[0-9]", before=""):
    """Yield a process that trains without end, as soon as its folder has a path.

    By default, this is the checkpoint after the first iteration. The code ``before`` is
    run first.
    """
    command = [sys.executable, "-c", before + TRAIN_LINEAR, *flags, "--logdir=logs"]
    environment = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{folder}"}
    environment.pop("TF_ENABLE_ONEDNN_OPTS", None)
    process = subprocess.Popen(
        [*command, "--steps=1e9"],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + 120
        while not list(folder.glob(f"logs/*/{after}")):
            assert process.poll() is None and time.monotonic() < deadline
            select.select([], [], [], 0.05)
        yield process
    finally:
        process.kill()
        with contextlib.suppress(ValueError):  # the test has closed the pipes
            process.communicate()


def newest_step(folder, event="stopped"):
    """Return the step of the newest checkpoint, after checking the last event."""
    (log,) = folder.glob("logs/*/metrics.jsonl")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert lines[-1]["event"] == event
    saved = sorted(path.name for path in (log.parent / "checkpoints").iterdir())
    return int(saved[-1].removeprefix("step-"))


class Interrupted(NamedTuple):
    """Training that Ctrl-C has stopped."""

    status: int
    stdout: str
    stderr: str


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("interrupted")
    (folder / "jax.py").write_text("raise RuntimeError('not needed')")
    with training(folder) as process:
        os.kill(process.pid, signal.SIGINT)
        output = process.communicate(timeout=60)
    return Interrupted(process.returncode, *output)


@pytest.mark.any_backend
def test_ctrl_c_saves_and_the_run_can_be_resumed(interrupted, linear, tmp_path):
    assert interrupted.status == 130, interrupted.stderr
    run = pathlib.Path(interrupted.stdout.strip())
    folder = shutil.copytree(run, tmp_path / "logs" / run.name)
    step = newest_step(tmp_path)
    assert train.main([f"--resume={folder}", f"--steps={step + 9}"]) == 0
    assert newest_step(tmp_path, "finished") > step


@pytest.mark.any_backend
def test_training_prints_its_folder_to_stdout_and_plain_lines_to_stderr(interrupted):
    (line,) = interrupted.stdout.splitlines()
    assert pathlib.Path(line, "config.json").is_file()
    for text in ("steps", "1 thread of TensorFlow"):
        assert text in interrupted.stderr
    for text in ("\x1b", "Traceback", "oneDNN", "too late"):  # to set the threads
        assert text not in interrupted.stderr


def test_evaluation_is_one_json_line_and_can_sample_actions(
    interrupted, linear, run_here
):
    flags, lines = [f"--logdir={interrupted.stdout.strip()}", "--episodes=4"], []
    for actions in ("mode", "sample", "sample"):
        status, stdout, stderr = run_here([*flags, f"--actions={actions}"], evaluate)
        assert status == 0, stderr
        lines.append(stdout)
    result = json.loads(lines[0])
    assert result["episodes"] == 4
    assert result["mean_return"] > 5
    assert result["std_return"] >= 0
    assert lines[0] != lines[1] == lines[2]
    status, _, stderr = run_here([*flags, "--actions=both"], evaluate)
    assert status == 64 and "--actions" in stderr


def test_a_missing_folder_for_temporary_files_is_reported(monkeypatch):
    def missing():
        raise FileNotFoundError("no usable temporary directory found")

    monkeypatch.setattr(command_line.tempfile, "gettempdir", missing)
    with pytest.raises(SaveError, match="TMPDIR"):
        command_line.import_tensorflow()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--confg=cartpole"], "--confg.*--config"),
        (["--env=CartPole-v1", "--algorithm.epoch=3"], "algorithm.epochs"),
        (["--log_dir=x", "--config=cartpole"], "--logdir"),
        ([], "no environment"),
        (["--resume=nowhere"], "nowhere does not exist"),
        (["--config=tf/cartpole", "--seeds=2"], "each --seed .*several_seeds.py"),
        (["--data=table", "--seeds", "2"], "each --seed .*several_seeds.py"),
    ],
)
def test_bad_input_is_one_line_and_status_64(arguments, message, tmp_path, run_here):
    status, stdout, stderr = run_here(arguments)
    assert status == 64, stderr
    assert stdout == ""
    lines = stderr.strip().splitlines()
    assert len(lines) == 1, stderr
    assert re.search(message, lines[0])
    assert not (tmp_path / "logs").exists()


def test_debug_shows_the_traceback_of_an_error(run_here):
    status, stdout, stderr = run_here(["--config=cartpol", "--debug"])
    assert status == 64
    assert "Traceback" in stderr
    assert stdout == ""


def test_help_lists_every_flag_with_its_default(run_here):
    status, stdout, _ = run_here(["--help"])
    assert status == 0
    assert stdout.startswith("Train an agent")
    for flag in ("--config", "--resume", "--rollout.length"):
        assert flag in stdout
    assert "--algorithm.clip_ratio=0.2" in stdout


@pytest.mark.parametrize("algorithm", REGISTRY)
def test_help_of_training_has_short_groups_and_sorted_names(algorithm, capsys):
    with pytest.raises(SystemExit, match=r"^0$"):
        train.main([f"--algorithm={algorithm}", "--help"])
    _, *groups, algorithms, presets = capsys.readouterr().out.split("\n\n")
    assert groups[0].startswith("general flags")
    assert max(group.count("\n  --") for group in groups) <= 12
    for text, names in {algorithms: REGISTRY, presets: PRESETS}.items():
        listed = text.partition(": ")[2].strip().replace("\n ", "").split(", ")
        assert listed == sorted(names)


def test_an_environment_that_fails_is_status_70_with_its_traceback(linear, run_here):
    arguments = [*faulty(mode="exc", step=5), "--num_envs=1", *QUICK[2:]]
    status, _, stderr = run_here(arguments)
    assert status == 70, stderr
    assert "env 0 (worker 0" in stderr
    assert "fault_env.py" in stderr  # where it was raised


def test_ctrl_c_ends_asynchronous_training_and_all_its_processes(tmp_path):
    flags = [x.replace("linear", "queued") for x in QUICK if "rollout" not in x]
    with training(tmp_path, flags) as process:
        children = psutil.Process(process.pid).children(recursive=True)
        begin = time.monotonic()
        os.kill(process.pid, signal.SIGINT)
        _, stderr = process.communicate(timeout=60)
        assert time.monotonic() - begin < 10, stderr
    assert process.returncode == 130, stderr
    assert "Traceback" not in stderr
    assert children and not psutil.wait_procs(children, timeout=10)[1]
    assert newest_step(tmp_path) > 0


@pytest.mark.any_backend
def test_sigterm_to_all_processes_saves_in_time_although_a_step_hangs(tmp_path):
    flags = [*faulty(mode="hang", episode=9), "--num_envs=1", *QUICK[2:]]
    with training(tmp_path, flags) as process:
        children = psutil.Process(process.pid).children(recursive=True)
        assert children
        for each in (*children, process):
            os.kill(each.pid, signal.SIGTERM)
        # Kubernetes kills after 30 s; this machine may be busy.
        _, stderr = process.communicate(timeout=25)
    assert process.returncode == 128 + signal.SIGTERM, stderr
    assert "Traceback" not in stderr
    assert newest_step(tmp_path) > 0


# A script without TensorFlow that ends in different ways.
SCRIPT = """
import errno, os, signal, sys
from tfagents_batch.scripts import command_line

def main(argv):
    {}

sys.exit(command_line.run(main))
"""


def test_a_closed_stderr_is_not_a_failure_even_while_tensorflow_is_imported():
    body = "command_line.import_tensorflow(); print('progress', file=sys.stderr); "
    body += "command_line.show('a result'); return 0"
    fake = "command_line.importlib.import_module = lambda name: None\nsys.exit"
    script = SCRIPT.format(body).replace("sys.exit", fake)
    done = run(["sh", "-c", '"$@" 2>&-', "sh", sys.executable, "-c", script])
    assert (done.returncode, done.stdout) == (0, "a result\n")


def test_a_closed_stdout_is_not_a_failure():
    script = [
        sys.executable,
        "-c",
        SCRIPT.format("command_line.show('a result'); return 0"),
    ]
    closed = subprocess.run(
        ["sh", "-c", '"$@" >&-', "sh", *script], stderr=subprocess.PIPE, timeout=60
    )
    assert (closed.returncode, closed.stderr) == (0, b"")
    reader, unread = os.pipe()
    os.close(reader)
    with open(unread, "wb") as pipe, open("/dev/full", "wb") as full:
        for stdout in (pipe, full):
            done = subprocess.run(
                script, stdout=stdout, stderr=subprocess.PIPE, timeout=60
            )
            assert done.returncode == 0
            assert b"stdout cannot be written" in done.stderr
            assert b"a result" in done.stderr


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ("os.kill(os.getpid(), signal.SIGTERM)", 143, "interrupted"),
        ("os.kill(os.getpid(), signal.SIGHUP)", 129, "interrupted"),
        ("os.kill(os.getpid(), signal.SIGINT)", 130, "interrupted"),
        ("raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))", 64, "ulimit -n"),
        ("raise RuntimeError(os.strerror(errno.ENFILE))", 64, "ulimit -n"),
    ],
)
def test_an_expected_error_is_one_line_and_an_exit_status(body, status, message):
    done = run([sys.executable, "-c", SCRIPT.format(body)])
    assert done.returncode == status, done.stderr
    (line,) = done.stderr.splitlines()
    assert message in line


def test_sigusr1_before_training_is_harmless():
    done = run(
        [sys.executable, "-c", SCRIPT.format("os.kill(os.getpid(), signal.SIGUSR1)")]
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_ctrl_c_while_a_reset_hangs_ends_without_a_traceback(tmp_path):
    flags = [*faulty(mode="hang", phase="reset"), "--num_envs=1", *QUICK[2:]]
    soon = "from tfagents_batch.training import signals\n"
    soon += "signals.GRACE_SECONDS = 1.0\n"
    # The log is created just before the first reset.
    with training(tmp_path, flags, "metrics.jsonl", soon) as process:
        os.kill(process.pid, signal.SIGINT)
        _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    assert "Traceback" not in stderr
