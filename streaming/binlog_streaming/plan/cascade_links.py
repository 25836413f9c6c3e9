"""Foreign keys whose actions are done in the targets of their children: `Link`, `links_in`, `LinkedRowsStep`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence, Set

    from binlog_connector.schema.definitions import TableName
    from binlog_connector.schema.foreign_keys import Cascade, ForeignKey, ForeignKeys
    from binlog_format.position import Position
    from binlog_streaming.plan.batch_plan import LogPlace, RowsStep
    from binlog_streaming.plan.cascades import Touched


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
        links: The foreign keys.
        outside: Changes of parents that have no targets here.
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
        return tuple(one.table for one in self.rows)

    @property
    def groups(self) -> list[tuple[TableName, ...]]:
        """The same; tables that foreign keys link in a circle stand together."""
        return groups_children_first(self.tables, self.links)


@dataclass(frozen=True, slots=True)
class Appliance:
    """Cascades that can be applied to targets.

    Attributes:
        is_applied: Whether a table has targets in which it is done.
        takes_inline: Whether the servers make a foreign key of REFERENCES in a column's own words; None: some do.
    """

    is_applied: Callable[[TableName], bool]
    takes_inline: bool | None

    def is_real(self, key: ForeignKey) -> bool:
        """True if the server may have the key."""
        return not key.inline or self.takes_inline is not False

    def obstacle(self, cascade: Cascade, root: TableName) -> str:
        """Reason why a cascade after a change of *root* cannot be applied to the child's targets; empty: it can.

        Args:
            cascade: The key.
            root: The table whose change the log has.
        """
        key = cascade.key
        if key.inline and self.takes_inline is None:
            return "it is in a column's own words, and the servers of this log differ in what they make of that"
        if key.parent != root and not self.is_applied(key.parent):
            return f"it comes through {key.parent}, for which it is not done"
        return ""


def links_in(
    touched: Iterable[Touched], states: Sequence[tuple[Position, ForeignKeys]], end: Position, appliance: Appliance
) -> list[Link]:
    """The foreign keys through which a batch may change rows of tables in which that is done.

    Args:
        touched: The row events of the batch to which foreign keys apply.
        states: The foreign keys, each from a position on.
        end: Of the batch.
        appliance: What can be done.
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
        name: tuple(one for one in names if one == name or {one, name} <= reach[one] & reach[name]) for name in names
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
