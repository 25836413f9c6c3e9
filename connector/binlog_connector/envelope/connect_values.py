"""Columns as messages hold them, with Debezium's types: `connect_column` gives the schema and how values are made.

Where Debezium is silently wrong, this stops with a named error: a BIGINT UNSIGNED above 2**63 - 1 as `long`, a date
beyond what nanoseconds can count, a TIME that is no time of day as Connect's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa

from binlog_connector.envelope.connect_schema import field_of, schema_of
from binlog_connector.envelope.message_kernels import write_unscaled
from binlog_connector.envelope.options import (
    BinaryHandling,
    DecimalHandling,
    EnvelopeOptions,
    TimePrecision,
    UnsignedBigintHandling,
)
from binlog_format.errors import UnsupportedError
from binlog_format.events.table_map_layout import ColumnType
from binlog_format.kernels import empty_bytes
from binlog_format.rows.arrow_arrays import fixed_array, struct_array, text_array
from binlog_format.rows.column_types import column_name
from binlog_format.rows.declared.declared_types import split_declared
from binlog_format.rows.decoding import ZeroDates
from binlog_format.rows.json.json_rows import BinaryText, JsonStyle
from binlog_format.rows.values.temporal import fraction_digits

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from binlog_connector.envelope.connect_schema import Schema
    from binlog_format.events.table_map import Column, TableLayout

    Int64s = NDArray[np.int64]
    Mask = NDArray[np.bool_]


class _Refusal(Exception):
    """A value that the message's type cannot hold."""

    def __init__(self, index: int, reason: str, hint: str) -> None:
        super().__init__(index, reason)
        self.index = index
        self.reason = reason
        self.hint = hint


class _Convert(Protocol):
    def __call__(self, values: pa.Array) -> pa.Array: ...


def _as_is(values: pa.Array) -> pa.Array:
    return values


@dataclass(frozen=True, slots=True)
class ConnectColumn:
    """A column of a table as messages hold it.

    Attributes:
        name: Of the column.
        full_name: `database.table.column`, for errors.
        schema: Its field in a schema of Kafka Connect.
        style: How its values are written as JSON.
    """

    name: str
    full_name: str
    schema: Schema
    style: JsonStyle
    _convert: _Convert

    def values(self, column: pa.Array) -> pa.Array:
        """Convert the values of `Images.column` to those of messages.

        Raises:
            UnsupportedError: `MESSAGE_VALUE`: the type of the message cannot hold a value.
        """
        try:
            return self._convert(column)
        except _Refusal as refusal:
            reason = f"{self.full_name}: value {refusal.index}: {refusal.reason}"
            raise UnsupportedError("MESSAGE_VALUE", reason, hint=refusal.hint) from refusal


_PLAIN = JsonStyle()


@dataclass(frozen=True, slots=True)
class _Form:
    # What is particular to a type; the schema without `optional`, which the column sets.
    kind: str
    name: str | None = None
    parameters: dict[str, str] | None = None
    style: JsonStyle = _PLAIN
    convert: _Convert = _as_is
    fields: tuple[Schema, ...] = ()
    items: str | None = None


def connect_column(
    layout: TableLayout, index: int, kind: pa.DataType, options: EnvelopeOptions, zero_dates: ZeroDates
) -> ConnectColumn:
    """Choose the form of a column in messages.

    Args:
        layout: Of the table.
        index: Of the column.
        kind: Its Arrow type, TIME as microseconds.
        options: What messages look like.
        zero_dates: Where zero dates are null, no date column is certain to have values.
    """
    column = layout.columns[index]
    assert column.name is not None, "an Arrow schema has names"
    form = _form(column, kind, options)
    is_date = pa.types.is_date(kind) or pa.types.is_timestamp(kind)
    optional = column.nullable or (is_date and zero_dates is ZeroDates.NULL)
    schema = schema_of(form.kind, optional=optional, name=form.name, parameters=form.parameters)
    if form.fields:
        schema = {"type": form.kind, "fields": list(form.fields), **{k: v for k, v in schema.items() if k != "type"}}
    if form.items is not None:
        schema = {"type": form.kind, "items": schema_of(form.items), **{k: v for k, v in schema.items() if k != "type"}}
    return ConnectColumn(
        column.name, column_name(layout, index), field_of(column.name, schema), form.style, form.convert
    )


def _form(column: Column, kind: pa.DataType, options: EnvelopeOptions) -> _Form:
    types = pa.types
    if types.is_boolean(kind):
        return _Form("boolean")
    if column.type is ColumnType.BIT:
        return _bits(column)
    if column.type is ColumnType.NEWDECIMAL:
        return _decimals(column, options.decimal_handling)
    if types.is_date(kind) or types.is_timestamp(kind) or column.type in (ColumnType.TIME, ColumnType.TIME2):
        return _temporal(column, kind, options.time_precision)
    if types.is_decimal(kind):
        return _unsigned_bigint(options.unsigned_bigint_handling)
    if types.is_integer(kind):
        if column.type is ColumnType.YEAR:
            return _Form("int32", "io.debezium.time.Year")
        return _Form({8: "int16", 16: "int16", 32: "int32", 64: "int64"}[kind.bit_width])
    if types.is_floating(kind):
        return _Form("float" if kind == pa.float32() else "double")
    if types.is_binary(kind):
        return _binary(options.binary_handling)
    if types.is_struct(kind):
        return _geometry(column)
    if types.is_list(kind):
        return _Form("array", "io.debezium.data.FloatVector", items="float")
    return _text(column)


# --- text and bytes --------------------------------------------------------------------------------------------------


def _text(column: Column) -> _Form:
    declared = split_declared(column.declared or "")[0]
    if column.type in (ColumnType.ENUM, ColumnType.SET) and column.enum_values is not None:
        name = "io.debezium.data.Enum" if column.type is ColumnType.ENUM else "io.debezium.data.EnumSet"
        return _Form("string", name, {"allowed": ",".join(column.enum_values)})
    if column.type is ColumnType.JSON or declared == "json":
        return _Form("string", "io.debezium.data.Json")
    if declared == "uuid":
        return _Form("string", "io.debezium.data.Uuid")
    return _Form("string")


_BINARY_TEXTS = {
    BinaryHandling.BASE64: BinaryText.BASE64,
    BinaryHandling.BASE64_URL_SAFE: BinaryText.BASE64_URL,
    BinaryHandling.HEX: BinaryText.HEX,
}


def _binary(handling: BinaryHandling) -> _Form:
    if handling is BinaryHandling.BYTES:
        return _Form("bytes")
    return _Form("string", style=JsonStyle(binary=_BINARY_TEXTS[handling]))


def _bits(column: Column) -> _Form:
    count = (column.metadata & 0xFF) + 8 * (column.metadata >> 8)

    def convert(values: pa.Array) -> pa.Array:
        # Debezium: low byte first.
        words = _words(values, 2 if pa.types.is_decimal(values.type) else 1)
        width = (count + 7) // 8
        content = np.ascontiguousarray(words[:, :1]).view(np.uint8).reshape(-1, 8)[:, :width]
        offsets = np.arange(len(values) + 1, dtype=np.int32) * width
        return text_array(pa.binary(), offsets, np.ascontiguousarray(content).reshape(-1), _present(values))

    return _Form("bytes", "io.debezium.data.Bits", {"length": str(count)}, convert=convert)


_OPTIONAL_SRID = field_of("srid", schema_of("int32", optional=True))
_POINT_SIZE = 21  # byte order, type, x, y
_POINT = 1


def _geometry(column: Column) -> _Form:
    fields: tuple[Schema, ...] = (field_of("wkb", schema_of("bytes")), _OPTIONAL_SRID)
    if column.geometry_type != _POINT:
        return _Form("struct", "io.debezium.data.geometry.Geometry", fields=fields, convert=_wkb_first)
    fields = (
        *(field_of(axis, schema_of("double")) for axis in ("x", "y")),
        field_of("wkb", schema_of("bytes", optional=True)),
        _OPTIONAL_SRID,
    )
    return _Form("struct", "io.debezium.data.geometry.Point", fields=fields, convert=_points)


def _wkb_first(values: pa.Array) -> pa.Array:
    srid, wkb = values.flatten()
    kind = pa.struct([("wkb", wkb.type), ("srid", srid.type)])
    return struct_array(kind, [wkb, srid], _present(values))


def _points(values: pa.Array) -> pa.Array:
    srid, wkb = values.flatten()
    present = _present(values)
    sizes = np.diff(_offsets(wkb))
    odd = np.flatnonzero(present & (sizes != _POINT_SIZE))
    if len(odd):
        raise _Refusal(int(odd[0]), f"a point of {sizes[odd[0]]} bytes, not {_POINT_SIZE}", "Leave the table out")
    content = np.frombuffer(wkb.buffers()[2] or b"", dtype=np.uint8)[_offsets(wkb)[0] : _offsets(wkb)[-1]]
    points = content.reshape(-1, _POINT_SIZE)
    axes = []
    for start in (5, 13):
        numbers = np.zeros(len(values))
        if len(points):
            little = np.ascontiguousarray(points[:, start : start + 8])
            big_endian = points[:, 0] == 0
            numbers[present] = np.where(big_endian, little.view(">f8")[:, 0], little.view("<f8")[:, 0])
        axes.append(fixed_array(pa.float64(), numbers, present))
    kind = pa.struct([("x", pa.float64()), ("y", pa.float64()), ("wkb", wkb.type), ("srid", srid.type)])
    return struct_array(kind, [*axes, wkb, srid], present)


# --- numbers ---------------------------------------------------------------------------------------------------------


def _decimals(column: Column, handling: DecimalHandling) -> _Form:
    precision, scale = column.metadata & 0xFF, column.metadata >> 8
    if handling is DecimalHandling.STRING:
        return _Form("string")
    if handling is DecimalHandling.DOUBLE:
        # Through text: Arrow's own way does not round to the nearest.
        return _Form("double", convert=lambda values: values.cast(pa.string()).cast(pa.float64()))
    parameters = {"scale": str(scale), "connect.decimal.precision": str(precision)}

    def convert(values: pa.Array) -> pa.Array:
        # More than 38 digits come as text.
        return _unscaled(values.cast(pa.decimal256(precision, scale)) if pa.types.is_string(values.type) else values)

    return _Form("bytes", "org.apache.kafka.connect.data.Decimal", parameters, convert=convert)


def _unsigned_bigint(handling: UnsignedBigintHandling) -> _Form:
    if handling is UnsignedBigintHandling.PRECISE:
        return _Form("bytes", "org.apache.kafka.connect.data.Decimal", {"scale": "0"}, convert=_unscaled)

    def convert(values: pa.Array) -> pa.Array:
        numbers, present = np.ascontiguousarray(_words(values, 2)[:, 0]).view(np.int64), _present(values)
        _refuse(
            present & (numbers < 0),
            lambda index: f"{int(numbers[index : index + 1].view(np.uint64)[0])} is more than an int64 holds",
            "Set option bigint.unsigned.handling.mode=precise",
        )
        return fixed_array(pa.int64(), numbers, present)

    return _Form("int64", convert=convert)


def _unscaled(values: pa.Array) -> pa.Array:
    words = _words(values, values.type.byte_width // 8)
    offsets = np.empty(len(values) + 1, dtype=np.int32)
    out = empty_bytes(words.nbytes)
    present = _present(values)
    write_unscaled(words, present.view(np.uint8), offsets, out)
    return text_array(pa.binary(), offsets, out[: offsets[-1]], present)


# --- dates and times -------------------------------------------------------------------------------------------------

_CONNECT = "org.apache.kafka.connect.data."
_DEBEZIUM = "io.debezium.time."
_DAY_US = 86_400_000_000
_NANOSECONDS_MAX = (2**63 - 1) // 1000  # microseconds
_OTHER_PRECISION = "Set option time.precision.mode=adaptive_time_microseconds"


def _temporal(column: Column, kind: pa.DataType, precision: TimePrecision) -> _Form:
    digits = 0 if pa.types.is_date(kind) else fraction_digits(column)
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return _Form("string", _DEBEZIUM + "ZonedTimestamp", style=JsonStyle(digits=digits))
    if pa.types.is_date(kind):
        name = _CONNECT if precision is TimePrecision.CONNECT else _DEBEZIUM
        return _Form("int32", name + "Date", convert=lambda values: values.view(pa.int32()))
    if pa.types.is_timestamp(kind):
        return _datetimes(digits, precision)
    if precision is TimePrecision.CONNECT:
        return _Form("int32", _CONNECT + "Time", convert=_times_of_day)
    if precision is TimePrecision.NANOSECONDS:
        return _Form("int64", _DEBEZIUM + "NanoTime", convert=_nanoseconds)
    return _Form("int64", _DEBEZIUM + "MicroTime")


def _datetimes(digits: int, precision: TimePrecision) -> _Form:
    if precision is TimePrecision.NANOSECONDS:
        return _Form("int64", _DEBEZIUM + "NanoTimestamp", convert=_nanoseconds)
    if precision is TimePrecision.CONNECT:
        return _Form("int64", _CONNECT + "Timestamp", convert=_milliseconds)
    if precision is TimePrecision.ADAPTIVE_TIME_MICROSECONDS and digits <= 3:
        return _Form("int64", _DEBEZIUM + "Timestamp", convert=_milliseconds)
    return _Form("int64", _DEBEZIUM + "MicroTimestamp", convert=lambda values: values.view(pa.int64()))


def _milliseconds(values: pa.Array) -> pa.Array:
    return fixed_array(pa.int64(), _micros(values) // 1000, _present(values))


def _nanoseconds(values: pa.Array) -> pa.Array:
    micros, present = _micros(values), _present(values)
    _refuse(
        present & (np.abs(micros) > _NANOSECONDS_MAX),
        lambda index: f"{values[index]} is outside of what 64 bits of nanoseconds hold (1677 to 2262)",
        _OTHER_PRECISION,
    )
    return fixed_array(pa.int64(), micros * 1000, present)


def _times_of_day(values: pa.Array) -> pa.Array:
    micros, present = _micros(values), _present(values)
    _refuse(
        present & ((micros < 0) | (micros >= _DAY_US)),
        lambda index: f"{micros[index]} microseconds are no time of day, which Connect's Time is",
        _OTHER_PRECISION,
    )
    return fixed_array(pa.int32(), (micros // 1000).astype(np.int32), present)


# --- arrays ----------------------------------------------------------------------------------------------------------


def _refuse(bad: Mask, reason: Callable[[int], str], hint: str) -> None:
    indices = np.flatnonzero(bad)
    if len(indices):
        raise _Refusal(int(indices[0]), reason(int(indices[0])), hint)


def _present(values: pa.Array) -> Mask:
    if values.null_count == 0:
        return np.ones(len(values), dtype=np.bool_)
    mask: Mask = values.is_valid().to_numpy(zero_copy_only=False)
    return mask


def _words(values: pa.Array, count: int) -> NDArray[np.uint64]:
    """The 64-bit words of each value, the lowest first, in an array of their own; of a null: anything."""
    words = np.frombuffer(values.buffers()[1] or b"", dtype=np.uint64)
    return words[count * values.offset : count * (values.offset + len(values))].reshape(-1, count).copy()


def _micros(values: pa.Array) -> Int64s:
    return _words(values, 1).view(np.int64)[:, 0]


def _offsets(values: pa.Array) -> NDArray[np.int32]:
    offsets = np.frombuffer(values.buffers()[1] or bytes(4), dtype=np.int32)
    return offsets[values.offset : values.offset + len(values) + 1]
