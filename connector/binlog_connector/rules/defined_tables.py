"""Tables of which more is wanted than their table maps have: `DefinedTables(expressions)`, `schemas_under(rules)`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from binlog_connector.schema.definitions import TableName
from binlog_connector.schema.online_schema_change import origin_of
from binlog_format.views.table_filter import TableFilter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binlog_connector.rules.row_rules import TableRules
    from binlog_connector.schema.history import SchemaHistory
    from binlog_format.events.table_map import TableLayout
    from binlog_format.position import Position
    from binlog_format.rows.decoding import TableSchemas


class DefinedTables:
    """Tables that expressions name, and what gh-ost and pt-online-schema-change make beside these.

    Args:
        expressions: As for `TableFilter`.
    """

    def __init__(self, expressions: str) -> None:
        self._filter = TableFilter(expressions)

    def has(self, layout: TableLayout) -> bool:
        """True if a table is one of them."""
        name = TableName(layout.database, layout.table)
        origin = origin_of(name)
        return self._filter.accepts_name(*name) or (origin is not None and self._filter.accepts_name(*origin))


def schemas_under(rules: TableRules | None, history: SchemaHistory) -> TableSchemas:
    """*history* for who reads rows under *rules*: what these ask of definitions is looked for before a part begins."""
    wanted = None if rules is None else rules.defined_tables
    return history if wanted is None else _DefinedSchemas(history, DefinedTables(wanted))


@dataclass(frozen=True, slots=True)
class _DefinedSchemas:
    history: SchemaHistory
    tables: DefinedTables

    def edges(self, database: str, table: str) -> Sequence[Position]:
        """See `TableSchemas`."""
        return self.history.edges(database, table)

    def completed(self, layout: TableLayout, position: Position) -> TableLayout:
        """See `TableSchemas`."""
        find = self.history.defined if self.tables.has(layout) else self.history.completed
        return find(layout, position)
