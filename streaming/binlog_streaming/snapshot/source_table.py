"""Description of a table on the server: `SourceTable`, its columns and key; `locked_definition`, all of it."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from binlog_connector.schema.stated_definitions import (
    DATABASE_CHARSET,
    LOWER_CASE,
    SERVER_VERSION,
    STATEMENT,
    TIME_ZONE,
)
from binlog_streaming.snapshot.sql_text import KeyColumn, key_column, table_sql, text_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binlog_streaming.server.session import ServerSession

_PRIMARY = "PRIMARY"
_NEXT_ID = re.compile(r" AUTO_INCREMENT=\d+")
_COMMENT = re.compile(r"\s*/\*.*?\*/")


class TableLock(StrEnum):
    """Lock that keeps the rows of a chunk unchanged until they are logged."""

    ROWS = "rows"
    """Shared locks on them."""
    TABLE = "table"
    """A lock on the table against changes: its engine locks no rows."""


_LOCKS = {"INNODB": TableLock.ROWS} | dict.fromkeys(("MYISAM", "ARIA", "MEMORY", "CSV", "ARCHIVE"), TableLock.TABLE)


@dataclass(frozen=True, slots=True)
class SourceColumn:
    """A column, as `information_schema.COLUMNS` describes it.

    Attributes:
        column_type: `COLUMN_TYPE`, for example `int(10) unsigned`.
        character_set: Of text; None: no text.
        collation: Of text; None: no text.
        is_generated: It is computed from others.
    """

    name: str
    column_type: str
    character_set: str | None
    collation: str | None
    is_generated: bool = False
    is_nullable: bool = True

    @property
    def value_type(self) -> tuple[str, str | None]:
        """Type of the column's values, without the way they are stored (compressed, old temporal formats)."""
        return _COMMENT.sub("", self.column_type).strip(), self.collation

    def to_json(self) -> list[str | None]:
        """The column in a mark of kind `begin`."""
        return [self.name, self.column_type, self.collation]


@dataclass(frozen=True, slots=True)
class Key:
    """An index that tells rows apart and has them in order. *columns*: columns of the index, in order."""

    index: str
    columns: tuple[KeyColumn, ...]

    @property
    def names(self) -> list[str]:
        """Names of its columns."""
        return [column.name for column in self.columns]


@dataclass(frozen=True, slots=True)
class SourceTable:
    """A table on the server.

    Attributes:
        columns: All columns in order, invisible and generated ones too.
        primary_key: Names of its columns; empty: it has none.
        key: What chunks are cut by; None: no index is of use, the table is one chunk.
        logged_key: Names of the columns that the log calls its key: without a primary key those of the first unique
            key that can have no NULL; empty: it has none.
    """

    schema: str
    name: str
    columns: tuple[SourceColumn, ...]
    primary_key: tuple[str, ...]
    key: Key | None
    engine: str
    logged_key: tuple[str, ...] = ()

    @property
    def lock(self) -> TableLock | None:
        """Lock for a chunk; None: its rows are not in the server, or are locked in a way not known here."""
        return _LOCKS.get(self.engine.upper())

    @property
    def full_name(self) -> str:
        """`database.table`."""
        return f"{self.schema}.{self.name}"

    @property
    def row_key(self) -> list[str]:
        """Names of the columns that tell rows apart: the primary key, else the unique key that chunks are cut by."""
        return list(self.primary_key) or (self.key.names if self.key is not None else [])

    @property
    def column_names(self) -> list[str]:
        """Names of all columns, in order."""
        return [column.name for column in self.columns]


def read_table(session: ServerSession, schema: str, name: str) -> SourceTable:
    """Look at a table; without columns: it does not exist, or may not be seen."""
    columns = read_columns(session, schema, name)
    by_name = {column.name: column for column in columns}
    indexes = _unique_indexes(session, schema, name) if columns else {}
    usable = ((index, _key_columns(parts, by_name)) for index, parts in indexes.items() if _is_usable(parts))
    keys = [Key(index, key_columns) for index, key_columns in usable if key_columns]
    keys.sort(key=lambda key: (key.index != _PRIMARY, len(key.columns)))
    primary_key = _names(indexes.get(_PRIMARY, ()))
    engine = read_engine(session, schema, name)
    logged_key = primary_key or next((_names(parts) for parts in indexes.values() if _is_promoted(parts)), ())
    return SourceTable(schema, name, columns, primary_key, keys[0] if keys else None, engine, logged_key)


def read_engine(session: ServerSession, schema: str, name: str) -> str:
    """The engine that a table is kept in; empty: there is none that the account may see."""
    engine = session.value(
        "SELECT ENGINE FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s", schema, name
    )
    return str(engine or "")


def read_columns(session: ServerSession, schema: str, name: str) -> tuple[SourceColumn, ...]:
    """The columns of a table, in order."""
    rows = session.rows(
        "SELECT COLUMN_NAME, COLUMN_TYPE, CHARACTER_SET_NAME, COLLATION_NAME,"
        # The columns of a row's period are in MariaDB's expressions, too.
        " GENERATION_EXPRESSION NOT IN ('', 'ROW START', 'ROW END'), IS_NULLABLE = 'YES'"
        " FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s ORDER BY ORDINAL_POSITION",
        schema,
        name,
    )
    return tuple(SourceColumn(str(row[0]), text_of(row[1]), row[2], row[3], bool(row[4]), bool(row[5])) for row in rows)


def definition_of(create_table: object) -> str:
    """Result of `SHOW CREATE TABLE`, without the next number of AUTO_INCREMENT."""
    return _NEXT_ID.sub("", text_of(create_table))


def locked_definition(session: ServerSession, schema: str, table: str) -> dict[str, Any]:
    """Result of SHOW CREATE TABLE, and the server's settings that decide how it is read.

    Call it within a transaction: until that ends no other session can alter the table, so a mark that it commits is at
    the one place of the log where the definition is this.

    Args:
        session: On the server, without a sql_mode that changes how names are quoted.
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


def columns_digest(definition: str) -> str:
    """Digest of column definitions, defaults included: it differs if readers must treat the table as another one."""
    lines = [line.rstrip(",") for line in definition.splitlines() if line.startswith("  `")]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def _unique_indexes(session: ServerSession, schema: str, name: str) -> dict[str, list[dict[str, object]]]:
    """The parts of each unique index, as the server shows them."""
    by_index: dict[str, list[dict[str, object]]] = {}
    for row in session.dict_rows(f"SHOW INDEX FROM {table_sql(schema, name)}"):
        if not row["non_unique"]:
            by_index.setdefault(str(row["key_name"]), []).append(row)
    return by_index


def _names(parts: Sequence[dict[str, object]]) -> tuple[str, ...]:
    return tuple(str(part["column_name"]) for part in parts)


def _is_promoted(parts: Sequence[dict[str, object]]) -> bool:
    # Servers take the first such key for a primary key that is missing.
    return all(part["sub_part"] is None and part["null"] != "YES" and part["column_name"] for part in parts)


def _is_usable(parts: Sequence[dict[str, object]]) -> bool:
    # In one direction, so that ORDER BY needs no sort; whole columns, so that two rows never are equal by them.
    is_ordered = len({part["collation"] for part in parts}) == 1 and parts[0]["collation"] in ("A", "D")
    is_whole = all(part["sub_part"] is None and part["null"] != "YES" for part in parts)
    is_seen = all(part.get("ignored", "NO") == "NO" and part.get("visible", "YES") == "YES" for part in parts)
    return is_ordered and is_whole and is_seen and parts[0]["index_type"] == "BTREE"


def _key_columns(parts: Sequence[dict[str, object]], columns: dict[str, SourceColumn]) -> tuple[KeyColumn, ...]:
    found: list[KeyColumn] = []
    for part in parts:
        column = columns.get(str(part["column_name"]))  # None: an expression (MySQL)
        known = None if column is None else key_column(column.name, column.column_type, column.character_set)
        if known is None:
            return ()
        found.append(known)
    return tuple(found)
