"""Spark of this machine or a cluster, started for one piece of work.

Everything that Spark writes beside its results lies in a temporary folder, and its
process ends with the session.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tfagents_batch.errors import UserError, headline
from tfagents_batch.offline.publish import Scratch

EXTRA = 'pip install "tfagents_batch[spark]"'
_JAVA = 17  # oldest version for Spark 4
_WAIT_SECONDS = 8  # for another program to say its version
_END_SECONDS = 10
_LOGGERS = "SQLQueryContextLogger", "DataFrameQueryContextLogger"
# Spark's messages have many lines; errors reach the user as exceptions.
_LOG4J = "rootLogger.level = off\n"


@contextlib.contextmanager
def started(master: str = "local[*]", memory: str = "2g") -> Iterator[Any]:
    """Start Spark and yield its session; or yield the active session, which stays.

    In a program of spark-submit, the session is that of its cluster, and stays, too.
    UserError without PySpark 4 or Java 17, or if ``PYSPARK_PYTHON`` is another version.

    Args:
      master: "local[2]" for two threads of this machine, or the address of a cluster.
      memory: heap of the driver, such as "2g".
    """
    sql = _import()
    if is_given():
        builder = sql.SparkSession.builder
        yield sql.SparkSession.getActiveSession() or builder.getOrCreate()
        return
    check_java()
    check_python()
    with contextlib.closing(Scratch()) as scratch:
        with _quiet("py4j"):  # a Ctrl-C meanwhile
            gateway, session = _start(sql, master, memory, Path(scratch.name))
        try:
            with _quiet(*_LOGGERS):
                yield session
        except BaseException as error:
            if not isinstance(error, Exception):  # a signal: a query is running
                gateway.proc.kill()
            raise
        finally:
            _stop(session, gateway)


def is_given() -> bool:
    """Return whether ``started`` would yield a session that something else started."""
    if "PYSPARK_GATEWAY_PORT" in os.environ:  # spark-submit has started Java
        return True
    sql = sys.modules.get("pyspark.sql")
    return sql is not None and sql.SparkSession.getActiveSession() is not None


def check_java() -> None:
    """Check that Java 17 or later is there; raise a UserError with what is found."""
    home = os.environ.get("JAVA_HOME")
    command = str(Path(home, "bin/java")) if home else shutil.which("java")
    what = f"Spark needs Java {_JAVA} or later"
    advice = (
        f"install it (Debian: apt-get install openjdk-{_JAVA}-jre-headless), or set "
        "JAVA_HOME to its folder"
    )
    if command is None:
        raise UserError(f"{what}, and there is no java in PATH; {advice}")
    text = _output([command, "-version"], f"{what}, and {{}}; {advice}")
    match = re.search(r'version "(?:1\.)?(\d+)', text)
    if not match or int(match[1]) < _JAVA:
        version = f"Java {match[1]}" if match else "no version of Java"
        raise UserError(f"{what}, but {command} is {version}; {advice}")


def check_python() -> None:
    """Check that ``PYSPARK_PYTHON``, if it is set, has the version of this process."""
    command = os.environ.get("PYSPARK_PYTHON")
    if not command:
        return
    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    advice = f"expected Python {here}; unset it, or set it to {sys.executable}"
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    asked = [command, "-c", code]
    version = _output(asked, f"PYSPARK_PYTHON is {command}, and {{}}; {advice}").strip()
    if version != here:
        raise UserError(
            f"PYSPARK_PYTHON is {command}, which is Python {version:.20}; {advice}"
        )


def _import() -> Any:
    """Import PySpark, which must be there and new enough."""
    try:
        # It is for users of pandas in Spark, and comes again with each late import.
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas")
        import pyspark
        from pyspark import sql
    except ImportError as error:
        raise UserError(f"Spark needs PySpark 4 ({error}); {EXTRA}") from None
    if int(pyspark.__version__.partition(".")[0]) < 4:
        raise UserError(
            f"PySpark {pyspark.__version__} is installed; expected version 4; {EXTRA}"
        )
    return sql


def _output(command: list[str], failure: str) -> str:
    """Return what a program prints; UserError ``failure`` with the reason as ``{}``."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=_WAIT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        reason = headline(error)
        raise UserError(failure.format(f"it cannot be run ({reason})")) from None
    if done.returncode:
        first = headline(done.stdout)
        reason = f"it fails with status {done.returncode} ({first})"
        raise UserError(failure.format(reason))
    return done.stdout


def _start(sql: Any, master: str, memory: str, folder: Path) -> tuple[Any, Any]:
    """Return the gateway to a new process of Spark, and a session of it."""
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException
    from pyspark.java_gateway import launch_gateway

    (folder / "log4j2.properties").write_text(_LOG4J)
    derby = f"jdbc:derby:;databaseName={folder / 'metastore'};create=true"
    settings = {
        "spark.master": master,
        "spark.app.name": "tfagents_batch",
        "spark.driver.memory": memory,
        # The default collector needs a fifth more time here. Spark's classes need more
        # than the default of 21 MB, and each of its growths collects the whole heap.
        "spark.driver.extraJavaOptions": "-XX:+UseParallelGC -XX:MetaspaceSize=256m "
        f"-XX:-UsePerfData -Djava.io.tmpdir={folder} -Dderby.system.home={folder} "
        f"-Dlog4j2.configurationFile={folder / 'log4j2.properties'}",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.hadoop.javax.jdo.option.ConnectionURL": derby,
        "spark.sql.session.timeZone": "UTC",
    }
    if master.startswith("local"):
        settings |= {
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.local.dir": str(folder),
        }
    conf = SparkConf(loadDefaults=False)
    for name, value in settings.items():
        conf.set(name, value)
    is_main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGINT) if is_main else None
    log = folder / "stderr.txt"
    try:
        with log.open("w") as errors:
            gateway = launch_gateway(conf, {"stderr": errors, "stdout": errors})
    except PySparkException as error:
        raise UserError(_failure(error, log)) from None
    try:
        context = SparkContext(conf=conf, gateway=gateway)
        session = sql.SparkSession(context)
        if master.startswith("local"):  # the default of 200 costs more than it helps
            partitions = context.defaultParallelism
            session.conf.set("spark.sql.shuffle.partitions", partitions)
        return gateway, session
    except Exception as error:
        assert gateway.proc is not None
        gateway.proc.kill()
        _forget(gateway)
        raise UserError(_failure(error, log)) from None
    finally:
        if before is not None:  # the handler of Spark stays for ever
            signal.signal(signal.SIGINT, before)


def _failure(error: Exception, log: Path) -> str:
    lines = [x.strip() for x in log.read_text(errors="replace").splitlines()]
    told = [x for x in lines if "rror" in x or "xception" in x]
    told = [x for x in told if not x.endswith(":")]  # the reason is on another line
    line = (told or [headline(error)])[0]
    return f"Spark does not start: {line}; see its configuration"


def _stop(session: Any, gateway: Any) -> None:
    """End a session and its process."""
    with _quiet("py4j"), warnings.catch_warnings(), contextlib.suppress(Exception):
        warnings.simplefilter("ignore")  # the process may have ended already
        session.stop()
    _forget(gateway)


def _forget(gateway: Any) -> None:
    """End the process of Spark, and let the next session start another one."""
    from pyspark import SparkContext

    with contextlib.suppress(Exception):
        gateway.shutdown()
    process = gateway.proc
    process.stdin.close()
    try:
        process.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    SparkContext._gateway = SparkContext._jvm = None


@contextlib.contextmanager
def _quiet(*names: str) -> Iterator[None]:
    """Turn off logs of errors, which are raised as well."""
    loggers = [logging.getLogger(name) for name in names]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)
