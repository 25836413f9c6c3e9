"""Counts of a job for its state: `TableTallies` by table, `MinuteTallies` by minute."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from binlog_connector.metrics.lag import known_time
from binlog_connector.schema.definitions import TableName
from binlog_streaming.status.model import MINUTES_MAX, Minute, SnapshotStatus, TableStatus
from binlog_streaming.status.wording import without_access

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from binlog_streaming.job_state.progress import BatchProgress
    from binlog_streaming.job_state.record import JobRecord
    from binlog_streaming.status.model import BatchStatus
    from binlog_streaming.topics.record import TopicSnapshot


@dataclass(frozen=True, slots=True)
class KnownTables:
    """Tables in a job's record, for looking up."""

    record: JobRecord
    waiting: Collection[TableName] = ()

    def added_to(self, tables: dict[str, TableStatus], gtid: str) -> dict[str, TableStatus]:
        """*tables* with what the record has of each; those that it alone has come too."""
        record = self.record
        complete = dict.fromkeys(record.complete, True) | dict.fromkeys(record.incomplete, False)
        aside = {table.name: table for table in record.set_aside}
        snapshots = {table.name: table for table in record.snapshots}
        names = {TableName(*name) for name in (*record.tables, *complete)} | aside.keys() | snapshots.keys()
        names |= set(self.waiting) | {TableName.parse(name) for name in tables}
        added = {}
        for name in sorted(names):
            stopped, snapshot = aside.get(name), snapshots.get(name)
            known = tables.get(str(name), TableStatus(str(name)))
            added[str(name)] = replace(
                known,
                gtid=gtid if stopped is None else "",
                stopped_before="" if stopped is None else stopped.gtid or stopped.position,
                is_complete=complete.get(name),
                verified_through=self._proved(name, len(known.modes)),
                waits_for_snapshot=name in self.waiting,
                set_aside=None if stopped is None else stopped.reason,
                snapshot=None
                if snapshot is None
                else SnapshotStatus(
                    snapshot.rows, snapshot.chunks, snapshot.begun_gtid, snapshot.is_ended, snapshot.problem
                ),
            )
        return added

    def _proved(self, name: TableName, modes: int) -> str | None:
        """GTIDs up to which all targets of a table were proved, by the oldest of the proofs; None: not all were."""
        proofs = [proof for proof in self.record.verified if (proof.database, proof.table) == name]
        return min(proofs, key=lambda proof: proof.commit_time).gtids if proofs and len(proofs) >= modes else None


class TableTallies:
    """Counts by table, or by topic.

    Attributes:
        bytes_per_row: `TableProgress.bytes_per_row` of the last batches, the largest one of a table's targets.
    """

    def __init__(self, tables: Iterable[TableStatus]) -> None:
        self.bytes_per_row: dict[str, float] = {}
        self._tables = {table.name: table for table in tables}

    def take_batch(self, batch: BatchProgress, through: str = "") -> None:
        """Count what a batch did; *through*: the GTIDs of it."""
        by_name: dict[str, list[int]] = {}
        for number, target in enumerate(batch.tables):
            by_name.setdefault(target.source_table, []).append(number)
        for name, numbers in by_name.items():
            targets = [batch.tables[number] for number in numbers]
            known = self._tables.get(name, TableStatus(name))
            written = {without_access(target.target): str(target.mode) for target in targets}
            places = dict(zip(known.targets, known.modes, strict=True)) | written
            commit_time = known_time(max(target.commit_time for target in targets))
            proved = sum(target.proved for target in targets)
            missing = sum(target.missing for target in targets)
            costs = [target.bytes_per_row for target in targets if target.bytes_per_row is not None]
            self.bytes_per_row |= {name: max(costs)} if costs else {}
            has_statements = any(target.schema_changes for target in targets)
            self._tables[name] = replace(
                known,
                targets=tuple(places),
                modes=tuple(places.values()),
                changes=known.changes + targets[0].changes,
                last_commit=commit_time or known.last_commit,
                last_batch=batch.batch_id,
                schema_changed_at=batch.finished_at if has_statements else known.schema_changed_at,
                schema_changed_in=batch.batch_id if has_statements else known.schema_changed_in,
                proved=known.proved + proved,
                proved_through=through if proved else known.proved_through,
                proved_since=known.proved_since or (through if proved and not known.proved else ""),
                missing=known.missing + missing,
                missing_in=batch.batch_id if missing else known.missing_in,
            )

        if batch.defined is not None:
            for name, known in self._tables.items():
                definition = "known" if TableName.parse(name) in batch.defined else "partial"
                self._tables[name] = replace(known, definition=definition)

    @property
    def proved(self) -> dict[str, int]:
        """Number of rows that changes proved, by table, of those that have any."""
        return {name: table.proved for name, table in self._tables.items() if table.proved}

    def take_topic(self, topic: str, records: int, number: int, commit_time: int | None) -> None:
        """Count messages of a topic."""
        known = self._tables.get(topic, TableStatus(topic))
        self._tables[topic] = replace(
            known,
            changes=known.changes + records,
            last_commit=known_time(commit_time) or known.last_commit,
            last_batch=number,
        )

    def take_snapshot(self, mark: TopicSnapshot) -> None:
        """Note what a mark tells of a snapshot for a topic."""
        known = self._tables.get(mark.topic, TableStatus(mark.topic))
        snapshot = known.snapshot
        if mark.kind == "begin" or snapshot is None:
            snapshot = SnapshotStatus(0, 0, mark.gtid, is_ended=False, problem=None)
        chunks = snapshot.chunks if mark.chunks is None else mark.chunks
        snapshot = replace(snapshot, chunks=chunks, is_ended=mark.kind == "end", problem=mark.reason)
        self._tables[mark.topic] = replace(known, snapshot=snapshot)

    def take_copied(self, topic: str, rows: int) -> None:
        """Count messages about rows that a snapshot has copied for a topic."""
        known = self._tables.get(topic, TableStatus(topic))
        snapshot = known.snapshot or SnapshotStatus(0, 0, None, is_ended=False, problem=None)
        self._tables[topic] = replace(known, snapshot=replace(snapshot, rows=snapshot.rows + rows))

    def tables(self, known: KnownTables | None, gtid: str) -> tuple[TableStatus, ...]:
        """All of them, by name; *gtid* is what the job has reached."""
        tables = {name: replace(table, gtid=gtid) for name, table in sorted(self._tables.items())}
        return tuple((tables if known is None else known.added_to(tables, gtid)).values())


class MinuteTallies:
    """Counts by minute, of the last hour."""

    def __init__(self, minutes: Iterable[Minute]) -> None:
        self._minutes = deque(minutes, maxlen=MINUTES_MAX)

    def take(self, batch: BatchStatus) -> None:
        """Count a batch."""
        start = int(batch.finished_at) // 60 * 60
        is_new = not self._minutes or self._minutes[-1].start != start
        before = Minute(start, 0, 0, None) if is_new else self._minutes.pop()
        lags = [lag for lag in (before.lag_seconds, batch.lag_seconds) if lag is not None]
        counted = Minute(
            start, before.changes + batch.changes, before.size + (batch.size or 0), max(lags, default=None)
        )
        self._minutes.append(counted)

    def minutes(self, now: float) -> tuple[Minute, ...]:
        """The minutes of the last hour."""
        return tuple(minute for minute in self._minutes if minute.start > now - 60 * MINUTES_MAX)
