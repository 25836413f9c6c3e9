"""Rules for rows and columns, as settings have them: `RowRule`.

Replacements of masked values: `parse_mask(text)` gives a `Mask`.

NULL stays NULL, whatever the mask. Masks are computed once for each different value of a column in a block.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from binlog_connector.rules.predicate_parser import PredicateError, parse_predicate
from binlog_format.events.table_map_layout import CHARACTER_TYPES, ColumnType
from binlog_format.names import folded_name

if TYPE_CHECKING:
    from binlog_format.events.table_map import Column


VALUE_SIZE_MAX = 255
"""Bytes of a masked value, so that one byte holds its size."""

HIDDEN = "****"
"""Text in place of the characters that `last N` hides, however many they are."""

_LAST_MAX = 60  # characters of up to 4 bytes, after `HIDDEN`
_HASH_SIZE = 64
_TEXT_TYPES = CHARACTER_TYPES | {ColumnType.ENUM, ColumnType.SET, ColumnType.JSON}
_DATE_TYPES = frozenset(
    {
        ColumnType.DATE,
        ColumnType.NEWDATE,
        ColumnType.DATETIME,
        ColumnType.DATETIME2,
        ColumnType.TIMESTAMP,
        ColumnType.TIMESTAMP2,
    }
)


class MaskKind(StrEnum):
    """The masks."""

    NULL = "null"
    TEXT = "text"
    """The same text for all values."""
    LAST = "last"
    """The last characters."""
    SHA256 = "sha256"
    """The SHA-256 of a salt and the value, in hexadecimal digits."""


class MaskError(Exception):
    """A mask that there is not, or that a column cannot have; its text gives the reason."""


@dataclass(frozen=True, slots=True)
class Mask:
    """Replacement for a column's values.

    Attributes:
        text: Of `TEXT` what stands for values.
        count: Of `LAST` how many characters are shown.
        salt: Of `SHA256` what is hashed before each value.
    """

    kind: MaskKind
    text: str = ""
    count: int = 0
    salt: bytes = field(default=b"", repr=False)

    @property
    def tells_rows_apart(self) -> bool:
        """True if different values stay different, so that a key stays a key."""
        return self.kind is MaskKind.SHA256

    def shown(self, column: Column, kind: pa.DataType) -> Column:
        """The column as it is shown: text, unless its values become null.

        Raises:
            MaskError: Its type does not take the mask.
        """
        if self.kind is MaskKind.NULL:
            return replace(column, nullable=True)
        if self.kind is MaskKind.SHA256:
            fits = not pa.types.is_nested(kind)
        else:
            is_text = pa.types.is_string(kind) and column.type in _TEXT_TYPES
            fits = is_text or (self.kind is MaskKind.LAST and pa.types.is_integer(kind))
        if not fits:
            what = "text" if self.kind is MaskKind.TEXT else f"text or a number, not {column.type.name}"
            raise MaskError(f"the mask {self} is for columns of {what}")
        size = {MaskKind.SHA256: _HASH_SIZE, MaskKind.TEXT: VALUE_SIZE_MAX, MaskKind.LAST: VALUE_SIZE_MAX}[self.kind]
        # Zero dates are null.
        nullable = column.nullable or column.type in _DATE_TYPES
        return replace(
            column,
            type=ColumnType.VARCHAR,
            metadata=size,
            nullable=nullable,
            unsigned=None,
            charset="utf8mb4",
            enum_values=None,
            declared=None,
            geometry_type=None,
            dimensions=None,
        )

    def shows_alike(self, old: pa.DataType, new: pa.DataType) -> bool:
        """True if equal values of the two types have the same replacement; 5 and 5.00 have different hashes."""
        needs_text = self.kind in (MaskKind.LAST, MaskKind.SHA256)
        return not needs_text or old.equals(new) or _digits_form(old) == _digits_form(new)

    def masked(self, values: pa.Array) -> pa.Array:
        """Texts of up to `VALUE_SIZE_MAX` bytes for values without nulls, none of them twice; not for `NULL`."""
        if self.kind is MaskKind.TEXT:
            return pa.array([self.text] * len(values), pa.string())
        texts = text_of(values)
        return self._hashed(texts) if self.kind is MaskKind.SHA256 else self._last(texts)

    def _last(self, texts: pa.Array) -> pa.Array:
        # Of a short text most would be shown: at most half of any is.
        shows = pc.greater_equal(pc.utf8_length(texts), 2 * self.count)
        ends = pc.utf8_slice_codeunits(texts, -self.count)
        return pc.if_else(shows, pc.binary_join_element_wise(HIDDEN, ends, ""), HIDDEN)

    def _hashed(self, texts: pa.Array) -> pa.Array:
        salted = hashlib.sha256(self.salt)
        digests = []
        for text in texts.cast(pa.binary()).to_pylist():
            digest = salted.copy()
            digest.update(text)
            digests.append(digest.hexdigest())
        return pa.array(digests, pa.string())

    def __str__(self) -> str:
        if self.kind is MaskKind.LAST:
            return f"{self.kind} {self.count}"
        return f"{self.kind} {self.text}" if self.kind is MaskKind.TEXT else str(self.kind)


def text_of(values: pa.Array) -> pa.Array:
    """Values as text: numbers in digits, times as `2026-01-31 12:00:00.000000`; binary strings stay what they are."""
    if pa.types.is_string(values.type) or pa.types.is_binary(values.type):
        return values
    return (values.cast(pa.int8()) if pa.types.is_boolean(values.type) else values).cast(pa.string())


def _digits_form(kind: pa.DataType) -> object:
    """The same for types whose equal values `text_of` gives the same text."""
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return 0
    return kind.scale if pa.types.is_decimal(kind) else kind


def parse_mask(text: str, salt: bytes = b"") -> Mask:
    """Read `null`, `text ...`, `last N` or `sha256`.

    Args:
        salt: For `sha256`.

    Raises:
        MaskError: It is none of them.
    """
    kind, _, rest = text.partition(" ")
    if text == MaskKind.NULL or text == MaskKind.SHA256:
        return Mask(MaskKind(text), salt=salt if text == MaskKind.SHA256 else b"")
    if kind == MaskKind.TEXT and len(rest.encode()) <= VALUE_SIZE_MAX:
        return Mask(MaskKind.TEXT, text=rest)
    if kind == MaskKind.LAST and rest.isdecimal() and 0 < int(rest) <= _LAST_MAX:
        return Mask(MaskKind.LAST, count=int(rest))
    raise MaskError(
        f"expected null, sha256, last N (1 to {_LAST_MAX} characters) or text and up to {VALUE_SIZE_MAX} bytes, "
        f"got {text!r}"
    )


OPTIONAL = "?"
"""Suffix of a column's name: tables may lack this column."""


class GeneratedColumns(StrEnum):
    """Handling of generated columns, which row images may lack."""

    FAIL = "fail"
    """An error, where they are needed."""
    NULL = "null"
    """They are null where the log lacks them."""
    DROP = "drop"
    """They are not shown, whether or not the log has their values."""


class RuleError(Exception):
    """A rule that cannot be; its text gives the reason. *key*: in `mask` the column."""

    def __init__(self, setting: str, reason: str, *, key: str | None = None, hint: str | None = None) -> None:
        super().__init__(reason)
        self.setting = setting
        self.key = key
        self.hint = hint


class RowRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Rule for the tables that `select` matches: the rows and columns that are shown, and the values that are masked.

    Attributes:
        select: Comma separated regular expressions on `database.table`, each for the whole name.
        columns: Names of the columns that are shown; empty: all.
        drop_columns: Names of columns that are not.
        mask: By the name of a column what stands in place of its values: `null`, `text ...`, `last N` or `sha256`.
        salt_variable: Environment variable with what `sha256` hashes before each value.
        where: A predicate: only rows are shown of which it is true.
    """

    select: str = ".*"
    columns: tuple[str, ...] = ()
    drop_columns: tuple[str, ...] = ()
    mask: dict[str, str] = {}
    salt_variable: str | None = None
    where: str | None = None
    generated: GeneratedColumns = GeneratedColumns.FAIL

    @property
    def hides(self) -> bool:
        """True if the rule hides or changes anything."""
        return bool(self.columns or self.drop_columns or self.mask or self.where or self.drops_generated)

    @property
    def drops_generated(self) -> bool:
        """True if generated columns are hidden, whatever their names are."""
        return self.generated is GeneratedColumns.DROP

    @property
    def nulls_generated(self) -> bool:
        """True if generated columns are null in images that lack them."""
        return self.generated is GeneratedColumns.NULL

    @property
    def needs_salt(self) -> bool:
        """True if a mask is `sha256`."""
        return MaskKind.SHA256 in self.mask.values()

    def check(self) -> None:
        """Check what can be checked of the rule without a table. Raises `RuleError`: no table can have it."""
        if self.columns and self.drop_columns:
            hint = "columns names what is shown, and nothing else is: leave drop_columns out"
            raise RuleError("drop_columns", "expected nothing beside columns", hint=hint)
        hidden = {named_column(name) for name in self.drop_columns}
        for name, text in self.mask.items():
            try:
                parse_mask(text)
            except MaskError as error:
                raise RuleError("mask", str(error), key=name) from error
            if named_column(name) in hidden:
                raise RuleError("mask", f"{name} is in drop_columns: it is not shown, so it has no mask", key=name)
            if self.columns and named_column(name) not in map(named_column, self.columns):
                raise RuleError("mask", f"{name} is not in columns: it is not shown, so it has no mask", key=name)
        if self.needs_salt and not self.salt_variable:
            hint = 'Without one, hashed values can be found by trying: salt_variable = "SHOP_SALT"'
            raise RuleError("salt_variable", "the mask sha256 needs the environment variable with its salt", hint=hint)
        if self.salt_variable is not None and not self.needs_salt:
            raise RuleError("salt_variable", "expected the mask sha256 beside it", hint="Leave it out")
        if self.where is not None:
            try:
                parse_predicate(self.where)
            except PredicateError as error:
                raise RuleError("where", error.told(self.where)) from error


def named_column(name: str) -> str:
    """The name of a column in a rule, to compare: without `OPTIONAL`, and upper and lower case are the same."""
    return folded_name(name.removesuffix(OPTIONAL))
