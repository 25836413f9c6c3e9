"""Encoders of values that hold no others: numbers, texts, times; and `MismatchError`, which they raise."""

from __future__ import annotations

import struct
from datetime import UTC, datetime, timedelta
from operator import index
from typing import TYPE_CHECKING

from binlog_format.structured.arguments.layout import COUNT_STRUCT, NUMBER_STRUCTS, extended_bytes
from binlog_format.structured.layout import NS_PER_MICRO, NS_PER_SECOND
from binlog_format.structured.type_layout import ENUM_RANGES, SpecialStruct, TypeKind

if TYPE_CHECKING:
    from collections.abc import Callable

    Encode = Callable[[object, bytearray], None]
    """Appends a value to the bytes; raises `MismatchError`."""

COUNT_MAX = (1 << 32) - 1
DURATION_NS = {
    SpecialStruct.NANOSECONDS: 1,
    SpecialStruct.MICROSECONDS: 1_000,
    SpecialStruct.MILLISECONDS: 1_000_000,
    SpecialStruct.SECONDS: NS_PER_SECOND,
    SpecialStruct.MINUTES: 60 * NS_PER_SECOND,
    SpecialStruct.HOURS: 3600 * NS_PER_SECOND,
}
"""Nanoseconds in one of each unit of durations."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_OF_OTHER_TYPES = (bool, int, float, list, tuple, dict, set, frozenset, type(None))
"""Values that have types of their own: where a text is asked for, they are a mistake."""


class MismatchError(Exception):
    """A value is not what its type asks for.

    Args:
        subclass: Of `ArgumentError`.

    Attributes:
        path: Of the value in its argument: `[3].name`.
    """

    def __init__(self, subclass: str, expected: str, value: object) -> None:
        super().__init__(subclass, expected, value)
        self.subclass = subclass
        self.expected = expected
        self.value = value
        self.path = ""

    def inside(self, step: str) -> MismatchError:
        """The same, seen from the value that holds it."""
        self.path = step + self.path
        return self


def integer_encoder(kind: TypeKind) -> Encode:
    """Make an encoder of integer values, within the range of *kind*."""
    lowest, highest = ENUM_RANGES[kind]
    pack = NUMBER_STRUCTS[kind].pack
    expected = f"an integer from {lowest} to {highest}"

    def encode(value: object, out: bytearray) -> None:
        try:
            number = index(value)  # type: ignore[arg-type] # that is what is tried
        except TypeError as error:
            raise MismatchError("TYPE", expected, value) from error
        if not lowest <= number <= highest:
            raise MismatchError("RANGE", expected, value)
        out += pack(number)

    return encode


def encode_bool(value: object, out: bytearray) -> None:
    """Append True or False; 0 and 1 are these."""
    if value not in (False, True):
        raise MismatchError("TYPE", "True or False", value)
    out += b"\1" if value else b"\0"


def float_encoder(kind: TypeKind) -> Encode:
    """Make an encoder of floating point values."""
    pack = extended_bytes if kind is TypeKind.EXTENDED else NUMBER_STRUCTS[kind].pack

    def encode(value: object, out: bytearray) -> None:
        try:
            out += pack(value)  # type: ignore[arg-type] # that is what is tried
        except struct.error as error:
            raise MismatchError("TYPE", "a number", value) from error
        except OverflowError as error:
            raise MismatchError("RANGE", "a number that fits", value) from error

    return encode


def encode_char(value: object, out: bytearray) -> None:
    """Append a character: a text of one byte, or its value."""
    if isinstance(value, str | bytes):
        encoded = text_bytes(value)
        if len(encoded) != 1:
            raise MismatchError("RANGE", "a text of one byte", value)
        out += encoded
    else:
        integer_encoder(TypeKind.UINT8)(value, out)


def encode_text(value: object, out: bytearray) -> None:
    """Append a text: str as UTF-8, bytes as they are, and what has no type of its own as `str` shows it."""
    if isinstance(value, str | bytes):
        encoded = text_bytes(value)
    elif isinstance(value, bytearray | memoryview):
        encoded = bytes(value)
    elif isinstance(value, _OF_OTHER_TYPES):
        raise MismatchError("TYPE", "a text", value)
    else:
        encoded = text_bytes(str(value))
    out += COUNT_STRUCT.pack(len(encoded))
    out += encoded


def encode_null(value: object, _: bytearray) -> None:
    """Append nothing, for None."""
    if value is not None:
        raise MismatchError("TYPE", "None", value)


def text_bytes(text: str | bytes) -> bytes:
    """Encode as UTF-8; undecodable bytes stay as they were, characters without bytes become an escape."""
    if isinstance(text, bytes):
        return text
    try:
        return text.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        return text.encode(errors="backslashreplace")


def time_point_ns(value: object) -> object:
    """A datetime as nanoseconds since 1970 UTC; one without time zone is local time. Others stay as they are."""
    if not isinstance(value, datetime):
        return value
    return (value.astimezone(UTC) - _EPOCH) // _MICROSECOND * NS_PER_MICRO


def duration_counter(unit_ns: int) -> Callable[[object], object]:
    """Counts a timedelta in a unit, if it is a whole number of them. Other values stay as they are.

    Args:
        unit_ns: Nanoseconds of the unit.
    """

    def count(value: object) -> object:
        if not isinstance(value, timedelta):
            return value
        units, rest = divmod(value // _MICROSECOND * NS_PER_MICRO, unit_ns)
        if rest:
            raise MismatchError("RANGE", f"a duration of whole units of {unit_ns} ns", value)
        return units

    return count
