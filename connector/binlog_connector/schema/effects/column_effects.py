"""Effects of an ALTER TABLE on each column of existing rows: `alter_effects(before, after, alter, how, sql_mode)`.

The one place that knows what a statement does to rows for which there are no row events. *Same* is a short list:
what is not on it is converted, by a function that is known to do what the server does, or unknown.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlog_connector.schema.definitions import ColumnDefinition
from binlog_connector.schema.effects import numbers, texts, time_conversions, times
from binlog_connector.schema.effects.conversion import (
    SAME,
    Circumstances,
    ColumnSide,
    Converted,
    Same,
    Unknown,
    Values,
    either,
    true_mask,
    where_known,
    where_unknown_too,
    widened,
)
from binlog_connector.schema.effects.value_effects import (
    ADDRESSES,
    LABELS,
    NUMBERS,
    needs_copy,
    no_address,
    value_effect,
)
from binlog_connector.schema.parsing.session import UTF8MB4, cuts_fractions
from binlog_format.errors import BinlogError
from binlog_format.events.table_map import TableLayout
from binlog_format.names import folded_name, folded_names
from binlog_format.rows.arrow_arrays import same_values
from binlog_format.rows.columns import arrow_type
from binlog_format.rows.declared.completion import column_of
from binlog_format.rows.declared.declared_types import AUTO_INCREMENT, DefaultKind
from binlog_format.vendor import Vendor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from binlog_connector.schema.definitions import TableDefinition
    from binlog_connector.schema.effects.conversion import Effect
    from binlog_connector.schema.log_ddl import DdlStatement
    from binlog_connector.schema.operations import AlterTable
    from binlog_format.rows.decoding import Decoding

# Bits of sql_mode: MariaDB sql/sql_class.h and MySQL sql/system_variables.h, MODE_*.
_STRICT = 1 << 21 | 1 << 22
_NO_AUTO_VALUE_ON_ZERO = 1 << 19
_INVALID_DATES = 1 << 25
PAD_CHAR = 1 << 31
_NUMBER_TEXT = r"^-?[0-9]+(\.[0-9]+)?$"


@dataclass(frozen=True, slots=True)
class ColumnChanged:
    """A column that existing rows have before and after a statement.

    Attributes:
        arrow_type: Of the values after the statement; None: it has a type that is not read.
        old_arrow_type: Of these before it, as the definition states them; None: not known.
    """

    old: ColumnDefinition
    new: ColumnDefinition
    effect: Effect
    arrow_type: pa.DataType | None = None
    old_arrow_type: pa.DataType | None = None

    @property
    def in_words(self) -> str:
        """The change in words, for an error."""
        old, new = self.old.declared, self.new.declared
        return f"is {new}, and is computed or converted again" if old == new else f"was {old} and is {new}"


def circumstances_of(statement: DdlStatement, decoding: Decoding, *, ignores: bool) -> Circumstances:
    """Circumstances in which a server converts values in a statement.

    Args:
        ignores: ALTER IGNORE: what does not fit is made to.
    """
    mode = statement.sql_mode
    cuts = cuts_fractions(statement.vendor, mode)
    strict = bool(mode & _STRICT) and not ignores
    return Circumstances(
        statement.vendor,
        strict,
        cuts,
        replace(decoding, rules=None),
        statement.moment,
        bool(mode & _INVALID_DATES),
        statement.server_version,
    )


def effects_without_definition(alter: AlterTable, reason: str) -> dict[str, ColumnChanged]:
    """The same for a table of which it is not known what its columns were before the statement.

    Args:
        reason: Why that is not known, in a few words.
    """
    return {
        change.column.name: ColumnChanged(
            ColumnDefinition(change.old_name, "what it was before"),
            ColumnDefinition(change.column.name, change.column.type),
            Unknown(reason),
        )
        for change in alter.changes
        if change.old_name is not None
    }


def alter_effects(
    before: TableDefinition, after: TableDefinition, alter: AlterTable, how: Circumstances, sql_mode: int = 0
) -> dict[str, ColumnChanged]:
    """Effect of an ALTER TABLE on each column that rows have before and after it, by its name after it.

    Args:
        before: The table before the statement; its columns are known.
    """
    pairs = list(_pairs(before, after, alter))
    renamed = {folded_name(old.name): folded_name(new.name) for old, new in pairs}
    how = replace(how, copies_table=any(needs_copy(old, new) for old, new in pairs))
    found: dict[str, ColumnChanged] = {}
    for old, new in pairs:
        if new.generated is None and old.generated is None:
            found[new.name] = _plain_change(before, old, after, new, how, sql_mode)
    changed = {folded_name(change.new.name) for change in found.values() if not _stays_in_expressions(change)}
    changed |= _added_again(before, after, set(renamed.values()))
    plain = frozenset(found)
    with_default = changed | {folded_name(new.name) for old, new in pairs if old.default != new.default}
    for old, new in pairs:  # an expression refers to columns before its own one
        if new.name not in plain:
            found[new.name] = change = ColumnChanged(
                old,
                new,
                _generated_effect(old, new, with_default if _names_a_default(new) else changed, renamed),
            )
            if not isinstance(change.effect, Same):
                changed.add(folded_name(new.name))
        elif changed - {folded_name(new.name)} and not new.knows("generated"):
            reason = (
                f"it is not known whether it is generated from {min(changed - {folded_name(new.name)})}, which changes"
            )
            found[new.name] = ColumnChanged(old, new, Unknown(reason))
    return found


def _added_again(before: TableDefinition, after: TableDefinition, kept: set[str]) -> set[str]:
    """Names of columns that the statement drops and adds: an expression with such a name is one over the new column."""
    old, new = ({folded_name(column.name) for column in table.columns or ()} for table in (before, after))
    return (old & new) - kept


def _pairs(
    before: TableDefinition, after: TableDefinition, alter: AlterTable
) -> list[tuple[ColumnDefinition, ColumnDefinition]]:
    names = alter.new_column_names
    dropped = {folded_name(name) for name, _ in alter.dropped}
    by_name = {folded_name(column.name): column for column in after.columns or ()}
    pairs = []
    for old in before.columns or ():
        name = folded_name(old.name)
        new = None if name in dropped else by_name.get(folded_name(names.get(name, old.name)))
        if new is not None and not old.implicit:
            pairs.append((old, new))
    return pairs


def _plain_change(
    before: TableDefinition,
    old: ColumnDefinition,
    after: TableDefinition,
    new: ColumnDefinition,
    how: Circumstances,
    sql_mode: int,
) -> ColumnChanged:
    if not (old.knows("declared") and new.knows("declared")):
        return ColumnChanged(old, new, SAME if old == replace(new, name=old.name) else Unknown("its type is not known"))
    try:
        sides = column_side(before, old, how), column_side(after, new, how)
    except BinlogError as error:
        return ColumnChanged(old, new, SAME if _is_equal(old, new) else Unknown(error.reason))
    if sql_mode & PAD_CHAR and sides[0].type_name == "char" != sides[1].type_name:
        return ColumnChanged(old, new, Unknown("sql_mode has PAD_CHAR_TO_FULL_LENGTH: values get spaces at their end"))
    effect = _without_null(_compared_effect(*sides, how), *sides, how)
    effect = _of_number_texts(_numbered(effect, old, new, sql_mode), sides[0])
    return ColumnChanged(old, new, effect, sides[1].arrow_type, sides[0].arrow_type)


def _of_number_texts(effect: Effect, old: ColumnSide) -> Effect:
    """Leave texts out that are no numbers, where a DECIMAL is a text because Arrow has no room for its digits.

    A target that keeps rows gone has other texts there, if its column was a text before it became a DECIMAL.
    """
    if not isinstance(effect, Converted) or not numbers.is_text(old):
        return effect

    def convert(values: pa.Array) -> Values:
        is_number = pc.fill_null(pc.match_substring_regex(values, _NUMBER_TEXT), True)
        known = where_known(values, ~true_mask(is_number))
        after = effect.convert(known.array)
        return after if known.unknown is None else where_unknown_too(after, known.unknown)

    return Converted(convert, effect.what)


def _compared_effect(old: ColumnSide, new: ColumnSide, how: Circumstances) -> Effect:
    """Effect on values that are not NULL; what misfits become is known of versions that were compared.

    Of integers it is known of all: the nearest end of the range; so it is of an ENUM that loses labels: an empty text.
    """
    effect = value_effect(old, new, how)
    names = {old.type_name, new.type_name}
    is_known_of_all = names <= set(numbers.INTEGER_BITS) or names == {"enum"}
    if how.strict or how.is_compared or is_known_of_all or not isinstance(effect, Converted):
        return effect
    of_fits = value_effect(old, new, replace(how, strict=True))
    if isinstance(of_fits, Unknown):
        return of_fits
    loosely = effect.convert

    def convert(values: pa.Array) -> Values:
        found = loosely(values)
        fits = Values(values) if isinstance(of_fits, Same) else of_fits.convert(values)
        # As texts, values of one type that have no place in the other can be compared too.
        same = fits.array.type == found.array.type
        pair = [array if same else array.cast(pa.string()) for array in (found.array, fits.array)]
        return Values(found.array, either(either(found.unknown, fits.unknown), ~same_values(*pair)))

    return Converted(convert, effect.what)


def _is_equal(old: ColumnDefinition, new: ColumnDefinition) -> bool:
    return replace(old, name="", default=None, invisible=False) == replace(new, name="", default=None, invisible=False)


def column_side(table: TableDefinition, column: ColumnDefinition, how: Circumstances) -> ColumnSide:
    """A column of a table. Raises `BinlogError`: its type is not known."""
    said = column.completion()
    if said.charset is None and texts.binary_or_text(ColumnSide(column, True, pa.string())) == "text":
        said = replace(said, charset=UTF8MB4)  # not known; of its Arrow type that decides nothing
    made = column_of(said, how.vendor, nullable=column.nullable)
    layout = TableLayout(*table.name, (made,), (), "", b"", how.vendor)
    in_key = folded_name(column.name) in folded_names(table.primary_key)
    return ColumnSide(column, column.nullable and not in_key, arrow_type(layout, 0, how.decoding))


def _without_null(effect: Effect, old: ColumnSide, new: ColumnSide, how: Circumstances) -> Effect:
    """Add the effect on NULL, where the column must not be NULL any more."""
    # 0000-00-00 is null in targets, also of a column that takes no NULL; it is no address, and becomes what NULL does.
    may_be_null = old.nullable or (old.type_name in times.MOMENTS and new.type_name in ADDRESSES)
    takes_null = new.nullable and (new.definition.knows("nullable") or old.definition == new.definition)
    if not may_be_null or takes_null or isinstance(effect, Unknown):
        return effect
    if how.strict and new.type_name != times.TIMESTAMP:
        return effect  # the statement was refused where there is a NULL, which a TIMESTAMP takes for the time of now
    keeps_default = _null_may_become_default(old, new, how)
    if new.type_name in (times.DATE, times.DATETIME) and how.null_may_be_zero_date and not keeps_default:
        return effect  # 0000-00-00, which is null in targets
    value = None if keeps_default or new.nullable else _implicit_value(new, how)

    # A null may be 0000-00-00 already, which a TIMESTAMP keeps.
    is_open = old.type_name in times.MOMENTS and new.type_name == times.TIMESTAMP
    value = None if is_open and how.null_may_be_zero_date else value

    def convert(values: pa.Array) -> Values:
        missing = values.is_null()
        converted = Values(widened(values, new.arrow_type)) if isinstance(effect, Same) else effect.convert(values)
        if missing.true_count == 0:
            return converted
        if value is None:
            return Values(converted.array, either(converted.unknown, true_mask(missing)))
        filled = pc.if_else(missing, value, converted.array)
        return Values(filled, converted.unknown)

    return Converted(convert, "NULL becomes the type's own default")


def _null_may_become_default(old: ColumnSide, new: ColumnSide, how: Circumstances) -> bool:
    """True if NULL may become the default that the column had before, and not the type's own.

    MariaDB does so where it alters in place, which nothing in the log shows: of `a INT DEFAULT 7` a NULL is 7 after
    MODIFY a INT NOT NULL, and 0 with ALGORITHM=COPY (live on 10.11 and 11.8). Another type is always copied.
    """
    if how.vendor is Vendor.MYSQL or old.type_name != new.type_name or new.type_name == times.TIMESTAMP:
        return False
    default = old.definition.default
    return not old.definition.knows("default") or (default is not None and default.kind is not DefaultKind.NULL)


def _implicit_value(new: ColumnSide, how: Circumstances) -> pa.Scalar | None:
    """Value that the server writes in place of NULL in a lax session; None: unknown here."""
    name = new.type_name
    zero = pa.array([0], pa.int64())
    if name in NUMBERS:
        return numbers.from_exact(new, how)(numbers.exact(zero, 0)).array[0]
    if name == times.TIME:
        return time_conversions.stored(zero.to_numpy(), np.array([False]), new, how).array[0]
    if name == times.TIMESTAMP:
        return None if how.dates_are_texts else _now(new, how)
    if name in ADDRESSES:
        return no_address(new)
    kind = texts.binary_or_text(new)
    if kind == "text" or name in LABELS:
        return pa.scalar("", new.arrow_type)
    if kind == "binary":
        size = new.numbers[0] if new.numbers else 1
        return pa.scalar(b"\0" * size if name == "binary" else b"", new.arrow_type)
    return None


def _now(new: ColumnSide, how: Circumstances) -> pa.Scalar | None:
    """Time of the statement, as a TIMESTAMP."""
    if new.fraction_digits and how.moment.microseconds is None:
        return None
    unit = 10 ** (6 - new.fraction_digits)
    micros = how.moment.seconds * 1_000_000 + (how.moment.microseconds or 0) // unit * unit
    return pa.array([micros], pa.int64()).cast(new.arrow_type)[0]


def _numbered(effect: Effect, old: ColumnDefinition, new: ColumnDefinition, sql_mode: int) -> Effect:
    """Add the effect of AUTO_INCREMENT on NULL and 0, where a column gets it."""
    if not _counts(new) or _counts(old) or isinstance(effect, Unknown):
        return effect

    def convert(values: pa.Array) -> Values:
        converted = Values(values) if isinstance(effect, Same) else effect.convert(values)
        counted = true_mask(values.is_null())
        if not sql_mode & _NO_AUTO_VALUE_ON_ZERO:
            counted = counted | true_mask(
                pc.equal(values.cast(pa.decimal128(38, 0)), pa.scalar(0, pa.decimal128(38, 0)))
            )
        return Values(converted.array, either(converted.unknown, counted))

    return Converted(convert, "AUTO_INCREMENT numbers rows that have 0")


def _counts(column: ColumnDefinition) -> bool:
    return column.default == AUTO_INCREMENT


def _stays_in_expressions(change: ColumnChanged) -> bool:
    """True if expressions over a column keep their values."""
    if not isinstance(change.effect, Same):
        return False
    old, new = change.old, change.new
    if old.charset != new.charset or old.enum_values != new.enum_values:
        return False
    if old.type_name in times.MOMENTS and old.nullable and not new.nullable:
        return False  # NULL may be 0000-00-00 from now on, which looks the same
    if old.declared == new.declared and old.unsigned == new.unsigned:
        return True
    types = old.type_name, new.type_name
    return types == ("varchar", "varchar") or (set(types) <= set(numbers.INTEGER_BITS) and old.unsigned == new.unsigned)


def _names_a_default(column: ColumnDefinition) -> bool:
    """True if an expression may have DEFAULT(...) of a column: another default gives existing rows another value."""
    return "default" in folded_names(column.expression)


def _generated_effect(
    old: ColumnDefinition, new: ColumnDefinition, changed: set[str], renamed: Mapping[str, str]
) -> Effect:
    if new.generated is None:
        if old.declared == new.declared and old.charset == new.charset and old.enum_values == new.enum_values:
            return SAME
        return Unknown("it was generated, and has another type now")
    if old.generated is None:
        return Unknown("the server computes it from other columns now")
    if not new.expression or _renamed_words(old.expression, renamed) != _renamed_words(new.expression, {}):
        return Unknown("it is generated by another expression now")
    if not _is_equal(replace(old, expression=(), generated=None), replace(new, expression=(), generated=None)):
        return Unknown("it is generated, and has another type now")
    sources = sorted(changed & folded_names(new.expression))
    return Unknown(f"it is generated from {sources[0]}, which changes") if sources else SAME


def _renamed_words(words: tuple[str, ...], names: Mapping[str, str]) -> tuple[str, ...]:
    folded = (word if word.startswith("'") else folded_name(word) for word in words)  # a text keeps its letters
    return tuple(names.get(word, word) for word in folded)
