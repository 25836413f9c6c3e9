"""Values that a Spark filter allows in its column: `texts_of`, a set of texts; `range_of`, a range."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from binlog_connector.spark.spark_api import (
    EqualNullSafe,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql.datasource import Filter

    Range = tuple[int, int]

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
_EVERYTHING = INT64_MIN, INT64_MAX
_EPOCH = datetime.fromtimestamp(0, UTC)
_MICRO = timedelta(microseconds=1)


def texts_of(one: Filter) -> frozenset[str] | None:
    """The texts of which the column must have one; None: the filter does not tell."""
    # `a = NULL` is true of nothing; `a <=> NULL` is true of null, which is left to Spark.
    if isinstance(one, EqualNullSafe) and one.value is None:
        return None
    if isinstance(one, EqualTo | EqualNullSafe):
        values: tuple[object, ...] = (one.value,)
    elif isinstance(one, In):
        values = one.value
    else:
        return None
    return frozenset(value for value in values if isinstance(value, str))


def both(known: frozenset[str] | None, texts: frozenset[str]) -> frozenset[str]:
    """Values of a column that two filters allow; *known* is None before the first filter."""
    return texts if known is None else known & texts


def range_of(one: Filter, number: Callable[[object], int | None]) -> Range:
    """The least and the largest number that the filter lets through; all of 64 bits where it does not tell.

    Args:
        one: The filter.
        number: `integer` or `micros`: a value of the column as a number; None: it is none.
    """
    if isinstance(one, In):
        numbers = [number(value) for value in one.value]
        known = [value for value in numbers if value is not None]
        return (min(known), max(known)) if known and len(known) == len(numbers) else _EVERYTHING
    value = number(getattr(one, "value", None))
    if value is None:
        return _EVERYTHING
    if isinstance(one, EqualTo | EqualNullSafe):
        return value, value
    if isinstance(one, GreaterThan | GreaterThanOrEqual):
        return value + isinstance(one, GreaterThan), INT64_MAX
    if isinstance(one, LessThan | LessThanOrEqual):
        return INT64_MIN, value - isinstance(one, LessThan)
    return _EVERYTHING


def integer(value: object) -> int | None:
    """A whole number."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def micros(value: object) -> int | None:
    """A timestamp, in microseconds since 1970 UTC."""
    # Spark gives timestamps with a time zone; one without has none that is known here.
    return (value - _EPOCH) // _MICRO if isinstance(value, datetime) and value.tzinfo is not None else None
