"""Changes of a target's columns: `SchemaChange`; `reconciled` finds those that new rows need.

Rows put into the columns of a table: `cast_to_schema`, `with_values`; `changed_rows`: after a `SchemaChange`;
`check_values`: whether columns that need a value have one.

JSON texts become variants where their column is one, and variants texts: `cast_array`, `with_texts`.

Choice of a Parquet file's columns that get a dictionary: `dictionary_columns`.

Identity of rows in tables that keep it, in columns beside those of the table (`IDENTITY`): `identified`, `modified`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlog_format.errors import SchemaError, TableError
from binlog_format.messages import row_value
from binlog_format.names import folded_name
from binlog_format.rows.json.variant_layout import JSON_FIELD, VARIANT
from binlog_format.rows.json.variants import VariantError, is_json, is_variant, texts_of, variants_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from binlog_format.kernels import Int64s

_INTEGER_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}
"""Digits of the integers with so many bits."""

DECIMAL_DIGITS_MAX = 38


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """Changes of columns; names are those from before the change, but in `added`, `retyped` and `filled`.

    Attributes:
        renamed: Old names and new ones.
        retyped: Columns that get a wider type; their values stay.
        added: Columns that come after the others; they are null in all rows unless `filled` has them.
        filled: What all existing rows hold from now on in a column, added or not.
        converted: What a column holds from now on in existing rows, by its new name: computed of these as they were.
    """

    renamed: Mapping[str, str] = field(default_factory=dict)
    retyped: Mapping[str, pa.DataType] = field(default_factory=dict)
    added: pa.Schema = field(default_factory=lambda: pa.schema([]))
    filled: Mapping[str, pa.Scalar] = field(default_factory=dict)
    converted: Mapping[str, Callable[[pa.RecordBatch], pa.Array]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.renamed or self.retyped or len(self.added) or self.filled or self.converted)

    def applied_to(self, schema: pa.Schema) -> pa.Schema:
        """The columns after it."""
        fields = [column.with_name(self.renamed.get(column.name, column.name)) for column in schema]
        return pa.schema(
            [field.with_type(self.retyped.get(field.name, field.type)) for field in fields] + list(self.added)
        )


def reconciled(there: pa.Schema, wanted: pa.Schema, source_table: str) -> SchemaChange:
    """Make the change by which a target with the columns *there* can take rows with the columns *wanted*.

    Columns that rows do not have any more stay, and are null in new rows; a column whose type was made smaller keeps
    its type, as all values fit. Names that differ in upper and lower case alone are those of one column, as they are to
    the server; it is renamed.

    Args:
        there: `Target.schema()`.
        wanted: `Target.stored_schema` of the rows' schema.

    Raises:
        SchemaError: `SCHEMA_CHANGED`: a type became another one that does not hold all values of the one before.
    """
    spelled = {folded_name(column.name): column.name for column in wanted}
    renamed = {name: spelled.get(folded_name(name), name) for name in there.names if name not in wanted.names}
    renamed = {old: new for old, new in renamed.items() if old != new and new not in there.names}
    types = {renamed.get(column.name, column.name): column.type for column in there}
    retyped: dict[str, pa.DataType] = {}
    for column in wanted:
        if column.name not in types:
            continue
        common = common_type(types[column.name], column.type)
        if common is None:
            raise schema_changed(source_table, column.name, types[column.name], column.type)
        if not common.equals(types[column.name]):
            retyped[column.name] = common
    added = pa.schema([column for column in wanted if column.name not in types])
    return SchemaChange(renamed=renamed, retyped=retyped, added=added)


def fitting(there: pa.Schema, wanted: pa.Schema) -> pa.Schema:
    """The columns of *there* but those whose values *wanted* cannot take."""
    types = {folded_name(column.name): column.type for column in wanted}
    wider = {
        column.name: common_type(column.type, types.get(folded_name(column.name), column.type)) for column in there
    }
    return pa.schema([column for column in there if wider[column.name] is not None])


def common_schema(schemas: Sequence[pa.Schema], source_table: str) -> pa.Schema:
    """The columns of all *schemas*, each with a type that holds the values of all."""
    common = schemas[0]
    for other in schemas[1:]:
        if not other.equals(common):
            common = reconciled(common, other, source_table).applied_to(common)
    return common


def common_type(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """The smallest type that holds all values of both, if it is one that a column is widened to.

    Of text and variants, which a JSON column may be, it is *one*: a column of a table stays what it is.
    """
    if is_variant(one) or is_variant(other):
        return one if all(_is_text(kind) or is_variant(kind) for kind in (one, other)) else None
    if one.equals(other) or (_is_text(one) and _is_text(other)) or (is_binary(one) and is_binary(other)):
        return one
    if pa.types.is_signed_integer(one) and pa.types.is_signed_integer(other):
        return one if one.bit_width >= other.bit_width else other
    if pa.types.is_floating(one) and pa.types.is_floating(other):
        return one if one.bit_width >= other.bit_width else other
    digits, others = _digits(one), _digits(other)
    if digits is None or others is None:
        return None
    whole, scale = max(digits[0], others[0]), max(digits[1], others[1])
    return pa.decimal128(whole + scale, scale) if whole + scale <= DECIMAL_DIGITS_MAX else None


def schema_changed(source_table: str, column: str, there: pa.DataType, wanted: pa.DataType) -> SchemaError:
    """The error for a column that its target cannot follow."""
    was, now = ("variant" if is_variant(kind) else str(kind) for kind in (there, wanted))
    return SchemaError(
        "SCHEMA_CHANGED",
        f"{source_table}: column {column} was {was} and is {now} now, which does not hold its values",
        hint="Leave the table out (option source.excludeTables) and the others go on; or give it a new target, and a "
        "job and a checkpoint of its own that start after the change",
    )


def _digits(kind: pa.DataType) -> tuple[int, int] | None:
    # Of a number before the point and after it.
    if pa.types.is_signed_integer(kind):
        return _INTEGER_DIGITS[kind.bit_width], 0
    if pa.types.is_decimal(kind):
        return kind.precision - kind.scale, kind.scale
    return None


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def is_binary(kind: pa.DataType) -> bool:
    """True if values are bytes."""
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind))


SAMPLE_ROWS = 4096
"""Rows that are looked at, spread over all."""

DISTINCT_MAX = 0.8
"""Largest share of different values in the sample; with more, the whole has too many values."""


def dictionary_columns(rows: pa.Table) -> list[str]:
    """Names of columns whose values repeat, by a sample of *rows*.

    A dictionary that becomes too large is given up for plain values, but only when it has been built and written: a
    column of numbers that are all different takes ten times as long with one, more room, and longer to be read. So keys
    get none. Nor do columns of lists and structs.
    """
    step, first, batches = max(1, -(-rows.num_rows // SAMPLE_ROWS)), 0, []
    for batch in rows.to_batches():  # taking rows of a table that has several copies all of it
        batches.append(batch.take(pa.array(np.arange(first, batch.num_rows, step))))
        first = (first - batch.num_rows) % step
    sample = pa.Table.from_batches(batches, rows.schema)
    return [name for name, column in zip(sample.column_names, sample.columns, strict=True) if _repeats(column)]


def _repeats(column: pa.ChunkedArray) -> bool:
    if pa.types.is_nested(column.type) or isinstance(column.type, pa.BaseExtensionType):
        return False
    distinct = len(pc.unique(column)) - (column.null_count > 0)
    return bool(distinct <= DISTINCT_MAX * (len(column) - column.null_count))


def cast_to_schema(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """*rows* with the columns of *schema*: by name, null where they are missing, cast up where they are narrower.

    Upper and lower case of names are the same, as they are to a server.
    """
    if rows.schema.equals(schema):
        return rows
    places = {folded_name(name): index for index, name in enumerate(rows.schema.names)}
    found = [places.get(folded_name(field.name)) for field in schema]
    arrays = [
        pa.nulls(rows.num_rows, field.type) if place is None else cast_array(rows.column(place), field)
        for field, place in zip(schema, found, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def check_values(uri: str, rows: pa.Table, required: Mapping[str, str]) -> None:
    """See that new rows have values where their table needs some.

    Args:
        required: Columns of it, and why they need a value in each row.
    """
    for name, reason in required.items():
        if name in rows.column_names and rows.column(name).null_count:
            raise TableError(
                "TABLE_FEATURE",
                f"{uri}: a row has no value in column {name}, and the table needs one there: {reason}",
                hint="Take it off the column (Spark: ALTER TABLE ... ALTER COLUMN ... DROP NOT NULL), or name another "
                "target and let this job build the table anew from the log",
            )


def with_values(rows: pa.RecordBatch, values: Mapping[str, pa.Array | pa.Scalar]) -> pa.RecordBatch:
    """The same rows with other values in some of their columns, by exact name; others that *values* names are left."""
    arrays = []
    for target, column in zip(rows.schema, rows.columns, strict=True):
        value = values.get(target.name, column)
        if isinstance(value, pa.Scalar):
            value = pa.repeat(value, rows.num_rows)
        arrays.append(cast_array(value, target))
    return pa.RecordBatch.from_arrays(arrays, schema=rows.schema)


def cast_table(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The same for a table."""
    if rows.schema.equals(schema):
        return rows
    return pa.Table.from_batches([cast_to_schema(batch, schema) for batch in rows.to_batches()], schema)


def cast_rows(rows: pa.RecordBatchReader, schema: pa.Schema) -> pa.RecordBatchReader:
    """The same for a stream, batch by batch."""
    return rows if rows.schema.equals(schema) else _mapped(rows, schema, lambda batch: cast_to_schema(batch, schema))


def changed_rows(rows: pa.RecordBatchReader, change: SchemaChange, schema: pa.Schema) -> pa.RecordBatchReader:
    """Apply *change* to the rows of a table, batch by batch; every row counts as modified.

    Args:
        rows: All rows, in the columns before the change, and those of `IDENTITY` where the table keeps it.
        schema: The columns after it, in the types that the table keeps.
    """
    fills = {name: cast_array(pa.repeat(value, 1), schema.field(name))[0] for name, value in change.filled.items()}
    schema = with_identity(schema, rows.schema)
    return _mapped(rows, schema, lambda batch: modified(_changed(batch, change, fills, schema)))


def _changed(
    batch: pa.RecordBatch, change: SchemaChange, fills: Mapping[str, pa.Scalar], schema: pa.Schema
) -> pa.RecordBatch:
    names = [change.renamed.get(name, name) for name in batch.schema.names]
    arrays = dict(zip(names, batch.columns, strict=True))
    arrays |= {name: convert(batch) for name, convert in change.converted.items()}
    arrays |= {name: pa.repeat(value, batch.num_rows) for name, value in fills.items()}
    return cast_to_schema(pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays)), schema)


IDENTITY = pa.schema([("\0row_id", pa.int64()), ("\0row_version", pa.int64())])
"""The id of a row, and the version of the table in which it changed last; null: its commit gives it the next ones.

No column of a server has a name with such a character.
"""

_ROW_ID, _ROW_VERSION = IDENTITY.names

NO_ID = -1
"""Stands for the id of a row that gets one from its commit."""


def has_identity(schema: pa.Schema) -> bool:
    """True if the columns of `IDENTITY` follow those of a table."""
    return _ROW_ID in schema.names


def with_identity(schema: pa.Schema, rows: pa.Schema = IDENTITY) -> pa.Schema:
    """*schema*, with the columns of `IDENTITY` if *rows* have them."""
    return pa.schema([*schema, *IDENTITY]) if has_identity(rows) else schema


def without_identity(schema: pa.Schema) -> pa.Schema:
    """The columns of the table alone."""
    return pa.schema([field for field in schema if field.name not in IDENTITY.names])


def identified(rows: pa.Table, ids: Int64s | None) -> pa.Table:
    """*rows*, which the next commit brings or modifies, with the columns of `IDENTITY`.

    Args:
        ids: `NO_ID`: the commit gives the row one; None: it does so for all of them.
    """
    none = pa.nulls(rows.num_rows, pa.int64())
    columns = [*rows.columns, none if ids is None else pa.array(ids, mask=ids == NO_ID), none]
    return pa.Table.from_arrays(columns, schema=with_identity(rows.schema))


def modified(rows: pa.RecordBatch, mask: pa.BooleanArray | None = None) -> pa.RecordBatch:
    """*rows* when the next commit modifies those of *mask*, or all: they keep their ids, where they have identity."""
    if not has_identity(rows.schema):
        return rows
    versions = pa.nulls(rows.num_rows, pa.int64())
    if mask is not None:
        versions = pc.if_else(mask, versions, rows.column(_ROW_VERSION))
    return with_values(rows, {_ROW_VERSION: versions})


def variant_fields(schema: pa.Schema) -> pa.Schema:
    """The columns with variants in the place of texts that are JSON."""
    return pa.schema([field.with_type(VARIANT) if is_json(field) else field for field in schema])


def with_texts(rows: pa.Table) -> pa.Table:
    """Rows of a target with JSON texts in the place of variants, to be put beside rows of a log."""
    return cast_table(rows, text_fields(rows.schema))


def text_fields(schema: pa.Schema) -> pa.Schema:
    """The columns with texts in the place of variants."""
    return pa.schema(
        [
            field.with_type(pa.string()).with_metadata(JSON_FIELD) if is_variant(field.type) else field
            for field in schema
        ]
    )


def cast_array(array: pa.Array, column: pa.Field) -> pa.Array:
    """Values in the type of a column.

    Raises:
        ArrowInvalid: One does not fit.
        TableError: `JSON_VALUE`: it is no JSON, or not to be written as JSON.
    """
    kind = column.type
    if array.type.equals(kind):
        return array
    if is_variant(kind) and pa.types.is_struct(array.type):  # other writers have the parts in another order
        return _variant_array(array)
    if not is_variant(kind) and not is_variant(array.type):
        return array.cast(kind)
    try:
        return variants_of(array) if is_variant(kind) else texts_of(array).cast(kind)
    except VariantError as error:
        value = row_value(repr(array[error.row].as_py()))
        raise TableError(
            "JSON_VALUE",
            f"column {column.name}, whose values are kept as variants: {error.reason}: {value}",
            hint='Set json = "text", name another target, and let this job build the table anew from the log; or, with '
            'on_error = "set_aside", correct the value on the server and take its rows with '
            "binlog-stream snapshot JOB.toml --server URL",
        ) from error


def whole_variants(rows: pa.Table) -> pa.Table:
    """The same rows; where a variant is null its parts, which files must have, are not null."""
    for number, column in enumerate(rows.columns):
        if is_variant(column.type) and column.null_count:
            whole = pa.chunked_array([_variant_array(chunk) for chunk in column.chunks], VARIANT)
            rows = rows.set_column(number, rows.schema.field(number), whole)
    return rows


def _variant_array(array: pa.StructArray) -> pa.StructArray:
    parts = [array.field(part.name).cast(part.type).fill_null(b"") for part in VARIANT]
    return pa.StructArray.from_arrays(parts, fields=list(VARIANT), mask=array.is_null())


def _mapped(
    rows: pa.RecordBatchReader, schema: pa.Schema, function: Callable[[pa.RecordBatch], pa.RecordBatch]
) -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_batches(schema, (function(batch) for batch in rows))
