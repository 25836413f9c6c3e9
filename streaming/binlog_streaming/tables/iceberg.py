"""One Iceberg table as a target, without Spark: `IcebergTarget`; every batch is one snapshot that carries its number.

The batch's number stands in the snapshot's summary and, by the same commit, in the table's properties. The snapshots
are what counts; the properties tell when they were set back by hand.
"""

from __future__ import annotations

import uuid
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa
from pyiceberg.exceptions import (
    CommitFailedException,
    NoSuchTableError,
    TableAlreadyExistsError,
    ValidationError,
    ValidationException,
)
from pyiceberg.io.pyarrow import (
    UnsupportedPyArrowTypeException,
    _dataframe_to_data_files,
    schema_to_pyarrow,
)
from pyiceberg.table import Transaction
from sqlalchemy.exc import SQLAlchemyError

from binlog_format.errors import TableError, UnsupportedError
from binlog_streaming.tables.iceberg_catalog import ensure_namespace, identifier, open_catalog
from binlog_streaming.tables.iceberg_maintenance import expire
from binlog_streaming.tables.iceberg_merge import rewrite, write_schema
from binlog_streaming.tables.sinks import require_local
from binlog_streaming.tables.steps import Step, reached
from binlog_streaming.tables.target import BATCH_KEY, GTID_KEY, LAST_CHANGE_KEY, QUERY_PROPERTY, Applied, Target, Ticket

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.manifest import DataFile
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table

    from binlog_streaming.settings import Sink
    from binlog_streaming.tables.mirror import Reduced


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
        self.table: Table | None = None
        self.file_size = file_size
        self._directory = directory
        self._name = identifier(directory, uri)

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
                target.table = target.catalog.load_table(target._name)
        except BaseException:
            target.close()
            raise
        return target

    def close(self) -> None:
        """See `Target`."""
        self.catalog.close()

    def properties(self) -> Mapping[str, str] | None:
        """See `Target`."""
        return None if self.table is None else self.table.properties

    def applied(self, ticket: Ticket) -> Applied | None:
        """See `Target`.

        Raises:
            TableError: `OTHER_WRITER`: somebody set the table back to an older snapshot.
        """
        if self.table is None:
            return None
        said = self.table.properties.get(BATCH_KEY)
        if said is None:
            return None
        promised = Applied(int(said), self.table.properties.get(LAST_CHANGE_KEY))
        held, is_known = self._held(ticket)
        if is_known and held != promised:
            raise TableError(
                "OTHER_WRITER",
                f"{ticket.source_table}: {self.uri} had batch {promised.batch_id}, and now holds "
                + ("none" if held is None else f"batch {held.batch_id}")
                + ": it was set back to an older snapshot",
                hint="Set it forward to the snapshot of that batch; or delete the table (and the checkpoint) and let "
                "this job build it anew from the log",
            )
        return promised

    def _held(self, ticket: Ticket) -> tuple[Applied | None, bool]:
        # What the snapshots say, and whether they reach back far enough to say it.
        assert self.table is not None
        snapshot = self.table.current_snapshot()
        while snapshot is not None:
            said = snapshot.summary.additional_properties if snapshot.summary is not None else {}
            if said.get(QUERY_PROPERTY) == ticket.query_id and BATCH_KEY in said:
                return Applied(int(said[BATCH_KEY]), said.get(LAST_CHANGE_KEY)), True
            if snapshot.parent_snapshot_id is None:
                return None, True
            snapshot = self.table.snapshot_by_id(snapshot.parent_snapshot_id)
            if snapshot is None:
                return None, False
        return None, True

    def columns(self) -> dict[str, str]:
        """See `Target`."""
        assert self.table is not None
        return _columns(self.table.schema())

    def column_types(self, schema: pa.Schema) -> dict[str, str]:
        """See `Target`."""
        return _columns(_iceberg_schema(schema))

    def ensure(self, schema: pa.Schema, ticket: Ticket) -> None:
        """See `Target`."""
        if self.table is not None:
            return
        ensure_namespace(self.catalog, self._directory, self._name[:-1])
        self.table = self.catalog.create_table(
            self._name,
            _iceberg_schema(schema),
            location=self.uri,
            properties={
                **ticket.table_properties(),
                "comment": ticket.description,
                "write.target-file-size-bytes": str(self.file_size),
                "write.parquet.compression-codec": "zstd",
                "write.parquet.compression-level": "1",
                "commit.manifest-merge.enabled": "true",
                "write.metadata.delete-after-commit.enabled": "true",
                "write.metadata.previous-versions-max": "16",
            },
        )
        reached(Step.CREATED)

    def append(self, rows: pa.RecordBatchReader, ticket: Ticket) -> None:
        """See `Target`.

        Raises:
            CommitFailedException: The table is not any more what it was when it was looked at.
        """
        self._commit([], self._write_files(rows), ticket)

    def merge(self, change: Reduced, ticket: Ticket) -> int:
        """See `Target`."""
        assert self.table is not None
        self._refuse_deletes(ticket)
        replaced, rows = rewrite(self.table, change, ticket.keys, file_size=self.file_size)
        if not replaced and not change.rows.num_rows:
            return 0
        self._commit(replaced, self._write_files(rows), ticket)
        return int(change.rows.num_rows + change.deleted.num_rows)

    def maintain(self, sink: Sink) -> None:
        """See `Target`."""
        assert self.table is not None
        # Somebody else committed meanwhile: there will be another time.
        with suppress(CommitFailedException):
            expire(self.table, retention_hours=sink.retention_hours)

    def is_conflict(self, error: Exception) -> bool:
        """See `Target`."""
        return isinstance(error, (CommitFailedException, TableAlreadyExistsError, ValidationException))

    def _write_files(self, rows: pa.RecordBatchReader) -> list[DataFile]:
        assert self.table is not None
        schema = write_schema(self.table)
        names = schema.names
        batches = (batch.select(names).cast(schema) for batch in rows)
        reader = pa.RecordBatchReader.from_batches(schema, batches)
        return list(_dataframe_to_data_files(self.table.metadata, reader, self.table.io, uuid.uuid4()))

    def _commit(self, replaced: Iterable[DataFile], added: Iterable[DataFile], ticket: Ticket) -> None:
        assert self.table is not None
        reached(Step.FILES_WRITTEN)
        said = ticket.batch_properties()
        transaction = _OneTry(self.table)
        update = transaction.update_snapshot({QUERY_PROPERTY: ticket.query_id, **said})
        replaced = list(replaced)
        with update.overwrite() if replaced else update.merge_append() as snapshot:
            for file in replaced:
                snapshot.delete_data_file(file)
            for file in added:
                snapshot.append_data_file(file)
        transaction.set_properties(said)
        if GTID_KEY not in said and GTID_KEY in self.table.properties:
            transaction.remove_properties(GTID_KEY)
        self.table = transaction.commit_transaction()
        reached(Step.COMMITTED)

    def _refuse_deletes(self, ticket: Ticket) -> None:
        assert self.table is not None
        snapshot = self.table.current_snapshot()
        summary = None if snapshot is None or snapshot.summary is None else snapshot.summary.additional_properties
        count = 0 if summary is None else int(summary.get("total-delete-files", "0"))
        if count:
            raise TableError(
                "OTHER_WRITER",
                f"{ticket.source_table}: {self.uri} has {count} delete files, which somebody else has written; this "
                "sink replaces whole files and cannot keep them",
                hint="Compact the table with who wrote them (Spark: CALL system.rewrite_data_files with "
                "'delete-file-threshold' 1), and let only this job write to it",
            )


class _OneTry(Transaction):
    # The library repeats a commit on top of what somebody else has committed meanwhile: that would bring a batch in
    # twice, when that was a dying process of this job.
    def _rebuild_snapshot_updates(self) -> None:
        raise CommitFailedException("the table was changed between the look and the write")


def _iceberg_schema(schema: pa.Schema) -> Schema:
    from pyiceberg.catalog import Catalog

    nullable = pa.schema([field.with_nullable(True) for field in schema])
    try:
        return Catalog._convert_schema_if_needed(nullable)
    except (UnsupportedPyArrowTypeException, TypeError) as error:
        raise UnsupportedError("COLUMN_TYPE", f"Iceberg has no type for a column: {error}") from error


def _columns(schema: Schema) -> dict[str, str]:
    # Numbers of fields inside of structs and lists differ between a table and what is to become one.
    arrow = schema_to_pyarrow(schema, include_field_ids=False)
    return {field.name: _type_name(field.type) for field in arrow}


def _type_name(kind: pa.DataType) -> str:
    return str(kind).replace("large_", "")
