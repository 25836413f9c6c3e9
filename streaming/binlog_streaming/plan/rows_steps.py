"""The steps of a batch that bring rows: `rows_steps` of one table, `linked_rows_steps` of tables that keys link."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from binlog_streaming.plan.batch_plan import ROWS_STEP, RowsStep
from binlog_streaming.plan.cascade_links import LinkedRowsStep, groups_children_first

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from binlog_connector.schema.definitions import TableName
    from binlog_streaming.plan.batch_plan import ChangeStep, IndexPart, LogPlace
    from binlog_streaming.plan.cascade_links import Link
    from binlog_streaming.plan.cascades import Touched

    Counts = Callable[[TableName, str, LogPlace | None], bool]
    """Function of a table, a snapshot (empty: changes) and the statement before the rows: `Snapshots.counts`."""


def rows_steps(
    name: TableName, parts: Sequence[IndexPart], about: Sequence[ChangeStep], counts: Counts
) -> Iterator[RowsStep]:
    """The rows of a table, cut at the statements about it.

    Args:
        name: Of the table.
        parts: Where its rows are, in any order.
        about: The statements, by number.
        counts: Which rows are applied.
    """
    if not parts:
        return
    parts = sorted(parts, key=lambda part: part.start)
    for number, after, before in _spans(about):
        within = tuple(part for part in parts if _meets(part, after, before) and counts(name, part.snapshot, after))
        if within:
            yield RowsStep(number, name, within, after, before)


def linked_rows_steps(
    parts: Mapping[TableName, Sequence[IndexPart]],
    links: Sequence[Link],
    touched: Sequence[Touched],
    about: Sequence[ChangeStep],
    counts: Counts,
) -> Iterator[LinkedRowsStep]:
    """The rows of tables that foreign keys link, cut at the statements about any of them.

    Args:
        parts: Where rows are, of each table that has targets, also of those that have no rows.
        links: The foreign keys; all children are in *parts*.
        touched: Where rows of parents are.
        about: The statements, by number.
        counts: Which rows are applied.
    """
    for number, after, before in _spans(about):
        here = [one for one in links if _overlaps(one, after, before)]
        parents = {one.key.parent for one in here}
        within = {
            name: tuple(
                part
                for part in sorted(some, key=lambda part: part.start)
                if _meets(part, after, before) and counts(name, part.snapshot, after)
            )
            for name, some in parts.items()
        }
        outside = tuple(
            part
            for part in touched
            if part.table in parents - parts.keys() and (part.updates or part.deletes) and _meets(part, after, before)
        )
        tables = {name for name, some in within.items() if some}
        if outside or tables & parents:
            tables |= {one.child for one in here}
        if tables:
            order = itertools.chain.from_iterable(groups_children_first(tables, here))
            rows = (RowsStep(number, name, within[name], after, before) for name in order)
            yield LinkedRowsStep(number, tuple(rows), tuple(here), outside, after, before)


def _spans(about: Sequence[ChangeStep]) -> Iterator[tuple[int, LogPlace | None, LogPlace | None]]:
    # Before, between and after statements: number of the rows' step, and the places between which they are.
    places = [None, *(change.place for change in about), None]
    numbers = [ROWS_STEP, *(change.number + ROWS_STEP for change in about)]
    for number, (after, before) in zip(numbers, itertools.pairwise(places), strict=True):
        if before is None or before != after:
            yield number, after, before


def _meets(part: IndexPart | Touched, after: LogPlace | None, before: LogPlace | None) -> bool:
    return (after is None or part.end > after[0]) and (before is None or part.start <= before[0])


def _overlaps(link: Link, after: LogPlace | None, before: LogPlace | None) -> bool:
    return (after is None or link.until > after[0]) and (before is None or link.since <= before[0])
