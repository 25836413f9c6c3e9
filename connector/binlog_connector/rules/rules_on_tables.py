"""The visible part of a table: `apply_rules_to_table(rule, layout, decoding)` gives a `ShownTable`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from binlog_connector.rules.predicate import Predicate
from binlog_connector.rules.predicate_parser import PredicateError
from binlog_connector.rules.row_rule import OPTIONAL, Mask, MaskError, MaskKind, RowRule, named_column, parse_mask
from binlog_format.errors import OptionError, SchemaError
from binlog_format.names import folded_name, folded_names
from binlog_format.rows.column_types import NO_METADATA_HINT
from binlog_format.rows.columns import arrow_type
from binlog_format.rows.declared.completion import ColumnCompletion, LayoutCompletion
from binlog_format.rows.declared.declared_types import DeclaredDefault, DefaultKind
from binlog_format.vendor import Vendor

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from binlog_connector.schema.definitions import TableName
    from binlog_format.events.table_map import Column, TableLayout
    from binlog_format.rows.decoding import Decoding

DEFINITION_HINT = (
    "Give the table's CREATE TABLE in a schema file (option schemaFile); binlog-stream snapshot JOB.toml --definitions "
    "puts it into the log, for what comes after it"
)


class UnfitRuleError(OptionError):
    """A rule that does not fit one table: whoever made or altered that table need not know of the rule."""


@dataclass(frozen=True, slots=True)
class BoundRule:
    """A rule with its salt, for readers who need this and that of its tables.

    Attributes:
        keys: Columns that tell rows apart; empty: the primary key does.
        needs_key: Whether rows are found again by their key: then it must stay one.
        salt: For the mask `sha256`.
    """

    rule: RowRule
    keys: tuple[str, ...] = ()
    needs_key: bool = False
    salt: bytes = b""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.rule!r})"

    def shows_as(self, other: BoundRule | None) -> bool:
        """True if another rule shows all of a table alike; None: a rule that hides nothing."""
        return other is not None and _hiding(self) == _hiding(other)

    def shows(self, name: str) -> bool:
        """True if a column of that name is shown."""
        rule = self.rule
        return _has(rule.columns, name) if rule.columns else not _has(rule.drop_columns, name)

    def mask(self, name: str) -> Mask | None:
        """Mask of a column of that name; None: its values are shown unchanged."""
        given = next((text for key, text in self.rule.mask.items() if named_column(key) == folded_name(name)), None)
        return None if given is None else parse_mask(given, self.salt)

    def shows_alike(self, old: str, new: str) -> bool:
        """True if the values of a column are shown alike under two names."""
        return self.shows(old) is self.shows(new) and self.mask(old) == self.mask(new)

    def reveals(self, old: str, new: str) -> bool:
        """True if values of a column that are hidden under its *old* name are shown otherwise under a *new* one."""
        is_hidden = not self.shows(old) or self.mask(old) is not None
        return is_hidden and self.shows(new) and not self.shows_alike(old, new)

    def tells_rows_apart(self, name: str) -> bool:
        """True if the values of a column of that name are shown, and different ones stay different."""
        mask = self.mask(name)
        return self.shows(name) and (mask is None or mask.tells_rows_apart)

    def masked_column(self, layout: TableLayout, index: int, decoding: Decoding) -> Column:
        """A shown column of *layout*, as it is shown."""
        column = layout.columns[index]
        mask = self.mask(column.name or "")
        if mask is None:
            return column
        kind = None if mask.kind is MaskKind.NULL else arrow_type(layout, index, decoding)
        try:
            return mask.shown(column, kind)
        except MaskError as error:
            hint = "Use null or sha256, or drop_columns"
            raise UnfitRuleError("INVALID_VALUE", f"{layout.full_name}.{column.name}: {error}", hint=hint) from error

    def check_keys(self, table: str, keys: Iterable[str], generated: Collection[str] = ()) -> None:
        """See that rows of *table* can still be told apart by *keys*, where they have to be.

        Args:
            keys: Columns that tell rows apart, unless the rule names others.
            generated: Columns that are not shown because they are generated, in small letters.
        """
        if not self.needs_key:
            return
        for name in self.keys or keys:
            if folded_name(name) in generated:
                raise UnfitRuleError(
                    "INVALID_VALUE",
                    f'{table}: column {name} is generated, which generated = "drop" leaves out, and rows are told '
                    "apart by it",
                    hint='Name other columns in keys, or set generated = "fail" or "null" for this table',
                )
            if self.tells_rows_apart(name):
                continue
            mask = self.mask(name)
            lost = "is not shown" if mask is None else f"has the mask {mask}"
            raise UnfitRuleError(
                "INVALID_VALUE",
                f"{table}: column {name} {lost}, and rows are told apart by it",
                hint="Keys keep their columns: use the mask sha256 for them, or name other columns in keys",
            )


@dataclass(frozen=True, slots=True)
class ShownTable:
    """A table under a rule.

    Attributes:
        layout: What is shown of it; `logged` is what the row events have.
        columns: Of each shown column its index there.
        masks: Indices there of masked columns, and their masks.
        hidden: Indices there of all columns whose values nobody may see.
        predicate: Of which rows are shown; None: all.
        computed: Indices there of generated columns that are null in images that lack them.
    """

    layout: TableLayout
    columns: tuple[int, ...]
    masks: tuple[tuple[int, Mask], ...]
    hidden: frozenset[int]
    predicate: Predicate | None
    computed: tuple[int, ...] = ()


def apply_rules_to_table(
    rule: BoundRule, layout: TableLayout, decoding: Decoding, generated: Collection[str] | None = None
) -> ShownTable:
    """Apply *rule* to a table.

    Args:
        generated: Names of the table's generated columns, in small letters; None: the layout's definition has them.
    """
    names = [column.name for column in layout.columns]
    known = [name for name in names if name is not None]
    if len(known) < len(names):
        raise SchemaError(
            "NO_COLUMN_METADATA",
            f"{layout.full_name}: the log does not record what the columns are called, and a rule names some",
            hint=NO_METADATA_HINT,
        )
    _check_names(rule.rule, layout, known)
    if not rule.rule.drops_generated:
        generated = ()
    elif generated is None:
        generated = _generated(rule, layout)
    columns = tuple(
        index for index, name in enumerate(known) if rule.shows(name) and folded_name(name) not in generated
    )
    found = ((index, rule.mask(known[index])) for index in columns)
    masks = tuple((index, mask) for index, mask in found if mask is not None)
    rule.check_keys(layout.full_name, (known[index] for index in layout.primary_key), generated)
    shown = replace(
        layout,
        columns=tuple(rule.masked_column(layout, index, decoding) for index in columns),
        primary_key=_kept_key(layout.primary_key, columns, masks),
        completion=_kept_completion(layout.completion, columns, masks),
        logged=layout,
        hidden=(),
    )
    masked = {index for index, _ in masks}
    hidden = frozenset(index for index in range(len(names)) if index in masked or index not in columns)
    predicate = _predicate(rule.rule, layout, decoding)
    return ShownTable(shown, columns, masks, hidden, predicate, _computed(rule, layout, columns, predicate))


def _check_names(rule: RowRule, layout: TableLayout, known: Sequence[str]) -> None:
    there = folded_names(known)
    for setting, given in (("columns", rule.columns), ("drop_columns", rule.drop_columns), ("mask", rule.mask)):
        for name in given:
            if not name.endswith(OPTIONAL) and folded_name(name) not in there:
                raise UnfitRuleError(
                    "INVALID_VALUE",
                    f"{layout.full_name}: {setting} names column {name}, and its columns are {', '.join(known)}",
                    hint=f'Write "{name}?" of a column that not all of the tables have, or that was dropped. Of one '
                    "that was renamed write both names so, or the new one is another column to the rule",
                )


def _generated(rule: BoundRule, layout: TableLayout) -> frozenset[str]:
    """The generated columns among those that a rule shows, in small letters."""
    completion = LayoutCompletion.from_json(layout.completion).columns if layout.completion else ()
    found: set[str] = set()
    for index, column in enumerate(layout.columns):
        name = column.name or ""
        if not rule.shows(name):
            continue
        if completion and completion[index].declared is not None:
            if completion[index].generated:
                found.add(folded_name(name))
        elif column.nullable or layout.vendor is not Vendor.MARIADB:
            # MariaDB's grammar has no NOT NULL for generated columns.
            raise SchemaError(
                "NO_COLUMN_METADATA",
                f'{layout.full_name}: it is not known whether column {name} is generated, and generated = "drop" '
                "leaves out such columns",
                hint=DEFINITION_HINT,
            )
    return frozenset(found)


def _computed(
    rule: BoundRule, layout: TableLayout, columns: Sequence[int], predicate: Predicate | None
) -> tuple[int, ...]:
    """The shown columns that an image may lack because the server computes them, and that can be null there."""
    # MySQL logs generated columns whenever they change.
    if not rule.rule.nulls_generated or not layout.completion or layout.vendor is not Vendor.MARIADB:
        return ()
    declared = LayoutCompletion.from_json(layout.completion).columns
    needed = {layout.columns[index].name for index in (*layout.primary_key, *(predicate.columns if predicate else ()))}
    needed.update(rule.keys)
    return tuple(index for index in columns if declared[index].generated and layout.columns[index].name not in needed)


def _predicate(rule: RowRule, layout: TableLayout, decoding: Decoding) -> Predicate | None:
    if rule.where is None:
        return None
    try:
        return Predicate.of(rule.where, layout, decoding)
    except PredicateError as error:
        raise UnfitRuleError("INVALID_VALUE", f"{layout.full_name}: where: {error.told(rule.where)}") from error


def _kept_key(key: Sequence[int], columns: Sequence[int], masks: Iterable[tuple[int, Mask]]) -> tuple[int, ...]:
    alike = {index for index, mask in masks if not mask.tells_rows_apart}
    kept = all(index in columns and index not in alike for index in key)
    return tuple(columns.index(index) for index in key) if kept else ()


def _kept_completion(text: str, columns: Sequence[int], masks: Iterable[tuple[int, Mask]]) -> str:
    if not text:
        return text
    logged, masked = LayoutCompletion.from_json(text), dict(masks)
    keys = [_kept_key(key, columns, masked.items()) for key in logged.keys]
    kept = [_masked_completion(logged.columns[index], masked.get(index)) for index in columns]
    return LayoutCompletion(tuple(kept), tuple(key for key in keys if key)).to_json()


def _masked_completion(logged: ColumnCompletion, mask: Mask | None) -> ColumnCompletion:
    if mask is None:
        return logged
    # What a masked column holds by default, or a statement says about it, is not told, but for null.
    if mask.kind is MaskKind.NULL and logged.declared is not None:
        return replace(logged, default=DeclaredDefault(DefaultKind.NULL), generated=None, comment="")
    return ColumnCompletion(logged.name)


def _hiding(bound: BoundRule) -> tuple[object, ...]:
    rule = bound.rule
    return rule.columns, rule.drop_columns, rule.mask, rule.where, rule.drops_generated, bound.salt


def _has(names: Iterable[str], name: str) -> bool:
    return folded_name(name) in map(named_column, names)


def table_renamed(old: TableName, new: TableName) -> SchemaError:
    """The error about a table whose new name has another rule."""
    return SchemaError(
        "TABLE_RENAMED",
        f"{new} was {old} before, and the rules show these two differently",
        hint="Name both in one rule of [[tables]]: what is hidden of one is to be hidden of the other",
    )


def column_renamed(table: TableName, old: str, new: str) -> SchemaError:
    """The error about a column whose new name the rule of its table shows otherwise."""
    return SchemaError(
        "SCHEMA_CHANGED",
        f"{table}: column {old} is called {new} now, and its rule shows these two differently",
        hint=f"Name both in the rule: what holds for {old} is to hold for {new} too",
    )
