"""Generated columns of a Delta table, as far as their values depend on nothing but the row: `generated_columns`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from binlog_connector.rules.predicate_parser import PredicateError
from binlog_connector.schema.parsing.lexer import DdlSyntaxError, Lexer, TokenKind, TokenReader
from binlog_format.errors import TableError
from binlog_format.messages import row_value
from binlog_streaming.lake.delta.row_checks import TEXT_LENGTH, see_tokens
from binlog_streaming.lake.row_values import one_array

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from binlog_streaming.lake.delta.actions import Metadata

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
        """*rows* with its values.

        Raises:
            TableError: `TABLE_FEATURE`: a row has another value there.
        """
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
    columns = json.loads(metadata.schema_string)["fields"]
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
    base = next((other for other in columns if other["name"].casefold() == name.casefold()), None)
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
