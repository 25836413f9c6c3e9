"""Table selection of a job: `TableSelection(rules).find(name)`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from binlog_connector.schema.online_schema_change import ghost_of
from binlog_format.views.table_filter import TableFilter
from binlog_streaming.lake.storage.table_places import target_uri
from binlog_streaming.settings.choices import Deletes, Mode, OnPartitionDrop, OnStatement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binlog_connector.schema.definitions import TableName
    from binlog_streaming.plan.job_state import SetAside
    from binlog_streaming.settings import TableRule

ASIDE_DIRECTORY = ".binlog-stream/staging"
"""Folder in the sink's directory for tables that replace a selected one later."""
_ASIDE_TARGET = "{database}/{table}/{mode}"


@dataclass(frozen=True, slots=True)
class SelectedTable:
    """A source table that has targets.

    Attributes:
        name: In the log.
        rule: The job's settings for it.
        is_aside: No rule selects it; it is kept aside, because it may take the place of a table that is selected.
        known: Targets of which a batch takes it that they are there, as batches before have written them.
        complete: Whether all of its rows lie in what was read; None: as its targets state already.
        is_assumed: It counts as complete, and nothing in the log created or emptied it.
        complete_from: Of a table that is complete: number of the step from which on it is.
        completing: A snapshot of it began: rows may be missing that the server has.
        set_aside: Why it does not go on; its targets are told.
    """

    name: TableName
    rule: TableRule
    is_aside: bool = False
    known: frozenset[Mode] = frozenset()
    complete: bool | None = None
    is_assumed: bool = False
    complete_from: int = 0
    completing: bool = False
    set_aside: SetAside | None = None

    def complete_at(self, step: int) -> bool | None:
        """Value of `complete` that targets record from the step with a number on."""
        return self.complete and step >= self.complete_from

    def uri(self, directory: str, mode: Mode) -> str:
        """Place of a target.

        Args:
            directory: Of the sink.
            mode: What the target holds.
        """
        if self.is_aside:
            directory, template = f"{directory.rstrip('/')}/{ASIDE_DIRECTORY}", _ASIDE_TARGET
        else:
            template = self.rule.target
        return target_uri(directory, template, database=self.name.database, table=self.name.table, mode=mode)


class TableSelection:
    """The tables that a job's rules select, and the ghosts of these.

    Args:
        rules: The first one that matches a table counts.
        exclude: Expressions of tables that none of them selects; nor are these kept aside.
    """

    def __init__(self, rules: Sequence[TableRule], exclude: str | None = None, folds_names: bool | None = None) -> None:
        self.folds_names = folds_names
        self._filters = [(TableFilter(rule.select, exclude), rule) for rule in rules]
        self._not_excluded = TableFilter(None, exclude)

    def find(self, name: TableName) -> SelectedTable | None:
        """The table, if it is selected, or the ghost of one that is."""
        rule = self.rule(name)
        if rule is not None:
            return SelectedTable(name, rule)
        table = ghost_of(name)
        rule = None if table is None or not self._not_excluded.accepts_name(*name) else self.rule(table)
        # A changelog gets no rows of another table.
        if rule is None or set(rule.modes) == {Mode.CHANGELOG}:
            return None
        return SelectedTable(name, _ghost_rule(rule), is_aside=True)

    def rule(self, name: TableName) -> TableRule | None:
        """The rule that selects a table."""
        return next((rule for wanted, rule in self._filters if wanted.accepts_name(*name)), None)

    def rules_about(self, database: str) -> list[TableRule]:
        """Rules that may select tables of a database, as far as their expressions show it."""
        return [rule for wanted, rule in self._filters if wanted.may_accept_in(database)]


def _ghost_rule(rule: TableRule) -> TableRule:
    # Whatever is kept of its table: when it takes the place of that, the rows that it has then are all that counts.
    applies = OnStatement.APPLY
    # Which rows go with a partition cannot be told of those that a rule has changed.
    as_its_table = rule.hides or rule.on_partition_drop is OnPartitionDrop.KEEP
    return msgspec.structs.replace(
        rule,
        mode=Mode.MIRROR,
        deletes=Deletes.REMOVE,
        on_truncate=applies,
        on_drop=applies,
        on_partition_drop=rule.on_partition_drop if as_its_table else OnPartitionDrop.APPLY,
    )
