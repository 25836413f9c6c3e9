"""Filters that Spark hands to a batch query, as far as they save reading: `wanted_by(filters, view)` -> `Wanted`.

All filters stay with Spark too: what is left out here, its own evaluation would leave out. So a filter that is not
understood, or only partly, costs nothing but time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from binlog_connector.spark.options import View
from binlog_connector.spark.pushdown.filter_values import (
    INT64_MAX,
    INT64_MIN,
    both,
    integer,
    micros,
    range_of,
    texts_of,
)
from binlog_connector.spark.pushdown.wanted_events import events_wanted_by
from binlog_format.position import Position
from binlog_format.structured.views.event_filter import ALL_EVENTS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql.datasource import Filter

    from binlog_format.structured.views.event_filter import EventFilter

_MICROS_PER_SECOND = 1_000_000
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
    """The largest part of a log that a query can need.

    Attributes:
        databases: Only tables of these; None: of all.
        tables: Only tables with these names; None: all.
        ops: Only rows of these operations of view `changes`; None: of all.
        first_second: Only groups committed then or later: seconds since 1970 UTC.
        last_second: Only groups committed then or before.
        first: Only groups there or after it.
        last: Only groups there or before.
        nothing: No row can be wanted.
        events: Which events of a structured log.
    """

    databases: frozenset[str] | None = None
    tables: frozenset[str] | None = None
    ops: frozenset[str] | None = None
    first_second: int | None = None
    last_second: int | None = None
    first: Position | None = None
    last: Position | None = None
    nothing: bool = False
    events: EventFilter = ALL_EVENTS


ALL_WANTED = Wanted()


def wanted_by(filters: Iterable[Filter], view: View) -> Wanted:
    """The part that all of *filters* together allow."""
    if view is View.LOGS:
        return Wanted(events=events_wanted_by(filters))
    wanted = ALL_WANTED
    ranges: dict[str, tuple[int, int]] = dict.fromkeys(_POSITION_PARTS, (0, INT64_MAX))
    for one in filters:
        path: tuple[str, ...] = getattr(one, "attribute", ())
        if len(path) == 1:
            wanted = _by_column(wanted, one, path[0], view)
        elif len(path) == 2 and path[0] == _POSITION_COLUMNS.get(view) and path[1] in ranges:
            least, most = range_of(one, integer)
            known = ranges[path[1]]
            ranges[path[1]] = max(known[0], least), min(known[1], most)
    return _by_position(wanted, ranges)


def _by_column(wanted: Wanted, one: Filter, column: str, view: View) -> Wanted:
    if column == _TIME_COLUMNS.get(view):
        return _by_time(wanted, one)
    values = texts_of(one)
    # The typed views' own columns may have any name: those of changes and tables are theirs alone.
    if values is None or view not in (View.CHANGES, View.TABLES):
        return wanted
    if column == "database":
        return replace(wanted, databases=both(wanted.databases, values))
    if column == "table":
        return replace(wanted, tables=both(wanted.tables, values))
    if column == "op" and view is View.CHANGES:
        return replace(wanted, ops=both(wanted.ops, values))
    return wanted


def _by_time(wanted: Wanted, one: Filter) -> Wanted:
    least, most = range_of(one, micros)
    firsts, lasts = [wanted.first_second], [wanted.last_second]
    if least != INT64_MIN:
        firsts.append(least // _MICROS_PER_SECOND)
    if most != INT64_MAX:
        lasts.append(-(-most // _MICROS_PER_SECOND))
    return replace(
        wanted,
        first_second=max((second for second in firsts if second is not None), default=None),
        last_second=min((second for second in lasts if second is not None), default=None),
    )


def _by_position(wanted: Wanted, ranges: dict[str, tuple[int, int]]) -> Wanted:
    if any(least > most for least, most in ranges.values()):
        return replace(wanted, nothing=True)
    # A part counts only where all parts before it have one value; else its whole range is possible.
    least, most = [0, 0, 0], [INT64_MAX] * 3
    fixed = True
    for index, part in enumerate(_POSITION_PARTS):
        low, high = ranges[part]
        if fixed:
            least[index], most[index] = low, high
        fixed = fixed and low == high
    first = Position(*least) if any(least) else None
    last = Position(*most) if most != [INT64_MAX] * 3 else None
    return replace(wanted, first=first, last=last)
