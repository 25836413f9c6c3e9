"""Known bugs, put into the product one by one: a simulator that does not find them is no simulator."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from binlog_connector.following.decision import Decision
from binlog_connector.following.log_end import end_of_log
from binlog_connector.following.resume import compare
from binlog_connector.following.starts import advance
from binlog_connector.kafka.producer import ProducerSettings
from binlog_connector.kafka.publisher import Publisher, open_producer
from binlog_connector.kafka.registry import SchemaRegistry
from binlog_connector.schema.snapshot_marks import CopiedTables
from binlog_connector.spark import stream_reader
from binlog_connector.spark.partitions import plan_partitions
from binlog_format.classic import log_scan
from binlog_format.classic.file_scan import ClassicFileScan
from binlog_format.position import position_of
from binlog_format.source_file import FileEntry, LocalDirectory
from binlog_format.transactions.control_statements import GroupOutcome
from binlog_format.transactions.prepared import PreparedXaRows
from binlog_format.views.snapshot_events import SnapshotEvents
from binlog_lab.simulator.model_tables import ModelTarget
from binlog_lab.simulator.scheduler import ModelSession
from binlog_streaming.archive.archiver import Archiver
from binlog_streaming.event_tables import run as event_tables_run
from binlog_streaming.event_tables.run import EventBatch, EventTablesRun
from binlog_streaming.job_state.checkpoint import end_batch
from binlog_streaming.jobs import switch
from binlog_streaming.lake import folder_store
from binlog_streaming.lake.bucket_store import BucketStore
from binlog_streaming.lake.change import Change
from binlog_streaming.lake.delta.target import DeltaTarget
from binlog_streaming.lake.folder_store import FolderStore
from binlog_streaming.lake.key_lookup import KeyRuns
from binlog_streaming.lake.target import Target
from binlog_streaming.modes import mirror
from binlog_streaming.plan import plan
from binlog_streaming.plan.planning import statements_of
from binlog_streaming.topics.connecting import PublishedOffset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager


@contextmanager
def _replaced(place: Any, name: str, value: Any) -> Iterator[None]:
    before = place.__dict__[name]
    setattr(place, name, value)
    try:
        yield
    finally:
        setattr(place, name, before)


def _offset_before_the_commit() -> AbstractContextManager[None]:
    do_batch = ModelSession._do_batch

    def too_early(self: ModelSession, state: Any, query_id: str, reader: Any, number: int, *places: Any) -> Any:
        end_batch(state, number)
        return do_batch(self, state, query_id, reader, number, *places)

    return _replaced(ModelSession, "_do_batch", too_early)


class _Unsynced:
    """Stands in for `os`: nothing is forced to the disk."""

    def __getattr__(self, name: str) -> object:
        return getattr(os, name)

    def fsync(self, descriptor: int) -> None:
        """Not done."""


def _lost_fsync() -> AbstractContextManager[None]:
    return _replaced(folder_store, "os", _Unsynced())


def _names_not_forced() -> AbstractContextManager[None]:
    return _replaced(folder_store, "sync_folder", lambda _: None)


def _retried_commit_taken_for_new() -> AbstractContextManager[None]:
    return _replaced(Target, "is_done", lambda *_: False)


@contextmanager
def _last_step_not_looked_for() -> Iterator[None]:
    with _replaced(DeltaTarget, "applied", lambda *_: None), _replaced(ModelTarget, "applied", lambda *_: None):
        yield


def _state_written_in_place() -> AbstractContextManager[None]:
    def write(self: FolderStore, name: str, content: bytes) -> None:
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())

    return _replaced(FolderStore, "write", write)


def _purge_taken_for_the_end() -> AbstractContextManager[None]:
    def forgiving(watched: Any, offset: Any) -> Decision:
        decision = compare(watched, offset)
        is_purge = decision.loss is not None and "PURGED" in decision.loss.subclass
        return replace(decision, loss=None) if is_purge else decision

    return _replaced(stream_reader, "compare", forgiving)


def _rewritten_log_not_noticed() -> AbstractContextManager[None]:
    return _replaced(stream_reader, "compare", lambda _, offset: Decision(offset, "it is taken for granted"))


def _torn_tail_taken_for_an_event() -> AbstractContextManager[None]:
    def greedy(watched: Any, begin: Any, **limits: Any) -> Any:
        found = advance(watched, begin, **limits)
        position = found.offset.position
        size = watched.files.size_of(position.file_no)
        if watched.log.traits.is_indexed or size <= watched.files.byte_of(position):
            return found
        return found._replace(offset=replace(found.offset, position=position_of(position.file_no, size)))

    return _replaced(stream_reader, "advance", greedy)


def _rotation_skipped() -> AbstractContextManager[None]:
    def hasty(log: Any, start: Any, end: Any, **how: Any) -> Any:
        if end.file_no > start.file_no:
            start = type(start)(end.file_no, 0, 0)
        return plan_partitions(log, start, end, **how)

    return _replaced(stream_reader, "plan_partitions", hasty)


def _partition_left_out() -> AbstractContextManager[None]:
    def short(log: Any, start: Any, end: Any, **how: Any) -> Any:
        parts = plan_partitions(log, start, end, **how)
        return parts[:-1] if len(parts) > 1 else parts

    return _replaced(stream_reader, "plan_partitions", short)


def _stale_listing_trusted() -> AbstractContextManager[None]:
    entries = LocalDirectory.entries
    known: dict[tuple[str, int], list[FileEntry]] = {}

    def remembered(self: LocalDirectory) -> Any:
        key = self.path, sum(one.size for one in entries(self)) // 4096
        return known.setdefault(key, entries(self))

    return _replaced(LocalDirectory, "entries", remembered)


def _deletes_forgotten() -> AbstractContextManager[None]:
    def without_deletes(upserts: Any, deletes: Any, *, patches: Any = None, **_: Any) -> Change:
        return Change(upserts, deletes.slice(0, 0), patches=patches)

    return _replaced(mirror, "Change", without_deletes)


def _first_image_of_a_key_counts() -> AbstractContextManager[None]:
    ends = KeyRuns.ends

    def first_rows(self: KeyRuns) -> Any:
        first, _ = ends(self)
        return first, first

    return _replaced(KeyRuns, "ends", first_rows)


def _statements_out_of_order() -> AbstractContextManager[None]:
    return _replaced(plan, "statements_of", lambda rows: statements_of(rows)[1:])


def _rolled_back_rows_taken() -> AbstractContextManager[None]:
    return _replaced(GroupOutcome, "loses", lambda _, events: np.zeros(len(events), dtype=np.bool_))


def _prepared_rows_forgotten() -> AbstractContextManager[None]:
    return _replaced(PreparedXaRows, "take", lambda *_: iter(()))


def _checksums_not_looked_at() -> AbstractContextManager[None]:
    def credulous(file: Any, start: int, limit: int, scratch: Any, **_: bool) -> ClassicFileScan:
        return ClassicFileScan(file, start, limit, scratch, verify=False)

    return _replaced(log_scan, "ClassicFileScan", credulous)


def _switch_to_the_end() -> AbstractContextManager[None]:
    return _replaced(switch, "find_switch", lambda watched, *_, **__: end_of_log(watched))


def _offset_outside_of_the_transaction() -> AbstractContextManager[None]:
    attempt = Publisher._attempt

    def apart(self: Publisher, messages: Any, record: Any, topics: Any) -> None:
        alone = open_producer(self._connection, ProducerSettings())
        alone.send(self._store.messages(record))
        alone.flush()
        attempt(self, messages, record, topics)

    return _replaced(Publisher, "_attempt", apart)


def _lost_reply_taken_for_not_committed() -> AbstractContextManager[None]:
    is_committed = Publisher._is_committed

    def never(self: Publisher, record: Any) -> bool:
        is_committed(self, record)
        return False

    return _replaced(Publisher, "_is_committed", never)


def _other_publisher_not_noticed() -> AbstractContextManager[None]:
    return _replaced(Publisher, "_check_alone", lambda *_: None)


def _total_order_begins_anew() -> AbstractContextManager[None]:
    return _replaced(
        PublishedOffset, "followed_by", lambda before, offset: PublishedOffset(offset, before.files_before)
    )


def _gaps_not_named() -> AbstractContextManager[None]:
    return _replaced(event_tables_run, "write_gaps", lambda *_: None)


def _begun_events_taken_for_done() -> AbstractContextManager[None]:
    return _replaced(EventTablesRun, "_begun_batch", lambda _, __, end: EventBatch((), end, None))


def _archive_goes_on_after_a_gap() -> AbstractContextManager[None]:
    def careless(self: Archiver, names: dict[int, str]) -> dict[int, str]:
        first = next((file.file_no for file in self.files if not file.is_sealed), 0)
        return {number: name for number, name in names.items() if number >= first}

    return _replaced(Archiver, "_pending", careless)


def _archive_trusts_a_stale_listing() -> AbstractContextManager[None]:
    return _replaced(Archiver, "_span_over_end", lambda *_: None)


def _own_object_taken_for_another_writers() -> AbstractContextManager[None]:
    exchange = BucketStore.exchange

    def hasty(self: BucketStore, name: str, before: bytes | None, content: bytes) -> bool:
        with _replaced(BucketStore, "read", lambda *_: b""):  # what is there when a request was refused
            return exchange(self, name, before, content)

    return _replaced(BucketStore, "exchange", hasty)


def _copied_rows_forgotten() -> AbstractContextManager[None]:
    take = SnapshotEvents.take

    def without_rows(self: SnapshotEvents, block: Any, resolved: Any) -> Any:
        shadows, others = take(self, block, resolved)
        return shadows[1:], others

    return _replaced(SnapshotEvents, "take", without_rows)


def _rows_for_topics_forgotten() -> AbstractContextManager[None]:
    return _replaced(CopiedTables, "enter", lambda *_: None)


def _first_schema_taken_for_all() -> AbstractContextManager[None]:
    id_of = SchemaRegistry.id_of

    def hasty(self: SchemaRegistry, subject: str, schema: str) -> int:
        known = [number for (name, _), number in self._ids.items() if name == subject]
        return known[0] if known else id_of(self, subject, schema)

    return _replaced(SchemaRegistry, "id_of", hasty)


CANARIES: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "an offset before the commit": _offset_before_the_commit,
    "a lost fsync": _lost_fsync,
    "names that are not forced to the disk": _names_not_forced,
    "a retried commit taken for new": _retried_commit_taken_for_new,
    "the last step of a table not looked for": _last_step_not_looked_for,
    "state written in place": _state_written_in_place,
    "a purge taken for the end": _purge_taken_for_the_end,
    "a rewritten log not noticed": _rewritten_log_not_noticed,
    "a torn tail taken for an event": _torn_tail_taken_for_an_event,
    "a rotation skipped": _rotation_skipped,
    "a partition left out": _partition_left_out,
    "a stale listing trusted": _stale_listing_trusted,
    "deletes forgotten": _deletes_forgotten,
    "the first image of a key counts": _first_image_of_a_key_counts,
    "a statement forgotten": _statements_out_of_order,
    "rows taken that were rolled back": _rolled_back_rows_taken,
    "rows of a prepared transaction forgotten": _prepared_rows_forgotten,
    "checksums not looked at": _checksums_not_looked_at,
    "a switch to the end of the other log": _switch_to_the_end,
    "an offset outside of the transaction of Kafka": _offset_outside_of_the_transaction,
    "a lost reply of a broker taken for not committed": _lost_reply_taken_for_not_committed,
    "another publisher not noticed": _other_publisher_not_noticed,
    "a total order that begins anew after a switch": _total_order_begins_anew,
    "an archive that goes on after a gap": _archive_goes_on_after_a_gap,
    "an archive that trusts a stale listing": _archive_trusts_a_stale_listing,
    "an own object taken for another writer's": _own_object_taken_for_another_writers,
    "rows of a snapshot forgotten": _copied_rows_forgotten,
    "rows of a snapshot for topics forgotten": _rows_for_topics_forgotten,
    "a first schema taken for all": _first_schema_taken_for_all,
    "a gap of events that nobody names": _gaps_not_named,
    "events of a batch that was begun taken for done": _begun_events_taken_for_done,
}
"""Each makes the product wrong while it is entered."""
