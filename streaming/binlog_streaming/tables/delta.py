"""One Delta table as a target, without Spark: `DeltaTarget.find`; every write carries (query, batch) in its commit."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa
from deltalake import (
    CommitProperties,
    DeltaTable,
    Schema,
    Transaction,
    write_deltalake,
)
from deltalake.exceptions import CommitFailedError, DeltaError

from binlog_streaming.tables.delta_merge import identifier, write_mirror
from binlog_streaming.tables.maintenance import maintain, writer_properties
from binlog_streaming.tables.steps import Step, reached
from binlog_streaming.tables.target import BATCH_KEY, LAST_CHANGE_KEY, Applied, Target, Ticket

if TYPE_CHECKING:
    from collections.abc import Mapping

    from binlog_streaming.settings import Sink
    from binlog_streaming.tables.mirror import Reduced

HISTORY_MAX = 16
"""Commits among which the last batch's own is looked for; maintenance makes a few behind it."""


@dataclass(slots=True)
class DeltaTarget(Target):
    """A target table as it is now; `table` is None while nothing has been written."""

    write_errors: ClassVar[tuple[type[Exception], ...]] = (DeltaError,)

    uri: str
    storage: Mapping[str, str]
    table: DeltaTable | None
    file_size: int

    @classmethod
    def find(cls, uri: str, storage: Mapping[str, str], *, file_size: int) -> DeltaTarget:
        """Look at what is there."""
        options = dict(storage)
        exists = DeltaTable.is_deltatable(uri, options)
        return cls(uri, storage, DeltaTable(uri, storage_options=options) if exists else None, file_size)

    @classmethod
    def at(cls, sink: Sink, uri: str) -> DeltaTarget:
        """See `Target`."""
        return cls.find(uri, sink.storage, file_size=sink.target_file_size)

    def properties(self) -> Mapping[str, str] | None:
        """See `Target`."""
        return None if self.table is None else self.table.metadata().configuration

    def applied(self, ticket: Ticket) -> Applied | None:
        """See `Target`."""
        if self.table is None:
            return None
        version = self.table.transaction_version(_application(ticket))
        if version is None:
            return None
        return Applied(version, self._last_change(version) if version == ticket.batch_id else None)

    def _last_change(self, batch_id: int) -> str | None:
        assert self.table is not None
        for commit in self.table.history(HISTORY_MAX):
            if commit.get(BATCH_KEY) == str(batch_id):
                return str(commit.get(LAST_CHANGE_KEY))
        return None

    def columns(self) -> dict[str, str]:
        """See `Target`."""
        assert self.table is not None
        return _columns(self.table.schema())

    def column_types(self, schema: pa.Schema) -> dict[str, str]:
        """See `Target`."""
        return _columns(delta_schema(schema))

    def ensure(self, schema: pa.Schema, ticket: Ticket) -> None:
        """See `Target`."""
        if self.table is not None:
            return
        self.table = DeltaTable.create(
            self.uri,
            delta_schema(schema),
            mode="error",
            name=ticket.source_table,
            description=ticket.description,
            configuration={**ticket.table_properties(), "delta.targetFileSize": str(self.file_size)},
            storage_options=dict(self.storage),
            raise_if_key_not_exists=False,  # deltalake knows only the properties of Delta itself
        )
        reached(Step.CREATED)

    def append(self, rows: pa.RecordBatchReader, ticket: Ticket) -> None:
        """See `Target`.

        Raises:
            CommitFailedError: The table is not any more what it was when it was looked at.
        """
        assert self.table is not None
        names = [field.name for field in self.table.schema().fields]
        write_deltalake(
            self.table,
            rows if rows.schema.names == names else _reordered(rows, names),
            mode="append",
            target_file_size=self.file_size,
            writer_properties=writer_properties(rows.schema),
            commit_properties=_commit_properties(ticket),
        )
        reached(Step.COMMITTED)

    def merge(self, change: Reduced, ticket: Ticket) -> int:
        """See `Target`."""
        return write_mirror(self, change, ticket.keys, ticket)

    def merge_rows(self, rows: pa.Table, *, deleted: str, on: str, names: Mapping[str, str], ticket: Ticket) -> None:
        """Bring rows in by key, in one commit: matched rows are replaced or deleted, others inserted.

        Args:
            rows: At most one row for a key.
            deleted: Boolean column of *rows*: the row's key is to vanish.
            on: Condition with the aliases `t` (target) and `s` (*rows*).
            names: For every column of the target, its column in *rows*.
            ticket: Who writes.
        """
        assert self.table is not None
        values = {identifier(target): f"s.{source}" for target, source in names.items()}
        merger = self.table.merge(
            rows,
            on,
            source_alias="s",
            target_alias="t",
            # Not streamed, deltalake prunes files by its own statistics, and misses rows where these are inexact.
            streamed_exec=True,
            writer_properties=writer_properties(self._arrow_schema()),
            commit_properties=_commit_properties(ticket),
        )
        merger = merger.when_matched_delete(f"s.{deleted}").when_matched_update(values)
        merger.when_not_matched_insert(values, f"NOT s.{deleted}").execute()
        reached(Step.COMMITTED)

    def maintain(self, sink: Sink) -> None:
        """See `Target`."""
        assert self.table is not None
        maintain(self.table, sink)

    def is_conflict(self, error: Exception) -> bool:
        """See `Target`."""
        return is_commit_conflict(error)

    def key_ranges(self, column: str) -> tuple[pa.Array, pa.Array] | None:
        """Least and greatest value of *column* in each file; None where a file does not say."""
        assert self.table is not None
        files = pa.table(self.table.get_add_actions(flatten=True))
        if f"min.{column}" not in files.column_names or f"max.{column}" not in files.column_names:
            return None
        least = files.column(f"min.{column}").combine_chunks()
        greatest = files.column(f"max.{column}").combine_chunks()
        return None if least.null_count or greatest.null_count else (least, greatest)

    def _arrow_schema(self) -> pa.Schema:
        assert self.table is not None
        return pa.schema(self.table.schema())


def delta_schema(schema: pa.Schema) -> Schema:
    """The schema as Delta has it; every column may be null.

    The server's NOT NULL is not taken over: zero dates become null, and rows may come without some columns.
    """
    return Schema.from_arrow(pa.schema([field.with_nullable(True) for field in schema]))


def is_commit_conflict(error: Exception) -> bool:
    """Whether somebody else committed between the look and the write."""
    return isinstance(error, CommitFailedError) or re.search(r"already exists", str(error)) is not None


def _reordered(rows: pa.RecordBatchReader, names: list[str]) -> pa.RecordBatchReader:
    schema = pa.schema([rows.schema.field(name) for name in names])
    return pa.RecordBatchReader.from_batches(schema, (batch.select(names) for batch in rows))


def _columns(schema: Schema) -> dict[str, str]:
    return {field.name: _type_name(field.type) for field in schema.fields}


def _type_name(delta_type: object) -> str:
    # Primitive types print as PrimitiveType("long").
    match = re.fullmatch(r'PrimitiveType\("(.*)"\)', str(delta_type))
    return match[1] if match else str(delta_type)


def _application(ticket: Ticket) -> str:
    # Name of the application transaction.
    return f"binlog-stream/{ticket.query_id}"


def _commit_properties(ticket: Ticket) -> CommitProperties:
    return CommitProperties(
        custom_metadata=ticket.batch_properties(),
        app_transactions=[Transaction(_application(ticket), ticket.batch_id)],
    )
