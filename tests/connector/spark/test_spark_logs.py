"""View `logs` in Spark itself: columns, filters that are handed over, and a stream that goes on from its checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from binlog_lab.simulator.structured.program import LoggingProgram
from tests.connector.spark.test_logs import direct
from tests.connector.spark.test_spark import load, rows_of, run_once, stream

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    # PySpark 4.1 leaves the sockets of collected results to the garbage collector.
    pytest.mark.filterwarnings("ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"),
]


def test_batches_and_streams_give_the_log(spark: SparkSession, tmp_path: Path) -> None:
    with LoggingProgram(tmp_path / "log") as program:
        program.log(60)
        run_once(stream(spark, tmp_path / "log", maxBytesPerTrigger="1k"), tmp_path)
        program.rotate()
        program.log(40)
        run_once(stream(spark, tmp_path / "log", maxBytesPerTrigger="1k", minPartitions="2"), tmp_path)
    expected = direct(tmp_path / "log")
    assert rows_of(spark.read.parquet(str(tmp_path / "data")), "position") == expected
    frame = load(spark, tmp_path / "log")
    assert rows_of(frame, "position") == expected
    errors = [row for row in expected if row["severity"] == "error"]
    assert rows_of(frame.where("severity = 'error' and ns > 0"), "position") == errors
    typed = load(spark, tmp_path / "log", source="net.cpp:20").selectExpr("sum(code)").collect()
    assert typed[0][0] == sum(range(9, 100, 10))
