"""Files that are cut, damaged, or still growing: a prefix of the groups or a named error, nothing else."""

from __future__ import annotations

import random
import struct
from typing import TYPE_CHECKING

import pytest

from binlog_format.classic.layout import MAGIC_SIZE
from binlog_format.classic.reader import ClassicLog
from binlog_format.errors import CorruptError, DataLossError, StartError, UnsupportedError
from binlog_format.events.layout import EVENT_SIZE_OFFSET, EventType
from binlog_format.position import Position
from tests.chance import some
from tests.format.classic.logs import (
    IN_USE_BIT,
    MYSQL_OPS,
    OLTP_SMALL,
    MemoryDirectory,
    case_path,
    file_of,
    findings,
    groups_of,
    open_classic,
    raw_events,
    read,
    read_until_error,
    small_mariadb_file,
    small_mysql_file,
    with_checksum,
)
from tests.without_compiler import printed_by

if TYPE_CHECKING:
    from pathlib import Path

NAME = "bin.000001"
SMALL_FILES = {"mariadb": small_mariadb_file, "mysql": small_mysql_file}
PRINT_GROUPS = """
import hashlib, sys
from pathlib import Path
from tests.format.classic.logs import groups_of, open_classic
for size in (100, 4096):
    for group in groups_of(open_classic(Path(sys.argv[1]), block_size=size).blocks()):
        print(group.gtid, group.position, hashlib.sha256(b"".join(group.events)).hexdigest())
"""


@pytest.fixture(scope="module", params=SMALL_FILES)
def any_file(request: pytest.FixtureRequest) -> bytes:
    """Of either vendor, with five groups."""
    return SMALL_FILES[request.param]()


@pytest.fixture(scope="module")
def small_file() -> bytes:
    return small_mariadb_file()


def test_every_cut_gives_the_groups_before_it(any_file: bytes) -> None:
    whole = read(any_file)
    ends = [group.position[2] + sum(len(event) + 4 for event in group.events) for group in whole]
    assert len(whole) == 5
    near_ends = {end + offset for end in ends for offset in (-1, 0, 1)} & set(range(len(any_file)))
    for cut in sorted({*some(range(4, len(any_file)), 7), *near_ends}):
        assert read(any_file[:cut]) == whole[: sum(end <= cut for end in ends)]


def test_every_flipped_bit_is_found(any_file: bytes) -> None:
    """The one bit that means nothing is that of a file in use: a server that is killed leaves it."""
    whole = read(any_file)
    assert findings({NAME: any_file}) == []
    rng = random.Random(20_261_120)
    bits = {8 * byte + rng.randrange(8) for byte in some(range(len(any_file)), 3)}
    bits |= {8 * byte + bit for byte in range(4, 4 + 19) for bit in range(8)}
    damaged = bytearray(any_file)
    for bit in sorted(bits):
        damaged[bit // 8] ^= 1 << bit % 8
        try:
            is_found = any(finding.is_error for finding in findings({NAME: bytes(damaged)}))
        except (StartError, UnsupportedError):
            is_found = True  # it is not a binlog file any more, or an encrypted one
        assert is_found == (bit != IN_USE_BIT), f"bit {bit}"
        if bit >= 8 * MAGIC_SIZE:
            groups, error = read_until_error(bytes(damaged))
            assert (error is None) == (bit == IN_USE_BIT)
            assert error is None or isinstance(error, CorruptError | UnsupportedError), f"bit {bit} of the file"
            assert groups == whole[: len(groups)]
        damaged[bit // 8] ^= 1 << bit % 8


def test_check_goes_on_after_damage() -> None:
    """In several groups, and in two events of one group."""
    for folder, kind in ((OLTP_SMALL, EventType.WRITE_ROWS_V1), (MYSQL_OPS, EventType.WRITE_ROWS_V2)):
        content = bytearray((folder / "mysql-bin.000001").read_bytes())
        offsets, offset = [], MAGIC_SIZE
        for event in raw_events(bytes(content)):
            if event[4] == kind:
                offsets.append(offset)
            offset += len(event)
        chosen = [offsets[1], offsets[2], *offsets[5:40:10]]
        for place in chosen:
            content[place + 30] ^= 1
        found = [finding for finding in findings({NAME: bytes(content)}) if finding.is_error]
        assert [finding.condition for finding in found] == ["BINLOG_CORRUPT.EVENT_CHECKSUM"] * len(chosen)
        assert [finding.at.byte for finding in found if finding.at] == chosen


def test_groups_are_the_same_without_the_compiler(tmp_path: Path, any_file: bytes) -> None:
    (tmp_path / NAME).write_bytes(any_file)
    compiled, plain = printed_by(PRINT_GROUPS, tmp_path)
    assert plain == compiled
    assert len(plain.splitlines()) == 2 * len(read(any_file))


def test_flipped_bit_names_place_and_checksums() -> None:
    data = bytearray((case_path("mariadb-10.11/rotation") / "mysql-bin.000002").read_bytes())
    data[600] ^= 0x10
    _, error = read_until_error(bytes(data))
    assert error is not None
    assert error.condition == "BINLOG_CORRUPT.EVENT_CHECKSUM"
    assert str(error.at) == "memory/bin.000001: byte 0x24b"  # the event that begins at byte 587
    assert "stored 0x" in error.reason
    assert "computed 0x" in error.reason


def test_a_damaged_size_is_named_by_headers_alone_too(small_file: bytes) -> None:
    """What is taken for the next event may look like anything."""
    events = raw_events(small_file)
    place = 4 + sum(map(len, events[:4]))
    for event in events[4:7]:
        damaged = bytearray(small_file)
        damaged[place + EVENT_SIZE_OFFSET] ^= 1 << 4
        log = ClassicLog(MemoryDirectory({"bin.000001": bytes(damaged)}))
        with pytest.raises(CorruptError, match=f"EVENT_CHECKSUM.*byte {place:#x}"):
            log.span(Position(1, 0, 0))
        place += len(event)


def test_growing_file_gives_each_group_when_it_is_whole(tmp_path: Path, any_file: bytes) -> None:
    """Grown in steps that cut events anywhere, and read from where the last read ended."""
    whole = read(any_file)
    path = tmp_path / "bin.000001"
    path.write_bytes(any_file[:100])
    log = open_classic(tmp_path, block_size=256)
    position, taken = log.start_position(), []
    rng = random.Random(3)
    size = 100
    while size < len(any_file):
        size = min(len(any_file), size + rng.randrange(1, 400))
        path.write_bytes(any_file[:size])
        span = log.span(position)
        blocks = list(log.blocks(position))
        taken += groups_of(blocks)
        assert len(taken) == len(read(any_file[:size]))
        position = span.end
    assert taken == whole


def test_large_group_is_not_given_before_its_end(tmp_path: Path, small_file: bytes) -> None:
    """It comes in pieces; the first one is not given away before the last one is there."""
    events = raw_events(small_file)
    gtid = next(event for event in events if event[4] == EventType.MARIADB_GTID and not event[19 + 12] & 1)
    rows = [event for event in events if event[4] == EventType.WRITE_ROWS_V1] * 300
    xid = next(event for event in events if event[4] == EventType.XID)
    path = tmp_path / "bin.000001"
    log = None
    for count in (0, 1, 100, 300):
        path.write_bytes(file_of([*events, gtid, *rows[:count]]))
        log = log or open_classic(tmp_path, block_size=4096)
        assert log.span(log.start_position()).groups == 5
        assert len(groups_of(log.blocks())) == 5
    path.write_bytes(file_of([*events, gtid, *rows[:300], xid]))
    assert log is not None
    assert log.span(log.start_position()).groups == 6
    assert len(groups_of(log.blocks())[5].events) == 302


def test_file_cut_under_a_reader_of_a_large_group_is_data_loss(tmp_path: Path) -> None:
    path = tmp_path / "bin.000001"
    path.write_bytes((OLTP_SMALL / "mysql-bin.000001").read_bytes())
    log = open_classic(tmp_path, block_size=1024)
    blocks = log.blocks()
    for block in blocks:
        if not block.groups[-1]["ends"]:
            with path.open("r+b") as file:
                file.truncate(int(block.extents["file_offset"][0]) + len(block.data))
            break
    with pytest.raises(DataLossError) as raised:
        list(blocks)
    assert raised.value.condition == "BINLOG_DATA_LOSS.TRUNCATED_TRANSACTION"


def test_group_in_a_group_is_damage(small_file: bytes) -> None:
    """The end of a transaction is missing, though the file goes on."""
    events = raw_events(small_file)
    last_xid = max(i for i, event in enumerate(events) if event[4] == EventType.XID)
    first_xid = min(i for i, event in enumerate(events) if event[4] == EventType.XID)
    assert first_xid < last_xid
    with pytest.raises(CorruptError, match="inside an event group"):
        read(file_of(events[:first_xid] + events[first_xid + 1 :]))


def test_rows_outside_of_a_group_are_damage(small_file: bytes) -> None:
    events = raw_events(small_file)
    rows = next(event for event in events if event[4] == EventType.WRITE_ROWS_V1)
    with pytest.raises(CorruptError, match="outside of an event group"):
        read(small_file + rows)


@pytest.mark.parametrize("flags", [0, 0x80])
def test_unknown_event_outside_of_groups_is_passed_over_only_when_ignorable(small_file: bytes, flags: int) -> None:
    event = with_checksum(struct.pack("<IBIIIH", 1, 250, 1, 0, 0, flags) + b"whatever")
    if flags:
        assert len(read(small_file + event)) == 5
    else:
        with pytest.raises(UnsupportedError, match=r"EVENT_TYPE.*type 250"):
            read(small_file + event)


def test_incident_is_a_group_of_its_own(small_file: bytes) -> None:
    """MariaDB writes it between groups, without a GTID."""
    event = with_checksum(struct.pack("<IBIIIH", 1, EventType.INCIDENT, 1, 0, 0, 0) + b"\x01\x00\x00")
    whole = read(small_file)
    assert [group.types for group in read(small_file + event)] == [*(group.types for group in whole), (26,)]
    gtid = next(one for one in raw_events(small_file) if one[4] == EventType.MARIADB_GTID)
    assert len(read(small_file + event + gtid)) == len(whole) + 1


def test_relay_log_is_named(small_file: bytes) -> None:
    with pytest.raises(UnsupportedError, match="relay log"):
        read(small_file + raw_events(small_file)[0])


def test_something_else_with_a_binlog_name_is_named(small_file: bytes) -> None:
    with pytest.raises(CorruptError) as raised:
        read(small_file, b"not a binlog at all")
    assert raised.value.condition == "BINLOG_CORRUPT.HEADER"


def test_new_file_without_content_is_not_there_yet(small_file: bytes) -> None:
    """A server makes the next file before it writes into it; a killed one leaves it so."""
    whole = read(small_file)
    for content in (b"", b"\xfe", small_file[:4], small_file[:90]):
        log = ClassicLog(MemoryDirectory({"bin.000001": small_file, "bin.000002": content}))
        assert groups_of(log.blocks()) == whole
        assert log.span(log.start_position()).end.file_no == 1
        assert len(read(small_file, content, small_file)) == 10
