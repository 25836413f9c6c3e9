"""One Iceberg table as a target, without Spark: `IcebergTarget`; every step is one commit that carries its number.

Each step is a snapshot. Batch and step are in the table's properties, by the same commit, and in the snapshot's
summary too. The properties also name that snapshot: when it is not the current one, nor any before it, somebody set the
table back by hand.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa
from pyiceberg.exceptions import (
    CommitFailedException,
    NoSuchNamespaceError,
    NoSuchTableError,
    RESTError,
    TableAlreadyExistsError,
    ValidationError,
    ValidationException,
)
from pyiceberg.schema import assign_fresh_schema_ids
from pyiceberg.table import TableProperties
from sqlalchemy.exc import SQLAlchemyError

from binlog_connector.crash_points import reached
from binlog_format.errors import TableError
from binlog_streaming.lake.commit_id import (
    BATCH_KEY,
    COST_KEY,
    GTID_KEY,
    GTID_POSITION_KEY,
    LAST_CHANGE_KEY,
    MODE_PROPERTY,
    POSITION_KEY,
    QUERY_PROPERTY,
    STEP_KEY,
    Applied,
    CommitId,
    WriteCost,
    write_cost,
)
from binlog_streaming.lake.evolution import cast_rows, changed_rows, with_identity, without_identity
from binlog_streaming.lake.files_target import FilesTarget
from binlog_streaming.lake.iceberg.catalog import (
    close_catalog,
    ensure_namespace,
    identifier,
    open_catalog,
    reading_replies,
)
from binlog_streaming.lake.iceberg.commit import (
    SNAPSHOT_PROPERTY,
    IcebergCommit,
    WaitingTable,
    WaitingUpdates,
)
from binlog_streaming.lake.iceberg.data_files import IDENTITY_FROM, IcebergFileReader
from binlog_streaming.lake.iceberg.maintenance import maintain
from binlog_streaming.lake.iceberg.partitions import partition_spec
from binlog_streaming.lake.iceberg.schema import arrow_schema, evolved, iceberg_schema, replaced
from binlog_streaming.lake.iceberg.snapshots import has_snapshot, sequence_number
from binlog_streaming.lake.iceberg.table_files import live_files, recorded_files
from binlog_streaming.lake.iceberg.table_write import (
    POSITION_DELETES_FROM,
    VECTORS_FROM,
    IcebergTableWrite,
    checked_write,
    require_upgradable,
    version_of,
)
from binlog_streaming.lake.store import looking_at
from binlog_streaming.lake.target import CrashPoint, Upgrade
from binlog_streaming.settings import Merge, Mode

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyiceberg.catalog import Catalog
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table

    from binlog_streaming.lake.evolution import SchemaChange
    from binlog_streaming.lake.target import RecordedFile
    from binlog_streaming.settings import Sink

SOMETIMES = (GTID_KEY, GTID_POSITION_KEY)
"""Properties that not every step has; they must not stay from an earlier one."""

_STEP_PROPERTIES = frozenset(
    {BATCH_KEY, STEP_KEY, POSITION_KEY, LAST_CHANGE_KEY, GTID_KEY, GTID_POSITION_KEY, COST_KEY, SNAPSHOT_PROPERTY}
)


class IcebergTarget(FilesTarget[IcebergTableWrite]):
    """A target table as it is now; `table` is there when something has been written.

    Attributes:
        maintained: `sequence_number` of the table when `maintain` was called the last time, or when it was looked at.
    """

    write_errors: ClassVar[tuple[type[Exception], ...]] = (
        CommitFailedException,
        RESTError,
        TableAlreadyExistsError,
        ValidationError,
        ValidationException,
        SQLAlchemyError,
    )

    def __init__(
        self, sink: Sink, uri: str, catalog: Catalog, waiting: dict[str, WaitingUpdates] | None = None
    ) -> None:
        self.uri = uri
        self._waiting = waiting
        self.catalog = catalog
        self.file_size = sink.target_file_size
        self._directory = sink.directory
        self._name = identifier(sink.directory, uri)
        self._kind = sink.merge
        self._is_identified = sink.row_ids
        self._table: Table | None = None
        self.maintained = 0

    @classmethod
    def at(cls, sink: Sink, uri: str, waiting: dict[str, WaitingUpdates] | None = None) -> IcebergTarget:
        """See `Target`. *waiting*: collects the commits, which wait for those of other tables; None: none waits."""
        with looking_at(uri, RESTError, SQLAlchemyError, access="sink.catalog has the access to a catalog"):
            target = cls(sink, uri, open_catalog(sink), waiting)
            try:
                with suppress(NoSuchTableError, NoSuchNamespaceError), reading_replies():
                    target._table = target._as_waiting(target.catalog.load_table(target._name))
                    target.maintained = sequence_number(target._table)
            except BaseException:
                target.close()
                raise
        return target

    @property
    def table(self) -> Table:
        """The table; it is there."""
        assert self._table is not None
        return self._table

    def _as_waiting(self, table: Table) -> Table:
        return table if self._waiting is None else WaitingTable(table, self.uri, self._waiting)

    def close(self) -> None:
        """See `Target`."""
        close_catalog(self.catalog)

    def properties(self) -> Mapping[str, str] | None:
        """See `Target`."""
        if self._table is None:
            return None
        return {name: value for name, value in self._table.properties.items() if name not in _STEP_PROPERTIES}

    def applied(self, commit_id: CommitId) -> Applied | None:
        """See `Target`."""
        properties = {} if self._table is None else self._table.properties
        if BATCH_KEY not in properties or properties.get(QUERY_PROPERTY) != commit_id.query_id:
            return None
        applied = _applied(properties)
        if not has_snapshot(self.table.metadata, properties.get(SNAPSHOT_PROPERTY)):
            held = self._held(commit_id)
            raise TableError(
                "OTHER_WRITER",
                f"{commit_id.source_table}: {self.uri} had batch {applied.batch_id}, and now holds "
                + ("none" if held is None else f"batch {held.batch_id}, step {held.step}")
                + ": it was set back to an older snapshot",
                hint="Set it forward to the snapshot of that batch; or delete the table, and do as "
                "BINLOG_TABLE.TARGET_GONE advises then: a snapshot alone does not bring it back",
            )
        return applied

    def _held(self, commit_id: CommitId) -> Applied | None:
        # What the snapshots record.
        snapshot = self.table.current_snapshot()
        while snapshot is not None:
            recorded = snapshot.summary.additional_properties if snapshot.summary is not None else {}
            if recorded.get(QUERY_PROPERTY) == commit_id.query_id and BATCH_KEY in recorded:
                return _applied(recorded)
            parent = snapshot.parent_snapshot_id
            snapshot = None if parent is None else self.table.snapshot_by_id(parent)
        return None

    def gtid_positions(self) -> list[str]:
        """See `Target`; the properties have what the last step, or a replay, recorded."""
        return [self.table.properties.get(GTID_POSITION_KEY, "")]

    def transfer_to(self, query_id: str) -> None:
        """See `Target`."""
        # Properties record the last batch, for the one query that is named there. With a snapshot: catalogs
        # compare these, so what the query before it still has under way is refused.
        counted = (BATCH_KEY, STEP_KEY, LAST_CHANGE_KEY, SNAPSHOT_PROPERTY)
        commit = IcebergCommit(properties={QUERY_PROPERTY: query_id}, cleared=counted, keeps_rows=True)
        self._table = commit.on(self.table)

    def version(self) -> str | None:
        """See `Target`; a table without a snapshot has none."""
        return None if self._table is None else version_of(self._table)

    def schema(self) -> pa.Schema:
        """See `Target`."""
        return arrow_schema(self.table.schema())

    def stored_schema(self, schema: pa.Schema) -> pa.Schema:
        """See `Target`."""
        return arrow_schema(iceberg_schema(schema))

    def create(self, schema: pa.Schema, commit_id: CommitId) -> None:
        """See `Target`. Raises `TableAlreadyExistsError`: somebody else was faster."""
        if self._table is not None:
            return
        columns = assign_fresh_schema_ids(iceberg_schema(schema))
        spec = partition_spec(columns, commit_id.partition_by, commit_id.source_table)
        properties = {
            **commit_id.table_properties(),
            "comment": commit_id.description,
            "write.target-file-size-bytes": str(self.file_size),
            "write.parquet.compression-codec": "zstd",
            "write.parquet.compression-level": "1",
            "write.metadata.delete-after-commit.enabled": "true",
            "write.metadata.previous-versions-max": "16",
        }
        if self._is_identified:
            properties[TableProperties.FORMAT_VERSION] = str(IDENTITY_FROM)
        with reading_replies():
            ensure_namespace(self.catalog, self._directory, self._name[:-1])
            table = self.catalog.create_table(
                self._name, columns, location=self.uri, partition_spec=spec, properties=properties
            )
        self._table = self._as_waiting(table)
        reached(CrashPoint.CREATED)

    def set_properties(self, commit_id: CommitId, *, recorded: Mapping[str, str] | None = None) -> None:
        """See `Target`. Raises `CommitFailedException`: the table is not any more what it was when it was looked at."""
        wanted = {**commit_id.table_properties(), "comment": commit_id.description, **(recorded or {})}
        new = {key: value for key, value in wanted.items() if self.table.properties.get(key) != value}
        if new:
            self._table = IcebergCommit(properties=new, snapshot=False).on(self.table)

    @property
    def _merge_kind(self) -> Merge:
        version = self.table.metadata.format_version
        if version < POSITION_DELETES_FROM or self.table.properties.get(MODE_PROPERTY) == Mode.CHANGELOG:
            return Merge.REWRITE
        # Who reads that version reads vectors; so small tables need no files that are written anew.
        return Merge.MARK if version >= VECTORS_FROM and self._kind is Merge.AUTO else self._kind

    def evolve(self, change: SchemaChange, commit_id: CommitId) -> None:
        """See `Target`.

        Columns change by the table's metadata alone, unless values change.
        """
        evolution = evolved(self.table.metadata, change)
        with self._begin(evolution.schema) as write:
            if evolution.is_rewrite:
                self._overwrite(write, changed_rows(self.identified_rows(), change, write.schema))
            self._commit(write, commit_id)

    def read(self) -> pa.RecordBatchReader:
        """See `Target`; a table with what is not read here is `TABLE_FEATURE`."""
        return self._rows(identified=False)

    def identified_rows(self) -> pa.RecordBatchReader:
        """See `Target`."""
        return self._rows(identified=self.table.metadata.format_version >= IDENTITY_FROM)

    def _rows(self, *, identified: bool) -> pa.RecordBatchReader:
        metadata, io, schema = self.table.metadata, self.table.io, self.schema()
        files, reader = live_files(metadata, io, self.uri), IcebergFileReader(metadata, io)
        batches = (rows for live in files for rows in reader.live_rows(live, schema, identified=identified))
        return pa.RecordBatchReader.from_batches(with_identity(schema) if identified else schema, batches)

    def recorded_files(self) -> Iterator[RecordedFile]:
        """See `Target`."""
        return recorded_files(self.table.metadata, self.table.io, self.uri)

    def replace(self, rows: pa.RecordBatchReader, commit_id: CommitId) -> None:
        """See `Target`. Raises `CommitFailedException`: the table is not any more what it was when it was looked at."""
        with self._begin(replaced(self.table.metadata, without_identity(rows.schema))) as write:
            self._overwrite(write, cast_rows(rows, with_identity(write.schema, rows.schema)))
            self._commit(write, commit_id)

    def _overwrite(self, write: IcebergTableWrite, rows: pa.RecordBatchReader) -> None:
        for live in write.files():
            write.remove(live)
        write.write(rows)

    def upgrade(self, sink: Sink, *, is_dry: bool) -> Sequence[Upgrade]:
        """See `Target`. Raises `CommitFailedException`: the table is not any more what it was when it was looked at."""
        if not sink.row_ids or self.table.metadata.format_version >= IDENTITY_FROM:
            return ()
        require_upgradable(self.table, self.uri)
        if not is_dry:
            # With a snapshot: rows have ids at once, and what a job has under way for the table as it was is refused.
            self._table = IcebergCommit(upgrades=True, keeps_rows=True).on(self.table)
        return (Upgrade(f"format version {IDENTITY_FROM}", "readers of versions 1 and 2 alone"),)

    def maintain(self, sink: Sink) -> None:
        """See `Target`; while commits wait there is nothing to maintain."""
        if self._waiting is not None:
            return
        since, self.maintained = self.maintained, sequence_number(self.table)
        # Somebody else committed meanwhile: there will be another time.
        with suppress(CommitFailedException, ValidationException):
            self._table = maintain(
                self.table, self.uri, since=since, file_size=self.file_size, retention_hours=sink.retention_hours
            )

    def is_conflict(self, error: Exception) -> bool:
        """See `Target`."""
        return isinstance(error, (CommitFailedException, TableAlreadyExistsError, ValidationException))

    def _begin(self, columns: Schema | None = None) -> IcebergTableWrite:
        return checked_write(self.table, self.uri, file_size=self.file_size, columns=columns)

    def _conflict(self) -> Exception:
        return CommitFailedException("the table was changed between the look and the write")

    def bytes_per_row(self) -> float | None:
        """See `Target`."""
        recorded = None if self._table is None else self._table.properties.get(COST_KEY)
        return write_cost(recorded).bytes_per_row if recorded else None

    def write_cost(self) -> WriteCost:
        """See `FilesTarget`."""
        return write_cost(self.table.properties.get(COST_KEY))

    def _commit(
        self,
        write: IcebergTableWrite,
        commit_id: CommitId,
        operation: str = "WRITE",
        cost: WriteCost | None = None,
    ) -> None:
        write.prepare()
        reached(CrashPoint.FILES_WRITTEN)
        recorded = commit_id.batch_properties() | ({} if cost is None else cost.properties())
        summary = {QUERY_PROPERTY: commit_id.query_id, **recorded}
        self._table = write.commit(
            properties=recorded, cleared=SOMETIMES, summary=summary, is_step=True, is_blind=operation == "WRITE"
        )
        if self._waiting is None:
            reached(CrashPoint.COMMITTED)


def _applied(recorded: Mapping[str, str]) -> Applied:
    return Applied(int(recorded[BATCH_KEY]), int(recorded.get(STEP_KEY, "0")), recorded.get(LAST_CHANGE_KEY))
