"""Earlier runs of the command on a server: `EarlierRuns`, read from the marks."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from binlog_format.views.filters import MARKS_TABLE, SNAPSHOT_DATABASE
from binlog_streaming.snapshot.marks import MarkKind, MarksTable
from binlog_streaming.snapshot.sql_text import table_sql

if TYPE_CHECKING:
    from binlog_streaming.server.session import ServerSession

RUN = "run"
"""Key in the detail of `begin`: UUID of the run of the command, which may be about many tables."""
TABLES_LEFT = "tables_left"
"""Key in the detail of `begin`: number of tables that the run had still to begin after this one."""


@dataclass(frozen=True, slots=True)
class _Begun:
    run: str | None
    tables_left: int
    snapshot: str
    source: tuple[str, str]


class EarlierRuns:
    """The runs whose marks a server has.

    A run was cut off if the snapshot that it began last has not ended, or if tables were left after that.
    """

    def __init__(self, session: ServerSession) -> None:
        self._last_of_run: dict[str, _Begun] = {}
        self._last_of_table: dict[tuple[str, str], _Begun] = {}
        self._ended: set[str] = set()
        self._cancelled: set[str] = set()
        if MarksTable(session).exists():
            self._read(session)

    def is_open(self, source: tuple[str, str]) -> bool:
        """True if the newest snapshot of a table has neither ended nor been cancelled."""
        begun = self._last_of_table.get(source)
        return begun is not None and begun.snapshot not in self._ended | self._cancelled

    def cut_run_that_took(self, source: tuple[str, str]) -> str | None:
        """The run that took all of a table and was cut off later; None: there is none."""
        begun = self._last_of_table.get(source)
        if begun is None or begun.run is None or begun.snapshot not in self._ended:
            return None
        last = self._last_of_run[begun.run]
        return begun.run if last.snapshot not in self._ended or last.tables_left else None

    @property
    def is_any_cut(self) -> bool:
        """True if a later run may continue with the work of these runs; also while one of them is under way."""
        return any(self.is_open(table) or self.cut_run_that_took(table) for table in self._last_of_table)

    def run_of(self, source: tuple[str, str]) -> str | None:
        """The run that began the newest snapshot of a table."""
        begun = self._last_of_table.get(source)
        return None if begun is None else begun.run

    def _read(self, session: ServerSession) -> None:
        rows = session.rows(
            "SELECT snapshot, kind, source_schema, source_table, detail"
            f" FROM {table_sql(SNAPSHOT_DATABASE, MARKS_TABLE)}"
            " WHERE kind IN ('begin', 'end', 'cancel') ORDER BY id"
        )
        for snapshot, kind, schema, table, detail in rows:
            if kind == MarkKind.END:
                self._ended.add(snapshot)
            elif kind == MarkKind.CANCEL:
                self._cancelled.add(snapshot)
            else:
                told = json.loads(detail)
                begun = _Begun(told.get(RUN), int(told.get(TABLES_LEFT, 0)), snapshot, (schema, table))
                self._last_of_table[begun.source] = begun
                if begun.run is not None:
                    self._last_of_run[begun.run] = begun
