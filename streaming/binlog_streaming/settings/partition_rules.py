"""Partitions of a new table, as settings define them: `partition_rule("day(created_at)")`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from binlog_format.errors import OptionError, TableError

if TYPE_CHECKING:
    from collections.abc import Sequence


class PartitionRuleError(OptionError):
    """A rule that does not fit one table: whoever made that table need not know of the rule, and others can go on."""


_TIMES = ("year", "month", "day", "hour")
_SIZED = ("bucket", "truncate")
_CALL = re.compile(r"(?P<function>[a-z]+)\((?:(?P<size>\d+)\s*,\s*)?(?P<column>[^,()]+)\)")
FORMS = "a column, year(c), month(c), day(c), hour(c), bucket(16, c) or truncate(4, c)"


@dataclass(frozen=True, slots=True)
class PartitionRule:
    """One part of a table's partitioning.

    Attributes:
        column: Name of a column.
        function: `identity`, or what is made of its values.
        size: Buckets, or width; None: the function has none.
    """

    column: str
    function: str = "identity"
    size: int | None = None

    @property
    def iceberg_transform(self) -> str:
        """The name that Iceberg has for the function."""
        return self.function if self.size is None else f"{self.function}[{self.size}]"

    def __str__(self) -> str:
        if self.function == "identity":
            return self.column
        return f"{self.function}({self.column if self.size is None else f'{self.size}, {self.column}'})"


def partition_rule(text: str) -> PartitionRule:
    """One part, as it is written in settings.

    Raises:
        ValueError: It cannot be understood.
    """
    call = _CALL.fullmatch(text.strip())
    if call is None:
        if not text.strip() or "(" in text:
            raise ValueError(f"expected {FORMS}, got {text!r}")
        return PartitionRule(text.strip())
    function, size = call["function"], call["size"]
    if function not in _TIMES + _SIZED or (size is None) == (function in _SIZED) or size == "0":
        raise ValueError(f"expected {FORMS}, got {text!r}")
    return PartitionRule(call["column"].strip(), function, None if size is None else int(size))


def unpartitionable(table: str, rule: PartitionRule, why: str, columns: Sequence[str]) -> PartitionRuleError:
    """The error for a table that cannot be partitioned as settings ask."""
    return PartitionRuleError(
        "INVALID_VALUE",
        f"option tables.partition_by: {table}: {rule}: {why}",
        hint=f"Give the table a rule of its own in [[tables]]. Its columns are {', '.join(columns)}",
    )


def valueless(table: str, rule: PartitionRule, why: str) -> TableError:
    """The error for a table with values that its format could put into no partition, whoever writes them."""
    return TableError(
        "PARTITION_VALUE",
        f"{table}: it cannot be partitioned by {rule}: {why}",
        hint="Give the table a rule of its own in [[tables]], with another partition_by",
    )
