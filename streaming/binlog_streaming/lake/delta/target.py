"""One Delta table as a target, without Spark: `DeltaTarget.find`; a step is one commit that carries batch and step."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError

from binlog_format.errors import OptionError, UnsupportedError
from binlog_streaming.lake.conforming import changed_rows, conformed_rows
from binlog_streaming.lake.delta.delta_merge import merge_change
from binlog_streaming.lake.delta.features import WRITER_VERSION_MAX, open_table
from binlog_streaming.lake.delta.log import read_log
from binlog_streaming.lake.delta.maintenance import maintain, writer_properties
from binlog_streaming.lake.delta.merge_on_read import (
    Marking,
    information,
    make_commit,
    markable_log,
    upgrade,
    with_properties,
)
from binlog_streaming.lake.steps import Step, reached
from binlog_streaming.lake.target import BATCH_KEY, LAST_CHANGE_KEY, MODE_PROPERTY, STEP_KEY, Applied, Target, Ticket
from binlog_streaming.settings import Merge, Mode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from binlog_streaming.lake.change import Change
    from binlog_streaming.lake.delta.delta_merge import MergeSource
    from binlog_streaming.lake.evolution import SchemaChange
    from binlog_streaming.settings import Sink

HISTORY_MAX = 16
"""Commits among which the last step's own is looked for; maintenance makes a few behind it."""

STEP_BITS = 32
"""The version of an application transaction is one 64-bit number: batch and step, the batch above."""


@dataclass(slots=True)
class DeltaTarget(Target):
    """A target table as it is now; `table` is None while nothing has been written.

    With `Merge.DELETION_VECTORS` the place is a folder.
    """

    write_errors: ClassVar[tuple[type[Exception], ...]] = (DeltaError,)

    uri: str
    storage: Mapping[str, str]
    table: DeltaTable | None
    file_size: int
    merge_kind: Merge = Merge.REWRITE

    @classmethod
    def find(cls, uri: str, storage: Mapping[str, str], *, file_size: int, merge: Merge = Merge.REWRITE) -> DeltaTarget:
        """Look at what is there.

        Raises:
            TableError: `TABLE_FEATURE`: the table uses something of Delta that is not written here.
        """
        if not DeltaTable.is_deltatable(uri, dict(storage)):
            return cls(uri, storage, None, file_size, merge)
        return cls(uri, storage, open_table(uri, storage), file_size, merge)

    @classmethod
    def at(cls, sink: Sink, uri: str) -> DeltaTarget:
        """See `Target`.

        Raises:
            OptionError: `INVALID_VALUE`: deletion vectors are wanted, and the place is no folder.
            TableError: `TABLE_FEATURE`: the table uses something of Delta that is not written here.
        """
        if sink.merge is Merge.DELETION_VECTORS and "://" in sink.directory:
            raise OptionError(
                "INVALID_VALUE",
                f"sink.directory: commits with deletion vectors are made in folders only, got {sink.directory}",
                hint="Leave sink.merge out",
            )
        return cls.find(uri, sink.storage, file_size=sink.target_file_size, merge=sink.merge)

    def properties(self) -> Mapping[str, str] | None:
        """See `Target`."""
        return None if self.table is None else self.table.metadata().configuration

    def applied(self, ticket: Ticket) -> Applied | None:
        """See `Target`."""
        version = None if self.table is None else self.table.transaction_version(_application(ticket))
        if version is None:
            return None
        place = version >> STEP_BITS, version & ((1 << STEP_BITS) - 1)
        return Applied(*place, self._last_change(place) if place == ticket.place else None)

    def _last_change(self, place: tuple[int, int]) -> str | None:
        batch_id, step = map(str, place)
        for commit in self._there().history(HISTORY_MAX):
            if commit.get(BATCH_KEY) == batch_id and commit.get(STEP_KEY) == step:
                return str(commit.get(LAST_CHANGE_KEY))
        return None

    def schema(self) -> pa.Schema:
        """See `Target`."""
        return pa.schema(self._there().schema())

    def stored_schema(self, schema: pa.Schema) -> pa.Schema:
        """See `Target`."""
        return pa.schema(delta_schema(schema))

    def create(self, schema: pa.Schema, ticket: Ticket) -> None:
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
        if self._marks_rows() and (log := markable_log(self.uri, self.table.version())):
            self._commit("SET TBLPROPERTIES", upgrade(log))
        reached(Step.CREATED)

    def describe(self, ticket: Ticket, *, said: Mapping[str, str] | None = None) -> None:
        """See `Target`."""
        table = self._there()
        wanted = ticket.table_properties() | dict(said or {})
        if wanted.items() <= table.metadata().configuration.items():
            return
        log = read_log(self.uri, table.version()) if "://" not in self.uri else None
        if log is not None and table.protocol().min_writer_version == WRITER_VERSION_MAX:
            # deltalake would let the table name `variantType` as well, which not every reader knows.
            self._commit("SET TBLPROPERTIES", [("metaData", with_properties(log.metadata, wanted))])
        else:
            table.alter.set_table_properties(wanted, raise_if_not_exists=False)

    def append(self, rows: pa.RecordBatchReader, ticket: Ticket) -> None:
        """See `Target`.

        Raises:
            CommitFailedError: The table is not any more what it was when it was looked at.
        """
        schema = self.schema()
        write_deltalake(
            self._there(),
            conformed_rows(rows, schema),
            mode="append",
            target_file_size=self.file_size,
            writer_properties=writer_properties(schema),
            commit_properties=_commit_properties(ticket),
        )
        reached(Step.COMMITTED)

    def merge(self, change: Change, ticket: Ticket) -> int:
        """See `Target`."""
        return merge_change(self, change, ticket)

    def merge_rows(self, source: MergeSource, on: str, ticket: Ticket) -> None:
        """Bring rows in by key, in one commit.

        Args:
            source: What becomes of them.
            on: Condition with the aliases `t` (target) and `s` (the rows of *source*).
            ticket: Who writes.
        """
        merger = self._there().merge(
            source.rows,
            on,
            source_alias="s",
            target_alias="t",
            # Not streamed, deltalake prunes files by its own statistics, and misses rows where these are inexact.
            streamed_exec=True,
            writer_properties=writer_properties(self.schema()),
            commit_properties=_commit_properties(ticket, retries=0),
        )
        source.clauses(merger).execute()
        reached(Step.COMMITTED)

    def mark_rows(self, change: Change, ticket: Ticket) -> bool | None:
        """Bring *change* in with deletion vectors, in one commit.

        Args:
            change: At least one key.
            ticket: Who writes.

        Returns:
            Whether there was something to change; None: nothing was done, it has to be brought in by a merge.

        Raises:
            CommitFailedError: The table is not any more what it was when it was looked at.
        """
        if not self._marks_rows():
            return None
        table = self._there()
        log = markable_log(self.uri, table.version())
        if log is None:
            return None
        transaction = {"appId": _application(ticket), "version": _application_version(ticket)}
        marking = Marking(self.uri, log, self.schema(), file_size=self.file_size)
        is_written = marking.bring(change, ticket.keys, ticket.batch_properties(), transaction)
        if is_written:
            table.load_as_version(log.version + 1)
            reached(Step.COMMITTED)
        return is_written

    def evolve(self, change: SchemaChange, ticket: Ticket) -> None:
        """See `Target`.

        Columns that are only added cost nothing; anything else writes the table anew.
        """
        schema = self.stored_schema(change.applied_to(self.schema()))
        if change.renamed or change.retyped or change.filled:
            self._overwrite(changed_rows(self.read(), change, schema), ticket)
            return
        added = [Schema.from_arrow(pa.schema([schema.field(name)])).fields[0] for name in change.added.names]
        self._there().alter.add_columns(added, commit_properties=_commit_properties(ticket))
        reached(Step.COMMITTED)

    def read(self) -> pa.RecordBatchReader:
        """See `Target`.

        To be called before a write that it feeds begins, not by the generator of that write's rows: deltalake cannot
        begin to read within a write. Taking batches there is fine.
        """
        return conformed_rows(pa.RecordBatchReader.from_stream(self._there().scan()), self.schema())

    def replace(self, rows: pa.RecordBatchReader, ticket: Ticket) -> None:
        """See `Target`."""
        self._overwrite(conformed_rows(rows, self.stored_schema(rows.schema)), ticket)

    def _overwrite(self, rows: pa.RecordBatchReader, ticket: Ticket) -> None:
        write_deltalake(
            self._there(),
            rows,
            mode="overwrite",
            schema_mode="overwrite",
            target_file_size=self.file_size,
            writer_properties=writer_properties(rows.schema),
            commit_properties=_commit_properties(ticket, retries=0),
        )
        reached(Step.COMMITTED)

    def maintain(self, sink: Sink) -> None:
        """See `Target`."""
        maintain(self._there(), sink, folder=self.uri if self._marks_rows() else None)

    def is_conflict(self, error: Exception) -> bool:
        """See `Target`."""
        return is_commit_conflict(error)

    def key_ranges(self, column: str) -> tuple[pa.Array, pa.Array] | None:
        """Least and greatest value of *column* in each file; None where a file does not say."""
        files = pa.table(self._there().get_add_actions(flatten=True))
        if f"min.{column}" not in files.column_names or f"max.{column}" not in files.column_names:
            return None
        least = files.column(f"min.{column}").combine_chunks()
        greatest = files.column(f"max.{column}").combine_chunks()
        return None if least.null_count or greatest.null_count else (least, greatest)

    def _marks_rows(self) -> bool:
        is_changelog = (self.properties() or {}).get(MODE_PROPERTY) == Mode.CHANGELOG
        return self.merge_kind is Merge.DELETION_VECTORS and not is_changelog

    def _commit(self, operation: str, actions: list[tuple[str, object]]) -> None:
        version = self._there().version() + 1
        make_commit(self.uri, version, [information(operation), *actions])
        self._there().load_as_version(version)

    def _there(self) -> DeltaTable:
        assert self.table is not None
        return self.table


def delta_schema(schema: pa.Schema) -> Schema:
    """The schema as Delta has it; every column may be null.

    The server's NOT NULL is not taken over: zero dates become null, and rows may come without some columns.

    Raises:
        UnsupportedError: `COLUMN_TYPE`: Delta has no such type.
    """
    for field in schema:
        if not _has_type(field.type):
            raise UnsupportedError("COLUMN_TYPE", f"column {field.name}: Delta has no type for {field.type}")
    return Schema.from_arrow(pa.schema([field.with_nullable(True) for field in schema]))


def is_commit_conflict(error: Exception) -> bool:
    """Whether somebody else committed between the look and the write."""
    return isinstance(error, CommitFailedError) or re.search(r"already exists", str(error)) is not None


_NUMBERS = (pa.types.is_signed_integer, pa.types.is_float32, pa.types.is_float64, pa.types.is_decimal128)
_TEXTS = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
_SIMPLE = (*_NUMBERS, *_TEXTS, pa.types.is_boolean, pa.types.is_date32)


def _has_type(kind: pa.DataType) -> bool:
    # deltalake itself takes unsigned integers as well, as signed ones of the same width.
    if pa.types.is_struct(kind):
        return all(_has_type(field.type) for field in kind)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _has_type(kind.value_type)
    if pa.types.is_timestamp(kind):
        return kind.unit == "us" and kind.tz in (None, "UTC")
    return any(is_type(kind) for is_type in _SIMPLE)


def _application(ticket: Ticket) -> str:
    # Name of the application transaction.
    return f"binlog-stream/{ticket.query_id}"


def _application_version(ticket: Ticket) -> int:
    return ticket.batch_id << STEP_BITS | ticket.step


def _commit_properties(ticket: Ticket, *, retries: int | None = None) -> CommitProperties:
    # Without retries a commit fails when there was any other since the look: what was read is not what is there now.
    return CommitProperties(
        custom_metadata=ticket.batch_properties(),
        app_transactions=[Transaction(_application(ticket), _application_version(ticket))],
        max_commit_retries=retries,
    )
