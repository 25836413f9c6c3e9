"""Forms of values in messages: `ValueForm`; of dates and times, `temporal_form`; arrays that forms are made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlog_connector.envelope.options import TimePrecision
from binlog_format.messages import row_value
from binlog_format.rows.arrow_arrays import fixed_array
from binlog_format.rows.json.json_rows import JsonStyle
from binlog_format.rows.values.temporal import fraction_digits

if TYPE_CHECKING:
    from collections.abc import Callable

    from binlog_connector.envelope.connect_schema import Schema
    from binlog_format.events.table_map import Column
    from binlog_format.kernels import Int32s, Int64s, Mask, Uint64s


class ValueRefusal(Exception):
    """A value that the message's type cannot hold."""

    def __init__(self, index: int, reason: str, hint: str) -> None:
        super().__init__(index, reason)
        self.index = index
        self.reason = reason
        self.hint = hint


class Convert(Protocol):
    """Conversion of a column's values to those of messages."""

    def __call__(self, values: pa.Array) -> pa.Array:
        """Convert."""


def as_is(values: pa.Array) -> pa.Array:
    """The values themselves."""
    return values


PLAIN_STYLE = JsonStyle()
"""Style of values that need none."""


@dataclass(frozen=True, slots=True)
class ValueForm:
    """Form of a type's values in messages.

    Attributes:
        kind: Type in the schema.
        doc: Of the schema, where the column has no comment.
        fields: Of a struct.
        items: Type of an array's items.
    """

    kind: str
    name: str | None = None
    parameters: dict[str, str] | None = None
    style: JsonStyle = PLAIN_STYLE
    doc: str | None = None
    convert: Convert = as_is
    fields: tuple[Schema, ...] = ()
    items: str | None = None


def refuse_values(bad: Mask, text: Callable[[int], str], refused: str, hint: str) -> None:
    """Refuse the first of the *bad* values.

    Args:
        text: Text of the value at an index, which the reason shows only where messages show values of rows.
        refused: Words after it.

    Raises:
        ValueRefusal: There is one.
    """
    indices = np.flatnonzero(bad)
    if len(indices):
        index = int(indices[0])
        raise ValueRefusal(index, f"{row_value(text(index))} {refused}", hint)


def present_mask(values: pa.Array) -> Mask:
    """True for values that are not null."""
    if values.null_count == 0:
        return np.ones(len(values), dtype=np.bool_)
    mask: Mask = values.is_valid().to_numpy(zero_copy_only=False)
    return mask


def value_words(values: pa.Array, count: int) -> Uint64s:
    """The 64-bit words of each value, the lowest first, in an array of their own; of a null: anything."""
    words = np.frombuffer(values.buffers()[1] or b"", dtype=np.uint64)
    return words[count * values.offset : count * (values.offset + len(values))].reshape(-1, count).copy()


def micros_of(values: pa.Array) -> Int64s:
    """Numbers of 64 bits, as dates and times have them."""
    return value_words(values, 1).view(np.int64)[:, 0]


def value_offsets(values: pa.Array) -> Int32s:
    """Starts of texts, and the end of the last one."""
    offsets = np.frombuffer(values.buffers()[1] or bytes(4), dtype=np.int32)
    return offsets[values.offset : values.offset + len(values) + 1]


# --- dates and times -------------------------------------------------------------------------------------------------

_CONNECT = "org.apache.kafka.connect.data."
_DEBEZIUM = "io.debezium.time."
_DAY_US = 86_400_000_000
_NANOSECONDS_MAX = (2**63 - 1) // 1000  # microseconds
_OTHER_PRECISION = "Set option time.precision.mode=adaptive_time_microseconds"


def temporal_form(column: Column, kind: pa.DataType, precision: TimePrecision) -> ValueForm:
    """The form of a date or time."""
    digits = 0 if pa.types.is_date(kind) else fraction_digits(column)
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return ValueForm("string", _DEBEZIUM + "ZonedTimestamp", style=JsonStyle(digits=digits))
    if precision is TimePrecision.ISOSTRING:
        return _iso_texts(kind)
    if pa.types.is_date(kind):
        name = _CONNECT if precision is TimePrecision.CONNECT else _DEBEZIUM
        return ValueForm("int32", name + "Date", convert=lambda values: values.view(pa.int32()))
    if pa.types.is_timestamp(kind):
        return _datetimes(digits, precision)
    if precision is TimePrecision.CONNECT:
        return ValueForm("int32", _CONNECT + "Time", convert=_times_of_day)
    if precision is TimePrecision.NANOSECONDS:
        return ValueForm("int64", _DEBEZIUM + "NanoTime", convert=_nanoseconds)
    return ValueForm("int64", _DEBEZIUM + "MicroTime")


def _datetimes(digits: int, precision: TimePrecision) -> ValueForm:
    if precision is TimePrecision.NANOSECONDS:
        return ValueForm("int64", _DEBEZIUM + "NanoTimestamp", convert=_nanoseconds)
    if precision is TimePrecision.CONNECT:
        return ValueForm("int64", _CONNECT + "Timestamp", convert=_milliseconds)
    if precision is TimePrecision.ADAPTIVE_TIME_MICROSECONDS and digits <= 3:
        return ValueForm("int64", _DEBEZIUM + "Timestamp", convert=_milliseconds)
    return ValueForm("int64", _DEBEZIUM + "MicroTimestamp", convert=lambda values: values.view(pa.int64()))


def _iso_texts(kind: pa.DataType) -> ValueForm:
    if pa.types.is_date(kind):
        return ValueForm("string", _DEBEZIUM + "IsoDate", convert=lambda values: pc.strftime(values, "%Y-%m-%dZ"))
    if pa.types.is_timestamp(kind):
        return ValueForm("string", _DEBEZIUM + "IsoTimestamp", convert=lambda values: _iso(values, "%Y-%m-%dT%H:%M:%S"))

    def convert(values: pa.Array) -> pa.Array:
        _check_times_of_day(values)
        return _iso(fixed_array(pa.timestamp("us"), micros_of(values), present_mask(values)), "%H:%M:%S")

    return ValueForm("string", _DEBEZIUM + "IsoTime", convert=convert)


def _iso(values: pa.Array, form: str) -> pa.Array:
    # The fraction of a second without zeros at its end.
    texts = pc.replace_substring_regex(pc.strftime(values, form), r"\.?0+$", "")
    return pc.binary_join_element_wise(texts, "Z", "")


def _milliseconds(values: pa.Array) -> pa.Array:
    return fixed_array(pa.int64(), micros_of(values) // 1000, present_mask(values))


def _nanoseconds(values: pa.Array) -> pa.Array:
    micros, present = micros_of(values), present_mask(values)
    refuse_values(
        present & (np.abs(micros) > _NANOSECONDS_MAX),
        lambda index: str(values[index]),
        "is outside of what 64 bits of nanoseconds hold (1677 to 2262)",
        _OTHER_PRECISION,
    )
    return fixed_array(pa.int64(), micros * 1000, present)


def _check_times_of_day(values: pa.Array) -> None:
    micros = micros_of(values)
    refuse_values(
        present_mask(values) & ((micros < 0) | (micros >= _DAY_US)),
        lambda index: f"{micros[index]} microseconds",
        "is no time of day",
        _OTHER_PRECISION,
    )


def _times_of_day(values: pa.Array) -> pa.Array:
    _check_times_of_day(values)
    micros, present = micros_of(values), present_mask(values)
    return fixed_array(pa.int32(), (micros // 1000).astype(np.int32), present)
