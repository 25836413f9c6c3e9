"""The rows of both sides of a table.

Sums of a table's rows, computed by the server: `ServerRows` gives sums by bucket, and the rows of some buckets.
The rows that a target holds of its source table: `TargetRows(target, mode, rule)`; `changed_files(target)`.
Messages of keys, read again: `key_condition` for SQL, `key_text` for people.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from binlog_format.errors import ServerError
from binlog_format.messages import count_text
from binlog_format.rows.arrow_arrays import mask_array
from binlog_streaming.modes.mode_columns import DELETED, IS_CURRENT
from binlog_streaming.prove.rows import BUCKETS, Rows, Sums
from binlog_streaming.settings.choices import Deletes, Mode
from binlog_streaming.snapshot.marks import Bounds
from binlog_streaming.snapshot.sql_text import bound_of, bound_statement, chunk_source, quoted, table_sql

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from binlog_streaming.lake.target import RecordedFile, Target
    from binlog_streaming.prove.column_forms import ColumnForm, TableForms
    from binlog_streaming.server.session import ServerSession
    from binlog_streaming.settings.model import TableRule
    from binlog_streaming.snapshot.source_table import SourceTable


def key_values(message: bytes) -> Iterator[bytes | None]:
    """The values of a message, in order; None: NULL."""
    at = 0
    while at < len(message):
        if message[at : at + 1] == b"N":
            yield None
            at += 1
            continue
        colon = message.index(b":", at)
        end = colon + 1 + int(message[at:colon])
        yield message[colon + 1 : end]
        at = end


def key_literals(forms: Sequence[ColumnForm], message: bytes) -> list[str]:
    """The values of a key as SQL."""
    return [_literal(form, value) for form, value in zip(forms, key_values(message), strict=True)]


def key_condition(forms: Sequence[ColumnForm], message: bytes) -> str:
    """SQL that is true for the row with a key."""
    literals = key_literals(forms, message)
    return " AND ".join(f"{quoted(form.name)} <=> {literal}" for form, literal in zip(forms, literals, strict=True))


def key_text(forms: Sequence[ColumnForm], message: bytes) -> str:
    """A key for people: `id = 7, name = 'x'`."""
    parts = []
    for form, value in zip(forms, key_values(message), strict=True):
        literal = _literal(form, value)
        text = repr((value or b"").decode()) if literal.startswith("_utf8mb4") else literal
        parts.append(f"{form.name} = {text}")
    return ", ".join(parts)


def _literal(form: ColumnForm, value: bytes | None) -> str:
    assert form.literal is not None, "keys have columns with literals alone"
    return "NULL" if value is None else form.literal(value)


CHUNK_ROWS = 100_000
"""Rows of a statement: about a second of the server's time, so that progress is seen and an interrupt soon heeded."""
_KEYS_IN_STATEMENT = 200
_TOO_LONG = 10**25
"""Value of a row that is too long for the server: larger than the sum of all others in a statement can be."""


@dataclass(frozen=True, slots=True)
class ServerRows:
    """The rows that a transaction sees. *session*: with a read view. *forms*: which columns, and how."""

    session: ServerSession
    table: SourceTable
    forms: TableForms

    def sums(self, on_rows: Callable[[int], None], sample: Sequence[int] = ()) -> Sums:
        """Counts and sums of hashes by bucket.

        Args:
            on_rows: Told of rows as they are summed.
            sample: Only rows of these buckets are hashed, and the others counted; empty: all are hashed.
        """
        found = Sums.empty()
        hashed = f"CAST({_hash(self.forms.row_sql)} AS UNSIGNED)"
        summed = f"IFNULL({hashed}, {_TOO_LONG})"
        if sample:
            summed = f"IF({self._bucket} IN ({', '.join(map(str, sample))}), {summed}, 0)"
        asked = f"{self._bucket} AS bucket, COUNT(*), SUM({summed})"
        for bounds in self._chunks():
            rows = self.session.rows(f"SELECT {asked} FROM {chunk_source(self.table, bounds)} GROUP BY bucket")
            for bucket, count, total in rows:
                if int(total) >= _TOO_LONG:
                    reason = f"{self.table.full_name}: rows are longer than max_allowed_packet: they cannot be compared"
                    hint = "Set max_allowed_packet of the server to 1G for a while"
                    raise ServerError("TABLE_REFUSED", reason, at=self.session.place, hint=hint)
                found.add(int(bucket), int(count), int(total))
            on_rows(sum(int(count) for _, count, _ in rows))
        return found

    def rows_of(self, buckets: Sequence[int]) -> Rows:
        """The rows of some buckets."""
        wanted = ", ".join(map(str, buckets))
        asked = f"SELECT CAST({self.forms.key_sql} AS BINARY), CAST({_hash(self.forms.row_sql)} AS UNSIGNED)"
        source = f"{table_sql(self.table.schema, self.table.name)} WHERE {self._bucket} IN ({wanted})"
        return _rows(self.session.rows(f"{asked} FROM {source}"))

    def columns_of(self, buckets: Sequence[int], keys: Sequence[bytes]) -> dict[bytes, tuple[int, ...]]:
        """Hash of each column's part of the message, of the rows with some keys, which are in some buckets."""
        del buckets  # an index finds the keys
        hashes = ", ".join(f"CAST({_hash(form.part)} AS UNSIGNED)" for form in self.forms.columns)
        asked = f"SELECT CAST({self.forms.key_sql} AS BINARY), {hashes}"
        source, found = table_sql(self.table.schema, self.table.name), {}
        for start in range(0, len(keys), _KEYS_IN_STATEMENT):
            some = keys[start : start + _KEYS_IN_STATEMENT]
            condition = " OR ".join(f"({key_condition(self.forms.key_columns, key)})" for key in some)
            for key, *values in self.session.rows(f"{asked} FROM {source} WHERE {condition}"):
                found[bytes(key)] = tuple(map(int, values))
        return found

    @property
    def _bucket(self) -> str:
        return f"CRC32({self.forms.key_sql}) % {BUCKETS}"

    def _chunks(self) -> Iterator[Bounds]:
        key, after = self.table.key, None
        if key is None:
            yield Bounds(None, None)
            return
        while True:
            through = bound_of(self.session.rows(bound_statement(self.table, key, after, CHUNK_ROWS)))
            yield Bounds(after, through)
            if through is None:
                return
            after = through


def _hash(message: str) -> str:
    return f"CONV(LEFT(SHA2({message}, 256), 16), 16, 10)"


def _rows(rows: Sequence[tuple[bytes, int]]) -> Rows:
    keys = pa.array([bytes(key) for key, _ in rows], pa.large_binary())
    return Rows(keys, np.array([int(value) for _, value in rows], np.uint64), np.ones(len(rows), np.int64))


@dataclass(frozen=True, slots=True)
class TargetRows:
    """Rows of a target at one version; superseded versions of rows and deleted ones are left out.

    Attributes:
        target: As of the version.
    """

    target: Target
    mode: Mode
    rule: TableRule
    forms: TableForms

    def sums(self, on_rows: Callable[[int], None]) -> Sums:
        """Counts and sums of hashes by bucket; *on_rows* is told of rows as they are summed."""
        found = Sums.empty()
        for batch in self._batches():
            found.add_rows(*self._rows(batch))
            on_rows(batch.num_rows)
        return found

    def rows_of(self, buckets: Sequence[int]) -> Rows:
        """The rows of some buckets."""
        chosen = np.zeros(BUCKETS, np.bool_)
        chosen[list(buckets)] = True
        parts = []
        for batch in self._batches():
            rows, places = self._rows(batch)
            parts.append(rows.where(chosen[places]))
        return Rows.joined(parts)

    def columns_of(self, buckets: Sequence[int], keys: Sequence[bytes]) -> dict[bytes, tuple[int, ...]]:
        """Hash of each column's part of the message, of the rows with some keys, which are in some buckets."""
        chosen, wanted = np.zeros(BUCKETS, np.bool_), set(keys)
        chosen[list(buckets)] = True
        found: dict[bytes, tuple[int, ...]] = {}
        for batch in self._batches():
            rows, places = self._rows(batch)
            is_chosen = chosen[places]
            candidates = zip(np.flatnonzero(is_chosen).tolist(), rows.where(is_chosen).keys.to_pylist(), strict=True)
            numbers = [number for number, key in candidates if key in wanted]
            few = batch.take(numbers) if numbers else batch.slice(0, 0)
            hashes = self.forms.column_hashes(few.column, few.num_rows)
            for place, number in enumerate(numbers):
                found[rows.keys[number].as_py()] = tuple(int(values[place]) for values in hashes)
        return found

    def _batches(self) -> Iterator[pa.RecordBatch]:
        for batch in self.target.read():
            if self.mode is Mode.SCD2:
                yield batch.filter(batch.column(IS_CURRENT))
            elif self.rule.deletes is Deletes.MARK:
                deleted = batch.column(DELETED).fill_null(False).to_numpy(zero_copy_only=False)
                yield batch.filter(mask_array(~deleted))
            else:
                yield batch

    def _rows(self, batch: pa.RecordBatch) -> tuple[Rows, np.ndarray]:
        return self.forms.rows(batch.column, np.ones(batch.num_rows, np.int64))


def changed_files(target: Target) -> list[str]:
    """Say which data files have been changed in place, and how.

    Reading trusts what a table format records: of a file into which somebody has put rows, only so many are read.

    Raises:
        OSError: A file cannot be read.
        pyarrow.ArrowException: A file is no Parquet file.
    """
    return [text for file in target.recorded_files() for text in _differences(file)]


def _differences(file: RecordedFile) -> list[str]:
    with file.open() as opened:
        opened.seek(0, 2)
        size = opened.tell()
        opened.seek(0)
        rows = pq.read_metadata(opened).num_rows
    found = []
    if file.row_count is not None and rows != file.row_count:
        found.append(f"{file.name} has {count_text(rows, 'row')}, the table records {file.row_count:,}")
    elif size != file.size:
        found.append(f"{file.name} has {count_text(size, 'byte')}, the table records {file.size:,}")
    return found
