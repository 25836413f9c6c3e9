"""SQL of snapshots. Names: `quoted`, `table_sql`, `name_list`; values of answers: `text_of`.

Differences between MariaDB and MySQL: `prepare_session`, `locking_clause`, `logged_place`, `log_status_statement`.

The statements of a chunk: `bound_statement`, its end; `rows_statement` logs its rows, `select_statement` reads.

The comparison of a key with a bound is written out, `a > x OR (a = x AND b > y)`: of the row form `(a, b) > (x, y)` the
servers make no range of an index.

Comparison of a key's column with a bound that was kept as text: `key_column(...)` -> `KeyColumn`.

A condition for rows, as SQL: `condition_sql`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from binlog_connector.rules.predicate_parser import (
    ColumnComparison,
    Conjunction,
    Likeness,
    Membership,
    Negation,
    Nullness,
    ValueComparison,
)
from binlog_format.vendor import MYSQL_LOG_STATUS_SINCE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from binlog_connector.rules.predicate_parser import Condition, Literal
    from binlog_streaming.server.session import Row, ServerSession
    from binlog_streaming.snapshot.marks import Bounds
    from binlog_streaming.snapshot.source_table import Key, SourceTable


LOCK_WAIT_SECONDS = 1
"""Seconds that a chunk of one row waits for its lock: the shortest time that the servers offer."""

TURN_SECONDS = 10
"""Seconds to wait for the session of a run that was killed: its server may still be in its last statement."""

# A value that would change on its way is an error. No mode that refuses values which rows already have (zero dates),
# none that turns an id 0 into the next one, and not
# NO_ENGINE_SUBSTITUTION: a replica without BLACKHOLE would stop, and makes an InnoDB table without it.
_SQL_MODE = "STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES"


def prepare_session(session: ServerSession) -> None:
    """Set up *session* to write chunks."""
    session.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
    session.execute("SET SESSION sql_mode = %s", _SQL_MODE)
    session.execute(f"SET SESSION innodb_lock_wait_timeout = {LOCK_WAIT_SECONDS}")
    if session.version.is_mariadb:
        # Replicas apply marked groups all the same, unless they are set to leave them out.
        session.execute("SET SESSION skip_replication = 1, max_statement_time = 0")


def locking_clause(session: ServerSession, *, is_waiting: bool) -> str:
    """The clause that takes shared locks on the rows of a chunk; without waiting it fails at once where one is held."""
    if session.version.is_mariadb:
        return f"LOCK IN SHARE MODE {f'WAIT {LOCK_WAIT_SECONDS}' if is_waiting else 'NOWAIT'}"
    return "FOR SHARE" if is_waiting else "FOR SHARE NOWAIT"


def logged_place(session: ServerSession) -> str | None:
    """A text that is another one after the session has written a group into the log; None: the server does not tell."""
    if session.version.is_mariadb:
        return str(session.value("SELECT @@SESSION.last_gtid"))
    return str(session.value("SELECT @@GLOBAL.gtid_executed")) if has_gtids(session) else None


def has_gtids(session: ServerSession) -> bool:
    """True if every transaction that the server logs has a GTID."""
    return session.version.is_mariadb or session.variable("gtid_mode") == "ON"


def log_status_statement(session: ServerSession) -> str:
    """Asks for the name of the newest binlog file, its end, `binlog_do_db` and `binlog_ignore_db`.

    The account needs a right for it; without a binlog there is no row.
    """
    is_new = not session.version.is_mariadb and session.version.number >= MYSQL_LOG_STATUS_SINCE
    return "SHOW BINARY LOG STATUS" if is_new else "SHOW MASTER STATUS"


def text_of(value: object) -> str:
    """A value of an answer as text: without a character set for results some texts come as bytes."""
    return value.decode() if isinstance(value, bytes) else str(value)


def quoted(name: str) -> str:
    """A name in backticks."""
    return "`" + name.replace("`", "``") + "`"


def table_sql(schema: str, table: str) -> str:
    """A table's full name."""
    return f"{quoted(schema)}.{quoted(table)}"


def name_list(names: Iterable[str]) -> str:
    """Names with commas between them."""
    return ", ".join(quoted(name) for name in names)


_NUMBERS = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "double", "year"})
_TEXTS = frozenset({"char", "varchar"})
_BYTES = frozenset({"binary", "varbinary"})
_QUOTED = frozenset({"date", "datetime", "timestamp", "time", "uuid", "inet4", "inet6"})
_TYPE = re.compile(r"\w+")
_HEX = re.compile(r"(?:[0-9A-F]{2})*")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?", re.IGNORECASE)
_QUOTABLE = re.compile(r"[0-9A-Fa-f:. -]+")


class BoundForm(Enum):
    """Text form of a key's value."""

    NUMBER = _NUMBER
    """Text as the server prints it."""
    QUOTED = _QUOTABLE
    """Text as the server prints it: dates, times, UUIDs, addresses."""
    HEX = _HEX
    """Its bytes, in the column's character set."""


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """A column of a key.

    Attributes:
        form: How values are kept as text.
        expression: SQL that gives this text.
        introducer: What comes before the bytes of a literal, for example `_latin1`; empty: nothing.
    """

    name: str
    form: BoundForm
    expression: str
    introducer: str = ""

    def literal(self, bound: str) -> str:
        """SQL for a value that `expression` gave; compared with the column it has the column's collation.

        Raises:
            ValueError: It cannot be one.
        """
        if self.form.value.fullmatch(bound) is None:
            raise ValueError(f"{self.name}: not a bound of its type")
        match self.form:
            case BoundForm.NUMBER:
                return bound
            case BoundForm.QUOTED:
                return f"'{bound}'"
            case BoundForm.HEX:
                return f"{self.introducer} X'{bound}'"


def key_column(name: str, column_type: str, character_set: str | None) -> KeyColumn | None:
    """Choose the form of a column's bounds; None: chunks cannot be cut by columns of its type.

    ENUM and SET are ordered by numbers; compared with a number the servers read the whole index.
    """
    found = _TYPE.match(column_type.lower())
    base, sql = found[0] if found else "", quoted(name)
    if base in _NUMBERS:
        return KeyColumn(name, BoundForm.NUMBER, f"CAST({sql} AS CHAR)")
    if base == "float":
        # As FLOAT the server prints 6 digits.
        return KeyColumn(name, BoundForm.NUMBER, f"CAST(CAST({sql} AS DOUBLE) AS CHAR)")
    if base == "bit":
        return KeyColumn(name, BoundForm.NUMBER, f"CAST({sql} + 0 AS CHAR)")
    if base in _QUOTED:
        return KeyColumn(name, BoundForm.QUOTED, f"CAST({sql} AS CHAR)")
    if base in _TEXTS and character_set is not None:
        return KeyColumn(name, BoundForm.HEX, f"HEX({sql})", f"_{character_set}")
    if base in _BYTES:
        return KeyColumn(name, BoundForm.HEX, f"HEX({sql})", "_binary")
    return None


def bound_statement(table: SourceTable, key: Key, after: Sequence[str] | None, size: int) -> str:
    """A query for the key of the *size*-th row after *after*, as text; no row: there are fewer."""
    expressions = ", ".join(column.expression for column in key.columns)
    return (
        f"SELECT {expressions} FROM {_indexed(table, key)}{_where(after and [_after(key.columns, after)])}"
        f" ORDER BY {name_list(key.names)} LIMIT 1 OFFSET {size - 1}"
    )


def bound_of(rows: Sequence[Row]) -> tuple[str, ...] | None:
    """The key that a `bound_statement` has given; None: there are fewer rows."""
    return tuple(map(text_of, rows[0])) if rows else None


def rows_statement(
    table: SourceTable, shadow: str, bounds: Bounds, locking: str, condition: Condition | None = None
) -> str:
    """Copy a chunk's rows for which *condition* is true into *shadow* (a full name in SQL), under shared locks."""
    selected = select_statement(table, bounds, condition)
    return f"INSERT INTO {shadow} ({name_list(table.column_names)}) {selected} {locking}"


def select_statement(table: SourceTable, bounds: Bounds, condition: Condition | None = None) -> str:
    """A query for the rows of a range of keys (those for which *condition* is true), all columns, in no order."""
    return f"SELECT {name_list(table.column_names)} FROM {chunk_source(table, bounds, condition)}"


def chunk_source(table: SourceTable, bounds: Bounds, condition: Condition | None = None) -> str:
    """SQL after FROM for the rows of a chunk: the table, the index, and the condition."""
    conditions = [] if condition is None else [condition_sql(condition)]
    if table.key is None:
        return f"{table_sql(table.schema, table.name)}{_where(conditions)}"
    if bounds.after is not None:
        conditions.append(_after(table.key.columns, bounds.after))
    if bounds.through is not None:
        conditions.append(_compared(table.key.columns, bounds.through, "<", "<="))
    return f"{_indexed(table, table.key)}{_where(conditions)}"


def _indexed(table: SourceTable, key: Key) -> str:
    # Estimates that are out of date must not make a chunk a scan of the table.
    return f"{table_sql(table.schema, table.name)} FORCE INDEX ({quoted(key.index)})"


def _where(conditions: Sequence[str] | None) -> str:
    return f" WHERE {' AND '.join(f'({condition})' for condition in conditions)}" if conditions else ""


def _after(columns: Sequence[KeyColumn], bound: Sequence[str]) -> str:
    return _compared(columns, bound, ">", ">")


def _compared(columns: Sequence[KeyColumn], bound: Sequence[str], operator: str, last: str) -> str:
    column, literal = quoted(columns[0].name), columns[0].literal(bound[0])
    if len(columns) == 1:
        return f"{column} {last} {literal}"
    rest = _compared(columns[1:], bound[1:], operator, last)
    return f"{column} {operator} {literal} OR ({column} = {literal} AND ({rest}))"


def condition_sql(condition: Condition) -> str:
    """SQL of a parsed condition, made of its names and literals: nothing else gets into a statement."""
    match condition:
        case Negation():
            return f"NOT ({condition_sql(condition.condition)})"
        case Conjunction():
            joint = " OR " if condition.is_any else " AND "
            return joint.join(f"({condition_sql(part)})" for part in condition.conditions)
        case Nullness():
            return f"{quoted(condition.column.name)} IS NULL"
        case Likeness():
            return f"{quoted(condition.column.name)} LIKE {_literal(condition.pattern)}"
        case Membership():
            return f"{quoted(condition.column.name)} IN ({', '.join(map(_literal, condition.literals))})"
        case ColumnComparison():
            return f"{quoted(condition.column.name)} {condition.operator} {quoted(condition.other.name)}"
        case ValueComparison():
            return f"{quoted(condition.column.name)} {condition.operator} {_literal(condition.literal)}"


def _literal(literal: Literal) -> str:
    match literal.value:
        case bool():
            return str(literal.value).upper()
        case str():
            return f"_utf8mb4 X'{literal.value.encode().hex()}'"  # whatever sql_mode says of backslashes
        case bytes():
            return f"X'{literal.value.hex()}'"
        case _:
            return f"{literal.value:f}"
