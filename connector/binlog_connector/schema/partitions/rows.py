"""Rows of a partition: `partition_rows(definition, change)` gives a `PartitionRows` with `mask(rows)`."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlog_connector.schema.expressions.expression import BYTES, DEFAULT, MAXVALUE, NULL, TEXT, Expression
from binlog_connector.schema.expressions.operands import NotComputedError
from binlog_connector.schema.partitions.definition import LIST, RANGE
from binlog_connector.schema.partitions.values import (
    DATE_TYPES,
    NO_COLUMNS,
    WHOLE_TYPES,
    Columns,
    date_constant,
    evaluated,
    micro_numbers,
    whole_numbers,
)
from binlog_format.errors import SchemaError
from binlog_format.names import folded_name, folded_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from binlog_connector.schema.definitions import ColumnDefinition, TableDefinition
    from binlog_connector.schema.partitions.definition import Partition
    from binlog_connector.schema.partitions.values import Numbers
    from binlog_connector.schema.table_changes import PartitionsDropped
    from binlog_format.kernels import Mask

    Constant = int | bytes | Expression | None
    """A value of a partition; None: NULL. MAXVALUE and DEFAULT stay what they are."""
    Row = Sequence[Constant]

_EPOCH = datetime.datetime(1970, 1, 1)  # noqa: DTZ001 - a DATETIME has no time zone either
_MICROSECOND = datetime.timedelta(microseconds=1)
_DAY = datetime.timedelta(days=1)
_BINARY_TYPES = frozenset(["binary", "varbinary"])
_TEXT_TYPES = frozenset(["char", "varchar"])
_NO_VALUES = {
    **dict.fromkeys(WHOLE_TYPES, pa.int64()),
    **dict.fromkeys(DATE_TYPES | {"timestamp"}, pa.timestamp("us")),
    **dict.fromkeys(_BINARY_TYPES, pa.binary()),
}


class _Part(Protocol):
    """One of the values that a table is partitioned by, of all rows."""

    valid: Mask

    def less(self, value: Constant) -> Mask:
        """Mask of the numbers below *value*; unknown for NULL."""

    def equal(self, value: Constant) -> Mask:
        """Mask of the numbers equal to *value*; unknown for NULL."""


class _NumberPart:
    def __init__(self, numbers: Numbers) -> None:
        self._values, self.valid = numbers

    def less(self, value: Constant) -> Mask:
        assert isinstance(value, int), f"{value!r} is compared with numbers"
        return np.asarray(self._values < value, dtype=np.bool_)

    def equal(self, value: Constant) -> Mask:
        return np.asarray(self._values == value, dtype=np.bool_)


class _BinaryPart:
    def __init__(self, array: pa.Array) -> None:
        if not (pa.types.is_binary(array.type) or pa.types.is_large_binary(array.type)):
            raise NotComputedError(f"binary strings expected, the rows have {array.type}")
        self.valid: Mask = array.is_valid().to_numpy(zero_copy_only=False)
        self._array = array.fill_null(b"")

    def less(self, value: Constant) -> Mask:
        return self._mask(pc.less(self._array, pa.scalar(value, self._array.type)))

    def equal(self, value: Constant) -> Mask:
        return self._mask(pc.equal(self._array, pa.scalar(value, self._array.type)))

    @staticmethod
    def _mask(array: pa.BooleanArray) -> Mask:
        mask: Mask = array.to_numpy(zero_copy_only=False)
        return mask


def partition_rows(
    definition: TableDefinition | None, change: PartitionsDropped, system_time_zone: str | None = None
) -> PartitionRows:
    """The rows that go with DROP PARTITION, TRUNCATE PARTITION or REORGANIZE PARTITION.

    Args:
        definition: Of the table before the statement; None: nothing is known of it.
        system_time_zone: See `Decoding`.

    Raises:
        SchemaError: `PARTITION_BOUNDS`: nobody but the server can tell which rows these are.
    """
    try:
        return PartitionRows(*_chosen(definition, change), system_time_zone, change.taken_by)
    except NotComputedError as error:
        raise _bounds_error(str(change.name), change.partitions, error.reason) from error


def _chosen(definition: TableDefinition | None, change: PartitionsDropped) -> tuple[TableDefinition, frozenset[int]]:
    if definition is None or definition.columns is None:
        raise NotComputedError("no CREATE TABLE of it is known")
    partitioning = definition.partitioning
    if partitioning is None:
        raise NotComputedError("the CREATE TABLE that is known has no partitions")
    if partitioning.unknown:
        raise NotComputedError(partitioning.unknown)
    if partitioning.kind not in (RANGE, LIST):
        raise NotComputedError(f"PARTITION BY {partitioning.kind}")
    places = partitioning.places(change.partitions)
    missing = [name for name, place in places.items() if place is None]
    if missing and not change.if_exists:
        raise NotComputedError(f"partition {missing[0]} is not a known one")
    return definition, frozenset(place for place in places.values() if place is not None)


def loses_rows(definition: TableDefinition | None, change: PartitionsDropped) -> bool:
    """True if a REORGANIZE PARTITION of LIST leaves out a value of the partitions that go.

    Raises:
        SchemaError: `PARTITION_BOUNDS`: see `partition_rows`.
    """
    try:
        table, chosen = _chosen(definition, change)
        assert table.partitioning is not None, f"{table.name}: it has no partitions"
        taken = {value for partition in change.taken_by for value in partition.values}
        values = {value for place in chosen for value in table.partitioning.partitions[place].values}
        lost = set() if (Expression(DEFAULT),) in taken else values - taken
        if (Expression(DEFAULT),) in lost or ((Expression(NULL),) in lost and not table.partitioning.by_columns):
            # Live on both vendors: these rows stay in the table, though no partition takes them.
            raise NotComputedError("rows of NULL or DEFAULT stay, in a partition that only the server knows")
    except NotComputedError as error:
        raise _bounds_error(str(change.name), change.partitions, error.reason) from error
    return bool(lost)


def _bounds_error(table: str, partitions: Iterable[str], reason: str) -> SchemaError:
    return SchemaError(
        "PARTITION_BOUNDS",
        f"{table}: which rows are in partition {', '.join(partitions)} cannot be told: {reason}",
        hint='Set on_partition_drop = "keep" for this table to leave the rows in the target; where a definition is '
        "missing, give a schema file (schemaFile)",
    )


class PartitionRows:
    """The rows of some partitions of a table.

    Args:
        definition: Of the table; its columns and its partitions, by RANGE or LIST, are known.
        system_time_zone: See `Decoding`.
        taken_by: Partitions that take rows of theirs, by LIST; these rows are left out.

    Raises:
        NotComputedError: What it is partitioned by, or a value of a partition, is of a kind that is not computed.
    """

    def __init__(
        self,
        definition: TableDefinition,
        chosen: frozenset[int],
        system_time_zone: str | None = None,
        taken_by: Sequence[Partition] = (),
    ) -> None:
        assert definition.partitioning is not None, f"{definition.name}: it has no partitions"
        self._table = definition.name
        self._partitioning = definition.partitioning
        self._definitions = {folded_name(column.name): column for column in definition.columns or ()}
        self._chosen = chosen
        self._system_time_zone = system_time_zone
        for name in self.columns:
            column = self._definitions.get(folded_name(name))
            # Row images may come without it, and what is computed is not computed anew.
            if column is not None and column.generated is not None:
                raise NotComputedError(f"column {name} is a generated one")
        # Values that cannot be computed are named before any row is read.
        empty = {
            name: pa.array([], _NO_VALUES.get(column.type_name, pa.null()))
            for name, column in self._definitions.items()
        }
        self._parts(empty, 0)
        self._values = [
            [self._constants(row) for row in partition.values] for partition in self._partitioning.partitions
        ]
        self._taken = [self._constants(row) for partition in taken_by for row in partition.values]

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns that decide."""
        return tuple(name for expression in self._partitioning.expressions for name in expression.columns())

    def mask(self, rows: pa.RecordBatch | pa.Table) -> pa.BooleanArray:
        """Mask of the *rows* in these partitions.

        Args:
            rows: With `columns` at least, in any order; upper and lower case are the same.

        Raises:
            SchemaError: `PARTITION_BOUNDS`: a row has a value of which the server may have made something else.
        """
        wanted = folded_names(self.columns)
        arrays = {folded_name(name): _array(rows, name) for name in rows.schema.names if folded_name(name) in wanted}
        try:
            parts = self._parts(arrays, rows.num_rows)
        except NotComputedError as error:
            names = (
                partition.name for place, partition in enumerate(self._partitioning.partitions) if place in self._chosen
            )
            raise _bounds_error(str(self._table), names, error.reason) from error
        has_rows = self._range if self._partitioning.kind == RANGE else self._list
        found = np.zeros(rows.num_rows, np.bool_)
        for place in self._chosen:
            found |= has_rows(parts, place)
        return pa.array(found & ~self._listed(parts, self._taken))

    def _parts(self, arrays: Mapping[str, pa.Array], count: int) -> list[_Part]:
        columns = Columns(self._definitions, arrays)
        if not self._partitioning.by_columns:
            return [_NumberPart(evaluated(expression, columns, count)) for expression in self._partitioning.expressions]
        return [
            _column_part(columns.definition(expression.text), columns.array(expression.text))
            for expression in self._partitioning.expressions
        ]

    def _constants(self, row: tuple[Expression, ...]) -> Row:
        expressions = self._partitioning.expressions
        columns = Columns(self._definitions, {}, self._system_time_zone)
        return [
            value
            if value.op in (MAXVALUE, DEFAULT)
            else _column_constant(columns.definition(expression.text), value)
            if self._partitioning.by_columns
            else _constant(value, columns)
            for expression, value in zip(expressions, row, strict=False)  # MAXVALUE may stand for all
        ]

    def _range(self, parts: Sequence[_Part], place: int) -> Mask:
        below = self._below(parts, place)
        return below & ~self._below(parts, place - 1) if place else below

    def _below(self, parts: Sequence[_Part], place: int) -> Mask:
        """Mask of the rows below the bound of a partition, compared column by column; NULL is below all."""
        (bound,) = self._values[place]
        found = np.zeros(len(parts[0].valid), np.bool_)
        for part, value in reversed(list(zip(parts, bound, strict=False))):
            if isinstance(value, Expression):  # MAXVALUE
                found = np.ones_like(found)
            else:
                found = ~part.valid | part.less(value) | (part.equal(value) & found)
        return found

    def _list(self, parts: Sequence[_Part], place: int) -> Mask:
        found = self._listed(parts, self._values[place])
        if any(isinstance(value, Expression) for row in self._values[place] for value in row):  # DEFAULT
            found |= ~self._listed(parts, [row for rows in self._values for row in rows])
        return found

    @staticmethod
    def _listed(parts: Sequence[_Part], rows: Sequence[Row]) -> Mask:
        found = np.zeros(len(parts[0].valid), np.bool_)
        for row in rows:
            if any(isinstance(value, Expression) for value in row):
                continue
            same = np.ones_like(found)
            for part, value in zip(parts, row, strict=True):
                same &= ~part.valid if value is None else part.valid & part.equal(value)
            found |= same
        return found


def _array(rows: pa.RecordBatch | pa.Table, name: str) -> pa.Array:
    column = rows.column(name)
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _column_part(definition: ColumnDefinition, array: pa.Array) -> _Part:
    kind = definition.type_name
    if kind in WHOLE_TYPES:
        return _NumberPart(whole_numbers(array))
    if kind in DATE_TYPES:
        return _NumberPart(micro_numbers(array))
    if kind in _BINARY_TYPES:
        return _BinaryPart(array)
    if kind in _TEXT_TYPES:
        kind += ": which texts are equal, and which come first, its collation decides"
    raise NotComputedError(f"column {definition.name} is a {kind}")


def _column_constant(definition: ColumnDefinition, value: Expression) -> Constant:
    """A value as `_column_part` compares it."""
    kind = definition.type_name
    if value.op == NULL:
        return None
    if kind in WHOLE_TYPES:
        return _constant(value)
    if kind in DATE_TYPES and value.op == TEXT:
        return (date_constant(value.text) - _EPOCH) // _MICROSECOND
    if kind in _BINARY_TYPES and value.op == BYTES:
        return _padded(definition, bytes.fromhex(value.text))
    if kind in _BINARY_TYPES and value.op == TEXT and value.text.isascii():
        return _padded(definition, value.text.encode())
    raise NotComputedError(
        f"a value of the {kind} column {definition.name} is not understood: {value.text or value.op}"
    )


def _padded(definition: ColumnDefinition, value: bytes) -> bytes:
    if definition.type_name == "varbinary":
        return value
    return value.ljust(int(definition.declared.partition("(")[2].rstrip(")")), b"\0")


def _constant(value: Expression, columns: Columns = NO_COLUMNS) -> int | None:
    values, valid = evaluated(value, columns)
    return int(values[0]) if valid[0] else None
