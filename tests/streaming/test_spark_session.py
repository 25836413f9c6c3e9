"""What Java is started with.

What a program must not wait for when it starts.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from tests.connector.shop import Shop

PATIENCE_S = 600
"""For a program with Spark, on a machine that others use too."""

SCRIPT = """
import sys
from binlog_streaming.spark_session import local_session
spark = local_session("test", settings=dict(argument.split("=", 1) for argument in sys.argv[1:]))
beans = spark._jvm.java.lang.management.ManagementFactory.getGarbageCollectorMXBeans()
print(*sorted(bean.getName() for bean in beans), sep="|")
"""


@pytest.mark.thorough
@pytest.mark.spark
@pytest.mark.parametrize(
    ("options", "collectors"),
    [
        pytest.param("", "PS MarkSweep|PS Scavenge", id="ours"),
        pytest.param("-Xss4m -XX:+UseSerialGC", "Copy|MarkSweepCompact", id="the user's"),
    ],
)
def test_a_user_s_garbage_collector_stands_alone(options: str, collectors: str) -> None:
    command = [sys.executable, "-c", SCRIPT, f"spark.driver.extraJavaOptions={options}"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE_S).stdout
    assert printed.strip() == collectors


WORKERS = """
import os, sys, psutil
from binlog_streaming.spark_session import local_session
spark = local_session("test", master="local[1]")
rows = spark.read.format("binlog-stream").load(sys.argv[1]).count()
origin = spark.sparkContext.parallelize([0], 1).map(lambda _: __import__("pyspark").__file__).first()
java = [process for process in psutil.Process().children(recursive=True) if process.name() == "java"]
commands = [child.as_dict(["cmdline"])["cmdline"] or [] for process in java for child in process.children()]
print(rows > 0, sum(command[-1:] == ["pyspark.worker"] for command in commands), origin, os.environ.get("SPARK_HOME"))
"""


@pytest.mark.thorough
@pytest.mark.spark
@pytest.mark.parametrize("path", ["", "/nowhere"])
def test_the_same_workers_read_and_write_with_the_installed_pyspark(tmp_path: Path, path: str) -> None:
    with Shop(tmp_path / "log") as shop:
        shop.sell(10)
    environment = os.environ | {"PYTHONPATH": path}
    environment.pop("SPARK_HOME", None)
    made = _run(WORKERS, str(tmp_path / "log"), environment=environment)
    assert made.split("\n")[0].split() == ["True", "1", pyspark.__file__, "None"]


CLASS_PATH = """
from binlog_streaming.spark_session import local_session
print(local_session("test", master="local[1]").sparkContext._jvm.System.getProperty("java.class.path"))
"""


@pytest.mark.spark
def test_class_path_stays_when_java_has_ended(tmp_path: Path) -> None:
    """Java passes over its record of classes when their files are not where they were."""
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path)}
    environment.pop("SPARK_HOME", None)
    paths = [Path(text) for text in _run(CLASS_PATH, environment=environment).strip().split(os.pathsep)]
    jars = [path for path in paths if path.suffix == ".jar"]
    assert jars
    assert all(jar.is_relative_to(tmp_path) and jar.exists() for jar in jars)


@pytest.mark.spark
def test_spark_starts_without_a_folder_that_it_may_write_to(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "file")}
    environment.pop("SPARK_HOME", None)
    assert ".jar" in _run(CLASS_PATH, environment=environment)


def _run(program: str, *arguments: str, environment: dict[str, str]) -> str:
    command = [sys.executable, "-c", program, *arguments]
    made = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE_S, env=environment)
    return made.stdout


def test_a_start_that_fails_names_java(tmp_path: Path) -> None:
    environment = os.environ | {"JAVA_HOME": str(tmp_path / "none")}
    environment.pop("SPARK_HOME", None)
    program = "from binlog_streaming.spark_session import local_session; local_session('test')"
    made = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, env=environment)
    assert "BINLOG_MACHINE.NO_JAVA" in made.stderr


@pytest.mark.parametrize(
    "module",
    ["binlog_streaming.cli.jobs.mirror", "binlog_streaming.tables.job", "binlog_connector.spark.stream_reader"],
)
def test_pandas_is_not_imported(module: str) -> None:
    """It takes longer than all else; PyArrow does it where a scalar or an array is made of Python's values."""
    script = f"import sys, {module}; sys.exit('pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
