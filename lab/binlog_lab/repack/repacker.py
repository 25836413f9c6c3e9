"""A real server's event groups as a live `.ibb` log: `Repacker`.

The way of a group: its events are copied once, without checksums; a group of a size that a server keeps in memory goes
into its commit record, a larger one out of band. A group that comes in several blocks is handed on block by block, so
memory is bounded by the block size, whatever a transaction weighs. How a repack goes on after it was killed is told in
`resume`.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from binlog_connector.following.watch import DirectoryWatch
from binlog_connector.schema.log_ddl import all_statements
from binlog_connector.schema.statement_rows import events_lost_error
from binlog_format.errors import CorruptError, StartError, UnsupportedError
from binlog_format.events.gtid_events import parse_xa_prepare_event
from binlog_format.events.gtid_layout import COMMIT_ID_STRUCT, GTID_BODY_SIZE_MIN
from binlog_format.events.layout import (
    EVENT_HEADER_SIZE,
    GTID_FLAG_COMPLETED_XA,
    GTID_FLAG_GROUP_COMMIT_ID,
    GTID_FLAG_PREPARED_XA,
    GTID_SIZE_MIN,
    EventType,
)
from binlog_format.events.query import parse_query
from binlog_format.gtids.gtid import Gtid, GtidPosition
from binlog_format.gtids.gtid_search import GtidSearch
from binlog_format.position import Place
from binlog_lab.event_encoding.event_encoding import query_with_text
from binlog_lab.event_encoding.gtid_events import XA_FLAGS, parse_gtid_event
from binlog_lab.innodb_writer.server import BinlogWriter
from binlog_lab.innodb_writer.sessions import Xid
from binlog_lab.repack.detach import detached_events, detached_format_description, detached_gtid_event
from binlog_lab.repack.resume import Item, ItemKind, mismatch, read_tail

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from threading import Event

    from numpy.typing import NDArray

    from binlog_format.block import Block
    from binlog_format.classic.reader import ClassicLog
    from binlog_format.events.gtid_events import XaName
    from binlog_format.position import Position
    from binlog_lab.event_encoding.gtid_events import GtidEvent
    from binlog_lab.innodb_writer.options import WriterOptions

CHECKPOINT_SECONDS = 0.2
"""Default time that a committed group may wait in memory for the rest of its page."""

_IDLE_WAIT_SECONDS = 1.0
"""Longest wait for the source; the watch ends it when something changes."""

_SESSION = 1
"""The writer's session for groups that come in pieces; there is only one at a time."""


@dataclass
class RepackProgress:
    """Progress of this run.

    Attributes:
        groups: Event groups written, XA PREPAREs and XA ROLLBACKs included.
        skipped: Of the source, because the target had them already.
        source_bytes: Of event groups read, without checksums.
        gtids: Last GTID of each domain written.
        position: In the source, of the next thing to read.
    """

    groups: int = 0
    skipped: int = 0
    source_bytes: int = 0
    gtids: GtidPosition = field(default_factory=lambda: GtidPosition({}))
    position: Position | None = None


class Repacker:
    """Writes the event groups of *source* to the `.ibb` log in *target*, going on where that ends; a context manager.

    Args:
        target: Directory of the `.ibb` log; made if it is not there.
        options: Sizes of the target's files and caches.
        checkpoint_seconds: A partial page is written out after so long, so that readers see what is in it.
        on_progress: Called now and then with `progress`.

    Raises:
        StartError: `GTID_NOT_FOUND` or `CONFLICTING_OPTIONS`: the target was not made from this source.
        CorruptError: The target is damaged.
    """

    def __init__(
        self,
        source: ClassicLog,
        target: Path,
        options: WriterOptions,
        *,
        checkpoint_seconds: float = CHECKPOINT_SECONDS,
        on_progress: Callable[[RepackProgress], None] | None = None,
    ) -> None:
        self.progress = RepackProgress()
        self._source = source
        self._target = target
        self._checkpoint_seconds = checkpoint_seconds
        self._on_progress = on_progress
        self._gtids: dict[int, Gtid] = {}
        self._open: _OpenGroup
        self._is_dirty = False
        self._checkpoint_due = 0.0
        start = source.start_position()
        self._writer = BinlogWriter(target, options, gtids=source.listed_gtids(start) or ())
        try:
            self._expected = deque(read_tail(target, options.page_size))
            self._position = self._resume_position(start)
        except BaseException:
            self._writer.close()
            raise
        # Of files up to this one the server start is in the target.
        is_resumed = bool(self._expected) and self._expected[0].kind is ItemKind.GROUP
        self._file_no = self._position.file_no if is_resumed else start.file_no - 1

    def __enter__(self) -> Repacker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Write everything that is still in memory, and close the target."""
        self._writer.close()

    def kill(self) -> None:
        """Close the target like a killed process: data in memory is lost."""
        self._writer.kill()

    def run(self, stop: Event, *, follow: bool) -> None:
        """Repack to the end of the source; with *follow*, until *stop* is set."""
        self._checkpoint_due = time.monotonic() + self._checkpoint_seconds
        if not follow:
            self._copy_all(stop)
            self._checkpoint(now=True)
            return
        with DirectoryWatch(self._source.directory_path) as watch:
            while not stop.is_set():
                self._copy_all(stop)
                self._checkpoint()
                wait = self._checkpoint_due - time.monotonic() if self._is_dirty else _IDLE_WAIT_SECONDS
                watch.wait(max(0.0, min(wait, _IDLE_WAIT_SECONDS)))
            self._checkpoint(now=True)

    def _copy_all(self, stop: Event) -> None:
        """Copy all that the source contains now."""
        for block in self._source.blocks(self._position):
            self._copy_block(block)
            self._position = block.next_position
            self.progress.position = block.next_position
            self.progress.gtids = GtidPosition(dict(self._gtids))
            self._checkpoint()
            if self._on_progress is not None:
                self._on_progress(self.progress)
            if stop.is_set():
                return

    def _checkpoint(self, *, now: bool = False) -> None:
        if self._is_dirty and (now or time.monotonic() >= self._checkpoint_due):
            self._writer.checkpoint()
            self._is_dirty = False
            self._checkpoint_due = time.monotonic() + self._checkpoint_seconds

    # --- one block -----------------------------------------------------------------------------------------------

    def _copy_block(self, block: Block) -> None:
        if not block.groups["has_gtid"].all():
            raise events_lost_error(next(one for _, _, one in all_statements(block) if one.gtid is None))
        data, places = detached_events(block)
        firsts = block.groups["first_event"]
        stops = firsts + block.groups["event_count"]
        self._start_files(int(block.groups["file_no"][0]))
        columns = ("domain", "server_id", "seqno", "gtid_flags", "begins", "ends")
        rows = zip(
            *(block.groups[name].tolist() for name in columns),
            places[firsts].tolist(),
            places[firsts + 1].tolist(),
            places[stops].tolist(),
            strict=True,
        )
        for row, (domain, server_id, seqno, flags, is_first, is_last, begin, second, end) in enumerate(rows):
            if is_first and is_last and not flags & XA_FLAGS:
                gtid = Gtid(domain, server_id, seqno)
                self._copy_group(gtid, _clean_gtid_event(data[begin:second], flags), data[second:end])
                continue
            if is_first:
                self._open = self._open_group(data[begin:second])
            first = int(firsts[row]) + is_first
            for part in self._parts(block, data, places, first, int(stops[row])):
                if not self._open.is_known:
                    self._writer.event(_SESSION, part)
            if is_last:
                self._end_group()
        self.progress.source_bytes += len(data)
        self._is_dirty = True

    def _start_files(self, file_no: int) -> None:
        """The Format_description events of server starts before the groups of file *file_no*."""
        while self._file_no < file_no:
            self._file_no += 1
            event = self._source.start_event(self._file_no)
            if event is not None:
                event = detached_format_description(event)
                if not self._is_known(Item(ItemKind.START, event)):
                    self._writer.raw_commit(event)

    def _copy_group(self, gtid: Gtid, gtid_event: bytes, events: bytes) -> None:
        """The usual case: a whole group at once."""
        if self._expected and self._is_known(Item(ItemKind.GROUP, gtid_event)):
            return
        self._writer.write_group(gtid, gtid_event, (events,))
        self._count(gtid)

    # --- groups in pieces, and XA --------------------------------------------------------------------------------

    def _open_group(self, event: bytes) -> _OpenGroup:
        parsed = parse_gtid_event(event)
        cleaned = detached_gtid_event(event)
        group = _OpenGroup(parsed, cleaned)
        if parsed.flags & GTID_FLAG_PREPARED_XA:
            group.is_known = self._is_known(Item(ItemKind.PREPARE, name=parsed.xa_name))
        elif not parsed.flags & GTID_FLAG_COMPLETED_XA:
            group.is_known = self._is_known(Item(ItemKind.GROUP, cleaned))
        if not group.is_known:
            self._writer.begin(_SESSION)
        return group

    def _parts(self, block: Block, data: bytes, places: NDArray[np.int64], first: int, end: int) -> Iterator[bytes]:
        """Events `[first, end)`, without those of XA; these are kept for the end of the group."""
        group = self._open
        if not group.event.flags & XA_FLAGS:
            yield data[places[first] : places[end]]
            return
        types = block.events["type"][first:end]
        start = int(places[first])
        for i in (first + np.flatnonzero((types == EventType.QUERY) | (types == EventType.XA_PREPARE))).tolist():
            event = data[places[i] : places[i + 1]]
            if group.take(event, int(block.events["type"][i])):
                if start < places[i]:
                    yield data[start : places[i]]
                start = int(places[i + 1])
        if start < places[end]:
            yield data[start : places[end]]

    def _end_group(self) -> None:
        group = self._open
        flags, gtid, name = group.event.flags, group.event.gtid, group.event.xa_name
        if flags & GTID_FLAG_COMPLETED_XA and name is not None:
            self._end_xa(group, name)
            return
        if group.is_known:
            return
        if flags & GTID_FLAG_PREPARED_XA and name is not None:
            self._writer.event(_SESSION, group.end_event())
            self._writer.xa_prepare(_SESSION, _xid(name))
        else:
            self._writer.commit(_SESSION, gtid, group.gtid_event)
        self._count(gtid, is_commit=not flags & GTID_FLAG_PREPARED_XA)

    def _end_xa(self, group: _OpenGroup, name: XaName) -> None:
        """XA COMMIT or XA ROLLBACK of what was prepared before."""
        self._writer.rollback(_SESSION)
        item = Item(ItemKind.ROLLBACK, name=name) if group.is_rollback else Item(ItemKind.GROUP, group.gtid_event)
        if self._is_known(item):
            return
        xid = _xid(name)
        if xid not in self._writer.prepared_xids():
            raise UnsupportedError(
                "XA_TRANSACTION",
                f"group {group.event.gtid} ends the XA transaction {name}, whose XA PREPARE is not in the log",
                at=Place(self._source.path),
                hint="Begin with the file that has its XA PREPARE, and an empty target",
            )
        if group.is_rollback:
            self._writer.xa_rollback(xid)
        else:
            self._writer.xa_commit(xid, group.event.gtid, group.gtid_event)
        self._count(group.event.gtid, is_commit=not group.is_rollback)

    # --- what the target has already -----------------------------------------------------------------------------

    def _resume_position(self, start: Position) -> Position:
        if not self._expected or self._expected[0].kind is not ItemKind.GROUP:
            return start
        gtid = parse_gtid_event(self._expected[0].event).gtid
        found = GtidSearch(self._source).find(gtid)
        if found is None:
            raise StartError(
                "GTID_NOT_FOUND",
                f"the log there ends with {gtid}, which is not in the source",
                at=Place(str(self._target)),
                hint="The source's files were purged, or it was another source; name an empty directory",
            )
        return found.position

    def _is_known(self, item: Item) -> bool:
        """True if the target has *item*; to be called once per item, in order."""
        if not self._expected:
            return False
        expected = self._expected.popleft()
        if expected != item:
            raise mismatch(self._target, expected, item)
        self.progress.skipped += 1
        return True

    def _count(self, gtid: Gtid, *, is_commit: bool = True) -> None:
        self.progress.groups += 1
        if is_commit:
            self._gtids[gtid.domain] = gtid


class _OpenGroup:
    """A group that does not come at once, or is of XA.

    Attributes:
        event: Its GTID event.
        gtid_event: The same without XA.
        is_known: The target has it.
        is_rollback: It is an XA ROLLBACK.
    """

    def __init__(self, event: GtidEvent, gtid_event: bytes) -> None:
        self.event = event
        self.gtid_event = gtid_event
        self.is_known = False
        self.is_rollback = False
        self._xa_end: bytes | None = None

    def take(self, event: bytes, event_type: int) -> bool:
        """True if *event* is about XA alone and does not go into an `.ibb` log."""
        if event_type == EventType.XA_PREPARE:
            _, is_one_phase = parse_xa_prepare_event(event)
            if is_one_phase:
                # MariaDB writes XA COMMIT ... ONE PHASE as an ordinary group, which ends with a Query event.
                raise UnsupportedError(
                    "XA_TRANSACTION", f"group {self.event.gtid} is committed by its XA_prepare event"
                )
            return True
        text = parse_query(event).text
        if text.startswith(b"XA END"):
            self._xa_end = event
        elif text.startswith(b"XA ROLLBACK"):
            self.is_rollback = True
        return text.startswith(b"XA ")

    def end_event(self) -> bytes:
        """The Query event COMMIT, in place of XA END and XA_PREPARE (docs/formats/innodb.md, "XA")."""
        if self._xa_end is None:
            raise CorruptError("BAD_EVENT", f"group {self.event.gtid} has an XA PREPARE, but no XA END")
        return query_with_text(self._xa_end, b"COMMIT")


def _clean_gtid_event(event: bytes, flags: int) -> bytes:
    """The GTID event for the target; most are right as they are, which their size and first spare byte tell."""
    if flags & GTID_FLAG_GROUP_COMMIT_ID:
        is_plain = len(event) == GTID_SIZE_MIN + COMMIT_ID_STRUCT.size
    else:
        is_plain = len(event) == EVENT_HEADER_SIZE + GTID_BODY_SIZE_MIN and event[GTID_SIZE_MIN] == 0
    return event if is_plain else detached_gtid_event(event)


def _xid(name: XaName) -> Xid:
    return Xid(name.format_id, name.gtrid, name.bqual)
