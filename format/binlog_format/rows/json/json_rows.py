"""Arrow columns as JSON objects, one for each row: `JsonRows` (into any place), `json_lines` (a batch as text).

A value is what Python's `json.loads` gives back: whole numbers and floats as numbers (floats by their shortest text),
decimals as strings, text as text, binary as base64 (see `BinaryText`), `2024-01-31`, `2024-01-31T12:00:00.123456`
(with `Z` where the type has a time zone), lists of texts or floats as arrays, structs as objects. Names come in column
order; null values are null; absent ones are left out.
"""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlog_format.kernels import as_bytes, empty_bytes
from binlog_format.rows.arrow_arrays import array_mask, numbers_array
from binlog_format.rows.json import json_kernels
from binlog_format.writing_kernels import BASE64, BASE64_URL, any_escape

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from binlog_format.kernels import Bytes, Int32s, Int64s, Mask


class BinaryText(Enum):
    """Text form of bytes."""

    BASE64 = "base64"
    BASE64_URL = "base64-url-safe"
    HEX = "hex"


@dataclass(frozen=True, slots=True)
class JsonStyle:
    """JSON options of a column that its Arrow type does not contain.

    Attributes:
        digits: Digits of a timestamp's fraction of a second, 0 to 6.
        whole: A decimal without fraction stands for a whole number and is written as one, not as a string.
        ready: The texts (or bytes) are JSON already.
        fields: Styles of a struct's fields, by name.
        fraction: Floats are written as such where they are whole numbers: `1.0`.
    """

    digits: int = 6
    whole: bool = False
    ready: bool = False
    binary: BinaryText = BinaryText.BASE64
    fields: Mapping[str, JsonStyle] = field(default_factory=dict)
    fraction: bool = False


_PLAIN = JsonStyle()
_Number = TypeVar("_Number", bound=np.generic)


@dataclass(frozen=True, slots=True)
class JsonColumn:
    """A column ready to be written: its sizes and its kernel.

    Attributes:
        name: `"name":` as bytes.
        states: For each row `ABSENT`, `NULL` or `VALUE`.
        sizes: Bytes of each value; meaningless where there is none.
        write: Kernel that writes the column at the cursors of an output buffer and moves them on.
        arguments: Of the kernel, after the buffer, the cursors, the name and the states.
    """

    name: Bytes
    states: Bytes
    sizes: Int64s
    write: Callable[..., None]
    arguments: tuple[object, ...]


class JsonRows:
    """The rows of some columns as JSON objects; `sizes` first, then `write` wherever they shall stand.

    Args:
        columns: Made by `json_column`; all of *row_count* rows.
    """

    def __init__(self, columns: list[JsonColumn], row_count: int) -> None:
        self._columns = columns
        self.sizes: Int64s = np.ones(row_count, dtype=np.int64)  # the opening brace; a comma becomes the closing one
        for column in columns:
            json_kernels.add_sizes(column.states, column.sizes, column.name.size + 1, self.sizes)
        np.maximum(self.sizes, 2, out=self.sizes)

    def write(self, out: Bytes, starts: Int64s) -> None:
        """Write row i at `out[starts[i]:starts[i] + sizes[i]]`."""
        if len(starts) == 0:
            return
        cursors = np.empty_like(starts)
        json_kernels.open_rows(out, starts, cursors)
        for column in self._columns:
            column.write(out, cursors, column.name, column.states, *column.arguments)
        json_kernels.close_rows(out, starts, cursors)
        assert json_kernels.have_sizes(starts, cursors, self.sizes), (
            "JSON rows were written with other sizes than computed"
        )


def json_column(name: str, values: pa.Array, *, style: JsonStyle = _PLAIN, absent: Mask | None = None) -> JsonColumn:
    """Prepare one column.

    Args:
        values: Whole numbers, floats, booleans, decimal128, string, binary, date32, timestamp('us'), lists of strings
            or floats, or a struct of such.
        style: What the type does not record.
        absent: True where the key is to be left out.
    """
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    return JsonColumn(_key(name), _states(values, absent), *_bound(values, style))


@functools.lru_cache(maxsize=4096)
def _key(name: str) -> Bytes:
    return as_bytes((json.dumps(name, ensure_ascii=False) + ":").encode())


def json_lines(batch: pa.RecordBatch, styles: Mapping[str, JsonStyle]) -> memoryview:
    """All rows of *batch* as JSON lines, each with its newline."""
    rows = JsonRows(
        [
            json_column(name, values, style=styles.get(name, _PLAIN))
            for name, values in zip(batch.schema.names, batch.columns, strict=True)
        ],
        batch.num_rows,
    )
    ends = np.cumsum(rows.sizes + 1)
    out = empty_bytes(int(ends[-1]) if len(ends) else 0)
    rows.write(out, ends - rows.sizes - 1)
    out[ends - 1] = ord("\n")
    return out.data


def _states(values: pa.Array, absent: Mask | None) -> Bytes:
    states = np.full(len(values), json_kernels.VALUE, dtype=np.uint8)
    if values.null_count:
        states[array_mask(values.is_null())] = json_kernels.NULL
    if absent is not None:
        states[absent] = json_kernels.ABSENT
    return states


_Bound = tuple["Int64s", "Callable[..., None]", tuple[object, ...]]


def _bound(values: pa.Array, style: JsonStyle) -> _Bound:
    kind = values.type
    types = pa.types
    if types.is_integer(kind):
        return _integers(values)
    if style.ready:
        return _ready(values)
    if types.is_string(kind) or types.is_large_string(kind):
        return _texts(values)
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return _hex(values) if style.binary is BinaryText.HEX else _base64(values, style.binary)
    if types.is_decimal128(kind):
        return _decimals(values, quoted=not style.whole)
    if types.is_date32(kind):
        return _dates(values)
    if types.is_timestamp(kind):
        return _timestamps(values, style.digits)
    if types.is_floating(kind):
        return _ready(float_texts(values, fraction=style.fraction))
    if types.is_boolean(kind):
        return _ready(values.cast(pa.string()))
    if types.is_struct(kind):
        return _structs(values, style)
    assert types.is_list(kind), f"no JSON form for {kind}"
    return _number_lists(values, style) if types.is_floating(kind.value_type) else _lists(values)


def _integers(values: pa.Array) -> _Bound:
    numbers = _numbers(values)
    sizes = np.empty(len(values), dtype=np.int64)
    json_kernels.integer_sizes(numbers, sizes)
    return sizes, json_kernels.write_integers, (numbers,)


def _texts(values: pa.Array) -> _Bound:
    data, offsets = text_buffers(values, pa.string())
    sizes = np.empty(len(values), dtype=np.int64)
    if len(values) == 0 or not any_escape(data, int(offsets[0]), int(offsets[-1])):
        np.subtract(offsets[1:], offsets[:-1], out=sizes)
        sizes += 2
        return sizes, json_kernels.write_plain, (data, offsets, True)
    json_kernels.text_sizes(data, offsets, sizes)
    return sizes, json_kernels.write_text, (data, offsets)


def _ready(values: pa.Array) -> _Bound:
    is_bytes = pa.types.is_binary(values.type) or pa.types.is_large_binary(values.type)
    data, offsets = text_buffers(values, pa.binary() if is_bytes else pa.string())
    sizes = np.diff(offsets).astype(np.int64)
    return sizes, json_kernels.write_plain, (data, offsets, False)


def _base64(values: pa.Array, form: BinaryText) -> _Bound:
    letters = BASE64_URL if form is BinaryText.BASE64_URL else BASE64
    data, offsets = text_buffers(values, pa.binary())
    sizes = (np.diff(offsets).astype(np.int64) + 2) // 3 * 4 + 2
    return sizes, json_kernels.write_base64, (data, offsets, letters)


def _hex(values: pa.Array) -> _Bound:
    data, offsets = text_buffers(values, pa.binary())
    sizes = 2 * np.diff(offsets).astype(np.int64) + 2
    return sizes, json_kernels.write_hex, (data, offsets)


def _decimals(values: pa.Array, *, quoted: bool) -> _Bound:
    words = _view(values.buffers()[1], np.uint64)[2 * values.offset : 2 * (values.offset + len(values))]
    scale = values.type.scale
    sizes = np.empty(len(values), dtype=np.int64)
    json_kernels.decimal_sizes(words, scale, 2 if quoted else 0, sizes)
    return sizes, json_kernels.write_decimals, (words, scale, quoted)


def _dates(values: pa.Array) -> _Bound:
    days = _numbers(values.view(pa.int32()))
    sizes = np.full(len(values), len('"YYYY-MM-DD"'), dtype=np.int64)
    return sizes, json_kernels.write_dates, (days,)


def _timestamps(values: pa.Array, digits: int) -> _Bound:
    micros = _numbers(values.view(pa.int64()))
    utc = values.type.tz is not None
    size = len('"YYYY-MM-DDTHH:MM:SS"') + (digits + 1 if digits else 0) + utc
    sizes = np.full(len(values), size, dtype=np.int64)
    return sizes, json_kernels.write_timestamps, (micros, digits, utc)


_WHOLE = r"^-?[0-9]+$"


def float_texts(values: pa.Array, *, fraction: bool = False) -> pa.Array:
    """Floats as JSON, in the shortest digits; what is not finite: its name as a string.

    Args:
        fraction: Whole numbers end with `.0`.
    """
    texts = values.cast(pa.string())
    if fraction and pc.any(pc.equal(pc.trunc(values), values)).as_py():
        with_fraction = pc.binary_join_element_wise(texts, ".0", "")
        texts = pc.if_else(pc.match_substring_regex(texts, _WHOLE), with_fraction, texts)
    finite = pc.is_finite(values)
    if pc.all(finite).as_py() is False:  # JSON has no such numbers: their names, as strings
        texts = pc.if_else(finite, texts, pc.binary_join_element_wise('"', texts, '"', ""))
    if pc.any(pc.equal(values, 0.0)).as_py():  # a reader would take -0 for a whole number, which has no sign
        texts = pc.if_else(pc.equal(texts, "-0"), "-0.0", texts)
    return texts


def _number_lists(values: pa.Array, style: JsonStyle) -> _Bound:
    texts = float_texts(values.flatten(), fraction=style.fraction)
    sizes = np.diff(_view(values.buffers()[1], np.int32)[values.offset : values.offset + len(values) + 1])
    if values.null_count:
        sizes[array_mask(values.is_null())] = 0
    joined = pc.binary_join(pa.ListArray.from_arrays(numbers_array(text_offsets(sizes.astype(np.int64))), texts), ",")
    return _ready(pc.binary_join_element_wise("[", joined, "]", ""))


def _structs(values: pa.Array, style: JsonStyle) -> _Bound:
    fields = zip(values.type, values.flatten(), strict=True)
    columns = [json_column(kid.name, kids, style=style.fields.get(kid.name, _PLAIN)) for kid, kids in fields]
    rows = JsonRows(columns, len(values))
    ends = np.cumsum(rows.sizes)
    data = empty_bytes(int(ends[-1]) if len(ends) else 0)
    rows.write(data, ends - rows.sizes)
    offsets = text_offsets(rows.sizes)
    return rows.sizes, json_kernels.write_plain, (data, offsets, False)


def _lists(values: pa.Array) -> _Bound:
    list_offsets = _view(values.buffers()[1], np.int32)[values.offset : values.offset + len(values) + 1]
    data, offsets = text_buffers(values.values, pa.string())
    sizes = np.empty(len(values), dtype=np.int64)
    json_kernels.list_sizes(list_offsets, data, offsets, sizes)
    return sizes, json_kernels.write_lists, (list_offsets, data, offsets)


def text_offsets(sizes: Int64s) -> Int32s:
    """Offsets of texts that lie one after the other."""
    offsets = np.zeros(len(sizes) + 1, dtype=np.int32)
    np.cumsum(sizes, out=offsets[1:], dtype=np.int64 if len(sizes) == 0 else np.int32)
    return offsets


def _numbers(values: pa.Array) -> Int64s:
    dtype = values.type.to_pandas_dtype()
    return _view(values.buffers()[1], dtype)[values.offset : values.offset + len(values)].astype(np.int64, copy=False)


def text_buffers(values: pa.Array, kind: pa.DataType) -> tuple[Bytes, Int32s]:
    """The bytes of texts, read as *kind* (`string` or `binary`), and where each begins and the last one ends."""
    if values.type != kind:
        values = values.cast(kind)
    _, offsets, data = values.buffers()
    if offsets is None or offsets.size == 0:
        return empty_bytes(0), np.zeros(1, dtype=np.int32)
    return _view(data, np.uint8), _view(offsets, np.int32)[values.offset : values.offset + len(values) + 1]


class _Exposed:
    """Lets NumPy see a read-only Arrow buffer without a copy and without that mark.

    The kernels only read it, but Numba would compile each of them a second time for read-only arrays.
    """

    def __init__(self, buffer: pa.Buffer) -> None:
        self.buffer = buffer
        self.__array_interface__ = {
            "data": (buffer.address, False),
            "shape": (buffer.size,),
            "typestr": "|u1",
            "version": 3,
        }


def _view(buffer: pa.Buffer | None, dtype: type[_Number]) -> NDArray[_Number]:
    if buffer is None or buffer.size == 0:
        return np.empty(0, dtype=dtype)
    if buffer.is_mutable:
        return np.frombuffer(buffer, dtype=dtype)
    return np.asarray(_Exposed(buffer)).view(dtype)
