"""Selection of tables: `TableFilter`, anchored regular expressions on `database.table`.

Tables that snapshots make on the server: those of `SNAPSHOT_DATABASE`, among them that of `maps_of_marks(block)`.

A snapshot copies rows of other tables into shadows, with marks beside them. Whatever selects tables leaves them out:
the rules of a table do not apply to its shadows (docs/rules.md).

Selection of event groups: `GroupFilter`, by GTID, by origin and by time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, overload

import numpy as np

from binlog_format.errors import OptionError
from binlog_format.events.layout import EventType
from binlog_format.events.table_map_layout import TABLE_BODY_OFFSET
from binlog_format.gtids.gtid_history import covered_groups
from binlog_format.gtids.gtid_set import DomainStarts

if TYPE_CHECKING:
    from binlog_format.block import Block
    from binlog_format.events.table_map import TableLayout
    from binlog_format.gtids.gtid_set import Taken
    from binlog_format.kernels import Int64s, Mask

SNAPSHOT_DATABASE = "binlog_stream"
"""Database of shadows and marks: tables in it are nobody's source."""
MARKS_TABLE = "snapshot_marks"
SHADOW_PREFIX = "s_"


_MARKS_NAME = b"".join(bytes([len(name)]) + name.encode() + b"\0" for name in (SNAPSHOT_DATABASE, MARKS_TABLE))
"""The name as the body of a table map begins with it."""


def maps_of_marks(block: Block) -> Int64s:
    """Table maps of the table of marks in a block, as rows of its events."""
    data = block.data
    maps = np.flatnonzero(block.events["type"] == EventType.TABLE_MAP)
    for offset, byte in enumerate(_MARKS_NAME):
        if not len(maps):
            break
        places = block.events["start"][maps] + TABLE_BODY_OFFSET + offset
        maps = maps[data[np.minimum(places, len(data) - 1)] == byte]
    return maps


# A comma inside {2,5} or [a,b] belongs to the expression.
_SEPARATOR = re.compile(r",(?![^{}\[\]]*[}\]])")

_ANY_NAME = "\ue000"
"""The name of no table: what matches it matches all names."""


def check_table_name(name: str, table: str | None) -> None:
    """See that an option that names one table names its database too."""
    if table is not None and not all(table.partition(".")):
        raise OptionError(
            "INVALID_VALUE", f'option {name}: expected database.table, for example shop.orders, got "{table}"'
        )


class TableFilter:
    r"""Accepts a table that one of *tables* matches as a whole, and none of *exclude*.

    Tables of snapshots (`snapshot_tables`) are never accepted, whatever is asked for: they hold rows of others.

    Args:
        tables: Regular expressions on `database.table`, separated by commas; None or empty: all tables.
        exclude: The same, for what to leave out; None or empty: nothing.
        databases: Only tables of these databases; None: of all.
        names: Only tables with these names, in whatever database; None: all.
    """

    def __init__(
        self,
        tables: str | None = None,
        exclude: str | None = None,
        *,
        databases: frozenset[str] | None = None,
        names: frozenset[str] | None = None,
    ) -> None:
        self._tables = _compiled("tables", tables)
        self._exclude = _compiled("excludeTables", exclude)
        self._databases = databases
        self._names = names
        self._known: dict[tuple[str, str], bool] = {}

    def accepts(self, layout: TableLayout) -> bool:
        """True if rows of this table are wanted."""
        return self.accepts_name(layout.database, layout.table)

    @property
    def accepts_all(self) -> bool:
        """True if nothing is left out, also statements about no table."""
        return not (self._tables or self._exclude or self._databases is not None or self._names is not None)

    def accepts_name(self, database: str, table: str) -> bool:
        """The same, where only the name is known."""
        key = (database, table)
        known = self._known.get(key)
        if known is None:
            is_there = not self._is_left_out(database) and (self._names is None or table in self._names)
            known = self._known[key] = is_there and self.accepts_text(f"{database}.{table}")
        return known

    def may_accept_in(self, database: str) -> bool:
        """True if a table of *database* may be accepted, as far as the expressions show it."""
        if self._is_left_out(database):
            return False
        if any(expression.fullmatch(f"{database}.{_ANY_NAME}") for expression in self._exclude):
            return False
        return not self._tables or any(_may_be_about(expression.pattern, database) for expression in self._tables)

    def _is_left_out(self, database: str) -> bool:
        return database == SNAPSHOT_DATABASE or (self._databases is not None and database not in self._databases)

    def accepts_text(self, name: str) -> bool:
        """True if the expressions accept a name, of a table or of anything else."""
        wanted = not self._tables or any(expression.fullmatch(name) for expression in self._tables)
        return wanted and not any(expression.fullmatch(name) for expression in self._exclude)


def split_expressions(text: str) -> list[str]:
    """The expressions in *text*, which are separated by commas."""
    return [part.strip() for part in _SEPARATOR.split(text) if part.strip()]


_ESCAPE = re.compile(r"\\.", re.DOTALL)
_FLAGS = re.compile(r"\(\?[a-zA-Z]+\)")


@overload
def as_folded(expressions: str, folds_names: bool | None) -> str: ...
@overload
def as_folded(expressions: str | None, folds_names: bool | None) -> str | None: ...
def as_folded(expressions: str | None, folds_names: bool | None) -> str | None:
    """Comma-separated expressions on tables; they match in any case where the server folds names.

    It logs rows under small letters, so an expression with a capital would be for no table. Expressions without
    capitals, and those that this function gave, stay as they are.
    """
    if expressions is None or not folds_names:
        return expressions
    return ",".join(map(_folded, split_expressions(expressions)))


def _folded(expression: str) -> str:
    flags = _FLAGS.match(expression)
    is_folded = "i" in flags[0] if flags else expression.startswith("(?i:") and expression.endswith(")")
    text = _ESCAPE.sub("", _FLAGS.sub("", expression))
    if is_folded or text == text.lower():
        return expression
    return f"(?i{expression[2:]}" if flags else f"(?i:{expression})"


def _may_be_about(expression: str, database: str) -> bool:
    # Most expressions are written as two, with the dot between them.
    databases, dot, _ = re.sub(r"\[\.\]", r"\\.", expression).partition(r"\.")
    try:
        return not dot or re.fullmatch(databases, database, re.DOTALL) is not None
    except re.error:
        return True  # the dot is within a group


def _compiled(option: str, text: str | None) -> list[re.Pattern[str]]:
    expressions = []
    for part in split_expressions(text or ""):
        try:
            expressions.append(re.compile(part, re.DOTALL))  # a name may have ends of lines
        except re.error as error:
            raise OptionError(
                "INVALID_VALUE",
                f'option {option}: expected regular expressions on database.table, got "{part}": {error}',
                hint=r"Expressions are separated by commas and match the whole name, for example shop\.(orders|items)",
            ) from error
    return expressions


@dataclass(frozen=True, slots=True)
class GroupFilter:
    """Drops the groups that have been taken at a GTID position or set, those that another one does not reach, and more.

    Attributes:
        skip: What has been taken; None: nothing has.
        until: Only what this covers is wanted; None: everything. A domain or source that it does not name is not
            wanted. A group without GTID is covered by nothing: it is kept by `skip`, dropped by `until`.
        ignored_domains: GTID domains (MariaDB) whose groups are dropped; a group without GTID is in none.
        ignored_servers: Servers whose groups are dropped: those on which they were committed first.
        first_second: Groups that were committed before are dropped: seconds since 1970 UTC.
        last_second: Groups that were committed later are dropped.
    """

    skip: Taken | None = None
    until: Taken | None = None
    ignored_domains: tuple[int, ...] = ()
    ignored_servers: tuple[int, ...] = ()
    first_second: int | None = None
    last_second: int | None = None

    def keep(self, block: Block) -> Mask | None:
        """True for each wanted group of *block*; None when all are."""
        masks = list(self._masks(block)) if self != ALL_GROUPS else []
        if not masks:
            return None
        keep: Mask = np.logical_and.reduce(masks)
        return keep

    def _masks(self, block: Block) -> list[Mask]:
        groups = block.groups
        masks: list[Mask] = []
        if self.skip is not None:
            masks.append(~_covered(self.skip, block))
        if self.until is not None:
            masks.append(_covered(self.until, block))
        if self.ignored_domains:
            is_of_domain = groups["has_gtid"] & (groups["gtid_source"] < 0)
            masks.append(~(is_of_domain & np.isin(groups["domain"], self.ignored_domains)))
        if self.ignored_servers:
            # The header of the first event records it of groups without GTID too.
            servers = block.events["server_id"][groups["first_event"]]
            masks.append(~np.isin(servers, self.ignored_servers))
        if self.first_second is not None:
            masks.append(groups["timestamp"].astype(np.int64) >= self.first_second)
        if self.last_second is not None:
            masks.append(groups["timestamp"].astype(np.int64) <= self.last_second)
        return masks


def _covered(taken: Taken, block: Block) -> Mask:
    if isinstance(taken, DomainStarts):
        return taken.covered(block.groups)
    return covered_groups(taken, block.groups, block.gtid_sources)


ALL_GROUPS = GroupFilter()
"""Filter that takes all groups."""
