"""One Iceberg table as a target, without Spark: `IcebergTarget`; every step is one commit that carries its number.

Batch and step stand in the table's properties, by the same commit, and of steps that write rows in the snapshot's
summary too. The properties also name the snapshot of the last such step: when it is not behind the current one any
more, somebody set the table back by hand.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa
from pyiceberg.exceptions import (
    CommitFailedException,
    NoSuchTableError,
    TableAlreadyExistsError,
    ValidationError,
    ValidationException,
)
from sqlalchemy.exc import SQLAlchemyError

from binlog_format.errors import TableError
from binlog_streaming.lake.conforming import changed_rows, conformed_rows
from binlog_streaming.lake.iceberg.catalog import ensure_namespace, identifier, open_catalog
from binlog_streaming.lake.iceberg.commit import SNAPSHOT_PROPERTY, Commit
from binlog_streaming.lake.iceberg.features import plain_files, require_plain, require_unsorted
from binlog_streaming.lake.iceberg.files import rows_of, write_files
from binlog_streaming.lake.iceberg.maintenance import maintain, sequence_number
from binlog_streaming.lake.iceberg.merge import Rewriting
from binlog_streaming.lake.iceberg.schema import arrow_schema, evolved, iceberg_schema, replaced
from binlog_streaming.lake.sinks import require_local
from binlog_streaming.lake.steps import Step, reached
from binlog_streaming.lake.target import (
    BATCH_KEY,
    GTID_KEY,
    GTID_POSITION_KEY,
    LAST_CHANGE_KEY,
    POSITION_KEY,
    QUERY_PROPERTY,
    STEP_KEY,
    Applied,
    Target,
    Ticket,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.manifest import DataFile
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata

    from binlog_streaming.lake.change import Change
    from binlog_streaming.lake.evolution import SchemaChange
    from binlog_streaming.settings import Sink

SOMETIMES = (GTID_KEY, GTID_POSITION_KEY)
"""What not every step says; it is not to stay from an earlier one."""

_STEP_PROPERTIES = frozenset(
    {BATCH_KEY, STEP_KEY, POSITION_KEY, LAST_CHANGE_KEY, GTID_KEY, GTID_POSITION_KEY, SNAPSHOT_PROPERTY}
)


class IcebergTarget(Target):
    """A target table as it is now; `table` is None while nothing has been written."""

    write_errors: ClassVar[tuple[type[Exception], ...]] = (
        CommitFailedException,
        TableAlreadyExistsError,
        ValidationError,
        ValidationException,
        SQLAlchemyError,
    )

    def __init__(self, directory: str, uri: str, catalog: SqlCatalog, *, file_size: int) -> None:
        self.uri = uri
        self.catalog = catalog
        self.file_size = file_size
        self._directory = directory
        self._name = identifier(directory, uri)
        self._table: Table | None = None
        self._maintained = 0

    @classmethod
    def at(cls, sink: Sink, uri: str) -> IcebergTarget:
        """See `Target`."""
        return cls.find(sink.directory, uri, file_size=sink.target_file_size)

    @classmethod
    def find(cls, directory: str, uri: str, *, file_size: int) -> IcebergTarget:
        """Look at what is there."""
        require_local("iceberg", directory)
        target = cls(directory, uri, open_catalog(directory), file_size=file_size)
        try:
            with suppress(NoSuchTableError):
                target._table = target.catalog.load_table(target._name)
                target._maintained = sequence_number(target._table)
        except BaseException:
            target.close()
            raise
        return target

    @property
    def table(self) -> Table:
        """The table; it is there."""
        assert self._table is not None
        return self._table

    def close(self) -> None:
        """See `Target`."""
        self.catalog.close()

    def properties(self) -> Mapping[str, str] | None:
        """See `Target`."""
        if self._table is None:
            return None
        return {name: value for name, value in self._table.properties.items() if name not in _STEP_PROPERTIES}

    def applied(self, ticket: Ticket) -> Applied | None:
        """See `Target`.

        Raises:
            TableError: `OTHER_WRITER`: somebody set the table back to an older snapshot.
        """
        properties = {} if self._table is None else self._table.properties
        if BATCH_KEY not in properties or properties.get(QUERY_PROPERTY) != ticket.query_id:
            return None
        applied = _applied(properties)
        if not self._has_snapshot(properties.get(SNAPSHOT_PROPERTY)):
            held = self._held(ticket)
            raise TableError(
                "OTHER_WRITER",
                f"{ticket.source_table}: {self.uri} had batch {applied.batch_id}, and now holds "
                + ("none" if held is None else f"batch {held.batch_id}, step {held.step}")
                + ": it was set back to an older snapshot",
                hint="Set it forward to the snapshot of that batch; or delete the table (and the checkpoint) and let "
                "this job build it anew from the log",
            )
        return applied

    def _has_snapshot(self, named: str | None) -> bool:
        # Whether the snapshot is the current one or behind it, as far as snapshots reach back.
        parents = {one.snapshot_id: one.parent_snapshot_id for one in self.table.metadata.snapshots}
        if named is None or int(named) not in parents:
            return True
        number = self.table.metadata.current_snapshot_id
        while number is not None and number != int(named):
            number = parents.get(number)
        return number is not None

    def _held(self, ticket: Ticket) -> Applied | None:
        # What the snapshots say.
        snapshot = self.table.current_snapshot()
        while snapshot is not None:
            said = snapshot.summary.additional_properties if snapshot.summary is not None else {}
            if said.get(QUERY_PROPERTY) == ticket.query_id and BATCH_KEY in said:
                return _applied(said)
            parent = snapshot.parent_snapshot_id
            snapshot = None if parent is None else self.table.snapshot_by_id(parent)
        return None

    def version(self) -> str | None:
        """See `Target`; a table without a snapshot has none."""
        snapshot = None if self._table is None else self._table.metadata.current_snapshot_id
        return None if snapshot is None else str(snapshot)

    def schema(self) -> pa.Schema:
        """See `Target`."""
        return arrow_schema(self.table.schema())

    def stored_schema(self, schema: pa.Schema) -> pa.Schema:
        """See `Target`."""
        return arrow_schema(iceberg_schema(schema))

    def create(self, schema: pa.Schema, ticket: Ticket) -> None:
        """See `Target`.

        Raises:
            TableAlreadyExistsError: Somebody else was faster.
        """
        if self._table is not None:
            return
        ensure_namespace(self.catalog, self._directory, self._name[:-1])
        self._table = self.catalog.create_table(
            self._name,
            iceberg_schema(schema),
            location=self.uri,
            properties={
                **ticket.table_properties(),
                "comment": ticket.description,
                "write.target-file-size-bytes": str(self.file_size),
                "write.parquet.compression-codec": "zstd",
                "write.parquet.compression-level": "1",
                "commit.manifest-merge.enabled": "true",
                "commit.manifest.min-count-to-merge": "16",
                "write.metadata.delete-after-commit.enabled": "true",
                "write.metadata.previous-versions-max": "16",
            },
        )
        reached(Step.CREATED)

    def describe(self, ticket: Ticket, *, said: Mapping[str, str] | None = None) -> None:
        """See `Target`.

        Raises:
            CommitFailedException: The table is not any more what it was when it was looked at.
        """
        wanted = {**ticket.table_properties(), "comment": ticket.description, **(said or {})}
        new = {key: value for key, value in wanted.items() if self.table.properties.get(key) != value}
        if new:
            self._table = Commit(properties=new, snapshot=False).on(self.table)

    def append(self, rows: pa.RecordBatchReader, ticket: Ticket) -> None:
        """See `Target`.

        Raises:
            CommitFailedException: The table is not any more what it was when it was looked at.
            TableError: `TABLE_FEATURE`: somebody gave the table what this writer does not keep.
        """
        require_plain(self.table, self.uri)
        self._commit(ticket, added=self._written(self.table.metadata, conformed_rows(rows, self.schema())))

    def merge(self, change: Change, ticket: Ticket) -> int:
        """See `Target`.

        Raises:
            CommitFailedException: The table is not any more what it was when it was looked at.
            TableError: `TABLE_FEATURE`.
        """
        metadata, io = self.table.metadata, self.table.io
        files = self._files()
        rewriting = Rewriting(metadata, io, files, change, ticket.keys, file_size=self.file_size)
        added = self._written(metadata, rewriting.rows())
        if not rewriting.is_change:
            return 0
        self._commit(ticket, replaced=rewriting.replaced, added=added)
        return change.row_count

    def evolve(self, change: SchemaChange, ticket: Ticket) -> None:
        """See `Target`.

        Columns change by the table's metadata alone, unless values change.

        Raises:
            CommitFailedException: The table is not any more what it was when it was looked at.
            TableError: `TABLE_FEATURE`.
        """
        require_plain(self.table, self.uri)
        metadata = self.table.metadata
        evolution = evolved(metadata, change)
        require_unsorted(self.table, evolution.schema, self.uri)
        files = self._files() if evolution.is_rewrite else []
        if not files:
            self._commit(ticket, schema=evolution.schema, snapshot=False)
            return
        rows = changed_rows(self.read(), change, arrow_schema(evolution.schema))
        added = self._written(_with_schema(metadata, evolution.schema), rows)
        self._commit(ticket, schema=evolution.schema, replaced=files, added=added)

    def read(self) -> pa.RecordBatchReader:
        """See `Target`.

        Raises:
            TableError: `TABLE_FEATURE`.
        """
        metadata, io = self.table.metadata, self.table.io
        batches = chain.from_iterable(rows_of(metadata, io, file) for file in plain_files(self.table, self.uri))
        return pa.RecordBatchReader.from_batches(self.schema(), batches)

    def replace(self, rows: pa.RecordBatchReader, ticket: Ticket) -> None:
        """See `Target`.

        Raises:
            CommitFailedException: The table is not any more what it was when it was looked at.
            TableError: `TABLE_FEATURE`.
        """
        files = self._files()
        schema = replaced(self.table.metadata, rows.schema)
        require_unsorted(self.table, schema, self.uri)
        added = self._written(_with_schema(self.table.metadata, schema), conformed_rows(rows, arrow_schema(schema)))
        self._commit(ticket, schema=schema, replaced=files, added=added)

    def maintain(self, sink: Sink) -> None:
        """See `Target`."""
        since, self._maintained = self._maintained, sequence_number(self.table)
        # Somebody else committed meanwhile: there will be another time.
        with suppress(CommitFailedException, ValidationException):
            self._table = maintain(
                self.table, self.uri, since=since, file_size=self.file_size, retention_hours=sink.retention_hours
            )

    def is_conflict(self, error: Exception) -> bool:
        """See `Target`."""
        return isinstance(error, (CommitFailedException, TableAlreadyExistsError, ValidationException))

    def _files(self) -> list[DataFile]:
        require_plain(self.table, self.uri)
        return plain_files(self.table, self.uri)

    def _written(self, metadata: TableMetadata, rows: Iterable[pa.RecordBatch]) -> list[DataFile]:
        return write_files(metadata, self.table.io, rows, file_size=self.file_size)

    def _commit(
        self,
        ticket: Ticket,
        *,
        schema: Schema | None = None,
        snapshot: bool = True,
        replaced: Sequence[DataFile] = (),
        added: Sequence[DataFile] = (),
    ) -> None:
        reached(Step.FILES_WRITTEN)
        said = ticket.batch_properties()
        commit = Commit(
            properties=said,
            cleared=SOMETIMES,
            schema=schema,
            snapshot=snapshot,
            replaced=replaced,
            added=added,
            summary={QUERY_PROPERTY: ticket.query_id, **said},
            is_step=True,
        )
        self._table = commit.on(self.table)
        reached(Step.COMMITTED)


def _applied(said: Mapping[str, str]) -> Applied:
    return Applied(int(said[BATCH_KEY]), int(said.get(STEP_KEY, "0")), said.get(LAST_CHANGE_KEY))


def _with_schema(metadata: TableMetadata, schema: Schema) -> TableMetadata:
    # The table as files are written for that get there together with new columns.
    schemas = [*metadata.schemas, schema]
    return metadata.model_copy(update={"schemas": schemas, "current_schema_id": schema.schema_id})
