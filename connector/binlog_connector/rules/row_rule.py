"""Rules for rows and columns, as settings have them: `RowRule`."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from binlog_connector.rules.masks import MaskError, MaskKind, parse_mask
from binlog_connector.rules.predicate_parser import PredicateError, parse_predicate

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
    """A rule that cannot be; its text gives the reason.

    Args:
        setting: Its name.
        key: In `mask` the column.
        reason: What is wrong.
        hint: What the operator can do.
    """

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
        generated: What becomes of generated columns.
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
        """See that the rule can be, as far as that is known without a table.

        Raises:
            RuleError: It cannot.
        """
        if self.columns and self.drop_columns:
            hint = "columns names what is shown, and nothing else is: leave drop_columns out"
            raise RuleError("drop_columns", "expected nothing beside columns", hint=hint)
        hidden = {folded(name) for name in self.drop_columns}
        for name, text in self.mask.items():
            try:
                parse_mask(text)
            except MaskError as error:
                raise RuleError("mask", str(error), key=name) from error
            if folded(name) in hidden:
                raise RuleError("mask", f"{name} is in drop_columns: it is not shown, so it has no mask", key=name)
            if self.columns and folded(name) not in map(folded, self.columns):
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


def folded(name: str) -> str:
    """The name of a column in a rule, to compare: without `OPTIONAL`, and upper and lower case are the same."""
    return name.removesuffix(OPTIONAL).casefold()
