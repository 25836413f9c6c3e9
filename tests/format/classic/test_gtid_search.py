"""Finding GTIDs in a log of many classic files."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from binlog_format.classic.reader import ClassicLog
from binlog_format.events.layout import EventType
from binlog_format.gtids.gtid import Gtid, GtidPosition
from binlog_format.position import Position
from binlog_lab.event_encoding.event_encoding import (
    Origin,
    encode_event,
    encode_format_description,
    encode_gtid,
    encode_query,
    encode_xid,
)
from tests.format.classic.logs import MemoryDirectory, file_of, groups_of, with_checksum

if TYPE_CHECKING:
    from tests.format.classic.logs import MemoryFile

FILES = 1000
GROUPS_PER_FILE = 3
NOW = 1_700_000_000
ORIGIN = Origin(NOW, 1)


class CountingDirectory(MemoryDirectory):
    """Counts the files that are opened."""

    def __init__(self, files: dict[str, bytes]) -> None:
        super().__init__(files)
        self.opened: set[str] = set()

    def open(self, name: str) -> MemoryFile:
        self.opened.add(name)
        return super().open(name)


def _file(number: int) -> bytes:
    first = number * GROUPS_PER_FILE + 1
    description = bytearray(encode_format_description("10.11.19-MariaDB-log", NOW, ORIGIN))
    description[-5] = 1  # CRC-32; its own checksum follows
    known = struct.pack("<IIIQ", 1, 0, 1, first - 1) if number else struct.pack("<I", 0)
    events = [bytes(description[:-4]), encode_event(EventType.MARIADB_GTID_LIST, known, ORIGIN)]
    for seqno in range(first, first + GROUPS_PER_FILE):
        events += [encode_gtid(Gtid(0, 1, seqno), NOW), encode_query("BEGIN", ORIGIN), encode_xid(seqno, ORIGIN)]
    return file_of(with_checksum(event) for event in events)


def test_gtid_in_a_thousand_files_is_found_without_reading_those_before() -> None:
    directory = CountingDirectory({f"mysql-bin.{number + 1:06}": _file(number) for number in range(FILES)})
    last = FILES * GROUPS_PER_FILE
    with ClassicLog(directory) as log:
        assert len(log.files()) == FILES
        for number in (1, 2, last // 3, last // 2, last - 1, last):
            directory.opened.clear()
            found = log.position_of(GtidPosition.parse(f"0-1-{number}"))
            assert len(directory.opened) < 30
            end = Position(found.position.file_no + 2, 0, 0)
            following = [group.gtid for group in groups_of(log.blocks(found.position, end))]
            assert len(directory.opened) < 30
            assert f"0-1-{number + 1}" in following or number == last
            assert len(following) <= 2 * GROUPS_PER_FILE
