"""The log of a model server, whatever its format: `ServerLog`; `InnodbServerLog` writes `.ibb` files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from binlog_format.gtids.gtid import Gtid
from binlog_lab.event_encoding.event_encoding import (
    DDL_FLAGS,
    Origin,
    encode_format_description,
    encode_gtid,
    encode_query,
)
from binlog_lab.innodb_writer.files import find_files
from binlog_lab.innodb_writer.options import RedoSync, WriterOptions
from binlog_lab.innodb_writer.server import BinlogWriter
from binlog_lab.innodb_writer.sessions import Xid

if TYPE_CHECKING:
    import random
    from pathlib import Path

SERVER_ID = 1
"""Id of the first server."""
XA_FORMAT = 1


@dataclass(slots=True)
class Terms:
    """Servers that were the primary one after the other, each with the number of its first group.

    Attributes:
        starts: Ids of servers, and numbers.
    """

    starts: list[tuple[int, int]] = field(default_factory=lambda: [(SERVER_ID, 1)])

    @property
    def server(self) -> int:
        """The primary."""
        return self.starts[-1][0]

    def begin(self, number: int) -> int:
        """Another server is the primary, from group *number* on; returns its id."""
        self.starts.append((self.server + 1, number))
        return self.server

    def cut(self, last: int) -> None:
        """Groups after *last* are lost; the primary writes others."""
        server, first = self.starts[-1]
        self.starts[-1] = server, min(first, last + 1)

    def up_to(self, last: int) -> list[tuple[int, int, int]]:
        """Servers that wrote groups up to *last*: id, number of the first group, and of the last one."""
        ends = [first - 1 for _, first in self.starts[1:]]
        parts = [
            (server, first, min(end, last)) for (server, first), end in zip(self.starts, [*ends, last], strict=True)
        ]
        return [part for part in parts if part[1] <= part[2]]

    def number_of(self, server: int, seqno: int) -> int:
        """Number of a group that a server has counted itself, from 1 on."""
        return dict(self.starts).get(server, 1) + seqno - 1


class SessionActKind(Enum):
    """Kind of what a session does before its transaction ends."""

    EVENT = "event"
    SPILL = "spill"
    """An `.ibb` log writes what it has out of band."""
    SAVEPOINT = "savepoint"
    ROLLBACK_TO = "rollback to savepoint"
    """The server cuts what came after the savepoint out of what it will log."""


@dataclass(frozen=True, slots=True)
class SessionAct:
    """One thing that a session does; a savepoint has a number in place of a name."""

    kind: SessionActKind = SessionActKind.EVENT
    event: bytes = b""
    savepoint: int = 0


class LoggedKind(Enum):
    """Kind of what is in the log at one place."""

    TRANSACTION = "transaction"
    STATEMENT = "statement"
    """A statement that commits itself."""
    XA_PREPARE = "XA PREPARE"
    XA_COMMIT = "XA COMMIT"
    XA_ROLLBACK = "XA ROLLBACK"


@dataclass(frozen=True, slots=True)
class Group:
    """An event group.

    Attributes:
        number: Of its GTID; they count from 1 on.
        acts: Of its session, without GTID event.
        xid: Number of its XA transaction; 0: it is of none.
        server: Id of the server that has executed it.
    """

    number: int
    timestamp: int
    acts: tuple[SessionAct, ...]
    kind: LoggedKind = LoggedKind.TRANSACTION
    xid: int = 0
    server: int = SERVER_ID

    @property
    def origin(self) -> Origin:
        """Writer and time of its events."""
        return Origin(self.timestamp, self.server)

    @property
    def events(self) -> tuple[bytes, ...]:
        """Its events, without those that the server has cut out."""
        events: list[bytes] = []
        places: dict[int, int] = {}
        for act in self.acts:
            if act.kind is SessionActKind.EVENT:
                events.append(act.event)
            elif act.kind is SessionActKind.SAVEPOINT:
                places[act.savepoint] = len(events)
            elif act.kind is SessionActKind.ROLLBACK_TO:
                del events[places[act.savepoint] :]
        return tuple(events)


class ServerLog(ABC):
    """Files of a server.

    Attributes:
        terms: Servers that wrote the groups.
        server: Id of the server whose files they are.
        last_in_file: Of each file that is there, the number of the last group up to its end.
        begun_in: Of each group with events out of band, the file from which on they are.
        page_size: Of its files; None: they have no pages.
    """

    page_size: int | None = None

    def __init__(self, folder: Path, terms: Terms) -> None:
        self.folder = folder
        self.terms = terms
        self.server = terms.server
        self.last_in_file: dict[int, int] = {}
        self.begun_in: dict[int, int] = {}

    @property
    @abstractmethod
    def kind(self) -> str:
        """Format and vendor."""

    @abstractmethod
    def write(self, group: Group) -> None:
        """A group is logged."""

    @property
    @abstractmethod
    def separates_xa(self) -> bool:
        """XA PREPARE and XA ROLLBACK are groups, with a number each."""

    @abstractmethod
    def prepared(self) -> frozenset[int]:
        """Numbers of the XA transactions that are prepared, as the log has them."""

    @abstractmethod
    def replica(self, folder: Path, timestamp: int, last: int) -> ServerLog:
        """The log of another server of that kind, the primary now, which begins after group *last*."""

    @abstractmethod
    def reset(self, timestamp: int) -> None:
        """RESET MASTER: the log begins anew. No XA transaction is prepared."""

    @abstractmethod
    def flush(self) -> None:
        """All that is committed gets into the files."""

    @abstractmethod
    def rotate(self, timestamp: int) -> None:
        """FLUSH BINARY LOGS."""

    @abstractmethod
    def restart(self, timestamp: int) -> None:
        """A shutdown and a start."""

    @abstractmethod
    def purge(self, keep: int) -> list[int]:
        """PURGE BINARY LOGS up to the last *keep* files; returns the numbers of those that went."""

    @abstractmethod
    def crash(self, timestamp: int, chance: random.Random, *, of_machine: bool, torn: Group | None) -> int:
        """The server crashes, and recovers.

        Args:
            timestamp: When it is there again.
            of_machine: The machine crashes, too.
            torn: A group that is being written; it was never committed.

        Returns:
            The number of the last group that is still there.
        """

    @abstractmethod
    def close(self) -> None:
        """Close all files."""


_FIRST_LSN = 50_000
"""LSN at which the first server's log begins."""


class InnodbServerLog(ServerLog):
    """See `ServerLog`.

    Args:
        is_synced: `innodb_flush_log_at_trx_commit = 1`; else a crash of the machine loses the last groups.
        last: Number of the last group before the first file.
    """

    def __init__(
        self, folder: Path, timestamp: int, terms: Terms, *, page_size: int, is_synced: bool, last: int = 0
    ) -> None:
        super().__init__(folder, terms)
        self.page_size: int = page_size
        self._is_synced = is_synced
        options = WriterOptions(
            page_size=page_size,
            max_binlog_size=6 * page_size,
            state_interval=page_size * 2,
            sync=False,
            lsn=_FIRST_LSN * terms.server,  # LSNs of two servers have nothing to do with each other
            redo_sync=RedoSync.COMMIT if is_synced else RedoSync.TIMER,
        )
        gtids = [Gtid(0, server, end) for server, _, end in terms.up_to(last)]
        self._writer = BinlogWriter(folder, options, format_description=self._description(timestamp), gtids=gtids)
        self._file_of: dict[int, int] = {}
        self._look()

    @property
    def kind(self) -> str:
        """See `ServerLog`."""
        return f"innodb, pages of {self.page_size}"

    @property
    def separates_xa(self) -> bool:
        """See `ServerLog`."""
        return False

    def write(self, group: Group) -> None:
        """See `ServerLog`."""
        writer, gtid = self._writer, Gtid(0, group.server, group.number)
        flags = {"flags": DDL_FLAGS} if group.kind is LoggedKind.STATEMENT else {}
        first = encode_gtid(gtid, group.timestamp, **flags)
        if group.kind is LoggedKind.XA_PREPARE:
            self._begin(group)
            writer.event(1, encode_query("COMMIT", group.origin))
            writer.xa_prepare(1, _xid(group.xid))
            self._look()
            return
        if group.kind is LoggedKind.XA_ROLLBACK:
            writer.xa_rollback(_xid(group.xid))
            self._look()
            return
        if group.kind is LoggedKind.XA_COMMIT:
            node = writer.xa_commit(_xid(group.xid), gtid, first)
        elif any(act.kind is not SessionActKind.EVENT for act in group.acts):
            self.begun_in[group.number] = writer.position.file_no
            self._begin(group)
            node = writer.commit(1, gtid, first)
        else:
            node = writer.write_group(gtid, first, group.events)
        self._file_of[group.number] = node.file_no
        self._look()

    def prepared(self) -> frozenset[int]:
        """See `ServerLog`."""
        return frozenset(int(xid.gtrid) for xid in self._writer.prepared_xids())

    def replica(self, folder: Path, timestamp: int, last: int) -> InnodbServerLog:
        """See `ServerLog`."""
        return InnodbServerLog(
            folder, timestamp, self.terms, page_size=self.page_size, is_synced=self._is_synced, last=last
        )

    def reset(self, timestamp: int) -> None:
        """See `ServerLog`."""
        self._writer.reset_master()
        self._writer.raw_commit(self._description(timestamp))
        self._file_of.clear()
        self.begun_in.clear()
        self._look()

    def flush(self) -> None:
        """See `ServerLog`."""
        self._writer.checkpoint()

    def rotate(self, timestamp: int) -> None:
        """See `ServerLog`."""
        del timestamp  # a file has none
        self._writer.flush_logs()
        self._look()

    def restart(self, timestamp: int) -> None:
        """See `ServerLog`."""
        self._writer.restart(self._description(timestamp))
        self._look()

    def purge(self, keep: int) -> list[int]:
        """See `ServerLog`."""
        gone = self._writer.purge(self._writer.position.file_no - keep + 1)
        self._look()
        return gone

    def crash(self, timestamp: int, chance: random.Random, *, of_machine: bool, torn: Group | None) -> int:
        """See `ServerLog`; without a loss of power the redo log is whole."""
        del chance  # the redo log decides
        if torn is not None and any(act.kind is SessionActKind.SPILL for act in torn.acts):
            self._begin(torn)
        if not of_machine:
            self._writer.sync_redo()
        self._writer.crash(self._description(timestamp))
        last = max((gtid.seqno for gtid in self._writer.gtids()), default=0)
        self._file_of = {number: file_no for number, file_no in self._file_of.items() if number <= last}
        self.begun_in = {number: file_no for number, file_no in self.begun_in.items() if number <= last}
        self._look()
        return last

    def close(self) -> None:
        """See `ServerLog`."""
        self._writer.kill()

    def _begin(self, group: Group) -> None:
        writer = self._writer
        writer.begin(1)
        for act in group.acts:
            if act.kind is SessionActKind.EVENT:
                writer.event(1, act.event)
            elif act.kind is SessionActKind.SPILL:
                writer.spill(1)
            elif act.kind is SessionActKind.SAVEPOINT:
                writer.savepoint(1, act.savepoint)
            else:
                writer.rollback_to(1, act.savepoint)

    def _description(self, timestamp: int) -> bytes:
        return encode_format_description("12.3.1-MariaDB-log", timestamp, Origin(timestamp, self.server))

    def _look(self) -> None:
        ends: dict[int, int] = {}
        for number, file_no in self._file_of.items():
            ends[file_no] = max(ends.get(file_no, 0), number)
        last = 0
        self.last_in_file = {}
        for file_no in sorted(find_files(self.folder)):
            before = max((number for number, at in self._file_of.items() if at < file_no), default=0)
            last = max(last, before, ends.get(file_no, 0))
            self.last_in_file[file_no] = last


def _xid(number: int) -> Xid:
    return Xid(XA_FORMAT, str(number).encode())
