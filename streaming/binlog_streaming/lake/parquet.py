"""Parquet files as a target of changelogs, in a folder or an object store: `ParquetTarget`; a step is one file.

The file gets its name when it is whole, unless there is one of that name; so it is there or it is not, and its name,
with batch and step, records that the step is done. A step that changes columns is a file without rows; the columns of
the newest file are those of the table. The table's own facts are in `_binlog-stream.json`.
"""

from __future__ import annotations

import base64
import json
import re
import uuid
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from binlog_connector.crash_points import reached
from binlog_format.errors import UnsupportedError
from binlog_streaming.lake.commit_id import GTID_POSITION_KEY, LAST_CHANGE_KEY, QUERY_PROPERTY, Applied, CommitId
from binlog_streaming.lake.evolution import cast_rows, cast_to_schema
from binlog_streaming.lake.store import UNFINISHED, looking_at
from binlog_streaming.lake.table_places import store_at
from binlog_streaming.lake.target import CrashPoint, Target

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from binlog_streaming.lake.change import Change
    from binlog_streaming.lake.evolution import SchemaChange
    from binlog_streaming.lake.store import Store
    from binlog_streaming.settings import Sink

TABLE_FILE = "_binlog-stream.json"
_STEP_FILE = re.compile(r"batch-(\d{10,})(?:-(\d{4,}))?\.parquet")

_WRITE_KEY = "binlog-stream.writeId"
"""Property of a file with the id of its step's writer, which distinguishes two writers of the same step."""

_NEW_WAY = 'Use mode changelog for it, or sink.format = "delta" or "iceberg"'


_newest_names: dict[str, str] = {}
"""Newest file known to this process, by place: files before it need not be listed again."""


@dataclass(slots=True)
class ParquetTarget(Target):
    """The files at a place as they are now; `table` is what its file contains, None while there is none."""

    write_errors: ClassVar[tuple[type[Exception], ...]] = ()
    supports_other_owner: ClassVar[bool] = False  # files are named by the batches of their query

    uri: str
    store: Store
    table: _Table | None
    newest: _StepFile | None
    leftovers: list[str]

    @classmethod
    def at(cls, sink: Sink, uri: str) -> ParquetTarget:
        """See `Target`."""
        store = store_at(uri, sink.storage)
        with looking_at(uri, pa.ArrowException):
            table = _Table.read(store)
            names = _names_since(store, _newest_names.get(uri)) or _names_since(store, None)
            if table is None and any(name.endswith(".parquet") for name in names):
                table = _Table({}, pa.schema([]), b"")  # files of somebody else: a table that nobody owns
            steps = {place: name for name in names if (place := _place(name))}
            newest = _StepFile.read(store, steps[max(steps)]) if steps else None
        return cls(uri, store, table, newest, [name for name in names if name.startswith(UNFINISHED)])

    def properties(self) -> Mapping[str, str] | None:
        """See `Target`."""
        return None if self.table is None else self.table.properties

    def applied(self, commit_id: CommitId) -> Applied | None:
        """See `Target`."""
        del commit_id  # a file has one place in the order of steps, whoever wrote it
        return None if self.newest is None else Applied(*self.newest.place, self.newest.recorded.get(LAST_CHANGE_KEY))

    def sync(self) -> None:
        """See `Target`."""
        if self.newest is not None:
            self.store.sync(self.newest.name)

    def gtid_positions(self) -> list[str]:
        """See `Target`; a replay records them in the table's file, a step in its own."""
        step = "" if self.newest is None else self.newest.recorded.get(GTID_POSITION_KEY, "")
        return [*Target.gtid_positions(self), step]

    def schema(self) -> pa.Schema:
        """See `Target`."""
        if self.newest is not None:
            return self.newest.schema
        assert self.table is not None
        return self.table.schema

    def stored_schema(self, schema: pa.Schema) -> pa.Schema:
        """See `Target`."""
        for field in schema:
            if not _has_type(field.type):
                raise UnsupportedError("COLUMN_TYPE", f"column {field.name}: plain Parquet files have no {field.type}")
        return pa.schema([(field.name, field.type) for field in schema])

    def create(self, schema: pa.Schema, commit_id: CommitId) -> None:
        """See `Target`. Raises `FileExistsError`: somebody else was faster."""
        if self.table is not None:
            return
        self._save(_Table.of(commit_id.table_properties(), self.stored_schema(schema)))
        reached(CrashPoint.CREATED)

    def set_properties(self, commit_id: CommitId, *, recorded: Mapping[str, str] | None = None) -> None:
        """See `Target`. Raises `FileExistsError`: the table is not any more what it was when it was looked at."""
        assert self.table is not None
        properties = {**self.table.properties, **commit_id.table_properties(), **(recorded or {})}
        if properties != self.table.properties:
            self._save(_Table.of(properties, self.table.schema))

    def append(self, rows: pa.RecordBatchReader, commit_id: CommitId) -> None:
        """See `Target`. Raises `FileExistsError`: somebody else was faster."""
        self._write(cast_rows(rows, self.schema()), commit_id)

    def merge(self, change: Change, commit_id: CommitId) -> int:
        """Refuse: rows of plain files cannot be replaced in one step."""
        del change  # refused whatever it is
        raise self._refused(commit_id, f"mode {commit_id.mode} cannot be kept in plain Parquet files", _NEW_WAY)

    def evolve(self, change: SchemaChange, commit_id: CommitId) -> None:
        """New and wider columns in later files; those that are there stay as they are."""
        values = [name for name, value in change.filled.items() if value.is_valid or name not in change.added.names]
        if change.renamed or values:
            raise self._refused(
                commit_id,
                "rows in plain Parquet files stay as they were written: columns cannot get other names or values",
                'Use sink.format = "delta" or "iceberg" for it',
            )
        schema = self.stored_schema(change.applied_to(self.schema()))
        self._write(pa.RecordBatchReader.from_batches(schema, []), commit_id)

    def read(self) -> pa.RecordBatchReader:
        """See `Target`; rows from before a column was there have null in it."""
        schema = self.schema()
        steps = {place: name for name in _names_since(self.store, None) if (place := _place(name))}
        batches = (rows for _, name in sorted(steps.items()) for rows in self._rows(name, schema))
        return pa.RecordBatchReader.from_batches(schema, batches)

    def _rows(self, name: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        with closing(self.store.opened(name)) as file:
            for batch in pq.ParquetFile(file).iter_batches():
                yield cast_to_schema(batch, schema)

    def replace(self, rows: pa.RecordBatchReader, commit_id: CommitId) -> None:
        """Refuse, like `merge`."""
        del rows  # refused whatever they are
        raise self._refused(commit_id, "rows in plain Parquet files cannot be replaced", _NEW_WAY)

    def maintain(self, sink: Sink) -> None:
        """Do nothing: files of changelogs are never replaced."""

    def is_conflict(self, error: Exception) -> bool:
        """See `Target`."""
        return isinstance(error, FileExistsError)

    def _refused(self, commit_id: CommitId, reason: str, hint: str) -> UnsupportedError:
        return UnsupportedError("FORMAT", f"{commit_id.source_table}: {self.uri}: {reason}", hint=hint)

    def _write(self, rows: pa.RecordBatchReader, commit_id: CommitId) -> None:
        self._remove_leftovers()
        name = f"batch-{commit_id.batch_id:010d}-{commit_id.step:04d}.parquet"
        recorded = {QUERY_PROPERTY: commit_id.query_id, _WRITE_KEY: str(uuid.uuid4()), **commit_id.batch_properties()}
        file = self.store.new_file(f"{UNFINISHED}{uuid.uuid4().hex}")
        try:
            footer = _written(file.sink, rows, recorded)
            reached(CrashPoint.FILES_WRITTEN)
            # Of a request whose answer was lost, the next try finds what it put there.
            is_ours = file.finish_as(name)
            if not is_ours and _StepFile.read(self.store, name).recorded.get(_WRITE_KEY) != recorded[_WRITE_KEY]:
                raise FileExistsError(f"{self.uri}/{name} was written by somebody else")
        except BaseException:
            file.abandon()
            raise
        self.newest = _StepFile.of(name, footer)
        _newest_names[self.uri] = name
        reached(CrashPoint.COMMITTED)

    def _save(self, table: _Table) -> None:
        before = None if self.table is None else self.table.content
        if not self.store.exchange(TABLE_FILE, before, table.content):
            raise FileExistsError(f"{self.uri}/{TABLE_FILE} was written by somebody else: it exists, or changed")
        self.table = table

    def _remove_leftovers(self) -> None:
        # Of runs that were cut off. A twin that still writes one gets an error when it wants to name it, as it should.
        for name in self.leftovers:
            self.store.remove(name)
        self.leftovers.clear()


@dataclass(frozen=True, slots=True)
class _Table:
    # What the table's file contains: its properties, and the columns that it was made with.
    properties: Mapping[str, str]
    schema: pa.Schema
    content: bytes

    @classmethod
    def of(cls, properties: Mapping[str, str], schema: pa.Schema) -> _Table:
        made_with = base64.b64encode(schema.serialize()).decode()
        text = json.dumps({"properties": properties, "made_with": made_with}, ensure_ascii=False, indent=1)
        return cls(properties, schema, text.encode())

    @classmethod
    def read(cls, store: Store) -> _Table | None:
        try:
            content = store.read(TABLE_FILE)
        except FileNotFoundError:
            return None
        recorded = json.loads(content)
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(recorded["made_with"])))
        return cls(recorded["properties"], schema, content)


@dataclass(frozen=True, slots=True)
class _StepFile:
    # A step that is there: its file, its batch and number, and what its file contains.
    name: str
    place: tuple[int, int]
    schema: pa.Schema
    recorded: Mapping[str, str]

    @classmethod
    def of(cls, name: str, footer: pq.FileMetaData) -> _StepFile:
        metadata = footer.metadata or {}
        ours = ((key, value) for key, value in metadata.items() if key.startswith(b"binlog-stream."))
        recorded = {key.decode(): value.decode() for key, value in ours}
        place = _place(name)
        assert place is not None
        return cls(name, place, footer.schema.to_arrow_schema().remove_metadata(), recorded)

    @classmethod
    def read(cls, store: Store, name: str) -> _StepFile:
        with closing(store.opened(name)) as file:
            return cls.of(name, pq.read_metadata(file))


def _written(sink: pa.NativeFile, rows: pa.RecordBatchReader, recorded: Mapping[str, str]) -> pq.FileMetaData:
    # The rows as one file, and its footer.
    footers: list[pq.FileMetaData] = []
    schema = rows.schema.with_metadata(recorded)
    writer = pq.ParquetWriter(sink, schema, compression="zstd", compression_level=1, metadata_collector=footers)
    try:
        writer.add_key_value_metadata(recorded)
        for batch in rows:
            writer.write_batch(batch)
    except BaseException:
        with suppress(OSError, pa.ArrowException, RuntimeError):  # it has no footer to give, and raises
            writer.close()
        raise
    writer.close()
    return footers[0]


def _names_since(store: Store, name: str | None) -> list[str]:
    # *name* itself is among them, if it is there still; None: all names.
    after = "" if name is None else name[:-1]
    return [file.name for file in store.files(after=after) if "/" not in file.name]


def _place(name: str) -> tuple[int, int] | None:
    # Batch and step of a step's file; None: it is another one.
    match = _STEP_FILE.fullmatch(name)
    return None if match is None else (int(match[1]), int(match[2] or 0))


def _has_type(kind: pa.DataType) -> bool:
    # Others Arrow alone finds again in a file: a duration, for example, is a plain number to everybody else.
    if pa.types.is_struct(kind):
        return all(_has_type(field.type) for field in kind)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _has_type(kind.value_type)
    return not (pa.types.is_nested(kind) or pa.types.is_duration(kind) or pa.types.is_interval(kind))
