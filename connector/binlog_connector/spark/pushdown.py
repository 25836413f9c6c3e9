"""Filters that Spark hands to a batch query, as far as they save reading: `wanted_by(filters, view)` -> `Wanted`.

All filters stay with Spark too: what is left out here, its own evaluation would leave out. So a filter that is not
understood, or only partly, costs nothing but time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from binlog_connector.spark.options import View
from binlog_connector.spark.spark_api import (
    EqualNullSafe,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)
from binlog_format.position import Position

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql.datasource import Filter

_INT64_MAX = 2**63 - 1
_LEAST, _MOST = "least", "most"
_POSITION_PARTS = ("file_no", "page", "chunk")

# Where a view has what; views that are not here, or columns, are Spark's alone. `events` has rows without a table, and
# rows of `tables` are no groups.
_TABLE_VIEWS = (View.CHANGES, View.CHANGEFEED, View.TABLES)
_TIME_COLUMNS = {
    View.CHANGES: "commit_time",
    View.CHANGEFEED: "_commit_timestamp",
    View.TRANSACTIONS: "commit_time",
}
_POSITION_COLUMNS = {
    View.CHANGES: "position",
    View.CHANGEFEED: "_position",
    View.EVENTS: "position",
    View.TRANSACTIONS: "position",
}


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a query wants of a log, at most.

    Attributes:
        databases: Only tables of these; None: of all.
        tables: Only tables with these names; None: all.
        ops: Only rows of these operations of view `changes`; None: of all.
        first_second: Only groups committed then or later: seconds since 1970 UTC.
        last_second: Only groups committed then or before.
        first: Only groups there or behind.
        last: Only groups there or before.
        nothing: No row can be wanted.
    """

    databases: frozenset[str] | None = None
    tables: frozenset[str] | None = None
    ops: frozenset[str] | None = None
    first_second: int | None = None
    last_second: int | None = None
    first: Position | None = None
    last: Position | None = None
    nothing: bool = False


ALL_WANTED = Wanted()


def wanted_by(filters: Iterable[Filter], view: View) -> Wanted:
    """What all of *filters* together leave over."""
    wanted = ALL_WANTED
    ranges: dict[str, tuple[int, int]] = dict.fromkeys(_POSITION_PARTS, (0, _INT64_MAX))
    for one in filters:
        path: tuple[str, ...] = getattr(one, "attribute", ())
        if len(path) == 1:
            wanted = _by_column(wanted, one, path[0], view)
        elif len(path) == 2 and path[0] == _POSITION_COLUMNS.get(view) and path[1] in ranges:
            least, most = _integer_range(one)
            known = ranges[path[1]]
            ranges[path[1]] = max(known[0], least), min(known[1], most)
    return _by_position(wanted, ranges)


def _by_column(wanted: Wanted, one: Filter, column: str, view: View) -> Wanted:
    if column == _TIME_COLUMNS.get(view):
        return _by_time(wanted, one)
    values = _words(one)
    # The typed views' own columns may have any name: those of changes and tables are theirs alone.
    if values is None or view not in (View.CHANGES, View.TABLES):
        return wanted
    if column == "database":
        return replace(wanted, databases=_both(wanted.databases, values))
    if column == "table":
        return replace(wanted, tables=_both(wanted.tables, values))
    if column == "op" and view is View.CHANGES:
        return replace(wanted, ops=_both(wanted.ops, values))
    return wanted


def _both(known: frozenset[str] | None, values: frozenset[str]) -> frozenset[str]:
    return values if known is None else known & values


def _words(one: Filter) -> frozenset[str] | None:
    if isinstance(one, EqualTo | EqualNullSafe):
        values: tuple[object, ...] = (one.value,)
    elif isinstance(one, In):
        values = one.value
    else:
        return None
    # `a = NULL` is true of nothing; `a <=> NULL` is true of null, which is left to Spark.
    if isinstance(one, EqualNullSafe) and one.value is None:
        return None
    return frozenset(value for value in values if isinstance(value, str))


def _integer_range(one: Filter) -> tuple[int, int]:
    everything = (0, _INT64_MAX)
    value = getattr(one, "value", None)
    if isinstance(one, In):
        numbers = [number for number in one.value if _is_integer(number)]
        return (min(numbers), max(numbers)) if numbers and len(numbers) == len(one.value) else everything
    if not isinstance(value, int) or isinstance(value, bool):
        return everything
    if isinstance(one, EqualTo | EqualNullSafe):
        return value, value
    if isinstance(one, GreaterThan | GreaterThanOrEqual):
        return value + isinstance(one, GreaterThan), _INT64_MAX
    if isinstance(one, LessThan | LessThanOrEqual):
        return 0, value - isinstance(one, LessThan)
    return everything


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _by_time(wanted: Wanted, one: Filter) -> Wanted:
    if isinstance(one, In):
        times = [_seconds(value) for value in one.value]
        known = [time for time in times if time is not None]
        if not known or len(known) != len(times):
            return wanted
        return _between(wanted, math.floor(min(known)), math.ceil(max(known)))
    seconds = _seconds(getattr(one, "value", None))
    if seconds is None:
        return wanted
    if isinstance(one, EqualTo | EqualNullSafe):
        return _between(wanted, math.floor(seconds), math.ceil(seconds))
    if isinstance(one, GreaterThan | GreaterThanOrEqual):
        return _between(wanted, math.floor(seconds), None)
    if isinstance(one, LessThan | LessThanOrEqual):
        return _between(wanted, None, math.ceil(seconds))
    return wanted


def _seconds(value: object) -> float | None:
    # Spark gives timestamps with a time zone; one without has none that is known here.
    if isinstance(value, datetime) and value.tzinfo is not None:
        return (value - datetime.fromtimestamp(0, UTC)).total_seconds()
    return None


def _between(wanted: Wanted, first: int | None, last: int | None) -> Wanted:
    firsts = [second for second in (wanted.first_second, first) if second is not None]
    lasts = [second for second in (wanted.last_second, last) if second is not None]
    return replace(wanted, first_second=max(firsts, default=None), last_second=min(lasts, default=None))


def _by_position(wanted: Wanted, ranges: dict[str, tuple[int, int]]) -> Wanted:
    if any(least > most for least, most in ranges.values()):
        return replace(wanted, nothing=True)
    # A part counts only where all parts before it have one value; else its whole range is possible.
    least, most = [0, 0, 0], [_INT64_MAX] * 3
    fixed = True
    for index, part in enumerate(_POSITION_PARTS):
        low, high = ranges[part]
        if fixed:
            least[index], most[index] = low, high
        fixed = fixed and low == high
    first = Position(*least) if any(least) else None
    last = Position(*most) if most != [_INT64_MAX] * 3 else None
    return replace(wanted, first=first, last=last)
