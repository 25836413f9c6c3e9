"""One source for PySpark 4.0 to 4.3: what this run's version has is used, what it lacks is not missed."""

from __future__ import annotations

import importlib
import os
import re
import sys
import tomllib
from importlib.metadata import requires
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql.datasource import DataSourceStreamReader

from binlog_connector.spark import spark_api
from binlog_connector.spark.stream_reader import BinlogStreamReader
from tests.connector.shop import Shop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REPO = Path(__file__).resolve().parents[2]
VERSION = tuple(int(part) for part in pyspark.__version__.split(".")[:2])
pytestmark = [
    pytest.mark.spark,
    # PySpark 4.1 leaves the sockets of collected results to the garbage collector.
    pytest.mark.filterwarnings("ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"),
]


def test_this_run_has_the_pyspark_that_it_is_meant_for() -> None:
    """`make test-compat` says which one it has installed; CI says so of the newest as well."""
    expected = os.environ.get("PYSPARK_EXPECTED", pyspark.__version__)
    assert f"{pyspark.__version__}.".startswith(f"{expected}.")


def test_declared_range_is_the_one_that_is_tested() -> None:
    declared = tomllib.loads((REPO / "pyproject.toml").read_text())["project"]["optional-dependencies"]["spark"]
    (bounds,) = (
        re.fullmatch(r"pyspark>=(\d+)\.(\d+),<(\d+)\.(\d+)", entry) for entry in declared if "pyspark" in entry
    )
    assert bounds is not None
    low, high = (int(bounds[1]), int(bounds[2])), (int(bounds[3]), int(bounds[4]))
    assert low <= VERSION < high
    assert any("pyspark" in requirement for requirement in requires("binlog-stream") or [])


def test_names_of_the_newer_interface_are_spark_s_own_where_it_has_them() -> None:
    """A stand-in where Spark has the name would be ignored by Spark, and limits would not work."""
    modules = [importlib.import_module("pyspark.sql.datasource")]
    if VERSION >= (4, 2):
        modules.append(importlib.import_module("pyspark.sql.streaming.datasource"))
    for name in spark_api.__all__:
        theirs = next((getattr(module, name) for module in modules if hasattr(module, name)), None)
        ours = getattr(spark_api, name)
        assert ours is theirs or (theirs is None and ours.__module__ == spark_api.__name__), name
    assert {"ReadLimit", "SupportsTriggerAvailableNow"} <= set(spark_api.__all__)


def test_reader_has_what_this_spark_asks_for() -> None:
    """Every method that Spark's own class leaves to the source is the source's."""
    left_open = {"initialOffset", "latestOffset", "partitions", "read"}
    left_open |= {
        name for name in ("getDefaultReadLimit", "reportLatestOffset") if hasattr(DataSourceStreamReader, name)
    }
    assert {name for name in left_open if name not in vars(BinlogStreamReader)} == set()
    assert issubclass(BinlogStreamReader, spark_api.SupportsTriggerAvailableNow)


def test_source_is_found_without_register_and_by_it(spark: SparkSession, tmp_path: Path) -> None:
    from binlog_connector.spark.source import BinlogDataSource

    with Shop(tmp_path / "log") as shop:
        shop.sell(3)
    found = spark.read.format("binlog-stream").load(str(tmp_path / "log"))
    assert found.count() == 9
    if VERSION < (4, 1):
        with pytest.raises(AnalysisException, match="DATA_SOURCE_ALREADY_EXISTS"):
            spark.dataSource.register(BinlogDataSource)
        return
    spark.dataSource.register(BinlogDataSource)
    registered = spark.read.format("binlog-stream").load(str(tmp_path / "log"))
    assert registered.count() == 9


def test_workers_run_the_driver_s_python(spark: SparkSession) -> None:
    """Else Spark takes `python3` of the PATH, which has another PySpark or none."""
    executables = spark.sparkContext.parallelize(range(2), 2).map(lambda _: sys.executable).distinct().collect()
    assert executables == [sys.executable]
