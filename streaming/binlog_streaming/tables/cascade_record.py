"""Record of the cascades in a circle of tables, kept before the first of them is written: `CascadeRecord`.

It is derived from what all of them held before the step, and they are committed one after the other: after the first
commit it could not be derived again. The first record counts: every attempt of the step writes what that one holds, so
that never two tables are written by two derivations, whatever somebody else did to targets in between. It is removed
when all tables of the circle hold the step. So where a table holds it and there is no record, all do.
"""

from __future__ import annotations

import hashlib
import time
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pyarrow as pa

from binlog_connector.crash_points import reached
from binlog_connector.schema.definitions import TableName
from binlog_format.errors import TableError
from binlog_streaming.lake.table_places import path_part, store_at
from binlog_streaming.modes.cascades import TIMES, RowChanges

if TYPE_CHECKING:
    from collections.abc import Mapping

    from binlog_streaming.lake.store import Store
    from binlog_streaming.tables.batch_run import BatchRun

FOLDER = "_binlog_stream/cascades"
"""Folder in the sink's directory; names that begin with an underscore are not for readers."""

_VERSION = 1
_DIGEST_SIZE = hashlib.sha256().digest_size
_STRAY_SECONDS = 24 * 3600
"""Age at which half written files of a killed process are removed."""

Derived = dict[TableName, RowChanges | None]
"""Cascades by table of a circle, see `RowChanges.in_one`; None: none. A record has no origins."""


class RecordCrashPoint(StrEnum):
    """Steps for `reached`, beside those of targets."""

    KEPT = "cascades kept"
    """The cascades are in the store."""
    REMOVED = "cascades removed"
    """The cascades are removed from the store."""


class _Content(msgspec.Struct, frozen=True):
    """A record: of which step, and of each table an Arrow stream with its changes, or nothing.

    The facts tell a left-over of a job that was set back to an older backup from that of this step.
    """

    version: int
    facts: str
    tables: dict[str, bytes | None]


@dataclass(frozen=True, slots=True)
class CascadeRecord:
    """The record of a circle in a step of a batch.

    Attributes:
        store: Of the records of the job's query.
        facts: What is the same whenever the step is repeated.
    """

    store: Store
    name: str
    batch_id: int
    facts: str

    @classmethod
    def of(cls, run: BatchRun, step: int, circle: tuple[TableName, ...], row_changes: int) -> CascadeRecord:
        """Make the record of a step. Raises `OptionError`: `INVALID_VALUE`: as `store_at`."""
        store = store_at(f"{run.sink.directory.rstrip('/')}/{FOLDER}/{path_part(run.query_id)}", run.sink.storage)
        first = ".".join(map(path_part, min(circle)))
        facts = f"up to {run.position}, {row_changes} row changes, {', '.join(map(str, circle))}"
        return cls(store, f"{run.batch_id}-{step}-{first}.cascades", run.batch_id, facts)

    @property
    def uri(self) -> str:
        """Address of the record."""
        return f"{self.store.uri}/{self.name}"

    def read(self, *, is_begun: bool) -> Derived | None:
        """Read the record; None: it does not exist.

        Args:
            is_begun: Whether a table holds the step; without that, a record of another step of this number counts as
                none.

        Raises:
            TableError: `CASCADE_RECORD`: it is damaged, or not of this step.
        """
        found = self._found()
        return None if found is None else self._decoded(found, is_begun=is_begun)

    def keep(self, derived: Mapping[TableName, RowChanges | None]) -> Derived:
        """Keep what was derived, unless another attempt of the step has; what is kept then."""
        tables = {str(name): None if changes is None else _stream(changes) for name, changes in derived.items()}
        body = msgspec.msgpack.encode(_Content(_VERSION, self.facts, tables))
        content = hashlib.sha256(body).digest() + body
        if not self.store.create(self.name, content):
            there = self._found()
            if there is None:
                return dict(derived)  # another attempt has come to the end: all tables hold the step
            kept = self._decoded(there, is_begun=False)
            if kept is not None:
                return kept
            if not self.store.exchange(self.name, there, content):
                return self.keep(derived)
        reached(RecordCrashPoint.KEPT)
        return _derived(tables)

    def remove(self) -> None:
        """Remove it, and what earlier batches left: all tables of the circle hold the step."""
        self.store.remove(self.name)
        for file in self.store.files():
            batch_id = file.name.partition("-")[0]
            is_record = batch_id.isdecimal()
            if int(batch_id) < self.batch_id if is_record else file.modified < time.time() - _STRAY_SECONDS:
                self.store.remove(file.name)
        reached(RecordCrashPoint.REMOVED)

    def _found(self) -> bytes | None:
        with suppress(FileNotFoundError):
            return self.store.read(self.name)
        return None

    def _decoded(self, content: bytes, *, is_begun: bool) -> Derived | None:
        digest, body = content[:_DIGEST_SIZE], content[_DIGEST_SIZE:]
        if hashlib.sha256(body).digest() != digest:
            raise self._unusable("it is damaged")
        record = msgspec.msgpack.decode(body, type=_Content)
        if (record.version, record.facts) == (_VERSION, self.facts):
            return _derived(record.tables)
        if is_begun:
            raise self._unusable(f"it is of another step ({record.facts}; version {record.version})")
        return None

    def _unusable(self, reason: str) -> TableError:
        return TableError(
            "CASCADE_RECORD",
            f"{self.uri}: what foreign keys do to tables in a circle was kept here before the first of them was "
            f"written, and {reason}; this step is {self.facts}",
            hint="Bring the file back from a backup, or build these tables anew (binlog-stream replay)",
        )


def _stream(changes: RowChanges) -> bytes:
    # Column names may come twice, so they are found by their places.
    extra = [pa.field("time", pa.int64()), pa.field("deletes", pa.bool_())]
    schema = pa.schema([*changes.before.schema, *changes.after.schema, *extra])
    arrays = [
        *changes.before.columns,
        *changes.after.columns,
        pa.array(changes.times // TIMES),
        pa.array(changes.deletes),
    ]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
    stream: bytes = sink.getvalue().to_pybytes()
    return stream


def _derived(tables: Mapping[str, bytes | None]) -> Derived:
    return {TableName.parse(name): None if stream is None else _changes(stream) for name, stream in tables.items()}


def _changes(stream: bytes) -> RowChanges:
    with pa.ipc.open_stream(stream) as reader:
        table = reader.read_all()
    count = (table.num_columns - 2) // 2
    fields, none = list(table.schema), np.zeros(len(table), np.int64)
    before, after = (
        pa.Table.from_arrays(table.columns[start : start + count], schema=pa.schema(fields[start : start + count]))
        for start in (0, count)
    )
    deletes = table.column(2 * count + 1).to_numpy()
    return RowChanges(before, after, deletes, table.column(2 * count).to_numpy() * TIMES, none, none)
