"""Groups larger than a block come in pieces; memory follows the block, not the group."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from binlog_format import Gtid, open_log
from binlog_format.block import BLOCK_SIZE
from binlog_format.events.layout import EVENT_HEADER_STRUCT, GTID_SIZE_MIN, EventType
from binlog_lab.innodb_writer.options import WriterOptions
from binlog_lab.innodb_writer.server import BinlogWriter, Cache
from tests.chance import examples
from tests.format.innodb.log_groups import read_groups

if TYPE_CHECKING:
    from pathlib import Path

SMALL_FILES = WriterOptions(max_binlog_size=1 << 20, state_interval=65536, preallocate=False, sync=False)


def event(event_type: EventType, size: int, fill: int = 0) -> bytes:
    header = EVENT_HEADER_STRUCT.pack(1_700_000_000, int(event_type), 1, size, 0, 0)
    return header + bytes([fill % 256]) * (size - len(header))


def gtid_event(seqno: int) -> bytes:
    body = seqno.to_bytes(8, "little") + bytes(GTID_SIZE_MIN - EVENT_HEADER_STRUCT.size - 8)
    return EVENT_HEADER_STRUCT.pack(1_700_000_000, int(EventType.MARIADB_GTID), 1, GTID_SIZE_MIN, 0, 0) + body


def write_group(writer: BinlogWriter, seqno: int, events: list[bytes], statement: list[bytes] | None = None) -> bytes:
    """Write a transaction; give its events in the order in which consumers get them."""
    writer.begin(1)
    for data in statement or []:
        writer.event(1, data, Cache.STATEMENT)
    for data in events:
        writer.event(1, data)
    writer.commit(1, Gtid(0, 1, seqno), gtid_event(seqno))
    return b"".join([gtid_event(seqno), *(statement or []), *events])


@pytest.mark.parametrize("event_size", [3000, 8_000, 700_001])
def test_large_out_of_band_group_comes_in_pieces(event_size: int, tmp_path: Path) -> None:
    count = 7 * BLOCK_SIZE // 2 // event_size
    events = [event(EventType.QUERY, event_size, number) for number in range(count)]
    small = [event(EventType.XID, 27)]
    with BinlogWriter(tmp_path / "log", SMALL_FILES) as writer:
        wanted = [write_group(writer, 1, small), write_group(writer, 2, events), write_group(writer, 3, small)]
    with open_log(str(tmp_path / "log")) as log:
        blocks = list(log.blocks())
        found = read_groups(log)
        assert [group.data for group in found] == wanted
        pieces = [block for block in blocks if len(block.groups) and block.groups["seqno"][0] == 2]
        assert [bool(block.groups["ends"][0]) for block in pieces] == [False] * (len(pieces) - 1) + [True]
        assert len(pieces) >= 3
        for block in pieces:
            assert len(block.groups) == 1
            assert len(block.data) < BLOCK_SIZE + event_size + 65536
            assert np.array_equal(log.read_extents(block.extents), block.data)
        # A group is never taken in part: until it ends, reading goes on at its own position.
        assert {block.next_position for block in pieces[:-1]} == {found[1].position}
        assert pieces[-1].next_position > found[1].position


def test_event_larger_than_a_block_stays_whole(tmp_path: Path) -> None:
    events = [
        event(EventType.QUERY, 100),
        event(EventType.QUERY, 2 * BLOCK_SIZE + 12345, 7),
        event(EventType.XID, 27),
    ]
    with BinlogWriter(tmp_path / "log", SMALL_FILES) as writer:
        wanted = write_group(writer, 1, events)
    with open_log(str(tmp_path / "log")) as log:
        assert [group.data for group in read_groups(log)] == [wanted]
        assert max(int(block.events["size"].max()) for block in log.blocks() if len(block.events)) == len(events[1])


@pytest.mark.parametrize("size", [BLOCK_SIZE - 40_000, 2 * BLOCK_SIZE, 3 * BLOCK_SIZE + 17])
def test_commit_record_larger_than_a_window(size: int, tmp_path: Path) -> None:
    """With a large binlog_cache_size a transaction lies in its commit record alone, over several files."""
    options = WriterOptions(
        max_binlog_size=1 << 20, state_interval=65536, preallocate=False, sync=False, cache_size=16 << 20
    )
    events = [event(EventType.QUERY, 5000, number) for number in range(size // 5000)] + [event(EventType.XID, 27)]
    small = [event(EventType.XID, 27)]
    with BinlogWriter(tmp_path / "log", options) as writer:
        wanted = [write_group(writer, 1, small), write_group(writer, 2, events), write_group(writer, 3, small)]
    with open_log(str(tmp_path / "log")) as log:
        found = read_groups(log)
        assert [group.data for group in found] == wanted
        assert [group.oob_records for group in found] == [0, 0, 0]
        start, end = log.start_position(), log.span(log.start_position())
        assert end.groups == 3
        assert str(end.gtids) == "0-1-3"
        for position in log.split(start, end.end, 9):
            assert read_groups(log, None, position) + read_groups(log, position) == found
        one = log.span(start, size_max=1)
        assert (one.groups, str(one.gtids)) == (1, "0-1-1")
        two = log.span(one.end, size_max=1)
        assert (two.groups, str(two.gtids)) == (1, "0-1-2")
        assert two.end <= found[2].position


def test_unfinished_long_commit_record_is_not_given(tmp_path: Path) -> None:
    options = WriterOptions(max_binlog_size=64 << 20, preallocate=False, sync=False, cache_size=16 << 20)
    with BinlogWriter(tmp_path / "log", options) as writer:
        wanted = write_group(writer, 1, [event(EventType.XID, 27)])
        write_group(writer, 2, [event(EventType.QUERY, 3 * BLOCK_SIZE)])
    path = tmp_path / "log" / "binlog-000000.ibb"
    with open_log(str(tmp_path / "log")) as log:
        second = read_groups(log)[1]
    path.write_bytes(path.read_bytes()[: 5 * BLOCK_SIZE // 2])
    with open_log(str(tmp_path / "log")) as log:
        assert [group.data for group in read_groups(log)] == [wanted]
        assert log.span(log.start_position()).end == second.position


@settings(max_examples=examples(25), suppress_health_check=[HealthCheck.too_slow])
@given(
    groups=st.lists(
        st.tuples(
            st.lists(st.integers(19, 3000), min_size=1, max_size=12),
            st.lists(st.integers(19, 1500), max_size=3),
        ),
        min_size=1,
        max_size=20,
    ),
    page_size=st.sampled_from([512, 1024, 4096, 16384, 65536]),
)
def test_round_trip(groups: list[tuple[list[int], list[int]]], page_size: int, tmp_path_factory: object) -> None:
    """Whatever sizes events, caches and pages have: what was written is read, from any place."""
    assert isinstance(tmp_path_factory, pytest.TempPathFactory)
    directory = tmp_path_factory.mktemp("log")
    options = WriterOptions(
        page_size=page_size,
        max_binlog_size=16 * page_size,
        state_interval=4 * page_size,
        cache_size=4096,
        stmt_cache_size=4096,
        preallocate=False,
        sync=False,
    )
    wanted = []
    with BinlogWriter(directory, options) as writer:
        for seqno, (sizes, statement) in enumerate(groups, start=1):
            events = [event(EventType.QUERY, size, size) for size in sizes]
            wanted.append(write_group(writer, seqno, events, [event(EventType.QUERY, size) for size in statement]))
    with open_log(str(directory)) as log:
        found = read_groups(log)
        assert [group.data for group in found] == wanted
        start = log.start_position()
        for position in log.split(start, log.span(start).end, 5):
            assert read_groups(log, None, position) + read_groups(log, position) == found
        for block in log.blocks():
            assert np.array_equal(log.read_extents(block.extents), block.data)
