"""Targets that Spark itself writes: `spark_targets(session, sink)`, a factory of them, each with a session of its own.

Settings of a session say which step a write belongs to, so two writes at a time need two sessions. They share Spark's
threads and its jars, and are kept for the next batch: a new one has to load catalogs again.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from binlog_streaming.settings_model import TableFormat
from binlog_streaming.spark_jars import DEFAULTS, require_writer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import SparkSession

    from binlog_streaming.lake.target import TargetFactory
    from binlog_streaming.settings_model import Sink

SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.adaptive.enabled": "false",
    # Times as they are, in microseconds; the default is an old type of 96 bits.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.compression.codec": "zstd",
    # What is read at a time, when a table is read whole.
    "spark.sql.files.maxPartitionBytes": "32m",
}
DELTA_SETTINGS = {
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    **DEFAULTS[TableFormat.DELTA],
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
    # Rows of a change are the same whenever they are read: they lie in memory.
    "spark.databricks.delta.merge.materializeSource": "none",
}


class SparkWriteError(Exception):
    """What Java said, in one line."""


WRITE_ERRORS: tuple[type[Exception], ...] = (PySparkException, Py4JError, SparkWriteError)

_CONFLICT = re.compile(
    r"DELTA_CONCURRENT|DELTA_METADATA_CHANGED|DELTA_PROTOCOL_CHANGED|ConcurrentModificationException|"
    r"CommitFailedException|ValidationException|already exists|ALREADY_EXISTS",
    re.IGNORECASE,
)


class SessionPool:
    """Sessions beside *session*, of which each is for one target at a time.

    Args:
        session: Where they come from.
        settings: What they say beside `SETTINGS`.
    """

    def __init__(self, session: SparkSession, settings: Mapping[str, str]) -> None:
        self._session = session
        self._settings = {**SETTINGS, **settings}
        self._idle: SimpleQueue[SparkSession] = SimpleQueue()

    def take(self) -> SparkSession:
        """A session that nobody uses."""
        try:
            return self._idle.get_nowait()
        except Empty:
            session = self._session.newSession()
        for name, value in self._settings.items():
            session.conf.set(name, value)
        return session

    def give_back(self, session: SparkSession) -> None:
        """Nobody uses it any more."""
        self._idle.put(session)


def spark_targets(session: SparkSession, sink: Sink) -> TargetFactory:
    """What makes the targets of *sink*, whose writer is Spark.

    Raises:
        OptionError: `MISSING`: the session lacks the writer; `INVALID_VALUE`: the format cannot be kept there.
    """
    require_writer(sink.format, session)
    if sink.format is TableFormat.ICEBERG:
        from binlog_streaming.lake.spark.iceberg import SparkIcebergTargets

        return SparkIcebergTargets(session, sink.directory)
    from binlog_streaming.lake.spark.delta import SparkDeltaTargets

    return SparkDeltaTargets(session)


@contextmanager
def saying(session: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Settings for what is done within; errors of Java become `SparkWriteError`, a line of text."""
    for name, value in settings.items():
        session.conf.set(name, value)
    try:
        yield
    except Py4JJavaError as error:
        raise SparkWriteError(_first_line(error)) from error
    finally:
        for name in settings:
            session.conf.unset(name)


def is_spark_conflict(error: Exception) -> bool:
    """Whether a write failed because somebody else committed meanwhile."""
    return isinstance(error, WRITE_ERRORS) and _CONFLICT.search(str(error)) is not None


def _first_line(error: Py4JJavaError) -> str:
    return str(error.java_exception.toString()).strip().partition("\n")[0]
