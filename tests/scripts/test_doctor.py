"""The doctor: what it finds, and that it neither hangs nor crashes with the patient."""

import json
import os
import subprocess
import sys
from importlib import metadata

import pytest

from tfagents_batch.errors import UserError
from tfagents_batch.scripts import app, doctor
from tfagents_batch.training import examine
from tfagents_batch.training.examine import FAILED, OK, WARNING, Finding


def test_here_everything_works_with_or_without_a_compiler():
    command = [sys.executable, "-m", "tfagents_batch.scripts.doctor", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout)
    assert told["ok"] is True
    found = {each["name"]: each for each in told["findings"]}
    assert {*examine.LOOKS} - {"packages"} <= set(found)
    assert found["tensorflow"]["text"].startswith(metadata.version("tensorflow"))
    for name in ("python", "numpy", "keras", "gymnasium", "operations", "workers"):
        assert found[name]["state"] == OK, found[name]
    route = "native" if found["engine"]["state"] == OK else "portable"
    assert route in found["workers"]["text"]


def test_without_a_compiler_there_is_a_warning_and_advice(monkeypatch, tmp_path):
    monkeypatch.setenv("CXX", "/nonexistent")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (finding,) = doctor.look("engine", 200)
    assert finding.state == WARNING
    assert "CXX is '/nonexistent'" in finding.text
    assert "compiler" in finding.advice


def test_a_look_that_hangs_is_ended_with_its_children(monkeypatch, tmp_path):
    """The child that its process starts holds a pipe until it is gone."""
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    code = "import subprocess; subprocess.run(['tail', '-f', '/dev/null'])"
    fake(monkeypatch, tmp_path, f'exec {sys.executable} -c "{code}"')
    popen = subprocess.Popen

    def inheriting(*args, **kwargs):
        return popen(*args, **kwargs, pass_fds=[writing])

    monkeypatch.setattr(subprocess, "Popen", inheriting)
    (finding,) = doctor.look("workers", 1.0)
    os.close(writing)
    assert finding.state == FAILED
    assert finding.text == "took longer than 1 s"
    with os.fdopen(reading) as pipe:
        assert pipe.read() == ""  # everybody who could write has ended


def test_a_crash_is_a_finding(monkeypatch, tmp_path):
    fake(monkeypatch, tmp_path, "kill -SEGV $$")
    (finding,) = doctor.look("operations", 60)
    assert (finding.name, finding.state) == ("operations", FAILED)
    assert "status -11" in finding.text


def test_an_exception_is_told_by_its_last_line(monkeypatch, tmp_path):
    fake(monkeypatch, tmp_path, "echo ImportError: no libfoo.so >&2; exit 1")
    (finding,) = doctor.look("operations", 60)
    assert finding.text == "ImportError: no libfoo.so"
    assert "tfagents_batch.training.examine 'operations'" in finding.advice


def fake(monkeypatch, folder, script):
    """Put a shell script in the place of the interpreter."""
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    monkeypatch.setattr(doctor.sys, "executable", str(path))


@pytest.mark.parametrize(
    ("version", "wanted", "expected"),
    [
        ("3.11.4", ">=3.11,<3.14", True),
        ("3.10.12", ">=3.11,<3.14", False),
        ("3.14.0", "<3.14,>=3.11", False),
        ("2.21.0", ">=2.21,<2.22", True),
        ("2.22.0rc1", ">=2.21,<2.22", False),
        ("0.26.2", "==0.26.2", True),
        ("2.1", "!=2.1.0", False),
        ("1.0", "", True),
    ],
)
def test_ranges_of_versions(version, wanted, expected):
    assert examine.within(version, wanted) is expected


def test_a_package_of_another_version_says_what_to_install(monkeypatch):
    needed = ["numpy>=1.26", "rich>=99", "no-such-package", 'gym; extra == "gym"']
    monkeypatch.setattr(metadata, "requires", lambda name: needed)
    missing, numpy, rich = examine.packages()
    assert missing == Finding(
        "no-such-package", FAILED, "is missing", 'pip install "no-such-package"'
    )
    assert numpy.state == OK
    assert rich.state == FAILED
    assert rich.advice == 'pip install "rich>=99"'


def test_extras_are_those_of_the_package(monkeypatch):
    declared = set(metadata.metadata("tfagents_batch").get_all("Provides-Extra"))
    assert {*examine.EXTRAS} == declared - {"dev", "bench"}
    monkeypatch.setattr(examine, "EXTRAS", {"a": ("json",), "b": ("no_such",)})
    (finding,) = examine.extras()
    assert finding.text == "a; not installed: b"


def test_the_table_has_a_row_a_finding_and_says_what_to_do(monkeypatch, capsys):
    found = {
        "one": Finding("one", OK, "fine"),
        "two": Finding("two", WARNING, "so", "do"),
    }
    monkeypatch.setattr(doctor, "look", lambda name, seconds: [found[name]])
    monkeypatch.setattr(examine, "LOOKS", found)
    assert doctor.main([]) == 0
    out = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in out[:2]] == [["ok", "one"], ["warning", "two"]]
    assert out[2].strip() == "do"
    assert out[-1] == "all is well, but see two"
    found["one"] = Finding("one", FAILED, "broken", "mend it")
    assert doctor.main([]) == app.EXIT_DATA
    assert capsys.readouterr().out.endswith("training does not work here: see one\n")


def test_a_bad_flag_is_named():
    with pytest.raises(UserError, match="--second"):
        doctor.main(["--second=3"])
