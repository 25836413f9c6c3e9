"""Columns whose values a Delta table makes: `generated_columns` of the row alone, `identity_columns` are numbers.

New rows get the next numbers; the last one is in the column's metadata, and moves in the commit that brings the rows.
So a commit by another writer who numbered rows meanwhile makes it fail, and the step is done again.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from binlog_connector.rules.predicate_parser import PredicateError
from binlog_connector.schema.parsing.lexer import DdlSyntaxError, Lexer, TokenKind, TokenReader
from binlog_format.errors import TableError
from binlog_format.messages import row_value
from binlog_format.names import folded_name
from binlog_streaming.lake.delta.actions import Metadata
from binlog_streaming.lake.delta.row_checks import TEXT_LENGTH, see_tokens
from binlog_streaming.lake.row_values import one_array

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from binlog_streaming.lake.delta.log import Named

GENERATION = "delta.generationExpression"
"""Metadata of a column: the expression that its values are."""
_PARTS = {"YEAR": pc.year, "MONTH": pc.month, "DAY": pc.day, "DAYOFMONTH": pc.day, "HOUR": pc.hour}
_DAYS = ("date", "timestamp_ntz")
_COPIED = ("byte", "short", "integer", "long", "string", "date", "timestamp", "timestamp_ntz", "boolean", "binary")


@dataclass(frozen=True, slots=True)
class GeneratedColumn:
    """A column whose values are made of another one, *column*."""

    name: str
    expression: str
    column: str
    _value: Callable[[pa.Array], pa.Array]

    def put(self, uri: str, rows: pa.Table) -> pa.Table:
        """*rows* with its values."""
        made = self._value(one_array(rows.column(self.column)))
        given = one_array(rows.column(self.name))
        same = pc.fill_null(pc.equal(given, made), pc.is_null(given))
        if (number := pc.index(same, False).as_py()) >= 0:
            raise TableError(
                "TABLE_FEATURE",
                f"{uri}: a row has {row_value(repr(given[number].as_py()))} in column {self.name}, and the table makes "
                f"its values by {self.expression}",
                hint="Name another target and let this job build the table anew from the log",
            )
        index = rows.schema.get_field_index(self.name)
        return rows.set_column(index, rows.schema.field(index), made)


def generated_columns(metadata: Metadata) -> tuple[list[GeneratedColumn], list[str]]:
    """Columns whose values are made here; and others, as messages name them, with their reasons."""
    columns = metadata.columns
    made: list[GeneratedColumn] = []
    refused: list[str] = []
    for column in columns:
        if (expression := column.get("metadata", {}).get(GENERATION)) is not None:
            try:
                made.append(_generated_column(column, expression, columns))
            except PredicateError as error:
                refused.append(f"generatedColumns (column {column['name']}: {expression}, {error.told(expression)})")
    return made, refused


def _generated_column(
    column: Mapping[str, Any], expression: str, columns: Sequence[Mapping[str, Any]]
) -> GeneratedColumn:
    see_tokens(expression)
    try:
        function, name, numbers = _call(TokenReader(Lexer(expression)))
    except DdlSyntaxError as error:
        raise PredicateError(str(error), error.at) from error
    base = next((other for other in columns if folded_name(other["name"]) == folded_name(name)), None)
    if base is None or GENERATION in base.get("metadata", {}):
        raise PredicateError(f"a column that is not generated expected, got {name}", 0)
    if base["type"] == "timestamp" and function:
        raise PredicateError(f"{name} is a TIMESTAMP: its {function} depends on the time zone of a session", 0)
    found = _function(function, base["type"], numbers)
    if (
        found is None
        or found[0] != column["type"]
        or TEXT_LENGTH in base.get("metadata", {})
        or TEXT_LENGTH in column.get("metadata", {})
    ):
        raise PredicateError(f"this function is not known for {base['type']} to {column['type']}", 0)
    return GeneratedColumn(column["name"], expression, base["name"], found[1])


def _call(reader: TokenReader) -> tuple[str, str, tuple[int, ...]]:
    # The function, in upper case, its column, and numbers; of a column alone the function is empty.
    is_function, name = reader.peek().kind is TokenKind.WORD, reader.name()
    if reader.at_end():
        return "", name, ()
    if not is_function:
        raise reader.error("the end expected")
    reader.expect_symbol("(")
    column, numbers = reader.name(), []
    if name.upper() == "CAST" and not reader.accept("AS", "DATE"):
        raise reader.error("AS DATE expected")
    while reader.accept_symbol(","):
        numbers.append(reader.number())
    reader.expect_symbol(")")
    if not reader.at_end():
        raise reader.error("the end expected")
    return name.upper(), column, tuple(numbers)


def _function(
    function: str, kind: object, numbers: tuple[int, ...]
) -> tuple[object, Callable[[pa.Array], pa.Array]] | None:
    # Type of what it gives, and itself; None: it is not one of ours.
    match function, numbers:
        case "", () if kind in _COPIED:
            return kind, lambda values: values
        case "CAST", () if kind in _DAYS:
            return "date", lambda values: values.cast(pa.date32(), safe=False)
        case part, () if part in _PARTS and (kind == "timestamp_ntz" or (kind == "date" and part != "HOUR")):
            return "integer", lambda values: _PARTS[part](values).cast(pa.int32())
        case (("SUBSTRING" | "SUBSTR"), (start, length)) if kind == "string" and start > 0:
            return "string", lambda values: pc.utf8_slice_codeunits(values, start - 1, start - 1 + length)
    return None


EXPLICIT = "delta.identity.allowExplicitInsert"
"""Metadata of an identity column: whether rows may bring a value (BY DEFAULT); false: the table makes all (ALWAYS)."""
NUMBERED = "delta.identity.schemaUpdate"
"""Tag of commits that change nothing of the metadata but last numbers: Spark's OPTIMIZE does not mind these."""
_START, _STEP, _LAST = (f"delta.identity.{name}" for name in ("start", "step", "highWaterMark"))
_LONGS = np.iinfo(np.int64)


@dataclass(slots=True)
class IdentityColumn:
    """A column in which the table numbers its rows.

    Attributes:
        last: The last number that was given, or the one that others must be beyond; None: there is none.
    """

    name: str
    start: int
    step: int
    last: int | None

    def put(self, uri: str, rows: pa.Table) -> pa.Table:
        """*rows* with numbers where they have none; rows that are copied or updated keep theirs."""
        given = one_array(rows.column(self.name))
        count = given.null_count
        if not count:
            return rows
        beyond = 0 if self.last is None else max((self.last - self.start) // self.step + 1, 0)
        first, last = (self.start + self.step * (beyond + place) for place in (0, count - 1))
        if not _LONGS.min <= last <= _LONGS.max:
            raise TableError(
                "TABLE_FEATURE",
                f"{uri}: the next numbers of column {self.name} (identityColumns) are not within 64 bits",
                hint="Name another target and let this job build the table anew from the log",
            )
        self.last = last
        values = np.zeros(len(given), np.int64) if count == len(given) else given.fill_null(0).to_numpy().copy()
        values[given.is_null().to_numpy(zero_copy_only=False)] = first + self.step * np.arange(count)
        index = rows.schema.get_field_index(self.name)
        return rows.set_column(index, rows.schema.field(index), pa.array(values))


def identity_columns(metadata: Metadata) -> list[IdentityColumn]:
    """Columns in which new rows get their numbers here."""
    return [
        IdentityColumn(column["name"], facts[_START], facts[_STEP], facts.get(_LAST))
        for column in metadata.columns
        if (facts := column.get("metadata", {})).get(EXPLICIT) is False
    ]


def is_numbered(column: Mapping[str, Any]) -> bool:
    """True if an identity column, as `schemaString` has it, tells what is needed to number rows."""
    start, step = (column["metadata"].get(name) for name in (_START, _STEP))
    return column["type"] == "long" and isinstance(start, int) and isinstance(step, int) and step != 0


def with_last_numbers(actions: Sequence[Named], metadata: Metadata, columns: Sequence[IdentityColumn]) -> list[Named]:
    """*actions* of a commit, with the last numbers in the table's metadata, if they have moved.

    Args:
        metadata: Of the table before the commit.
    """
    last = {column.name: column.last for column in columns if column.last is not None}
    if not last:
        return list(actions)
    known = next((action for _, action in actions if isinstance(action, Metadata)), metadata)
    schema = json.loads(known.schema_string)
    numbered = [field for field in schema["fields"] if field["name"] in last]
    moved = [field for field in numbered if field["metadata"].get(_LAST) != last[field["name"]]]
    for field in moved:
        field["metadata"][_LAST] = last[field["name"]]
    if not moved:
        return list(actions)
    text = json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
    others = [named for named in actions if not isinstance(named[1], Metadata)]
    return [*others, ("metaData", replace(known, schema_string=text))]
