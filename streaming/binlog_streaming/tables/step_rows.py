"""Row images, in a log or read elsewhere: `part_row_batches` of a part of a batch, `StepRows` of a component."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from binlog_format.errors import BinlogError
from binlog_format.views.index.table_index import TableIndex
from binlog_streaming.modes.row_batches import RowBatch, load_row_batches
from binlog_streaming.plan.batch_plan import IndexPart
from binlog_streaming.plan.failures import naming
from binlog_streaming.tables.declared_columns import with_types

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from binlog_connector.schema.definitions import TableName
    from binlog_format.events.table_map import TableLayout
    from binlog_format.log.log import Log
    from binlog_format.rows.decoding import Decoding
    from binlog_streaming.plan.batch_plan import Component, RowsStep


@dataclass(frozen=True, slots=True)
class ReceivedPart(IndexPart):
    """A part whose rows came without a log; its index is empty.

    Attributes:
        row_batches: The rows.
    """

    row_batches: tuple[RowBatch, ...] = ()


def no_types() -> Mapping[str, str]:
    """No types: only the layouts of columns are known."""
    return {}


def part_row_batches(
    part: IndexPart, log: Log | None, decoding: Decoding, types: Callable[[], Mapping[str, str]] = no_types
) -> list[RowBatch]:
    """Row batches of *part*.

    Args:
        part: Of a batch.
        log: Where its index points to; None: all parts are received.
        decoding: How rows become values.
        types: See `with_types`.

    Raises:
        DataLossError: As `load_row_batches`.
    """
    if isinstance(part, ReceivedPart):
        return list(part.row_batches)
    assert log is not None, "an index points into a log"
    return load_row_batches((with_types(TableIndex.from_bytes(part.index), types),), log, decoding)


class StepRows:
    """Reads the rows of steps, which are asked for in their order.

    Args:
        component: Whose steps these are.
        log: Where its parts point to; None: all of them have been received.
        decoding: How rows become values.
        types: What columns of a table are, where no definition was found (`with_types`).
    """

    def __init__(
        self,
        component: Component,
        log: Log | None,
        decoding: Decoding,
        types: Callable[[TableName], Mapping[str, str]] = lambda _: {},
    ) -> None:
        self._types = types
        self._log = log
        self._decoding = decoding
        # A part at which several steps have a share is read once.
        self._uses = Counter(id(part) for step in component.rows_steps() for part in step.parts)
        self._read: dict[int, list[RowBatch]] = {}
        self._layouts: dict[TableName, TableLayout] = {}

    def of(self, step: RowsStep) -> list[RowBatch]:
        """The row batches of a step, by their first image.

        Raises:
            BinlogError: The rows cannot be read; it names the table.
        """
        try:
            cut = (
                rows.between(step.after, step.before) for part in step.parts for rows in self._part(part, step.table)
            )
            found = sorted((rows for rows in cut if rows is not None), key=RowBatch.start)
        except BinlogError as error:
            raise naming(error, str(step.table)) from error
        if found:
            self._layouts[step.table] = max(found, key=RowBatch.last_change).layout
        return found

    def layout_before(self, table: TableName) -> TableLayout | None:
        """Layout of the table's last rows since a statement about it; None: there are none in the steps so far."""
        return self._layouts.get(table)

    def forget_layout(self, table: TableName) -> None:
        """A statement may have changed the table: what its rows looked like is over."""
        self._layouts.pop(table, None)

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
