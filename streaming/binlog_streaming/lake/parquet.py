"""A folder of Parquet files as a target of changelogs: `ParquetTarget`; a step is one file with batch and step.

The file comes under a name that readers pass over and gets its own name when it is whole, so it is there or it is not,
and its name says that the step is done. A step that changes columns is a file without rows; the columns of the newest
file are those of the table. What the table is stands in `_binlog-stream.json`.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import re
import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from binlog_format.errors import UnsupportedError
from binlog_streaming.lake.conforming import conformed, conformed_rows
from binlog_streaming.lake.sinks import require_local
from binlog_streaming.lake.steps import Step, reached
from binlog_streaming.lake.target import LAST_CHANGE_KEY, QUERY_PROPERTY, Applied, Target, Ticket

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from binlog_streaming.lake.change import Change
    from binlog_streaming.lake.evolution import SchemaChange
    from binlog_streaming.settings import Sink

TABLE_FILE = "_binlog-stream.json"
BATCH_FILE = re.compile(r"batch-(\d{10,})(?:-(\d{4,}))?\.parquet")
_UNFINISHED = ".unfinished-"
"""Spark, DuckDB and Arrow pass over names that begin with a dot or an underscore."""

_NEW_WAY = 'Use mode changelog for it, or sink.format = "delta" or "iceberg"'


@dataclass(slots=True)
class ParquetTarget(Target):
    """A folder as it is now; `table` is what its file says, None while there is none."""

    write_errors: ClassVar[tuple[type[Exception], ...]] = ()

    uri: str
    table: _Table | None
    newest: tuple[tuple[int, int], str] | None

    @classmethod
    def at(cls, sink: Sink, uri: str) -> ParquetTarget:
        """See `Target`."""
        require_local("parquet", sink.directory)
        return cls.find(uri)

    @classmethod
    def find(cls, uri: str) -> ParquetTarget:
        """Look at what is there."""
        table = _Table.read(uri)
        if table is None and any(Path(uri).glob("*.parquet")):
            table = _Table({}, pa.schema([]))  # files of somebody else: a table that nobody owns
        return cls(uri, table, max(_files(uri).items(), default=None))

    def properties(self) -> Mapping[str, str] | None:
        """See `Target`."""
        return None if self.table is None else self.table.properties

    def applied(self, ticket: Ticket) -> Applied | None:
        """See `Target`."""
        if self.newest is None:
            return None
        place, name = self.newest
        metadata = pq.read_metadata(Path(self.uri) / name).metadata or {}
        last_change = metadata.get(LAST_CHANGE_KEY.encode())
        return Applied(*place, None if last_change is None else last_change.decode())

    def schema(self) -> pa.Schema:
        """See `Target`."""
        if self.newest is not None:
            return pq.read_schema(Path(self.uri) / self.newest[1]).remove_metadata()
        assert self.table is not None
        return self.table.schema

    def stored_schema(self, schema: pa.Schema) -> pa.Schema:
        """See `Target`."""
        for field in schema:
            if not _has_type(field.type):
                raise UnsupportedError("COLUMN_TYPE", f"column {field.name}: plain Parquet files have no {field.type}")
        return pa.schema([(field.name, field.type) for field in schema])

    def create(self, schema: pa.Schema, ticket: Ticket) -> None:
        """See `Target`.

        Raises:
            FileExistsError: Somebody else was faster.
        """
        if self.table is not None:
            return
        Path(self.uri).mkdir(parents=True, exist_ok=True)
        self._save(_Table(ticket.table_properties(), self.stored_schema(schema)))
        reached(Step.CREATED)

    def describe(self, ticket: Ticket, *, said: Mapping[str, str] | None = None) -> None:
        """See `Target`.

        Raises:
            FileExistsError: The table is not any more what it was when it was looked at.
        """
        assert self.table is not None
        properties = {**self.table.properties, **ticket.table_properties(), **(said or {})}
        if properties != self.table.properties:
            self._save(_Table(properties, self.table.schema))

    def append(self, rows: pa.RecordBatchReader, ticket: Ticket) -> None:
        """See `Target`.

        Raises:
            FileExistsError: Somebody else was faster.
        """
        self._write(conformed_rows(rows, self.schema()), ticket)

    def merge(self, change: Change, ticket: Ticket) -> int:
        """Not possible: rows of plain files cannot be replaced in one step.

        Raises:
            UnsupportedError: `FORMAT`.
        """
        raise self._refused(ticket, f"mode {ticket.mode} cannot be kept in plain Parquet files", _NEW_WAY)

    def evolve(self, change: SchemaChange, ticket: Ticket) -> None:
        """New and wider columns in later files; those that are there stay as they are.

        Raises:
            UnsupportedError: `FORMAT`: columns get another name, or rows that are there other values.
            FileExistsError: The table is not any more what it was when it was looked at.
        """
        values = [name for name, value in change.filled.items() if value.is_valid or name not in change.added.names]
        if change.renamed or values:
            raise self._refused(
                ticket,
                "rows in plain Parquet files stay as they were written: columns cannot get other names or values",
                'Use sink.format = "delta" or "iceberg" for it',
            )
        schema = self.stored_schema(change.applied_to(self.schema()))
        self._write(pa.RecordBatchReader.from_batches(schema, []), ticket)

    def read(self) -> pa.RecordBatchReader:
        """See `Target`; rows from before a column was there have null in it."""
        paths = [Path(self.uri) / name for _, name in sorted(_files(self.uri).items())]
        schema = self.schema()
        batches = (conformed(batch, schema) for path in paths for batch in pq.ParquetFile(path).iter_batches())
        return pa.RecordBatchReader.from_batches(schema, batches)

    def replace(self, rows: pa.RecordBatchReader, ticket: Ticket) -> None:
        """Not possible, as `merge`.

        Raises:
            UnsupportedError: `FORMAT`.
        """
        raise self._refused(ticket, "rows in plain Parquet files cannot be replaced", _NEW_WAY)

    def maintain(self, sink: Sink) -> None:
        """Nothing: files of changelogs are never replaced."""

    def is_conflict(self, error: Exception) -> bool:
        """See `Target`."""
        return isinstance(error, FileExistsError)

    def _refused(self, ticket: Ticket, reason: str, hint: str) -> UnsupportedError:
        return UnsupportedError("FORMAT", f"{ticket.source_table}: {self.uri}: {reason}", hint=hint)

    def _write(self, rows: pa.RecordBatchReader, ticket: Ticket) -> None:
        self._remove_unfinished()
        name = f"batch-{ticket.batch_id:010d}-{ticket.step:04d}.parquet"
        said = {QUERY_PROPERTY: ticket.query_id, **ticket.batch_properties()}
        with self._unfinished() as unfinished:
            with unfinished.open("xb") as file:
                schema = rows.schema.with_metadata(said)
                with pq.ParquetWriter(file, schema, compression="zstd", compression_level=1) as writer:
                    writer.add_key_value_metadata(said)
                    for batch in rows:
                        writer.write_batch(batch)
                file.flush()
                os.fsync(file.fileno())
            reached(Step.FILES_WRITTEN)
            # A link, unlike a rename, never replaces a file.
            os.link(unfinished, Path(self.uri) / name)
            self._sync()
        self.newest = ticket.place, name
        reached(Step.COMMITTED)

    def _save(self, table: _Table) -> None:
        with self._unfinished() as unfinished:
            with unfinished.open("x", encoding="utf-8") as file:
                file.write(table.text())
                file.flush()
                os.fsync(file.fileno())
            with _locked(self.uri):
                if _Table.read(self.uri) != self.table:
                    raise FileExistsError(
                        f"{self.uri}/{TABLE_FILE} was written by somebody else: it exists, or changed"
                    )
                unfinished.replace(Path(self.uri) / TABLE_FILE)
            self._sync()
        self.table = table

    @contextmanager
    def _unfinished(self) -> Iterator[Path]:
        path = Path(self.uri) / f"{_UNFINISHED}{uuid.uuid4().hex}"
        try:
            yield path
        finally:
            path.unlink(missing_ok=True)

    def _remove_unfinished(self) -> None:
        # Of runs that were cut off. A twin that still writes one gets an error when it wants to name it, as it should.
        for path in Path(self.uri).glob(f"{_UNFINISHED}*"):
            path.unlink(missing_ok=True)

    def _sync(self) -> None:
        folder = os.open(self.uri, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


@dataclass(frozen=True, slots=True)
class _Table:
    # What the table's file says: its properties, and the columns that it was made with.
    properties: Mapping[str, str]
    schema: pa.Schema

    @classmethod
    def read(cls, uri: str) -> _Table | None:
        try:
            content = json.loads((Path(uri) / TABLE_FILE).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        return cls(content["properties"], pa.ipc.read_schema(pa.py_buffer(base64.b64decode(content["made_with"]))))

    def text(self) -> str:
        """The content of the file."""
        made_with = base64.b64encode(self.schema.serialize()).decode()
        return json.dumps({"properties": self.properties, "made_with": made_with}, ensure_ascii=False, indent=1)


def _files(uri: str) -> dict[tuple[int, int], str]:
    # By batch and step.
    try:
        names = os.listdir(uri)  # noqa: PTH208 (names are all that is wanted, and there are many)
    except FileNotFoundError:
        return {}
    matches = [match for name in names if (match := BATCH_FILE.fullmatch(name))]
    return {(int(match[1]), int(match[2] or 0)): match[0] for match in matches}


def _has_type(kind: pa.DataType) -> bool:
    # Others Arrow alone finds again in a file: a duration, say, is a plain number to everybody else.
    if pa.types.is_struct(kind):
        return all(_has_type(field.type) for field in kind)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _has_type(kind.value_type)
    return not (pa.types.is_nested(kind) or pa.types.is_duration(kind) or pa.types.is_interval(kind))


@contextmanager
def _locked(folder: str) -> Iterator[None]:
    held = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)  # goes when it is closed, also when the process dies
        yield
    finally:
        os.close(held)
