"""Values of a generated column, computed of others: `GeneratedValues(column, table, vendor, decoding)`.

What is not known to be computed as servers do it is unknown; see docs/ddl.md for what is.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlog_connector.schema.effects import numbers, texts, times
from binlog_connector.schema.effects.column_effects import column_side
from binlog_connector.schema.effects.conversion import (
    UNKNOWN,
    Circumstances,
    ColumnSide,
    Converted,
    Unknown,
    Values,
    either,
    true_mask,
    where_known,
)
from binlog_connector.schema.effects.number_texts import WIDE_CHARSETS, numbers_of_texts
from binlog_connector.schema.expressions.date_functions import DATE_FUNCTIONS, moved_by, time_of
from binlog_connector.schema.expressions.expression import (
    CAST,
    CLOCKS,
    COLUMN,
    DATE_ADD,
    DATE_SUB,
    DECIMAL,
    JSON_EXTRACT,
    JSON_UNQUOTE,
    NULL,
    NUMBER,
    TEXT,
    Expression,
)
from binlog_connector.schema.expressions.json_functions import json_numbers, json_texts
from binlog_connector.schema.expressions.number_functions import NUMBER_FUNCTIONS
from binlog_connector.schema.expressions.operands import (
    Kind,
    NotComputedError,
    Operand,
    number,
    text,
    unless_empty,
)
from binlog_connector.schema.expressions.parser import parse_words
from binlog_connector.schema.expressions.text_functions import TEXT_FUNCTIONS, WITH_CONSTANTS
from binlog_connector.schema.parsing.lexer import DdlSyntaxError
from binlog_connector.schema.parsing.session import UTF8MB4
from binlog_format.errors import BinlogError
from binlog_format.names import folded_name, folded_names
from binlog_format.rows.arrow_arrays import same_values
from binlog_format.rows.declared.declared_types import Moment
from binlog_format.vendor import Vendor

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from binlog_connector.schema.definitions import ColumnDefinition, TableDefinition
    from binlog_format.kernels import Mask
    from binlog_format.rows.decoding import Decoding

_NUMBER_DIGITS = {"tinyint": 3, "smallint": 5, "mediumint": 8, "int": 10, "bigint": 20}
_DATES = {times.DATE: Kind.DATE, times.DATETIME: Kind.DATETIME}
_FUNCTIONS: Mapping[str, Callable[..., Operand]] = {**NUMBER_FUNCTIONS, **TEXT_FUNCTIONS, **DATE_FUNCTIONS}
_NEVER = Moment(0)
_NOTHING: Mapping[str, Mask] = {}
_CONSTANTS = (NUMBER, DECIMAL, TEXT)
_KEYWORDS = frozenset(
    [
        "null",
        "true",
        "false",
        "case",
        "when",
        "then",
        "else",
        "end",
        "is",
        "not",
        "and",
        "or",
        "div",
        "mod",
        "in",
        "between",
        "interval",
        "_binary",
        "maxvalue",
        "default",
    ]
)


@dataclass(frozen=True)
class GeneratedValues:
    """A generated column, or one whose default is an expression, and how its values are computed.

    Args:
        column: The column, with the words of its expression.
        moment: When the statement runs that computes them; None: they do not depend on it.
        pads_char: `sql_mode` of that statement has PAD_CHAR_TO_FULL_LENGTH.

    Raises:
        NotComputedError: It is not known how, or of no column of the table.
    """

    column: ColumnDefinition
    table: TableDefinition
    vendor: Vendor
    decoding: Decoding
    moment: Moment | None = None
    pads_char: bool = False

    @cached_property
    def how(self) -> Circumstances:
        """Circumstances in which nothing is converted but what fits."""
        decoding = replace(self.decoding, rules=None)
        return Circumstances(
            self.vendor, strict=True, cuts_fractions=False, decoding=decoding, moment=self.moment or _NEVER
        )

    @cached_property
    def expression(self) -> Expression:
        """The expression."""
        words = self.column.expression
        there = folded_names(column.name for column in self.table.columns or ())
        odd = [name for name in there & folded_names(words) if name in _KEYWORDS or not name.isidentifier()]
        if odd or "_binary" in folded_names(words) or not words:
            raise NotComputedError("an expression that is not understood")
        try:
            return parse_words(words)
        except DdlSyntaxError as error:
            raise NotComputedError(f"an expression that is not understood: {error.reason}") from error

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """Names of the columns that it is computed of, as the table has them."""
        return tuple(dict.fromkeys(self.source(name).name for name in self.expression.columns()))

    def check(self) -> None:
        """Check that the expression is understood, and depends on columns alone. Raises `NotComputedError`."""
        _check_functions(self.expression)
        for column in (self.column, *map(self.source, self.sources)):
            self._side(column)

    def values(self, arrays: Mapping[str, pa.Array], count: int, doubtful: Mapping[str, Mask] = _NOTHING) -> Values:
        """Values of the column.

        Args:
            arrays: Values of `sources`, by name, in the types of the log or wider ones.
            doubtful: Rows in which a null may be another value than NULL, by name; of others, a date may be
                `0000-00-00`.

        Raises:
            NotComputedError: It is not known how.
        """
        try:
            operands = {name: self._operand(name, array, doubtful.get(name)) for name, array in arrays.items()}
            found = _Evaluation(self, operands, count).evaluated(self.expression)
            stored = _stored(found, self._side(self.column), self.how)
        except pa.ArrowException as error:
            raise NotComputedError("a value that has no place in the types of Arrow") from error
        return where_known(stored.array, _true(stored.unknown, count))

    def source(self, name: str) -> ColumnDefinition:
        """A column of the table. Raises `NotComputedError`: there is none of that name."""
        found = next((c for c in self.table.columns or () if folded_name(c.name) == folded_name(name)), None)
        if found is None:
            raise NotComputedError(f"there is no column {name}")
        return found

    def _side(self, column: ColumnDefinition) -> ColumnSide:
        try:
            return column_side(self.table, column, self.how)
        except BinlogError as error:
            raise NotComputedError(error.reason) from error

    def _operand(self, name: str, array: pa.Array, doubtful: Mask | None) -> Operand:
        column = self.source(name)
        if not (column.knows("declared") and column.knows("charset")) or column.zerofill or column.compressed:
            raise NotComputedError(f"of column {name}, whose definition is not known or unusual")
        if WIDE_CHARSETS & {column.charset, self.column.charset}:
            raise NotComputedError("of texts in a character set of which old servers lose characters")
        side = self._side(column)
        if self.pads_char and side.type_name == "char":
            raise NotComputedError(f"of column {name}, to which PAD_CHAR_TO_FULL_LENGTH adds spaces")
        missing = true_mask(array.is_null())
        if doubtful is not None:
            missing &= doubtful
        elif side.type_name not in times.MOMENTS or not self.how.null_may_be_zero_date:
            missing[:] = False
        return _column_operand(side, array, self.how).doubted(unless_empty(missing))


def _true(mask: Mask | None, count: int) -> Mask:
    return np.zeros(count, np.bool_) if mask is None else mask


def _column_operand(side: ColumnSide, array: pa.Array, how: Circumstances) -> Operand:
    """Values of a column."""
    name = side.type_name
    if (name in _NUMBER_DIGITS or name == numbers.DECIMAL) and not pa.types.is_floating(array.type):
        digits = side.numbers[0] if name == numbers.DECIMAL else _NUMBER_DIGITS[name]
        unsigned = bool(side.definition.unsigned)
        return number(numbers.exact(array, numbers.scale_of(side)), digits, unsigned=unsigned)
    if name == "json":
        return Operand(Kind.JSON, array.cast(pa.string()))
    if texts.binary_or_text(side) == "text" or name == "enum":
        return Operand(Kind.TEXT, array.cast(pa.string()), charset=side.definition.charset)
    if name in _DATES and not how.dates_are_texts:
        kind = pa.date32() if name == times.DATE else pa.timestamp("us")
        return Operand(_DATES[name], array.cast(kind), digits=side.fraction_digits)
    if texts.binary_or_text(side) == "binary":
        return Operand(Kind.BYTES, array.cast(pa.binary()))
    why = f"of column {side.definition.name}, which is a {name.upper()}"
    if name == times.TIMESTAMP and not how.dates_are_texts:
        return Operand(Kind.MOMENT, array.cast(pa.timestamp("us")), digits=side.fraction_digits, why_other=why)
    return Operand(Kind.OTHER, array, why_other=why)


@dataclass(frozen=True)
class _Evaluation:
    # Of one batch of rows.
    column: GeneratedValues
    operands: Mapping[str, Operand]
    count: int

    def evaluated(self, expression: Expression) -> Operand:
        op = expression.op
        if op in _LEAVES:
            return self._leaf(expression)
        if op == JSON_UNQUOTE and expression.operands[0].op == JSON_EXTRACT:
            return json_texts(*self._document(expression.operands[0]), null="null")
        if op == "JSON_VALUE":
            # Old versions of MariaDB give the text `null`, others NULL.
            null = UNKNOWN if self.column.vendor is Vendor.MARIADB else None
            return json_texts(*self._document(expression), null=null)
        if op == JSON_EXTRACT:
            return json_numbers(*self._document(expression))
        if op == CAST:
            return _cast(self.evaluated(expression.operands[0]), expression.text)
        if op in WITH_CONSTANTS:
            return self._with_constants(expression)
        if op in CLOCKS and self.column.moment is not None:
            return time_of(op, int(expression.text or 0), self.column.how, self.count)
        if op in (DATE_ADD, DATE_SUB):
            times, amount = map(self.evaluated, expression.operands)
            return moved_by(times, amount, expression.text, back=op == DATE_SUB)
        if op not in _FUNCTIONS:
            raise NotComputedError(f"{op} is not computed here")
        return _called(op, _FUNCTIONS[op], [self.evaluated(operand) for operand in expression.operands])

    def _leaf(self, expression: Expression) -> Operand:
        written = expression.text
        if expression.op == COLUMN:
            return self.operands[self.column.source(written).name]
        if expression.op == NULL:
            return Operand(Kind.NULL, pa.nulls(self.count, pa.string()))
        if expression.op == TEXT:
            charset = "ascii" if written.isascii() else "utf8mb4"
            return Operand(Kind.TEXT, pa.repeat(pa.scalar(written, pa.string()), self.count), charset=charset)
        digits = len(written.replace(".", ""))
        scale = len(written.partition(".")[2])
        array = pa.repeat(pa.scalar(written).cast(pa.decimal256(76, scale)), self.count)
        return number(array, digits)

    def _document(self, expression: Expression) -> tuple[Operand, str]:
        if len(expression.operands) != 2 or expression.operands[1].op != TEXT:
            raise NotComputedError(f"{expression.op} without one constant path")
        document = self.evaluated(expression.operands[0])
        if document.kind is Kind.TEXT and self.column.vendor is Vendor.MARIADB:
            document = replace(document, kind=Kind.JSON)
        return document, expression.operands[1].text

    def _with_constants(self, expression: Expression) -> Operand:
        first, *others = expression.operands
        arguments = [self.evaluated(first), *map(_constant, others)]
        return _called(expression.op, WITH_CONSTANTS[expression.op], arguments)


_LEAVES = frozenset([COLUMN, NULL, *_CONSTANTS])
_SPECIAL = frozenset([JSON_EXTRACT, JSON_UNQUOTE, "JSON_VALUE", CAST, DATE_ADD, DATE_SUB])


def _called(name: str, function: Callable[..., Operand], arguments: Sequence[object]) -> Operand:
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError as error:
        raise NotComputedError(f"{name} with other arguments than usual") from error
    return function(*arguments)


def _check_functions(expression: Expression) -> None:
    if expression.op not in _LEAVES | _FUNCTIONS.keys() | WITH_CONSTANTS.keys() | _SPECIAL:
        raise NotComputedError(f"{expression.op} is not computed here")
    for operand in expression.operands:
        _check_functions(operand)


def _constant(expression: Expression) -> str:
    if expression.op == "NEGATIVE" and expression.operands[0].op == NUMBER:
        return f"-{expression.operands[0].text}"
    if expression.op not in _CONSTANTS:
        raise NotComputedError("an argument that is no constant")
    return expression.text


def _cast(operand: Operand, wanted: str) -> Operand:
    """CAST(... AS type)."""
    name, _, size = wanted.rstrip(")").partition("(")
    if name.split(" ")[0] in ("SIGNED", "UNSIGNED") and operand.kind is Kind.NUMBER and not operand.scale:
        unsigned = name.startswith("UNSIGNED")
        is_negative = true_mask(pc.less(operand.array, pa.scalar(0, operand.array.type)))
        return replace(operand, unsigned=unsigned).doubted(unless_empty(is_negative) if unsigned else None)
    if name == "CHAR" and not size:
        return text(operand)
    if name == "DATE":
        return DATE_FUNCTIONS["DATE"](operand)
    if name == "DECIMAL" and size and operand.kind is Kind.NUMBER:
        precision, _, scale = size.partition(",")
        rounded = WITH_CONSTANTS["ROUND"](operand, scale or "0")
        array = rounded.array.cast(pa.decimal256(76, int(scale or 0)))
        end = pa.scalar("1" + "0" * (int(precision) - int(scale or 0))).cast(array.type)
        beyond = true_mask(pc.greater_equal(pc.abs(array), end))
        return number(array, int(precision), unknown=either(rounded.unknown, beyond))
    raise NotComputedError(f"CAST of a {operand.kind.name} to {wanted}")


def _stored(operand: Operand, side: ColumnSide, how: Circumstances) -> Values:
    """Values as the column holds them; what a server refuses or cuts is unknown."""
    if operand.kind is Kind.NULL:
        values = Values(pa.nulls(len(operand.array), side.arrow_type))
    elif texts.binary_or_text(side) == "text":
        values = _as_text(text(operand), side)
    elif operand.kind is Kind.NUMBER and (
        side.type_name in _NUMBER_DIGITS or side.type_name in (numbers.DECIMAL, numbers.FLOAT, numbers.DOUBLE)
    ):
        values = numbers.from_exact(side, how)(operand.array.cast(pa.decimal256(76, operand.scale)))
    elif operand.kind is Kind.TEXT and side.type_name in (*_NUMBER_DIGITS, numbers.DECIMAL):
        values = _as_number(operand, side, how)
    elif operand.kind is Kind.BYTES and side.type_name in ("binary", "varbinary"):
        values = _as_bytes(operand, side, how)
    elif operand.kind in _DATES.values() and side.type_name in times.MOMENTS and operand.digits <= side.fraction_digits:
        values = _as_moment(operand, side, how)
    else:
        raise NotComputedError(operand.why_other or f"a {operand.kind.name} in a column of {side.definition.declared}")
    unknown = either(values.unknown, operand.unknown)
    return Values(values.array, unknown if side.nullable else either(unknown, true_mask(values.array.is_null())))


def _as_text(operand: Operand, side: ColumnSide) -> Values:
    array = operand.array.cast(pa.string())
    if side.type_name == "char":
        array = pc.utf8_rtrim(array, " ")
    charset = side.definition.charset
    if charset in (operand.charset, UTF8MB4):
        found = Values(array)
    else:
        found = texts.only_first_plane(array) if charset in texts.FIRST_PLANE else texts.only_ascii(array)
    cut = texts.cut_text(side)(found.array)
    return where_known(cut.array, _true(either(found.unknown, ~same_values(cut.array, array)), len(array)))


def _as_moment(operand: Operand, side: ColumnSide, how: Circumstances) -> Values:
    declared = times.DATE if operand.kind is Kind.DATE else times.DATETIME
    declared += f"({operand.digits})" if operand.digits else ""
    held = ColumnSide(replace(side.definition, declared=declared), True, operand.array.type)
    effect = times.time_effect(held, side, how)
    if isinstance(effect, Unknown):
        raise NotComputedError(effect.reason)
    found = effect.convert(operand.array) if isinstance(effect, Converted) else Values(operand.array)
    return Values(found.array.cast(side.arrow_type), found.unknown)


def _as_bytes(operand: Operand, side: ColumnSide, how: Circumstances) -> Values:
    longest = replace(side.definition, declared="longblob")
    effect = texts.binary_effect(ColumnSide(longest, True, pa.binary()), side, how)
    return effect.convert(operand.array) if isinstance(effect, Converted) else Values(operand.array)


def _as_number(operand: Operand, side: ColumnSide, how: Circumstances) -> Values:
    longest = replace(side.definition, declared="longtext", charset="utf8mb4", unsigned=None)
    effect = numbers_of_texts(ColumnSide(longest, True, pa.string()), side, how)
    assert isinstance(effect, Converted), "texts are read as numbers"
    return effect.convert(operand.array)
