"""Rules of a Delta table for its rows: CHECK constraints, and invariants with an expression.

Only expressions with one meaning in every version and mode of Spark are evaluated; `row_checks` refuses others.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from binlog_connector.rules.predicate import PredicateColumn, evaluation_of
from binlog_connector.rules.predicate_parser import (
    ColumnComparison,
    Conjunction,
    Likeness,
    Membership,
    Negation,
    Nullness,
    PredicateError,
    parse_predicate,
)
from binlog_format.errors import TableError
from binlog_format.messages import row_value
from binlog_format.names import folded_name
from binlog_streaming.lake.commit_id import KEYS_PROPERTY, split_keys
from binlog_streaming.lake.row_values import one_array

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from binlog_connector.rules.predicate_parser import Condition, Literal, ValueComparison
    from binlog_streaming.lake.delta.actions import Metadata

CONSTRAINT = "delta.constraints."
"""Beginning of the properties that have CHECK constraints."""
INVARIANT = "delta.invariants"
"""Metadata of a column: an invariant with an expression."""
TEXT_LENGTH = "__CHAR_VARCHAR_TYPE_STRING"
"""Metadata of a column: it is CHAR or VARCHAR."""

_SAME_TOKENS = re.compile(
    r"""(?:[ \t\r\n]+
    | [A-Za-z_][A-Za-z0-9_]*(?![\w$.'"`])
    | `[^`]+`(?![\w$.'"`])
    | [0-9]+(?:\.[0-9]+)?(?![\w$.'"`])
    | '[^'\\]*'(?![\w$'"`])
    | <> | != | [<>]=? | = | [(),] | -(?!-)
    )*""",
    re.VERBOSE,
)
"""Text whose tokens Spark and MariaDB read alike: no escapes, no types of literals, no comments."""

_KINDS = {
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "date": pa.date32(),
}
"""Types, as `schemaString` calls them, of columns that are compared."""
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")
_DIGITS_MAX = 38
_LONG_DIGITS, _INT_DIGITS = 20, 10
_LITERAL_DIGITS_MAX = 18
_FLOAT_DIGITS_MAX = 15
_FLOAT_WHOLE_MAX = 1 << 24
_INT_MAX = (1 << 31) - 1
_INFINITE = float("inf")


@dataclass(frozen=True, slots=True)
class RowCheck:
    """A rule that rows of a table keep.

    Attributes:
        feature: Of Delta's, to which the rule belongs.
        columns: Columns that it asks for, by their numbers.
    """

    feature: str
    name: str
    expression: str
    columns: Mapping[int, str]
    keys: tuple[str, ...]
    _evaluation: Callable[[Mapping[int, pa.Array]], pa.Array]

    def see(self, uri: str, rows: pa.Table) -> None:
        """See that rows keep it; as in Delta, what is NULL breaks it."""
        columns = {index: _ordered(one_array(rows.column(name))) for index, name in self.columns.items()}
        kept = pc.fill_null(self._evaluation(columns), False)
        if (number := pc.index(kept, False).as_py()) < 0:
            return
        row = rows.select(list(dict.fromkeys([*self.keys, *self.columns.values()]))).slice(number, 1).to_pylist()[0]
        told = ", ".join(f"{name} = {row_value(repr(value))}" for name, value in row.items())
        raise TableError(
            "TABLE_FEATURE",
            f"{uri}: a row breaks a rule of the table, {self.feature} ({self.name}: {self.expression}): {told}",
            hint="Take the rule off the table (Spark: ALTER TABLE ... DROP CONSTRAINT), or name another target and let "
            "this job build the table anew from the log",
        )


def row_checks(metadata: Metadata) -> tuple[list[RowCheck], list[str]]:
    """Rules of a table that are kept here; and those that are not, as messages name them, with their reasons."""
    columns = metadata.columns
    known = {folded_name(column["name"]): column for column in columns}
    keys = tuple(
        known[folded_name(key)]["name"]
        for key in split_keys(metadata.configuration.get(KEYS_PROPERTY, ""))
        if folded_name(key) in known
    )
    checks: list[RowCheck] = []
    refused: list[str] = []
    for feature, name, expression in _rules(metadata, columns):
        try:
            checks.append(_row_check(feature, name, expression, columns, keys))
        except PredicateError as error:
            refused.append(f"{feature} ({name}: {expression}, {error.told(expression)})")
    return checks, refused


def _rules(metadata: Metadata, columns: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str, str]]:
    # Feature, name and expression of each.
    for name, expression in sorted(metadata.configuration.items()):
        if name.startswith(CONSTRAINT):
            yield "checkConstraints", name.removeprefix(CONSTRAINT), expression
    for column in columns:
        if (rule := column.get("metadata", {}).get(INVARIANT)) is not None:
            yield "invariants", f"column {column['name']}", json.loads(rule)["expression"]["expression"]


def _row_check(
    feature: str, name: str, expression: str, columns: Sequence[Mapping[str, Any]], keys: tuple[str, ...]
) -> RowCheck:
    see_tokens(expression)
    condition = parse_predicate(expression, compares_columns=True)
    shown = [PredicateColumn(column["name"], _kind(column), json.dumps(column["type"])) for column in columns]
    asked, evaluation = evaluation_of(condition, shown)
    _see_same({folded_name(column.name): column.kind for column in shown}, condition)
    return RowCheck(feature, name, expression, {index: shown[index].name for index in asked}, keys, evaluation)


def see_tokens(expression: str) -> None:
    """See that Spark and our parser read the same tokens. Raises `PredicateError`: they may not."""
    found = _SAME_TOKENS.match(expression)
    assert found is not None, "it may be empty"
    if found.end() < len(expression):
        raise PredicateError("names, numbers, texts in '' without \\, and comparisons expected", found.end())


def _kind(column: Mapping[str, Any]) -> pa.DataType:
    # Null: its values are not compared.
    if not isinstance(column["type"], str) or TEXT_LENGTH in column.get("metadata", {}):
        return pa.null()
    if (decimal := _DECIMAL.fullmatch(column["type"])) is not None:
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    return _KINDS.get(column["type"], pa.null())


def _ordered(values: pa.Array) -> pa.Array:
    # In Spark NaN is greater than all other numbers.
    if not pa.types.is_floating(values.type):
        return values
    return pc.if_else(pc.is_nan(values), pa.scalar(_INFINITE, values.type), values)


def _see_same(kinds: Mapping[str, pa.DataType], condition: Condition) -> None:
    """See that Spark compares the same values in the same way. Raises `PredicateError`: it may not."""
    match condition:
        case Negation():
            _see_same(kinds, condition.condition)
        case Conjunction():
            for operand in condition.conditions:
                _see_same(kinds, operand)
        case Nullness():
            pass
        case ColumnComparison():
            kind = kinds[folded_name(condition.column.name)]
            if kind == pa.null() or pa.types.is_floating(kind):
                raise PredicateError("columns of whole numbers, DECIMAL, STRING or DATE expected", condition.other.at)
            if pa.types.is_boolean(kind) and condition.operator not in ("=", "<>", "!="):
                raise PredicateError("= or <> expected", condition.column.at)
        case Likeness():
            raise PredicateError("a comparison, IN, BETWEEN or IS NULL expected", condition.column.at)
        case _:
            _see_comparison(kinds[folded_name(condition.column.name)], condition)


def _see_comparison(kind: pa.DataType, condition: ValueComparison | Membership) -> None:
    literals = condition.literals if isinstance(condition, Membership) else (condition.literal,)
    is_odd = pa.types.is_boolean(kind) or pa.types.is_floating(kind)
    if is_odd and isinstance(condition, Membership):
        raise PredicateError("a comparison with one value expected", condition.column.at)
    for literal in literals:
        value = literal.value
        if pa.types.is_boolean(kind) and not isinstance(value, bool):
            raise PredicateError("TRUE or FALSE expected", literal.at)
        if pa.types.is_floating(kind) and not _is_exact_float(value):
            raise PredicateError(
                "a number that a FLOAT holds, or with up to 15 digits and a point, expected", literal.at
            )
    if pa.types.is_boolean(kind) and getattr(condition, "operator", "=") not in ("=", "<>", "!="):
        raise PredicateError("= or <> expected", condition.column.at)
    if pa.types.is_decimal(kind) or pa.types.is_integer(kind):
        _see_digits(kind, literals)


def _is_exact_float(value: object) -> bool:
    if not isinstance(value, Decimal):
        return True  # refused as no number
    if value == value.to_integral_value() and value.as_tuple().exponent == 0:
        return abs(value) <= _FLOAT_WHOLE_MAX
    return len(value.as_tuple().digits) <= _FLOAT_DIGITS_MAX


def _see_digits(kind: pa.DataType, literals: Sequence[Literal]) -> None:
    # Spark compares decimals in a type that holds all of them, and rounds if that has more than 38 digits.
    scale, whole = (kind.scale, kind.precision - kind.scale) if pa.types.is_decimal(kind) else (0, _LONG_DIGITS)
    for literal in literals:
        assert isinstance(literal.value, Decimal), "else the column would not be compared with it"
        _, digits, exponent = literal.value.as_tuple()
        assert isinstance(exponent, int)
        if len(digits) > _LITERAL_DIGITS_MAX:
            raise PredicateError(f"a number of up to {_LITERAL_DIGITS_MAX} digits expected", literal.at)
        scale = max(scale, -exponent)
        whole_digits = _INT_DIGITS if abs(literal.value) <= _INT_MAX else _LONG_DIGITS
        whole = max(whole, whole_digits if exponent == 0 else len(digits) + exponent)
    if scale + whole > _DIGITS_MAX:
        raise PredicateError(f"numbers of up to {_DIGITS_MAX} digits in all expected", literals[0].at)
