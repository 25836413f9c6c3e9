"""Expressions as trees: `Expression`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from binlog_format.names import folded_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

COLUMN, NUMBER, DECIMAL, TEXT, BYTES = "column", "number", "decimal", "text", "bytes"
NULL, MAXVALUE, DEFAULT = "null", "maxvalue", "default"
IS_NULL, CASE, CAST = "IS NULL", "CASE", "CAST"
JSON_EXTRACT, JSON_UNQUOTE = "JSON_EXTRACT", "JSON_UNQUOTE"
DATE_ADD, DATE_SUB = "DATE_ADD", "DATE_SUB"
CLOCKS = frozenset(
    ["NOW", "CURRENT_TIMESTAMP", "CURRENT_DATE", "CURDATE", "UTC_TIMESTAMP", "UTC_DATE", "UNIX_TIMESTAMP"]
)
"""Functions of the time of a statement, without operands."""


@dataclass(frozen=True, slots=True)
class Expression:
    """A value of a partition, what partitions are chosen by, or what a generated column holds.

    Attributes:
        op: `COLUMN`, `NUMBER`, `DECIMAL`, `TEXT`, `BYTES`, `NULL`, `MAXVALUE`, `DEFAULT`; or an operator or a function,
            in upper case.
        text: The name, the digits, the text; of bytes in hexadecimal digits; of `CAST` the type; of `DATE_ADD` and
            `DATE_SUB` the unit; of one of `CLOCKS` the digits of a fraction of a second, none for 0; else empty.
        operands: Of an operator or a function.
    """

    op: str
    text: str = ""
    operands: tuple[Expression, ...] = ()

    def renamed(self, names: Mapping[str, str]) -> Expression:
        """The same, of columns that have other names; see `Partitioning.renamed`."""
        text = names.get(folded_name(self.text), self.text) if self.op == COLUMN else self.text
        return Expression(self.op, text, tuple(operand.renamed(names) for operand in self.operands))

    def columns(self) -> Iterable[str]:
        """Names of the columns in it."""
        if self.op == COLUMN:
            yield self.text
        for operand in self.operands:
            yield from operand.columns()
