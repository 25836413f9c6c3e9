"""Classic binlog files as both vendors' servers write them: `ClassicServerLog`."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from binlog_format.classic.layout import CHECKSUM_STRUCT, EVENT_FLAG_IN_USE, MAGIC, ChecksumAlgorithm
from binlog_format.events.gtid_events import XaName
from binlog_format.events.gtid_layout import (
    GTID_LIST_COUNT_STRUCT,
    GTID_LIST_ENTRY_STRUCT,
    INTERVAL_COUNT_STRUCT,
    INTERVAL_STRUCT,
    PREVIOUS_GTIDS_COUNT_STRUCT,
    XA_PREPARE_STRUCT,
)
from binlog_format.events.layout import (
    EVENT_CHECKSUM_SIZE,
    EVENT_FLAGS_OFFSET,
    EVENT_HEADER_SIZE,
    EVENT_SIZE_OFFSET,
    GTID_FLAG_COMPLETED_XA,
    GTID_FLAG_PREPARED_XA,
    GTID_FLAG_STANDALONE,
    EventType,
)
from binlog_format.gtids.gtid import Gtid
from binlog_format.transactions.xa import XaId
from binlog_lab.event_encoding.encoding_layout import (
    GTID_EVENT_FLAGS,
    MYSQL_GTID_TAIL_STRUCT,
    MYSQL_LOGICAL_CLOCK,
    MYSQL_ROWS_EXTRA,
    ROTATE_STRUCT,
    SIZE_AND_PLACE_STRUCT,
)
from binlog_lab.event_encoding.event_encoding import (
    DDL_FLAGS,
    TRANSACTION_FLAGS,
    Origin,
    encode_event,
    encode_format_description,
    encode_gtid,
    encode_query,
)
from binlog_lab.event_encoding.gtid_events import GtidEvent, encode_gtid_event
from binlog_lab.simulator.server_log import XA_FORMAT, Group, LoggedKind, ServerLog

if TYPE_CHECKING:
    import random
    from pathlib import Path

    from binlog_lab.simulator.server_log import Terms

BASE = "server-bin"
_ALGORITHM_OFFSET = -EVENT_CHECKSUM_SIZE - 1
_V2_TYPES = {
    EventType.WRITE_ROWS_V1: EventType.WRITE_ROWS_V2,
    EventType.UPDATE_ROWS_V1: EventType.UPDATE_ROWS_V2,
    EventType.DELETE_ROWS_V1: EventType.DELETE_ROWS_V2,
}
_ROWS_FIXED = EVENT_HEADER_SIZE + 8


class ClassicServerLog(ServerLog):
    """See `ServerLog`.

    Args:
        is_synced: `sync_binlog = 1`; else a crash of the machine loses the last groups.
        last: Number of the last group before the first file.
    """

    def __init__(
        self, folder: Path, timestamp: int, terms: Terms, *, is_mysql: bool, is_synced: bool, last: int = 0
    ) -> None:
        super().__init__(folder, terms)
        self.is_mysql = is_mysql
        self._is_synced = is_synced
        self._number = 0
        self._last = self._before = last
        self._safe: tuple[int, int] = (0, 0)  # file and byte that a crash of the machine leaves
        self._ends: list[tuple[int, int, int]] = []  # file and byte after each group, and its number
        self._prepared: dict[int, int] = {}  # number of the group that prepared an XA transaction
        self._decided: dict[int, int] = {}  # number of the group that committed it, or rolled it back
        folder.mkdir(parents=True)
        self._begin_file(timestamp, is_start=True)

    @property
    def kind(self) -> str:
        """See `ServerLog`."""
        return "classic, MySQL" if self.is_mysql else "classic, MariaDB"

    @property
    def separates_xa(self) -> bool:
        """See `ServerLog`."""
        return True

    def prepared(self) -> frozenset[int]:
        """See `ServerLog`."""
        return frozenset(self._prepared.keys() - self._decided.keys())

    def replica(self, folder: Path, timestamp: int, last: int) -> ClassicServerLog:
        """See `ServerLog`."""
        return ClassicServerLog(
            folder, timestamp, self.terms, is_mysql=self.is_mysql, is_synced=self._is_synced, last=last
        )

    def reset(self, timestamp: int) -> None:
        """See `ServerLog`."""
        for number in self.last_in_file:
            self._path(number).unlink()
        self.last_in_file.clear()
        self._ends.clear()
        self._prepared.clear()
        self._decided.clear()
        self._number = self._last = self._before = 0
        self._begin_file(timestamp, is_start=True)

    def write(self, group: Group) -> None:
        """See `ServerLog`."""
        self._append(b"".join(self._placed(self._events(group))))
        self._last = group.number
        self._ends.append((self._number, self._size, group.number))
        self.last_in_file[self._number] = group.number
        if group.kind is LoggedKind.XA_PREPARE:
            self._prepared[group.xid] = group.number
        elif group.xid:
            self._decided[group.xid] = group.number
        if self._is_synced:
            self._safe = self._number, self._size

    def flush(self) -> None:
        """See `ServerLog`: what is written can be seen at once."""

    def rotate(self, timestamp: int) -> None:
        """See `ServerLog`."""
        body = ROTATE_STRUCT.pack(len(MAGIC)) + self._name(self._number + 1).encode()
        self._close(encode_event(EventType.ROTATE, body, Origin(timestamp, self.server)))
        self._begin_file(timestamp, is_start=False)

    def restart(self, timestamp: int) -> None:
        """See `ServerLog`."""
        self._close(encode_event(EventType.STOP, b"", Origin(timestamp, self.server)))
        self._begin_file(timestamp, is_start=True)

    def purge(self, keep: int) -> list[int]:
        """See `ServerLog`."""
        gone = sorted(self.last_in_file)[:-keep]
        for number in gone:
            self._path(number).unlink()
            del self.last_in_file[number]
        return gone

    def crash(self, timestamp: int, chance: random.Random, *, of_machine: bool, torn: Group | None) -> int:
        """See `ServerLog`."""
        if torn is not None:
            whole = b"".join(self._placed(self._events(torn)))
            self._append(whole[: chance.randrange(len(whole))])
        if of_machine:
            self._lose_tail(chance)
        if self.is_mysql and self._is_in_use():  # it cuts such a file back when it recovers
            self._cut(self._number, self._end_of_groups())
        self._begin_file(timestamp, is_start=True)
        for numbers in (self._prepared, self._decided):
            for xid in [xid for xid, number in numbers.items() if number > self._last]:
                del numbers[xid]
        return self._last

    def close(self) -> None:
        """See `ServerLog`: nothing is open."""

    def _lose_tail(self, chance: random.Random) -> None:
        numbers = [number for number in sorted(self.last_in_file) if number >= max(self._safe[0], 1)]
        places = [(number, self._path(number).stat().st_size) for number in numbers]
        number, size = chance.choice(places) if places else (self._number, self._size)
        least = self._safe[1] if number == self._safe[0] else self._heads[number]
        end = number, chance.randint(min(least, size), size)
        for later in [one for one in sorted(self.last_in_file) if one > number]:
            self._path(later).unlink()
            del self.last_in_file[later]
        self._cut(*end)
        self._number = number
        self._ends = [one for one in self._ends if one[:2] <= end]
        self._last = self._ends[-1][2] if self._ends else self._before
        self.last_in_file[number] = max((one[2] for one in self._ends if one[0] <= number), default=self._before)

    def _is_in_use(self) -> bool:
        return bool(self._path(self._number).read_bytes()[len(MAGIC) + EVENT_FLAGS_OFFSET] & EVENT_FLAG_IN_USE)

    def _end_of_groups(self) -> int:
        ends = [byte for number, byte, _ in self._ends if number == self._number]
        return max([self._heads[self._number], *ends])

    def _cut(self, number: int, size: int) -> None:
        path = self._path(number)
        if path.stat().st_size > size:
            with path.open("r+b") as file:
                file.truncate(size)
        self._size = path.stat().st_size

    # --- files ---------------------------------------------------------------------------------------------------

    _heads: dict[int, int]

    def _name(self, number: int) -> str:
        return f"{BASE}.{number:06}"

    def _path(self, number: int) -> Path:
        return self.folder / self._name(number)

    def _begin_file(self, timestamp: int, *, is_start: bool) -> None:
        if self._number == 0:
            self._heads = {}
        self._number += 1
        self._size = 0
        origin = Origin(timestamp, self.server)
        version = "9.7.4" if self.is_mysql else "10.11.19-MariaDB-log"
        event = bytearray(encode_format_description(version, timestamp if is_start else 0, origin))
        event[_ALGORITHM_OFFSET] = ChecksumAlgorithm.CRC32
        first = self._with_checksum(bytes(event[:-EVENT_CHECKSUM_SIZE]), len(MAGIC))
        in_use = bytearray(first)  # its checksum is computed without the flag
        in_use[EVENT_FLAGS_OFFSET] |= EVENT_FLAG_IN_USE
        before = self._gtids_before(origin)
        head = MAGIC + bytes(in_use) + self._with_checksum(before, len(MAGIC) + len(in_use))
        self._append(head)
        self._heads[self._number] = len(head)
        self.last_in_file[self._number] = self._last
        if self._is_synced:
            self._safe = self._number, self._size

    def _close(self, event: bytes) -> None:
        self._append(self._with_checksum(event, self._size))
        with self._path(self._number).open("r+b") as file:
            file.seek(len(MAGIC) + EVENT_FLAGS_OFFSET)
            file.write(b"\0")
        self._safe = self._number, self._size

    def _append(self, data: bytes) -> None:
        with self._path(self._number).open("ab") as file:
            file.write(data)
        self._size += len(data)

    # --- events --------------------------------------------------------------------------------------------------

    def _gtids_before(self, origin: Origin) -> bytes:
        if not self.is_mysql:
            entries = [(0, server, last) for server, _, last in self.terms.up_to(self._last)]
            body = GTID_LIST_COUNT_STRUCT.pack(len(entries))
            body += b"".join(GTID_LIST_ENTRY_STRUCT.pack(*entry) for entry in entries)
            return encode_event(EventType.MARIADB_GTID_LIST, body, origin)
        parts = self.terms.up_to(self._last)
        body = PREVIOUS_GTIDS_COUNT_STRUCT.pack(len(parts))
        for server, first, last in parts:
            body += uuid_of(server) + INTERVAL_COUNT_STRUCT.pack(1) + INTERVAL_STRUCT.pack(1, last - first + 2)
        return encode_event(EventType.PREVIOUS_GTIDS, body, origin)

    def _events(self, group: Group) -> list[bytes]:
        name = XaId(str(group.xid).encode(), b"", XA_FORMAT)
        events = group.events
        if group.kind is LoggedKind.XA_PREPARE:
            events = (*events, encode_query(f"XA END {name}", group.origin), _xa_prepare(group))
        elif group.xid:
            events = (encode_query(f"{group.kind.value} {name}", group.origin),)
        if not self.is_mysql:
            return [_mariadb_gtid(group), *events]
        number = group.number
        seqno = number - dict(self.terms.starts)[group.server] + 1
        clock = MYSQL_GTID_TAIL_STRUCT.pack(seqno, MYSQL_LOGICAL_CLOCK, number - 1, number)
        fixed = b"\0" + uuid_of(group.server) + clock
        first = encode_event(EventType.GTID, fixed, group.origin)
        begin = {LoggedKind.TRANSACTION: "BEGIN", LoggedKind.XA_PREPARE: f"XA START {name}"}.get(group.kind)
        begins = [] if begin is None else [encode_query(begin, group.origin)]
        return [first, *begins, *map(_of_mysql, events)]

    def _placed(self, events: list[bytes]) -> list[bytes]:
        place, placed = self._size, []
        for event in events:
            placed.append(self._with_checksum(event, place))
            place += len(placed[-1])
        return placed

    def _with_checksum(self, event: bytes, place: int) -> bytes:
        size = len(event) + EVENT_CHECKSUM_SIZE
        head = event[:EVENT_SIZE_OFFSET] + SIZE_AND_PLACE_STRUCT.pack(size, place + size)
        covered = head + event[len(head) :]
        return covered + CHECKSUM_STRUCT.pack(zlib.crc32(covered))


def uuid_of(server: int) -> bytes:
    """UUID of a MySQL server."""
    return bytes((server, *range(2, 17)))


def _mariadb_gtid(group: Group) -> bytes:
    gtid = Gtid(0, group.server, group.number)
    if not group.xid:
        flags = DDL_FLAGS if group.kind is LoggedKind.STATEMENT else TRANSACTION_FLAGS
        return encode_gtid(gtid, group.timestamp, flags=flags)
    is_prepare = group.kind is LoggedKind.XA_PREPARE
    flags = GTID_FLAG_PREPARED_XA if is_prepare else GTID_FLAG_COMPLETED_XA | GTID_FLAG_STANDALONE
    name = XaName(XA_FORMAT, str(group.xid).encode(), b"")
    return encode_gtid_event(GtidEvent(gtid, group.timestamp, GTID_EVENT_FLAGS, flags, xa_name=name))


def _xa_prepare(group: Group) -> bytes:
    name = str(group.xid).encode()
    return encode_event(EventType.XA_PREPARE, XA_PREPARE_STRUCT.pack(0, XA_FORMAT, len(name), 0) + name, group.origin)


def _of_mysql(event: bytes) -> bytes:
    """A row event as MySQL has it, version 2; others stay."""
    newer = _V2_TYPES.get(EventType(event[4]))
    if newer is None:
        return event
    return event[:4] + bytes([newer]) + event[5:_ROWS_FIXED] + MYSQL_ROWS_EXTRA + event[_ROWS_FIXED:]
