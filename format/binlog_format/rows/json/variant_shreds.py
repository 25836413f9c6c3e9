"""Shredded variants, parts of which have columns of their own: `whole_of` joins these parts.

By Parquet's "Variant Shredding" (apache/parquet-format, VariantShredding.md). A value that was whole keeps its bytes.
"""

from __future__ import annotations

import itertools
from decimal import Context, Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlog_format.rows.json.variant_layout import (
    BASIC_BITS,
    DECIMAL_DIGITS_MAX,
    SHORT_STRING_MAX,
    SMALL_COUNT_MAX,
    VARIANT,
    BasicType,
    PrimitiveType,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Value = bytes | None

TYPED = "typed_value"
_NULL = bytes([PrimitiveType.NULL << BASIC_BITS])
_OFFSET_BITS, _ID_BITS, _LARGE_OBJECT_BIT, _LARGE_ARRAY_BIT = 2, 4, 6, 4
_BASIC_MASK, _SIZE_MASK, _METADATA_SIZE_BIT = 3, 3, 6
_LARGE_COUNT_BYTES = 4
_LAYOUTS = {
    pa.int8(): (PrimitiveType.INT8, "<i1"),
    pa.int16(): (PrimitiveType.INT16, "<i2"),
    pa.int32(): (PrimitiveType.INT32, "<i4"),
    pa.int64(): (PrimitiveType.INT64, "<i8"),
    pa.float32(): (PrimitiveType.FLOAT, "<f4"),
    pa.float64(): (PrimitiveType.DOUBLE, "<f8"),
    pa.date32(): (PrimitiveType.DATE, "<i4"),
    pa.timestamp("us", "UTC"): (PrimitiveType.TIMESTAMP, "<i8"),
    pa.timestamp("us"): (PrimitiveType.TIMESTAMP_NTZ, "<i8"),
    pa.time64("us"): (PrimitiveType.TIME_NTZ, "<i8"),
    pa.timestamp("ns", "UTC"): (PrimitiveType.TIMESTAMP_NS, "<i8"),
    pa.timestamp("ns"): (PrimitiveType.TIMESTAMP_NTZ_NS, "<i8"),
}
"""Types of numbers, dates and times, and how they are laid out."""

_DECIMALS = (
    (9, PrimitiveType.DECIMAL4, 4),
    (18, PrimitiveType.DECIMAL8, 8),
    (DECIMAL_DIGITS_MAX, PrimitiveType.DECIMAL16, 16),
)
"""Digits that fit, type, and bytes of the whole number."""

_EXACT = Context(prec=2 * DECIMAL_DIGITS_MAX)
_METADATA_CACHED = 4096


class ShredError(ValueError):
    """Parts of a variant do not belong together, or have a type that no variant has."""


def is_shredded(kind: pa.DataType) -> bool:
    """True if *kind*, of a file's column, is that of variants of which parts have columns of their own."""
    return bool(pa.types.is_struct(kind)) and any(field.name == TYPED for field in kind)


def whole_of(array: pa.StructArray) -> pa.StructArray:
    """Variants in one piece. Raises `ShredError`: the parts of one do not belong together."""
    valid = array.is_valid()
    metadata = _parts(array)["metadata"].fill_null(b"").cast(pa.binary())
    dictionaries = metadata.to_pylist()
    values = [_NULL if value is None else value for value in _values(array, dictionaries)]
    return pa.StructArray.from_arrays(
        [metadata, pa.array(values, pa.binary())], fields=list(VARIANT), mask=pc.invert(valid)
    )


def _values(array: pa.StructArray, dictionaries: Sequence[bytes]) -> list[Value]:
    # The value of each row, of its untyped and its typed part; None: it has neither, as where an object lacks a key.
    parts = _parts(array)
    untyped = parts["value"].to_pylist() if "value" in parts else [None] * len(array)
    if TYPED not in parts:
        return untyped
    typed = parts[TYPED]
    if pa.types.is_struct(typed.type):
        return _objects(typed, untyped, dictionaries)
    found = _lists(typed, dictionaries) if _is_list(typed.type) else _primitives(typed)
    for value, other in zip(found, untyped, strict=True):
        if value is not None and other is not None:
            raise ShredError("a value that is no object has two parts")
    return [value if other is None else other for value, other in zip(found, untyped, strict=True)]


def _parts(array: pa.StructArray) -> dict[str, pa.Array]:
    # Null where the whole is.
    return dict(zip((field.name for field in array.type), array.flatten(), strict=True))


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _objects(typed: pa.StructArray, untyped: Sequence[Value], dictionaries: Sequence[bytes]) -> list[Value]:
    columns = {name.encode(): _values(part, dictionaries) for name, part in _parts(typed).items()}
    found: list[Value] = []
    for row, (is_object, other) in enumerate(zip(typed.is_valid().to_pylist(), untyped, strict=True)):
        if not is_object:
            found.append(other)
            continue
        dictionary = dictionaries[row]
        own = [(name, value) for name, column in columns.items() if (value := column[row]) is not None]
        if other is not None:
            own += _members(other, dictionary)
        found.append(_object(own, dictionary))
    return found


def _lists(typed: pa.Array, dictionaries: Sequence[bytes]) -> list[Value]:
    counts = pc.list_value_length(typed).fill_null(0).to_pylist()
    owners = [dictionary for dictionary, count in zip(dictionaries, counts, strict=True) for _ in range(count)]
    elements = iter(_values(typed.flatten(), owners))
    found: list[Value] = []
    for count in pc.list_value_length(typed).to_pylist():
        if count is None:
            found.append(None)
            continue
        values = [_NULL if value is None else value for value in itertools.islice(elements, count)]
        found.append(_container(BasicType.ARRAY, b"", values, _LARGE_ARRAY_BIT))
    return found


def _object(members: list[tuple[bytes, bytes]], dictionary: bytes) -> bytes:
    numbers = _numbers(dictionary)
    members.sort()
    if any(key == after for (key, _), (after, _) in itertools.pairwise(members)):
        raise ShredError("an object has a key twice")
    try:
        ids = [numbers[name] for name, _ in members]
    except KeyError:
        raise ShredError("an object has a key that its dictionary lacks") from None
    size = _size(max(ids, default=0))
    names = b"".join(number.to_bytes(size, "little") for number in ids)
    return _container(BasicType.OBJECT, names, [value for _, value in members], _LARGE_OBJECT_BIT, size)


def _container(kind: BasicType, names: bytes, values: Sequence[bytes], large_bit: int, id_size: int = 1) -> bytes:
    offsets = list(itertools.accumulate(map(len, values), initial=0))
    size, is_large = _size(offsets[-1]), len(values) > SMALL_COUNT_MAX
    header = kind | (size - 1) << _OFFSET_BITS | (id_size - 1) << _ID_BITS | is_large << large_bit
    count = len(values).to_bytes(_LARGE_COUNT_BYTES if is_large else 1, "little")
    return b"".join([bytes([header]), count, names, *(offset.to_bytes(size, "little") for offset in offsets), *values])


def _members(value: bytes, dictionary: bytes) -> Iterator[tuple[bytes, bytes]]:
    # Keys and values of an object.
    if not value or value[0] & _BASIC_MASK != BasicType.OBJECT:
        raise ShredError("a value that is no object has two parts")
    size = (value[0] >> _OFFSET_BITS & _SIZE_MASK) + 1
    id_size = (value[0] >> _ID_BITS & _SIZE_MASK) + 1
    count_size = _LARGE_COUNT_BYTES if value[0] >> _LARGE_OBJECT_BIT & 1 else 1
    count = int.from_bytes(value[1 : 1 + count_size], "little")
    first = 1 + count_size
    ids = _integers(value, first, count, id_size)
    offsets = _integers(value, first + count * id_size, count + 1, size)
    data = first + count * id_size + (count + 1) * size
    # Values may be in another order than keys.
    ends = dict(itertools.pairwise(sorted(offsets)))
    names = list(_numbers(dictionary))
    if len(value) < data + offsets[-1] or max(ids, default=-1) >= len(names):
        raise ShredError("an object has values outside of it")
    for number, start in zip(ids, offsets, strict=False):
        yield names[number], value[data + start : data + ends[start]]


@lru_cache(_METADATA_CACHED)
def _numbers(dictionary: bytes) -> dict[bytes, int]:
    # Keys of a dictionary, in its order, and their numbers.
    if not dictionary:
        raise ShredError("a value has no dictionary")
    size = (dictionary[0] >> _METADATA_SIZE_BIT) + 1
    count = int.from_bytes(dictionary[1 : 1 + size], "little")
    offsets = _integers(dictionary, 1 + size, count + 1, size)
    texts = dictionary[1 + size + (count + 1) * size :]
    return {texts[low:high]: number for number, (low, high) in enumerate(itertools.pairwise(offsets))}


def _integers(data: bytes, first: int, count: int, size: int) -> list[int]:
    end = first + count * size
    if len(data) < end:
        raise ShredError("an object has values outside of it")
    return [int.from_bytes(data[place : place + size], "little") for place in range(first, end, size)]


def _size(largest: int) -> int:
    return max((largest.bit_length() + 7) // 8, 1)


def _primitives(array: pa.Array) -> list[Value]:
    if isinstance(array.type, pa.UuidType):
        return [value and bytes([PrimitiveType.UUID << BASIC_BITS]) + value for value in array.storage.to_pylist()]
    if (layout := _LAYOUTS.get(array.type)) is not None:
        return _numbered(array, *layout)
    encode = _encoder(array.type)
    return [None if value is None else encode(value) for value in array.to_pylist()]


def _numbered(array: pa.Array, kind: int, layout: str) -> list[Value]:
    # Times and dates as the whole numbers that files have.
    whole = {"<i4": pa.int32(), "<i8": pa.int64()}.get(layout, array.type)
    data = array.cast(whole).fill_null(0).to_numpy(zero_copy_only=False).astype(layout).tobytes()
    header, size = bytes([kind << BASIC_BITS]), np.dtype(layout).itemsize
    there = enumerate(array.is_valid().to_pylist())
    return [header + data[row * size : (row + 1) * size] if is_there else None for row, is_there in there]


def _encoder(kind: pa.DataType) -> Callable[[Any], bytes]:
    if pa.types.is_boolean(kind):
        return lambda value: bytes([(PrimitiveType.TRUE if value else PrimitiveType.FALSE) << BASIC_BITS])
    if pa.types.is_decimal(kind):
        return _decimal_encoder(kind)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return lambda value: _text(value.encode())
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return lambda value: _sized(PrimitiveType.BINARY, value)
    raise ShredError(f"a part has the type {kind}, which variants do not have")


def _decimal_encoder(kind: pa.DataType) -> Callable[[Any], bytes]:
    header, size = next((number << BASIC_BITS, size) for digits, number, size in _DECIMALS if kind.precision <= digits)
    scale = kind.scale

    def encode(value: Decimal) -> bytes:
        unscaled = int(value.scaleb(scale, _EXACT))
        return bytes([header, scale]) + unscaled.to_bytes(size, "little", signed=True)

    return encode


def _text(value: bytes) -> bytes:
    if len(value) <= SHORT_STRING_MAX:
        return bytes([len(value) << BASIC_BITS | BasicType.SHORT_STRING]) + value
    return _sized(PrimitiveType.STRING, value)


def _sized(kind: int, value: bytes) -> bytes:
    return bytes([kind << BASIC_BITS]) + len(value).to_bytes(4, "little") + value
