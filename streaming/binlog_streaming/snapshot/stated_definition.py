"""A table's whole definition, for a mark: `locked_definition(session, schema, table)`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from binlog_connector.schema.stated_definitions import (
    DATABASE_CHARSET,
    LOWER_CASE,
    SERVER_VERSION,
    STATEMENT,
    TIME_ZONE,
)
from binlog_streaming.snapshot.source_table import definition_of
from binlog_streaming.snapshot.sql_text import table_sql

if TYPE_CHECKING:
    from binlog_streaming.server.session import ServerSession


def locked_definition(session: ServerSession, schema: str, table: str) -> dict[str, Any]:
    """What SHOW CREATE TABLE prints, and what else of the server decides how it is read.

    Call it within a transaction: until that ends no other session can alter the table, so a mark that it commits is at
    the one place of the log where the definition is this.

    Args:
        session: On the server, without a sql_mode that changes how names are quoted.
        schema: Database of the table.
        table: Its name.

    Raises:
        pymysql.MySQLError: What the server answered.
    """
    source = table_sql(schema, table)
    session.try_rows(f"SELECT 1 FROM {source} LIMIT 0")  # ALTER TABLE waits from here on
    time_zone, lower_case, version = session.try_rows(
        "SELECT @@SESSION.time_zone, @@GLOBAL.lower_case_table_names, @@GLOBAL.version"
    )[0]
    # Defaults of TIMESTAMP columns are printed in the session's time zone; SYSTEM would be none that a reader knows.
    session.try_execute("SET SESSION time_zone = %s", TIME_ZONE)
    text = definition_of(session.try_rows(f"SHOW CREATE TABLE {source}")[0][1])
    session.try_execute("SET SESSION time_zone = %s", time_zone)
    charsets = session.try_rows(
        "SELECT DEFAULT_CHARACTER_SET_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = %s", schema
    )
    return {
        STATEMENT: text,
        DATABASE_CHARSET: str(charsets[0][0]) if charsets else None,
        LOWER_CASE: int(lower_case),
        SERVER_VERSION: str(version),
    }
