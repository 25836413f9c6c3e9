"""A Spark session for small batches: `local_session` starts it, `kill_java` ends it while it starts.

Under `spark-submit` Java runs already: then what was submitted with counts before anything set here.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import sys
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pyspark
from pyspark import SparkConf, SparkContext
from pyspark.errors import AnalysisException, PySparkException, PySparkRuntimeError
from pyspark.sql import SparkSession

from binlog_connector.installing import require_java
from binlog_format.errors import OptionError, storage_error
from binlog_format.messages import SHOW_VALUES, shows_values, visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from py4j.java_gateway import JVMView

# Spark reads Arrow value by value; Arrow's own checks before each take a quarter of the time that the JVM needs for a
# row. (What a user wants goes into `extraJavaOptions`.)
_DEFAULT_JAVA_OPTIONS = "spark.driver.defaultJavaOptions"
_JAVA_OPTIONS = "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"

_FILE_MANAGER_PACKAGE = "org.apache.spark.sql.execution.streaming" + (
    "" if pyspark.__version__.startswith("4.0.") else ".checkpointing"
)

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    # A task in Python costs tens of milliseconds, even an empty one; adaptive planning would cost more than it saves.
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    # A worker keeps compiled kernels and open libraries from batch to batch.
    "spark.python.worker.reuse": "true",
    # Over TCP a task waits 40 ms, more than most of them work: what Nagle's algorithm holds back is not acknowledged
    # earlier. (Spark 4.0 does not know the setting.)
    "spark.python.unix.domain.socket.enabled": "true",
    # Spark's default starts ten processes (chmod, readlink) for each small file that it writes on a local disk, twenty
    # in a micro-batch: a tenth of a second. This one starts four, and renames a finished file into place just so.
    "spark.sql.streaming.checkpointFileManagerClass": f"{_FILE_MANAGER_PACKAGE}.FileSystemBasedCheckpointFileManager",
    # It differs between SQL and RDDs, and would keep each from taking the other's workers.
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    _DEFAULT_JAVA_OPTIONS: _JAVA_OPTIONS,
}

PLANNING_ONLY = {
    # Compiling Java code as well as it can be would take a sixth of the processor time that the rows take, for minutes.
    # Without room for classes Java would collect garbage at its start, several times. With it Java has a fifth of the
    # usual room for what it has compiled, which plans of tables fill in minutes: then it sweeps, and compiles again.
    _DEFAULT_JAVA_OPTIONS: (
        f"{_JAVA_OPTIONS} -XX:TieredStopAtLevel=1 -XX:MetaspaceSize=256m -XX:ReservedCodeCacheSize=240m"
    )
}
"""Settings of a session that no rows pass through: Java plans batches and starts tasks, Python reads and writes."""

# A worker takes the same large arrays again and again. The C library would give each one back to the system, which
# clears it before it gives it out again: a tenth of the time in which a worker writes tables, or more. Arrow's own
# allocator does that too, and what it keeps NumPy cannot take; threads with memory of their own, as they have by
# default, would double what a worker holds. (For all that the session starts: workers with an environment of their own
# would not be shared by all kinds of tasks.)
_ENVIRONMENT = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_ARENA_MAX": "2",
    "MALLOC_MMAP_THRESHOLD_": str(256 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 30),
}

# The machine's host name may not resolve; a local session needs no other address.
_LOCAL = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
_CLUSTER = {f"spark.executorEnv.{name}": value for name, value in _ENVIRONMENT.items()}

_SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""Environment variable in which `spark-submit` tells Python where its Java is."""

_HOME_FOLDERS = ("bin", "conf", "jars")
"""Folders of an installed PySpark from which Java is started."""

# What rows leave behind is short-lived, and little: without the barriers that Java's default collector needs, a row
# takes a tenth less. Two collectors are one too many for Java, so a user's choice stands alone.
_COLLECTOR = "-XX:+UseParallelGC"
_ANY_COLLECTOR = re.compile(r"-XX:\+Use\w*GC\b")
_JAVA_OPTION_SETTINGS = (_DEFAULT_JAVA_OPTIONS, "spark.driver.extraJavaOptions")
_JAVA_OPTION_VARIABLES = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")


def local_session(
    name: str, *, master: str = "local[2]", settings: Mapping[str, str] | None = None, log_file: Path | None = None
) -> SparkSession:
    """Start a session (or take the one that this process has).

    It leaves behind what its workers are started with in this process's environment. Settings of `spark-submit` win
    over all that is given here.

    Args:
        settings: Spark settings; they win over `SETTINGS`.
        log_file: Where everything goes that Spark and its workers print; None: to standard error.
    """
    submitted = _submitted_settings()
    _set_environment(is_submitted=bool(submitted))
    by_place = _LOCAL if submitted.get("spark.master", master).startswith("local") else _CLUSTER
    if shows_values():
        by_place = {**by_place, f"spark.executorEnv.{SHOW_VALUES}": "1"}
    chosen = {"spark.master": master, "spark.app.name": visible(name), **SETTINGS, **by_place, **(settings or {})}
    builder = SparkSession.builder
    for key, value in _with_collector(chosen).items():
        if key not in submitted:
            builder = builder.config(key, value)
    try:
        with _standard_error_to(log_file), _own_interrupt_handler(), _home_without_archives(master):
            session = builder.getOrCreate()
    except (PySparkException, PySparkRuntimeError) as error:
        require_java()
        where = f"; its messages are in {log_file}" if log_file is not None else ""
        raise OptionError(
            "INVALID_VALUE",
            f"Spark does not start: {str(error).splitlines()[0]}{where}",
            hint="It needs Java 17 or newer, a user whom getent passwd knows, and settings ([spark]) that it takes",
        ) from error
    jvm = session.sparkContext._jvm
    assert jvm is not None
    _share_workers(session, jvm)
    if submitted:
        _register_source(session)
    return session


LOG_SIZE_MAX = 4 << 20
"""Bytes of Spark's messages in a file; the file before it is kept, too."""


def bound_log(log_file: Path | None) -> None:
    """Move the messages in Spark's file into the one before it, if there are many; Java goes on in the same file."""
    if log_file is None or not log_file.exists() or log_file.stat().st_size < LOG_SIZE_MAX:
        return
    with log_file.open("rb") as file, os.fdopen(_private(log_file.with_name(f"{log_file.name}.1")), "wb") as before:
        before.truncate(0)
        shutil.copyfileobj(file, before)
    os.truncate(log_file, 0)


def _private(path: Path) -> int:
    """A descriptor of a file that is this user's alone, at its end; no link of somebody else's is followed."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        return os.open(path, flags, 0o600)
    except OSError as error:
        raise storage_error(path, "write", error) from error


def is_submitted() -> bool:
    """True if `spark-submit` started this process; Spark's messages are where it writes its own."""
    return _SUBMITTED in os.environ


def _submitted_settings() -> dict[str, str]:
    """Settings of `spark-submit`; none if it was not used."""
    if not is_submitted():
        return {}
    SparkContext._ensure_initialized()
    settings = dict(SparkConf().getAll())
    if settings.get("spark.app.name") == Path(sys.argv[0]).name:
        del settings["spark.app.name"]  # what it calls a job without --name
    return settings


def _register_source(session: SparkSession) -> None:
    # Spark looks for sources with the Python that was there when Java started, which may have another one's packages.
    from binlog_connector.spark.source import BinlogDataSource

    try:
        session.dataSource.register(BinlogDataSource)
    except AnalysisException as error:
        if "DATA_SOURCE_ALREADY_EXISTS" not in str(error):  # PySpark 4.0, where it has found it
            raise


def _set_environment(*, is_submitted: bool) -> None:
    # Without these Spark takes `python3` from PATH, which has none of our packages.
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        if not (is_submitted and name in os.environ):
            os.environ[name] = sys.executable
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)


def kill_java() -> None:
    """SIGKILL to Java, and to all else that this process has started for Spark.

    For a signal that comes while Spark starts. Java may not end by itself then: it does not notice that we end before
    it has a connection; and SIGTERM, which a terminal or a service manager gives it too, makes it wait for its start,
    while its start waits for what it has stopped. Who waits here for its answer goes on when it is dead.
    """
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            process.kill()


def _share_workers(session: SparkSession, jvm: JVMView) -> None:
    # Java keeps the workers of each environment apart, and gives functions of a data source another one than those of
    # RDDs, though both come to the same in the processes: what reads the log and what writes the tables would each have
    # workers of its own, to start and to load everything in.
    paths = (jvm.org.apache.spark.api.python.PythonUtils.sparkPythonPath(), os.environ.get("PYTHONPATH"))
    environment = session.sparkContext.environment
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    environment.pop("PYTHONHASHSEED", None)


def _with_collector(settings: dict[str, str]) -> dict[str, str]:
    options = [settings.get(key, "") for key in _JAVA_OPTION_SETTINGS]
    options += [os.environ.get(name, "") for name in _JAVA_OPTION_VARIABLES]
    if _ANY_COLLECTOR.search(" ".join(options)):
        return settings
    return settings | {_DEFAULT_JAVA_OPTIONS: f"{settings[_DEFAULT_JAVA_OPTIONS]} {_COLLECTOR}"}


@contextmanager
def _home_without_archives(master: str) -> Iterator[None]:
    # Spark puts the archive `python/lib/pyspark.zip` of its home in front of the path of each Python process. Python
    # keeps nothing of what it compiles from an archive: until the first batch is done, seven processes would compile
    # PySpark anew, a second of processor time for each. What starts Java in here gets a home of links, without that
    # folder; so its Python processes take PySpark from where this one has it, compiled.
    home = None
    if "SPARK_HOME" not in os.environ and SparkContext._gateway is None and master.startswith("local"):
        home = _home_of_links(Path(pyspark.__file__).parent)
    if home is None:
        yield
        return
    os.environ["SPARK_HOME"] = str(home)
    try:
        yield
    finally:
        del os.environ["SPARK_HOME"]


def _home_of_links(installed: Path) -> Path | None:
    # The same folder each time: Java takes nothing from a record of classes whose class path has gone.
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    home = cache / "binlog-stream" / f"spark-{hashlib.sha256(bytes(installed)).hexdigest()[:12]}"
    try:
        home.mkdir(parents=True, exist_ok=True)
        for name in _HOME_FOLDERS:
            with suppress(FileExistsError):
                (home / name).symlink_to(installed / name)
    except (OSError, RuntimeError):  # a user without a home, or who may not write there: Spark starts more slowly
        return None
    return home


@contextmanager
def _own_interrupt_handler() -> Iterator[None]:
    # Spark takes SIGINT for itself: it cancels all jobs and raises KeyboardInterrupt. That is for the caller to decide.
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, handler)


@contextmanager
def _standard_error_to(log_file: Path | None) -> Iterator[None]:
    # The Java process inherits our standard error for good when it starts; so ours is another one just then.
    if log_file is None:
        yield
        return
    bound_log(log_file)
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with os.fdopen(_private(log_file), "ab") as file:
            os.dup2(file.fileno(), 2)
            try:
                yield
            finally:
                os.dup2(kept, 2)
    finally:
        os.close(kept)
