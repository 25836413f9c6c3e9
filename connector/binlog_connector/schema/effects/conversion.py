"""Conversion of values when the definition of their column changes: `Effect`; helpers of conversions.

A conversion takes an Arrow array of the values before and gives those after (`Values`). Where the result depends on
what the server alone knows, it marks the value as unknown; it never guesses.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlog_format.rows.arrow_arrays import mask_array
from binlog_format.rows.declared.declared_types import split_declared
from binlog_format.rows.decoding import Decoding, TimeType, ZeroDates
from binlog_format.vendor import Vendor

if TYPE_CHECKING:
    from binlog_connector.schema.definitions import ColumnDefinition
    from binlog_format.kernels import Int64s, Mask
    from binlog_format.rows.declared.declared_types import Moment


@dataclass(frozen=True, slots=True)
class Values:
    """Values after a conversion.

    Attributes:
        array: Of the new column's Arrow type; null where `unknown` is set.
        unknown: Where the server's result is not known; None: nowhere.
    """

    array: pa.Array
    unknown: Mask | None = None

    def then(self, convert: Conversion) -> Values:
        """The same, converted once more."""
        after = convert(self.array)
        return Values(after.array, either(self.unknown, after.unknown))


Conversion = Callable[[pa.Array], Values]


@dataclass(frozen=True, slots=True)
class Same:
    """The values stay the same."""


@dataclass(frozen=True, slots=True)
class Converted:
    """Values become others, which can be computed from those before.

    Attributes:
        convert: From values of the old column's Arrow type, or a wider one, to values of the new column's.
        what: What the server does, in a few words.
        may_fail: Whether a value may have no known result.
    """

    convert: Conversion
    what: str
    may_fail: bool = True


@dataclass(frozen=True, slots=True)
class Unknown:
    """The values after the change cannot be computed."""

    reason: str


Effect = Same | Converted | Unknown
SAME: Final = Same()
_NEW_MARIADB: Final = 100200
_SMALL_TIMES_KEPT: Final = 101105
_COMPARED: Final = {Vendor.MARIADB: ((101119, 110000), (110809, 120000)), Vendor.MYSQL: ((90704, 100000),)}
"""From which version on, and before which one."""


@dataclass(frozen=True, slots=True)
class Circumstances:
    """Facts beside the two definitions that decide how a server converts.

    Attributes:
        strict: The statement fails where a value does not fit: what it left can be relied on.
        cuts_fractions: Digits of a fraction of a second that have no place are cut off; else it is rounded.
        moment: When the statement ran, and in which time zone.
        allows_invalid_dates: `sql_mode` has ALLOW_INVALID_DATES.
        server_version: As comments of statements have it (100119); None: not known.
        copies_table: The server certainly stores each row again, all its columns by their new types. Else it may change
            the definition alone, where it takes the old bytes for values of the new type.
    """

    vendor: Vendor
    strict: bool
    cuts_fractions: bool
    decoding: Decoding
    moment: Moment
    allows_invalid_dates: bool = False
    server_version: int | None = None
    copies_table: bool = False

    @property
    def is_compared(self) -> bool:
        """True if servers of this version were asked what they make of values that do not fit: patches change that."""
        version = self.server_version or 0
        return any(first <= version < end for first, end in _COMPARED[self.vendor])

    @property
    def is_old_mariadb(self) -> bool:
        """True before MariaDB 10.2, where the type to convert from decided more (Copy_field::get_copy_func)."""
        return self.vendor is Vendor.MARIADB and (self.server_version or _NEW_MARIADB) < _NEW_MARIADB

    @property
    def may_lose_small_times(self) -> bool:
        """True if a TIME below a second may be 0 as a DECIMAL: so on MariaDB 10.2.11, not on 10.1.8 and 10.11.5."""
        version = self.server_version or _NEW_MARIADB
        return self.vendor is Vendor.MARIADB and _NEW_MARIADB <= version < _SMALL_TIMES_KEPT

    @property
    def times_are_texts(self) -> bool:
        """True if a TIME is a text in targets; otherwise it is a number of microseconds."""
        return self.decoding.time_type is TimeType.TEXT

    @property
    def null_may_be_zero_date(self) -> bool:
        """True if `0000-00-00` is null in targets."""
        return self.decoding.zero_dates is ZeroDates.NULL

    @property
    def dates_are_texts(self) -> bool:
        """True if DATE, DATETIME and TIMESTAMP are texts in targets."""
        return self.decoding.zero_dates is ZeroDates.TEXT


@dataclass(frozen=True)
class ColumnSide:
    """A column before or after a statement.

    Attributes:
        nullable: Whether it can be NULL; columns of the primary key cannot.
        arrow_type: Of its values, as row events give them.
    """

    definition: ColumnDefinition
    nullable: bool
    arrow_type: pa.DataType

    @cached_property
    def _declared(self) -> tuple[str, tuple[int, ...]]:
        return split_declared(self.definition.declared)

    @property
    def type_name(self) -> str:
        """The declared type without its numbers."""
        return self._declared[0]

    @property
    def numbers(self) -> tuple[int, ...]:
        """Numbers in the parentheses after the type."""
        return self._declared[1]

    @property
    def fraction_digits(self) -> int:
        """Fractional digits of a TIME, DATETIME or TIMESTAMP."""
        return self.numbers[0] if self.numbers else 0

    @property
    def labels(self) -> tuple[str, ...] | None:
        """Labels of an ENUM or SET; None: unknown."""
        return self.definition.enum_values


UNKNOWN: Final = object()
"""Result of a function for `by_distinct` if it cannot compute the value."""


def by_distinct(function: Callable[[object], object], arrow_type: pa.DataType) -> Conversion:
    """A conversion of texts, numbers and the like that looks at each distinct value once, in Python.

    Args:
        function: From a Python value, not None, to one of *arrow_type* or `UNKNOWN`.
    """

    def convert(values: pa.Array) -> Values:
        encoded = values.dictionary_encode()
        found = [None if value is None else function(value) for value in encoded.dictionary.to_pylist()]
        failed = np.array([value is UNKNOWN for value in found], dtype=np.bool_)
        results = pa.array([None if value is UNKNOWN else value for value in found], arrow_type)
        array = results.take(encoded.indices) if len(results) else pa.nulls(len(values), arrow_type)
        if not failed.any():
            return Values(array)
        unknown = pa.array(failed).take(encoded.indices).fill_null(False)
        return Values(array, unknown.to_numpy(zero_copy_only=False))

    return convert


def by_form(form: str, without: str | None, usual: Callable[[pa.Array], pa.Array], others: Conversion) -> Conversion:
    """A conversion of texts that does those of one form in Arrow.

    Args:
        form: Regular expression of texts that *usual* converts, all of them.
        without: Of those that it does not convert all the same.
        usual: The conversion of them; each has a known result.
    """

    def convert(texts: pa.Array) -> Values:
        is_usual = true_mask(pc.match_substring_regex(texts, form))
        if without is not None:
            is_usual &= ~true_mask(pc.match_substring_regex(texts, without))
        if not is_usual.any():
            return others(texts)
        missing = pa.scalar(None, texts.type)
        found = usual(pc.if_else(mask_array(is_usual), texts, missing))
        if is_usual.sum() == len(texts) - texts.null_count:
            return Values(found)
        rest = others(pc.if_else(mask_array(is_usual), missing, texts))
        return Values(pc.if_else(mask_array(is_usual), found, rest.array), rest.unknown)

    return convert


def where_known(array: pa.Array, unknown: Mask) -> Values:
    """*array*, null where its values are *unknown*."""
    if not unknown.any():
        return Values(array)
    return Values(pc.if_else(mask_array(unknown), pa.scalar(None, array.type), array), unknown)


def where_unknown_too(values: Values, unknown: Mask) -> Values:
    """*values*, of which more are unknown."""
    return where_known(values.array, unknown if values.unknown is None else values.unknown | unknown)


def either(one: Mask | None, other: Mask | None) -> Mask | None:
    """Union of two masks."""
    if one is None or other is None:
        return other if one is None else one
    return one | other


def true_mask(array: pa.Array) -> Mask:
    """Mask of the true values of a boolean array; null is not true."""
    mask: Mask = array.fill_null(False).to_numpy(zero_copy_only=False)
    return mask


def int64s(values: pa.Array) -> Int64s:
    """Whole numbers, dates or times as the numbers of 64 bits that they are; null is 0."""
    numbers: Int64s = values.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return numbers


def plain(function: Callable[[pa.Array], pa.Array]) -> Conversion:
    """A conversion in which every value has a known result."""
    return lambda values: Values(function(values))


def widened(values: pa.Array, arrow_type: pa.DataType) -> pa.Array:
    """Values that all are ones of *arrow_type*, as such; whole numbers become decimals that have room for them."""
    if pa.types.is_decimal(arrow_type) and not values.type.equals(arrow_type):
        values = values.cast(pa.decimal256(76, arrow_type.scale))
    return values.cast(arrow_type)
