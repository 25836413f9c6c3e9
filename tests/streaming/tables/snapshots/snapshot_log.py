"""Snapshots as they are in a log: `ShopSnapshot` writes the marks and chunks of one.

Batches of a job that remembers its tables, in memory: `SnapshotJob`.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from binlog_connector.schema.statement_rows import find_statement_rows
from binlog_format.position import Position
from binlog_format.rows.decoding import DEFAULT_DECODING, Decoding
from binlog_format.views.tables import TablesView
from binlog_lab.event_encoding.table_encoding import TableSpec
from binlog_lab.simulator.snapshots.snapshot_life import MARKS, begin_detail, shadow_of
from binlog_streaming.job_state.progress import BatchProgress
from binlog_streaming.job_state.record_keeper import RecordKeeper
from binlog_streaming.plan.cascades import CascadeLog
from binlog_streaming.plan.job_state import TableSelection
from binlog_streaming.plan.plan import plan_batch
from binlog_streaming.settings import Job, OnError, Sink, Source
from binlog_streaming.tables.apply import apply_component
from tests.streaming.tables.batches import run
from tests.streaming.tables.lake.memory_target import MemoryTargets

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from binlog_format.log.log import Log
    from binlog_streaming.plan.batch_plan import BatchPlan
    from binlog_streaming.settings import TableRule
    from tests.streaming.tables.batches import Range
    from tests.streaming.tables.shop import Row, ShopLog


def begin_late(log: ShopLog) -> None:
    """Let *log*, which is empty, begin after the first transactions of its server."""
    log.statement("CREATE DATABASE shop", database="")
    for _ in range(2):  # a file that may be in use stays
        log.flush()
    log.purge(before=1)


@dataclass
class ShopSnapshot:
    """A snapshot of a table, chunk by chunk.

    Attributes:
        purpose: `complete`, `resync` or `repair`.
        topics: The publisher that it is for; None: it is for tables.
        rows: How many rows these have.
    """

    log: ShopLog
    spec: TableSpec
    purpose: str = "complete"
    topics: str | None = None
    snapshot: str = field(default_factory=lambda: str(uuid.uuid4()))
    chunks: int = 0
    rows: int = 0

    @property
    def shadow(self) -> TableSpec:
        """The table that chunks are inserted into; it has no key."""
        return shadow_of(self.spec, self.snapshot)

    def begin(self) -> None:
        """The first mark; before it the shadow is made."""
        self.log.statement(self.shadow.create_statement(), database="")
        detail = begin_detail(self.spec, self.purpose)
        self._mark("begin", detail if self.topics is None else detail | {"topics": self.topics})

    def chunk(self, rows: Sequence[Row], *, said: int | None = None, spec: TableSpec | None = None) -> None:
        """An event group with existing rows.

        Args:
            rows: They, in any order.
            said: Number of rows in the mark, where it lies.
            spec: Columns of the shadow, where they are not those of the table.
        """
        count = len(rows) if said is None else said
        shadow = self.shadow if spec is None else TableSpec("binlog_stream", self.shadow.table, spec.columns)
        self._mark("chunk", {"from": [], "through": []} | self._for_topics, (shadow, rows), count)
        self.chunks += 1
        self.rows += count

    def end(self) -> None:
        """The last mark."""
        self._mark("end", {"chunks": self.chunks, "rows": self.rows} | self._for_topics)

    def cancel(self, reason: str = "") -> None:
        """A mark that no more chunks come."""
        self._mark("cancel", {"reason": reason} | self._for_topics)

    @property
    def _for_topics(self) -> dict[str, object]:
        return {} if self.topics is None else {"topics": self.topics, "key": list(self.spec.primary_key)}

    def take(self, *chunks: Sequence[Row]) -> None:
        """All of it."""
        self.begin()
        for rows in chunks:
            self.chunk(rows)
        self.end()

    def _mark(
        self, kind: str, detail: object, chunk: tuple[TableSpec, Sequence[Row]] | None = None, row_count: int = 0
    ) -> None:
        number = self.chunks if kind == "chunk" else -1
        names = (self.spec.database, self.spec.table, self.shadow.table)
        mark = (0, self.snapshot, kind, *names, number, row_count, json.dumps(detail))
        self.log.insert_all(*(() if chunk is None else (chunk,)), (MARKS, [mark]))


@dataclass
class SnapshotJob:
    """A job whose targets are in memory, and whose record is on disk.

    Attributes:
        folder: With the log in `log`.
        rules: `[[tables]]`.
        on_error: What becomes of tables that cannot go on.
        follows_keys: It carries on in its targets what foreign keys do.
    """

    folder: Path
    rules: tuple[TableRule, ...]
    on_error: OnError = OnError.STOP
    decoding: Decoding = DEFAULT_DECODING
    follows_keys: bool = False
    targets: MemoryTargets = field(default_factory=MemoryTargets)

    def __post_init__(self) -> None:
        job = Job(
            source=Source(path=str(self.folder / "log")),
            sink=Sink(directory=str(self.folder / "tables")),
            checkpoint=str(self.folder / "checkpoint"),
            tables=self.rules,
        )
        self.keeper = RecordKeeper(job)
        self.keeper.begin()
        self.cascade_log = CascadeLog(job) if self.follows_keys else None

    def plan(self, log: Log, batch: Range, batch_id: int) -> BatchPlan:
        """What a batch does."""
        view = TablesView(
            decoding=self.decoding,
            find_statements=find_statement_rows,
            counts_others=self.follows_keys,
            tells_problems=True,
        )
        rows = [row for found in view.batches(log.committed_blocks(*batch)) for row in found.to_pylist()]
        job_state = self.keeper.state_before(batch_id)
        selection = TableSelection(self.rules)
        return plan_batch(rows, self.decoding, selection, job_state, on_error=self.on_error, log=self.cascade_log)

    def write(self, log: Log, batch: Range, batch_id: int, *, is_noted: bool = True) -> None:
        """Do a batch; *is_noted*: the record is written after it."""
        planned = self.plan(log, batch, batch_id)
        of_all = run(self.folder / "tables", batch_id, planned.end or Position(0, 0, 0))
        of_all = replace(of_all, decoding=self.decoding, on_error=self.on_error, cascade_log=self.cascade_log)
        tables = [
            one for component in planned.components for one in apply_component(of_all, component, log, self.targets)
        ]
        if is_noted:
            self.keeper.saw_batch(BatchProgress(batch_id, tuple(tables), 0.0, 0.0, None, planned.state_change))
