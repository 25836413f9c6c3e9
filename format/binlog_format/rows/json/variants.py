"""JSON texts as variants, and back: `variants_of`, `texts_of`; a value that is neither is a `VariantError`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from binlog_format.kernels import as_bytes, empty_bytes
from binlog_format.rows.arrow_arrays import text_array
from binlog_format.rows.column_types import check_text_size
from binlog_format.rows.json import json_text_kernels, variant_kernels, variant_string_kernels, variant_text_kernels
from binlog_format.rows.json.json_columns import with_doubles
from binlog_format.rows.json.variant_layout import JSON_FIELD, VARIANT
from binlog_format.rows.json.variant_number_kernels import LIMBS
from binlog_format.rows.values.text_kernels import first_not_utf8

if TYPE_CHECKING:
    from binlog_format.kernels import Bytes, Int32s, Int64s, Mask

_TEXT_REASONS = {
    variant_string_kernels.BAD_TEXT: "it is no JSON text",
    variant_string_kernels.HALF_PAIR: "it has one half of a pair (\\ud800 to \\udfff) without the other",
    variant_kernels.DUPLICATE_KEY: "it has an object with the same key twice",
    variant_kernels.TOO_DEEP: "its objects and arrays are nested more than 1000 deep",
    variant_kernels.TOO_LARGE: "it takes more than 16 MiB as a variant, which readers refuse",
}
_VARIANT_REASONS = {
    json_text_kernels.BAD_DOCUMENT: "it is no variant: a part of it lies outside or on another one",
    json_text_kernels.TOO_DEEP: "its objects and arrays are nested more than 1000 deep",
    variant_text_kernels.NO_JSON: "it has a value of a type that JSON does not have, as a date or bytes",
}
_ASCII_MAX = 0x7F
_CHARACTER_SIZE_MAX = 4
_GROWTH = 2
_DOUBLE_SIZE = 8


class VariantError(ValueError):
    """A value that cannot be converted. *row*: its row. *reason*: what is wrong with it; none of its content."""

    def __init__(self, row: int, reason: str) -> None:
        super().__init__(row, reason)
        self.row = row
        self.reason = reason


def is_variant(kind: pa.DataType) -> bool:
    """True if values are variants."""
    return bool(kind.equals(VARIANT))


def is_json(column: pa.Field) -> bool:
    """True if a column of text is known to be JSON (`arrow_schema`)."""
    return (column.metadata or {}).keys() >= JSON_FIELD.keys()


def variants_of(texts: pa.Array) -> pa.StructArray:
    """Variants of JSON texts, as Spark's `parse_json` makes them; null where there is none.

    Raises:
        VariantError: A text is no JSON, has a key twice, or is too large.
    """
    valid, offsets, data = _parts(texts.cast(pa.string()))
    sizes = np.diff(offsets)
    limbs = np.empty(LIMBS, dtype=np.int64)
    scratch = variant_kernels.encoding_scratch(int(sizes.max(initial=0)), limbs)
    doubles = np.empty((len(data) // len("1e1") + 1, variant_kernels.DOUBLE_FIELDS), dtype=np.int64)
    room = _GROWTH * len(data) + variant_kernels.ROOM_PER_BYTE * (int(sizes.max(initial=0)) + variant_kernels.ROOM_MIN)
    values, metadata = empty_bytes(room), empty_bytes(room)
    ends, metadata_ends = (np.zeros(len(valid) + 1, dtype=np.int32) for _ in range(2))
    first = 0
    while True:
        code, first, count = variant_kernels.encode_variants(
            data, offsets, valid, first, values, ends, metadata, metadata_ends, doubles, scratch
        )
        if code != variant_kernels.GROW:
            break
        values, metadata = _grown(values, ends[first]), _grown(metadata, metadata_ends[first])
    if code != variant_kernels.OK:
        raise VariantError(first, _TEXT_REASONS[code])
    if count:
        numbers = text_array(pa.string(), *_cut(data, doubles[:count]), None).cast(pa.float64())
        variant_kernels.put_doubles(values, doubles, count, as_bytes(numbers.to_numpy().astype("<f8").tobytes()))
    arrays = [text_array(pa.binary(), metadata_ends, metadata, None), text_array(pa.binary(), ends, values, None)]
    return pa.StructArray.from_arrays(arrays, fields=list(VARIANT), mask=pa.array(~valid))


def texts_of(variants: pa.StructArray) -> pa.StringArray:
    """JSON texts of variants, as MySQL prints them; of each `variants_of` makes an equal variant.

    Raises:
        VariantError: A variant has a value that JSON does not have, or is damaged.
    """
    valid = variants.is_valid().to_numpy(zero_copy_only=False)
    (_, metadata_offsets, metadata), (_, offsets, values) = (_parts(part) for part in variants.flatten())
    scratch = variant_text_kernels.text_scratch(int(np.diff(offsets).max(initial=0)))
    doubles = np.empty((len(values) // _DOUBLE_SIZE + 1, json_text_kernels.DOUBLE_FIELDS), dtype=np.int64)
    out = empty_bytes(_GROWTH * (len(values) + len(metadata)) + variant_kernels.ROOM_MIN)
    ends = np.zeros(len(valid) + 1, dtype=np.int32)
    first = count = 0
    while True:
        code, first, count = variant_text_kernels.write_variants(
            metadata, metadata_offsets, values, offsets, valid, first, out, ends, doubles, count, scratch
        )
        if code != json_text_kernels.GROW:
            break
        out = _grown(out, ends[first])
    if code != json_text_kernels.OK:
        raise VariantError(first, _VARIANT_REASONS[code])
    texts, ends = with_doubles(values, out, ends, doubles[:count]) if count else (out[: ends[-1]], ends)
    bad = first_not_utf8(ends, texts, _CHARACTER_SIZE_MAX) if texts.size and texts.max() > _ASCII_MAX else -1
    if bad >= 0:
        raise VariantError(bad, "it has a text that is not UTF-8")
    return text_array(pa.string(), ends, texts, valid)


def _parts(array: pa.Array) -> tuple[Mask, Int32s, Bytes]:
    # Which values are there, where each starts and the last ends, and their bytes, all of this array's own.
    valid: Mask = array.is_valid().to_numpy(zero_copy_only=False)
    _, offsets, data = array.buffers()
    places = np.frombuffer(offsets, dtype=np.int32)[array.offset : array.offset + len(array) + 1] if len(array) else [0]
    starts = np.array(places, dtype=np.int32)
    content = as_bytes(memoryview(data)[starts[0] : starts[-1]]) if data is not None else empty_bytes(0)
    return valid, starts - starts[0], content


def _grown(data: Bytes, used: int) -> Bytes:
    check_text_size(_GROWTH * len(data))
    grown = empty_bytes(_GROWTH * len(data))
    grown[:used] = data[:used]
    return grown


def _cut(data: Bytes, doubles: Int64s) -> tuple[Int32s, Bytes]:
    # The texts of doubles, one after the other: where each starts and the last ends, and their bytes.
    starts, ends = doubles[:, variant_kernels.DOUBLE_START], doubles[:, variant_kernels.DOUBLE_END]
    sizes = ends - starts
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    places = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], sizes)
    return offsets.astype(np.int32), data[places]
