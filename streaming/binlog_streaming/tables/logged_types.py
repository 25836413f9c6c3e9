"""Types of a table's columns as its last rows came, which each target remembers: `logged_types`, `check_types`.

An ALTER TABLE may be missing in the log (`sql_log_bin = 0`, a filter of databases): another table map alone shows it
then. Where the new type does not hold all values of the one before, existing rows may have lost some that a target has.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

from binlog_connector.schema.definitions import ColumnDefinition, TableDefinition
from binlog_connector.schema.effects.column_effects import alter_effects
from binlog_connector.schema.effects.conversion import SAME, Circumstances
from binlog_connector.schema.layout_definitions import definition_from_layout
from binlog_connector.schema.operations import AlterTable
from binlog_connector.schema.snapshot_marks import SnapshotBegun
from binlog_connector.schema.table_changes import (
    DatabaseDropped,
    TableAltered,
    TableCreated,
    TableDropped,
    TableRenamed,
    UnsupportedChange,
)
from binlog_format.errors import SchemaError
from binlog_format.events.table_map import parse_table_map
from binlog_format.names import folded_name
from binlog_format.rows.declared.completion import LayoutCompletion
from binlog_format.rows.declared.declared_types import Moment
from binlog_streaming.lake.commit_id import TYPES_PROPERTY
from binlog_streaming.plan.snapshots import past_statement
from binlog_streaming.tables.statements.row_retention import has_rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from binlog_connector.schema.definitions import TableName
    from binlog_connector.schema.effects.column_effects import ColumnChanged
    from binlog_format.events.table_map import TableLayout
    from binlog_format.vendor import Vendor
    from binlog_streaming.lake.target import Target
    from binlog_streaming.tables.rows_step import RowsContent

_CHANGE_TYPES = (
    DatabaseDropped,
    SnapshotBegun,
    TableAltered,
    TableCreated,
    TableDropped,
    TableRenamed,
    UnsupportedChange,
)
_KNOWN = 256
"""Table maps whose types are kept: each batch has the same ones."""


def logged_types(content: RowsContent, held: str) -> tuple[str, ...]:
    """Types of the columns, each time that they are others than before, as texts that targets record.

    Args:
        held: What the target has recorded; empty: nothing.

    Returns:
        Those of changes; where nothing else is known, those of existing rows, which a snapshot may have begun to read
        before a statement. Empty: table maps have no names of columns (`binlog_row_metadata=MINIMAL`).
    """
    are_copied = [bool(row_batch.snapshot) or content.is_repair for row_batch in content.row_batches]
    texts = list(map(_types, content.layouts))
    changed = [text for text, is_copied in zip(texts, are_copied, strict=True) if text and not is_copied]
    if changed or held:
        return tuple(text for text, _ in groupby(changed))
    return tuple(filter(None, texts[-1:]))


def forgotten_types(properties: Mapping[str, str] | None, change: object) -> dict[str, str]:
    """Property of a target, to be recorded before a statement that may give its columns other types."""
    is_held = bool((properties or {}).get(TYPES_PROPERTY))
    return {TYPES_PROPERTY: ""} if is_held and isinstance(change, _CHANGE_TYPES) else {}


def check_types(name: TableName, target: Target, held: str, types: Sequence[str], content: RowsContent) -> None:
    """See that no row lost values by a statement that the log lacks.

    Args:
        held: What *target* has recorded; empty: nothing.
        types: Of the rows that come next, in their order.

    Raises:
        SchemaError: `SCHEMA_CHANGED`: existing rows may have.
    """
    for before, after in pairwise([held, *types]):
        if not before or before == after:
            continue
        changed = _lossy_change(name, before, after, content)
        are_rows = before != held or has_rows(target)  # rows of this step, or earlier ones
        if changed is not None and are_rows:
            raise SchemaError(
                "SCHEMA_CHANGED",
                f"{name}: column {changed.new.name} was {_in_words(changed.old)} and is {_in_words(changed.new)} now, "
                "which does not hold all its values: existing rows may hold others, and the log lacks the statement",
                hint=past_statement(name),
            )


def _types(layout: TableLayout) -> str:
    logged = layout.logged or layout
    if not logged.table_map:
        return ""  # rows that did not come from a log
    return _text(logged.table_map, logged.vendor, frozenset(folded_name(str(column.name)) for column in layout.columns))


@lru_cache(maxsize=_KNOWN)
def _text(table_map: bytes, vendor: Vendor, shown: frozenset[str]) -> str:
    # The table map alone: whether a definition was found differs from batch to batch.
    layout = parse_table_map(table_map, vendor)
    if not layout.has_names or layout.joined:
        return ""
    columns = definition_from_layout(layout).columns or ()
    # In a table without a primary key, an outer join may have made all columns NULL-able.
    takes_null = not all(column.nullable for column in columns)
    known = (
        replace(column.completion(), nullable=column.nullable and takes_null)
        for column in columns
        if folded_name(column.name) in shown
    )
    return LayoutCompletion(tuple(known)).to_json()


def _lossy_change(name: TableName, before: str, after: str, content: RowsContent) -> ColumnChanged | None:
    """The first column whose values may not be what they were; None: there is none."""
    # A strict session would have refused values that do not fit; whether it was one is not known.
    how = Circumstances(
        content.layouts[0].vendor,
        strict=False,
        cuts_fractions=False,
        decoding=replace(content.decoding, rules=None),
        moment=Moment(0),
    )
    changes = alter_effects(_table(name, before), _table(name, after), AlterTable(name), how).values()
    return next((change for change in changes if change.old != change.new and change.effect != SAME), None)


def _table(name: TableName, text: str) -> TableDefinition:
    columns = (
        ColumnDefinition(
            column.name, column.declared or "", column.nullable, column.unsigned, column.charset, column.enum_values
        )
        for column in LayoutCompletion.from_json(text).columns
    )
    return TableDefinition(name, tuple(columns))


def _in_words(column: ColumnDefinition) -> str:
    unsigned = " unsigned" if column.unsigned else ""
    charset = f" ({column.charset})" if column.charset and column.charset != "binary" else ""
    return f"{column.declared}{unsigned}{charset}{'' if column.nullable else ' NOT NULL'}"
