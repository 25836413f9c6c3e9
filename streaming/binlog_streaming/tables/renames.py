"""What a RENAME TABLE does to two targets: `taken_over` by the new name, `renamed_away` from the old one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_format.errors import SchemaError
from binlog_streaming.settings import Mode, OnStatement
from binlog_streaming.tables.statements import Work, held_keys
from binlog_streaming.tables.target import DROPPED_COLUMNS_PROPERTY, DROPPED_PROPERTY

if TYPE_CHECKING:
    from binlog_connector.schema.table_changes import TableRenamed
    from binlog_streaming.tables.kept import KeptTable
    from binlog_streaming.tables.statements import Occasion
    from binlog_streaming.tables.target import Target, Ticket


def check_old_is_kept(occasion: Occasion, change: TableRenamed, old: KeptTable | None) -> None:
    """See that the rows which a table gets by its new name are known.

    Raises:
        SchemaError: `TABLE_RENAMED`: they are not.
    """
    if occasion.mode is Mode.CHANGELOG or occasion.table.is_aside:
        return
    if old is None or occasion.mode not in old.rule.modes:
        raise SchemaError(
            "TABLE_RENAMED",
            f"{change.new} was {change.old} before, which the job does not keep with mode {occasion.mode}: its rows "
            "are not known",
            hint=f"Keep {change.old} too ([[tables]], with the same mode) in a job that starts before the RENAME, or "
            f"leave {change.new} out (source.excludeTables)",
        )


def taken_over(occasion: Occasion, source: Target, target: Target) -> Work | None:
    """What makes *target* hold what *source* does."""
    there, properties = target.properties(), source.properties()
    if properties is None:
        return None if there is None else Work(occasion.emptied, held_keys(there), {DROPPED_PROPERTY: ""})

    said = {DROPPED_PROPERTY: "", DROPPED_COLUMNS_PROPERTY: properties.get(DROPPED_COLUMNS_PROPERTY) or ""}
    new = {name: text for name, text in said.items() if (there or {}).get(name, "") != text}

    def copy(target: Target, ticket: Ticket) -> bool:
        if target.properties() is None:
            target.create(source.schema(), ticket)
        # Before the commit: afterwards *source* may hold another table's rows already.
        target.describe(ticket, said=new)
        target.replace(source.read(), ticket)
        return True

    return Work(copy, held_keys(properties))


def renamed_away(occasion: Occasion, target: Target) -> Work | None:
    """What becomes of a target whose source table has another name now."""
    properties = target.properties()
    if properties is None or occasion.mode is Mode.CHANGELOG or occasion.table.name in occasion.step.overwritten:
        return None
    applies = occasion.table.is_aside or occasion.table.rule.on_drop is OnStatement.APPLY
    return Work(occasion.emptied if applies else None, held_keys(properties), occasion.dropped)
