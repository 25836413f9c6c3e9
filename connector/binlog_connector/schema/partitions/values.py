"""Values of partition expressions, of whole columns at once: `evaluated(expression, columns)` gives `Numbers`.

A whole number is an `int64`, or a Python number where a step of the way may not fit into one: the server works with 64
bits, signed or unsigned, and refuses rows for which these do not do.
"""

from __future__ import annotations

import contextlib
import datetime
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlog_connector.schema.expressions.date_functions import DAYS_TO_1970, PARTS_OF_TIMES
from binlog_connector.schema.expressions.expression import COLUMN, NULL, NUMBER, TEXT
from binlog_connector.schema.expressions.operands import NotComputedError
from binlog_format.names import folded_name
from binlog_format.rows.declared.declared_types import UnknownValueError
from binlog_format.rows.declared.time_zones import known_zone

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from binlog_connector.schema.definitions import ColumnDefinition
    from binlog_connector.schema.expressions.expression import Expression
    from binlog_format.kernels import Mask

WHOLE_TYPES = frozenset(["tinyint", "smallint", "mediumint", "int", "bigint", "year", "bit"])
DATE_TYPES = frozenset(["date", "datetime"])

_DAY_SECONDS = 86_400
_MICROS = 1_000_000
_INT64_END = 1 << 63
_DATE = re.compile(r"(\d{4})-(\d\d?)-(\d\d?)(?: (\d\d?):(\d\d?):(\d\d?)(?:\.(\d{1,6}))?)?", re.ASCII)


class Numbers(NamedTuple):
    """Whole numbers, `int64` or Python's; where *valid* is false, NULL."""

    values: NDArray[Any]
    valid: Mask

    @property
    def largest(self) -> int:
        """The largest distance from 0."""
        return max(-int(self.values.min()), int(self.values.max())) if len(self.values) else 0


class Columns(NamedTuple):
    """The columns of a table, and their values.

    Attributes:
        definitions: By folded name.
        arrays: The same.
        system_time_zone: See `Decoding`.
    """

    definitions: Mapping[str, ColumnDefinition]
    arrays: Mapping[str, pa.Array]
    system_time_zone: str | None = None

    def definition(self, name: str) -> ColumnDefinition:
        """Definition of a column. Raises `NotComputedError`: there is none of that name."""
        found = self.definitions.get(folded_name(name))
        if found is None:
            raise NotComputedError(f"the known definition has no column {name}")
        return found

    def array(self, name: str) -> pa.Array:
        """The values of a column. Raises `NotComputedError`: there is none of that name."""
        found = self.arrays.get(folded_name(name))
        if found is None:
            raise NotComputedError(f"the rows have no column {name}")
        return found


NO_COLUMNS = Columns({}, {})


def evaluated(expression: Expression, columns: Columns, count: int = 1) -> Numbers:
    """Evaluate an expression for each row.

    Args:
        expression: Of whole numbers and dates.

    Raises:
        NotComputedError: It is of a kind that is not known.
    """
    op = expression.op
    if op == NUMBER:
        return Numbers(np.full(count, int(expression.text), _type_for(int(expression.text))), np.ones(count, np.bool_))
    if op == NULL:
        return Numbers(np.zeros(count, np.int64), np.zeros(count, np.bool_))
    if op == COLUMN:
        definition = columns.definition(expression.text)
        if definition.type_name not in WHOLE_TYPES:
            raise NotComputedError(f"column {definition.name} is a {definition.type_name}")
        return whole_numbers(columns.array(expression.text))
    if op in _OF_DATES and len(expression.operands) == 1:
        return _of_dates(expression, columns, count)
    if op == "UNIX_TIMESTAMP" and expression.operands:
        return _unix_timestamps(expression, columns, count)
    if (op, len(expression.operands)) not in _FUNCTIONS:
        raise NotComputedError(f"{op} is not computed here" if expression.operands else f"a {op} in it")
    if op != "FLOOR" and any(_has_fractions(operand, columns) for operand in expression.operands):
        raise NotComputedError(f"{op} of a time with fractions of a second")
    operands = [evaluated(operand, columns, count) for operand in expression.operands]
    return _FUNCTIONS[op, len(operands)](*operands)


def whole_numbers(array: pa.Array) -> Numbers:
    """The values of a column of whole numbers. Raises `NotComputedError`: they are something else."""
    kind = array.type
    if not (pa.types.is_integer(kind) or pa.types.is_boolean(kind) or (pa.types.is_decimal(kind) and kind.scale == 0)):
        raise NotComputedError(f"whole numbers expected, the rows have {kind}")
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    try:
        return Numbers(array.fill_null(0).cast(pa.int64()).to_numpy(), valid)
    except pa.ArrowInvalid:
        objects = [int(value or 0) for value in array.to_pylist()]
        return Numbers(np.array(objects, dtype=np.object_), valid)


def micro_numbers(array: pa.Array) -> Numbers:
    """Microseconds since 1970 of a column of dates, or of dates and times.

    Raises:
        NotComputedError: There is a null: NULL, or a zero or partial date, which the server puts elsewhere. Or there
            are other values than dates.
    """
    if not (pa.types.is_date(array.type) or pa.types.is_timestamp(array.type)):
        raise NotComputedError(f"dates expected, the rows have {array.type}")
    if array.null_count:
        raise NotComputedError(f"{array.null_count} rows have null, which may be NULL, a zero date or a partial one")
    zone = array.type.tz if pa.types.is_timestamp(array.type) else None
    micros = array.cast(pa.timestamp("us", zone)).cast(pa.int64()).to_numpy()
    return Numbers(micros, np.ones(len(micros), np.bool_))


def date_constant(text: str) -> datetime.datetime:
    """A date, or a date and a time, as a statement writes it.

    Raises:
        NotComputedError: It is no date of the calendar, or written in an unusual way.
    """
    match = _DATE.fullmatch(text)
    if match is not None:
        year, month, day, hour, minute, second = (int(part or 0) for part in match.groups()[:6])
        micros = int((match[7] or "").ljust(6, "0"))
        with contextlib.suppress(ValueError):
            return datetime.datetime(year, month, day, hour, minute, second, micros)  # noqa: DTZ001 - it has none
    raise NotComputedError(f"the date {text!r} is not understood")


def _type_for(value: int) -> type[np.int64] | type[np.object_]:
    return np.int64 if -_INT64_END <= value < _INT64_END else np.object_


def _fitting(one: Numbers, other: Numbers, largest: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Both sides of an operation whose outcome is *largest* at most."""
    if largest < _INT64_END:
        return one.values, other.values
    return one.values.astype(np.object_), other.values.astype(np.object_)


def _sum(one: Numbers, other: Numbers) -> Numbers:
    left, right = _fitting(one, other, one.largest + other.largest)
    return Numbers(left + right, one.valid & other.valid)


def _difference(one: Numbers, other: Numbers) -> Numbers:
    left, right = _fitting(one, other, one.largest + other.largest)
    return Numbers(left - right, one.valid & other.valid)


def _product(one: Numbers, other: Numbers) -> Numbers:
    left, right = _fitting(one, other, one.largest * other.largest)
    return Numbers(left * right, one.valid & other.valid)


def _divided(one: Numbers, other: Numbers) -> tuple[Numbers, Numbers]:
    """Quotients and rests as the server has them: towards 0, and with the sign of what is divided."""
    left, right = _fitting(one, other, max(one.largest, other.largest))
    valid = one.valid & other.valid & (right != 0)  # by 0: NULL
    right = np.where(valid, right, 1)
    quotients = np.abs(left) // np.abs(right) * np.where((left < 0) == (right < 0), 1, -1)
    return Numbers(quotients, valid), Numbers(left - quotients * right, valid)


def _negative(one: Numbers) -> Numbers:
    return _difference(Numbers(np.zeros_like(one.values), one.valid), one)


def _absolute(one: Numbers) -> Numbers:
    values = one.values if one.largest < _INT64_END else one.values.astype(np.object_)
    return Numbers(np.abs(values), one.valid)


_FUNCTIONS: dict[tuple[str, int], Callable[..., Numbers]] = {
    ("+", 2): _sum,
    ("-", 2): _difference,
    ("*", 2): _product,
    ("DIV", 2): lambda one, other: _divided(one, other)[0],
    ("MOD", 2): lambda one, other: _divided(one, other)[1],
    ("NEGATIVE", 1): _negative,
    ("ABS", 1): _absolute,
    ("FLOOR", 1): lambda one: one,  # of UNIX_TIMESTAMP, which may have a fraction
}


def _of_dates(expression: Expression, columns: Columns, count: int) -> Numbers:
    (operand,) = expression.operands
    if operand.op == TEXT:
        array = pa.array([date_constant(operand.text)] * count, pa.timestamp("us"))
    elif operand.op == COLUMN:
        definition = columns.definition(operand.text)
        if definition.type_name not in DATE_TYPES:
            raise NotComputedError(f"{expression.op} of column {definition.name}, which is a {definition.type_name}")
        array = columns.array(operand.text)
    else:
        raise NotComputedError(f"{expression.op} of something else than a column")
    micros, valid = micro_numbers(array)
    values = _OF_DATES[expression.op](pa.array(micros, pa.timestamp("us")))
    return Numbers(values.cast(pa.int64()).to_numpy(), valid)


def _days(times: pa.Array) -> pa.Array:
    return pc.add(times.cast(pa.date32(), safe=False).cast(pa.int32()).cast(pa.int64()), DAYS_TO_1970)


def _seconds(times: pa.Array) -> pa.Array:
    micros = times.cast(pa.int64()).to_numpy()
    return pa.array(micros // _MICROS + DAYS_TO_1970 * _DAY_SECONDS)


_OF_DATES: dict[str, Callable[[pa.Array], pa.Array]] = {
    "TO_DAYS": _days,
    "TO_SECONDS": _seconds,
    **PARTS_OF_TIMES,
}


def _has_fractions(expression: Expression, columns: Columns) -> bool:
    return expression.op == "UNIX_TIMESTAMP" and any(
        "(" in columns.definition(name).declared for name in expression.columns()
    )


def _unix_timestamps(expression: Expression, columns: Columns, count: int) -> Numbers:
    """Whole seconds: fractions are cut off where it stands alone, and by FLOOR."""
    operand = expression.operands[0]
    if operand.op == TEXT:
        zone = expression.operands[1].text
        local = int(np.datetime64(date_constant(operand.text), "s").astype(np.int64))
        try:
            moment = known_zone(zone or None, columns.system_time_zone).utc(local * _MICROS) // _MICROS
        except UnknownValueError as error:
            raise NotComputedError(f"UNIX_TIMESTAMP of {error.reason}") from error
        return Numbers(np.full(count, moment), np.ones(count, np.bool_))
    if operand.op != COLUMN:
        raise NotComputedError("UNIX_TIMESTAMP of something else than a column")
    definition = columns.definition(operand.text)
    if definition.type_name != "timestamp":
        raise NotComputedError(f"UNIX_TIMESTAMP of column {definition.name}, which is a {definition.type_name}")
    micros, valid = micro_numbers(columns.array(operand.text))
    return Numbers(micros // _MICROS, valid)
