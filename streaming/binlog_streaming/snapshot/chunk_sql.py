"""The statements of a chunk: `bound_statement`, its end; `rows_statement` logs its rows, `select_statement` reads.

The comparison of a key with a bound is written out, `a > x OR (a = x AND b > y)`: of the row form `(a, b) > (x, y)` the
servers make no range of an index.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_streaming.snapshot.sql_text import name_list, quoted, table_sql

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binlog_streaming.snapshot.key_column import KeyColumn
    from binlog_streaming.snapshot.marks import Bounds
    from binlog_streaming.snapshot.source_table import Key, SourceTable


def bound_statement(table: SourceTable, key: Key, after: Sequence[str] | None, size: int) -> str:
    """A query for the key of the *size*-th row after *after*, as text; no row: there are fewer."""
    expressions = ", ".join(column.expression for column in key.columns)
    return (
        f"SELECT {expressions} FROM {_indexed(table, key)}{_where(after and [_after(key.columns, after)])}"
        f" ORDER BY {name_list(key.names)} LIMIT 1 OFFSET {size - 1}"
    )


def rows_statement(table: SourceTable, shadow: str, bounds: Bounds, locking: str) -> str:
    """Copy a chunk's rows into *shadow* (a full name in SQL), under shared locks on them.

    Args:
        table: The source.
        shadow: Where the rows go.
        bounds: Which rows.
        locking: The clause that locks them.
    """
    return f"INSERT INTO {shadow} ({name_list(table.column_names)}) {select_statement(table, bounds)} {locking}"


def select_statement(table: SourceTable, bounds: Bounds) -> str:
    """A query for the rows of a range of keys, all columns, in no order.

    Args:
        table: The source.
        bounds: Which rows.
    """
    return f"SELECT {name_list(table.column_names)} FROM {chunk_source(table, bounds)}"


def chunk_source(table: SourceTable, bounds: Bounds) -> str:
    """SQL after FROM for the rows of a chunk: the table, the index, and the condition."""
    if table.key is None:
        return table_sql(table.schema, table.name)
    conditions = []
    if bounds.after is not None:
        conditions.append(_after(table.key.columns, bounds.after))
    if bounds.through is not None:
        conditions.append(_through(table.key.columns, bounds.through))
    return f"{_indexed(table, table.key)}{_where(conditions)}"


def _indexed(table: SourceTable, key: Key) -> str:
    # Estimates that are out of date must not make a chunk a scan of the table.
    return f"{table_sql(table.schema, table.name)} FORCE INDEX ({quoted(key.index)})"


def _where(conditions: Sequence[str] | None) -> str:
    return f" WHERE {' AND '.join(f'({condition})' for condition in conditions)}" if conditions else ""


def _after(columns: Sequence[KeyColumn], bound: Sequence[str]) -> str:
    return _compared(columns, bound, ">", ">")


def _through(columns: Sequence[KeyColumn], bound: Sequence[str]) -> str:
    return _compared(columns, bound, "<", "<=")


def _compared(columns: Sequence[KeyColumn], bound: Sequence[str], operator: str, last: str) -> str:
    column, literal = quoted(columns[0].name), columns[0].literal(bound[0])
    if len(columns) == 1:
        return f"{column} {last} {literal}"
    rest = _compared(columns[1:], bound[1:], operator, last)
    return f"{column} {operator} {literal} OR ({column} = {literal} AND ({rest}))"
