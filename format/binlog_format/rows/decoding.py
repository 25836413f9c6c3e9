"""Options for decoding rows, where the log leaves a choice: `Decoding`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from binlog_format.events.table_map import TableLayout
    from binlog_format.position import Position
    from binlog_format.rows.images import Images


class TableSchemas(Protocol):
    """Facts about tables beyond their table maps: from a schema file, or from DDL in the log."""

    def edges(self, database: str, table: str) -> Sequence[Position]:
        """Positions from which on another definition of the table holds, ascending; often none."""

    def completed(self, layout: TableLayout, position: Position, *, needs_generated: bool = False) -> TableLayout:
        """*layout* with what its table map leaves open, as the table was for groups at *position*.

        Args:
            needs_generated: Which columns are generated has to be known, as for rows with `Block.is_replicated`.

        Raises:
            SchemaError: `COLUMN_COUNT_MISMATCH`: the definition is not that of the table map.
        """


class RowRules(Protocol):
    """Selection of rows and columns, and masks of values; the log's own bytes stay unchanged."""

    @property
    def chooses_rows(self) -> bool:
        """True if images may be left out, and updates become inserts or deletes."""

    def shown(self, layout: TableLayout, decoding: Decoding) -> TableLayout:
        """*layout* as the rules show it, with what was logged as its `logged`; itself where there is no rule for it.

        A layout that is shown already is given back.

        Raises:
            OptionError: `INVALID_VALUE`: a rule does not fit the table.
        """

    def hides(self, layout: TableLayout, column: str) -> bool:
        """True if a column of a table is masked, or not shown."""

    def applied(self, images: Images) -> Images:
        """*images*, just read, as the rules show them; for a layout that `shown` does not give back as it is."""


class ZeroDates(StrEnum):
    """Handling of `0000-00-00` and of dates with a month or day of zero."""

    NULL = "null"
    ERROR = "error"
    TEXT = "text"
    """All of DATE, DATETIME and TIMESTAMP (in UTC) is text, as the server prints it: no date is lost, nor its place."""


class TimeType(StrEnum):
    """Type of TIME columns: text `[-]HHH:MM:SS[.ffffff]`, or microseconds."""

    TEXT = "text"
    MICROS = "micros"


@dataclass(frozen=True, slots=True)
class Decoding:
    """Choices of the reader.

    Attributes:
        schemas: Names, signs and types where the log does not record them; None: the log alone counts.
        replace_invalid_text: Bytes invalid in their character set become U+FFFD; else they are an error.
        rules: What of the tables is shown; None: all of it.
        declared_types: Columns have the types that definitions state, where table maps have binary strings.
        full_source_images: Rows that came by replication have all values: see `Block.is_replicated`.
        computes: Gives images, just read, the generated columns that they lack, where it can; None: these stay absent.
        system_time_zone: What the time zone `SYSTEM` is on the server, which no log has: `UTC`, `+02:00`, or a name of
            the time zone database; None: not known.
    """

    schemas: TableSchemas | None = None
    zero_dates: ZeroDates = ZeroDates.NULL
    time_type: TimeType = TimeType.TEXT
    replace_invalid_text: bool = False
    rules: RowRules | None = None
    declared_types: bool = False
    full_source_images: bool = False
    system_time_zone: str | None = None
    computes: Callable[[Images], Images] | None = None

    def shown(self, layout: TableLayout) -> TableLayout:
        """*layout* as `rules` show it."""
        return layout if self.rules is None else self.rules.shown(layout, self)


DEFAULT_DECODING = Decoding()
