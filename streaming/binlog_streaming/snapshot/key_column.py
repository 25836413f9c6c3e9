"""Comparison of a key's column with a bound that was kept as text: `key_column(...)` -> `KeyColumn`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from binlog_streaming.snapshot.sql_text import quoted

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
        name: Its name.
        form: How its values are kept as text.
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
