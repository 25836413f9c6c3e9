"""CHAR, VARCHAR, TEXT, BINARY, VARBINARY and BLOB to Arrow: `TEXTS`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from binlog_format.events.charset_layout import LATIN1
from binlog_format.events.table_map_layout import ColumnType
from binlog_format.kernels import empty_bytes
from binlog_format.rows import text_kernels as kernels
from binlog_format.rows.arrow_arrays import text_array, validity
from binlog_format.rows.column_types import (
    BadValueError,
    Family,
    check_gathered,
    check_text_size,
    no_metadata,
    size_prefix,
    unsupported,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from binlog_format.events.table_map import Column, TableLayout
    from binlog_format.kernels import Bytes

    Int32s = NDArray[np.int32]

_TEXT_CHARSETS = frozenset({"ascii", "latin1", "utf8mb3", "utf8mb4"})
_BINARY = "binary"
_ASCII_MAX = 0x7F
_UTF8_CHARACTER_SIZES = {"utf8mb3": 3, "utf8mb4": 4}


def _latin1_tables() -> tuple[Bytes, Bytes]:
    # Size and bytes of each character in UTF-8; none needs more than three.
    sizes, characters = empty_bytes(256), np.zeros((256, 3), dtype=np.uint8)
    for byte, character in enumerate(LATIN1):
        encoded = character.encode()
        sizes[byte] = len(encoded)
        characters[byte, : len(encoded)] = list(encoded)
    return sizes, characters


_LATIN1_SIZES, _LATIN1_CHARACTERS = _latin1_tables()


def _text_type(layout: TableLayout, index: int) -> pa.DataType:
    charset = layout.columns[index].charset
    if charset is None:
        raise no_metadata(layout, index, "its character set")
    if charset == _BINARY:
        return pa.binary()
    if charset in _TEXT_CHARSETS:
        return pa.string()
    raise unsupported(layout, index)


def _texts(column: Column, data: Bytes, offsets: Int32s) -> pa.Array:
    if column.type is ColumnType.STRING and column.charset == _BINARY:
        return _padded(column, data, offsets)
    prefix = size_prefix(column)
    text_offsets = np.empty(len(offsets) + 1, dtype=np.int32)
    bad_index = kernels.text_offsets(data, offsets, prefix, text_offsets)
    check_text_size(_TOO_LARGE if bad_index == kernels.TOO_LARGE else 0)
    check_gathered(bad_index)
    texts = empty_bytes(int(text_offsets[-1]))
    check_gathered(kernels.copy_texts(data, offsets, prefix, text_offsets, texts))
    valid = validity(offsets)
    if column.charset == _BINARY:
        return text_array(pa.binary(), text_offsets, texts, valid)
    if texts.size and texts.max() > _ASCII_MAX:
        text_offsets, texts = _utf8(column, text_offsets, texts)
    return text_array(pa.string(), text_offsets, texts, valid)


_TOO_LARGE = 1 << 31


def _utf8(column: Column, text_offsets: Int32s, texts: Bytes) -> tuple[Int32s, Bytes]:
    # Texts that are not all ASCII, checked and in UTF-8.
    if column.charset == "latin1":
        return _from_latin1(text_offsets, texts)
    if column.charset == "ascii":
        bad_index = kernels.first_not_ascii(text_offsets, texts)
    else:
        bad_index = kernels.first_not_utf8(text_offsets, texts, _UTF8_CHARACTER_SIZES[column.charset or ""])
    if bad_index >= 0:
        start, end = text_offsets[bad_index], text_offsets[bad_index + 1]
        shown = texts[start : min(end, start + 64)].tobytes().hex()
        raise BadValueError(
            bad_index, f"{end - start} bytes {shown}{'...' if end - start > 64 else ''} are not {column.charset}"
        )
    return text_offsets, texts


def _from_latin1(text_offsets: Int32s, texts: Bytes) -> tuple[Int32s, Bytes]:
    out_offsets = np.empty_like(text_offsets)
    result = kernels.utf8_offsets(texts, text_offsets, _LATIN1_SIZES, out_offsets)
    check_text_size(_TOO_LARGE if result == kernels.TOO_LARGE else 0)
    out = empty_bytes(int(out_offsets[-1]))
    kernels.write_utf8(texts, texts.size, _LATIN1_SIZES, _LATIN1_CHARACTERS, out)
    return out_offsets, out


def _padded(column: Column, data: Bytes, offsets: Int32s) -> pa.Array:
    # BINARY(n): the log leaves zeros at the end out.
    width, valid = column.size_max, validity(offsets)
    size = width * int(np.count_nonzero(valid))
    check_text_size(size)
    out = np.zeros(size, dtype=np.uint8)
    out_offsets = np.empty(len(offsets) + 1, dtype=np.int32)
    bad_index = kernels.copy_padded(data, offsets, size_prefix(column), width, out_offsets, out)
    if bad_index >= 0:
        raise BadValueError(bad_index, f"it is longer than {width} bytes")
    return text_array(pa.binary(), out_offsets, out, valid)


TEXTS = Family(_text_type, _texts)
