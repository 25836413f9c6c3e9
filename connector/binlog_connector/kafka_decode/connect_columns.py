"""Columns of messages, as their schema describes them: `received_column`, the counterpart of `envelope.connect_values`.

What a column was on the server a schema does not tell in full: TINYINT and SMALLINT are both `int16`. So it becomes the
type that holds exactly what the message may hold.

Bytes that are in messages as base64, and the numbers in them: `bytes_of`, `decimals_of`, `unsigned_of`.

An error in a message: `MessageError`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlog_connector.kafka_decode.binary_kernels import ALL_READ, read_base64, read_little_endian, read_unscaled
from binlog_format.errors import UnsupportedError
from binlog_format.events.table_map import Column
from binlog_format.events.table_map_layout import ColumnType
from binlog_format.messages import shown_cause
from binlog_format.rows.arrow_arrays import fixed_array, struct_array, text_array

if TYPE_CHECKING:
    from collections.abc import Callable

    from binlog_format.kernels import Bytes, Int32s, Mask

    Schema = dict[str, Any]
    Convert = Callable[[pa.Array], pa.Array]


class MessageError(Exception):
    """A message that is not one of those that are published; who knows where it was names the place."""

    def __init__(self, row: int, reason: str) -> None:
        super().__init__(row, reason)
        self.row = row
        self.reason = reason


DECIMAL_DIGITS_MAX = 38
"""Digits of a decimal128; decimals with more digits are texts, as everywhere here."""


def bytes_of(texts: pa.Array) -> pa.Array:
    """Binary from base64 with padding (string); a null stays one. Raises `MessageError`: a text is not base64."""
    data, offsets, valid = _parts(texts)
    out_offsets, out = np.empty_like(offsets), np.empty(len(data) // 4 * 3, dtype=np.uint8)
    bad = read_base64(data, offsets, out_offsets, out)
    if bad != ALL_READ:
        raise MessageError(bad, "it is not base64")
    return text_array(pa.binary(), out_offsets, out[: out_offsets[-1]], valid)


def decimals_of(unscaled: pa.Array, precision: int, scale: int) -> pa.Array:
    """Decimals from their unscaled numbers: binary, two's complement, high byte first.

    Returns:
        decimal128(precision, scale), or string beyond `DECIMAL_DIGITS_MAX`.

    Raises:
        MessageError: One has more digits.
    """
    if precision > DECIMAL_DIGITS_MAX:
        # Arrow writes small ones with an exponent. Such columns are rare.
        numbers = (
            None if digits is None else int.from_bytes(digits, "big", signed=True) for digits in unscaled.to_pylist()
        )
        return pa.array([None if number is None else _plain_text(number, scale) for number in numbers], pa.string())
    data, offsets, valid = _parts(unscaled)
    words = np.empty((len(offsets) - 1, 16), dtype=np.uint8)
    bad = read_unscaled(data, offsets, words)
    if bad != ALL_READ:
        raise MessageError(bad, "a number of more than 16 bytes")
    made = fixed_array(pa.decimal128(precision, scale), words, valid)
    try:
        made.validate(full=True)
    except pa.ArrowInvalid as error:
        raise MessageError(0, f"a number of more than {precision} digits") from shown_cause(error)
    return made


def unsigned_of(values: pa.Array) -> pa.Array:
    """uint64 from numbers without sign: binary, low byte first. Raises `MessageError`: one has more than 64 bits."""
    data, offsets, valid = _parts(values)
    words = np.empty((len(offsets) - 1, 8), dtype=np.uint8)
    bad = read_little_endian(data, offsets, words)
    if bad != ALL_READ:
        raise MessageError(bad, "a number of more than 64 bits")
    return fixed_array(pa.uint64(), words, valid)


def _plain_text(unscaled: int, scale: int) -> str:
    sign, digits = ("-" if unscaled < 0 else ""), f"{abs(unscaled):0{scale + 1}}"
    return f"{sign}{digits[:-scale]}.{digits[-scale:]}" if scale else f"{sign}{digits}"


def _parts(values: pa.Array) -> tuple[Bytes, Int32s, Mask]:
    # The bytes, where each value begins in them (and the last one ends), and which are there.
    _, offsets_buffer, data_buffer = values.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32)[values.offset : values.offset + len(values) + 1]
    data = np.frombuffer(data_buffer or b"", np.uint8)[offsets[0] : offsets[-1]].copy()  # kernels want to own it
    return data, offsets - offsets[0], values.is_valid().to_numpy(zero_copy_only=False)


_JSON_TYPES = {
    "boolean": pa.bool_(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "bytes": pa.string(),
}
_TEXT, _BYTES = {"charset": "utf8mb4"}, {"charset": "binary"}
_SIGNED = {"unsigned": False}
_BIGINT_DIGITS = 20
"""Digits of a BIGINT UNSIGNED as a decimal: its schema names no precision."""


def json_type(schema: Schema) -> pa.DataType:
    """The type that a field's JSON is read with."""
    kind = schema["type"]
    if kind == "struct":
        return pa.struct([(field["field"], json_type(field)) for field in schema["fields"]])
    if kind == "array":
        return pa.list_(json_type(schema["items"]))
    if kind not in _JSON_TYPES:
        raise _unknown(schema)
    return _JSON_TYPES[kind]


@dataclass(frozen=True, slots=True)
class ReceivedColumn:
    """A column of the rows in messages.

    Attributes:
        column: As a table has it; `arrow_type` gives the type of its values.
        values: Makes these of what the JSON holds.
    """

    column: Column
    values: Convert


def received_column(schema: Schema) -> ReceivedColumn:
    """Column for a field of a row."""
    kind, name = schema["type"], schema.get("name")
    made = _named(kind, name, schema.get("parameters") or {}) if name else None
    if made is None and (name is None or name in _PLAIN_NAMES):
        made = _PLAIN.get(kind)
    if made is None:
        raise _unknown(schema)
    type_, metadata, more, values = made
    column = Column(schema["field"], type_, metadata, nullable=bool(schema.get("optional")), **more)
    return ReceivedColumn(column, values)


def _unknown(schema: Schema) -> UnsupportedError:
    named = f" ({schema['name']})" if schema.get("name") else ""
    return UnsupportedError(
        "COLUMN_TYPE",
        f"messages have a column {schema.get('field')} of type {schema.get('type')}{named}, which is not read",
        hint="Leave the table out",
    )


def _as_is(values: pa.Array) -> pa.Array:
    return values


_Made = tuple[ColumnType, int, dict[str, Any], "Convert"]

_PLAIN: dict[str, _Made] = {
    "boolean": (ColumnType.BIT, 1, {}, _as_is),
    "int8": (ColumnType.TINY, 0, _SIGNED, _as_is),
    "int16": (ColumnType.SHORT, 0, _SIGNED, _as_is),
    "int32": (ColumnType.LONG, 0, _SIGNED, _as_is),
    "int64": (ColumnType.LONGLONG, 0, _SIGNED, _as_is),
    "float": (ColumnType.FLOAT, 4, _SIGNED, _as_is),
    "double": (ColumnType.DOUBLE, 8, _SIGNED, _as_is),
    "string": (ColumnType.BLOB, 4, _TEXT, _as_is),
    "bytes": (ColumnType.BLOB, 4, _BYTES, bytes_of),
}
_PLAIN_NAMES = {"io.debezium.data.Enum", "io.debezium.data.EnumSet", "io.debezium.data.Json", "io.debezium.data.Uuid"}
"""Other meanings of a text; it stays a text."""


def _named(kind: str, name: str, parameters: dict[str, str]) -> _Made | None:
    if name == "org.apache.kafka.connect.data.Decimal":
        return _decimal(parameters)
    if name == "io.debezium.data.Bits":
        return _bits(int(parameters["length"]))
    return _NAMED.get((kind, name))


def _decimal(parameters: dict[str, str]) -> _Made:
    scale = int(parameters["scale"])
    precision = int(parameters.get("connect.decimal.precision", DECIMAL_DIGITS_MAX if scale else _BIGINT_DIGITS))
    return (
        ColumnType.NEWDECIMAL,
        precision | scale << 8,
        _SIGNED,
        lambda texts: decimals_of(bytes_of(texts), precision, scale),
    )


def _bits(count: int) -> _Made:
    def values(texts: pa.Array) -> pa.Array:
        numbers = unsigned_of(bytes_of(texts))
        return numbers.cast(pa.decimal128(_BIGINT_DIGITS, 0)) if count == 64 else numbers.cast(pa.int64())

    return ColumnType.BIT, count % 8 | count // 8 << 8, {}, values


def _days(values: pa.Array) -> pa.Array:
    return values.view(pa.date32())


def _datetimes(unit: str) -> Convert:
    return lambda values: values.view(pa.timestamp(unit)).cast(pa.timestamp("us"))


def _zoned(texts: pa.Array) -> pa.Array:
    return pc.cast(texts, pa.timestamp("us", "UTC"))


def _milliseconds(values: pa.Array) -> pa.Array:
    return pc.multiply(values.cast(pa.int64()), 1000)


def _nanoseconds(values: pa.Array) -> pa.Array:
    return pc.divide(values, 1000)


def _geometries(values: pa.Array) -> pa.Array:
    # Their bytes are whole; what a point has beside them is the same once more.
    fields = dict(zip(values.type.names, values.flatten(), strict=True))
    wkb = bytes_of(fields["wkb"])
    kind = pa.struct([("srid", pa.int32()), ("wkb", pa.binary())])
    return struct_array(kind, [fields["srid"].fill_null(0), wkb], values.is_valid().to_numpy(zero_copy_only=False))


_DEBEZIUM, _CONNECT, _DATA = "io.debezium.time.", "org.apache.kafka.connect.data.", "io.debezium.data."
_DATETIME: tuple[ColumnType, int, dict[str, Any]] = (ColumnType.DATETIME2, 6, {})
_DATETIME_MS: tuple[ColumnType, int, dict[str, Any]] = (ColumnType.DATETIME2, 3, {})
_TIME: tuple[ColumnType, int, dict[str, Any]] = (ColumnType.LONGLONG, 0, _SIGNED)
"""Microseconds: a message does not tell how many digits the column has."""

_NAMED: dict[tuple[str, str], _Made] = {
    ("int32", _DEBEZIUM + "Year"): (ColumnType.YEAR, 0, {}, _as_is),
    ("int32", _DEBEZIUM + "Date"): (ColumnType.DATE, 0, {}, _days),
    ("int32", _CONNECT + "Date"): (ColumnType.DATE, 0, {}, _days),
    ("int64", _DEBEZIUM + "Timestamp"): (*_DATETIME_MS, _datetimes("ms")),
    ("int64", _CONNECT + "Timestamp"): (*_DATETIME_MS, _datetimes("ms")),
    ("int64", _DEBEZIUM + "MicroTimestamp"): (*_DATETIME, _datetimes("us")),
    ("int64", _DEBEZIUM + "NanoTimestamp"): (*_DATETIME, _datetimes("ns")),
    ("string", _DEBEZIUM + "ZonedTimestamp"): (ColumnType.TIMESTAMP2, 6, {}, _zoned),
    ("int64", _DEBEZIUM + "MicroTime"): (*_TIME, _as_is),
    ("int64", _DEBEZIUM + "NanoTime"): (*_TIME, _nanoseconds),
    ("int32", _CONNECT + "Time"): (*_TIME, _milliseconds),
    ("struct", _DATA + "geometry.Geometry"): (ColumnType.GEOMETRY, 4, {}, _geometries),
    ("struct", _DATA + "geometry.Point"): (ColumnType.GEOMETRY, 4, {}, _geometries),
    ("array", _DATA + "FloatVector"): (ColumnType.VECTOR, 4, {}, _as_is),
}
