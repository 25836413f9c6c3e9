"""Which jars a session gets for Spark's own writers, and what is said where there are none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from binlog_format.errors import OptionError
from binlog_streaming import spark_jars
from binlog_streaming.settings import Job, Sink, Source, TableFormat, Writer
from binlog_streaming.spark_jars import EXTENSIONS, packages, session_settings
from binlog_streaming.tables.job import TablesJob
from tests.streaming.tables.oltp import OLTP

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

FORMATS = (TableFormat.DELTA, TableFormat.ICEBERG)


@pytest.fixture
def jars_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """This PySpark has what 4.1 has."""
    wanted = {one: packages(one, "4.1.4") for one in FORMATS}
    monkeypatch.setattr(spark_jars, "packages", wanted.get)


@pytest.fixture
def no_jars(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_jars, "packages", lambda _: None)


@pytest.mark.parametrize(
    ("version", "delta", "iceberg"),
    [("4.0.5", True, True), ("4.1.4", True, True), ("4.2.1", True, False), ("4.3.0", False, False)],
)
def test_packages_go_with_the_version(version: str, *, delta: bool, iceberg: bool) -> None:
    for table_format, there in ((TableFormat.DELTA, delta), (TableFormat.ICEBERG, iceberg)):
        found = packages(table_format, version)
        assert (found is not None) == there
        assert found is None or f"_{version[:3]}_2.13:" in found[0] or f"-{version[:3]}_2.13:" in found[0]


@pytest.mark.usefixtures("jars_for_all")
def test_what_the_user_says_stays() -> None:
    given = {
        "spark.jars.packages": "a:b:1, c:d:2",
        "spark.sql.extensions": "my.Extension",
        "spark.jars.excludes": "e:f",
        "spark.driver.memory": "2g",
    }
    settings = session_settings(TableFormat.DELTA, given)
    assert settings["spark.jars.packages"] == "a:b:1,c:d:2,io.delta:delta-spark_4.1_2.13:4.4.0"
    assert settings["spark.sql.extensions"] == f"my.Extension,{EXTENSIONS[TableFormat.DELTA]}"
    assert settings["spark.jars.excludes"].startswith("e:f,io.delta:delta-kernel-api,")
    assert settings["spark.driver.memory"] == "2g"
    assert session_settings(TableFormat.DELTA, settings) == settings


@pytest.mark.usefixtures("no_jars")
@pytest.mark.parametrize("name", ["spark.jars", "spark.jars.packages", "spark.driver.extraClassPath"])
def test_jars_of_the_user_s_own_are_enough(name: str) -> None:
    given = {name: "/opt/jars/iceberg-spark-runtime-9.9_2.13-2.0.0.jar"}
    settings = session_settings(TableFormat.ICEBERG, given)
    assert settings == given | {"spark.sql.extensions": EXTENSIONS[TableFormat.ICEBERG]}


@pytest.mark.usefixtures("no_jars")
@pytest.mark.parametrize("table_format", FORMATS, ids=str)
def test_a_version_without_jars_is_said_before_spark_starts(tmp_path: Path, table_format: TableFormat) -> None:
    job = Job(
        source=Source(path=str(OLTP)),
        sink=Sink(directory=str(tmp_path / "tables"), format=table_format, writer=Writer.SPARK),
        checkpoint=str(tmp_path / "checkpoint"),
    )
    with pytest.raises(
        OptionError, match=rf"MISSING\] sink\.writer spark: there are no jars of {table_format}"
    ) as caught:
        TablesJob(job).start()
    assert caught.value.hint is not None
    assert not list(tmp_path.iterdir())


@pytest.mark.spark
def test_a_session_without_jars_is_told_which(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = packages(TableFormat.DELTA, "4.1.4")
    monkeypatch.setattr(spark_jars, "packages", lambda _: wanted)
    sink = Sink(directory=str(tmp_path / "tables"), writer=Writer.SPARK)
    job = Job(source=Source(path=str(OLTP)), sink=sink, checkpoint=str(tmp_path / "checkpoint"))
    with pytest.raises(OptionError, match=r"MISSING\] .* no writer for delta: .*DeltaLog is not there") as caught:
        TablesJob(job, session=spark).start()
    assert "spark.jars.packages=io.delta:delta-spark_4.1_2.13:4.4.0" in str(caught.value.hint)
