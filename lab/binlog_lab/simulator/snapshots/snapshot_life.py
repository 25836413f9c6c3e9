"""The life of a server that is older than its log: `SnapshotLife`; the job's tables, or topics, get snapshots.

`ModelSnapshots` are these snapshots, as the command writes them into the log of a model server.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from dataclasses import dataclass, field, replace
from random import Random
from typing import TYPE_CHECKING

from binlog_connector.schema.snapshot_marks import KEY, TOPICS
from binlog_format.views.filters import MARKS_TABLE, SNAPSHOT_DATABASE
from binlog_lab.event_encoding.table_encoding import ColumnSpec, TableSpec
from binlog_lab.simulator.life import Life
from binlog_lab.simulator.script import Act
from binlog_lab.simulator.settings import SNAPSHOT_TOPICS_SHARE, TOPIC_PREFIX
from binlog_lab.simulator.statements import RowChange
from binlog_lab.simulator.topics.lived_topics import LivedTopicsJob

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from binlog_lab.event_encoding.value_encoding import Value
    from binlog_lab.simulator.lived_job import LivedTablesJob
    from binlog_lab.simulator.script import LifeStep, Script
    from binlog_lab.simulator.server import ModelServer, StateAfterGroup
    from binlog_lab.simulator.statements import Row


_FIRST_TRANSACTIONS = 4
_STEPS_MAX = 200
"""Steps in which snapshots of all tables end, once nothing else happens."""


class SnapshotLife(Life):
    """A life in which the log begins after the tables have rows; nothing takes groups back.

    Tables get what is missing in them by snapshots; topics get the rows that there are as messages of their own.
    """

    def __init__(self, script: Script, folder: Path) -> None:
        super().__init__(script, folder)
        self.outcome.kind = f"{self._lived.kind}, with snapshots"
        has_topics = isinstance(self._lived, LivedTopicsJob)
        self._snapshots = ModelSnapshots(self._server, TOPIC_PREFIX if has_topics else None)

    def _new_job(self, chance: Random) -> LivedTablesJob | LivedTopicsJob:
        if Random(f"topics with snapshots {self.script.seed}").random() < SNAPSHOT_TOPICS_SHARE:
            return self._new_topics_job(chance)
        lived = self._new_tables_job(chance)
        lived.begin_with_snapshots()
        return lived

    def _begin(self) -> None:
        chance = self.script.chance
        for number in range(chance.choice((1, 2, 3))):
            self._tell(f"server: {self._server.create(number)}")
        for _ in range(_FIRST_TRANSACTIONS):
            self._tell(f"server: {self._server.last}: {self._server.transaction(chance)}")
        for _ in range(3):  # files that a crash may change stay
            self._server.rotate()
        self._tell(f"server: purges files {self._server.purge(1)}")
        self._reasons.began_at = self._server.purged_to
        super()._begin()

    def _of_server(self, step: LifeStep) -> str:
        if step.act is not Act.SNAPSHOT:
            return super()._of_server(step)
        chance = step.chance
        if self._snapshots.publisher is not None:
            self.outcome.reached.add("snapshot for topics")
        return "; ".join(self._snapshots.step(chance) for _ in range(chance.choice((1, 2, 4))))

    def _catch_up(self) -> None:
        chance, told = Random(self.script.seed), ""
        for _ in range(_STEPS_MAX):
            if told == "no table is left":
                break
            told = self._snapshots.step(chance)
            if told == "rows are locked":
                self._server.xa(chance)
        self._tell(f"server: snapshots end, the last group is {self._server.last}")
        super()._catch_up()

    def _expected(self) -> Mapping[int, StateAfterGroup]:
        if self._snapshots.publisher is not None:  # of groups before the log nobody gets changes
            began_at = self._reasons.began_at
            return {
                number: state if number > began_at else replace(state, changes=())
                for number, state in self._truth.items()
            }
        ended = self._snapshots.ended
        return {
            number: replace(state, tables={name: state.tables[name] for name in ended if number >= ended[name]})
            for number, state in self._truth.items()
        }


MARKS = TableSpec(
    SNAPSHOT_DATABASE,
    MARKS_TABLE,
    (
        ColumnSpec("id", "bigint unsigned"),
        ColumnSpec("snapshot", "char(36)"),
        ColumnSpec("kind", "varchar(16)"),
        ColumnSpec("source_schema", "varchar(64)"),
        ColumnSpec("source_table", "varchar(64)"),
        ColumnSpec("shadow", "varchar(64)"),
        ColumnSpec("chunk", "bigint"),
        ColumnSpec("row_count", "bigint"),
        ColumnSpec("detail", "text"),
    ),
    ("id",),
)
_CHUNK_SIZES = (2, 5, 50)
_RESTARTS = 0.1
"""Share of the steps of a snapshot in which its table is begun anew."""


def shadow_of(spec: TableSpec, snapshot: str) -> TableSpec:
    """The table that the chunks of a snapshot are inserted into; it has no key."""
    text = f"{spec.full_name}.{snapshot}"
    return TableSpec(SNAPSHOT_DATABASE, f"s_{hashlib.sha256(text.encode()).hexdigest()[:16]}", spec.columns)


def begin_detail(spec: TableSpec, purpose: str) -> dict[str, object]:
    """The detail of a snapshot's first mark."""
    columns = [
        [column.name, column.sql_type, "utf8mb4_general_ci" if column.codec.is_text else None]
        for column in spec.columns
    ]
    return {"purpose": purpose, "columns": columns, "key": list(spec.primary_key)}


@dataclass(slots=True)
class _Snapshot:
    """A snapshot that has not ended. *after*: the last key that is taken."""

    spec: TableSpec
    uuid: str
    after: str | None = None
    chunks: int = 0
    rows: int = 0


@dataclass(slots=True)
class ModelSnapshots:
    """Snapshots of a server's tables, one after the other.

    Attributes:
        publisher: For whose topics rows are copied; None: they are for tables.
        ended: Of each table whose snapshot has ended, the number of the last group of it.
    """

    server: ModelServer
    publisher: str | None = None
    ended: dict[str, int] = field(default_factory=dict)
    _begun: _Snapshot | None = None
    _marks: int = 0

    def step(self, chance: Random) -> str:
        """Go on by a mark or a chunk; tells what was done."""
        begun = self._begun
        if begun is None:
            left = sorted(self.server.free() - self.ended.keys())
            return self._begin(self.server.tables[chance.choice(left)].spec) if left else "no table is left"
        table = self.server.tables[begun.spec.table]
        if table.spec.columns != begun.spec.columns or chance.random() < _RESTARTS:
            self._mark(begun, "cancel", {"reason": ""})
            return self._begin(table.spec)
        if begun.spec.table not in self.server.free():
            return "rows are locked"
        return self._chunk(begun, chance.choice(_CHUNK_SIZES))

    def _begin(self, spec: TableSpec) -> str:
        begun = self._begun = _Snapshot(spec, str(uuid.uuid4()))
        self.server.elsewhere(shadow_of(spec, begun.uuid).create_statement())
        self._mark(begun, "begin", begin_detail(spec, "complete") | self._for_topics())
        return f"snapshot of {spec.table} begins"

    def _chunk(self, begun: _Snapshot, size: int) -> str:
        rows = self.server.tables[begun.spec.table].rows
        left = [key for key in sorted(rows, key=repr) if begun.after is None or repr(key) > begun.after]
        taken = left[:size]
        detail = {"from": [], "through": []} | self._for_topics(key=begun.spec.primary_key)
        self._mark(begun, "chunk", detail, {key: rows[key] for key in taken})
        if len(taken) < len(left):
            begun.after = repr(taken[-1])
            return f"snapshot of {begun.spec.table}: {len(taken)} rows"
        self._mark(begun, "end", {"chunks": begun.chunks, "rows": begun.rows})
        if self.server.tables[begun.spec.table].spec is begun.spec:
            self.ended[begun.spec.table] = self.server.last
        # Else it was altered and altered back between two chunks, which the command does not see, and the job does.
        self._begun = None
        self.server.elsewhere(f"DROP TABLE IF EXISTS {shadow_of(begun.spec, begun.uuid).full_name}")
        return f"snapshot of {begun.spec.table} ends, {begun.rows} rows"

    def _for_topics(self, key: Sequence[str] | None = None) -> dict[str, object]:
        if self.publisher is None:
            return {}
        return {TOPICS: self.publisher} | ({} if key is None else {KEY: list(key)})

    def _mark(
        self,
        begun: _Snapshot,
        kind: str,
        detail: dict[str, object],
        rows: Mapping[tuple[Value, ...], Row] | None = None,
    ) -> None:
        self._marks += 1
        shadow = shadow_of(begun.spec, begun.uuid)
        names = begun.spec.database, begun.spec.table, shadow.table
        number, count = (begun.chunks, len(rows)) if rows is not None else (-1, 0)
        mark: Row = (self._marks, begun.uuid, kind, *names, number, count, json.dumps(detail))
        chunk = [(shadow, list(rows.values()))] if rows else []
        copies = [RowChange(begun.spec.table, "copy", key) for key in rows or ()]
        self.server.insert_elsewhere(*chunk, (MARKS, [mark]), copies=copies)
        if rows is not None:
            begun.chunks, begun.rows = begun.chunks + 1, begun.rows + count
