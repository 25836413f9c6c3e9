"""The log of a model server, whatever its format: `ServerLog`; `InnodbServerLog` writes `.ibb` files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

from binlog_format.gtids.gtid import Gtid
from binlog_lab.event_encoding.event_encoding import DDL_FLAGS, Origin, encode_format_description, encode_gtid
from binlog_lab.innodb_writer.files import find_files
from binlog_lab.innodb_writer.options import RedoSync, WriterOptions
from binlog_lab.innodb_writer.server import BinlogWriter

if TYPE_CHECKING:
    import random
    from pathlib import Path

SERVER_ID = 1


@dataclass(frozen=True, slots=True)
class Group:
    """A committed transaction, or a DDL statement.

    Attributes:
        number: Of its GTID; they count from 1 on.
        timestamp: Of its commit.
        events: Without GTID event; a transaction's end with XID.
        is_ddl: It is a statement that commits itself.
        spills: Places among the events at which an `.ibb` log writes what it has out of band.
    """

    number: int
    timestamp: int
    events: tuple[bytes, ...]
    is_ddl: bool = False
    spills: tuple[int, ...] = ()

    @property
    def origin(self) -> Origin:
        """Writer and time of its events."""
        return Origin(self.timestamp, SERVER_ID)


class ServerLog(ABC):
    """Files of a server.

    Attributes:
        folder: Where they are.
        last_in_file: Of each file that is there, the number of the last group up to its end.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.last_in_file: dict[int, int] = {}

    @property
    @abstractmethod
    def kind(self) -> str:
        """Format and vendor."""

    @abstractmethod
    def write(self, group: Group) -> None:
        """A group is committed."""

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
            chance: Decides what is lost.
            of_machine: The machine crashes, too.
            torn: A group that is being written; it was never committed.

        Returns:
            The number of the last group that is still there.
        """

    @abstractmethod
    def close(self) -> None:
        """Close all files."""


class InnodbServerLog(ServerLog):
    """See `ServerLog`.

    Args:
        folder: Of the files.
        timestamp: When the server starts.
        page_size: Of its files.
        is_synced: `innodb_flush_log_at_trx_commit = 1`; else a crash of the machine loses the last groups.
    """

    def __init__(self, folder: Path, timestamp: int, *, page_size: int, is_synced: bool) -> None:
        super().__init__(folder)
        self._page_size = page_size
        options = WriterOptions(
            page_size=page_size,
            max_binlog_size=6 * page_size,
            state_interval=page_size * 2,
            sync=False,
            redo_sync=RedoSync.COMMIT if is_synced else RedoSync.TIMER,
        )
        self._writer = BinlogWriter(folder, options, format_description=_description(timestamp))
        self._file_of: dict[int, int] = {}
        self._look()

    @property
    def kind(self) -> str:
        """See `ServerLog`."""
        return f"innodb, pages of {self._page_size}"

    def write(self, group: Group) -> None:
        """See `ServerLog`."""
        writer, gtid = self._writer, Gtid(0, SERVER_ID, group.number)
        flags = {"flags": DDL_FLAGS} if group.is_ddl else {}
        first = encode_gtid(gtid, group.timestamp, **flags)
        if group.spills:
            self._begin(group)
            node = writer.commit(1, gtid, first)
        else:
            node = writer.write_group(gtid, first, group.events)
        self._file_of[group.number] = node.file_no
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
        self._writer.restart(_description(timestamp))
        self._look()

    def purge(self, keep: int) -> list[int]:
        """See `ServerLog`."""
        gone = self._writer.purge(self._writer.position.file_no - keep + 1)
        self._look()
        return gone

    def crash(self, timestamp: int, chance: random.Random, *, of_machine: bool, torn: Group | None) -> int:
        """See `ServerLog`; without a loss of power the redo log is whole."""
        del chance  # the redo log decides
        if torn is not None and torn.spills:
            self._begin(torn)
        if not of_machine:
            self._writer.sync_redo()
        self._writer.crash(_description(timestamp))
        last = max((gtid.seqno for gtid in self._writer.gtids()), default=0)
        self._file_of = {number: file_no for number, file_no in self._file_of.items() if number <= last}
        self._look()
        return last

    def close(self) -> None:
        """See `ServerLog`."""
        self._writer.kill()

    def _begin(self, group: Group) -> None:
        self._writer.begin(1)
        for place, event in enumerate(group.events):
            if place in group.spills:
                self._writer.spill(1)
            self._writer.event(1, event)

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


def _description(timestamp: int) -> bytes:
    return encode_format_description("12.3.1-MariaDB-log", timestamp, Origin(timestamp, SERVER_ID))
