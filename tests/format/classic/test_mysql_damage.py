"""MySQL files that are cut, damaged, still growing, old, anonymous, or made of rare groups."""

from __future__ import annotations

import struct
import zlib
from itertools import product
from typing import TYPE_CHECKING

import pytest

from binlog_format.classic.layout import MAGIC_SIZE
from binlog_format.classic.reader import ClassicLog
from binlog_format.errors import CorruptError, DataLossError, UnsupportedError
from binlog_format.events.layout import EventType
from binlog_format.gtids.gtid_set import GtidSet
from binlog_format.log_format import NOTE
from binlog_format.position import Position
from tests.corpus import SERVER_CASES
from tests.format.classic.logs import (
    IN_USE_BIT,
    MYSQL_GTID_TYPES,
    MemoryDirectory,
    file_of,
    findings,
    groups_of,
    open_classic,
    raw_events,
    read,
    small_mysql_file,
    with_checksum,
)
from tests.format.events.test_gtid import gtid_event, previous_gtids_event

if TYPE_CHECKING:
    from pathlib import Path


ROTATION = SERVER_CASES / "mysql-9" / "rotation"
NAME, NEXT = "bin.000001", "bin.000002"
A = "88ee60ec-e4d9-11f1-baee-02fc00000001"


@pytest.fixture(scope="module")
def small_file() -> bytes:
    return small_mysql_file()


def query(text: str, *, database: bytes = b"t", status: bytes = b"\0\1\2") -> bytes:
    body = struct.pack("<IIBHH", 1, 0, len(database), 0, len(status)) + status + database + b"\0" + text.encode()
    return event(EventType.QUERY, body)


def event(kind: int, body: bytes = b"", *, flags: int = 0) -> bytes:
    return with_checksum(struct.pack("<IBIIIH", 1_795_176_638, kind, 9000, 0, 0, flags) + body)


def checked(plain: bytes) -> bytes:
    return with_checksum(plain)


GTID = checked(gtid_event(None))
XID = event(EventType.XID, bytes(8))
TABLE_MAP = event(EventType.TABLE_MAP, bytes(20))
ROWS = event(EventType.WRITE_ROWS_V2, bytes(6) + b"\1\0" + bytes(10))
MORE_ROWS = event(EventType.WRITE_ROWS_V2, bytes(20))


@pytest.fixture(scope="module")
def head() -> list[bytes]:
    """Format_description and PREVIOUS_GTIDS (empty) of a real file."""
    return raw_events((ROTATION / "mysql-bin.000001").read_bytes())[:2]


@pytest.mark.parametrize("checksums", [True, False])
def test_anonymous_groups_have_no_gtid(checksums: bool, head: list[bytes]) -> None:
    """As with gtid_mode=OFF; and with binlog_checksum=NONE."""
    described = bytearray(head[0])
    groups = [[GTID, query("CREATE TABLE t (id INT)")], [GTID, query("BEGIN"), TABLE_MAP, ROWS, XID]]
    parts = [head[1], *(part for group in groups for part in group)]
    if not checksums:
        described[-5] = 0
        described[-4:] = struct.pack("<I", zlib.crc32(described[:-4]))
        parts = [part[:9] + struct.pack("<I", len(part) - 4) + part[13:-4] for part in parts]
    log = ClassicLog(MemoryDirectory({NAME: b"\xfebin" + bytes(described) + b"".join(parts)}))
    (block,) = log.blocks()
    assert block.groups["event_count"].tolist() == [2, 5]
    assert not block.groups["has_gtid"].any()
    assert block.groups["gtid_source"].tolist() == [-1, -1]
    assert block.groups["server_id"].tolist() == [9000, 9000]
    assert log.span(log.start_position()).groups == 2
    assert log.gtid_position_at(log.end_position()) == GtidSet({})
    assert log.position_of(GtidSet.parse(f"{A}:1-5")).position == Position.of(block.groups[0])


@pytest.mark.parametrize(
    ("parts", "count"),
    [
        ([query("DROP TABLE t")], 1),
        ([query("XA COMMIT X'61',X'',1")], 1),
        ([query("XA ROLLBACK X'61',X'',1")], 1),
        ([query("XA START X'61',X'',1"), TABLE_MAP, ROWS, query("XA END X'61',X'',1"), event(38, bytes(20))], 5),
        ([query("xa start X'61',X'',1"), query("XA END X'61',X'',1"), event(38, bytes(20))], 3),
        ([query("BEGIN"), query("COMMIT")], 2),
        ([query("begin"), query("SAVEPOINT `COMMIT`"), query("ROLLBACK TO `COMMIT`"), query("rollback")], 4),
        ([query("BEGIN", database=b"", status=b""), query("COMMITTED"), query("COMMIT", database=b"long" * 60)], 3),
        ([query("BEGIN"), TABLE_MAP, MORE_ROWS, ROWS, TABLE_MAP, ROWS, XID], 7),
        ([query("BEGIN"), query("CREATE TABLE t (id INT) START TRANSACTION"), TABLE_MAP, ROWS, XID], 5),
        ([query("BEGINS")], 1),
        ([query("")], 1),
        ([event(EventType.TRANSACTION_PAYLOAD, bytes(50))], 1),
        ([event(EventType.INTVAR, bytes(9)), event(EventType.RAND, bytes(16)), query("INSERT INTO t VALUES (1)")], 3),
        ([event(EventType.ROWS_QUERY, bytes(9), flags=0x80), query("BEGIN"), XID], 3),
        ([query("BEGIN"), event(EventType.BEGIN_LOAD_QUERY, bytes(9)), event(18, bytes(40)), XID], 4),
        ([query("BEGIN"), event(EventType.VIEW_CHANGE, bytes(60)), query("COMMIT")], 3),
        ([event(250, b"new", flags=0x80), query("BEGIN"), event(251, flags=0x80), XID], 4),
    ],
)
def test_groups_end_where_mysql_ends_them(parts: list[bytes], count: int, head: list[bytes]) -> None:
    """Each group twice, so that its end is seen too; in pieces of all sizes."""
    content = file_of([*head, GTID, *parts, GTID, *parts])
    for block_size in (20, 50, 90, 200, 10_000):
        groups = groups_of(ClassicLog(MemoryDirectory({NAME: content}), block_size=block_size).blocks())
        assert [len(group.events) for group in groups] == [count + 1, count + 1]


@pytest.mark.parametrize("after", [[], [query("BEGIN")], [event(5, bytes(9))], [query("BEGIN"), TABLE_MAP, ROWS]])
def test_group_without_end_is_not_there(after: list[bytes], head: list[bytes]) -> None:
    content = file_of([*head, GTID, query("DROP TABLE t"), GTID, *after])
    assert len(read(content)) == 1
    with pytest.raises(CorruptError, match="inside an event group"):
        read(file_of([*head, GTID, *after, GTID, query("DROP TABLE t")]))


@pytest.mark.parametrize("inside", [True, False])
def test_unknown_event_is_named(inside: bool, head: list[bytes]) -> None:
    parts = [GTID, query("BEGIN"), event(250, b"new"), XID] if inside else [event(250, b"new"), GTID, XID]
    with pytest.raises(UnsupportedError, match=r"EVENT_TYPE.*type 250.*MySQL \(server 9\.7\.4-2\)"):
        read(file_of([*head, *parts]))
    with pytest.raises(UnsupportedError, match=r"EVENT_TYPE.*MARIADB_GTID"):
        read(file_of([*head, event(EventType.MARIADB_GTID, bytes(19))]))


def test_incident_ends_its_group(head: list[bytes]) -> None:
    incident = event(EventType.INCIDENT, b"\x01\x00\x00")
    groups = read(file_of([*head, GTID, incident, GTID, query("BEGIN"), XID]))
    assert [group.types for group in groups] == [(34, 26), (34, 2, 16)]


def test_gtid_event_without_a_gtid_is_damage(head: list[bytes]) -> None:
    for bad in (event(EventType.GTID, bytes(40)), event(EventType.GTID_TAGGED, bytes(40)), event(33, bytes(20))):
        with pytest.raises(CorruptError, match="BAD_EVENT"):
            read(file_of([*head, bad, query("DROP TABLE t")]))


OLD_SIZE = 76 + 27
"""Bytes of a Format_description event of MySQL 5.5, which lists 27 types."""


def described_as(version: str, description: bytes, *, checksum: bool = True) -> bytes:
    """A Format_description event of another server version."""
    changed = bytearray(description)
    changed[21:71] = version.encode().ljust(50, b"\0")
    if not checksum:
        return bytes(changed[:9] + struct.pack("<I", OLD_SIZE) + changed[13:OLD_SIZE])
    changed[-4:] = struct.pack("<I", zlib.crc32(changed[:-4]))
    return bytes(changed)


def test_servers_that_are_too_old_are_named(head: list[bytes]) -> None:
    groups = [query("BEGIN"), TABLE_MAP, ROWS, XID]
    for version in ("5.5.62-log", "5.6.51-log"):
        with pytest.raises(UnsupportedError, match=r"VERSION.*gtid_mode is OFF") as raised:
            read(file_of([described_as(version, head[0]), *groups]))
        assert raised.value.condition == "BINLOG_UNSUPPORTED.VERSION"
    with pytest.raises(UnsupportedError, match=r"VERSION.*5\.5\.62-log are too old"):
        read(b"\xfebin" + described_as("5.5.62-log", head[0], checksum=False) + bytes(100))
    with pytest.raises(CorruptError, match="outside of an event group"):
        read(file_of([*head, *groups]))
    gtid_on = [described_as("5.6.51-log", head[0]), head[1], GTID, *groups]
    assert len(read(file_of(gtid_on))) == 1


def in_use(content: bytes) -> bytes:
    """As its server left it when it was killed."""
    return content[: IN_USE_BIT // 8] + b"\1" + content[IN_USE_BIT // 8 + 1 :]


def cut_in_its_third_group() -> bytes:
    """A file of a killed server."""
    first = raw_events((ROTATION / "mysql-bin.000001").read_bytes())
    torn = in_use(file_of(first[:-1]))
    last = next(i for i in reversed(range(len(first))) if first[i][4] in MYSQL_GTID_TYPES)
    return torn[: sum(map(len, first[:last])) + 4 + 60]


def file_after(head: list[bytes], text: str) -> bytes:
    """A file before which there were these GTIDs."""
    said = checked(previous_gtids_event(GtidSet.parse(text), tagged=False))
    return file_of([head[0], said, GTID, query("DROP TABLE t")])


def test_torn_end_with_groups_after_it_is_damage(head: list[bytes]) -> None:
    """The next file knows what the torn one must hold."""
    cut = cut_in_its_third_group()
    assert [group.gtid for group in read(cut, file_after(head, f"{A}:1-2"))] == [f"{A}:1", f"{A}:2", ""]
    with pytest.raises(CorruptError, match=f"cut off here, but the file after this one records that {A}:3 was logged"):
        read(cut, file_after(head, f"{A}:1-3"))
    with pytest.raises(CorruptError, match="its server closed"):
        read(cut[: IN_USE_BIT // 8] + b"\0" + cut[IN_USE_BIT // 8 + 1 :], file_after(head, f"{A}:1-2"))


def test_torn_end_of_a_file_that_is_purged_while_it_is_read_is_no_damage(head: list[bytes], tmp_path: Path) -> None:
    """The reader has seen a part of it, and nobody can tell whether more has come."""
    (tmp_path / NAME).write_bytes(cut_in_its_third_group())
    (tmp_path / NEXT).write_bytes(file_after(head, f"{A}:1-3"))
    blocks = open_classic(tmp_path).blocks()
    next(blocks)
    (tmp_path / NAME).unlink()
    with pytest.raises(DataLossError, match="FILE_PURGED"):
        list(blocks)


def test_previous_gtids_that_do_not_follow_are_found(head: list[bytes]) -> None:
    first = (ROTATION / "mysql-bin.000001").read_bytes()

    def found(text: str) -> list[tuple[str, str]]:
        said = checked(previous_gtids_event(GtidSet.parse(text), tagged=False))
        return [
            (finding.condition, finding.reason) for finding in findings({NAME: first, NEXT: file_of([head[0], said])})
        ]

    assert found(f"{A}:1-3") == []
    assert found(f"{A}:1:3") == [("BINLOG_CORRUPT.GTID_STATE", f"PREVIOUS_GTIDS: it lacks {A}:2")]
    purged = "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee:1-9"
    assert found(f"{A}:1-3,{purged}") == [(NOTE, f"PREVIOUS_GTIDS: {purged} is in none of the files before")]


def test_gtid_that_comes_twice_is_noted(small_file: bytes) -> None:
    events = raw_events(small_file)
    start = next(i for i, part in enumerate(events) if part[4] == EventType.GTID)
    end = next(i for i in range(start + 1, len(events)) if events[i][4] in MYSQL_GTID_TYPES)
    (found,) = findings({NAME: file_of([*events, *events[start:end]])})
    assert (found.condition, found.is_error) == (NOTE, False)
    assert found.reason.endswith("is there a second time")


@pytest.mark.parametrize("is_closed", [False, True])
def test_damaged_size_before_the_end_is_named_at_its_event_by_headers_alone(
    small_file: bytes, *, is_closed: bool
) -> None:
    """What follows it looks like the start of an event, or of its header, that has not been written to its end."""
    first, second, *others = raw_events(small_file)
    flag = IN_USE_BIT // 8
    start = small_file[:flag] + bytes([not is_closed]) + small_file[flag + 1 : MAGIC_SIZE + len(first) + len(second)]
    before = b""
    for event, left in product(others, (1, 18, 23)):
        damaged = event[:9] + struct.pack("<I", len(event) - left) + event[13:]
        files = {NAME: start + before + damaged, NEXT: file_of([first, second])}
        log = ClassicLog(MemoryDirectory(files if is_closed else {NAME: files[NAME]}))
        with pytest.raises(CorruptError) as raised:
            list(log.heads(log.start_position(), None))
        assert raised.value.at is not None
        assert (raised.value.at.name, raised.value.at.byte) == (NAME, len(start) + len(before))
        if left == 23:
            before += event


def test_event_of_type_0_is_not_waited_for(small_file: bytes) -> None:
    """Seen on MySQL 8.0.12 with two settings that do not go together; size and end_log_pos agreed."""
    size = 12_779_524
    header = struct.pack("<IBIIIH", 118_516_490, 0, 7, size, len(small_file) + size, 11)
    log = ClassicLog(MemoryDirectory({NAME: small_file + header}))
    with pytest.raises(CorruptError, match="no event begins here: its type would be 0") as raised:
        log.span(log.start_position())
    assert raised.value.at is not None
    assert raised.value.at.byte == len(small_file)
