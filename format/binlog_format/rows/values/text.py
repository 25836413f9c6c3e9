"""CHAR, VARCHAR, TEXT, BINARY, VARBINARY and BLOB to Arrow: `TEXTS`; `text_values` of any values with a size before."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from binlog_format.events.charsets import charset_tables, is_known
from binlog_format.events.table_map_layout import ColumnType
from binlog_format.kernels import empty_bytes
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
from binlog_format.rows.values import text_kernels as kernels
from binlog_format.rows.values.charset_kernels import UTF8_GROWTH_MAX, write_characters, write_units

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from binlog_format.events.table_map import Column, TableLayout
    from binlog_format.kernels import Bytes
    from binlog_format.rows.decoding import Decoding

    Int32s = NDArray[np.int32]

BINARY = "binary"
_UTF8_CHARACTER_SIZES = {"utf8mb3": 3, "utf8mb4": 4}
_LAST_OF_THREE_BYTES = "\uffff"
_REPLACEMENT = "\ufffd"
_TOO_LARGE = 1 << 31
_SHOWN_BYTES = 64


class _Units(NamedTuple):
    # Bytes of a unit; whether they are big-endian; whether two units can be one character.
    width: int
    big: bool
    pairs: bool


_UNITS = {
    "ucs2": _Units(2, True, False),
    "utf16": _Units(2, True, True),
    "utf16le": _Units(2, False, True),
    "utf32": _Units(4, True, False),
}


class RowValues(NamedTuple):
    """Places of a column's values.

    Attributes:
        data: The bytes.
        offsets: Where the size before each value starts; below 0 for no value.
        prefix: Bytes of that size.
    """

    data: Bytes
    offsets: Int32s
    prefix: int


def text_type(layout: TableLayout, index: int, _decoding: Decoding) -> pa.DataType:
    """`string` or, for the character set `binary`, `binary`.

    Raises:
        SchemaError: `NO_COLUMN_METADATA`: the log does not state which character set.
        UnsupportedError: `COLUMN_TYPE`: a character set that is not known.
    """
    charset = layout.columns[index].charset
    if charset is None:
        # What declares the column leaves this to the database: it may be older than the log.
        is_declared = layout.columns[index].declared is not None
        why = f", which is that of the database {layout.database}: its definition is not known" if is_declared else ""
        raise no_metadata(layout, index, f"its character set{why}")
    if charset == BINARY:
        return pa.binary()
    if is_known(charset):
        return pa.string()
    raise unsupported(layout, index)


def text_values(charset: str, values: RowValues, decoding: Decoding) -> pa.Array:
    """Texts, or binary strings, as they are in the data.

    Raises:
        BadValueError: Bytes invalid in *charset*, unless *decoding* replaces them.
    """
    valid = validity(values.offsets)
    if charset in _UNITS:
        offsets, texts = _converted(charset, values, decoding)
        return text_array(pa.string(), offsets, texts, valid)
    offsets, texts = _copied(values)
    if charset == BINARY:
        return text_array(pa.binary(), offsets, texts, valid)
    utf8_size = _UTF8_CHARACTER_SIZES.get(charset)
    if utf8_size is None:
        if charset == "swe7" or not kernels.is_ascii(texts):
            offsets, texts = _converted(charset, values, decoding)
    elif not kernels.is_ascii(texts):
        bad_index = kernels.first_not_utf8(offsets, texts, utf8_size)
        if bad_index >= 0 and not decoding.replace_invalid_text:
            raise _not_text(charset, values, bad_index)
        if bad_index >= 0:
            return _replaced(offsets, texts, utf8_size, valid)
    return text_array(pa.string(), offsets, texts, valid)


def text_offsets(values: RowValues) -> Int32s:
    """Starts of the values, and the end of the last, when all are joined."""
    offsets = np.empty(len(values.offsets) + 1, dtype=np.int32)
    bad_index = kernels.text_offsets(values.data, values.offsets, values.prefix, offsets)
    check_text_size(_TOO_LARGE if bad_index == kernels.TOO_LARGE else 0)
    check_gathered(bad_index)
    return offsets


def _copied(values: RowValues) -> tuple[Int32s, Bytes]:
    offsets = text_offsets(values)
    texts = empty_bytes(int(offsets[-1]))
    check_gathered(kernels.copy_texts(values.data, values.offsets, values.prefix, offsets, texts))
    return offsets, texts


def _converted(charset: str, values: RowValues, decoding: Decoding) -> tuple[Int32s, Bytes]:
    # In UTF-8. The buffer is larger than needed, but nobody touches what is not.
    out = empty_bytes(UTF8_GROWTH_MAX * int(text_offsets(values)[-1]))
    out_offsets = np.empty(len(values.offsets) + 1, dtype=np.int32)
    replace = decoding.replace_invalid_text
    units = _UNITS.get(charset)
    if units is not None:
        bad_index = write_units(values.data, values.offsets, values.prefix, *units, replace, out_offsets, out)
    else:
        bad_index = write_characters(
            values.data, values.offsets, values.prefix, *charset_tables(charset), replace, out_offsets, out
        )
    check_text_size(_TOO_LARGE if bad_index == kernels.TOO_LARGE else 0)
    if bad_index >= 0:
        raise _not_text(charset, values, bad_index)
    return out_offsets, out[: out_offsets[-1]]


def _replaced(offsets: Int32s, texts: Bytes, size_max: int, valid: NDArray[np.bool_]) -> pa.Array:
    # One by one, in Python: only for columns with damaged UTF-8.
    replaced = []
    for index, is_valid in enumerate(valid.tolist()):
        text = texts[offsets[index] : offsets[index + 1]].tobytes().decode("utf-8", "replace")
        if size_max < 4 and text and max(text) > _LAST_OF_THREE_BYTES:
            text = "".join(c if c <= _LAST_OF_THREE_BYTES else _REPLACEMENT for c in text)
        replaced.append(text if is_valid else None)
    return pa.array(replaced, pa.string())


def _not_text(charset: str, values: RowValues, index: int) -> BadValueError:
    start = int(values.offsets[index])
    size = int.from_bytes(values.data[start : start + values.prefix].tobytes(), "little")
    start += values.prefix
    shown = values.data[start : start + min(size, _SHOWN_BYTES)].tobytes().hex()
    return BadValueError(
        index,
        f"{size} bytes {shown}{'...' if size > _SHOWN_BYTES else ''} are not {charset}",
        hint="With option replaceInvalidText=true they become U+FFFD",
    )


def _texts(column: Column, data: Bytes, offsets: Int32s, decoding: Decoding) -> pa.Array:
    assert column.charset is not None, "text_type has refused such columns"
    values = RowValues(data, offsets, size_prefix(column))
    if column.type is ColumnType.STRING and column.charset == BINARY:
        return _padded(column.size_max, values)
    return text_values(column.charset, values, decoding)


def _padded(width: int, values: RowValues) -> pa.Array:
    # BINARY(n): the log leaves zeros at the end out.
    valid = validity(values.offsets)
    size = width * int(np.count_nonzero(valid))
    check_text_size(size)
    out = np.zeros(size, dtype=np.uint8)
    out_offsets = np.empty(len(valid) + 1, dtype=np.int32)
    bad_index = kernels.copy_padded(values.data, values.offsets, values.prefix, width, out_offsets, out)
    if bad_index >= 0:
        raise BadValueError(bad_index, f"it is longer than {width} bytes")
    return text_array(pa.binary(), out_offsets, out, valid)


TEXTS = Family(text_type, _texts)
