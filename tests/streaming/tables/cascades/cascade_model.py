"""What InnoDB does to tables that foreign keys link, in its plainest form: `LinkedTables`; `MemoryJob` follows it."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from binlog_connector.crash_points import watched
from binlog_connector.schema.statement_rows import find_statement_rows
from binlog_format import open_log
from binlog_format.rows.decoding import DEFAULT_DECODING
from binlog_format.views.filters import TableFilter
from binlog_format.views.tables import TablesView
from binlog_lab.event_encoding.table_encoding import ColumnSpec, TableSpec
from binlog_streaming.plan.cascades import CascadeLog
from binlog_streaming.plan.job_state import JobState, TableSelection
from binlog_streaming.plan.plan import plan_batch
from binlog_streaming.settings import Job
from binlog_streaming.tables.apply import apply_component
from binlog_streaming.tables.batch_run import BatchRun
from tests.faults.processes import Cut, CutOff
from tests.streaming.tables.batches import cut
from tests.streaming.tables.lake.memory_target import MemoryTargets

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tests.streaming.tables.shop import ShopLog

    Row = dict[str, int | None]

CASCADE, SET_NULL = "CASCADE", "SET NULL"


@dataclass(frozen=True)
class Key:
    """A foreign key: columns of *child* refer to columns of *parent*; actions are empty where there is none."""

    child: str
    columns: tuple[str, ...]
    parent: str
    parent_columns: tuple[str, ...]
    on_delete: str = ""
    on_update: str = ""

    @property
    def sql(self) -> str:
        """As a statement has it."""
        actions = "".join(
            f" ON {event} {action}"
            for event, action in (("DELETE", self.on_delete), ("UPDATE", self.on_update))
            if action
        )
        columns, others = ", ".join(self.columns), ", ".join(self.parent_columns)
        return f"FOREIGN KEY ({columns}) REFERENCES {self.parent} ({others}){actions}"


@dataclass
class LinkedTables:
    """Tables of integers, the first column of each its key; every change goes to the log, without what follows of it.

    Attributes:
        columns: By table.
    """

    log: ShopLog
    columns: Mapping[str, tuple[str, ...]]
    keys: Sequence[Key]
    rows: dict[str, dict[int, Row]] = field(default_factory=dict)

    def create(self) -> None:
        """Make the tables."""
        for name, columns in self.columns.items():
            self.rows[name] = {}
            parts = [f"{columns[0]} INT PRIMARY KEY", *(f"{column} INT" for column in columns[1:])]
            parts += [key.sql for key in self.keys if key.child == name]
            self.log.statement(f"CREATE TABLE {name} ({', '.join(parts)})")

    def insert(self, table: str, row: Row) -> None:
        """One row; its key is not there."""
        self.rows[table][self._id(table, row)] = row
        self.log.insert(self.spec(table), tuple(row.values()))

    def delete(self, table: str, key: int) -> None:
        """One row."""
        row = self.rows[table].pop(key)
        self.log.delete(self.spec(table), tuple(row.values()))
        self._carry_on(table, row, None)

    def update(self, table: str, key: int, **values: int | None) -> None:
        """One row; its new key is not there."""
        before = self.rows[table].pop(key)
        after = before | values
        self.rows[table][self._id(table, after)] = after
        self.log.update(self.spec(table), (tuple(before.values()), tuple(after.values())))
        self._carry_on(table, before, after)

    def truncate(self, table: str) -> None:
        """All rows; no foreign key may lead to the table."""
        self.rows[table].clear()
        self.log.statement(f"TRUNCATE {table}")

    def _carry_on(self, table: str, before: Row, after: Row | None) -> None:
        for key in (key for key in self.keys if key.parent == table):
            old = [before[column] for column in key.parent_columns]
            new = None if after is None else [after[column] for column in key.parent_columns]
            action = key.on_delete if new is None else key.on_update
            if old == new or None in old or not action:
                continue
            for number in list(self.rows[key.child]):
                row = self.rows[key.child].get(number, {})
                if [row.get(column) for column in key.columns] == old:
                    self._act(key, number, action, new)

    def _act(self, key: Key, number: int, action: str, new: list[int | None] | None) -> None:
        before = self.rows[key.child].pop(number)
        if action == CASCADE and new is None:
            self._carry_on(key.child, before, None)
            return
        values = new if action == CASCADE and new is not None else [None] * len(key.columns)
        after = before | dict(zip(key.columns, values, strict=True))
        self.rows[key.child][self._id(key.child, after)] = after
        self._carry_on(key.child, before, after)

    def _id(self, table: str, row: Row) -> int:
        number = row[self.columns[table][0]]
        assert number is not None
        return number

    def spec(self, table: str) -> TableSpec:
        """A table's columns, as the log has them."""
        first, *others = self.columns[table]
        columns = (ColumnSpec(first, "int"), *(ColumnSpec(name, "int", nullable=True) for name in others))
        return TableSpec("shop", table, columns, (first,))


class MemoryJob:
    """A job whose targets are in memory.

    Args:
        folder: Its log is in `log` there.
        rules: As `[[tables]]` has them.
    """

    def __init__(self, folder: Path, *rules: Mapping[str, object]) -> None:
        self.directory = Path(tempfile.mkdtemp(dir=folder))
        sections = {
            "source": {"path": str(folder / "log")},
            "sink": {"directory": str(self.directory)},
            "checkpoint": str(folder / "checkpoint"),
            "tables": list(rules),
        }
        self._job = msgspec.convert(sections, Job)
        self.targets = MemoryTargets()

    def run(self, batches: int, cuts: Sequence[int] = (), cut_off: Callable[[int], CutOff] = CutOff) -> int:
        """Take the log in so many batches, each cut off at these steps and done again; how many cuts there were."""
        job_state, done = JobState(), 0
        source = self._job.source
        selection = TableSelection(self._job.tables, source.exclude_tables)
        wanted = TableFilter(",".join(rule.select for rule in self._job.tables))
        with open_log(source.path) as log:
            for number, (start, end) in enumerate(cut(log, batches)):
                view = TablesView(tables=wanted, find_statements=find_statement_rows, counts_others=True)
                rows = [row for found in view.batches(log.committed_blocks(start, end)) for row in found.to_pylist()]
                plan = plan_batch(rows, DEFAULT_DECODING, selection, job_state, log=CascadeLog(self._job))
                job_state = replace(job_state, scope=plan.state_change.scope)
                if plan.end is None:
                    continue
                run = BatchRun("q-1", number, self._job.sink, plan.end, cascade_log=CascadeLog(self._job))
                for component in plan.components:
                    for left in cuts:
                        try:
                            with watched(cut_off(left)):
                                apply_component(run, component, log, self.targets)
                        except Cut:
                            done += 1
                    apply_component(run, component, log, self.targets)
        return done

    def rows(self, place: str) -> list[dict[str, object]]:
        """What a target has; none where it is not there."""
        table = self.targets.tables.get(place)
        return [] if table is None else table.rows
