"""Tables of which more is wanted than their table maps have: `DefinedTables(expressions)`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_connector.schema.definitions import TableName
from binlog_connector.schema.ghosts import origin_of
from binlog_format.views.table_filter import TableFilter

if TYPE_CHECKING:
    from binlog_format.events.table_map import TableLayout


class DefinedTables:
    """Tables that expressions name, and what gh-ost and pt-online-schema-change make beside these.

    Args:
        expressions: As for `TableFilter`.
    """

    def __init__(self, expressions: str) -> None:
        self._filter = TableFilter(expressions)

    def has(self, layout: TableLayout) -> bool:
        """Whether a table is one of them."""
        name = TableName(layout.database, layout.table)
        origin = origin_of(name)
        return self._filter.accepts_name(*name) or (origin is not None and self._filter.accepts_name(*origin))
