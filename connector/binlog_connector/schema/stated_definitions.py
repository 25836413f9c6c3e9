"""Definitions that a snapshot writes into the log with its marks: `stated_definitions(block)`, `definition_statement`.

A table may be older than the log, and its CREATE TABLE be in no file of it. A snapshot begins with a mark that has the
whole SHOW CREATE TABLE, read while no ALTER TABLE could run; `binlog-stream snapshot --definitions` writes such marks
alone. Here one becomes a `DdlStatement` that holds from its place on, as if the table had been made anew there. It also
holds before that, back to the last statement about the table: `later_definitions`, for readers that else would stop.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from binlog_connector.schema.catalog import Catalog
from binlog_connector.schema.definitions import TableDefinition
from binlog_connector.schema.log_ddl import DdlStatement
from binlog_connector.schema.operations import CreateTable, DropDatabase, NotParsed, SetDatabaseCharset
from binlog_connector.schema.parsing.row_statements import ddl_operations
from binlog_connector.schema.parsing.session import MODE_NO_ENGINE_SUBSTITUTION
from binlog_format.events.layout import EventType
from binlog_format.names import folded_name
from binlog_format.position import Position
from binlog_format.vendor import Vendor
from binlog_format.views.filters import maps_of_marks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from binlog_connector.schema.definitions import TableName
    from binlog_connector.schema.operations import Operation
    from binlog_format.block import Block

STATEMENT = "create_table"
"""Key in a mark's `detail`: the text of SHOW CREATE TABLE, read with `TIME_ZONE` and without special modes."""
DATABASE_CHARSET = "database_charset"
LOWER_CASE = "lower_case_table_names"
SERVER_VERSION = "server_version"
TIME_ZONE = "+00:00"
"""Time zone of the times in the text, such as defaults of TIMESTAMP columns."""
BEGIN_KIND, DEFINITION_KIND = "begin", "definition"
"""Kinds of marks that have a definition."""


def stated_definitions(block: Block) -> Iterator[DdlStatement]:
    """The definitions that marks in a block of plain events state, in order."""
    if not len(maps_of_marks(block)):
        return
    from binlog_format.views.snapshot_events import marks_in  # compiled code takes a moment to load

    for mark in marks_in(block):
        statement = definition_statement(mark)
        if statement is not None:
            yield statement


def definition_statement(mark: Mapping[str, Any]) -> DdlStatement | None:
    """The definition that a mark states, as the CREATE TABLE of its place; None: it states none.

    Args:
        mark: A value of `binlog_format.views.snapshot_events.MARK_TYPE`. Marks of versions before this one have none.
    """
    if mark["kind"] not in (BEGIN_KIND, DEFINITION_KIND):
        return None
    try:
        detail = json.loads(mark["detail"])
    except ValueError:
        return None  # `snapshot_marks.mark_change` names it
    text = detail.get(STATEMENT) if isinstance(detail, dict) else None
    if not isinstance(text, str):
        return None
    return DdlStatement(
        Position.of(mark["position"]),
        mark["event_no"],
        text,
        database=mark["database"],
        sql_mode=MODE_NO_ENGINE_SUBSTITUTION,  # the engine is the table's
        server_charset=detail.get(DATABASE_CHARSET),
        vendor=Vendor(mark["vendor"]),
        commit_time=mark["commit_time"],
        time_zone=TIME_ZONE,
        explicit_timestamps=True,
        gtid=mark["gtid"],
        server_id=mark["server_id"],
        event_type=EventType.WRITE_ROWS_V1,
    )


def states_folding(mark: Mapping[str, Any]) -> bool | None:
    """True if the server of a mark folds names of tables (`lower_case_table_names`); None: not recorded."""
    try:
        detail = json.loads(mark["detail"])
    except (ValueError, TypeError):
        return None
    value = detail.get(LOWER_CASE) if isinstance(detail, dict) else None
    return None if value is None else int(value) != 0


def definition_of_server(name: TableName, text: str, position: Position, vendor: Vendor) -> DdlStatement:
    """A definition that was read from a server, for a place of its log. *text*: of SHOW CREATE TABLE."""
    return DdlStatement(
        position,
        0,
        text,
        database=name.database,
        sql_mode=MODE_NO_ENGINE_SUBSTITUTION,
        vendor=vendor,
        time_zone=TIME_ZONE,
        explicit_timestamps=True,
        event_type=EventType.WRITE_ROWS_V1,
    )


def is_stated(statement: DdlStatement) -> bool:
    """True if a statement is the definition in a mark: it changed nothing in the log."""
    return statement.event_type == EventType.WRITE_ROWS_V1


def definition_operations(statement: DdlStatement) -> Iterator[Operation]:
    """Facts known from a definition on: the table, and the character set of its database.

    Args:
        statement: Of a log, or of `definition_statement`.
    """
    operations = ddl_operations(statement)
    if is_stated(statement):
        if statement.server_charset:
            yield SetDatabaseCharset(statement.database, statement.server_charset, if_not_exists=True)
        operations = [
            replace(operation, is_stated=True) for operation in operations if isinstance(operation, CreateTable)
        ]
    yield from operations


class LaterDefinition(NamedTuple):
    """A definition that a mark states, as it holds before the mark: no statement changed the table in between.

    Attributes:
        after: The last statement before the mark that may be about the table; None: there is none.
    """

    after: Position | None
    before: Position
    definition: TableDefinition

    def holds_at(self, position: Position) -> bool:
        """True if rows at *position* are of a table with this definition."""
        return (self.after is None or self.after < position) and position < self.before


def later_definitions(statements: Iterable[DdlStatement]) -> dict[TableName, LaterDefinition]:
    """First definition of each table that a mark contains in a part of a log.

    Args:
        statements: All DDL of that part, and the definitions of its marks, in order.
    """
    found: dict[TableName, LaterDefinition] = {}
    # By small letters: whether the server folds names does not matter then.
    tables: dict[TableName, Position] = {}
    databases: dict[str, Position] = {}
    last: list[Position] = []
    catalog = Catalog()
    for statement in statements:
        for operation in definition_operations(statement):
            touched = catalog.apply(operation, statement.vendor, statement.session_id)
            if is_stated(statement):
                for name in touched - found.keys():
                    state, key = catalog.tables[name], name.lowered
                    places = [tables.get(key), databases.get(key.database), *last]
                    after = max((place for place in places if place is not None), default=None)
                    if isinstance(state, TableDefinition) and state.columns is not None:
                        found[name] = LaterDefinition(after, statement.position, state)
                continue
            tables |= dict.fromkeys((name.lowered for name in touched), statement.position)
            if isinstance(operation, DropDatabase):
                databases[folded_name(operation.database)] = statement.position
            elif isinstance(operation, NotParsed) and not operation.names:
                last = [statement.position]
    return found
