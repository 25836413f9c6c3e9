"""A log read in parts gives the groups of the whole: `blocks`, `split`, `span`.

The bound `sealed`: only files that the server can no longer take back.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from binlog_format import Bound, Gtid, GtidPosition, OptionError, Position, StartError, open_log
from binlog_format.events.layout import EventType
from binlog_lab.innodb_writer.options import WriterOptions
from binlog_lab.innodb_writer.server import BinlogWriter
from tests.corpus import SERVER_CASES
from tests.format.innodb.log_groups import ReadGroup, collect, read_groups
from tests.format.innodb.test_corpus_manifests import DATA_SETS, data_set
from tests.format.innodb.test_large_groups import event, gtid_event

if TYPE_CHECKING:
    from pathlib import Path

    from binlog_format import Log


def page_starts(log: Log) -> list[Position]:
    return [
        Position(file.file_no, page, 0)
        for file in log.files()
        if file.header
        for page in range(1, file.size // 16384 + 1)
    ]


@pytest.mark.parametrize("name", DATA_SETS)
def test_any_page_cuts_the_log_in_two(name: str) -> None:
    """Groups belong to the part where their commit record starts, whatever record goes on over the cut."""
    with open_log(str(data_set(name)[0])) as log:
        whole = read_groups(log)
        for position in page_starts(log)[:: 3 if name == "forest" else 1]:
            assert read_groups(log, None, position) + read_groups(log, position) == whole, position


@pytest.mark.parametrize("name", ["mixed", "forest", "flushed", "small"])
def test_any_group_can_be_read_alone(name: str) -> None:
    with open_log(str(data_set(name)[0])) as log:
        for group in read_groups(log):
            start = group.position
            after = Position(start.file_no, start.page, start.chunk + 1)
            assert read_groups(log, start, after) == [group]
            assert read_groups(log, start, start) == []


@pytest.mark.parametrize("name", DATA_SETS)
@pytest.mark.parametrize("count", [2, 7, 64])
def test_split_parts_give_the_whole(name: str, count: int) -> None:
    with open_log(str(data_set(name)[0])) as log:
        start = log.start_position()
        end = log.span(start).end
        cuts = log.split(start, end, count)
        assert len(cuts) < count
        borders = [start, *cuts, end]
        assert borders == sorted(set(borders))
        parts = [group for part in itertools.pairwise(borders) for group in read_groups(log, *part)]
        assert parts == read_groups(log)


@pytest.mark.parametrize("name", DATA_SETS)
@pytest.mark.parametrize("size_max", [1, 20_000, 200_000])
def test_steps_of_a_span_give_the_whole(name: str, size_max: int) -> None:
    with open_log(str(data_set(name)[0])) as log:
        position = log.start_position()
        found: list[ReadGroup] = []
        while (span := log.span(position, size_max=size_max)).end != position:
            part = read_groups(log, position, span.end)
            assert len(part) == span.groups
            assert span.groups <= 1 or span.size <= size_max
            gtids = [group.gtid for group in part if group.gtid is not None]
            passed = set(str(span.gtids).split(",")) if span.gtids else set()
            assert passed <= set(gtids)
            assert not gtids or gtids[-1] in passed
            found += part
            position = span.end
        assert found == read_groups(log)


def test_last_block_says_how_far_a_range_has_been_read() -> None:
    """A range that was read to its end is marked so, one that ran out of data does not."""
    with open_log(str(data_set("oltp")[0])) as log:
        groups = read_groups(log)
        end = groups[100].position
        assert list(log.blocks(None, end))[-1].next_position == end
        after_all = Position(99, 1, 0)
        assert list(log.blocks(None, after_all))[-1].next_position < after_all


def test_next_position_of_a_block_starts_the_next_groups() -> None:
    with open_log(str(data_set("mixed")[0])) as log:
        whole = read_groups(log)
        taken = 0
        for block in log.blocks():
            taken += len(block.groups)
            assert read_groups(log, block.next_position) == whole[taken:]


def test_single_file_gives_the_groups_that_start_in_it() -> None:
    path, _ = data_set("oltp")
    with open_log(str(path)) as log:
        whole = read_groups(log)
    for file_no in range(4):
        with open_log(str(path / f"binlog-{file_no:06}.ibb")) as log:
            assert read_groups(log) == [group for group in whole if group.position.file_no == file_no]


@pytest.mark.parametrize(
    ("position", "condition"),
    [
        (Position(1, 3, 500), "BINLOG_START.POSITION_NOT_FOUND"),
        (Position(1, 17, 0), "BINLOG_START.POSITION_NOT_FOUND"),
        (Position(9, 1, 0), "BINLOG_START.POSITION_NOT_FOUND"),
    ],
)
def test_position_that_is_not_there_is_refused(position: Position, condition: str) -> None:
    with open_log(str(data_set("oltp")[0])) as log, pytest.raises(StartError) as raised:
        list(log.blocks(position))
    assert raised.value.condition == condition


def test_start_after_end_is_refused() -> None:
    with open_log(str(data_set("oltp")[0])) as log, pytest.raises(StartError) as raised:
        list(log.blocks(Position(2, 1, 0), Position(1, 1, 0)))
    assert raised.value.condition == "BINLOG_START.START_AFTER_END"


OPTIONS = WriterOptions(page_size=1024, max_binlog_size=8192, state_interval=2048, cache_size=4096, sync=False)


@pytest.mark.parametrize("name", DATA_SETS)
def test_sealed_groups_are_those_of_all_files_but_the_last_two(name: str) -> None:
    path = str(data_set(name)[0])
    with open_log(path) as log:
        last = log.files()[-1].file_no
        whole = read_groups(log)
    with open_log(path, bound="sealed") as log:
        found = read_groups(log)
        assert found == [group for group in whole if group.position.file_no <= last - 2]
        span = log.span(log.start_position())
        assert span.groups == len(found)
        assert log.end_position() == span.end


def test_groups_show_when_the_file_after_the_next_one_is_made(tmp_path: Path) -> None:
    """A tailer over a growing log gets each group once, and none that is not sealed."""
    found = []
    position = Position(0, 1, 0)
    with BinlogWriter(tmp_path / "log", OPTIONS) as writer:
        for seqno in range(1, 200):
            size = 9000 if seqno % 20 == 0 else 300
            writer.write_group(Gtid(0, 1, seqno), gtid_event(seqno), [event(EventType.QUERY, size, seqno)])
            if seqno % 7:
                continue
            with open_log(str(tmp_path / "log"), bound=Bound.SEALED) as log:
                last = max(file.file_no for file in log.files())
                blocks = list(log.blocks(position))
                assert log.span(position).groups == sum(int(block.groups["begins"].sum()) for block in blocks)
                found += collect(blocks)
                position = blocks[-1].next_position if blocks else position
                assert position <= Position(max(last - 1, 0), 1, 0)
                assert all(group.position.file_no <= last - 2 for group in found)
    with open_log(str(tmp_path / "log")) as log:
        whole = read_groups(log)
    assert found == whole[: len(found)]
    assert len(found) > 100


def test_nothing_is_sealed_in_the_first_two_files(tmp_path: Path) -> None:
    with BinlogWriter(tmp_path / "log", OPTIONS) as writer:
        writer.write_group(Gtid(0, 1, 1), gtid_event(1), [event(EventType.QUERY, 300)])
    with open_log(str(tmp_path / "log"), bound="sealed") as log:
        start = log.start_position()
        assert [file.file_no for file in log.files()] == [0, 1]
        assert list(log.blocks()) == []
        assert (log.span(start).end, log.span(start).groups) == (start, 0)
        assert log.end_position() == start
        assert log.position_of(GtidPosition({})).position == start


def test_gtid_search_stays_within_the_bound(tmp_path: Path) -> None:
    with BinlogWriter(tmp_path / "log", OPTIONS) as writer:
        for seqno in range(1, 100):
            writer.write_group(Gtid(0, 1, seqno), gtid_event(seqno), [event(EventType.QUERY, 300)])
    with open_log(str(tmp_path / "log"), bound="sealed") as log:
        groups = read_groups(log)
        assert log.position_of(GtidPosition.parse("0-1-5")).position == groups[5].position
        after = log.position_of(GtidPosition.parse("0-1-99"))
        assert list(log.blocks(after.position)) == []
        assert str(after.before) == groups[-1].gtid
    with open_log(str(tmp_path / "log")) as log:
        assert read_groups(log, after.position)[0].gtid == f"0-1-{len(groups) + 1}"


def test_one_file_is_sealed_by_those_beside_it(tmp_path: Path) -> None:
    with BinlogWriter(tmp_path / "log", OPTIONS) as writer:
        for seqno in range(1, 100):
            writer.write_group(Gtid(0, 1, seqno), gtid_event(seqno), [event(EventType.QUERY, 300)])
    files = sorted((tmp_path / "log").glob("*.ibb"))
    for path in files:
        with open_log(str(path)) as visible, open_log(str(path), bound="sealed") as sealed:
            assert read_groups(sealed) == (read_groups(visible) if path in files[:-2] else [])


def test_bound_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with BinlogWriter(tmp_path / "log", OPTIONS):
        pass
    with pytest.raises(OptionError, match="bound: expected visible or sealed, got 'durable'"):
        open_log(str(tmp_path / "log"), bound="durable")


def test_sealed_is_refused_where_no_file_is_ever_sealed() -> None:
    with pytest.raises(OptionError, match="bound: sealed is for innodb logs"):
        open_log(str(SERVER_CASES / "mariadb-10.11" / "oltp_small"), bound="sealed")
