"""Which tables are wanted: `TableFilter`, anchored regular expressions on `database.table`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from binlog_format.errors import OptionError

if TYPE_CHECKING:
    from binlog_format.events.table_map import TableLayout

# A comma inside {2,5} or [a,b] belongs to the expression.
_SEPARATOR = re.compile(r",(?![^{}\[\]]*[}\]])")


def check_table_name(name: str, table: str | None) -> None:
    """See that an option that names one table names its database too.

    Raises:
        OptionError: `INVALID_VALUE`.
    """
    if table is not None and not all(table.partition(".")):
        raise OptionError(
            "INVALID_VALUE", f'option {name}: expected database.table, for example shop.orders, got "{table}"'
        )


class TableFilter:
    r"""Accepts a table that one of *tables* matches as a whole, and none of *exclude*.

    Args:
        tables: Regular expressions on `database.table`, separated by commas; None or empty: all tables.
        exclude: The same, for what to leave out; None or empty: nothing.
        databases: Only tables of these databases; None: of all.
        names: Only tables with these names, in whatever database; None: all.

    Raises:
        OptionError: `INVALID_VALUE`: not a regular expression.
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
        """Whether rows of this table are wanted."""
        return self.accepts_name(layout.database, layout.table)

    @property
    def accepts_all(self) -> bool:
        """Whether nothing is left out: also what is about no table."""
        return not (self._tables or self._exclude or self._databases is not None or self._names is not None)

    def accepts_name(self, database: str, table: str) -> bool:
        """The same, where only the name is known."""
        key = (database, table)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._matches(database, table)
        return known

    def _matches(self, database: str, table: str) -> bool:
        if self._databases is not None and database not in self._databases:
            return False
        if self._names is not None and table not in self._names:
            return False
        return self.accepts_text(f"{database}.{table}")

    def accepts_text(self, name: str) -> bool:
        """Whether the expressions accept a name, of a table or of anything else."""
        wanted = not self._tables or any(expression.fullmatch(name) for expression in self._tables)
        return wanted and not any(expression.fullmatch(name) for expression in self._exclude)


def split_expressions(text: str) -> list[str]:
    """The expressions in *text*, which are separated by commas."""
    return [part.strip() for part in _SEPARATOR.split(text) if part.strip()]


def _compiled(option: str, text: str | None) -> list[re.Pattern[str]]:
    expressions = []
    for part in split_expressions(text or ""):
        try:
            expressions.append(re.compile(part))
        except re.error as error:
            raise OptionError(
                "INVALID_VALUE",
                f'option {option}: expected regular expressions on database.table, got "{part}": {error}',
                hint=r"Expressions are separated by commas and match the whole name, for example shop\.(orders|items)",
            ) from error
    return expressions
