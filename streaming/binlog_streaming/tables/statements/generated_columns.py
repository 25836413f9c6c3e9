"""Generated columns that targets leave out, and what is left of an ALTER TABLE without them: `without_generated`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from binlog_connector.rules.rules_on_tables import BoundRule
from binlog_format.names import folded_name, folded_names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from binlog_connector.schema.definitions import ColumnDefinition
    from binlog_connector.schema.table_changes import ColumnFacts, TableAltered
    from binlog_streaming.tables.statements.work import StatementContext

_COMPUTED = "it was generated until this statement"


def without_generated(
    context: StatementContext, change: TableAltered, *, columns: frozenset[str], keys: tuple[str, ...]
) -> TableAltered:
    """The part of *change* about columns that are not generated; all of it unless the table's rule hides these.

    Args:
        columns: The columns of the target that the table has before the statement, in small letters.
    """
    rule = context.table.rule
    if not rule.drops_generated:
        return change
    before = _Before(context, columns)
    olds = {folded_name(new): old for old, new in change.renamed.items()}
    added = [fact for fact in change.added if not fact.generated]
    modified: list[ColumnFacts] = []
    dropped: list[str] = []
    for fact in change.modified:
        old = olds.get(folded_name(fact.name), fact.name)
        if fact.generated:
            dropped += [old] if before.is_plain(old) else []
        elif before.is_plain(old):
            modified.append(fact)
        else:
            added.append(replace(fact, existing=None, unknown=_COMPUTED))
    became = {folded_name(olds.get(folded_name(fact.name), fact.name)) for fact in change.modified if fact.generated}
    renamed = {
        old: new for old, new in change.renamed.items() if folded_name(old) not in became and before.is_plain(old)
    }
    becomes_generated = {folded_name(fact.name): bool(fact.generated) for fact in (*change.added, *change.modified)}
    after = change.primary_key or tuple(_renamed(key, change.renamed) for key in keys)
    generated = [
        key
        for key in rule.keys or after
        if becomes_generated.get(folded_name(key), before.is_generated(olds.get(folded_name(key), key)))
    ]
    BoundRule(rule, needs_key=True).check_keys(str(change.name), generated, folded_names(generated))
    return replace(
        change, renamed=renamed, added=tuple(added), modified=tuple(modified), dropped=(*change.dropped, *dropped)
    )


@dataclass(frozen=True)
class _Before:
    # The table before a statement; its definition is looked for where the first column is asked about.
    context: StatementContext
    columns: frozenset[str]

    def is_plain(self, name: str) -> bool:
        column = self._defined.get(folded_name(name))
        # A target has no generated columns: what it has was none.
        return folded_name(name) in self.columns if column is None else column.generated is None

    def is_generated(self, name: str) -> bool:
        column = self._defined.get(folded_name(name))
        return column is not None and column.generated is not None

    @cached_property
    def _defined(self) -> Mapping[str, ColumnDefinition]:
        context = self.context
        table = context.facts.definition_before(context.table.name, context.step.statement, context.rows_layout)
        columns = () if table is None else table.columns or ()
        return {folded_name(column.name): column for column in columns if column.knows("generated")}


def _renamed(name: str, renamed: Mapping[str, str]) -> str:
    return next((new for old, new in renamed.items() if folded_name(old) == folded_name(name)), name)
