"""Files that are cut, damaged, or still growing: a prefix of the groups or a named error, nothing else."""

from __future__ import annotations

import itertools
import random
import struct
from typing import TYPE_CHECKING

import pytest

from binlog_format.classic.reader import ClassicLog
from binlog_format.errors import BinlogError, CorruptError, DataLossError, UnsupportedError
from binlog_format.events.layout import EVENT_FLAGS_OFFSET, EVENT_SIZE_OFFSET, EventType
from binlog_format.position import Position
from tests.chance import some
from tests.format.classic.logs import (
    OLTP_SMALL,
    Group,
    MemoryDirectory,
    case_path,
    file_of,
    groups_of,
    open_classic,
    raw_events,
    with_checksum,
)

if TYPE_CHECKING:
    from pathlib import Path

    from binlog_format.block import Block

_FDE_FLAGS_BYTE = 4 + EVENT_FLAGS_OFFSET


@pytest.fixture
def small_file() -> bytes:
    """A file of 5 small groups, 3 statements and 2 transactions, as its server would have written it."""
    events = raw_events((OLTP_SMALL / "mysql-bin.000001").read_bytes())
    starts = [i for i, event in enumerate(events) if event[4] == EventType.MARIADB_GTID]
    borders = [*starts, len(events) - 1]
    groups = [events[begin:end] for begin, end in itertools.pairwise(borders)]
    transactions = sorted((group for group in groups if len(group) > 2), key=lambda group: sum(map(len, group)))
    chosen = [group for group in groups if len(group) == 2][:3] + transactions[:2]
    return file_of([*events[: starts[0]], *(event for group in chosen for event in group)])


def read(*contents: bytes) -> list[Group]:
    """The groups of a log with these files."""
    files = {f"bin.{number:06}": content for number, content in enumerate(contents, start=1)}
    return groups_of(ClassicLog(MemoryDirectory(files)).blocks())


def read_until_error(data: bytes) -> tuple[list[Group], BinlogError | None]:
    """The whole groups before the first error."""
    blocks: list[Block] = []
    try:
        blocks.extend(ClassicLog(MemoryDirectory({"bin.000001": data})).blocks())
    except BinlogError as error:
        return groups_of(blocks), error
    return groups_of(blocks), None


def test_every_cut_gives_the_groups_before_it(small_file: bytes) -> None:
    whole = read(small_file)
    ends = [group.position[2] + sum(len(event) + 4 for event in group.events) for group in whole]
    assert len(whole) == 5
    near_ends = {end + offset for end in ends for offset in (-1, 0, 1)} & set(range(len(small_file)))
    for cut in sorted({*some(range(4, len(small_file)), 7), *near_ends}):
        assert read(small_file[:cut]) == whole[: sum(end <= cut for end in ends)]


def test_every_flipped_bit_is_found(small_file: bytes) -> None:
    """The one bit that means nothing is that of a file in use: a server that is killed leaves it."""
    whole = read(small_file)
    rng = random.Random(20_261_120)
    bits = {8 * byte + rng.randrange(8) for byte in some(range(4, len(small_file)), 3)}
    bits |= {8 * byte + bit for byte in range(4, 4 + 19) for bit in range(8)}
    for bit in sorted(bits):
        damaged = bytearray(small_file)
        damaged[bit // 8] ^= 1 << bit % 8
        groups, error = read_until_error(bytes(damaged))
        if bit == 8 * _FDE_FLAGS_BYTE:
            assert error is None
            assert groups == whole
        else:
            assert isinstance(error, CorruptError | UnsupportedError), f"bit {bit} of the file"
            assert groups == whole[: len(groups)]


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


def test_growing_file_gives_each_group_when_it_is_whole(tmp_path: Path, small_file: bytes) -> None:
    """Grown in steps that cut events anywhere, and read from where the last read ended."""
    whole = read(small_file)
    path = tmp_path / "bin.000001"
    path.write_bytes(small_file[:100])
    log = open_classic(tmp_path, block_size=256)
    position, taken = log.start_position(), []
    rng = random.Random(3)
    size = 100
    while size < len(small_file):
        size = min(len(small_file), size + rng.randrange(1, 400))
        path.write_bytes(small_file[:size])
        span = log.span(position)
        blocks = list(log.blocks(position))
        taken += groups_of(blocks)
        assert len(taken) == len(read(small_file[:size]))
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
