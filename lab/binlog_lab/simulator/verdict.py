"""Comparison of a job's tables with those of its server: `TableVerdict`."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from binlog_lab.simulator.statements import DATABASE
from binlog_streaming.lake.sinks import sink_type
from binlog_streaming.settings import Mode
from binlog_streaming.settings.choices import OnStatement

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from binlog_lab.simulator.model_tables import ModelLake
    from binlog_lab.simulator.server import StateAfterGroup
    from binlog_lab.simulator.server_log import Terms
    from binlog_lab.simulator.statements import ModelTable
    from binlog_streaming.lake.target import TargetFactory
    from binlog_streaming.settings import Job

_STATEMENTS = ("truncate", "drop")

_HOLDS: Mapping[Mode, Callable[[dict[str, object]], bool]] = {
    Mode.MIRROR: lambda row: not row.get("_deleted"),
    Mode.SCD2: lambda row: bool(row["_is_current"]),
}
"""Tests, by modes: a row of a target is one that the table has now."""


class DefectError(Exception):
    """Something that must not be: what it is."""


def group_number(gtid: str, terms: Terms) -> int:
    """Number of the last group of GTIDs; 0: of none."""
    numbers = [0]
    for part in filter(None, gtid.split(",")):
        if ":" not in part:
            numbers.append(int(part.rpartition("-")[2]))
        else:
            uuid, _, seqnos = part.partition(":")
            seqno = int(re.split("[-:]", seqnos)[-1])
            numbers.append(terms.number_of(int(uuid[:2], 16), seqno))
    return max(numbers)


@dataclass(frozen=True, slots=True)
class TableVerdict:
    """See `check`.

    Attributes:
        lake: Where they are; None: they are Delta tables.
        terms: Servers that wrote the groups.
    """

    job: Job
    lake: ModelLake | None
    terms: Terms

    def check(self, history: Mapping[int, StateAfterGroup], taken: int, *, began_late: bool) -> None:
        """See that the tables are those after group *taken*.

        Args:
            began_late: The log had lost its beginning: tables may lack, but rows may not be wrong.
        """
        if taken not in history:
            raise DefectError(f"the job is at {taken}, the log that it sees ends at {max(history)}")
        state = history[taken]
        for name, table in sorted(state.tables.items()):
            self._check_rows(name, table, taken, began_late=began_late)
        for name, table in sorted(state.gone.items()):
            is_emptied = self.job.tables[0].on_drop is OnStatement.APPLY
            left = table.emptied() if is_emptied else table
            self._check_rows(name, left, taken, began_late=began_late, may_lack=began_late)
        if Mode.CHANGELOG in self.job.tables[0].modes and not began_late:  # it has no changes from before
            for name in sorted(state.tables.keys() | state.gone.keys()):
                self._check_changelog(name, history, taken)

    def _rows(self, name: str, mode: str, columns: set[str]) -> list[dict[str, object]] | None:
        """Columns of all rows of a target; None: there is no target."""
        factory: TargetFactory = sink_type(self.job.sink.format) if self.lake is None else self.lake
        target = factory.at(self.job.sink, f"{self.job.sink.directory}/{DATABASE}/{name}/{mode}")
        if target.properties() is None:
            return None
        held = target.read().read_all()
        missing = sorted(columns - set(held.column_names))
        if missing:
            raise DefectError(f"{name} ({mode}) lacks columns {missing}")
        rows: list[dict[str, object]] = held.to_pylist()
        return rows

    def _check_rows(
        self, name: str, table: ModelTable, taken: int, *, began_late: bool, may_lack: bool = False
    ) -> None:
        columns = [column.name for column in table.spec.columns]
        expected = sorted(table.rows.values(), key=repr)
        for mode, holds in _HOLDS.items():
            if mode not in self.job.tables[0].modes:
                continue
            rows = self._rows(name, mode, set(columns))
            if rows is None and began_late:
                continue
            found = sorted((tuple(row[column] for column in columns) for row in rows or () if holds(row)), key=repr)
            if found != expected:
                lacking = [row for row in expected if row not in found][:3]
                extra = [row for row in found if row not in expected][:3]
                if may_lack and not extra:
                    continue  # it is gone, and nothing refuses what is seen of such a table
                raise DefectError(
                    f"{name} ({mode}) at {taken} has {len(found)} rows, the server {len(expected)}: "
                    f"it lacks {lacking}, and has too many {extra}"
                )

    def _check_changelog(self, name: str, history: Mapping[int, StateAfterGroup], taken: int) -> None:
        """Each change is there once, in its group; values of other columns are looked at in the mirror."""
        expected: Counter[tuple[object, ...]] = Counter(
            (number, change.kind, *change.key)
            for number in range(1, taken + 1)
            for change in history[number].changes
            if change.table == name
        )
        found: Counter[tuple[object, ...]] = Counter()
        for row in self._rows(name, "changelog", {"_change_type", "_gtid"}) or ():
            if row["_change_type"] in _STATEMENTS:
                continue
            number = group_number(str(row["_gtid"]), self.terms)
            table = history[number].tables.get(name) if number in history else None
            key = () if table is None else (row.get(column) for column in table.spec.primary_key)
            found[number, row["_change_type"], *key] += 1
        if found != expected:
            raise DefectError(
                f"the changelog of {name} at {taken} lacks {list((expected - found).items())[:3]}, and has too often "
                f"{list((found - expected).items())[:3]}"
            )
