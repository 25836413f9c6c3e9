"""Values of one part of an expression, of all rows: `Operand`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlog_connector.schema.effects.conversion import either, true_mask
from binlog_connector.schema.effects.numbers import decimal_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binlog_format.kernels import Mask

DIGITS_MAX = 65
"""Digits with which servers compute exact numbers; of more, they cut some off."""
SCALE_MAX = 30
_ARROW_DIGITS = 37
"""Digits of numbers here: a product of two has room in Arrow's widest type."""
_INT64_MAX = (1 << 63) - 1


class NotComputedError(Exception):
    """An expression of which nobody can be sure what the server makes of it. *reason*: why, in a few words."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Kind(Enum):
    """Kinds of values.

    `NULL`: nothing but nulls. `MOMENT`: of TIMESTAMP columns, which are texts and dates in each time zone. `OTHER`: no
    more is known than which are NULL.
    """

    NUMBER = auto()
    TEXT = auto()
    DATE = auto()
    DATETIME = auto()
    MOMENT = auto()
    BYTES = auto()
    JSON = auto()
    NULL = auto()
    OTHER = auto()


@dataclass(frozen=True, slots=True)
class Operand:
    """Values of one part of an expression.

    Attributes:
        array: Exact numbers as `decimal256`, texts and JSON as `string`, dates as `date32`, times as `timestamp`.
        unknown: Rows whose value is not known; None: none.
        digits: Of a number, as many as the server reckons with; of a DATETIME those of a fraction of a second.
        charset: Of a text; None: of several sets, or not known.
        unsigned: Of a number.
        why_other: Of OTHER and MOMENT: why nothing else is known, in a few words.
        is_mixed: Some of the numbers have fewer digits after the point than others: what text they have is not known.
    """

    kind: Kind
    array: pa.Array
    unknown: Mask | None = None
    digits: int = 0
    charset: str | None = None
    unsigned: bool = False
    is_mixed: bool = False
    why_other: str = ""

    @property
    def scale(self) -> int:
        """Digits of a number after the point."""
        scale: int = self.array.type.scale
        return scale

    def doubted(self, unknown: Mask | None) -> Operand:
        """The same, of which more is unknown."""
        return replace(self, unknown=either(self.unknown, unknown))

    def of_kind(self, *kinds: Kind) -> Operand:
        """The same. Raises `NotComputedError`: it is of none of these kinds."""
        if self.kind not in kinds:
            raise NotComputedError(self.why_other or f"a {self.kind.name} where a {kinds[0].name} is expected")
        return self

    def nulls(self, like: Operand) -> Operand:
        """Nulls for all values, of the kind of another operand."""
        return replace(like, array=pa.nulls(len(self.array), like.array.type), unknown=self.unknown)


def unknown_of(operands: Sequence[Operand]) -> Mask | None:
    """Rows in which one of the operands is unknown."""
    unknown = None
    for operand in operands:
        unknown = either(unknown, operand.unknown)
    return unknown


def number(array: pa.Array, digits: int, *, unknown: Mask | None = None, unsigned: bool = False) -> Operand:
    """Exact numbers.

    Args:
        array: Whole numbers or decimals.

    Raises:
        NotComputedError: There are too many digits.
    """
    scale = array.type.scale if pa.types.is_decimal(array.type) else 0
    if digits > DIGITS_MAX or scale > SCALE_MAX:
        raise NotComputedError("numbers of more digits than servers keep")
    try:
        array = array.cast(pa.decimal256(_ARROW_DIGITS, scale))
    except pa.ArrowInvalid as error:
        raise NotComputedError(f"numbers of more than {_ARROW_DIGITS} digits") from error
    return Operand(Kind.NUMBER, array, unknown, digits, unsigned=unsigned)


def whole(operand: Operand) -> Operand:
    """Results of whole numbers: those that have no room in 64 bits are unknown, as is whether a mode allows a sign."""
    if operand.scale:
        return operand
    beyond = true_mask(pc.greater(pc.abs(operand.array), pa.scalar(_INT64_MAX, operand.array.type)))
    if operand.unsigned:
        beyond = beyond | true_mask(pc.less(operand.array, pa.scalar(0, operand.array.type)))
    return operand.doubted(unless_empty(beyond))


def from_booleans(array: pa.Array, unknown: Mask | None) -> Operand:
    """Booleans as 0 and 1."""
    return number(array.cast(pa.int8()), 1, unknown=unknown)


def booleans(operand: Operand) -> pa.Array:
    """Numbers as booleans."""
    operand = operand.of_kind(Kind.NUMBER, Kind.NULL)
    if operand.kind is Kind.NULL:
        return pa.nulls(len(operand.array), pa.bool_())
    return pc.not_equal(operand.array, pa.scalar(0, operand.array.type))


def text(operand: Operand) -> Operand:
    """Values as a server writes them into a text. Raises `NotComputedError`: it is not known how."""
    if operand.kind in (Kind.TEXT, Kind.NULL):
        return operand
    if operand.kind is Kind.NUMBER and not operand.is_mixed:
        array = decimal_text(operand.array)
    elif operand.kind in (Kind.DATE, Kind.DATETIME):
        array = operand.array.cast(pa.string())
        if operand.kind is Kind.DATETIME:
            array = pc.utf8_slice_codeunits(array, 0, 20 + operand.digits if operand.digits else 19)
    else:
        raise NotComputedError(operand.why_other or f"the text of a {operand.kind.name}")
    return Operand(Kind.TEXT, array, operand.unknown, charset="ascii")


def alike(operands: Sequence[Operand]) -> list[Operand]:
    """Values that one column could hold, in one type; nulls get the kind of the others.

    Raises:
        NotComputedError: They are of different kinds.
    """
    kinds = {operand.kind for operand in operands} - {Kind.NULL}
    if len(kinds) > 1:
        raise NotComputedError(f"a {' and a '.join(sorted(kind.name for kind in kinds))} in one place")
    like = next((operand for operand in operands if operand.kind is not Kind.NULL), operands[0])
    found = [operand if operand.kind is like.kind else operand.nulls(like) for operand in operands]
    if like.kind is Kind.NUMBER:
        scale = max(operand.scale for operand in found)
        digits = max(operand.digits - operand.scale for operand in found) + scale
        unsigned = all(operand.unsigned for operand in found)
        is_mixed = any(operand.is_mixed or operand.scale != scale for operand in found)
        scaled = (
            number(operand.array.cast(pa.decimal256(76, scale)), digits, unknown=operand.unknown, unsigned=unsigned)
            for operand in found
        )
        return [replace(operand, is_mixed=is_mixed) for operand in scaled]
    if like.kind is Kind.TEXT:
        return in_one_charset(found)
    if len({(operand.array.type, operand.digits) for operand in found}) > 1:
        raise NotComputedError("times of several types in one place")
    return found


def in_one_charset(texts: Sequence[Operand]) -> list[Operand]:
    """Texts as one text has them: of several character sets, those beyond ASCII may lose characters."""
    charsets = {operand.charset for operand in texts if operand.charset != "ascii" and operand.kind is Kind.TEXT}
    if len(charsets) < 2:
        charset = next(iter(charsets), "ascii")
        return [replace(operand, charset=charset) for operand in texts]
    return [replace(operand.doubted(beyond_ascii(operand.array)), charset=None) for operand in texts]


def beyond_ascii(array: pa.Array) -> Mask | None:
    """Mask of the texts that have other characters than those of ASCII; None: none has."""
    return unless_empty(true_mask(pc.invert(pc.string_is_ascii(array.cast(pa.string())))))


def unless_empty(mask: Mask) -> Mask | None:
    """*mask*; None where it is empty."""
    return mask if np.any(mask) else None
