"""How rows become values, as far as the log leaves it open: `Decoding`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binlog_format.events.table_map import TableLayout
    from binlog_format.position import Position


class TableSchemas(Protocol):
    """What is known about tables beside their table maps: from a schema file, or from DDL in the log."""

    def edges(self, database: str, table: str) -> Sequence[Position]:
        """Positions from which on another definition of the table holds, ascending; often none."""

    def completed(self, layout: TableLayout, position: Position) -> TableLayout:
        """*layout* with what its table map leaves open, as the table was for groups at *position*.

        Raises:
            SchemaError: `COLUMN_COUNT_MISMATCH`: the definition is not that of the table map.
        """


class ZeroDates(StrEnum):
    """What becomes of `0000-00-00` and of dates with a month or day of zero."""

    NULL = "null"
    ERROR = "error"


class TimeType(StrEnum):
    """What TIME columns become: text `[-]HHH:MM:SS[.ffffff]`, or microseconds."""

    TEXT = "text"
    MICROS = "micros"


@dataclass(frozen=True, slots=True)
class Decoding:
    """Choices of the reader.

    Attributes:
        schemas: Names, signs and types where the log does not say them; None: the log alone counts.
        zero_dates: See `ZeroDates`.
        time_type: See `TimeType`.
        replace_invalid_text: Bytes that are no text in their character set become U+FFFD; else they are an error.
    """

    schemas: TableSchemas | None = None
    zero_dates: ZeroDates = ZeroDates.NULL
    time_type: TimeType = TimeType.TEXT
    replace_invalid_text: bool = False


DEFAULT_DECODING = Decoding()
