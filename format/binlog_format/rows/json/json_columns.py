"""JSON columns of MySQL to Arrow, as the text that the server prints: `JSONS`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlog_format.kernels import empty_bytes
from binlog_format.rows.arrow_arrays import text_array, validity
from binlog_format.rows.column_types import (
    BadValueError,
    Family,
    check_gathered,
    check_text_size,
    gathered,
    size_prefix,
)
from binlog_format.rows.json import json_text_kernels as kernels
from binlog_format.rows.json.json_double_kernels import DIGITS_MAX, DOUBLE_TEXT_MAX, insert_doubles
from binlog_format.rows.values.text_kernels import TOO_LARGE, first_not_utf8, text_offsets

if TYPE_CHECKING:
    from binlog_format.events.table_map import Column
    from binlog_format.kernels import Bytes, Int32s, Int64s, Mask
    from binlog_format.rows.decoding import Decoding

_ASCII_MAX = 0x7F
_CHARACTER_SIZE_MAX = 4
_DOUBLE_SIZE = 8
_ROOM_MIN = 1 << 10
_TOO_LARGE = 1 << 31

_REASONS = {
    kernels.NOT_IN_DATA: "it is not in the data",
    kernels.BAD_DOCUMENT: "it is no JSON document: a part of it lies outside or on another one, or is no value",
    kernels.TOO_DEEP: "it is no JSON document: objects and arrays are nested too deep",
}


def _documents(column: Column, data: Bytes, offsets: Int32s, decoding: Decoding) -> pa.Array:
    valid = validity(offsets)
    texts, ends = document_texts(data, offsets, size_prefix(column))
    if texts.size and texts.max() > _ASCII_MAX:
        bad_index = first_not_utf8(ends, texts, _CHARACTER_SIZE_MAX)
        if bad_index >= 0:
            if not decoding.replace_invalid_text:
                raise BadValueError(bad_index, "its JSON text is not utf8mb4")
            return _replaced(texts, ends, valid)
    return text_array(pa.string(), ends, texts, valid)


def document_texts(data: Bytes, offsets: Int32s, prefix: int) -> tuple[Bytes, Int32s]:
    """The texts of documents, one after the other, and where each starts, and the end of the last.

    Args:
        data: What the offsets point into.
        offsets: Where the size before each document starts; below 0 for no value, which gets no text.
        prefix: Bytes of that size.
    """
    ends = np.empty(len(offsets) + 1, dtype=np.int32)
    bad_index = text_offsets(data, offsets, prefix, ends)
    check_text_size(_TOO_LARGE if bad_index == TOO_LARGE else 0)
    check_gathered(bad_index)
    size = int(ends[-1])
    # No part of a document is read twice: more doubles cannot be in them.
    doubles = np.empty((size // _DOUBLE_SIZE, kernels.DOUBLE_FIELDS), dtype=np.int64)
    stack = np.empty(kernels.STACK_SHAPE, dtype=np.int64)
    out = empty_bytes(2 * size + _ROOM_MIN)
    ends[0] = first = count = 0
    code = kernels.GROW
    while True:
        code, first, count = kernels.json_texts(data, offsets, prefix, first, out, ends, doubles, count, stack)
        if code != kernels.GROW:
            break
        grown = empty_bytes(2 * len(out))
        grown[: ends[first]] = out[: ends[first]]
        out = grown
    check_text_size(_TOO_LARGE if code == kernels.TOO_LARGE else 0)
    if code != kernels.OK:
        raise BadValueError(first, _REASONS[code])
    if count:
        return with_doubles(data, out, ends, doubles[:count])
    return out[: ends[-1]], ends


def with_doubles(data: Bytes, texts: Bytes, ends: Int32s, doubles: Int64s) -> tuple[Bytes, Int32s]:
    """Put the doubles that a kernel has noted (`json_texts`) into its texts; these, and where each starts and ends."""
    # Arrow finds the shortest digits that give the same number; the kernel puts them as the server does.
    values = gathered(data, doubles[:, kernels.DOUBLE_PLACE].astype(np.int32), np.float64)
    numbers = pc.cast(pa.array(values), pa.string())
    _, number_ends, number_texts = numbers.buffers()
    out = empty_bytes(int(ends[-1]) + len(doubles) * DOUBLE_TEXT_MAX)
    out_ends = np.empty(len(ends), dtype=np.int64)
    end = insert_doubles(
        texts,
        ends,
        doubles,
        np.frombuffer(number_texts, dtype=np.uint8).copy(),
        np.frombuffer(number_ends, dtype=np.int32).copy(),
        empty_bytes(DIGITS_MAX),
        out,
        out_ends,
    )
    check_text_size(end)
    return out[:end], out_ends.astype(np.int32)


def _replaced(texts: Bytes, ends: Int32s, valid: Mask) -> pa.Array:
    # Rare: texts that are damaged, and wanted all the same.
    whole = texts.tobytes()
    parts = [
        whole[start:end].decode("utf-8", "replace") if is_there else None
        for start, end, is_there in zip(ends[:-1], ends[1:], valid, strict=True)
    ]
    return pa.array(parts, pa.string())


JSONS = Family(lambda _layout, _index, _decoding: pa.string(), _documents)
