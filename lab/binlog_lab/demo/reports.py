"""Reports of the demo's processes, a line of JSON each: `WriterReport`, `DemoJobReport`, `DemoPublishReport`."""

from __future__ import annotations

import msgspec


class AlterationReport(msgspec.Struct, frozen=True, kw_only=True):
    """An ALTER TABLE that is in the log since *at* (seconds since 1970 UTC); *brief* tells it in a few words."""

    at: float
    statement: str
    brief: str


class WriterReport(msgspec.Struct, frozen=True, kw_only=True):
    """Progress of the log.

    Attributes:
        changes: Row changes committed so far, by `database.table`.
        is_done: Nothing more is written, and the expected rows are there.
    """

    changes: dict[str, int]
    last_gtid: str
    alterations: tuple[AlterationReport, ...] = ()
    is_done: bool = False


class DemoTargetReport(msgspec.Struct, frozen=True, kw_only=True):
    """Result of one target in a batch; `binlog-stream run` reports the same, and more."""

    table: str
    mode: str
    outcome: str
    inserts: int = 0
    updates: int = 0
    deletes: int = 0

    @property
    def changes(self) -> int:
        """Row changes in the log."""
        return self.inserts + self.updates + self.deletes


class DemoJobReport(msgspec.Struct, frozen=True, kw_only=True):
    """A line of `binlog-stream run --output jsonl`.

    Attributes:
        event: `started`, `batch`, `ended` or `stopped`; all that follows is of a batch.
        seconds: Time that it took.
        lag_seconds: From the commit of its last change to the tables; None where no table was touched.
        bytes_behind: Bytes of the log after it.
        finished_at: Seconds since 1970 UTC.
        tables: One for each target.
    """

    event: str
    batch_id: int = -1
    changes: int = 0
    seconds: float = 0.0
    lag_seconds: float | None = None
    bytes_behind: int | None = None
    finished_at: float = 0.0
    tables: tuple[DemoTargetReport, ...] = ()

    def changes_by_table(self) -> dict[str, int]:
        """Row changes by `database.table`, counted once where a table has several modes."""
        by_target: dict[tuple[str, str], int] = {}
        for target in self.tables:
            by_target[target.table, target.mode] = by_target.get((target.table, target.mode), 0) + target.changes
        counts: dict[str, int] = {}
        for (table, _), changes in by_target.items():
            counts[table] = max(changes, counts.get(table, 0))
        return counts


class DemoPublishReport(msgspec.Struct, frozen=True, kw_only=True):
    """A line of `binlog-stream publish --output jsonl`.

    Attributes:
        event: `started`, `published`, `ended` or `stopped`.
        messages: By topic, of what was published; at the end all that the process has published.
    """

    event: str
    messages: dict[str, int] | int = 0
    kafka_transactions: int = 0
