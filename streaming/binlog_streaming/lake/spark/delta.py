"""One Delta table as a target that Spark writes: `SparkDeltaTarget`; a step is one commit that carries batch and step.

Delta keeps the application transaction of a step in the commit of its rows, and leaves out a write whose transaction is
in the table already, whoever made it. Which ones are there is asked of Delta's log in Java, as SQL does not say it.
"""

from __future__ import annotations

import json
import math
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, cast

import pyarrow as pa
from pyspark.sql.types import StructType

from binlog_streaming.lake.conforming import conformed_rows
from binlog_streaming.lake.spark.merge import SOURCE_VIEW, merge_statement, name_of, text_of
from binlog_streaming.lake.spark.rows import changed_frame, frame_of, read_frame, staged
from binlog_streaming.lake.spark.sessions import DELTA_SETTINGS, WRITE_ERRORS, SessionPool, is_spark_conflict, saying
from binlog_streaming.lake.spark.types import arrow_schema, spark_schema
from binlog_streaming.lake.steps import Step, reached
from binlog_streaming.lake.target import BATCH_KEY, LAST_CHANGE_KEY, STEP_KEY, Applied, Target, Ticket

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from binlog_streaming.lake.change import Change
    from binlog_streaming.lake.evolution import SchemaChange
    from binlog_streaming.settings import Sink

STEP_BITS = 32
"""The version of an application transaction is one 64-bit number: batch and step, the batch above."""

HISTORY_MAX = 16
"""Commits among which the last step's own is looked for; maintenance makes a few behind it."""

OPTIMIZE_EVERY = 16
"""Commits between two joinings of small files."""

VACUUM_EVERY = 128
"""Commits between two removals of replaced files."""

_TRANSACTION = "spark.databricks.delta.write.txn"
_NEEDS_MAPPING = frozenset(" ,;{}()\n\t=")
"""What Delta does not take in the name of a column, unless columns have names of their own in its files."""


_NTZ = pa.timestamp("us")


class SparkDeltaTargets:
    """A factory of targets.

    Args:
        session: With Delta's jars and extension.
    """

    write_errors: ClassVar[tuple[type[Exception], ...]] = WRITE_ERRORS

    def __init__(self, session: SparkSession) -> None:
        self._sessions = SessionPool(session, DELTA_SETTINGS)

    def at(self, sink: Sink, uri: str) -> SparkDeltaTarget:
        """See `Target`."""
        return SparkDeltaTarget(self._sessions, uri)


class SparkDeltaTarget(Target):
    """A target table as it is now.

    Args:
        sessions: Where its session comes from.
        uri: Its place.
    """

    write_errors: ClassVar[tuple[type[Exception], ...]] = WRITE_ERRORS

    def __init__(self, sessions: SessionPool, uri: str) -> None:
        self.uri = uri
        self._sessions = sessions
        self._session = sessions.take()
        self._look()

    @classmethod
    def at(cls, sink: Sink, uri: str) -> Target:
        """Its session comes from a factory."""
        raise NotImplementedError("SparkDeltaTargets.at")

    def close(self) -> None:
        """See `Target`."""
        self._sessions.give_back(self._session)

    def properties(self) -> Mapping[str, str] | None:
        """See `Target`."""
        return self._metadata.get("configuration")

    def applied(self, ticket: Ticket) -> Applied | None:
        """See `Target`."""
        if not self._metadata:
            return None
        found = self._snapshot.transactions().get(_application(ticket))
        if found.isEmpty():
            return None
        version = cast("int", found.get())
        place = version >> STEP_BITS, version & ((1 << STEP_BITS) - 1)
        return Applied(*place, self._last_change(place) if place == ticket.place else None)

    def _last_change(self, place: tuple[int, int]) -> str | None:
        history = self._session.sql(f"DESCRIBE HISTORY {self._name} LIMIT {HISTORY_MAX}")
        for row in history.select("userMetadata").collect():
            with suppress(KeyError, TypeError, ValueError):
                said = json.loads(row.userMetadata)
                if (int(said[BATCH_KEY]), int(said[STEP_KEY])) == place:
                    return str(said[LAST_CHANGE_KEY])
        return None

    def schema(self) -> pa.Schema:
        """See `Target`."""
        return arrow_schema(StructType.fromJson(json.loads(self._metadata["schemaString"])))

    def stored_schema(self, schema: pa.Schema) -> pa.Schema:
        """See `Target`."""
        return arrow_schema(spark_schema(schema))

    def create(self, schema: pa.Schema, ticket: Ticket) -> None:
        """See `Target`."""
        if self._metadata:
            return
        columns = ", ".join(
            f"{name_of(field.name)} {field.dataType.simpleString()}" for field in spark_schema(schema).fields
        )
        properties = {**ticket.table_properties(), **_mapping(schema.names)}
        with saying(self._session, {}):
            self._session.sql(
                f"CREATE TABLE {self._name} ({columns}) USING delta "
                f"COMMENT {text_of(ticket.description)} TBLPROPERTIES ({_listed(properties)})"
            )
        self._look()
        reached(Step.CREATED)

    def describe(self, ticket: Ticket, *, said: Mapping[str, str] | None = None) -> None:
        """See `Target`."""
        wanted = ticket.table_properties() | dict(said or {})
        if not wanted.items() <= self._metadata["configuration"].items():
            self._set_properties(wanted)

    def append(self, rows: pa.RecordBatchReader, ticket: Ticket) -> None:
        """See `Target`.

        The rows of a step are held in memory, by Python and by Java.
        """
        table = conformed_rows(rows, self.schema()).read_all()
        self._append(frame_of(self._session, table), ticket)

    def merge(self, change: Change, ticket: Ticket) -> int:
        """See `Target`."""
        if not change.row_count:
            return 0
        statement, rows = merge_statement(self._name, change, self.schema(), ticket.keys)
        frame_of(self._session, rows).createOrReplaceTempView(SOURCE_VIEW)
        try:
            with saying(self._session, _said(ticket)):
                self._session.sql(statement).collect()
        finally:
            self._session.catalog.dropTempView(SOURCE_VIEW)
        self._committed()
        return change.row_count

    def evolve(self, change: SchemaChange, ticket: Ticket) -> None:
        """See `Target`.

        Columns that are only added cost nothing; anything else writes the table anew.
        """
        schema = self.stored_schema(change.applied_to(self.schema()))
        self._admit(schema)
        if change.renamed or change.retyped or change.filled:
            self._overwrite(changed_frame(self._session, self._rows(), change, schema), ticket, change.renamed)
            return
        self._append(frame_of(self._session, schema.empty_table()), ticket, mergeSchema="true")

    def read(self) -> pa.RecordBatchReader:
        """See `Target`."""
        return read_frame(self._rows(), self.schema())

    def replace(self, rows: pa.RecordBatchReader, ticket: Ticket) -> None:
        """See `Target`."""
        schema = self.stored_schema(rows.schema)
        self._admit(schema)
        # A name that Delta does not read, and whose files a VACUUM takes away when they are left behind.
        folder = f"{self.uri}/staging-{uuid.uuid4().hex}"
        with staged(self._session, conformed_rows(rows, schema), folder) as frame:
            self._overwrite(frame, ticket)

    def maintain(self, sink: Sink) -> None:
        """See `Target`."""
        version = self._snapshot.version()
        sizes = {
            "spark.databricks.delta.optimize.minFileSize": str(sink.target_file_size // 4),
            "spark.databricks.delta.optimize.maxFileSize": str(sink.target_file_size),
        }
        with saying(self._session, sizes):
            if version % OPTIMIZE_EVERY == OPTIMIZE_EVERY - 1:
                self._session.sql(f"OPTIMIZE {self._name}").collect()
            if version % VACUUM_EVERY == VACUUM_EVERY - 1:
                hours = math.ceil(sink.retention_hours)
                self._session.sql(f"VACUUM {self._name} RETAIN {hours} HOURS").collect()

    def is_conflict(self, error: Exception) -> bool:
        """See `Target`."""
        return is_spark_conflict(error)

    @property
    def _name(self) -> str:
        return f"delta.{name_of(self.uri)}"

    def _look(self) -> None:
        jvm = self._session._jvm
        assert jvm is not None
        java = self._session._jsparkSession
        jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(java)  # Delta looks at its settings as well
        nothing = jvm.scala.Option.empty()
        with saying(self._session, {}):
            self._log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(java, self.uri)
            self._snapshot = self._log.update(False, nothing, nothing)
        self._metadata: dict[str, Any] = {}
        if self._snapshot.version() >= 0:
            self._metadata = json.loads(self._snapshot.metadata().json())["metaData"]

    def _rows(self) -> DataFrame:
        return self._session.read.format("delta").option("versionAsOf", self._snapshot.version()).load(self.uri)

    def _overwrite(self, frame: DataFrame, ticket: Ticket, renamed: Mapping[str, str] | None = None) -> None:
        # On the version that was looked at: a DataFrame's own writer begins with whatever version there is by then, and
        # takes away what others have committed meanwhile. What they commit from here on Delta compares itself.
        jvm, java = self._session._jvm, self._session._jsparkSession
        assert jvm is not None
        python, delta = jvm.org.apache.spark.api.python.PythonUtils, jvm.org.apache.spark.sql.delta
        mode, nothing = jvm.org.apache.spark.sql.SaveMode.Overwrite, jvm.scala.Option.empty()
        before = [(renamed or {}).get(name, name) for name in self._metadata["partitionColumns"]]
        partitions = python.toSeq([name for name in before if name in frame.columns])
        operation = getattr(delta, "DeltaOperations$Write")(mode, jvm.scala.Some(partitions), *[nothing] * 7)
        with saying(self._session, _said(ticket)):
            options = delta.DeltaOptions(python.toScalaMap({"overwriteSchema": "true"}), java.sessionState().conf())
            write = delta.commands.WriteIntoDelta(
                self._log, mode, options, partitions, python.toScalaMap({}), frame._jdf, nothing, nothing, False
            )
            transaction = self._log.startTransaction(nothing, jvm.scala.Some(self._snapshot))
            transaction.commit(write.write(transaction, java, nothing, False), operation)
        self._committed()

    def _append(self, frame: DataFrame, ticket: Ticket, **options: str) -> None:
        with saying(self._session, _said(ticket)):
            frame.write.format("delta").mode("append").options(**options).save(self.uri)
        self._committed()

    def _committed(self) -> None:
        reached(Step.COMMITTED)
        self._look()

    def _set_properties(self, wanted: Mapping[str, str]) -> None:
        with saying(self._session, {}):
            self._session.sql(f"ALTER TABLE {self._name} SET TBLPROPERTIES ({_listed(wanted)})")
        self._look()

    def _admit(self, schema: pa.Schema) -> None:
        # What the table has to be allowed before it may have these columns; done twice it is the same.
        wanted = _mapping(schema.names)
        if not wanted.items() <= self._metadata["configuration"].items():
            self._set_properties(wanted)
        if any(field.type == _NTZ for field in schema) and not any(field.type == _NTZ for field in self.schema()):
            self._set_properties({"delta.feature.timestampNtz": "supported"})


def _application(ticket: Ticket) -> str:
    # Name of the application transaction.
    return f"binlog-stream/{ticket.query_id}"


def _said(ticket: Ticket) -> dict[str, str]:
    return {
        f"{_TRANSACTION}AppId": _application(ticket),
        f"{_TRANSACTION}Version": str(ticket.batch_id << STEP_BITS | ticket.step),
        "spark.databricks.delta.commitInfo.userMetadata": json.dumps(ticket.batch_properties()),
    }


def _mapping(names: Iterable[str]) -> dict[str, str]:
    is_needed = any(_NEEDS_MAPPING & set(name) for name in names)
    return {"delta.columnMapping.mode": "name"} if is_needed else {}


def _listed(properties: Mapping[str, str]) -> str:
    return ", ".join(f"{text_of(name)} = {text_of(value)}" for name, value in properties.items())
