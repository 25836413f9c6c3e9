"""Targets in memory: `MemoryTargets`, a factory of them; what a sink does, in its plainest form."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa

from binlog_connector.crash_points import reached
from binlog_streaming.lake.change import ContradictedError, contradictions
from binlog_streaming.lake.commit_id import Applied
from binlog_streaming.lake.evolution import cast_rows, cast_table, changed_rows
from binlog_streaming.lake.row_values import Differing, RowsBefore, differing
from binlog_streaming.lake.target import CrashPoint, Target
from tests.streaming.tables.lake.model_sink import ModelTable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from binlog_streaming.lake.change import Change
    from binlog_streaming.lake.commit_id import CommitId
    from binlog_streaming.lake.evolution import SchemaChange
    from binlog_streaming.settings import Sink


@dataclass
class MemoryTable:
    """What a place holds."""

    properties: dict[str, str]
    schema: pa.Schema
    rows: list[dict[str, object]] = field(default_factory=list)
    applied: Applied | None = None
    commits: int = 0

    def table(self) -> pa.Table:
        """The rows."""
        return pa.Table.from_pylist(self.rows, schema=self.schema)


@dataclass
class MemoryTargets:
    """All tables, by their place."""

    write_errors: ClassVar[tuple[type[Exception], ...]] = ()

    tables: dict[str, MemoryTable] = field(default_factory=dict)

    def at(self, sink: Sink, uri: str) -> Target:
        """See `Target`."""
        return MemoryTarget(self, uri.removeprefix(f"{sink.directory}/"))


@dataclass
class MemoryTarget(Target):
    """See `Target`."""

    write_errors: ClassVar[tuple[type[Exception], ...]] = ()

    targets: MemoryTargets
    uri: str

    @classmethod
    def at(cls, sink: Sink, uri: str) -> Target:
        """Nothing is remembered between two of these."""
        return MemoryTargets().at(sink, uri)

    @property
    def _table(self) -> MemoryTable:
        return self.targets.tables[self.uri]

    def properties(self) -> Mapping[str, str] | None:
        """See `Target`."""
        table = self.targets.tables.get(self.uri)
        return None if table is None else dict(table.properties)

    def applied(self, commit_id: CommitId) -> Applied | None:
        """See `Target`."""
        table = self.targets.tables.get(self.uri)
        return None if table is None else table.applied

    def schema(self) -> pa.Schema:
        """See `Target`."""
        return self._table.schema

    def stored_schema(self, schema: pa.Schema) -> pa.Schema:
        """See `Target`."""
        return schema

    def create(self, schema: pa.Schema, commit_id: CommitId) -> None:
        """See `Target`."""
        if self.uri not in self.targets.tables:
            self.targets.tables[self.uri] = MemoryTable(commit_id.table_properties(), schema)
            reached(CrashPoint.CREATED)

    def set_properties(self, commit_id: CommitId, *, recorded: Mapping[str, str] | None = None) -> None:
        """See `Target`."""
        wanted = {**self._table.properties, **commit_id.table_properties(), **(recorded or {})}
        if wanted != self._table.properties:
            self._table.properties = wanted
            reached(CrashPoint.COMMITTED)

    def append(self, rows: pa.RecordBatchReader, commit_id: CommitId) -> None:
        """See `Target`."""
        self._commit(self._table.rows + cast_rows(rows, self._table.schema).read_all().to_pylist(), commit_id)

    def merge(self, change: Change, commit_id: CommitId) -> int:
        """See `Target`."""
        if not change.row_count:
            return 0
        self._compare(change, commit_id)
        model = ModelTable(change.upserts.schema, commit_id.keys)
        model.rows = list(self._table.rows)
        before = (
            {tuple(row[key] for key in commit_id.keys): row for row in model.rows} if change.current is None else {}
        )
        model.merge(change)
        nulls: dict[str, object] = dict.fromkeys(self._table.schema.names)
        rows = [nulls | before.get(tuple(row[key] for key in commit_id.keys), {}) | row for row in model.rows]
        self._commit(rows, commit_id)
        return change.row_count

    def _compare(self, change: Change, commit_id: CommitId) -> None:
        if change.expected is None:
            return
        rows = [row for row in self._table.rows if change.current is None or row[change.current]]
        live = Counter(tuple(row[key] for key in commit_id.keys) for row in rows if not row.get(change.gone or ""))
        keys = change.key_rows(commit_id.keys).to_pylist()
        differs = None if change.before is None else self._differing(change.before, rows, keys, commit_id)
        counts = np.array([live[tuple(key.values())] for key in keys], np.int64)
        found = contradictions(change, counts, differs)
        if found is not None:
            raise ContradictedError(found)

    def _differing(
        self, before: RowsBefore, rows: list[dict[str, object]], keys: list[dict[str, object]], commit_id: CommitId
    ) -> Differing | None:
        held = {tuple(row[key] for key in commit_id.keys): row for row in rows}
        numbers = [number for number, key in enumerate(keys) if before.chosen[number] and tuple(key.values()) in held]
        if not numbers:
            return None
        schema = pa.schema([self._table.schema.field(name) for name in before.names])
        there = pa.Table.from_pylist([held[tuple(keys[number].values())] for number in numbers], schema=schema)
        shown = before.shown(np.array(numbers))
        return differing(replace(shown, values=cast_table(shown.values, schema)), there, np.array(numbers))

    def evolve(self, change: SchemaChange, commit_id: CommitId) -> None:
        """See `Target`."""
        schema = change.applied_to(self._table.schema)
        self._overwrite(changed_rows(self.read(), change, schema), commit_id)

    def read(self) -> pa.RecordBatchReader:
        """See `Target`."""
        return self._table.table().to_reader()

    def replace(self, rows: pa.RecordBatchReader, commit_id: CommitId) -> None:
        """See `Target`."""
        self._overwrite(rows, commit_id)

    def maintain(self, sink: Sink) -> None:
        """Memory needs none."""

    def is_conflict(self, error: Exception) -> bool:
        """Nobody else writes here."""
        return False

    def _overwrite(self, rows: pa.RecordBatchReader, commit_id: CommitId) -> None:
        table = rows.read_all()
        self._commit(table.to_pylist(), commit_id, table.schema)

    def _commit(self, rows: list[dict[str, object]], commit_id: CommitId, schema: pa.Schema | None = None) -> None:
        reached(CrashPoint.FILES_WRITTEN)
        self._table.rows = rows
        self._table.schema = schema or self._table.schema
        self._table.applied = Applied(commit_id.batch_id, commit_id.step, commit_id.last_change)
        self._table.commits += 1
        reached(CrashPoint.COMMITTED)
