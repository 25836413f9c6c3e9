"""The rules of all tables, for who decodes rows: `TableRules`, a `binlog_format.rows.decoding.RowRules`."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from binlog_connector.rules.rules_on_tables import BoundRule, apply_rules_to_table
from binlog_connector.schema.definitions import TableName
from binlog_connector.schema.online_schema_change import origin_of
from binlog_format.errors import OptionError
from binlog_format.views.table_filter import TableFilter

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from binlog_connector.rules.row_rule import RowRule
    from binlog_connector.rules.rules_on_tables import ShownTable
    from binlog_format.events.table_map import TableLayout
    from binlog_format.rows.decoding import Decoding
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
        self._filters = [(TableFilter(one.rule.select, exclude), one) for one in self._rules]
        self._shown: dict[tuple[object, ...], ShownTable] = {}

    def __reduce__(self) -> tuple[object, ...]:
        # Tasks get the rules; values computed with them are computed again there.
        return TableRules, (self._rules, self._exclude)

    @property
    def chooses_rows(self) -> bool:
        """True if a rule leaves out rows."""
        return any(one.rule.where is not None for one in self._rules)

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
        if self._matching(old) is None or self._matching(new) is None:
            return True
        before, after = (
            None if rule is None or not rule.rule.hides else rule for rule in (self.of(*old), self.of(*new))
        )
        return after is None if before is None else before.shows_as(after)

    @property
    def defined_tables(self) -> str | None:
        """Tables of which has to be known which columns are generated: expressions; None: there are none."""
        return defined_tables(one.rule for one in self._rules)

    def _matching(self, name: TableName) -> BoundRule | None:
        return next((rule for wanted, rule in self._filters if wanted.accepts_name(*name)), None)

    def shown(self, layout: TableLayout, decoding: Decoding) -> TableLayout:
        """See `RowRules.shown`."""
        if layout.logged is not None or layout.problem is not None:
            return layout
        shown = self._table(layout, decoding)
        return layout if shown is None else shown.layout

    def applied(self, images: Images) -> Images:
        """See `RowRules.applied`."""
        from binlog_connector.rules.rules_on_images import (
            apply_rules_to_images,  # compiled code; not all who know rules read rows
        )

        shown = self._table(images.layout, images.decoding)
        assert shown is not None, "a table without a rule is shown as it is"
        return apply_rules_to_images(images, shown)

    def _table(self, layout: TableLayout, decoding: Decoding) -> ShownTable | None:
        kinds = decoding.time_type, decoding.zero_dates, decoding.replace_invalid_text
        key = (layout.database, layout.table, layout.digest, layout.completion, *kinds)
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


def bound_rule(rule: RowRule, *, keys: tuple[str, ...] = (), needs_key: bool = False) -> BoundRule:
    """A rule with its salt out of the environment; arguments as `BoundRule`.

    Raises:
        OptionError: `MISSING`: the salt is not there.
    """
    return BoundRule(rule, keys, needs_key, read_salt(rule.salt_variable))


def read_salt(variable: str | None, environment: Mapping[str, str] = os.environ) -> bytes:
    """The salt in an environment variable; nothing where none is named.

    Raises:
        OptionError: `MISSING`: it is not set, or empty.
    """
    if variable is None:
        return b""
    salt = environment.get(variable, "")
    if not salt:
        raise OptionError(
            "MISSING",
            f"salt_variable: the environment variable {variable} is not set",
            hint="It holds the salt of the mask sha256: set it to the same secret text whenever the rule is used",
        )
    return salt.encode()
