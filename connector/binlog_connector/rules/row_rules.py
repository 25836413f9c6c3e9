"""The rules of all tables, for who decodes rows: `TableRules`, a `binlog_format.rows.decoding.RowRules`.

Rules at the start of a job or a table, compared with those now: `hiding_changes`, `rules_fingerprint`.

Rules in a text or a file of their own: `read_rules`.

Tables of which more is wanted than their table maps have: `DefinedTables(expressions)`, `decoding_under(rules, ...)`.
"""

from __future__ import annotations

import functools
import hashlib
import os
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from binlog_connector.rules.row_rule import OPTIONAL, RowRule, RuleError, named_column
from binlog_connector.rules.rules_on_tables import BoundRule, apply_rules_to_table
from binlog_connector.schema.definitions import TableName, origin_of
from binlog_connector.schema.expressions.computing import with_computed_values
from binlog_format.errors import OptionError, storage_error
from binlog_format.position import Place
from binlog_format.rows.decoding import Decoding
from binlog_format.views.filters import TableFilter, as_folded

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from binlog_connector.rules.rules_on_tables import ShownTable
    from binlog_connector.schema.history import SchemaHistory
    from binlog_format.events.table_map import TableLayout
    from binlog_format.position import Position
    from binlog_format.rows.decoding import TimeType, ZeroDates
    from binlog_format.rows.images import Images


_TABLES_MAX = 10_000
"""Tables under rules that are kept."""


class TableRules:
    """Rules by tables: the first one that matches a table counts, as everywhere in settings.

    What gh-ost and pt-online-schema-change make beside a table has the rule of that table, unless there is one that
    hides anything for itself.

    Args:
        rules: In order, those too that hide nothing.
        exclude: Expressions of tables that no rule is for; None: there are none.
    """

    def __init__(self, rules: Iterable[BoundRule], exclude: str | None = None) -> None:
        self._rules = tuple(rules)
        self._exclude = exclude
        self._filters = [(TableFilter(rule.rule.select, exclude), rule) for rule in self._rules]
        self._shown: dict[tuple[object, ...], ShownTable] = {}

    def __reduce__(self) -> tuple[object, ...]:
        # Tasks get the rules; values computed with them are computed again there.
        return TableRules, (self._rules, self._exclude)

    @property
    def chooses_rows(self) -> bool:
        """True if a rule leaves out rows."""
        return any(rule.rule.where is not None for rule in self._rules)

    def of(self, database: str, table: str) -> BoundRule | None:
        """The rule of a table; None: all of it is shown as it was logged."""
        name = TableName(database, table)
        found = self._matching(name)
        origin = origin_of(name)
        if origin is not None and (found is None or not _counts(found)):
            found = self._matching(origin)
        return found if found is not None and _counts(found) else None

    def shows_alike(self, old: TableName, new: TableName) -> bool:
        """True if a table is shown alike under two names, or is hidden under one of them."""
        if not (self.is_for(old) and self.is_for(new)):
            return True
        before, after = (
            None if rule is None or not rule.rule.hides else rule for rule in (self.of(*old), self.of(*new))
        )
        return after is None if before is None else before.shows_as(after)

    def is_for(self, name: TableName) -> bool:
        """True if a rule names a table, one that hides nothing too: its rows are shown."""
        return self._matching(name) is not None

    def reveals(self, old: TableName, new: TableName) -> bool:
        """True if values of a table that are hidden under its *old* name are shown otherwise under a *new* one."""
        rule = self.of(*old)
        return rule is not None and rule.rule.hides and not self.shows_alike(old, new)

    @property
    def defined_tables(self) -> str | None:
        """Tables of which has to be known which columns are generated: expressions; None: there are none."""
        return defined_tables(rule.rule for rule in self._rules)

    def _matching(self, name: TableName) -> BoundRule | None:
        return next((rule for wanted, rule in self._filters if wanted.accepts_name(*name)), None)

    def shown(self, layout: TableLayout, decoding: Decoding) -> TableLayout:
        """See `RowRules.shown`."""
        if layout.logged is not None or layout.problem is not None:
            return layout
        shown = self._table(layout, decoding)
        return layout if shown is None else shown.layout

    def hides(self, layout: TableLayout, column: str) -> bool:
        """See `RowRules.hides`."""
        rule = self.of(layout.database, layout.table)
        return rule is not None and not (rule.shows(column) and rule.mask(column) is None)

    def applied(self, images: Images) -> Images:
        """See `RowRules.applied`."""
        from binlog_connector.rules.rules_applied import (
            apply_rules_to_images,  # compiled code; not all who know rules read rows
        )

        shown = self._table(images.layout, images.decoding)
        assert shown is not None, "a table without a rule is shown as it is"
        return apply_rules_to_images(images, shown)

    def _table(self, layout: TableLayout, decoding: Decoding) -> ShownTable | None:
        kinds = decoding.time_type, decoding.zero_dates, decoding.replace_invalid_text
        key = (layout.database, layout.table, layout.vendor, layout.digest, layout.completion, *kinds)
        found = self._shown.get(key)
        if found is None:
            rule = self.of(layout.database, layout.table)
            if rule is None:
                return None
            found = apply_rules_to_table(rule, layout, replace(decoding, schemas=None, rules=None))
            if len(self._shown) >= _TABLES_MAX:
                self._shown.clear()
            if layout.digest:  # what only a statement or a file declares may differ without one
                self._shown[key] = found
        return found


def table_rules(rules: Iterable[BoundRule], exclude: str | None = None) -> TableRules | None:
    """*rules* for `Decoding`; None: all is shown as it was logged. Arguments as `TableRules`."""
    bound = tuple(rules)
    return TableRules(bound, exclude) if any(map(_counts, bound)) else None


def _counts(bound: BoundRule) -> bool:
    return bound.rule.hides or bound.rule.nulls_generated


def defined_tables(rules: Iterable[RowRule]) -> str | None:
    """Like `TableRules.defined_tables`, of *rules*."""
    return ",".join(rule.select for rule in rules if rule.drops_generated or rule.nulls_generated) or None


def bound_rule(rule: RowRule, *, keys: tuple[str, ...] = (), needs_key: bool) -> BoundRule:
    """A rule with its salt out of the environment; arguments as `BoundRule`."""
    return BoundRule(rule, keys, needs_key, read_salt(rule.salt_variable))


def read_salt(variable: str | None) -> bytes:
    """The salt in an environment variable; nothing where none is named."""
    if variable is None:
        return b""
    salt = os.environ.get(variable, "")
    if not salt:
        raise OptionError(
            "MISSING",
            f"salt_variable: the environment variable {variable} is not set",
            hint="It holds the salt of the mask sha256: set it to the same secret text whenever the rule is used",
        )
    return salt.encode()


_DROPS_GENERATED = "generated: drop"
_HIDING = ("columns", "drop_columns", "mask", "where")
_ROUNDS = 200_000  # who finds a fingerprint shall not find the salt by trying
_NOT_ABOUT_ROWS = "binlog-stream"
_DIGITS = 16


def salt_fingerprints(rules: Iterable[RowRule]) -> dict[str, str]:
    """Fingerprints of the salts of *rules*, by environment variable."""
    variables = {rule.salt_variable for rule in rules if rule.salt_variable is not None}
    return {variable: _fingerprint(read_salt(variable)) for variable in sorted(variables)}


@functools.cache
def _fingerprint(salt: bytes) -> str:
    return hashlib.pbkdf2_hmac("sha256", salt, _NOT_ABOUT_ROWS.encode(), _ROUNDS).hex()[:_DIGITS]


def rules_fingerprint(decoding: Decoding, database: str, table: str) -> str:
    """Fingerprint of a table's rule and its salt; empty: nothing of the table is hidden."""
    bound = decoding.rules.of(database, table) if isinstance(decoding.rules, TableRules) else None
    if bound is None:
        return ""
    settings = [f"{name}: {_told(getattr(bound.rule, name))}" for name in _HIDING]
    settings += [_DROPS_GENERATED] if bound.rule.drops_generated else []  # the rest have the fingerprint they had
    salt = _fingerprint(bound.salt) if bound.salt else ""
    return hashlib.sha256("\n".join([*settings, salt]).encode()).hexdigest()[:_DIGITS]


def hiding_part(rule: RowRule) -> RowRule:
    """The part of a rule about rows and columns, and its tables."""
    names = (field.name for field in msgspec.structs.fields(RowRule))
    return RowRule(**{name: getattr(rule, name) for name in names})


def without_new_names(before: RowRule, after: RowRule) -> RowRule:
    """*after* without columns that *before* does not name, and that are hidden as one that it does: new names of these.

    A new name is one that a table may lack (`name?`), in `drop_columns`, or in `mask` with the mask of another column.
    """
    dropped, masked = ({named_column(name) for name in names} for names in (before.drop_columns, before.mask))

    def is_new(name: str, known: set[str]) -> bool:
        return bool(known) and name.endswith(OPTIONAL) and named_column(name) not in known

    return msgspec.structs.replace(
        after,
        drop_columns=tuple(name for name in after.drop_columns if not is_new(name, dropped)),
        mask={
            name: mask
            for name, mask in after.mask.items()
            if not (is_new(name, masked) and mask in before.mask.values())
        },
    )


def hiding_changes(
    before: RowRule, salts_before: Mapping[str, str], after: RowRule, salts_after: Mapping[str, str]
) -> list[tuple[str, str, str]]:
    """The settings that show tables otherwise than before: name, what it was, what it is.

    A column may be one that a table does not have (`name?`), or not any more, whenever that turns out.

    Args:
        salts_before: As `salt_fingerprints` gave them.
    """
    changes = []
    for setting in _HIDING:
        was, is_now = (_told(getattr(rule, setting)) for rule in (before, after))
        if was != is_now:
            changes.append((setting, was, is_now))
    was, is_now = ("drop" if rule.drops_generated else "kept" for rule in (before, after))
    if was != is_now:
        changes.append(("generated", was, is_now))
    was, is_now = salts_before.get(before.salt_variable or "", ""), salts_after.get(after.salt_variable or "", "")
    if was != is_now and not changes:
        changes.append(("salt_variable", f"the salt {was}", f"the salt {is_now}"))
    return changes


def _told(value: str | tuple[str, ...] | dict[str, str] | None) -> str:
    if isinstance(value, dict):
        return ", ".join(sorted(f"{named_column(name)} = {mask}" for name, mask in value.items()))
    return value or "" if isinstance(value, str | None) else ", ".join(sorted(map(named_column, value)))


_HINT = (
    'Give a JSON list such as [{"select": "shop.customers", "mask": {"email": "null"}}], or the path of a TOML file '
    "with sections [[tables]]"
)


class _RuleFile(msgspec.Struct, forbid_unknown_fields=True):
    tables: list[RowRule]


def read_rules(text: str, *, needs_key: bool = False, folds_names: bool | None = None) -> TableRules | None:
    """The rules in *text*; None: they hide nothing.

    Args:
        text: JSON, a list of rules or one of them; or the path of a TOML file with sections `[[tables]]`.
        needs_key: Whether primary keys must stay keys, as those of messages.
        folds_names: The server folds names of tables: see `as_folded`.
    """
    is_json = text.lstrip().startswith(("[", "{"))
    at = None if is_json else Place(text)
    try:
        rules = _of_json(text) if is_json else _of_file(Path(text))
        for number, rule in enumerate(rules):
            _check(rule, number)
    except (msgspec.ValidationError, msgspec.DecodeError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise OptionError("INVALID_VALUE", f"option rules: {error}", at=at, hint=_HINT) from error
    cased = (msgspec.structs.replace(rule, select=as_folded(rule.select, folds_names)) for rule in rules)
    return table_rules(bound_rule(rule, needs_key=needs_key) for rule in cased)


def _of_json(text: str) -> list[RowRule]:
    decoded = msgspec.json.decode(text)
    return msgspec.convert(decoded if isinstance(decoded, list) else [decoded], list[RowRule])


def _of_file(path: Path) -> list[RowRule]:
    try:
        content = path.read_text(encoding="utf-8")
    except OSError as error:
        raise storage_error(path, "read", error) from error
    return msgspec.convert(tomllib.loads(content), _RuleFile).tables


def _check(rule: RowRule, number: int) -> None:
    try:
        rule.check()
    except RuleError as error:
        key = "" if error.key is None else f".{error.key}"
        reason = f"option rules: [{number}].{error.setting}{key}: {error}"
        raise OptionError("INVALID_VALUE", reason, hint=error.hint) from error


class DefinedTables:
    """Tables that expressions name, and what gh-ost and pt-online-schema-change make beside these.

    Args:
        expressions: As for `TableFilter`.
    """

    def __init__(self, expressions: str) -> None:
        self._filter = TableFilter(expressions)

    def has(self, layout: TableLayout) -> bool:
        """True if a table is one of them."""
        name = TableName(layout.database, layout.table)
        origin = origin_of(name)
        return self._filter.accepts_name(*name) or (origin is not None and self._filter.accepts_name(*origin))


class WantedDefinitions(NamedTuple):
    """Definitions that table maps do without, and a job does not.

    Attributes:
        tables: Expressions of tables of which all is wanted that is defined; then the whole log is looked through for
            statements.
        full_source_images: See `Decoding`.
    """

    tables: str | None = None
    full_source_images: bool = False


NO_DEFINITIONS = WantedDefinitions()


def decoding_under(
    rules: TableRules | None,
    history: SchemaHistory,
    zero_dates: ZeroDates,
    time_type: TimeType,
    *,
    replace_invalid_text: bool,
) -> Decoding:
    """Decoding of rows under *rules*: what these ask of definitions is looked for before a part begins."""
    wanted = None if rules is None else rules.defined_tables
    schemas = history if wanted is None else _DefinedSchemas(history, DefinedTables(wanted))
    return Decoding(schemas, zero_dates, time_type, replace_invalid_text, rules, computes=with_computed_values)


@dataclass(frozen=True, slots=True)
class _DefinedSchemas:
    history: SchemaHistory
    tables: DefinedTables

    def edges(self, database: str, table: str) -> Sequence[Position]:
        return self.history.edges(database, table)

    def completed(self, layout: TableLayout, position: Position, *, needs_generated: bool = False) -> TableLayout:
        return self.history.completed(layout, position, needs_generated=needs_generated or self.tables.has(layout))
