"""Steps of rows: `rows_steps`; `linked_rows_steps` where actions of foreign keys (`Link`) are done in targets."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from binlog_streaming.plan.batch_plan import ROWS_STEP, RowsStep

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set

    from binlog_connector.schema.definitions import TableName
    from binlog_connector.schema.foreign_keys import Cascade, ForeignKey, ForeignKeys
    from binlog_format.position import Position
    from binlog_streaming.plan.batch_plan import ChangeStep, IndexPart, LogPlace
    from binlog_streaming.plan.cascades import Touched

    Counts = Callable[[TableName, str, LogPlace | None], bool]
    """Function of a table, a snapshot (empty: changes) and the statement before the rows: `Snapshots.counts`."""


class Link(NamedTuple):
    """A foreign key, for as long as it is the same.

    Attributes:
        child: Whose rows it changes.
        key: It names the parent.
        since: From the event group at this position on.
        until: Up to the one before this position.
    """

    child: TableName
    key: ForeignKey
    since: Position
    until: Position


@dataclass(frozen=True, slots=True)
class LinkedRowsStep:
    """Rows of tables that foreign keys link, between two statements about any of them.

    Attributes:
        number: As of `RowsStep`.
        rows: One for each table, children before their parents: in this order they are committed; see `groups`. A
            table's rows may have no parts: then foreign keys alone change it.
        outside: Changes of parents that have no targets here, or none yet.
        after: Only rows after this place.
        before: Only rows before this place.
    """

    number: int
    rows: tuple[RowsStep, ...]
    links: tuple[Link, ...]
    outside: tuple[Touched, ...] = ()
    after: LogPlace | None = None
    before: LogPlace | None = None

    @property
    def place(self) -> LogPlace:
        """Approximate start."""
        starts = [part.start for rows in self.rows for part in rows.parts] + [part.start for part in self.outside]
        return self.after or (min(starts), 0)

    @property
    def tables(self) -> tuple[TableName, ...]:
        """Tables of the rows."""
        return tuple(row.table for row in self.rows)

    @property
    def groups(self) -> list[tuple[TableName, ...]]:
        """The same; tables that foreign keys link in a circle stand together."""
        return groups_children_first(self.tables, self.links)


@dataclass(frozen=True, slots=True)
class Appliance:
    """Cascades that can be applied to targets.

    Attributes:
        takes_inline: Whether the servers make a foreign key of REFERENCES in a column's own words; None: some do.
    """

    is_applied: Callable[[TableName], bool]
    takes_inline: bool | None

    def is_real(self, key: ForeignKey) -> bool:
        """True if the server may have the key."""
        return not key.inline or self.takes_inline is not False

    def obstacle(self, cascade: Cascade, root: Touched) -> str:
        """Reason why a cascade after a change of *root* cannot be applied to the child's targets; empty: it can.

        Args:
            root: Of the table whose changes the log has.
        """
        key = cascade.key
        if key.inline and self.takes_inline is None:
            return "it is in a column's own words, and the servers of this log differ in what they make of that"
        if key.parent != root.table and not self.is_applied(key.parent):
            return f"it comes through {key.parent}, for which it is not done"
        if key.engine_doubted:
            return (
                f"a statement names an engine without foreign keys for {cascade.child}, and its sql_mode, without "
                "NO_ENGINE_SUBSTITUTION, lets the server take another one"
            )
        if key.parent_doubted:
            return (
                f"a statement made {key.parent} anew under it, or changed the type of its columns, which servers take "
                "with foreign_key_checks=0 alone, and the log does not show that the key still acts"
            )
        if root.outside and not key.engine_stated:
            return (
                f"{root.table} was changed outside of a transaction, and the statement that made the foreign key names "
                "no engine, or its sql_mode lacks NO_ENGINE_SUBSTITUTION: an engine without transactions passes over "
                "foreign keys"
            )
        return ""


def links_in(
    touched: Iterable[Touched], states: Sequence[tuple[Position, ForeignKeys]], end: Position, appliance: Appliance
) -> list[Link]:
    """The foreign keys through which a batch may change rows of tables in which that is done.

    Args:
        touched: The row events of the batch to which foreign keys apply.
        states: The foreign keys, each from a position on.
    """
    found: dict[Link, None] = {}
    parts = list(touched)
    for number, (since, keys) in enumerate(states):
        until = states[number + 1][0] if number + 1 < len(states) else end
        for part in parts:
            if max(part.start, since) < min(part.end, until):
                for cascade in reached(part, keys):
                    if appliance.is_applied(cascade.child) and appliance.is_real(cascade.key):
                        found[Link(*cascade, since, until)] = None
    return list(found)


def reached(part: Touched, keys: ForeignKeys) -> list[Cascade]:
    """Foreign keys through which changes of a parent may change rows of other tables, those through others too."""
    by_delete = keys.reached_by_delete(part.table) if part.deletes else []
    columns = keys.updating_columns(part.table) if part.updates else frozenset()
    by_update = keys.reached_by_update(part.table, columns) if columns else []
    return list(dict.fromkeys((*by_delete, *by_update)))


def groups_children_first(tables: Iterable[TableName], links: Iterable[Link]) -> list[tuple[TableName, ...]]:
    """*tables* in an order in which each comes after all that its changes are carried on to.

    Tables in a circle, where changes of each are carried on to all others, have no such order: they are one group, by
    name. All other groups are of one table.
    """
    names = sorted(tables)
    children: dict[TableName, set[TableName]] = {name: set() for name in names}
    for link in links:
        if link.key.parent in children and link.child in children:
            children[link.key.parent].add(link.child)
    reach = {name: _reachable(name, children) for name in names}
    groups = {
        name: tuple(other for other in names if other == name or {other, name} <= reach[other] & reach[name])
        for name in names
    }
    order: dict[TableName, None] = {}
    found = []
    while len(order) < len(names):
        ready = [name for name in names if name not in order and reach[name] - {*groups[name]} <= order.keys()]
        for group in dict.fromkeys(groups[name] for name in ready):
            found.append(group)
            order.update(dict.fromkeys(group))
    return found


def _reachable(name: TableName, children: Mapping[TableName, Set[TableName]]) -> set[TableName]:
    found: set[TableName] = set()
    ahead = [name]
    while ahead:
        new = children[ahead.pop()] - found
        found |= new
        ahead += new
    return found


def rows_steps(
    name: TableName, parts: Sequence[IndexPart], about: Sequence[ChangeStep], counts: Counts
) -> Iterator[RowsStep]:
    """The rows of a table, cut at the statements about it.

    Args:
        parts: Where its rows are, in any order.
        about: The statements, by number.
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
        about: The statements, by number.
    """
    for number, after, before in _spans(about):
        here = [link for link in links if _overlaps(link, after, before)]
        parents = {link.key.parent for link in here}
        # A table that waits for its snapshot has no rows here, but what happens to its rows is carried on all the same.
        live = {name for name in parts if counts(name, "", after)}
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
            if part.table in parents - live and (part.updates or part.deletes) and _meets(part, after, before)
        )
        tables = {name for name, some in within.items() if some}
        if outside or tables & parents:
            tables |= {link.child for link in here} & live
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
