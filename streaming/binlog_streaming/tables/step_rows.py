"""Row images, in a log or read elsewhere: `part_row_batches` of a part of a batch, `StepRows` of a component.

Types that only definitions state, as targets remember them: `recorded_by`, `recorded_of`, `with_types`.

A log that was purged does not have the definitions of its older tables any more. So each target records what its UUID,
INET and VECTOR columns are, and rows whose table map has nothing but binary strings there are read by that.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from binlog_connector.schema.layout_definitions import may_have_declared_types
from binlog_connector.schema.table_changes import TableAltered, TableCreated, TableRenamed, UnsupportedChange
from binlog_format.errors import BinlogError
from binlog_format.names import folded_name
from binlog_format.rows.declared.completion import (
    DDL_SOURCE,
    ColumnCompletion,
    LayoutCompletion,
    apply_completion,
    contradiction,
)
from binlog_format.views.table_index import TableIndex
from binlog_streaming.lake.commit_id import DECLARED_PROPERTY, DROPPED_PROPERTY
from binlog_streaming.modes.row_batches import RowBatch, load_row_batches
from binlog_streaming.plan.batch_plan import IndexPart
from binlog_streaming.plan.failures import naming

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from binlog_connector.schema.definitions import TableName
    from binlog_format.events.table_map import Column, TableLayout
    from binlog_format.log.log import Log
    from binlog_format.rows.decoding import Decoding
    from binlog_streaming.plan.batch_plan import Component, RowsStep

    Types = Mapping[str, str]
    """Declared types of columns, by their names in lower case."""


_ONLY_DECLARED = ("uuid", "inet4", "inet6", "vector")


def held_types(properties: Mapping[str, str] | None) -> dict[str, str]:
    """Types that a target has recorded."""
    text = (properties or {}).get(DECLARED_PROPERTY)
    return json.loads(text) if text else {}


def agreed_types(targets: Iterable[Mapping[str, str] | None]) -> Types:
    """Types on which all existing targets of a table agree; none if one target is further than another."""
    found = [held_types(properties) for properties in targets if properties is not None]
    return found[0] if found and all(types == found[0] for types in found) else {}


def recorded_by(properties: Mapping[str, str] | None, change: object) -> dict[str, str]:
    """Types that a target has to record because of a statement.

    Args:
        properties: Of the target, before the statement; None: it is not there.
    """
    held = held_types(properties)
    return _difference(held, _after(held, properties, change))


def recorded_of(properties: Mapping[str, str] | None, layouts: Iterable[TableLayout]) -> dict[str, str]:
    """Types that a target has to record because of rows. *layouts*: of the rows, in their order."""
    held = held_types(properties)
    types = dict(held)
    for layout in layouts:
        for column in (layout.logged or layout).columns:
            if column.declared is not None:
                _set(types, column)
    return _difference(held, types)


def lacks_types(layout: TableLayout) -> bool:
    """True if no definition was found that contains the types of the columns."""
    layout = layout.logged or layout
    return not layout.completion and layout.has_names and may_have_declared_types(layout)


def with_types(index: TableIndex, types: Callable[[], Types]) -> TableIndex:
    """The same, with *types* where no definition was found."""
    layout = index.layout
    known = types() if lacks_types(layout) else {}
    if not known:
        return index
    columns = [
        ColumnCompletion(str(column.name), known.get(folded_name(str(column.name)))) for column in layout.columns
    ]
    said = [
        completion if contradiction(layout, column, completion) is None else ColumnCompletion(completion.name)
        for column, completion in zip(layout.columns, columns, strict=True)
    ]
    if not any(completion.declared for completion in said):
        return index
    completion = LayoutCompletion(tuple(said), hashes=len(layout.hidden))
    return replace(index, layout=apply_completion(layout, completion.to_json(), DDL_SOURCE))


def _after(held: dict[str, str], properties: Mapping[str, str] | None, change: object) -> dict[str, str]:
    if isinstance(change, TableCreated):
        if change.if_not_exists and properties is not None and not properties.get(DROPPED_PROPERTY):
            return held
        types: dict[str, str] = {}
        for fact in change.columns or ():
            _set(types, fact.column)
        return types
    if isinstance(change, UnsupportedChange | TableRenamed):
        return {}  # rows that come next, and whose definition is known, have them
    return _altered(held, change) if isinstance(change, TableAltered) else held


def _altered(held: dict[str, str], change: TableAltered) -> dict[str, str]:
    types = dict(held)
    for name in change.dropped:
        types.pop(folded_name(name), None)
    for old, new in change.renamed.items():
        kind = types.pop(folded_name(old), None)
        # Two that change their names would be changed back by a batch that is done again.
        if kind is not None and folded_name(new) not in held:
            types[folded_name(new)] = kind
    for fact in (*change.added, *change.modified):
        _set(types, fact.column)
    return types


def _set(types: dict[str, str], column: Column) -> None:
    name, declared = folded_name(str(column.name)), column.declared or ""
    if declared.startswith(_ONLY_DECLARED):
        types[name] = declared
    else:
        types.pop(name, None)


def _difference(held: dict[str, str], types: dict[str, str]) -> dict[str, str]:
    return {} if types == held else {DECLARED_PROPERTY: json.dumps(types, sort_keys=True) if types else ""}


@dataclass(frozen=True, slots=True)
class ReceivedPart(IndexPart):
    """A part whose rows came without a log; its index is empty."""

    row_batches: tuple[RowBatch, ...] = ()


def part_row_batches(
    part: IndexPart, log: Log | None, decoding: Decoding, types: Callable[[], Types]
) -> list[RowBatch]:
    """Row batches of *part*.

    Args:
        log: Where its index points to; None: all parts are received.
        types: See `with_types`.
    """
    if isinstance(part, ReceivedPart):
        return list(part.row_batches)
    assert log is not None, "an index points into a log"
    return load_row_batches((with_types(TableIndex.from_bytes(part.index), types),), log, decoding)


class StepRows:
    """Reads the rows of steps, which are asked for in their order.

    Attributes:
        layouts: Layout of each table's last rows so far; who knows that a table was changed takes it out.

    Args:
        log: Where its parts point to; None: all of them have been received.
        types: What columns of a table are, where no definition was found (`with_types`).
    """

    def __init__(
        self,
        component: Component,
        log: Log | None,
        decoding: Decoding,
        types: Callable[[TableName], Types],
    ) -> None:
        self._types = types
        self._log = log
        self._decoding = decoding
        # A part at which several steps have a share is read once.
        self._uses = Counter(id(part) for step in component.rows_steps() for part in step.parts)
        self._read: dict[int, list[RowBatch]] = {}
        self.layouts: dict[TableName, TableLayout] = {}

    def of(self, step: RowsStep) -> list[RowBatch]:
        """The row batches of a step, by their first image."""
        try:
            cut = (
                rows.between(step.after, step.before) for part in step.parts for rows in self._part(part, step.table)
            )
            found = sorted((rows for rows in cut if rows is not None), key=RowBatch.start)
        except BinlogError as error:
            raise naming(error, str(step.table)) from error
        if found:
            self.layouts[step.table] = max(found, key=RowBatch.end).layout
        return found

    def _part(self, part: IndexPart, table: TableName) -> list[RowBatch]:
        row_batches, asked = self._read.pop(id(part), None), False

        def types() -> Mapping[str, str]:
            nonlocal asked
            asked = True  # a statement between two steps may change them: the part is read again then
            return self._types(table)

        if row_batches is None:
            row_batches = part_row_batches(part, self._log, self._decoding, types)
        self._uses[id(part)] -= 1
        if self._uses[id(part)] and not asked:
            self._read[id(part)] = row_batches
        return row_batches
