"""One Delta table as a target: `DeltaTarget.find`; a step is one commit of our own that carries batch and step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa
from deltalake.exceptions import CommitFailedError, DeltaError

from binlog_streaming.lake.conforming import changed_rows, conformed_rows
from binlog_streaming.lake.delta.actions import Metadata
from binlog_streaming.lake.delta.column_mapping import MODE, file_columns
from binlog_streaming.lake.delta.columns import created, delta_schema, table_schema, with_columns
from binlog_streaming.lake.delta.commit import FEED, TableWrite, upgrade, with_properties
from binlog_streaming.lake.delta.data_files import live_rows
from binlog_streaming.lake.delta.features import check_features
from binlog_streaming.lake.delta.log import (
    conflict,
    empty_log,
    information,
    make_commit,
    newest_log,
    recent_information,
)
from binlog_streaming.lake.delta.maintenance import maintain
from binlog_streaming.lake.find import found_rows
from binlog_streaming.lake.merge import Written, overruled, supersede, take_out
from binlog_streaming.lake.steps import Step, reached
from binlog_streaming.lake.store import looking_at, store_at
from binlog_streaming.lake.target import BATCH_KEY, LAST_CHANGE_KEY, MODE_PROPERTY, STEP_KEY, Applied, Target, Ticket
from binlog_streaming.settings import Merge, Mode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from binlog_streaming.lake.change import Change
    from binlog_streaming.lake.delta.actions import Add
    from binlog_streaming.lake.delta.log import Named, TableLog
    from binlog_streaming.lake.evolution import SchemaChange
    from binlog_streaming.lake.find import Search
    from binlog_streaming.lake.store import Store
    from binlog_streaming.settings import Sink

HISTORY_MAX = 16
"""Commits among which the last step's own is looked for; maintenance makes a few after it."""

STEP_BITS = 32
"""The version of an application transaction is one 64-bit number: batch and step, the batch above."""


@dataclass(slots=True)
class DeltaTarget(Target):
    """A target table as it is now; `log` is None while there is none."""

    write_errors: ClassVar[tuple[type[Exception], ...]] = (DeltaError,)
    takes_parts: ClassVar[bool] = True

    uri: str
    store: Store
    log: TableLog | None
    file_size: int
    merge_kind: Merge = Merge.AUTO

    @classmethod
    def find(cls, uri: str, storage: Mapping[str, str], *, file_size: int, merge: Merge = Merge.AUTO) -> DeltaTarget:
        """Look at what is there.

        Raises:
            TableError: `TABLE_FEATURE`: the table uses something of Delta that is not written here; `WRITE_FAILED`: it
                cannot even be looked at.
        """
        store = store_at(uri, storage)
        with looking_at(uri, DeltaError):
            log = newest_log(store)
        if log is not None:
            check_features(uri, log)
        return cls(uri, store, log, file_size, merge)

    @classmethod
    def at(cls, sink: Sink, uri: str) -> DeltaTarget:
        """See `Target`.

        Raises:
            OptionError: `INVALID_VALUE`: there is no such object store.
            TableError: `TABLE_FEATURE`: the table uses something of Delta that is not written here.
        """
        return cls.find(uri, sink.storage, file_size=sink.target_file_size, merge=sink.merge)

    def properties(self) -> Mapping[str, str] | None:
        """See `Target`."""
        return None if self.log is None else self.log.metadata.configuration

    def applied(self, ticket: Ticket) -> Applied | None:
        """See `Target`."""
        version = None if self.log is None else self.log.transactions.get(_application(ticket))
        if version is None:
            return None
        place = version >> STEP_BITS, version & ((1 << STEP_BITS) - 1)
        return Applied(*place, self._last_change(place) if place == ticket.place else None)

    def _last_change(self, place: tuple[int, int]) -> str | None:
        batch_id, step = map(str, place)
        for said in recent_information(self.store, self._there(), HISTORY_MAX):
            if said.get(BATCH_KEY) == batch_id and said.get(STEP_KEY) == step:
                return str(said.get(LAST_CHANGE_KEY))
        return None

    def version(self) -> str | None:
        """See `Target`."""
        return None if self.log is None else str(self.log.version)

    def schema(self) -> pa.Schema:
        """See `Target`."""
        return table_schema(self._there().metadata)

    def stored_schema(self, schema: pa.Schema) -> pa.Schema:
        """See `Target`."""
        return pa.schema(delta_schema(schema))

    def create(self, schema: pa.Schema, ticket: Ticket) -> None:
        """See `Target`.

        Raises:
            CommitFailedError: Somebody else was faster.
        """
        if self.log is not None:
            return
        configuration = {**ticket.table_properties(), "delta.targetFileSize": str(self.file_size)}
        said = created(
            schema,
            name=ticket.source_table,
            description=ticket.description,
            configuration=configuration,
            partition_by=ticket.partition_by,
        )
        log = empty_log()
        self._publish(log, "CREATE TABLE", said)
        if self.merge_kind is Merge.MARK and ticket.mode is not Mode.CHANGELOG:
            self._publish(log, "SET TBLPROPERTIES", upgrade(log))
        self.log = log
        reached(Step.CREATED)

    def describe(self, ticket: Ticket, *, said: Mapping[str, str] | None = None) -> None:
        """See `Target`.

        Raises:
            CommitFailedError: The table is not any more what it was when it was looked at.
        """
        log = self._there()
        wanted = ticket.table_properties() | dict(said or {})
        if not wanted.items() <= log.metadata.configuration.items():
            self._publish(log, "SET TBLPROPERTIES", [("metaData", with_properties(log.metadata, wanted))])

    def append(self, rows: pa.RecordBatchReader, ticket: Ticket) -> None:
        """See `Target`.

        Raises:
            CommitFailedError: The table is not any more what it was when it was looked at: it has other columns, or
                this step.
        """
        with self._write(self.schema()) as write:
            write.write(conformed_rows(rows, write.schema))
            self._commit(write, "WRITE", ticket)

    def merge(self, change: Change, ticket: Ticket) -> int:
        """See `Target`.

        Raises:
            CommitFailedError: The table is not any more what it was when it was looked at.
        """
        with self._write(self.schema()) as write:
            take_out(write, supersede(write, change, ticket.keys), self._merge_kind)
            if write.is_empty:
                return 0
            self._commit(write, "MERGE", ticket)
        return change.row_count

    def append_part(self, rows: pa.RecordBatchReader) -> Written[Add]:
        """See `Target`."""
        with self._write(self.schema()) as write:
            write.write(conformed_rows(rows, write.schema))
            return write.hand_over((), write.files.row_count)

    def merge_part(self, change: Change, keys: Sequence[str]) -> Written[Add]:
        """See `Target`."""
        with self._write(self.schema()) as write:
            return write.hand_over(supersede(write, change, keys), change.row_count)

    @property
    def takes_overruled(self) -> bool:
        """See `Target`."""
        return self._merge_kind is not Merge.REWRITE and self._there().metadata.configuration.get(FEED) != "true"

    def overruled(self, parts: Sequence[Written[Add]], keys: pa.Table, by: NDArray[np.int64]) -> Written[Add]:
        """See `Target`."""
        with self._write(self.schema()) as write:
            return write.hand_over(overruled(write, parts, keys, by), 0)

    def commit_parts(self, parts: Sequence[Written[Add]], ticket: Ticket) -> int:
        """See `Target`.

        Raises:
            CommitFailedError: The table is not any more what it was when they were written, or looked at.
        """
        with self._write(self.schema()) as write:
            for part in parts:
                write.take_over(part)
            if ticket.keys and any(part.version != self.version() for part in parts):
                raise conflict(self.store, self._there())
            take_out(write, (one for part in parts for one in part.superseded), self._merge_kind)
            if write.is_empty:
                return 0
            self._commit(write, "MERGE", ticket)
        return sum(part.row_count for part in parts)

    @property
    def _merge_kind(self) -> Merge:
        is_changelog = (self.properties() or {}).get(MODE_PROPERTY) == Mode.CHANGELOG
        return Merge.REWRITE if is_changelog else self.merge_kind

    def evolve(self, change: SchemaChange, ticket: Ticket) -> None:
        """See `Target`.

        Columns that are only added cost nothing, as do other names in a table with column mapping; anything else
        writes the table anew.
        """
        schema = self.stored_schema(change.applied_to(self.schema()))
        names_cost = bool(change.renamed) and not self._is_mapped
        if names_cost or change.retyped or change.filled:
            self._overwrite(changed_rows(self.read(), change, schema), ticket, change.renamed)
            return
        with self._write(schema) as write:
            write.actions += with_columns(self._there(), schema, change.renamed)
            self._commit(write, "RENAME COLUMN" if change.renamed else "ADD COLUMN", ticket)

    def read(self) -> pa.RecordBatchReader:
        """See `Target`."""
        schema, store = self.schema(), self.store
        files = list(self._there().files.values())
        columns = file_columns(self._there().metadata)
        batches = (rows for add in files for rows in live_rows(store, add, schema, columns=columns))
        return pa.RecordBatchReader.from_batches(schema, batches)

    def select(self, search: Search, names: Sequence[str]) -> pa.Table:
        """See `Target`."""
        return found_rows(self._write(self.schema()), search, names)

    def replace(self, rows: pa.RecordBatchReader, ticket: Ticket) -> None:
        """See `Target`."""
        self._overwrite(conformed_rows(rows, self.stored_schema(rows.schema)), ticket, {})

    def _overwrite(self, rows: pa.RecordBatchReader, ticket: Ticket, renamed: Mapping[str, str]) -> None:
        log = self._there()
        said = with_columns(log, rows.schema, renamed)
        with self._write(rows.schema, said) as write:
            for add in log.files.values():
                write.remove(add)
            write.actions += said
            write.write(rows)
            self._commit(write, "WRITE", ticket)

    def maintain(self, sink: Sink) -> None:
        """See `Target`."""
        maintain(self.store, self._there(), sink)

    def is_conflict(self, error: Exception) -> bool:
        """See `Target`."""
        return isinstance(error, CommitFailedError)

    @property
    def _is_mapped(self) -> bool:
        return (self.properties() or {}).get(MODE) == "name"

    def _write(self, schema: pa.Schema, said: Sequence[Named] = ()) -> TableWrite:
        metadata = next((action for _, action in said if isinstance(action, Metadata)), None)
        return TableWrite(self.store, self._there(), schema, file_size=self.file_size, metadata=metadata)

    def _commit(self, write: TableWrite, operation: str, ticket: Ticket) -> None:
        version = ticket.batch_id << STEP_BITS | ticket.step
        write.commit(operation, ticket.batch_properties(), (_application(ticket), version))

    def _publish(self, log: TableLog, operation: str, actions: list[Named]) -> None:
        if actions and not make_commit(self.store, log, [information(operation), *actions]):
            raise conflict(self.store, log)

    def _there(self) -> TableLog:
        assert self.log is not None
        return self.log


def _application(ticket: Ticket) -> str:
    # Name of the application transaction.
    return f"binlog-stream/{ticket.query_id}"
