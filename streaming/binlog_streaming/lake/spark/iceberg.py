"""One Iceberg table as a target that Spark writes: `SparkIcebergTarget`; it is looked at, and remembers, as without it.

Spark writes the files of a step and a snapshot of them that is not the current one (Iceberg's *write, audit, publish*);
then one commit makes it the current one and says which step the table holds: on the table as it was looked at, or not
at all. The catalog is the one that `iceberg_catalog` makes; Java reads it over JDBC.
"""

from __future__ import annotations

import uuid
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, cast

from pyiceberg.exceptions import CommitFailedException
from pyspark.sql import functions as sql

from binlog_format.errors import TableError
from binlog_streaming.lake.conforming import conformed_rows
from binlog_streaming.lake.iceberg.catalog import CATALOG_FILE, CATALOG_NAME, WAIT_S
from binlog_streaming.lake.iceberg.commit import Commit
from binlog_streaming.lake.iceberg.features import require_plain, require_unsorted
from binlog_streaming.lake.iceberg.schema import arrow_schema, evolved, replaced
from binlog_streaming.lake.iceberg.target import SOMETIMES, IcebergTarget
from binlog_streaming.lake.sinks import require_local
from binlog_streaming.lake.spark.merge import SOURCE_VIEW, merge_statement, name_of
from binlog_streaming.lake.spark.rows import changed_frame, frame_of, kept_aside, read_frame, staged
from binlog_streaming.lake.spark.sessions import WRITE_ERRORS, SessionPool, is_spark_conflict, saying
from binlog_streaming.lake.steps import Step, reached
from binlog_streaming.lake.target import QUERY_PROPERTY

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyspark.sql import DataFrame, SparkSession

    from binlog_streaming.lake.change import Change
    from binlog_streaming.lake.evolution import SchemaChange
    from binlog_streaming.lake.target import Ticket
    from binlog_streaming.settings import Sink

STAGING_PROPERTY = "write.wap.enabled"
_STAGED_ID = "wap.id"
_STAGED_ID_SETTING = "spark.wap.id"
_SUMMARY_SETTING = "spark.sql.iceberg.snapshot-property."

UNFINISHED_PROPERTY = "binlog-stream.schemaBefore"
"""Number of the columns that the table had before a step that has changed them, and has not written its rows yet."""


class SparkIcebergTargets:
    """A factory of targets.

    Args:
        session: With Iceberg's jars.
        directory: Of the sink; its catalog is there.
    """

    write_errors: ClassVar[tuple[type[Exception], ...]] = (*IcebergTarget.write_errors, *WRITE_ERRORS)

    def __init__(self, session: SparkSession, directory: str) -> None:
        require_local("iceberg", directory)
        file = Path(directory, CATALOG_FILE).absolute()
        catalog = f"spark.sql.catalog.{CATALOG_NAME}"
        settings = {
            catalog: "org.apache.iceberg.spark.SparkCatalog",
            f"{catalog}.type": "jdbc",
            f"{catalog}.uri": f"jdbc:sqlite:{file}?busy_timeout={WAIT_S * 1000}",
            f"{catalog}.warehouse": directory,
            f"{catalog}.cache-enabled": "false",
        }
        self._sessions = SessionPool(session, settings)

    def at(self, sink: Sink, uri: str) -> SparkIcebergTarget:
        """See `Target`."""
        target = cast("SparkIcebergTarget", SparkIcebergTarget.at(sink, uri))
        target.join(self._sessions)
        return target


class SparkIcebergTarget(IcebergTarget):
    """A target table as it is now; `join` gives it a session."""

    write_errors: ClassVar[tuple[type[Exception], ...]] = SparkIcebergTargets.write_errors

    _sessions: SessionPool | None = None
    _session: SparkSession

    def join(self, sessions: SessionPool) -> None:
        """Take a session to write with; `close` gives it back."""
        self._sessions = sessions
        self._session = sessions.take()

    def close(self) -> None:
        """See `Target`."""
        if self._sessions is not None:
            self._sessions.give_back(self._session)
        super().close()

    def schema(self) -> pa.Schema:
        """See `Target`."""
        return arrow_schema(self._schema_before() or self.table.schema())

    def append(self, rows: pa.RecordBatchReader, ticket: Ticket) -> None:
        """See `Target`.

        The rows of a step are held in memory, by Python and by Java.
        """
        self._settle()
        table = conformed_rows(rows, self.schema()).read_all()
        self._write(ticket, lambda: frame_of(self._session, table).writeTo(self._sql_name).append())

    def merge(self, change: Change, ticket: Ticket) -> int:
        """See `Target`."""
        if not change.row_count:
            return 0
        self._settle()
        statement, rows = merge_statement(self._sql_name, change, self.schema(), ticket.keys)
        frame_of(self._session, rows).createOrReplaceTempView(SOURCE_VIEW)
        try:
            self._write(ticket, lambda: self._session.sql(statement).collect())
        finally:
            self._session.catalog.dropTempView(SOURCE_VIEW)
        return change.row_count

    def evolve(self, change: SchemaChange, ticket: Ticket) -> None:
        """See `Target`.

        Columns change by the table's metadata alone, unless values change: then the columns change first, and the rows
        with the commit that carries the step. When it does not come to that, they are changed back.
        """
        self._settle()
        evolution = evolved(self.table.metadata, change)
        require_unsorted(self.table, evolution.schema, self.uri)
        if not evolution.is_rewrite or self.table.current_snapshot() is None:
            self._commit(ticket, schema=evolution.schema, snapshot=False)
            return
        rows = changed_frame(self._session, self._rows(), change, arrow_schema(evolution.schema))
        with kept_aside(self._session, rows, self._folder()) as frame:
            self._overwrite(frame, evolution.schema, ticket)

    def read(self) -> pa.RecordBatchReader:
        """See `Target`."""
        self._settle()
        if self.table.current_snapshot() is None:
            return self.schema().empty_table().to_reader()
        return read_frame(self._rows(), self.schema())

    def replace(self, rows: pa.RecordBatchReader, ticket: Ticket) -> None:
        """See `Target`."""
        self._settle()
        schema = replaced(self.table.metadata, rows.schema)
        require_unsorted(self.table, schema, self.uri)
        with staged(self._session, conformed_rows(rows, arrow_schema(schema)), self._folder()) as frame:
            self._overwrite(frame, schema, ticket)

    def maintain(self, sink: Sink) -> None:
        """See `Target`; a table that has more than plain files is left to Iceberg's own procedures."""
        with suppress(TableError):
            require_plain(self.table, self.uri)
            super().maintain(sink)

    def is_conflict(self, error: Exception) -> bool:
        """See `Target`."""
        return super().is_conflict(error) or is_spark_conflict(error)

    @property
    def _sql_name(self) -> str:
        return ".".join(map(name_of, (CATALOG_NAME, *self._name)))

    def _rows(self) -> DataFrame:
        return self._session.table(self._sql_name)

    def _folder(self) -> str:
        # Maintenance removes what is left behind there.
        return f"{self.uri}/data/staging-{uuid.uuid4().hex}"

    def _overwrite(self, frame: DataFrame, schema: Schema, ticket: Ticket) -> None:
        before = self.table.metadata.current_schema_id
        if schema.fields != self.table.schema().fields:
            said = {UNFINISHED_PROPERTY: str(before)}
            self._table = Commit(properties=said, schema=schema, snapshot=False).on(self.table)
        self._write(ticket, lambda: frame.writeTo(self._sql_name).overwrite(sql.lit(True)))

    def _schema_before(self) -> Schema | None:
        number = self.table.properties.get(UNFINISHED_PROPERTY)
        return None if number is None else self.table.schemas()[int(number)]

    def _settle(self) -> None:
        # A step that was cut off has changed columns and not yet the rows.
        before = self._schema_before()
        if before is not None:
            commit = Commit(cleared=(UNFINISHED_PROPERTY,), schema=before, snapshot=False)
            self._table = commit.on(self.table)

    def _write(self, ticket: Ticket, write: Callable[[], object]) -> None:
        if self.table.properties.get(STAGING_PROPERTY) != "true":
            self._table = Commit(properties={STAGING_PROPERTY: "true"}, snapshot=False).on(self.table)
        number = uuid.uuid4().hex
        said = ticket.batch_properties()
        summary = {QUERY_PROPERTY: ticket.query_id, **said}
        settings = {f"{_SUMMARY_SETTING}{name}": value for name, value in summary.items()}
        with saying(self._session, {**settings, _STAGED_ID_SETTING: number}):
            write()
        reached(Step.FILES_WRITTEN)
        now = self.catalog.load_table(self._name)
        commit = Commit(
            properties=said,
            cleared=(*SOMETIMES, UNFINISHED_PROPERTY),
            snapshot=False,
            is_step=True,
            staged=_staged_snapshot(self.table, now, number),
        )
        self._table = commit.on(now)
        reached(Step.COMMITTED)


def _staged_snapshot(looked: Table, now: Table, number: str) -> int | None:
    """The snapshot that was just staged; None: the write had nothing to write.

    Raises:
        CommitFailedException: It was not made on the table that was looked at.
    """
    before, after = looked.metadata, now.metadata
    found = [
        one
        for one in after.snapshots
        if one.summary is not None and one.summary.additional_properties.get(_STAGED_ID) == number
    ]
    if (
        (before.current_snapshot_id, before.current_schema_id) != (after.current_snapshot_id, after.current_schema_id)
        or before.properties != after.properties
        or any(one.parent_snapshot_id != before.current_snapshot_id for one in found)
    ):
        raise CommitFailedException("the table was changed between the look and the write")
    return found[0].snapshot_id if found else None
