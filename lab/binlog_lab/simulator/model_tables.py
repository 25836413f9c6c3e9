"""A table format in memory: `ModelLake`, in which commits are whole or not there, and replies get lost.

Merging is the product's (`lake.merge`); what is modelled is a store with put-if-absent. A life takes hundredths of a
second with it; every few lives the tables are real Delta tables.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa

from binlog_connector.crash_points import reached
from binlog_streaming.event_tables import writing as event_tables_writing
from binlog_streaming.lake.commit_id import (
    BATCH_KEY,
    GTID_POSITION_KEY,
    LAST_CHANGE_KEY,
    QUERY_PROPERTY,
    STEP_KEY,
    Applied,
    CommitId,
)
from binlog_streaming.lake.evolution import cast_rows, changed_rows
from binlog_streaming.lake.merge import remove_rows, supersede
from binlog_streaming.lake.sinks import sink_type
from binlog_streaming.lake.target import CrashPoint, Target
from binlog_streaming.settings.choices import Merge
from binlog_streaming.tables import apply, batch_run, division

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from binlog_streaming.lake.change import Change
    from binlog_streaming.lake.evolution import SchemaChange
    from binlog_streaming.settings import Sink

    Indices = NDArray[np.int64]


class ConflictError(Exception):
    """Somebody else has made the next version."""


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a table.

    Attributes:
        number: From 1 on.
        rows: All rows.
        steps: Of each query the properties of its last step.
    """

    number: int
    rows: pa.Table
    properties: Mapping[str, str]
    steps: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


@dataclass(slots=True)
class ModelLake:
    """Tables of a life, by their places; a loss of power takes none of them back.

    Attributes:
        on_call: Called before a commit and after it; what it raises after it is a reply that got lost.
    """

    on_call: Callable[[str], None]
    tables: dict[str, Version] = field(default_factory=dict)

    write_errors: ClassVar[tuple[type[Exception], ...]] = (OSError,)
    supports_parallel_write: ClassVar[bool] = False

    def at(self, sink: Sink, uri: str) -> ModelTarget:
        """See `TargetFactory`."""
        del sink
        return ModelTarget(self, uri, self.tables.get(uri))

    def put(self, uri: str, version: Version) -> None:
        """Make a version, if it is the next one."""
        self.on_call("commit, before")
        there = self.tables.get(uri)
        if (0 if there is None else there.number) != version.number - 1:
            raise ConflictError(uri)
        self.tables[uri] = version
        self.on_call("commit, after")

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Let jobs have their tables here, whatever their format is called."""
        modules = (apply, batch_run, division, event_tables_writing)
        before = sink_type
        for module in modules:
            module.sink_type = lambda _: self  # type: ignore[attr-defined]
        try:
            yield
        finally:
            for module in modules:
                module.sink_type = before  # type: ignore[attr-defined]


@dataclass(slots=True)
class ModelTarget(Target):
    """A table as it was when it was looked at."""

    lake: ModelLake
    uri: str
    held: Version | None

    write_errors: ClassVar[tuple[type[Exception], ...]] = (OSError,)

    @classmethod
    def at(cls, sink: Sink, uri: str) -> ModelTarget:
        """A lake makes targets."""
        raise NotImplementedError(f"{sink.directory}: {uri}")

    def properties(self) -> Mapping[str, str] | None:
        """See `Target`."""
        return None if self.held is None else self.held.properties

    def applied(self, commit_id: CommitId) -> Applied | None:
        """See `Target`."""
        step = {} if self.held is None else self.held.steps.get(commit_id.query_id, {})
        return Applied(int(step[BATCH_KEY]), int(step[STEP_KEY]), step[LAST_CHANGE_KEY]) if step else None

    def gtid_positions(self) -> list[str]:
        """See `Target`."""
        recorded = Target.gtid_positions(self)
        owner = (self.properties() or {}).get(QUERY_PROPERTY, "")
        return [*recorded, self._there.steps.get(owner, {}).get(GTID_POSITION_KEY, "")]

    def version(self) -> str | None:
        """See `Target`."""
        return None if self.held is None else str(self.held.number)

    def schema(self) -> pa.Schema:
        """See `Target`."""
        return self._there.rows.schema

    def stored_schema(self, schema: pa.Schema) -> pa.Schema:
        """See `Target`."""
        return pa.schema([(column.name, column.type) for column in schema])

    def create(self, schema: pa.Schema, commit_id: CommitId) -> None:
        """See `Target`."""
        if self.held is None:
            rows = self.stored_schema(schema).empty_table()
            self._put(Version(1, rows, commit_id.table_properties()))
            reached(CrashPoint.CREATED)

    def set_properties(self, commit_id: CommitId, *, recorded: Mapping[str, str] | None = None) -> None:
        """See `Target`."""
        there = self._there
        stated = {**commit_id.table_properties(), **(recorded or {})}
        if not stated.items() <= there.properties.items():
            self._put(Version(there.number + 1, there.rows, {**there.properties, **stated}, there.steps))

    def append(self, rows: pa.RecordBatchReader, commit_id: CommitId) -> None:
        """See `Target`."""
        self._commit(pa.concat_tables([self._there.rows, cast_rows(rows, self.schema()).read_all()]), commit_id)

    def merge(self, change: Change, commit_id: CommitId) -> int:
        """See `Target`."""
        files = _OneFile(self._there.rows)
        remove_rows(files, supersede(files, change, commit_id.keys), Merge.REWRITE)
        if not (files.new or files.is_rewritten):
            return 0
        kept = [] if files.is_rewritten else self._there.rows.to_batches()
        self._commit(pa.Table.from_batches([*kept, *files.new], self.schema()), commit_id)
        return change.row_count

    def evolve(self, change: SchemaChange, commit_id: CommitId) -> None:
        """See `Target`."""
        schema = self.stored_schema(change.applied_to(self.schema()))
        self._commit(changed_rows(self.read(), change, schema).read_all(), commit_id)

    def read(self) -> pa.RecordBatchReader:
        """See `Target`."""
        return self._there.rows.to_reader()

    def replace(self, rows: pa.RecordBatchReader, commit_id: CommitId) -> None:
        """See `Target`."""
        self._commit(rows.read_all(), commit_id)

    def maintain(self, sink: Sink) -> None:
        """See `Target`: there are no files."""

    def is_conflict(self, error: Exception) -> bool:
        """See `Target`."""
        return isinstance(error, ConflictError)

    @property
    def _there(self) -> Version:
        assert self.held is not None, "there is a table"
        return self.held

    def _commit(self, rows: pa.Table, commit_id: CommitId) -> None:
        there = self._there
        reached(CrashPoint.FILES_WRITTEN)
        steps = {**there.steps, commit_id.query_id: commit_id.batch_properties()}
        self._put(Version(there.number + 1, rows, there.properties, steps))
        reached(CrashPoint.COMMITTED)

    def _put(self, version: Version) -> None:
        self.lake.put(self.uri, version)
        self.held = version


class _OneFile:
    """The rows of a table as one file of it: `TableFiles` of `lake.change`."""

    has_change_feed = False
    has_deletion_vectors = False
    keeps_identity = False
    defaulted = ()
    generated = ()
    numbered = ()

    def __init__(self, rows: pa.Table) -> None:
        self.rows = rows.combine_chunks()
        self.schema = rows.schema
        self.new: list[pa.RecordBatch] = []
        self.is_rewritten = False

    @property
    def reader(self) -> _OneFile:
        """See `TableFiles`."""
        return self

    def files_with(
        self, keys: pa.Table, current: str | None = None, among: Sequence[str] | None = None
    ) -> Sequence[str]:
        """See `TableFiles`."""
        del keys, current, among
        return ["rows"] if self.rows.num_rows else []

    def name_of(self, file: str) -> str:
        """See `TableFiles`."""
        return file

    def size_of(self, file: str) -> int:
        """See `TableFiles`."""
        del file
        return int(self.rows.nbytes)

    def key_batches(self, file: str, schema: pa.Schema) -> Iterator[tuple[int, pa.RecordBatch]]:
        """See `FileRows`."""
        del file
        first = 0
        for batch in self.rows.select(schema.names).to_batches():
            yield first, batch
            first += batch.num_rows

    def rows_at(self, file: str, rows: Indices, schema: pa.Schema) -> Iterator[tuple[Indices, pa.RecordBatch]]:
        """See `FileRows`."""
        del file
        found = self.rows.select(schema.names).take(pa.array(rows)).combine_chunks().to_batches()
        yield from ((np.arange(batch.num_rows), batch) for batch in found)

    def marked(self, file: str) -> Indices:
        """See `FileRows`."""
        del file
        return np.empty(0, np.int64)

    def row_ids(self, file: str, rows: Indices) -> Indices:
        """See `FileRows`."""
        raise NotImplementedError(f"{len(rows)} rows of {file} have no ids")

    def write(self, rows: Iterable[pa.RecordBatch]) -> None:
        """See `TableFiles`."""
        self.new += rows

    def feed(self, rows: pa.Table) -> None:
        """See `TableFiles`."""
        raise NotImplementedError(f"there is no change feed for {rows.num_rows} rows")

    def mark(self, file: str, rows: Indices) -> None:
        """See `TableFiles`."""
        raise NotImplementedError(f"{file} has no marks for {len(rows)} rows")

    def rewrite(self, file: str, gone: Indices) -> None:
        """See `TableFiles`."""
        del file
        left = np.setdiff1d(np.arange(self.rows.num_rows), gone)
        self.is_rewritten = True
        self.new += self.rows.take(pa.array(left)).to_batches()
