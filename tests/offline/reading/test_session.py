"""What Spark needs, and what is said where it is missing."""

import os
import sys
from unittest import mock

import pytest

from tfagents_batch.errors import UserError
from tfagents_batch.offline.reading import session


@pytest.fixture
def program(tmp_path):
    """Return a function that writes a program which prints a text."""

    def write(name, text, status=0):
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\necho '{text}' >&2\nexit {status}\n")
        path.chmod(0o755)
        return path

    return write


def test_the_session_of_spark_submit_is_used(monkeypatch):
    sql = mock.MagicMock()
    sql.SparkSession.getActiveSession.return_value = None
    monkeypatch.setattr(session, "_import", lambda: sql)
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert session.is_given()  # so that the memory of this machine does not matter
    with session.started() as found:
        assert found is sql.SparkSession.builder.getOrCreate.return_value
    found.stop.assert_not_called()


def test_a_machine_without_java_is_refused(tmp_path, monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    text = (
        "needs Java 17 or later, and there is no java in PATH; install it .*JAVA_HOME"
    )
    with pytest.raises(UserError, match=text):
        session.check_java()


@pytest.mark.parametrize(
    "version, message",
    [
        ('openjdk version "1.8.0_392"', r"but .*/bin/java is Java 8; install it"),
        ('openjdk version "11.0.21" 2023-10-17', "is Java 11; install it"),
        ("nonsense", "is no version of Java"),
    ],
)
def test_an_old_java_is_refused(program, tmp_path, monkeypatch, version, message):
    program("java", version)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(UserError, match=message) as caught:
        session.check_java()
    assert "\n" not in str(caught.value)


def test_a_java_that_fails_or_is_missing_is_refused(program, tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(UserError, match=r"it cannot be run .*No such file"):
        session.check_java()
    program("java", "broken", status=3)
    with pytest.raises(UserError, match=r"it fails with status 3 \(broken\)"):
        session.check_java()


@pytest.mark.parametrize("version", ["17.0.15", "21.0.2", "25"])
def test_a_java_that_is_new_enough_is_accepted(program, tmp_path, monkeypatch, version):
    program("java", f'openjdk version "{version}"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    session.check_java()


def test_another_version_of_python_is_refused(program, monkeypatch):
    path = program("python", "")
    path.write_text("#!/bin/sh\necho 3.9\n")
    monkeypatch.setenv("PYSPARK_PYTHON", str(path))
    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    text = (
        f"PYSPARK_PYTHON is {path}, which is Python 3.9; expected Python {here}; unset"
    )
    with pytest.raises(UserError, match=text):
        session.check_python()
    monkeypatch.setenv("PYSPARK_PYTHON", f"{path}-none")
    with pytest.raises(UserError, match="it cannot be run"):
        session.check_python()
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    session.check_python()


def test_without_pyspark_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark", None)
    text = r'Spark needs PySpark 4 .*; pip install "tfagents_batch\[spark\]"'
    with pytest.raises(UserError, match=text), session.started():
        pass
    assert "PYSPARK_GATEWAY_PORT" not in os.environ
