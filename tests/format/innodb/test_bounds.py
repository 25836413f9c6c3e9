"""The bound `sealed`: only files that the server can no longer take back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from binlog_format import Bound, Gtid, GtidPosition, OptionError, Position, open_log
from binlog_format.events.layout import EventType
from binlog_lab.innodb_writer.options import WriterOptions
from binlog_lab.innodb_writer.server import BinlogWriter
from tests.corpus import SERVER_CASES
from tests.format.innodb.log_groups import collect, read_groups
from tests.format.innodb.test_corpus_manifests import DATA_SETS, data_set
from tests.format.innodb.test_large_groups import event, gtid_event

if TYPE_CHECKING:
    from pathlib import Path

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
