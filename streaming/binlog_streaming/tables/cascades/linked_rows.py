"""The rows of a step of tables that foreign keys link: `LinkedRows` derives what the log does not have.

Nothing is written before all is derived, and tables are written after all whose rows depend on theirs. What is derived
for a table depends on the rows that it, and the tables above it, held before the step. So a step that was cut off is
derived again from the same rows: no table that is still to be written depends on one that holds the step already.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from binlog_format.errors import UnsupportedError
from binlog_format.rows.declared.declared_defaults import Generated
from binlog_format.rows.images import ImageKind
from binlog_streaming.modes.cascades import RowChanges
from binlog_streaming.modes.decoded_images import derived_row_batches
from binlog_streaming.modes.row_batches import RowBatch
from binlog_streaming.tables.cascades.held_rows import HeldRows, holding_mode
from binlog_streaming.tables.cascades.linked_table import LinkedTable
from binlog_streaming.tables.rows_step import DerivedRows, RowsContent, bare_layout

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray

    from binlog_connector.schema.definitions import TableName
    from binlog_format.rows.decoding import Decoding
    from binlog_streaming.lake.target import CommitId, Target
    from binlog_streaming.modes.table_history import TableHistory
    from binlog_streaming.plan.cascade_links import Link, LinkedRowsStep
    from binlog_streaming.plan.table_selection import SelectedTable
    from binlog_streaming.settings import Mode
    from binlog_streaming.tables.cascades.linked_images import LinkedImages
    from binlog_streaming.tables.log_facts import LogFacts

    Indices = NDArray[np.int64]


@dataclass(frozen=True)
class LinkedRows:
    """The tables of a step, and where their rows are.

    Attributes:
        step: What is to be done.
        tables: Those that have targets.
        logged: What the log has of them, and of other parents.
        facts: Of definitions.
        decoding: How rows become values.
        look: The target of a table in a mode.
        commit_id: What brings rows to one, given the number of the step.
    """

    step: LinkedRowsStep
    tables: Mapping[TableName, SelectedTable]
    logged: LinkedImages
    facts: LogFacts
    decoding: Decoding
    look: Callable[[SelectedTable, Mode], Target]
    commit_id: Callable[[SelectedTable, Mode, int, RowsContent], CommitId]
    _derived: dict[TableName, RowChanges] = field(default_factory=dict)
    _linked: dict[TableName, LinkedTable] = field(default_factory=dict)
    _done: set[TableName] = field(default_factory=set)

    def contents(
        self, naming: Callable[[str, str], AbstractContextManager[None]]
    ) -> list[tuple[SelectedTable, RowsContent]]:
        """What is to be written, in this order.

        Args:
            naming: Within it errors name a table, and what it is read from.

        Raises:
            BinlogError: What is wrong with rows, or with what they refer to.
        """
        found = {}
        for name in reversed(self.step.tables):
            with naming(str(name), "foreign keys"):
                found[name] = self._content(self.tables[name])
        contents = ((self.tables[name], found[name]) for name in self.step.tables)
        return [(table, content) for table, content in contents if content is not None]

    def _content(self, table: SelectedTable) -> RowsContent | None:
        own = self.logged.row_batches[table.name]
        # The step of a table goes as far as that of what may change it, whether or not it does: so a step that is
        # repeated has the same end, when what it did cannot be seen any more.
        sources = [
            *own,
            *(row_batch for name in self._above(table.name) for row_batch in self.logged.row_batches[name]),
        ]
        if not sources:
            return None
        last = max(sources, key=RowBatch.last_change)
        content = RowsContent(str(table.name), own, self.decoding, table.rule, self.facts, end=last)
        mode = holding_mode(table.rule)
        if self.look(table, mode).is_done(self.commit_id(table, mode, self.step.number, content)):
            self._done.add(table.name)
            derived = None
        else:
            derived = self._derived_rows(table.name, last)
        if derived is not None:
            content = replace(content, derived=derived)
        return content if own or derived else None

    def _above(self, name: TableName) -> set[TableName]:
        found: set[TableName] = set()
        ahead = [name]
        while ahead:
            child = ahead.pop()
            new = {link.key.parent for link in self.step.links if link.child == child} - found - {name}
            found |= new & self.logged.row_batches.keys()
            ahead += new
        return found

    def _derived_rows(self, name: TableName, last: RowBatch) -> DerivedRows | None:
        links = [link for link in self.step.links if link.child == name]
        from_others = [(link, self._changes(link)) for link in links if link.key.parent != name]
        to_itself = [link for link in links if link.key.parent == name]
        referenced = {
            column for link in self.step.links if link.key.parent == name for column in link.key.parent_columns
        }
        changes = None
        while True:
            # What is done to rows of a table may be carried on to others of it.
            references = [*from_others, *((link, self._changes(link, changes)) for link in to_itself)]
            before = changes
            known = [(link.key, some) for link, some in references if some is not None]
            changes = self._table(name).derived(known, referenced)
            if changes is None or not to_itself or (before is not None and changes.equals(before)):
                break
        if changes is None or not len(changes):
            return None
        self._derived[name] = changes
        table, own = self._table(name), self.logged.row_batches[name]
        unknown = self._computed(name, last)
        row_batches = derived_row_batches(
            changes,
            self.logged.flat,
            own[-1].layout if own else bare_layout(name, last),
            frozenset(index for index, column in enumerate(table.known_schema.names) if column in unknown),
        )
        origins = tuple(str(self.logged.names[number]) for number, _ in row_batches)
        return DerivedRows(
            table.known_schema, table.keys, tuple(row_batch for _, row_batch in row_batches), origins, unknown
        )

    def _changes(self, link: Link, derived: RowChanges | None = None) -> RowChanges | None:
        """Changes of the columns that a foreign key refers to; *derived*: of its parent, those that no log has."""
        parent = link.key.parent
        if parent not in self.logged.row_batches:
            return None
        if parent in self._done and self._table(parent).has_absent:
            return None  # the rows before are gone; but where the parent holds the step, its children do
        derived = self._derived.get(parent) if derived is None else derived
        numbers = self.logged.changes_of(parent, link)
        if not len(numbers) and (derived is None or not len(derived)):
            return None
        history = self._table(parent).own_history
        columns = [history.column(name) for name in self._referenced(link)]
        found = [_logged_changes(history, columns, numbers, self.logged.start(parent))]
        if derived is not None:
            within = derived.take(self.logged.is_within(derived.origins, link))
            found.append(within.selected(columns))
        return RowChanges.joined(found)

    def _table(self, name: TableName) -> LinkedTable:
        if name not in self._linked:
            table, held = self.tables.get(name), None
            if table is not None and name in self.step.tables:
                mode = holding_mode(table.rule)
                target = self.look(table, mode)
                held = HeldRows(target if target.properties() is not None else None, mode, table.rule)
            self._linked[name] = LinkedTable(name, self.logged, held, self.decoding, self.facts)
        return self._linked[name]

    def _referenced(self, link: Link) -> tuple[str, ...]:
        names = link.key.parent_columns or self._table(link.key.parent).keys
        if len(names) != len(link.key.columns):
            raise UnsupportedError(
                "FOREIGN_KEY_CASCADE",
                f"{link.child}: its foreign key {link.key.name} names no columns of {link.key.parent}, and no primary "
                "key of that one is known",
                hint='Set binlog_row_metadata=FULL on the server, or foreign_keys = "ignore" for the child table',
            )
        return names

    def _computed(self, name: TableName, last: RowBatch) -> frozenset[str]:
        # Columns that nobody knows after an update.
        definition = self.facts.definition_at(name, last.last_change()[0])
        if definition is not None and definition.versioned:
            raise UnsupportedError(
                "FOREIGN_KEY_CASCADE",
                f"{name}: foreign keys change rows of it, and it is system-versioned: what becomes of the rows of its "
                "history is not derived",
                hint='Leave it out (option source.excludeTables), or set foreign_keys = "ignore" for it',
            )
        columns = () if definition is None else definition.columns or ()
        return frozenset(column.name for column in columns if column.generated is Generated.VIRTUAL)


def _logged_changes(history: TableHistory, columns: Sequence[int], numbers: Indices, start: int) -> RowChanges:
    deletes = history.images.kinds[numbers] == ImageKind.DELETE
    after = np.where(deletes, numbers, numbers + 1)
    before, later = (
        pa.Table.from_arrays([history.values(column, some) for column in columns], schema=history.part(columns))
        for some in (numbers, after)
    )
    return RowChanges(before, later, deletes, history.times[numbers], start + numbers)
