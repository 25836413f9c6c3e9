"""Groups found by GTID and by time, in both formats."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from binlog_format import DataLossError, Gtid, Position, StartError, open_log
from binlog_format.events.layout import EVENT_HEADER_STRUCT, GTID_SIZE_MIN, EventType
from binlog_format.log.log import ReadRange
from binlog_format.log.search import CLOCK_SLACK_SECONDS, find_gtid
from binlog_lab.innodb_writer.options import WriterOptions
from binlog_lab.innodb_writer.server import BinlogWriter
from tests.corpus import SERVER_CASES
from tests.format.innodb.log_groups import read_groups
from tests.format.innodb.test_corpus_manifests import data_set
from tests.format.innodb.test_large_groups import event

if TYPE_CHECKING:
    from pathlib import Path

OLTP = SERVER_CASES / "mariadb-10.11" / "oltp_small"
START_TIME = 1_700_000_000


def timed_log(directory: Path) -> list[int]:
    """A log of several files with a group an hour, one of them logged late; give the times."""
    times = [START_TIME + 3600 * number for number in range(60)]
    times[40] -= 1800
    options = WriterOptions(page_size=512, max_binlog_size=8 * 512, preallocate=False, sync=False)
    with BinlogWriter(directory, options) as writer:
        for seqno, time in enumerate(times, 1):
            head = EVENT_HEADER_STRUCT.pack(time, int(EventType.MARIADB_GTID), 1, GTID_SIZE_MIN, 0, 0)
            gtid_event = head + seqno.to_bytes(8, "little") + bytes(5)
            writer.write_group(Gtid(0, 1, seqno), gtid_event, [event(EventType.QUERY, 300)])
    return times


@pytest.mark.parametrize("name", ["small", "mixed", "oltp", "xa"])
def test_every_gtid_is_found_at_its_position(name: str) -> None:
    path, _ = data_set(name)
    with open_log(str(path)) as log:
        groups = [group for group in read_groups(log) if group.gtid is not None]
        seen: dict[str, Position] = {}
        for group in groups:
            assert group.gtid is not None
            seen.setdefault(group.gtid, group.position)
        for gtid, position in list(seen.items())[::7]:
            assert find_gtid(log, Gtid.parse(gtid)) == position


def test_gtid_of_a_classic_log_is_found() -> None:
    with open_log(str(OLTP)) as log:
        block = next(iter(log.blocks()))
        row = block.groups[30]
        gtid = Gtid(int(row["domain"]), int(row["server_id"]), int(row["seqno"]))
        assert find_gtid(log, gtid) == Position(int(row["file_no"]), int(row["page"]), int(row["chunk"]))


def test_unknown_and_purged_gtids_are_told_apart(tmp_path: Path) -> None:
    timed_log(tmp_path / "log")
    (tmp_path / "log" / "binlog-000000.ibb").unlink()
    with open_log(str(tmp_path / "log")) as log:
        with pytest.raises(DataLossError, match="GTID_PURGED"):
            find_gtid(log, Gtid(0, 1, 1))
        for gtid in (Gtid(0, 1, 1000), Gtid(0, 2, 55), Gtid(7, 1, 55)):
            with pytest.raises(StartError, match="GTID_NOT_FOUND"):
                find_gtid(log, gtid)


def test_first_group_at_or_after_a_time_is_found(tmp_path: Path) -> None:
    times = timed_log(tmp_path / "log")
    with open_log(str(tmp_path / "log")) as log:
        positions = [group.position for group in read_groups(log)]
        assert len(log.files()) > 5
        for wanted in (0, START_TIME, START_TIME + 1, times[20], times[20] + 1, times[40], times[40] + 1, times[-1]):
            expected = next(number for number, time in enumerate(times) if time >= wanted)
            assert log.position_of_time(wanted) == positions[expected], wanted
        with pytest.raises(StartError, match="TIMESTAMP_NOT_FOUND"):
            log.position_of_time(times[-1] + 1)


def test_files_that_end_long_before_a_time_are_not_read(tmp_path: Path) -> None:
    """Damage in them does not matter."""
    times = timed_log(tmp_path / "log")
    path = tmp_path / "log" / "binlog-000000.ibb"
    content = bytearray(path.read_bytes())
    content[700] ^= 1
    path.write_bytes(content)
    with open_log(str(tmp_path / "log")) as log:
        assert times[50] - times[0] > CLOCK_SLACK_SECONDS
        assert log.position_of_time(times[50]).file_no > 3


def test_gtids_become_positions() -> None:
    path, _ = data_set("small")
    with open_log(str(path)) as log:
        groups = [group for group in read_groups(log) if group.gtid and group.gtid.startswith("0-1-")]
        last = str(log.gtid_position_at(log.end_position()))
        others = [gtid for gtid in last.split(",") if not gtid.startswith("0-")]
        part = ReadRange.of(log, ",".join(["0-1-9", *others]), "0-1-20")
        start, end = part.start, part.end
        inside = [group for group in groups if start is not None and end is not None and start <= group.position < end]
        assert [group.gtid for group in inside] == [f"0-1-{seqno}" for seqno in range(10, 21)]
        assert ReadRange.of(log, "0:2:0", "1:1:0") == ReadRange(Position(0, 2, 0), Position(1, 1, 0))
        for edges in ((None, "77-1-5"), ("77-1-5", None), ("0-1-2000", None)):
            with pytest.raises(StartError, match="GTID_NOT_FOUND"):
                ReadRange.of(log, *edges)
