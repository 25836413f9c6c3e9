"""CHAR, VARCHAR, TEXT, BINARY, VARBINARY and BLOB to Arrow: `TEXTS`; `text_values` of any values with a size before.

MariaDB's COMPRESSED columns to Arrow: `COMPRESSED`.

A stored value is empty; or 0x00 and the plain bytes; or a byte 0x80 | 8 for raw deflate | count of length bytes, the
plain length in that many bytes, big-endian, and the data as zlib or raw deflate writes them (MariaDB `sql/field.cc`:
`Field_longstr::compress`, `Field_longstr::uncompress`).

ENUM and SET to Arrow: `ENUMS`, `SETS`.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from binlog_format.errors import UnsupportedError
from binlog_format.events.charsets import charset_tables, is_known
from binlog_format.events.table_map_layout import ColumnType
from binlog_format.kernels import as_bytes, empty_bytes
from binlog_format.messages import row_value
from binlog_format.rows.arrow_arrays import fixed_array, text_array, validity
from binlog_format.rows.column_types import (
    TEXT_SIZE_MAX,
    BadValueError,
    Family,
    UnsupportedValueError,
    check_gathered,
    check_text_size,
    column_name,
    gathered,
    no_metadata,
    size_prefix,
    unsupported,
)
from binlog_format.rows.values import text_kernels
from binlog_format.rows.values.charset_kernels import UTF8_GROWTH_MAX, write_characters, write_units
from binlog_format.rows.values.value_kernels import gather_set

if TYPE_CHECKING:
    from collections.abc import Iterable

    from binlog_format.events.table_map import Column, TableLayout
    from binlog_format.kernels import Bytes, Int32s, Mask
    from binlog_format.rows.decoding import Decoding

BINARY = "binary"
_UTF8_CHARACTER_SIZES = {"utf8": 4, "utf8mb3": 3, "utf8mb4": 4}
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
        offsets: Where the size before each value starts; below 0 for no value.
        prefix: Bytes of that size.
    """

    data: Bytes
    offsets: Int32s
    prefix: int


def text_type(layout: TableLayout, index: int, _decoding: Decoding) -> pa.DataType:
    """`string` or, for the character set `binary`, `binary`."""
    charset = layout.columns[index].charset
    if charset is None:
        # What declares the column leaves this to the table or the database, which may be older than the log; that of
        # CREATE TABLE ... LIKE a temporary table is in no log.
        is_declared = layout.columns[index].declared is not None
        of_database = f", which is that of the database {layout.database}: its definition is not known"
        why = f"{of_database}, or the table was made LIKE a temporary one" if is_declared else ""
        raise no_metadata(layout, index, f"its character set{why}")
    if charset == BINARY:
        return pa.binary()
    if is_known(charset):
        return pa.string()
    raise unsupported(layout, index)


def text_values(charset: str, values: RowValues, decoding: Decoding) -> pa.Array:
    """Texts, or binary strings, as they are in the data."""
    valid = validity(values.offsets)
    if charset in _UNITS:
        offsets, texts = _converted(charset, values, decoding)
        return text_array(pa.string(), offsets, texts, valid)
    offsets, texts = _copied(values)
    if charset == BINARY:
        return text_array(pa.binary(), offsets, texts, valid)
    utf8_size = _UTF8_CHARACTER_SIZES.get(charset)
    if utf8_size is None:
        if charset == "swe7" or not text_kernels.is_ascii(texts):
            offsets, texts = _converted(charset, values, decoding)
    elif not text_kernels.is_ascii(texts):
        bad_index = text_kernels.first_not_utf8(offsets, texts, utf8_size)
        if bad_index >= 0 and not decoding.replace_invalid_text:
            raise _not_text(charset, values, bad_index)
        if bad_index >= 0:
            return _replaced(offsets, texts, utf8_size, valid)
    return text_array(pa.string(), offsets, texts, valid)


def text_offsets(values: RowValues) -> Int32s:
    """Starts of the values, and the end of the last, when all are joined."""
    offsets = np.empty(len(values.offsets) + 1, dtype=np.int32)
    bad_index = text_kernels.text_offsets(values.data, values.offsets, values.prefix, offsets)
    check_text_size(_TOO_LARGE if bad_index == text_kernels.TOO_LARGE else 0)
    check_gathered(bad_index)
    return offsets


def _copied(values: RowValues) -> tuple[Int32s, Bytes]:
    offsets = text_offsets(values)
    texts = empty_bytes(int(offsets[-1]))
    check_gathered(text_kernels.copy_texts(values.data, values.offsets, values.prefix, offsets, texts))
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
    check_text_size(_TOO_LARGE if bad_index == text_kernels.TOO_LARGE else 0)
    if bad_index >= 0:
        raise _not_text(charset, values, bad_index)
    return out_offsets, out[: out_offsets[-1]]


def _replaced(offsets: Int32s, texts: Bytes, size_max: int, valid: Mask) -> pa.Array:
    # One by one, in Python: only for columns with damaged UTF-8.
    replaced = []
    for index, is_valid in enumerate(valid.tolist()):
        text = texts[offsets[index] : offsets[index + 1]].tobytes().decode("utf-8", "replace")
        if size_max < 4 and text and max(text) > _LAST_OF_THREE_BYTES:
            text = "".join(c if c <= _LAST_OF_THREE_BYTES else _REPLACEMENT for c in text)
        replaced.append(text if is_valid else None)
    return pa.array(replaced, pa.string())


def _not_text(charset: str, values: RowValues, index: int) -> UnsupportedValueError:
    start = int(values.offsets[index])
    size = int.from_bytes(values.data[start : start + values.prefix].tobytes(), "little")
    start += values.prefix
    shown = values.data[start : start + min(size, _SHOWN_BYTES)].tobytes().hex() + "..." * (size > _SHOWN_BYTES)
    # Servers store what is well formed, as codes of gbk and sjis that no character has.
    return UnsupportedValueError(
        "INVALID_TEXT",
        index,
        f"{size} bytes {row_value(shown)} are not {charset}",
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
    bad_index = text_kernels.copy_padded(values.data, values.offsets, values.prefix, width, out_offsets, out)
    if bad_index >= 0:
        raise BadValueError(bad_index, f"it is longer than {width} bytes")
    return text_array(pa.binary(), out_offsets, out, valid)


TEXTS = Family(text_type, _texts)


_METHOD_BITS = 0xF0
_ZLIB_METHOD = 0x80
_RAW_BIT = 0x08
_LENGTH_BITS = 0x07
_LENGTH_BYTES_MAX = 4
_PLAIN_PREFIX = 4

_PLAIN_SIZE_MAX = 1 << 30
"""Plain bytes of a column at once; a few bytes can claim to be many."""

_RATIO_MAX = 1032
"""Best compression ratio of deflate (zlib's technical notes)."""


def _compressed(column: Column, data: Bytes, offsets: Int32s, decoding: Decoding) -> pa.Array:
    assert column.charset is not None, "text_type has refused such columns"
    prefix = size_prefix(column)
    sizes = np.diff(text_offsets(RowValues(data, offsets, prefix)))  # checks that every value is in the data
    content = data.data
    plain_max = column.metadata - 1 if column.type is ColumnType.VARCHAR_COMPRESSED else (1 << 8 * prefix) - 1
    parts: list[bytes | memoryview] = []
    plain_offsets = np.full(len(offsets), -1, dtype=np.int32)
    total = 0
    for index, (offset, size) in enumerate(zip(offsets.tolist(), sizes.tolist(), strict=True)):
        if offset < 0:
            continue
        stored = content[offset + prefix : offset + prefix + size]
        total += _PLAIN_PREFIX + _plain_size(index, stored, plain_max)
        if total > _PLAIN_SIZE_MAX:
            raise UnsupportedError(
                "ROW_IMAGE",
                f"a COMPRESSED column with more than {_PLAIN_SIZE_MAX} plain bytes at once",
                hint="Read fewer events at once",
            )
        plain = _plain(index, stored)
        plain_offsets[index] = total - _PLAIN_PREFIX - len(plain)
        parts += [len(plain).to_bytes(_PLAIN_PREFIX, "little"), plain]
    return text_values(column.charset, RowValues(as_bytes(b"".join(parts)), plain_offsets, _PLAIN_PREFIX), decoding)


def _plain_size(index: int, stored: memoryview, plain_max: int) -> int:
    """Bytes of the plain value, checked against what can be."""
    if len(stored) == 0:
        return 0
    method = stored[0] & _METHOD_BITS
    length_size = stored[0] & _LENGTH_BITS
    if stored[0] == 0:
        return len(stored) - 1
    if method != _ZLIB_METHOD or not 0 < length_size <= _LENGTH_BYTES_MAX or len(stored) <= length_size:
        raise BadValueError(index, f"a compressed value does not begin with {stored[0]:#x}")
    size = int.from_bytes(stored[1 : 1 + length_size], "big")
    if size > min(plain_max, _RATIO_MAX * len(stored)):
        raise BadValueError(index, f"{len(stored)} bytes cannot be {size} bytes of plain text")
    return size


def _plain(index: int, stored: memoryview) -> bytes | memoryview:
    if len(stored) == 0 or stored[0] == 0:
        return stored[1:]
    size = int.from_bytes(stored[1 : 1 + (stored[0] & _LENGTH_BITS)], "big")
    inflating = zlib.decompressobj(-zlib.MAX_WBITS if stored[0] & _RAW_BIT else zlib.MAX_WBITS)
    try:
        plain = inflating.decompress(stored[1 + (stored[0] & _LENGTH_BITS) :], size + 1)
    except zlib.error as error:
        raise BadValueError(index, f"its compressed bytes are damaged: {error}") from error
    if len(plain) != size or not inflating.eof:
        raise BadValueError(index, f"its compressed bytes are not {size} plain bytes")
    return plain


COMPRESSED = Family(text_type, _compressed)


def _label_type(layout: TableLayout, index: int, _decoding: Decoding) -> pa.DataType:
    column = layout.columns[index]
    if column.enum_values is None and column.charset is not None:
        # The log has the labels, but not in a character set that is read.
        if not is_known(column.charset):
            raise unsupported(layout, index)
        raise UnsupportedError(
            "COLUMN_TYPE",
            f"{column_name(layout, index)}: the bytes of its labels are no text in {column.charset}, their character "
            "set: a server leaves them as they are when CONVERT TO gives the column another one",
            hint="State the labels again on the server (ALTER TABLE ... MODIFY)",
        )
    if column.enum_values is None and layout.has_names and not layout.completion:
        # Servers log labels wherever they log names.
        raise UnsupportedError(
            "COLUMN_TYPE",
            f"{column_name(layout, index)}: its labels are not ASCII, and the log does not tell their character set",
            hint="Give a schema file (option schemaFile); later versions of MySQL 8.0 log it",
        )
    return pa.string()


def _enums(column: Column, data: Bytes, offsets: Int32s, _decoding: Decoding) -> pa.Array:
    values = gathered(data, offsets, np.uint8 if column.metadata >> 8 == 1 else np.uint16).astype(np.int32)
    numbers = fixed_array(pa.int32(), values, validity(offsets))
    if column.enum_values is None:
        return numbers.cast(pa.string())
    labels = ("", *column.enum_values)  # 0 is the server's mark for a value that was refused
    too_large = np.flatnonzero(values >= len(labels))
    if len(too_large):
        index = int(too_large[0])
        raise BadValueError(index, f"number {row_value(str(values[index]))} of {len(labels) - 1} labels")
    sizes = np.array([len(label.encode()) for label in labels])
    if int(sizes.max()) * len(values) > TEXT_SIZE_MAX:
        # A label of a server has at most 255 characters; of others a byte of a row can become a gigabyte.
        check_text_size(int(sizes[values[validity(offsets)]].sum()))
    return pa.DictionaryArray.from_arrays(numbers, pa.array(labels, pa.string())).dictionary_decode()


def _sets(column: Column, data: Bytes, offsets: Int32s, _decoding: Decoding) -> pa.Array:
    masks = np.empty(len(offsets), dtype=np.uint64)
    check_gathered(gather_set(data, offsets, column.metadata >> 8, masks))
    valid = validity(offsets)
    if column.enum_values is None:
        return fixed_array(pa.uint64(), masks, valid).cast(pa.string())
    labels = [label.encode() for label in column.enum_values]
    label_offsets = np.cumsum([0, *map(len, labels)]).astype(np.int32)
    out_offsets = np.empty(len(offsets) + 1, dtype=np.int32)
    bad_index = text_kernels.set_offsets(masks, label_offsets, out_offsets)
    if bad_index >= 0:
        raise BadValueError(bad_index, f"bits {row_value(hex(int(masks[bad_index])))} of {len(labels)} labels")
    check_text_size(1 << 31 if bad_index == text_kernels.TOO_LARGE else 0)
    out = empty_bytes(int(out_offsets[-1]))
    text_kernels.write_sets(masks, label_offsets, as_bytes(b"".join(labels)), out)
    return text_array(pa.string(), out_offsets, out, valid)


def set_text(labels: Iterable[str]) -> str:
    """The text of a SET value: its labels, with commas, as `Field_set::val_str` of both servers writes it.

    A comma comes only after other text, so an empty label that is the first has none.
    """
    text = ""
    for label in labels:
        text += f",{label}" if text else label
    return text


ENUMS = Family(_label_type, _enums)
SETS = Family(_label_type, _sets)
