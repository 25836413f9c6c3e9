"""ALTERs of every type into every other: `live_pairs`, one table for each pair."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pymysql

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.judge.histories.columns import Kind
    from tests.judge.histories.history import Session

STRICT = "STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION"
_AT_ROW = re.compile(r"at row (\d+)")
RETRIES = 60
MAY_BE_ZERO = ("date", "datetime", "timestamp")
"""Families of types with 0000-00-00."""


def label_of(old: str, new: str, *, is_strict: bool) -> str:
    """What an ALTER of a column is counted as."""
    return f"{old} -> {new} ({'strict' if is_strict else 'not strict'})"


def alter(session: Session, table: str, action: str, label: str, *, key: str = "id") -> str:
    """ALTER TABLE; what the server will not convert is deleted first. The last error, or nothing."""
    statement = f"ALTER TABLE {table} {action}"
    for _ in range(RETRIES):
        error = session.do(statement, label)
        found = _AT_ROW.search(error)
        if found is None:
            return error
        session.history.done.pop()  # it left nothing in the log
        try:
            rows = session.ask(f"SELECT {key} FROM {table} ORDER BY {key} LIMIT 1 OFFSET {int(found[1]) - 1}")
        except pymysql.err.MySQLError:
            return error  # the table has another key since an earlier statement of this step
        if not rows:
            return error
        session.do(f"DELETE FROM {table} WHERE {key} = {rows[0][0]}")
    return "too many values"


def _null_is_null(old: Kind, new: Kind) -> bool:
    """Whether it does not matter that a null in a target may be 0000-00-00, which is open for other types."""
    return old.family not in MAY_BE_ZERO or new.family in MAY_BE_ZERO


def live_pairs(session: Session, old: Kind, kinds: Sequence[Kind], *, is_strict: bool) -> None:
    """A table for each new type: rows with all values of the old one, the ALTER, and a few changes."""
    database = session.history.database
    session.do(f"CREATE DATABASE {database}")
    session.do(f"USE {database}")
    session.do(f"SET sql_mode = '{STRICT if is_strict else ''}'")
    for number, new in enumerate(kinds):
        if new is old:
            continue
        table = f"t{number}"
        session.do(f"CREATE TABLE {table} (id INT PRIMARY KEY, c {old.declared}, v INT)")
        values = (*old.values, "NULL") if _null_is_null(old, new) else old.values
        rows = [f"({at}, {value}, {at})" for at, value in enumerate(values, 1)]
        if is_strict or session.do(f"INSERT INTO {table} VALUES {', '.join(rows)}"):
            for row in rows:
                if session.do(f"INSERT INTO {table} VALUES {row}"):
                    session.history.done.pop()
        declared = new.declared if is_strict or number % 2 else f"{new.declared.removesuffix(' NULL')} NOT NULL"
        label = label_of(old.declared, declared, is_strict=is_strict)
        if alter(session, table, f"MODIFY c {declared}", label):
            session.do(f"DROP TABLE {table}")
            continue
        session.do(f"UPDATE {table} SET v = v + 100 WHERE id = 2")
        session.do(f"DELETE FROM {table} WHERE id = 3")
        session.do(f"INSERT INTO {table} (id, c, v) SELECT 1000, c, 1 FROM {table} WHERE id = 1")
