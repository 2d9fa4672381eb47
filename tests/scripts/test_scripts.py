"""The scripts as a shell runs them: their output and exit status."""

import contextlib
import json
import os
import pathlib
import re
import select
import signal
import subprocess
import sys
import time

import psutil
import pytest

from tests.support import fault_env
from tfagents_batch.errors import SaveError, UserError
from tfagents_batch.scripts import app, evaluate, train

TRAIN = [sys.executable, "-m", "tfagents_batch.scripts.train"]
EVALUATE = [sys.executable, "-m", "tfagents_batch.scripts.evaluate"]
QUICK = [
    "--env=CartPole-v1",
    "--num_envs=2",
    "--rollout.length=64",
    "--num_workers=1",
    "--eval_every=0",
    "--compile=off",
    "--algorithm.epochs=1",
    "--algorithm.histograms=false",
]


def faulty(**kwargs):
    """Return the flags of an environment that misbehaves."""
    return f"--env={fault_env.__file__}:FaultEnv", f"--env_kwargs={json.dumps(kwargs)}"


def run(command, **options):
    return subprocess.run(
        command, capture_output=True, text=True, timeout=240, **options
    )


# A package that is not needed cannot be imported while the script trains.
CHECKED = """if True:
    import sys
    sys.path.append(sys.argv.pop())
    from tfagents_batch.scripts import app

    def main(argv):
        assert "matplotlib" not in sys.modules
        from tfagents_batch.scripts import train
        return train.main(argv)

    status = app.run(main, trains=True)
    import matplotlib  # it can still be imported
    sys.exit(status)
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder, logdir = tmp_path_factory.mktemp("jax"), tmp_path_factory.mktemp("logs")
    (folder / "jax.py").write_text("raise RuntimeError('not needed')")
    arguments = [*QUICK, "--steps=1e3", f"--logdir={logdir}", str(folder)]
    done = run([sys.executable, "-c", CHECKED, *arguments])
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture
def run_here(tmp_path, monkeypatch, capfd):
    """Return a function that runs training as a script, but in this process."""
    monkeypatch.chdir(tmp_path)

    def run_here(arguments):
        monkeypatch.setattr(sys, "argv", ["train", *arguments])
        handlers = {x: signal.getsignal(x) for x in (signal.SIGTERM, signal.SIGHUP)}
        try:
            status = app.run(train.main, trains=True)
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
        return status, *capfd.readouterr()

    return run_here


@pytest.mark.any_backend
def test_the_last_line_of_training_is_the_runs_folder(trained):
    lines = trained.stdout.splitlines()
    assert len(lines) == 1
    assert pathlib.Path(lines[0], "config.json").is_file()


def test_a_missing_folder_for_temporary_files_is_reported(monkeypatch):
    def missing():
        raise FileNotFoundError("no usable temporary directory found")

    monkeypatch.setattr(app.tempfile, "TemporaryFile", missing)
    with pytest.raises(SaveError, match="TMPDIR"):
        app.import_tensorflow()


def test_several_seeds_print_the_folder_of_each(linear, tmp_path, capsys):
    flags = ["--env=tf/Bandit-v0", "--num_envs=2", "--rollout.length=8", "--steps=32"]
    flags += [f"--algorithm={linear}", "--eval_every=0", "--compile_cache=false"]
    assert train.main([*flags, "--seeds=2", "--seed=5", f"--logdir={tmp_path}"]) == 0
    folders = capsys.readouterr().out.splitlines()
    assert [folder[-3:] for folder in folders] == ["-s5", "-s6"]
    assert all(pathlib.Path(folder, "config.json").is_file() for folder in folders)


def test_progress_goes_to_stderr_in_plain_lines(trained):
    assert "steps" in trained.stderr
    assert "\x1b" not in trained.stderr
    assert "Traceback" not in trained.stderr
    assert "oneDNN" not in trained.stderr


@pytest.mark.any_backend
def test_evaluation_is_one_json_line(trained):
    folder = trained.stdout.strip()
    done = run([*EVALUATE, f"--logdir={folder}", "--episodes=4"])
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["episodes"] == 4
    assert result["mean_return"] > 5
    assert result["std_return"] >= 0


def test_evaluate_can_sample_actions(trained, capsys):
    folder = trained.stdout.strip()
    lines = []
    for actions in ("mode", "sample", "sample"):
        flags = [f"--logdir={folder}", "--episodes=4", f"--actions={actions}"]
        assert evaluate.main(flags) == 0
        lines.append(capsys.readouterr().out)
    assert lines[0] != lines[1] == lines[2]
    with pytest.raises(UserError, match="--actions"):
        evaluate.main([f"--logdir={folder}", "--actions=both"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--confg=cartpole"], "--confg.*--config"),
        (["--env=CartPole-v1", "--algorithm.epoch=3"], "algorithm.epochs"),
        (["--log_dir=x", "--config=cartpole"], "--logdir"),
        (["--env=CartPool-v1"], "CartPool-v1.*CartPole-v1"),
        ([], "no environment"),
        (["--resume=nowhere", "--logdir=logs"], "logdir"),
        (
            ["--env=CartPole-v1", "--num_workers=1", "--envs_per_worker=2"],
            "num_workers.*envs_per_worker",
        ),
        (
            ["--env=tf/CartPole-v1", "--seeds=2", "--resume=logs"],
            "resume cannot be used with several seeds",
        ),
        (["--env=CartPole-v1", "--seeds=2"], "seeds"),
        (["--env=tf/CartPole-v1", "--seeds=2", "--init_from=x"], "init_from cannot"),
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


def test_threads_are_set_in_time(trained):
    assert "1 thread of TensorFlow" in trained.stderr
    assert "too late" not in trained.stderr


def test_debug_shows_the_traceback_of_an_error(run_here):
    status, stdout, stderr = run_here(["--config=cartpol", "--debug"])
    assert status == 64
    assert "Traceback" in stderr
    assert stdout == ""


def test_help_lists_every_flag_with_its_default_even_without_stderr():
    done = run(["sh", "-c", " ".join([*TRAIN, "--help", "2>&-"])])
    assert done.returncode == 0
    for flag in ("--config", "--resume", "--rollout.length", "--algorithm.clip_ratio"):
        assert flag in done.stdout
    assert "0.2" in done.stdout


@pytest.mark.any_backend
def test_an_environment_that_fails_is_status_70_with_its_traceback(linear, run_here):
    arguments = [*faulty(mode="exc", step=5), "--num_envs=1", f"--algorithm={linear}"]
    arguments += [flag for flag in QUICK[2:] if "algorithm" not in flag]
    status, _, stderr = run_here(arguments)
    assert status == 70, stderr
    assert "env 0 (worker 0" in stderr
    assert "fault_env.py" in stderr  # where it was raised


@contextlib.contextmanager
def training(folder, flags=QUICK):
    """Yield a process that trains without end, after its first iteration."""
    command = [*TRAIN, *flags, "--steps=1e9", "--logdir=logs"]
    process = subprocess.Popen(
        command,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        # A checkpoint follows the first iteration.
        deadline = time.monotonic() + 120
        while not list(folder.glob("logs/*/checkpoints/step-*[0-9]")):
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


@pytest.mark.any_backend
def test_ctrl_c_saves_and_the_run_can_be_resumed(tmp_path):
    with training(tmp_path) as process:
        os.kill(process.pid, signal.SIGINT)
        stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    assert "Traceback" not in stderr
    step = newest_step(tmp_path)
    folder = tmp_path / stdout.strip()
    assert train.main([f"--resume={folder}", f"--steps={step + 9}"]) == 0
    assert newest_step(tmp_path, "finished") > step


def test_ctrl_c_ends_asynchronous_training_and_all_its_processes(tmp_path):
    flags = ["--algorithm=ga3c", *(x for x in QUICK if "." not in x)]
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


# tests/training/runtime/test_signals.py: SIGHUP stops as other signals do; below: a
# closed stdout is not a failure.
@pytest.mark.slow
def test_a_closed_terminal_saves(tmp_path):
    with training(tmp_path) as process:
        process.stdout.close()
        process.stderr.close()
        os.kill(process.pid, signal.SIGHUP)
        assert process.wait(timeout=60) == 128 + signal.SIGHUP
    assert newest_step(tmp_path) > 0


# A script without TensorFlow that ends in different ways.
SCRIPT = """
import errno, os, signal, sys
from tfagents_batch.scripts import app

def main(argv):
    {}

sys.exit(app.run(main, tensorflow=False))
"""


def test_a_closed_stdout_is_not_a_failure():
    script = [sys.executable, "-c", SCRIPT.format("app.show('a result'); return 0")]
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
        ("raise OSError(errno.EMFILE, 'Too many open files')", 64, "ulimit -n"),
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


@pytest.mark.any_backend
def test_ctrl_c_while_a_reset_hangs_ends_without_a_traceback(tmp_path):
    arguments = [*faulty(mode="hang", phase="reset"), "--num_workers=1", "--num_envs=1"]
    process = subprocess.Popen(
        [*TRAIN, *arguments, "--eval_every=0"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        logs = tmp_path / "logs"
        deadline = time.monotonic() + 60
        # The log is created just before the first reset.
        while not list(logs.glob("*/metrics.jsonl")):
            assert time.monotonic() < deadline
            select.select([], [], [], 0.05)
        os.kill(process.pid, signal.SIGINT)
        _, stderr = process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 130, stderr
    assert "Traceback" not in stderr
