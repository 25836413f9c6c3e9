"""Values of options: each function reads one kind, and names what it expected where it cannot.

The table of options: `OPTIONS`, what the source knows by name; `docs/spark.md` describes each one.
"""

from __future__ import annotations

import difflib
import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING

from binlog_connector.following.offsets import SourceOffset
from binlog_format.errors import OptionError
from binlog_format.gtids.gtid_set import parse_gtids
from binlog_format.log.log import parse_position
from binlog_format.names import folds_table_names
from binlog_format.position import Position
from binlog_format.rows.declared.declared_types import UnknownValueError
from binlog_format.rows.declared.time_zones import known_zone

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from binlog_format.gtids.gtid_set import GtidPoint
    from binlog_format.log.log import ServerPosition


_SIZE = re.compile(r"(\d+)\s*([kmgt]?)b?", re.IGNORECASE)
_SIZE_FACTORS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_INT64_MAX = 2**63 - 1
_UINT32_MAX = 2**32 - 1


def nearest(text: str, names: Mapping[str, str]) -> str | None:
    """A hint that names what is written most alike; None: nothing is.

    Args:
        text: What was given, in lower case.
        names: What there is, by its lower case.
    """
    close = difflib.get_close_matches(text, names, n=1, cutoff=0.5)
    return f"Did you mean {names[close[0]]}?" if close else None


def invalid(name: str, value: str, expected: str, *, hint: str | None = None) -> OptionError:
    """The error for a value that is none."""
    return OptionError("INVALID_VALUE", f'option {name}: expected {expected}, got "{value}"', hint=hint)


def choice(given: Mapping[str, str], name: str, choices: Iterable[str], default: str) -> str:
    """One of some words, in lower case."""
    value = given.get(name)
    if value is None:
        return default
    words = [str(word) for word in choices]
    if value.lower() in words:
        return value.lower()
    raise invalid(name, value, " or ".join(words), hint=nearest(value.lower(), {word: word for word in words}))


def flag(given: Mapping[str, str], name: str, *, default: bool) -> bool:
    """`true` or `false`."""
    return choice(given, name, ("true", "false"), str(default).lower()) == "true"


def size(given: Mapping[str, str], name: str) -> int | None:
    """Bytes: a number, or one with k, m, g, t; None: not given."""
    value = given.get(name)
    if value is None:
        return None
    match = _SIZE.fullmatch(value)
    found = int(match[1]) * _SIZE_FACTORS[match[2].lower()] if match else 0
    if not 0 < found <= _INT64_MAX:
        raise invalid(name, value, "a size in bytes, for example 67108864 or 64m")
    return found


def count(given: Mapping[str, str], name: str, count_max: int) -> int | None:
    """A number from 1 to *count_max*; None: not given."""
    value = given.get(name)
    if value is None:
        return None
    if not (value.isascii() and value.isdecimal()) or not 0 < int(value) <= count_max:
        raise invalid(name, value, f"a number from 1 to {count_max}")
    return int(value)


def numbers(given: Mapping[str, str], name: str) -> tuple[int, ...]:
    """Numbers of 32 bits, separated by commas; none when it is empty or not given."""
    value = given.get(name, "")
    found = []
    for part in value.split(",") if value else []:
        text = part.strip()
        if not (text.isascii() and text.isdecimal()) or int(text) > _UINT32_MAX:
            raise invalid(name, value, "numbers separated by commas, for example 1,7", hint=f'"{text}" is none')
        found.append(int(text))
    return tuple(sorted(set(found)))


def moment(name: str, value: str) -> int:
    """A time as seconds since 1970 UTC: such a number, or ISO 8601; UTC without a zone. A fraction rounds up."""
    if value.isascii() and value.isdecimal() and len(value) != len("YYYYMMDD"):
        return int(value)
    try:
        at = datetime.fromisoformat(value)
    except ValueError as error:
        raise invalid(name, value, "a time, for example 2026-01-31T12:00:00Z or seconds since 1970") from error
    at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    seconds, micros = divmod(at - datetime.fromtimestamp(0, UTC), _SECOND)
    return seconds + (1 if micros else 0)


_SECOND = datetime.fromtimestamp(1, UTC) - datetime.fromtimestamp(0, UTC)


def point(name: str, value: str) -> GtidPoint:
    """GTIDs of either vendor."""
    try:
        return parse_gtids(value)
    except ValueError as error:
        expected = "what has been taken, for example 0-1-100,1-2-7 (MariaDB) or uuid:1-77 (MySQL)"
        raise invalid(name, value, expected, hint=str(error)) from error


def offset(name: str, value: str) -> SourceOffset | ServerPosition:
    """An offset as JSON, or a position as text: ours, or of a classic log the server's."""
    try:
        if not value.startswith("{"):
            position = parse_position(value)
            return SourceOffset(position) if isinstance(position, Position) else position
        found = SourceOffset.from_json(json.loads(value))
        if found.taken is not None:
            raise ValueError("offset: taken: a query takes whole transactions")
        return found
    except ValueError as error:
        expected = 'an offset, for example {"file_no": 3, "page": 12, "chunk": 0}, 3:12:0 or mysql-bin.000001:14542'
        raise invalid(name, value, expected, hint=str(error)) from error


def folds_names(given: Mapping[str, str]) -> bool | None:
    """The option `lowerCaseTableNames`: names in upper and lower case are the same; None: it is not given."""
    value = choice(given, "lowerCaseTableNames", ("0", "1", "2"), "")
    return folds_table_names(int(value) if value else None)


def system_time_zone(given: Mapping[str, str]) -> str | None:
    """The option `systemTimeZone`: what the time zone `SYSTEM` is on the server; None: it is not given."""
    value = given.get("systemTimeZone")
    if value is None:
        return None
    try:
        return known_zone(value).name
    except UnknownValueError:
        raise invalid("systemTimeZone", value, "UTC, an offset as +02:00, or a name as Europe/Berlin") from None


class Queries(StrEnum):
    """Queries that an option applies to; others refuse it, unless it is one of `QUIET_OPTIONS`."""

    BOTH = "both"
    BATCH = "batch"
    STREAMING = "streaming"


@dataclass(frozen=True, slots=True)
class Option:
    """An option.

    Attributes:
        name: As the documentation spells it; any case will do.
        default: What holds when it is not given, in words; empty: nothing.
        queries: Where it counts.
    """

    name: str
    default: str = ""
    queries: Queries = Queries.BOTH


OPTIONS = (
    Option("path"),
    Option("archive"),
    Option("format", "detected"),
    Option("view", "changes or logs"),
    Option("table"),
    Option("tables", "all"),
    Option("excludeTables", "none"),
    Option("countOtherTables", "false"),
    Option("tellProblems", "false"),
    Option("definedTables", "none"),
    Option("startingOffsets", "earliest"),
    Option("startingGtid"),
    Option("startingTimestamp"),
    Option("endingOffsets", "latest"),
    Option("endingGtid"),
    Option("endingTimestamp", "", Queries.BATCH),
    Option("maxBytesPerTrigger", "all", Queries.STREAMING),
    Option("maxFilesPerTrigger", "all", Queries.STREAMING),
    Option("minPartitions", "by size"),
    Option("bound", "visible"),
    Option("failOnDataLoss", "true"),
    Option("failOnStatement", "true"),
    Option("ignoreDomainIds", "none"),
    Option("ignoreServerIds", "none"),
    Option("schemaFile"),
    Option("keptDefinitions"),
    Option("lowerCaseTableNames", "found out from the log"),
    Option("declaredTypes", "false"),
    Option("rules", "none"),
    Option("includeDdl", "false"),
    Option("includeQuery", "false"),
    Option("includeAbsent", "false"),
    Option("includeSequence", "false"),
    Option("timeType", "text"),
    Option("zeroDates", "null"),
    Option("replaceInvalidText", "false"),
    Option("fullSourceImages", "false"),
    Option("systemTimeZone", "unknown"),
    Option("source"),
    Option("minSeverity", "any"),
    Option("categories", "all"),
    Option("sourceFiles", "all"),
    Option("formats", "all"),
    Option("sortWindow", "none"),
    Option("skipDamaged", "false"),
    Option("kafkaValue"),
    Option("topicPrefix"),
    Option("topic", "{prefix}.{database}.{table}"),
    Option("schemasEnable", "false"),
    Option("tombstones", "true"),
    Option("decimalHandling", "precise"),
    Option("unsignedBigintHandling", "long"),
    Option("binaryHandling", "bytes"),
    Option("timePrecision", "adaptive_time_microseconds"),
    Option("messageVersion", "3"),
)
"""All options, in the order of the documentation."""

OPTION_NAMES = tuple(option.name for option in OPTIONS)
BATCH_ONLY = tuple(option.name for option in OPTIONS if option.queries is Queries.BATCH)
"""Refused in a streaming query. What limits a trigger has no meaning in a batch query, and is passed over there, as by
Spark's own sources."""
