"""Settings with a few possible values: one class each.

Durations in settings: `parse_milliseconds`.

Partitions of a new table, as settings define them: `partition_rule("day(created_at)")`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from binlog_format.errors import OptionError, TableError

if TYPE_CHECKING:
    from collections.abc import Sequence


class Mode(StrEnum):
    """Content of a target table."""

    MIRROR = "mirror"
    """The current state of the source table, by primary key."""
    CHANGELOG = "changelog"
    """Every row image, in order, in the shape of a change data feed."""
    SCD2 = "scd2"
    """Every version that a row ever had, and when it held, by primary key."""


class Deletes(StrEnum):
    """Handling of deleted rows in a mirror."""

    REMOVE = "remove"
    MARK = "mark"
    """It stays; the columns `_deleted` and `_deleted_at` record it."""


class OnStatement(StrEnum):
    """Effect of a TRUNCATE or a DROP of a source table on its targets."""

    APPLY = "apply"
    IGNORE = "ignore"
    FAIL = "fail"
    """The job stops before it."""


class UnknownValues(StrEnum):
    """Value of existing rows in a new column, if the log lacks their values."""

    FAIL = "fail"
    NULL = "null"


class Rewritten(StrEnum):
    """Value of a column that an ALTER TABLE changed, if the new values are unknown."""

    FAIL = "fail"
    NULL = "null"


class OnPartitionDrop(StrEnum):
    """Effect of DROP PARTITION and TRUNCATE PARTITION of a source table on its targets."""

    FAIL = "fail"
    """The job stops before it."""
    KEEP = "keep"
    """The rows stay in the targets."""
    APPLY = "apply"
    """Delete them there too, if it is known which rows were in the partitions."""


class OnRowStatement(StrEnum):
    """Effect on the job of a statement that changes rows of a table without row events."""

    FAIL = "fail"
    IGNORE = "ignore"


class OnCascade(StrEnum):
    """Handling of a child table whose rows foreign keys change without events in the log."""

    FAIL = "fail"
    IGNORE = "ignore"
    APPLY = "apply"
    """Compute the changes, and apply them to the child's targets."""


class Begin(StrEnum):
    """Place from which on a table has to be in the log."""

    CREATED = "created"
    """The table's CREATE TABLE or a TRUNCATE; or the start of the log, if it begins with the server's first
    transaction."""
    EMPTY = "empty"
    """It counts as empty where the job begins; rows from before then are not in its targets."""
    SNAPSHOT = "snapshot"
    """Like `created`, or else the start of a snapshot of the table in the log; the table waits for it."""


class Evidence(StrEnum):
    """Part of a target that is compared with the images of rows before they change."""

    ROWS = "rows"
    """The whole row."""
    KEYS = "keys"
    """Compare only if the row exists, or does not exist before an insert."""
    OFF = "off"


class OnError(StrEnum):
    """Effect on a job if one of its tables cannot continue."""

    STOP = "stop"
    SET_ASIDE = "set_aside"
    """The table stays in its present state, and all others continue."""


class Merge(StrEnum):
    """Way in which superseded rows of a table are removed."""

    AUTO = "auto"
    """Files of small tables are written anew; rows of large ones are marked, once writing anew costs more."""
    MARK = "mark"
    """They are marked in deletion vectors or position delete files, for readers that know these."""
    REWRITE = "rewrite"
    """Their files are written anew; every reader reads them."""


class Json(StrEnum):
    """Type of JSON columns in new tables."""

    TEXT = "text"
    VARIANT = "variant"
    """Parquet's Variant: readers look into a value without parsing it."""


class TableFormat(StrEnum):
    """Format of a sink's tables."""

    DELTA = "delta"
    ICEBERG = "iceberg"
    PARQUET = "parquet"
    """Plain files: for changelogs only."""

    @property
    def replaces_rows(self) -> bool:
        """True if a commit can replace rows; else there are changelogs alone, without versions and proofs."""
        return self in (TableFormat.DELTA, TableFormat.ICEBERG)

    @property
    def has_variants(self) -> bool:
        """True if JSON columns can be variants."""
        return self is TableFormat.DELTA

    @property
    def has_catalog(self) -> bool:
        """True if tables are found through a catalog (`[sink.catalog]`)."""
        return self is TableFormat.ICEBERG

    @property
    def has_managed_tables(self) -> bool:
        """True if Unity Catalog can manage tables (`[sink.catalog]`)."""
        return self is TableFormat.DELTA

    @property
    def has_partitions(self) -> bool:
        """True if tables can be partitioned by values of columns."""
        return self in (TableFormat.DELTA, TableFormat.ICEBERG)

    @property
    def has_partition_functions(self) -> bool:
        """True if they can be partitioned by functions of columns, such as `day(created)`."""
        return self is TableFormat.ICEBERG

    @property
    def extra(self) -> str | None:
        """The extra of this package that brings the library of the format; None: it needs none of its own."""
        return str(self) if self in (TableFormat.DELTA, TableFormat.ICEBERG) else None


DEFAULT_FORMAT = TableFormat.DELTA


_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)")


def parse_milliseconds(text: str) -> int:
    """A duration such as `500ms`, `2s`, `1.5h` or `7d`. Raises `ValueError`: it is none."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"duration: expected a number with ms, s, m, h or d, such as 2s, got {text!r}")
    return round(float(match[1]) * _UNITS_MS[match[2]])


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
    """One part, as it is written in settings. Raises `ValueError`: it cannot be understood."""
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
