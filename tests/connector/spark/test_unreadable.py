"""A log that this user may not read: the error that a query gives, batch and streaming."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

import pytest

from tests.corpus import SERVER_CASES

if TYPE_CHECKING:
    from pathlib import Path

QUERY = textwrap.dedent(
    """
    import os, sys

    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    *paths, checkpoint = sys.argv[1:]
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()

    def first_line(run):
        try:
            run()
        except PySparkException as error:
            return str(error).strip().splitlines()[0]
        return "no error"

    def batch(path):
        spark.read.format("binlog-stream").load(path).count()

    def stream(path):
        frame = spark.readStream.format("binlog-stream").load(path)
        writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
        writer.trigger(availableNow=True).start().awaitTermination()

    for run in batch, stream:
        for path in paths:
            print(first_line(lambda: run(path)))
    """
)


@pytest.fixture
def without_privileges() -> list[str]:
    """What goes before a command so that permissions of files count for it."""
    if os.geteuid() != 0:
        return []
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        pytest.skip("needs a user other than root, or setpriv")
    privileges = "-dac_override,-dac_read_search"
    return [setpriv, f"--bounding-set={privileges}", f"--inh-caps={privileges}"]


@pytest.mark.thorough
@pytest.mark.spark
def test_a_log_that_may_not_be_read_is_named_in_one_line(tmp_path: Path, without_privileges: list[str]) -> None:
    directory, file = tmp_path / "directory", tmp_path / "file"
    for log in directory, file:
        shutil.copytree(SERVER_CASES / "mariadb-10.11" / "rotation", log)
    for path in directory, *file.iterdir():
        path.chmod(0o000)
    try:
        paths = [str(directory), str(file), str(tmp_path / "checkpoint")]
        command = [*without_privileges, sys.executable, "-c", QUERY, *paths]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    finally:
        directory.chmod(0o700)
    of_directory, of_file = told[::2], told[1::2]
    assert len(of_directory) == len(of_file) == 2
    for line in told:
        assert "[BINLOG_PERMISSION.DENIED]" in line
        assert "Permission denied" in line
    assert all(str(directory) in line for line in of_directory)
    assert all(f" {file}/mysql-bin.000001: cannot open it" in line for line in of_file)
