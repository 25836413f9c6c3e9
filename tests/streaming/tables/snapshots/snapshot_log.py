"""Snapshots as they are in a log: `ShopSnapshot` writes the marks and chunks of one."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from binlog_lab.event_encoding.table_encoding import TableSpec
from binlog_lab.simulator.snapshots.snapshot_life import MARKS, begin_detail, shadow_of

if TYPE_CHECKING:
    from collections.abc import Sequence

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
