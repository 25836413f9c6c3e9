"""Functions of texts: `TEXT_FUNCTIONS`, and those of anything with constants as arguments: `WITH_CONSTANTS`."""

from __future__ import annotations

import hashlib
import uuid
import zlib
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from binlog_connector.schema.effects.conversion import by_distinct, true_mask
from binlog_connector.schema.expressions.date_functions import formatted
from binlog_connector.schema.expressions.operands import (
    Kind,
    NotComputedError,
    Operand,
    beyond_ascii,
    in_one_charset,
    number,
    text,
    unknown_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_UTF8 = frozenset(["utf8mb4", "utf8mb3", "utf8", "ascii"])
_ONE_BYTE = frozenset(["latin1", "latin2", "latin5", "latin7", "cp1250", "cp1251", "cp1256", "cp1257"])
_CHARACTERS = 21
_CHECKSUM_DIGITS = 10
_UUID_SIZE = 16
_SHA2 = {"0": "sha256", "224": "sha224", "256": "sha256", "384": "sha384", "512": "sha512"}


def _texts(array: pa.Array, like: Operand) -> Operand:
    return Operand(Kind.TEXT, array, like.unknown, charset=like.charset)


def _of_texts(function: Callable[[pa.Array], pa.Array]) -> Callable[[Operand], Operand]:
    def call(one: Operand) -> Operand:
        operand = text(one)
        return _texts(function(operand.array.cast(pa.string())), operand)

    return call


def _of_ascii(function: Callable[[pa.Array], pa.Array]) -> Callable[[Operand], Operand]:
    """A function of texts; its results beyond ASCII depend on the collation."""

    def call(one: Operand) -> Operand:
        operand = _of_texts(function)(one)
        return operand.doubted(beyond_ascii(text(one).array))

    return call


def _concatenated(*operands: Operand) -> Operand:
    found = in_one_charset([text(operand) for operand in operands])
    arrays = [operand.array.cast(pa.string()) for operand in found]
    array = pc.binary_join_element_wise(*arrays, "", null_handling="emit_null")
    return Operand(Kind.TEXT, array, unknown_of(found), charset=found[0].charset)


def _joined(separator: Operand, *operands: Operand) -> Operand:
    found = in_one_charset([text(operand) for operand in (*operands, separator)])
    arrays = [operand.array.cast(pa.string()) for operand in found]
    if arrays[-1].null_count:
        raise NotComputedError("CONCAT_WS with NULL between texts")
    # PyArrow leaves out rows in which all texts are null.
    arrays[0] = pc.if_else(pc.is_null(pc.coalesce(*arrays[:-1])), "", arrays[0])
    array = pc.binary_join_element_wise(*arrays, null_handling="skip")
    return Operand(Kind.TEXT, array, unknown_of(found), charset=found[0].charset)


def _characters(one: Operand) -> Operand:
    operand = text(one)
    return number(pc.utf8_length(operand.array.cast(pa.string())), _CHARACTERS, unknown=operand.unknown)


def _bytes(one: Operand) -> Operand:
    operand = _encoded(one)
    return number(pc.binary_length(operand.array), _CHARACTERS, unknown=operand.unknown)


def _encoded(one: Operand) -> Operand:
    """Bytes, or the UTF-8 bytes of a text that are those of the server."""
    if one.kind is Kind.BYTES:
        return one
    operand = text(one)
    operand = replace(operand, array=operand.array.cast(pa.string()).cast(pa.binary()))
    if operand.charset in _UTF8 or operand.kind is Kind.NULL:
        return operand
    if operand.charset not in _ONE_BYTE:
        raise NotComputedError(f"bytes of texts in {operand.charset or 'an unknown character set'}")
    return operand.doubted(beyond_ascii(text(one).array))


def _digest(name: str) -> Callable[[Operand], Operand]:
    return _of_bytes(lambda value: hashlib.new(name, value).hexdigest())


def _of_bytes(function: Callable[[bytes], str]) -> Callable[[Operand], Operand]:
    """A function that gives a text of ASCII."""
    called = by_distinct(function, pa.string())  # type: ignore[arg-type] # all values are bytes

    def call(one: Operand) -> Operand:
        operand = _encoded(one)
        return Operand(Kind.TEXT, called(operand.array).array, operand.unknown, charset="ascii")

    return call


def _checksum(one: Operand) -> Operand:
    operand = _encoded(one)
    checked = by_distinct(zlib.crc32, pa.int64())  # type: ignore[arg-type]
    return number(checked(operand.array).array, _CHECKSUM_DIGITS, unknown=operand.unknown, unsigned=True)


def _hex(one: Operand) -> Operand:
    if one.kind is not Kind.NUMBER:
        return _of_bytes(lambda value: value.hex().upper())(one)
    if one.scale:
        raise NotComputedError("HEX of a number with a fraction")
    digits = by_distinct(lambda value: f"{int(str(value)) % (1 << 64):X}", pa.string())
    return Operand(Kind.TEXT, digits(one.array).array, one.unknown, charset="ascii")


def _uuid_text(one: Operand) -> Operand:
    operand = one.of_kind(Kind.BYTES)
    if pc.any(pc.not_equal(pc.binary_length(operand.array), _UUID_SIZE)).as_py():
        raise NotComputedError("BIN_TO_UUID of other sizes")
    return _of_bytes(lambda value: str(uuid.UUID(bytes=value)))(operand)


def _unhexed(one: Operand) -> Operand:
    operand = one.of_kind(Kind.TEXT)
    is_hex = true_mask(pc.match_substring_regex(operand.array, "^([0-9A-Fa-f]{2})*$").fill_null(True))
    if not is_hex.all():
        raise NotComputedError("UNHEX of other characters than digits")
    return Operand(
        Kind.BYTES,
        by_distinct(lambda value: bytes.fromhex(str(value)), pa.binary())(operand.array).array,
        operand.unknown,
    )


TEXT_FUNCTIONS: dict[str, Callable[..., Operand]] = {
    "CONCAT": _concatenated,
    "CONCAT_WS": _joined,
    **dict.fromkeys(["LOWER", "LCASE"], _of_ascii(pc.ascii_lower)),
    **dict.fromkeys(["UPPER", "UCASE"], _of_ascii(pc.ascii_upper)),
    "TRIM": _of_texts(lambda texts: pc.utf8_trim(texts, " ")),
    "LTRIM": _of_texts(lambda texts: pc.utf8_ltrim(texts, " ")),
    "RTRIM": _of_texts(lambda texts: pc.utf8_rtrim(texts, " ")),
    "REVERSE": _of_texts(pc.utf8_reverse),
    **dict.fromkeys(["CHAR_LENGTH", "CHARACTER_LENGTH"], _characters),
    **dict.fromkeys(["LENGTH", "OCTET_LENGTH"], _bytes),
    "MD5": _digest("md5"),
    **dict.fromkeys(["SHA", "SHA1"], _digest("sha1")),
    "UNHEX": _unhexed,
    "HEX": _hex,
    "CRC32": _checksum,
    "BIN_TO_UUID": _uuid_text,
}
"""By name, in upper case; each takes the operands of its expression."""


def _size(constant: str) -> int:
    if not constant.isdecimal() or int(constant) < 1:
        raise NotComputedError("a place or a number of characters that is not above 0")
    return int(constant)


def _left(one: Operand, size: str) -> Operand:
    return _of_texts(lambda texts: pc.utf8_slice_codeunits(texts, 0, _size(size)))(one)


def _right(one: Operand, size: str) -> Operand:
    return _of_texts(lambda texts: pc.utf8_slice_codeunits(texts, -_size(size)))(one)


def _part(one: Operand, first: str, size: str | None = None) -> Operand:
    start = _size(first) - 1
    stop = None if size is None else start + _size(size)
    return _of_texts(lambda texts: pc.utf8_slice_codeunits(texts, start, stop))(one)


def _filled(one: Operand, size: str, filler: str) -> Operand:
    if len(filler) != 1:
        raise NotComputedError("LPAD with more than one character")
    width = _size(size)
    return _of_texts(lambda texts: pc.utf8_slice_codeunits(pc.utf8_lpad(texts, width, filler), 0, width))(one)


def _replaced(one: Operand, old: str, new: str) -> Operand:
    if not old:
        return text(one)
    return _of_texts(lambda texts: pc.replace_substring(texts, old, new))(one)


def _split(one: Operand, separator: str, count: str) -> Operand:
    number_of_parts = int(count) if count.removeprefix("-").isdecimal() else 0
    if not separator or not number_of_parts:
        raise NotComputedError("SUBSTRING_INDEX without a separator or a count")

    def cut(value: object) -> object:
        parts = str(value).split(separator)
        return separator.join(parts[:number_of_parts] if number_of_parts > 0 else parts[number_of_parts:])

    return _of_texts(lambda texts: by_distinct(cut, pa.string())(texts).array)(one)


def _digest_of_size(one: Operand, size: str) -> Operand:
    if size not in _SHA2:
        raise NotComputedError(f"SHA2 of {size} bits")
    return _digest(_SHA2[size])(one)


def _rounded(one: Operand, size: str = "0") -> Operand:
    operand = one.of_kind(Kind.NUMBER)
    digits = min(int(size) if size.isdecimal() else -1, operand.scale)
    if digits < 0:
        raise NotComputedError("ROUND before the point")
    array = pc.round(operand.array, ndigits=digits, round_mode="half_towards_infinity")
    return number(array.cast(pa.decimal256(76, digits)), operand.digits, unknown=operand.unknown)


WITH_CONSTANTS: Mapping[str, Callable[..., Operand]] = {
    "DATE_FORMAT": formatted,
    "LEFT": _left,
    "RIGHT": _right,
    **dict.fromkeys(["SUBSTRING", "SUBSTR", "MID"], _part),
    "LPAD": _filled,
    "REPLACE": _replaced,
    "SUBSTRING_INDEX": _split,
    "SHA2": _digest_of_size,
    "ROUND": _rounded,
}
"""Functions whose first argument alone is computed; the others are constants, as texts."""
