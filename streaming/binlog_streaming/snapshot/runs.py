"""Earlier runs of the command on a server: `EarlierRuns`, read from the marks."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from binlog_connector.schema.snapshot_marks import TOPICS
from binlog_format.views.filters import MARKS_TABLE, SNAPSHOT_DATABASE
from binlog_streaming.snapshot.marks import MarkKind, MarksTable
from binlog_streaming.snapshot.sql_text import table_sql

if TYPE_CHECKING:
    from binlog_streaming.server.session import ServerSession

RUN = "run"
"""Key in the detail of `begin`: UUID of the run of the command, which may be about many tables."""
TABLES_LEFT = "tables_left"
"""Key in the detail of `begin`: number of tables that the run had still to begin after this one."""

FILTER = "filter"
"""Key in the detail of `begin`: condition for the rows that the snapshot takes; missing: all."""


@dataclass(frozen=True, slots=True)
class _Begun:
    run: str | None
    topics: str | None
    row_filter: str | None
    tables_left: int
    snapshot: str
    source: tuple[str, str]


class EarlierRuns:
    """The runs whose marks a server has.

    A run was cut off if the snapshot that it began last has not ended, or if tables were left after that.

    Args:
        topics: The publisher for whose topics tables are asked for; None: a job with tables asks.
        row_filter: Condition for the rows that are asked for; None: all.
    """

    def __init__(self, session: ServerSession, topics: str | None = None, row_filter: str | None = None) -> None:
        self._asked = topics, row_filter
        self._last_of_run: dict[str, _Begun] = {}
        self._last_of_table: dict[tuple[str, str], _Begun] = {}
        self._ended: set[str] = set()
        self._cancelled: set[str] = set()
        if MarksTable(session).exists():
            self._read(session)

    def is_open(self, source: tuple[str, str]) -> bool:
        """True if the newest snapshot of a table has neither ended nor been cancelled."""
        begun = self._last_of(source)
        return begun is not None and begun.snapshot not in self._ended | self._cancelled

    def cut_run_that_took(self, source: tuple[str, str]) -> str | None:
        """The run that took all of a table and was cut off later; None: there is none."""
        begun = self._last_of(source)
        return begun.run if begun is not None and self._was_cut(begun) else None

    @property
    def is_any_cut(self) -> bool:
        """True if a later run may continue with the work of these runs, whoever asks; also while one is under way."""
        return any(
            begun.snapshot not in self._ended | self._cancelled or self._was_cut(begun)
            for begun in self._last_of_table.values()
        )

    def run_of(self, source: tuple[str, str]) -> str | None:
        """The run that began the newest snapshot of a table."""
        begun = self._last_of(source)
        return None if begun is None else begun.run

    def _last_of(self, source: tuple[str, str]) -> _Begun | None:
        begun = self._last_of_table.get(source)
        return None if begun is None or (begun.topics, begun.row_filter) != self._asked else begun

    def _was_cut(self, begun: _Begun) -> bool:
        """True if the run that took all of a table was cut off later."""
        if begun.run is None or begun.snapshot not in self._ended:
            return False
        last = self._last_of_run[begun.run]
        return last.snapshot not in self._ended or last.tables_left > 0

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
                left = int(told.get(TABLES_LEFT, 0))
                begun = _Begun(told.get(RUN), told.get(TOPICS), told.get(FILTER), left, snapshot, (schema, table))
                self._last_of_table[begun.source] = begun
                if begun.run is not None:
                    self._last_of_run[begun.run] = begun
