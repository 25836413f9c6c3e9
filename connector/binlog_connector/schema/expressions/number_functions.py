"""Operators and functions of exact numbers and booleans, and choices between values: `NUMBER_FUNCTIONS`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlog_connector.schema.effects.conversion import by_distinct, either, true_mask
from binlog_connector.schema.expressions.operands import (
    Kind,
    NotComputedError,
    Operand,
    alike,
    booleans,
    from_booleans,
    number,
    unknown_of,
    unless_empty,
    whole,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from binlog_format.kernels import Int64s, Mask

_UNLIKE = str.maketrans("wyj", "vii")
_PRINTABLE = r"^[ -~]*$"


def _numbers(*operands: Operand) -> list[Operand]:
    return alike([operand.of_kind(Kind.NUMBER, Kind.NULL) for operand in operands])


def _sum(one: Operand, other: Operand) -> Operand:
    return _added(one, other, pc.add)


def _difference(one: Operand, other: Operand) -> Operand:
    return _added(one, other, pc.subtract)


def _added(one: Operand, other: Operand, function: Callable[[pa.Array, pa.Array], pa.Array]) -> Operand:
    unsigned = one.unsigned or other.unsigned
    left, right = _numbers(one, other)
    if left.kind is Kind.NULL:
        return left
    unknown = unknown_of([left, right])
    return whole(number(function(left.array, right.array), left.digits + 1, unknown=unknown, unsigned=unsigned))


def _product(one: Operand, other: Operand) -> Operand:
    left, right = (operand.of_kind(Kind.NUMBER) for operand in (one, other))
    array, unknown = pc.multiply(left.array, right.array), unknown_of([left, right])
    unsigned = left.unsigned or right.unsigned
    return whole(number(array, left.digits + right.digits, unknown=unknown, unsigned=unsigned))


def _negative(one: Operand) -> Operand:
    operand = one.of_kind(Kind.NUMBER)
    return whole(number(pc.negate(operand.array), operand.digits, unknown=operand.unknown))


def _absolute(one: Operand) -> Operand:
    operand = one.of_kind(Kind.NUMBER)
    return whole(number(pc.abs(operand.array), operand.digits, unknown=operand.unknown))


def _quotient(one: Operand, other: Operand) -> Operand:
    left, right, by_zero = _divided(one, other)
    # Towards 0, as servers divide.
    quotients = np.abs(left) // np.abs(right) * np.where((left < 0) == (right < 0), 1, -1)
    return _of_division(quotients, one, other, by_zero)


def _rest(one: Operand, other: Operand) -> Operand:
    left, right, by_zero = _divided(one, other)
    return _of_division(np.fmod(left, right), one, other, by_zero)


def _divided(one: Operand, other: Operand) -> tuple[Int64s, Int64s, pa.Array]:
    if any(operand.of_kind(Kind.NUMBER).scale for operand in (one, other)):
        raise NotComputedError("a division with a fraction")
    try:
        left, right = (operand.array.cast(pa.int64()).fill_null(1).to_numpy() for operand in (one, other))
    except pa.ArrowInvalid as error:
        raise NotComputedError("a division of numbers of more than 63 bits") from error
    return left, np.where(right == 0, 1, right), right == 0


def _of_division(values: Int64s, one: Operand, other: Operand, by_zero: pa.Array) -> Operand:
    missing = pc.or_(one.array.is_null(), other.array.is_null()).to_numpy(zero_copy_only=False)
    unknown = unknown_of([one, other])
    found = number(pa.array(values, mask=missing), one.digits, unknown=unknown, unsigned=one.unsigned or other.unsigned)
    return whole(found.doubted(unless_empty(by_zero)))  # NULL, or an error: the mode decides


def _floor(one: Operand) -> Operand:
    return _to_whole(one, pc.floor)


def _ceiling(one: Operand) -> Operand:
    return _to_whole(one, pc.ceil)


def _to_whole(one: Operand, function: Callable[[pa.Array], pa.Array]) -> Operand:
    operand = one.of_kind(Kind.NUMBER)
    if not operand.scale:
        return operand
    array = function(operand.array).cast(pa.decimal256(76, 0))
    return number(array, operand.digits - operand.scale + 1, unknown=operand.unknown)


def _compared(function: Callable[[pa.Array, pa.Array], pa.Array]) -> Callable[[Operand, Operand], Operand]:
    def compare(one: Operand, other: Operand) -> Operand:
        if {one.kind, other.kind} in ({Kind.DATE}, {Kind.DATETIME}):
            return from_booleans(function(one.array, other.array), unknown_of([one, other]))
        left, right = _numbers(one, other)
        return from_booleans(function(left.array, right.array), unknown_of([left, right]))

    return compare


def _equal(one: Operand, other: Operand) -> Operand:
    if Kind.TEXT not in (one.kind, other.kind):
        return _compared(pc.equal)(one, other)
    left, right = (operand.of_kind(Kind.TEXT).array for operand in (one, other))
    same = pc.equal(left, right)
    # Texts of ASCII are surely different in each collation, if more than case and letters that a language takes for
    # one another differ.
    folded = [_folded(array).array for array in (left, right)]
    plain = pc.and_(*(pc.match_substring_regex(array, _PRINTABLE) for array in (left, right)))
    sure = pc.or_kleene(same, pc.and_(plain, pc.not_equal(*folded)))
    doubt = ~true_mask(sure.fill_null(True))
    return from_booleans(same, unknown_of([one, other])).doubted(unless_empty(doubt))


_folded = by_distinct(lambda value: str(value).rstrip(" ").casefold().translate(_UNLIKE), pa.string())


def _unequal(one: Operand, other: Operand) -> Operand:
    found = _equal(one, other)
    return from_booleans(pc.invert(booleans(found)), found.unknown)


def _both(one: Operand, other: Operand) -> Operand:
    found = pc.and_kleene(booleans(one), booleans(other))
    return from_booleans(found, _undecided(one, other, decides=False))


def _one_of_both(one: Operand, other: Operand) -> Operand:
    found = pc.or_kleene(booleans(one), booleans(other))
    return from_booleans(found, _undecided(one, other, decides=True))


def _undecided(one: Operand, other: Operand, *, decides: bool) -> Mask | None:
    """Rows in which one is unknown, and the other does not decide by itself."""
    unknown = None
    for doubtful, sure in ((one, other), (other, one)):
        if doubtful.unknown is not None:
            decided = true_mask(pc.equal(booleans(sure), decides))
            if sure.unknown is not None:
                decided &= ~sure.unknown
            unknown = either(unknown, doubtful.unknown & ~decided)
    return unknown


def _not(one: Operand) -> Operand:
    return from_booleans(pc.invert(booleans(one)), one.unknown)


def _one_of_many(one: Operand, *others: Operand) -> Operand:
    found = _equal(one, others[0])
    for other in others[1:]:
        found = _one_of_both(found, _equal(one, other))
    return found


def _between(one: Operand, least: Operand, most: Operand) -> Operand:
    return _both(_compared(pc.greater_equal)(one, least), _compared(pc.less_equal)(one, most))


def _unless_equal(one: Operand, other: Operand) -> Operand:
    same = _equal(one, other)
    array = pc.if_else(booleans(same).fill_null(False), pa.scalar(None, one.array.type), one.array)
    return replace(one, array=array, unknown=unknown_of([one, same]))


def _is_null(one: Operand) -> Operand:
    return from_booleans(one.array.is_null(), one.unknown)


def _is_not_null(one: Operand) -> Operand:
    return from_booleans(one.array.is_valid(), one.unknown)


def _if(condition: Operand, one: Operand, other: Operand) -> Operand:
    left, right = alike([one, other])
    array = pc.if_else(booleans(condition).fill_null(False), left.array, right.array)
    unknown = unknown_of([condition, left, right])
    return replace(left, array=array, unknown=unknown, digits=max(left.digits, right.digits))


def _case(*operands: Operand) -> Operand:
    found = operands[-1]
    for place in range(len(operands) - 3, -1, -2):
        found = _if(operands[place], operands[place + 1], found)
    return found


def _coalesced(*operands: Operand) -> Operand:
    found = alike(operands)
    array = pc.coalesce(*(operand.array for operand in found))
    return replace(found[0], array=array, unknown=unknown_of(found))


def _extreme(function: Callable[[pa.Array, pa.Array], pa.Array]) -> Callable[..., Operand]:
    def call(one: Operand, *others: Operand) -> Operand:
        first, *rest = alike([one.of_kind(Kind.NUMBER, Kind.DATE, Kind.DATETIME), *others])
        array = first.array
        for operand in rest:
            array = pc.if_else(function(array, operand.array), array, operand.array)  # null where one of them is
        return replace(first, array=array, unknown=unknown_of([first, *rest]))

    return call


NUMBER_FUNCTIONS: dict[str, Callable[..., Operand]] = {
    "+": _sum,
    "-": _difference,
    "*": _product,
    "DIV": _quotient,
    "MOD": _rest,
    "NEGATIVE": _negative,
    "ABS": _absolute,
    "=": _equal,
    "<>": _unequal,
    "<": _compared(pc.less),
    "<=": _compared(pc.less_equal),
    ">": _compared(pc.greater),
    ">=": _compared(pc.greater_equal),
    "AND": _both,
    "OR": _one_of_both,
    "NOT": _not,
    "IN": _one_of_many,
    "BETWEEN": _between,
    **dict.fromkeys(["IS NULL", "ISNULL"], _is_null),
    "IS NOT NULL": _is_not_null,
    "IF": _if,
    "CASE": _case,
    "IFNULL": _coalesced,
    "COALESCE": _coalesced,
    "NULLIF": _unless_equal,
    "GREATEST": _extreme(pc.greater),
    "LEAST": _extreme(pc.less),
    "FLOOR": _floor,
    **dict.fromkeys(["CEILING", "CEIL"], _ceiling),
}
"""By operator or name, in upper case; each takes the operands of its expression."""
