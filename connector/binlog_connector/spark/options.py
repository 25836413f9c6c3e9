"""The source's options: what a user may write, read and checked once by `SourceOptions.parse`.

Names are case-insensitive, as everywhere in Spark. Nothing is ignored in silence: an option or a value that does not
exist is an `OptionError`, starts that contradict each other are a `StartError`.
"""

from __future__ import annotations

import difflib
import json
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from binlog_connector.spark.offsets import SourceOffset
from binlog_format.detect import FORMATS
from binlog_format.errors import OptionError, StartError
from binlog_format.gtid import GtidPosition
from binlog_format.views.table_filter import TableFilter

if TYPE_CHECKING:
    from collections.abc import Mapping

OPTION_NAMES = (
    "path",
    "format",
    "view",
    "table",
    "tables",
    "excludeTables",
    "startingOffsets",
    "startingGtid",
    "maxBytesPerTrigger",
    "minPartitions",
    "failOnDataLoss",
)
_NAME_BY_LOWER = {name.lower(): name for name in OPTION_NAMES}
_SIZE = re.compile(r"(\d+)\s*([kmgt]?)b?", re.IGNORECASE)
_SIZE_FACTORS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_INT64_MAX = 2**63 - 1
MIN_PARTITIONS_MAX = 100_000
"""Above this, planning alone would take longer than reading."""


class View(StrEnum):
    """What a row is."""

    CHANGES = "changes"
    CHANGEFEED = "changefeed"
    TABLES = "tables"


class Edge(StrEnum):
    """The two ends of a log."""

    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """All options of one query, checked.

    Attributes:
        path: Directory of the binlog files, one file, or a URL.
        format: Format that the log must have; None: whatever it is.
        view: What a row is.
        table: The one table (`database.table`) whose columns are typed; None: rows are JSON.
        tables: Comma-separated regular expressions on `database.table`; None: all.
        exclude_tables: The same, for what to leave out; None: nothing.
        start: Where a new query begins.
        bytes_per_trigger_max: Bytes of the files that one micro-batch reads; None: all that is there.
        partitions_min: Least number of partitions to cut a read into; None: by size.
        fail_on_data_loss: Whether data that has gone ends the query (or is skipped, with a warning).
    """

    path: str
    format: str | None
    view: View
    table: str | None
    tables: str | None
    exclude_tables: str | None
    start: Edge | SourceOffset | GtidPosition
    bytes_per_trigger_max: int | None
    partitions_min: int | None
    fail_on_data_loss: bool

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> SourceOptions:
        """Check what the user gave.

        Raises:
            OptionError: `UNKNOWN`, `INVALID_VALUE` or `MISSING`.
            StartError: `CONFLICTING_OPTIONS`: two starts.
        """
        given = _by_known_name(options)
        if not given.get("path"):
            raise OptionError(
                "MISSING",
                "option path: it is not set",
                hint='Give the directory of the binlog files: .option("path", "/var/lib/mysql") or .load("...")',
            )
        view = View(_choice("view", given.get("view", View.CHANGES.value), tuple(View)))
        table = _table(given.get("table"), view)
        _check_filters(given.get("tables"), given.get("excludeTables"), table)
        return cls(
            path=given["path"],
            format=_choice("format", given["format"], FORMATS) if "format" in given else None,
            view=view,
            table=table,
            tables=given.get("tables"),
            exclude_tables=given.get("excludeTables"),
            start=_start(given),
            bytes_per_trigger_max=_size("maxBytesPerTrigger", given.get("maxBytesPerTrigger")),
            partitions_min=_count("minPartitions", given.get("minPartitions")),
            fail_on_data_loss=_choice("failOnDataLoss", given.get("failOnDataLoss", "true"), ("true", "false"))
            == "true",
        )

    @property
    def table_expressions(self) -> str | None:
        """The option `tables`, or an expression that means the one table of the option `table`."""
        return self.tables if self.table is None else re.escape(self.table)


def _by_known_name(options: Mapping[str, str]) -> dict[str, str]:
    given: dict[str, str] = {}
    for key, value in options.items():
        name = _NAME_BY_LOWER.get(key.lower())
        if name is None:
            raise OptionError(
                "UNKNOWN",
                f"option {key}: there is no such option",
                hint=_nearest(key.lower(), _NAME_BY_LOWER) or f"Options are {', '.join(OPTION_NAMES)}",
            )
        given[name] = value.strip()
    return given


def _nearest(text: str, names: Mapping[str, str]) -> str | None:
    close = difflib.get_close_matches(text, names, n=1, cutoff=0.5)
    return f"Did you mean {names[close[0]]}?" if close else None


def _invalid(name: str, value: str, expected: str, *, hint: str | None = None) -> OptionError:
    return OptionError("INVALID_VALUE", f'option {name}: expected {expected}, got "{value}"', hint=hint)


def _choice(name: str, value: str, choices: tuple[str, ...]) -> str:
    if value.lower() in choices:
        return value.lower()
    hint = _nearest(value.lower(), {choice: choice for choice in choices})
    raise _invalid(name, value, " or ".join(choices), hint=hint)


def _table(table: str | None, view: View) -> str | None:
    if table is None:
        if view is View.CHANGEFEED:
            raise OptionError(
                "MISSING",
                "option table: view changefeed has the columns of one table",
                hint='Name it: .option("table", "database.table"), or use view changes for many tables',
            )
        return None
    database, dot, name = table.partition(".")
    if not (database and dot and name):
        raise _invalid("table", table, "database.table, for example shop.orders")
    return table


def _check_filters(tables: str | None, exclude: str | None, table: str | None) -> None:
    for name, value in (("tables", tables), ("excludeTables", exclude)):
        if value is not None and table is not None:
            hint = "table names the only table; leave one of the two"
            raise _invalid(name, value, "nothing beside option table", hint=hint)
    TableFilter(tables, exclude)


def _start(given: Mapping[str, str]) -> Edge | SourceOffset | GtidPosition:
    offsets, gtid = given.get("startingOffsets"), given.get("startingGtid")
    if offsets is not None and gtid is not None:
        raise StartError(
            "CONFLICTING_OPTIONS",
            f'options startingOffsets ("{offsets}") and startingGtid ("{gtid}"): a query has one start',
            hint="Leave one of them",
        )
    if gtid is not None:
        try:
            return GtidPosition.parse(gtid)
        except ValueError as error:
            expected = "the last GTID of each domain, for example 0-1-100,1-2-7"
            raise _invalid("startingGtid", gtid, expected, hint=str(error)) from error
    if offsets is None:
        return Edge.EARLIEST
    if not offsets.startswith("{"):
        return Edge(_choice("startingOffsets", offsets, tuple(Edge)))
    try:
        return SourceOffset.from_json(json.loads(offsets))
    except ValueError as error:
        example = '{"file_no": 3, "page": 12, "chunk": 0}'
        raise _invalid("startingOffsets", offsets, f"an offset, for example {example}", hint=str(error)) from error


def _size(name: str, value: str | None) -> int | None:
    if value is None:
        return None
    match = _SIZE.fullmatch(value)
    size = int(match[1]) * _SIZE_FACTORS[match[2].lower()] if match else 0
    if not 0 < size <= _INT64_MAX:
        raise _invalid(name, value, "a size in bytes, for example 67108864 or 64m")
    return size


def _count(name: str, value: str | None) -> int | None:
    if value is None:
        return None
    if not (value.isascii() and value.isdecimal()) or not 0 < int(value) <= MIN_PARTITIONS_MAX:
        raise _invalid(name, value, f"a number from 1 to {MIN_PARTITIONS_MAX}")
    return int(value)
