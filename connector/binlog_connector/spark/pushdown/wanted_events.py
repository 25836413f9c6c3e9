"""Filters that Spark hands to a batch query of view `logs`, as far as they save reading: `events_wanted_by`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from binlog_connector.spark.pushdown.filter_values import (
    INT64_MAX,
    INT64_MIN,
    both,
    integer,
    micros,
    range_of,
    texts_of,
)
from binlog_format.structured.views.event_filter import ALL_EVENTS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql.datasource import Filter

    from binlog_format.structured.views.event_filter import EventFilter

_TEXTS = {
    "severity": "severities",
    "category": "categories",
    "function": "functions",
    "file": "files",
    "format": "formats",
}
"""Columns of texts, and the fields of `EventFilter`."""

_NS_PER_MICRO = 1_000


def events_wanted_by(filters: Iterable[Filter]) -> EventFilter:
    """Events that all of *filters* together allow; Spark alone applies filters that are not understood."""
    wanted = ALL_EVENTS
    for one in filters:
        path: tuple[str, ...] = getattr(one, "attribute", ())
        if len(path) == 1:
            wanted = _narrowed(wanted, one, path[0])
    return wanted


def _narrowed(wanted: EventFilter, one: Filter, column: str) -> EventFilter:
    if column in _TEXTS:
        texts = texts_of(one)
        name = _TEXTS[column]
        return wanted if texts is None else replace(wanted, **{name: both(getattr(wanted, name), texts)})  # type: ignore[arg-type]
    if column == "severity_no":
        least, most = range_of(one, integer)
        return replace(
            wanted,
            severity_least=max(wanted.severity_least, least),
            severity_most=min(wanted.severity_most, most),
        )
    if column == "ns":
        return _in_time(wanted, *range_of(one, integer))
    if column == "time":
        # A time is cut to microseconds: all nanoseconds of the last one count.
        least, most = range_of(one, micros)
        return _in_time(wanted, least * _NS_PER_MICRO, most * _NS_PER_MICRO + _NS_PER_MICRO - 1)
    return wanted


def _in_time(wanted: EventFilter, least: int, most: int) -> EventFilter:
    least = max(least, INT64_MIN if wanted.first_ns is None else wanted.first_ns)
    most = min(most, INT64_MAX if wanted.last_ns is None else wanted.last_ns)
    if (least, most) == (INT64_MIN, INT64_MAX):
        return wanted
    return replace(wanted, first_ns=least, last_ns=most)
