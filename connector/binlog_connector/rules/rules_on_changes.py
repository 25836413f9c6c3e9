"""Effects of statements on tables as rules show these: `apply_rules_to_changes(changes, decoding, vendor)`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from binlog_connector.rules.row_rule import MaskKind
from binlog_connector.rules.rules_on_tables import BoundRule, apply_rules_to_table
from binlog_connector.schema.snapshot_marks import SnapshotBegun
from binlog_connector.schema.table_changes import TableAltered, TableCreated, TableRenamed
from binlog_format.errors import SchemaError
from binlog_format.events.table_map import TableLayout
from binlog_format.rows.columns import arrow_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binlog_connector.rules.row_rules import TableRules
    from binlog_connector.schema.snapshot_marks import SnapshotChange
    from binlog_connector.schema.table_changes import ColumnFacts, StatementChange
    from binlog_format.events.table_map import Column
    from binlog_format.rows.decoding import Decoding
    from binlog_format.vendor import Vendor


def apply_rules_to_changes(
    changes: Sequence[StatementChange | SnapshotChange], rules: TableRules, decoding: Decoding, vendor: Vendor
) -> list[StatementChange | SnapshotChange]:
    """Convert *changes* of tables to changes of their visible parts.

    Args:
        changes: Of a statement, or of a mark of a snapshot.

    Raises:
        OptionError: `INVALID_VALUE`: a rule does not fit a table.
        SchemaError: `SCHEMA_CHANGED`, `TABLE_RENAMED`: a column, or a table, gets a name under which its values would
            be shown otherwise.
    """
    return [_shown_change(change, rules, decoding, vendor) for change in changes]


def _shown_change(
    change: StatementChange | SnapshotChange, rules: TableRules, decoding: Decoding, vendor: Vendor
) -> StatementChange | SnapshotChange:
    if isinstance(change, TableRenamed) and not rules.shows_alike(change.old, change.new):
        raise SchemaError(
            "TABLE_RENAMED",
            f"{change.new} was {change.old} before, and the rules show these two differently",
            hint="Name both in one rule of [[tables]]: what is hidden of one is to be hidden of the other",
        )
    if not isinstance(change, TableCreated | TableAltered | SnapshotBegun):
        return change
    rule = rules.of(*change.name)
    if rule is None:
        return change
    view = _StatementView(rule, replace(decoding, rules=None), vendor)
    if isinstance(change, SnapshotBegun):
        if rule.rule.drops_generated and not change.is_defined:
            return replace(change, created=replace(change.created, columns=None))  # they come with the first rows
        return replace(change, created=view.created(change.created))
    return view.created(change) if isinstance(change, TableCreated) else view.altered(change)


@dataclass(frozen=True, slots=True)
class _StatementView:
    rule: BoundRule
    decoding: Decoding
    vendor: Vendor

    def created(self, change: TableCreated) -> TableCreated:
        if change.columns is None:
            return change
        logged = self._layout(change, [fact.column for fact in change.columns])
        names = [fact.name.casefold() for fact in change.columns]
        logged = replace(logged, primary_key=tuple(names.index(key.casefold()) for key in change.primary_key))
        generated = {fact.name.casefold() for fact in change.columns if fact.generated}
        shown = apply_rules_to_table(self.rule, logged, self.decoding, generated)
        facts = tuple(
            self._fact(change.columns[index], column)
            for index, column in zip(shown.columns, shown.layout.columns, strict=True)
        )
        key = tuple(str(shown.layout.columns[index].name) for index in shown.layout.primary_key)
        return replace(change, columns=facts, primary_key=key)

    def altered(self, change: TableAltered) -> TableAltered:
        # Generated columns are left in it: what they were before, the statement does not tell.
        rule = self.rule
        dropped = [name for name in change.dropped if rule.shows(name)]
        renamed = {}
        for old, new in change.renamed.items():
            if rule.shows(old) and not rule.shows(new):
                dropped.append(old)
            elif rule.shows(old) is rule.shows(new) and rule.mask(old) == rule.mask(new):
                renamed.update({old: new} if rule.shows(new) else {})
            else:
                raise SchemaError(
                    "SCHEMA_CHANGED",
                    f"{change.name}: column {old} is called {new} now, and its rule shows these two differently",
                    hint=f"Name both in the rule: what holds for {old} is to hold for {new} too",
                )
        key = change.primary_key
        if key is not None:
            rule.check_keys(str(change.name), key)
            key = key if all(map(rule.tells_rows_apart, key)) else ()
        return replace(
            change,
            renamed=renamed,
            added=self._facts(change, change.added),
            modified=self._facts(change, change.modified),
            dropped=tuple(dropped),
            primary_key=key,
        )

    def _facts(self, change: TableAltered, facts: Sequence[ColumnFacts]) -> tuple[ColumnFacts, ...]:
        facts = [fact for fact in facts if self.rule.shows(fact.name)]
        logged = self._layout(change, [fact.column for fact in facts])
        columns = [self.rule.masked_column(logged, index, self.decoding) for index in range(len(facts))]
        return tuple(map(self._fact, facts, columns))

    def _layout(self, change: TableCreated | TableAltered, columns: Sequence[Column]) -> TableLayout:
        return TableLayout(*change.name, tuple(columns), (), "", b"", self.vendor)

    def _fact(self, fact: ColumnFacts, column: Column) -> ColumnFacts:
        mask = self.rule.mask(fact.name)
        if mask is None or (fact.generated and self.rule.rule.drops_generated):
            return fact
        if mask.kind is MaskKind.NULL:
            kind = arrow_type(TableLayout("", "", (column,), (), "", b"", self.vendor), 0, self.decoding)
            return replace(fact, column=column, existing=pa.scalar(None, kind), unknown=None, generated="")
        existing = fact.existing
        if existing is not None:
            known = pa.array([existing.as_py()], existing.type).drop_null()
            existing = pa.concat_arrays([mask.masked(known), pa.nulls(1, pa.string())])[0]
        return replace(fact, column=column, existing=existing)
