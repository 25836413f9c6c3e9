"""Conversions of texts and binary strings: `text_effect(old, new, circumstances)`.

Sources: MariaDB sql/field_conv.cc and MySQL sql/field_conv.cc (`Field::store` of strings: `well_formed_copy`); the
manuals on CHAR and VARCHAR ("trailing spaces are removed", "are truncated silently"), BINARY ("padded with 0x00").
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from binlog_connector.schema.effects.conversion import (
    SAME,
    UNKNOWN,
    Conversion,
    Converted,
    Unknown,
    Values,
    by_distinct,
    plain,
    true_mask,
    where_known,
)
from binlog_connector.schema.parsing.session import BINARY, UTF8MB4
from binlog_format.vendor import Vendor

if TYPE_CHECKING:
    from collections.abc import Callable

    from binlog_connector.schema.effects.conversion import Circumstances, ColumnSide, Effect

TEXT_TYPES: Final = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext"})
BINARY_TYPES: Final = frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"})
_BYTES_MAX: Final = {"tiny": (1 << 8) - 1, "": (1 << 16) - 1, "medium": (1 << 24) - 1, "long": (1 << 32) - 1}
_WHOLE_UNICODE: Final = frozenset({UTF8MB4, "utf16", "utf16le", "utf32", "gb18030"})
_MAY_BE_WHOLE: Final = _WHOLE_UNICODE | {"utf8"}
FIRST_PLANE: Final = frozenset({"utf8", "utf8mb3", "ucs2"})
_UTF8: Final = frozenset({"utf8", "utf8mb3", UTF8MB4})
_ONE_BYTE_ASCII: Final = frozenset({*_UTF8, "latin1", "latin2", "latin5", "latin7", "ascii", "cp1250", "cp1251"})


def text_effect(old: ColumnSide, new: ColumnSide, how: Circumstances) -> Effect:
    """Effect on texts whose column gets another kind of text, or another character set."""
    steps = lost_characters(old, new, how)
    what = []
    if steps:
        what.append(f"characters that {new.definition.charset or 'the new character set'} lacks are lost")
    if _may_be_too_long(old, new):
        steps.append(cut_text(new))
        what.append("what is too long is cut off")
    if new.type_name == "char" and (old.type_name != "char" or _may_be_too_long(old, new)):
        steps.append(plain(lambda texts: pc.utf8_rtrim(texts, " ")))
        what.append("spaces at the end are removed")
    return Converted(in_turn(steps), ", ".join(what)) if steps else SAME


def lost_characters(old: ColumnSide, new: ColumnSide, how: Circumstances) -> list[Conversion]:
    """Conversions of characters that the new character set lacks; empty: it has all."""
    return [_LOSSES.get(new.definition.charset or "", only_ascii)] if _may_lose_characters(old, new, how) else []


def in_turn(steps: list[Conversion]) -> Conversion:
    """Conversions, one after the other."""

    def convert(values: pa.Array) -> Values:
        result = Values(values)
        for step in steps:
            result = result.then(step)
        return result

    return convert


def put_into_text(new: ColumnSide, _how: Circumstances) -> Conversion:
    """Texts of ASCII characters, of something that was no text, as a column of text holds them."""
    if new.type_name == "char":
        return in_turn([cut_text(new), plain(lambda texts: pc.utf8_rtrim(texts, " "))])
    return cut_text(new)


def _may_lose_characters(old: ColumnSide, new: ColumnSide, how: Circumstances) -> bool:
    before, after = old.definition.charset, new.definition.charset
    if how.strict or before == after is not None or after in _WHOLE_UNICODE:
        return False  # a strict session refuses what would be lost
    return not (after in FIRST_PLANE and before is not None and before not in _MAY_BE_WHOLE)


def only_ascii(texts: pa.Array) -> Values:
    """Texts, of which those with other characters than those of ASCII are unknown."""
    other = true_mask(pc.invert(pc.string_is_ascii(texts)))
    return where_known(texts, other)


_BEYOND_FIRST_PLANE = "[\\x{10000}-\\x{10FFFF}]"


def _replace_above(texts: pa.Array) -> Values:
    """Characters beyond the first plane of Unicode become a question mark."""
    return Values(pc.replace_substring_regex(texts, _BEYOND_FIRST_PLANE, "?"))


def only_first_plane(texts: pa.Array) -> Values:
    """Texts, of which those with characters beyond the first plane of Unicode are unknown."""
    return where_known(texts, true_mask(pc.match_substring_regex(texts, _BEYOND_FIRST_PLANE)))


def _replace_foreign(value: object) -> object:
    """Replace characters that latin1 (cp1252) lacks by a question mark; 0x80 to 0x9F give an unknown value."""
    text = str(value)
    return UNKNOWN if _CONTROLS.search(text) else text.encode("cp1252", "replace").decode("cp1252")


_CONTROLS = re.compile("[\x80-\x9f]")
_LOSSES: Final[dict[str, Conversion]] = {
    "utf8": only_first_plane,
    "utf8mb3": _replace_above,
    "latin1": by_distinct(_replace_foreign, pa.string()),
}
"""Conversion in sessions that are not strict, by character set, of texts that may have other characters."""


def _may_be_too_long(old: ColumnSide, new: ColumnSide) -> bool:
    size = _characters_max(new)
    if size is None:
        # In bytes: a text that comes from a shorter one in an equal character set fits.
        return not (
            _bytes_max(old) is not None
            and old.definition.charset == new.definition.charset
            and (_bytes_max(old) or 0) <= (_bytes_max(new) or 0)
        )
    before = _characters_max(old)
    return before is None or before > size


def _characters_max(side: ColumnSide) -> int | None:
    if side.type_name in ("char", "varchar"):
        return side.numbers[0] if side.numbers else 1
    return None


def _bytes_max(side: ColumnSide) -> int | None:
    """Most bytes of a TEXT or a BLOB; for a VARCHAR four bytes per character."""
    for suffix in ("text", "blob"):
        if side.type_name.endswith(suffix):
            return _BYTES_MAX[side.type_name.removesuffix(suffix)]
    size = _characters_max(side)
    return None if size is None else 4 * size


def cut_text(new: ColumnSide) -> Conversion:
    """Texts as long as *new* lets them be; a strict session cuts off nothing but spaces."""
    size = _characters_max(new)
    if size is not None:
        return plain(lambda texts: pc.utf8_slice_codeunits(texts, 0, size))
    limit = _bytes_max(new)
    assert limit is not None

    def convert(texts: pa.Array) -> Values:
        # A character has four bytes at most in any set; what may be longer was cut at a byte that is not known here.
        return where_known(texts, true_mask(pc.greater(pc.multiply(pc.utf8_length(texts), 4), limit)))

    def by_bytes(texts: pa.Array) -> Values:
        return where_known(texts, true_mask(pc.greater(pc.binary_length(texts), limit)))

    return by_bytes if new.definition.charset in _ONE_BYTE_ASCII else convert


def binary_effect(old: ColumnSide, new: ColumnSide, how: Circumstances) -> Effect:
    """Effect on binary strings whose column becomes another kind of these."""
    size, is_padded = _size(new), new.type_name == "binary"
    if not is_padded and (size is None or (_size(old) or size + 1) <= size):
        return SAME
    if is_padded and old.type_name == "binary" and _size(old) == size:
        return SAME
    return Converted(
        _fitted_bytes(size, is_padded=is_padded, how=how), "binary strings are filled up with 0x00, or cut"
    )


def _size(side: ColumnSide) -> int | None:
    if side.type_name in ("binary", "varbinary"):
        return side.numbers[0] if side.numbers else 1
    return None if side.type_name == "longblob" else _BYTES_MAX.get(side.type_name.removesuffix("blob"))


def _fitted_bytes(size: int | None, *, is_padded: bool, how: Circumstances) -> Conversion:
    def convert(values: pa.Array) -> Values:
        if size is None:
            return Values(values)
        beyond = true_mask(pc.greater(pc.binary_length(values), size))
        if how.strict:
            found = where_known(values, beyond)
            values, unknown = found.array, found.unknown
        else:
            values, unknown = pc.binary_slice(values, 0, size) if beyond.any() else values, None
        return Values(_padded(values, size) if is_padded else values, unknown)

    return convert


def _padded(values: pa.Array, size: int) -> pa.Array:
    zeros = pa.scalar(b"\0" * size, pa.binary())
    return pc.binary_slice(pc.binary_join_element_wise(values, zeros, pa.scalar(b"", pa.binary())), 0, size)


def bytes_of_text_effect(old: ColumnSide, new: ColumnSide, how: Circumstances) -> Effect:
    """Effect on texts whose column becomes a binary string."""
    charset = old.definition.charset
    if charset in _UTF8:
        first: Conversion = plain(lambda texts: texts.cast(pa.binary()))
    elif charset in _BYTES_OF:
        first = by_distinct(_BYTES_OF[charset], pa.binary())
    else:
        first = _ascii_bytes if charset in _ONE_BYTE_ASCII else _no_bytes
    size = _size(new)
    steps = [first, _fitted_bytes(size, is_padded=new.type_name == "binary", how=how)]
    return Converted(in_turn(steps), "texts become their bytes")


def _latin_bytes(value: object) -> object:
    text = str(value)
    return UNKNOWN if _CONTROLS.search(text) else text.encode("cp1252")


_BYTES_OF: Final[dict[str, Callable[[object], object]]] = {
    "latin1": _latin_bytes,
    "utf16": lambda value: str(value).encode("utf-16-be"),
    "ucs2": lambda value: str(value).encode("utf-16-be"),
    "utf32": lambda value: str(value).encode("utf-32-be"),
    "utf16le": lambda value: str(value).encode("utf-16-le"),
}


def _ascii_bytes(texts: pa.Array) -> Values:
    found = only_ascii(texts)
    return Values(found.array.cast(pa.binary()), found.unknown)


def _no_bytes(texts: pa.Array) -> Values:
    found = where_known(texts, true_mask(texts.is_valid()))
    return Values(found.array.cast(pa.binary()), found.unknown)


def put_into_bytes(new: ColumnSide, how: Circumstances) -> Conversion:
    """Texts of ASCII characters, of something that was no text, as a column of binary strings holds them."""
    fit = _fitted_bytes(_size(new), is_padded=new.type_name == "binary", how=how)
    return in_turn([_ascii_bytes, fit])


def text_of_bytes_effect(_old: ColumnSide, new: ColumnSide, how: Circumstances) -> Effect:
    """Effect on binary strings whose column becomes a text: they are bytes of its character set."""
    charset = new.definition.charset
    if charset not in _ONE_BYTE_ASCII and charset not in _TEXTS_OF:
        return Unknown(f"bytes become texts in {charset or 'a character set that is not known'}")
    decode = _TEXTS_OF.get(charset or "", _ascii_text)
    others = by_distinct(lambda value: decode(value, how) if isinstance(value, bytes) else UNKNOWN, pa.string())

    def convert(values: pa.Array) -> Values:
        if charset in _ONE_BYTE_ASCII:
            texts = values.cast(pa.string(), safe=False)
            if pc.all(pc.string_is_ascii(texts), min_count=0).as_py() is not False:
                return Values(texts)
        return others(values)

    return Converted(in_turn([convert, put_into_text(new, how)]), "bytes become texts")


def _ascii_text(value: bytes, _how: Circumstances) -> object:
    return value.decode("ascii") if value.isascii() else UNKNOWN


def _utf8_text(value: bytes, how: Circumstances) -> object:
    """MySQL cuts off what is no text, MariaDB puts a question mark for each such byte."""
    text, at = "", 0
    while at < len(value):
        try:
            return text + value[at:].decode()
        except UnicodeDecodeError as error:
            if how.strict:
                return UNKNOWN
            text += value[at : at + error.start].decode()
            if how.vendor is Vendor.MYSQL:
                return text
            text, at = text + "?", at + error.start + 1
    return text


def _first_plane_text(value: bytes, how: Circumstances) -> object:
    text = _utf8_text(value, how)
    return UNKNOWN if not isinstance(text, str) or any(byte >= _FOUR_BYTES for byte in value) else text


def _latin_text(value: bytes, _how: Circumstances) -> object:
    try:
        return value.decode("cp1252")
    except UnicodeDecodeError:
        return UNKNOWN


def _utf16_text(value: bytes, _how: Circumstances) -> object:
    try:
        return (b"\0" * (len(value) % 2) + value).decode("utf-16-be")
    except UnicodeDecodeError:
        return UNKNOWN


_FOUR_BYTES = 0xF0
_TEXTS_OF: Final[dict[str, Callable[[bytes, Circumstances], object]]] = {
    UTF8MB4: _utf8_text,
    "utf8": _first_plane_text,
    "utf8mb3": _first_plane_text,
    "latin1": _latin_text,
    "utf16": _utf16_text,
}


def as_latin(values: pa.Array) -> Values:
    """Bytes as texts with a character for each."""
    texts = values.cast(pa.string(), safe=False)
    if pc.all(pc.string_is_ascii(texts), min_count=0).as_py() is not False:
        return Values(texts)
    return by_distinct(lambda value: value.decode("latin-1") if isinstance(value, bytes) else UNKNOWN, pa.string())(
        values
    )


def as_labels(new: ColumnSide) -> Conversion:
    """Bytes as texts that may be labels; in UTF-8, bytes that are no text are no label either."""
    is_utf8 = new.definition.charset in _UTF8

    def text(value: object) -> object:
        assert isinstance(value, bytes)
        return value.decode("utf-8", "replace") if is_utf8 or value.isascii() else UNKNOWN

    return by_distinct(text, pa.string())


def bytes_effect(bytes_of: Conversion, new: ColumnSide, how: Circumstances) -> Effect:
    """Effect on values that are read as bytes, in a column of texts or binary strings."""
    if binary_or_text(new) == "binary":
        fit = _fitted_bytes(_size(new), is_padded=new.type_name == "binary", how=how)
        return Converted(in_turn([bytes_of, fit]), "values become their bytes")
    effect = text_of_bytes_effect(new, new, how)
    return replace(effect, convert=in_turn([bytes_of, effect.convert])) if isinstance(effect, Converted) else effect


def binary_or_text(side: ColumnSide) -> str | None:
    """`text` or `binary` for a column of one of these; None for others."""
    if side.type_name in TEXT_TYPES:
        return "binary" if side.definition.charset == BINARY else "text"
    return "binary" if side.type_name in BINARY_TYPES else None


EFFECTS: Final[dict[tuple[str | None, str | None], Callable[[ColumnSide, ColumnSide, Circumstances], Effect]]] = {
    ("text", "text"): text_effect,
    ("binary", "binary"): binary_effect,
    ("text", "binary"): bytes_of_text_effect,
    ("binary", "text"): text_of_bytes_effect,
}
"""Effects by the old and the new kind of column."""
