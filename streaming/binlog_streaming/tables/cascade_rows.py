"""The rows of a step of tables that foreign keys link: `CascadeRows` derives what the log does not have.

Nothing is written before all is derived, and tables are written after all whose rows depend on theirs. What is derived
for a table depends on the rows that it, and the tables above it, held before the step. So a step that was cut off is
derived again from the same rows: no table that is still to be written depends on one that holds the step already. And
where a table holds it, all tables below do. Tables in a circle have no such order: what is derived for them is kept
before the first of them is written (`CascadeRecord`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from binlog_connector.schema.definitions import TableName
from binlog_connector.schema.layout_definitions import row_ends
from binlog_format.errors import UnsupportedError
from binlog_format.events.table_map import TableLayout
from binlog_format.names import folded_names
from binlog_format.rows.declared.declared_types import Generated
from binlog_format.rows.images import ImageKind
from binlog_format.views.cascading import NO_ROW_ENDS, possible_row_ends, removed_rows
from binlog_streaming.modes.absent_columns import AbsentFacts
from binlog_streaming.modes.cascades import LEVELS_MAX, RowChanges
from binlog_streaming.modes.decoded_images import derived_row_batches
from binlog_streaming.modes.row_batches import RowBatch, StepImages
from binlog_streaming.tables.cascade_record import CascadeRecord
from binlog_streaming.tables.linked_table import HeldRows, LinkedTable, holding_mode, modes_in_order
from binlog_streaming.tables.rows_step import DerivedRows, RowsContent

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from binlog_format.kernels import Indices, Mask
    from binlog_streaming.lake.commit_id import CommitId
    from binlog_streaming.lake.target import Target
    from binlog_streaming.modes.row_batches import ChangePlace
    from binlog_streaming.modes.table_history import TableHistory
    from binlog_streaming.plan.cascade_links import Link, LinkedRowsStep
    from binlog_streaming.plan.job_state import SelectedTable
    from binlog_streaming.settings import Mode
    from binlog_streaming.tables.batch_run import BatchRun
    from binlog_streaming.tables.cascade_images import CascadeImages
    from binlog_streaming.tables.statements.log_facts import LogFacts

    Naming = Callable[[str, str], AbstractContextManager[None]]
    """Context in which errors name a table, and the source from which it is read."""


@dataclass(frozen=True)
class _Group:
    """Tables, what is to be written, and where what was derived is kept before that: with one table, nowhere."""

    contents: Mapping[TableName, RowsContent]
    record: CascadeRecord | None = None


@dataclass(frozen=True)
class CascadeRows:
    """The tables of a step, and where their rows are.

    Attributes:
        tables: Those that have targets.
        logged: What the log has of them, and of other parents.
        look: The target of a table in a mode.
        commit_id: Of a step, given its number and the place of its last change.
    """

    step: LinkedRowsStep
    tables: Mapping[TableName, SelectedTable]
    logged: CascadeImages
    facts: LogFacts
    run: BatchRun
    look: Callable[[SelectedTable, Mode], Target]
    commit_id: Callable[[SelectedTable, Mode, int, ChangePlace], CommitId]
    _derived: dict[TableName, RowChanges] = field(default_factory=dict)
    _linked: dict[TableName, LinkedTable] = field(default_factory=dict)
    _begun: set[TableName] = field(default_factory=set)

    def bring(self, write: Callable[[SelectedTable, Mode, int, RowsContent], None], naming: Naming) -> None:
        """Derive everything, then write it. *write*: writes the rows of a table to one of its targets."""
        for name in self.step.tables:  # what foreign keys make of a row begins with all of it
            StepImages(str(name), tuple(self.logged.row_batches.get(name, ()))).check_changes()
        groups = [self._group(names, naming) for names in reversed(self.step.groups)]
        for group in reversed(groups):
            contents, record = group.contents, group.record
            names = ", ".join(map(str, contents))
            if record is not None:
                with naming(names, record.uri):
                    derived = record.keep({name: self._derived.get(name) for name in contents})
                    contents = {
                        name: self._with(content, self._placed(derived[name])) for name, content in contents.items()
                    }
            for name, content in contents.items():
                if not (content.row_batches or content.derived):
                    continue
                for mode in modes_in_order(self.tables[name].rule):
                    write(self.tables[name], mode, self.step.number, content)
            if record is not None:
                with naming(names, record.uri):
                    record.remove()

    def _group(self, names: tuple[TableName, ...], naming: Naming) -> _Group:
        above = self._above(names) - {*names}
        # The step of a table goes as far as that of what may change it, whether or not it does: so a step that is
        # repeated has the same end, when what it did cannot be seen any more.
        sources = [row_batch for name in (*names, *above) for row_batch in self.logged.row_batches.get(name, ())]
        if not sources:
            return _Group({})
        last = max(row_batch.end() for row_batch in sources)
        contents = {name: self._logged_content(name, last) for name in names}
        is_circle = len(names) > 1
        is_begun = any(self._is_begun(name, content, is_circle=is_circle) for name, content in contents.items())
        self._begun.update(names if is_begun else ())
        done = {name: replace(content, is_done=True) for name, content in contents.items()}
        if above & self._begun:
            return _Group(done)  # whatever depends on these tables was written before them
        record = None
        if is_circle:
            record = CascadeRecord.of(self.run, self.step.number, names, self.logged.row_changes)
            with naming(", ".join(map(str, names)), record.uri):
                # After the look at the targets: a record that is gone then was removed when all held the step.
                kept = record.read(is_begun=is_begun)
            if kept is not None:
                placed = {name: self._placed(some) for name, some in kept.items()}
                self._derived.update({name: some for name, some in placed.items() if some is not None})
                return _Group(contents, record)
        if is_begun:
            return _Group(done)
        self._derive(names, naming)
        if record is None:
            contents = {name: self._with(content, self._derived.get(name)) for name, content in contents.items()}
        return _Group(contents, record)

    def _logged_content(self, name: TableName, last: ChangePlace) -> RowsContent:
        rule, row_batches = self.tables[name].rule, self.logged.row_batches[name]
        return RowsContent(str(name), row_batches, self.run.decoding, rule, self.facts, end=last)

    def _is_begun(self, name: TableName, content: RowsContent, *, is_circle: bool) -> bool:
        # Of one table the last of its targets tells that all hold the step. Of a circle any tells that there was a
        # record; all are looked at before that is, and what is derived is derived from these looks.
        table = self.tables[name]
        modes = modes_in_order(table.rule) if is_circle else [holding_mode(table.rule)]
        targets = [
            (self.look(table, mode), self.commit_id(table, mode, self.step.number, content.last)) for mode in modes
        ]
        return any(target.is_done(commit_id) for target, commit_id in targets)

    def _above(self, names: Sequence[TableName]) -> set[TableName]:
        found: set[TableName] = set()
        ahead = list(names)
        while ahead:
            child = ahead.pop()
            new = {link.key.parent for link in self.step.links if link.child == child} - found
            found |= new
            ahead += new
        return found

    def _derive(self, names: Sequence[TableName], naming: Naming) -> None:
        """Derive the changes of a group.

        What is done to rows of a table may be carried on to others of it, and of its circle: so again until nothing
        new comes. A change that is carried on so comes a level later than its cause, so it cannot be its own cause:
        what changes depend on comes before them, and there is one outcome that holds, whatever was taken for one
        before. As levels are limited it is reached.
        """
        is_circular = any({link.child, link.key.parent} <= {*names} for link in self.step.links)
        is_stable = False
        while not is_stable:
            is_stable = True
            for name in names:
                with naming(str(name), "foreign keys"):
                    changes = self._changes_in(name, names, checks_order=not is_circular)
                before = self._derived.pop(name, None)
                if changes:
                    self._derived[name] = changes
                is_same = before is not None and before.equals(changes) if changes else before is None
                is_stable &= is_same or not is_circular
        for name in names if is_circular else ():  # not before: on the way there are changes that do not stay
            with naming(str(name), "foreign keys"):
                self._changes_in(name, names, checks_order=True)
        for name in [name for name in names if name in self._derived]:
            changes = self._derived[name]
            if changes.is_too_deep:
                raise _too_deep(name)
            if is_circular:
                self._derived[name] = changes.in_one()

    def _changes_in(self, name: TableName, group: Sequence[TableName], *, checks_order: bool) -> RowChanges | None:
        links = [link for link in self.step.links if link.child == name]
        referenced = {
            column for link in self.step.links if link.key.parent == name for column in link.key.parent_columns
        }
        known = []
        for link in links:
            some = self._changes(link)
            if some is not None:
                known.append((link.key, some.a_level_later() if link.key.parent in group else some))
        return self._table(name).derived(known, referenced, checks_order=checks_order)

    def _placed(self, changes: RowChanges | None) -> RowChanges | None:
        """Changes of a record, with their origins."""
        return None if changes is None else replace(changes, origins=self.logged.images_at(changes.times))

    def _with(self, content: RowsContent, changes: RowChanges | None) -> RowsContent:
        """Rows of a table with what foreign keys do to them."""
        if changes is None:
            return content
        name, last = TableName.parse(content.source_table), content.last
        table, own = self._table(name), content.row_batches
        schema, unknown = changes.before.schema, self._computed(name, last)
        # Of a table without rows in the log nothing but its name is known.
        bare = TableLayout(*name, (), (), "", b"", self.logged.flat[0].layout.vendor)
        row_batches = derived_row_batches(
            changes,
            self.logged.flat,
            own[-1].layout if own else bare,
            frozenset(index for index, column in enumerate(schema.names) if column in unknown),
        )
        origins = tuple(str(self.logged.names[number]) for number, _ in row_batches)
        facts = AbsentFacts(generated=unknown, unchanged=frozenset(schema.names) - unknown)
        images = tuple(replace(row_batch, facts=facts) for _, row_batch in row_batches)
        derived = DerivedRows(schema, table.keys, images, origins)
        return replace(content, derived=derived)

    def _changes(self, link: Link) -> RowChanges | None:
        """Changes of the columns that a foreign key refers to."""
        parent = link.key.parent
        if parent not in self.logged.row_batches:
            return None
        derived = self._derived.get(parent)
        removed = self._removed(parent)
        numbers = self.logged.changes_of(parent, link, removed)
        if not len(numbers) and (derived is None or not len(derived)):
            return None
        history = self._table(parent).own_history
        columns = [history.column(name) for name in self._referenced(link)]
        found = [_logged_changes(history, columns, numbers, removed[numbers], self.logged.start(parent))]
        if derived is not None:
            within = derived.take(self.logged.is_within(derived.origins, link))
            found.append(within.selected(columns))
        return RowChanges.joined(found)

    def _removed(self, parent: TableName) -> Mask:
        """Mask of a table's images of rows that go, for foreign keys."""
        masks = [self._removed_in(parent, row_batch) for row_batch in self.logged.row_batches[parent]]
        return np.concatenate(masks) if masks else np.empty(0, np.bool_)

    def _removed_in(self, parent: TableName, row_batch: RowBatch) -> Mask:
        layout, images = row_batch.images.layout, row_batch.images
        if not possible_row_ends(layout).columns:
            return removed_rows(images, NO_ROW_ENDS)
        ends = row_ends(layout, self.facts.definition_at(parent, row_batch.end().position, layout))
        removed = removed_rows(images, ends)
        if not ends.is_certain and (removed & (images.table["kind"] == ImageKind.UPDATE_BEFORE)).any():
            raise UnsupportedError(
                "FOREIGN_KEY_CASCADE",
                f"{parent}: an UPDATE may be the DELETE of a row of a system-versioned table, which foreign keys carry "
                "on, and nothing states if the table is one",
                hint="Bring its definition: binlog-stream snapshot --definitions, or option source.schemaFile",
            )
        return removed

    def _table(self, name: TableName) -> LinkedTable:
        if name not in self._linked:
            table, held = self.tables.get(name), None
            if table is not None and name in self.step.tables:
                mode = holding_mode(table.rule)
                target = self.look(table, mode)
                held = HeldRows(target if target.properties() is not None else None, mode, table.rule)
            self._linked[name] = LinkedTable(name, self.logged, held, self.run.decoding, self.facts)
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

    def _computed(self, name: TableName, last: ChangePlace) -> frozenset[str]:
        # Columns that nobody knows after an update by a foreign key: virtual ones over columns that it changes.
        definition = self.facts.definition_at(name, last.position)
        if definition is not None and definition.versioned:
            raise UnsupportedError(
                "FOREIGN_KEY_CASCADE",
                f"{name}: foreign keys change rows of it, and it is system-versioned: what becomes of the rows of its "
                "history is not derived",
                hint='Leave it out (option source.excludeTables), or set foreign_keys = "ignore" for it',
            )
        if definition is None or definition.columns is None:
            return frozenset()
        changed = folded_names(column for link in self.step.links if link.child == name for column in link.key.columns)
        computed = [
            (column.name, completed.sources)
            for column, completed in zip(definition.columns, definition.completion().columns, strict=True)
            if column.generated not in (None, Generated.STORED)
        ]
        if self._table(name).has_absent:  # an update before may have changed what the column is over
            return frozenset(name for name, _ in computed)
        return frozenset(name for name, over in computed if over is None or folded_names(over) & changed)


def _logged_changes(
    history: TableHistory, columns: Sequence[int], numbers: Indices, deletes: Mask, start: int
) -> RowChanges:
    after = np.where(deletes, numbers, numbers + 1)
    before, later = (
        pa.Table.from_arrays([history.values(column, some) for column in columns], schema=history.part(columns))
        for some in (numbers, after)
    )
    return RowChanges(before, later, deletes, history.times[numbers], start + numbers, numbers)


def _too_deep(name: TableName) -> UnsupportedError:
    return UnsupportedError(
        "FOREIGN_KEY_CASCADE",
        f"{name}: foreign keys carry a change on at more than {LEVELS_MAX} levels, where InnoDB fails: the targets do "
        "not have the rows that the server has, or its foreign keys are other ones",
        hint='Take the table anew, or set foreign_keys = "ignore" for it',
    )
