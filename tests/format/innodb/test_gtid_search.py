"""Where reading goes on after GTIDs, and where the log ends: found with few reads, whatever the states leave out."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from binlog_format import DataLossError, Gtid, GtidPosition, Position, open_log
from binlog_format.events.layout import EventType
from binlog_format.innodb.reader import InnodbLog
from binlog_format.source_file import LocalDirectory
from binlog_lab.innodb_writer.options import WriterOptions
from binlog_lab.innodb_writer.server import BinlogWriter
from tests.chance import examples
from tests.format.gtid_orders import first_after
from tests.format.innodb.log_groups import ReadGroup, read_groups
from tests.format.innodb.test_corpus_manifests import DATA_SETS, data_set
from tests.format.innodb.test_large_groups import event, gtid_event

if TYPE_CHECKING:
    from pathlib import Path

    from binlog_format import Log
    from binlog_format.kernels import Bytes
    from binlog_format.source_file import SourceFile

FORMAT_DESCRIPTION = event(EventType.FORMAT_DESCRIPTION, 100)


def gtid_of(gtid: Gtid) -> bytes:
    data = bytearray(gtid_event(gtid.seqno))
    data[5:9] = gtid.server.to_bytes(4, "little")
    data[27:31] = gtid.domain.to_bytes(4, "little")
    return bytes(data)


def write(writer: BinlogWriter, gtid: Gtid, size: int = 200) -> None:
    writer.write_group(gtid, gtid_of(gtid), [event(EventType.QUERY, size)])


def check(log: Log, groups: list[ReadGroup], wanted: GtidPosition) -> None:
    """The place found is that of the first group that is not covered, and what is recorded to lie before it does."""
    found = log.position_of(wanted)
    first = first_after([group.gtid for group in groups], wanted)
    if first is None:
        assert read_groups(log, found.position) == []
        return
    assert found.position == groups[first].position
    before: dict[int, Gtid] = {}
    for group in groups[:first]:
        if group.gtid is not None:
            gtid = Gtid.parse(group.gtid)
            before[gtid.domain] = gtid
    assert isinstance(found.before, GtidPosition)
    # What the states forget (a restart, FLUSH ... DELETE_DOMAIN_ID) may be older there.
    assert found.before.last.keys() <= before.keys()
    if len(before) == 1 and len(wanted.last) == 1:
        assert found.before.last == before


class CountingDirectory(LocalDirectory):
    """Counts the pages that are read."""

    def __init__(self, path: str, page_size: int) -> None:
        super().__init__(path)
        self.page_size = page_size
        self.pages = 0

    def open(self, name: str) -> SourceFile:
        file = super().open(name)
        read = file.read_into

        def counted(offset: int, buffer: Bytes) -> int:
            size = read(offset, buffer)
            self.pages += max(-(-size // self.page_size), 1)
            return size

        file.read_into = counted  # type: ignore[method-assign]
        return file


@pytest.mark.parametrize("name", DATA_SETS)
def test_every_gtid_of_the_corpus_is_found(name: str) -> None:
    with open_log(str(data_set(name)[0])) as log:
        groups = read_groups(log)
        at_start = log.gtid_position_at(log.start_position())
        assert isinstance(at_start, GtidPosition)
        known: dict[int, Gtid] = dict(at_start.last)
        for number, group in enumerate(groups):
            if group.gtid is None:
                continue
            gtid = Gtid.parse(group.gtid)
            known[gtid.domain] = gtid
            if number % 7 == 0 or number > len(groups) - 5:
                check(log, groups, GtidPosition(dict(known)))
        check(log, groups, at_start)


@pytest.mark.parametrize("name", DATA_SETS)
def test_end_of_data_is_found_from_the_end(name: str) -> None:
    with open_log(str(data_set(name)[0])) as log:
        assert log.end_position() == log.span(log.start_position()).end


def test_gtid_in_a_thousand_files_is_found_with_few_reads(tmp_path: Path) -> None:
    options = WriterOptions(page_size=512, max_binlog_size=2048, state_interval=512, preallocate=False, sync=False)
    seqno = 0
    with BinlogWriter(tmp_path / "log", options) as writer:
        while writer.position.file_no < 1000:
            seqno += 1
            write(writer, Gtid(0, 1, seqno), 300)
    directory = CountingDirectory(str(tmp_path / "log"), 512)
    with InnodbLog(directory) as log:
        assert len(log.files()) == 1001
        for number in (1, 2, seqno // 3, seqno // 2, seqno - 1, seqno):
            directory.pages = 0
            found = log.position_of(GtidPosition.parse(f"0-1-{number}"))
            assert directory.pages < 200
            assert found.before == GtidPosition.parse(f"0-1-{number}")
            following = read_groups(log, found.position, Position(found.position.file_no + 2, 0, 0))
            assert not following or following[0].gtid == f"0-1-{number + 1}"
        directory.pages = 0
        end = log.end_position()
        assert directory.pages < 200
        assert end == log.span(Position(995, 1, 0)).end


def test_gtid_in_a_large_file_is_found_with_few_reads(tmp_path: Path) -> None:
    """Between two states only: pages of 16 KiB, a state every 16 pages, 6,000 pages.

    Not so in the newest file: no list states that it has no group of a domain that is not named.
    """
    options = WriterOptions(max_binlog_size=128 << 20, state_interval=16 << 14, preallocate=True, sync=False)
    with BinlogWriter(tmp_path / "log", options) as writer:
        for seqno in range(1, 12_001):
            write(writer, Gtid(0, 1, seqno), 8000)
        writer.flush_logs()
        write(writer, Gtid(0, 1, 12_001))
    directory = CountingDirectory(str(tmp_path / "log"), 16384)
    with InnodbLog(directory) as log:
        for number in (1, 500, 6001, 11_000, 11_999, 12_000, 12_001):
            directory.pages = 0
            found = log.position_of(GtidPosition.parse(f"0-1-{number}"))
            assert directory.pages < 150
            assert found.before == GtidPosition.parse(f"0-1-{number}")
        directory.pages = 0
        assert log.end_position() == found.position
        assert directory.pages < 100


def test_purged_gtid_is_named(tmp_path: Path) -> None:
    options = WriterOptions(page_size=512, max_binlog_size=4096, state_interval=512, preallocate=False, sync=False)
    with BinlogWriter(tmp_path / "log", options) as writer:
        for seqno in range(1, 200):
            write(writer, Gtid(0, 1, seqno))
    for number in range(5):
        (tmp_path / "log" / f"binlog-{number:06}.ibb").unlink()
    with open_log(str(tmp_path / "log")) as log:
        at_start = log.gtid_position_at(log.start_position())
        assert isinstance(at_start, GtidPosition)
        first = at_start.last[0].seqno
        assert str(log.position_of(GtidPosition.parse(f"0-1-{first}")).before) == f"0-1-{first}"
        for text in (f"0-1-{first - 1}", "1-1-999", ""):
            with pytest.raises(DataLossError) as raised:
                log.position_of(GtidPosition.parse(text))
            assert raised.value.condition == "BINLOG_DATA_LOSS.GTID_PURGED"
            assert f"0-1-{first}" in str(raised.value)


def test_domain_forgotten_by_the_states_of_a_restarted_server_is_found(tmp_path: Path) -> None:
    """After the restart the states of the file do not contain domain 1, which went on before it."""
    options = WriterOptions(page_size=512, max_binlog_size=1 << 20, state_interval=1024, preallocate=False, sync=False)
    with BinlogWriter(tmp_path / "log", options, format_description=FORMAT_DESCRIPTION) as writer:
        for seqno in range(1, 5):
            write(writer, Gtid(1, 1, seqno))
            write(writer, Gtid(0, 1, seqno))
        writer.flush_logs()
        for seqno in range(5, 40):
            write(writer, Gtid(1, 1, seqno))
            write(writer, Gtid(0, 1, seqno))
        writer.restart(FORMAT_DESCRIPTION)
        for seqno in range(40, 400):
            write(writer, Gtid(0, 1, seqno))
    for flushed in (False, True):
        if flushed:
            with BinlogWriter(tmp_path / "log", options, format_description=FORMAT_DESCRIPTION) as writer:
                writer.flush_logs()
                write(writer, Gtid(0, 1, 400))
        with open_log(str(tmp_path / "log")) as log:
            groups = read_groups(log)
            for domain_0 in (3, 4, 20, 39, 40, 100, 300, 399):
                for domain_1 in (3, 4, 5, 20, 38, 39):
                    check(log, groups, GtidPosition.parse(f"0-1-{domain_0},1-1-{domain_1}"))


def test_interval_in_bytes_and_empty_first_state_of_a_fresh_server(tmp_path: Path) -> None:
    """The header of file 0 names an interval that is longer than the file."""
    options = WriterOptions(
        page_size=512,
        max_binlog_size=65536,
        state_interval=2048,
        fresh_interval_in_bytes=True,
        preallocate=False,
        sync=False,
    )
    with BinlogWriter(tmp_path / "log", options) as writer:
        for seqno in range(1, 500):
            write(writer, Gtid(0, 1, seqno))
    with open_log(str(tmp_path / "log")) as log:
        assert [file.header["state_interval"] for file in log.files()][:2] == [2048, 4]
        groups = read_groups(log)
        for seqno in (1, 2, 3, 40, 200, 498, 499):
            check(log, groups, GtidPosition.parse(f"0-1-{seqno}"))
        check(log, groups, GtidPosition({}))


@settings(max_examples=examples(30), suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_any_gtids_of_any_log_are_found(data: st.DataObject, tmp_path_factory: object) -> None:
    """Domains, servers, restarts and FLUSH in any order: never a group after the first one that is needed."""
    assert isinstance(tmp_path_factory, pytest.TempPathFactory)
    directory = tmp_path_factory.mktemp("log")
    numbers = random.Random(data.draw(st.integers(0, 1 << 32)))
    page_size = data.draw(st.sampled_from([512, 1024, 4096]))
    options = WriterOptions(
        page_size=page_size,
        max_binlog_size=page_size * data.draw(st.sampled_from([4, 16, 64])),
        state_interval=page_size * data.draw(st.sampled_from([0, 1, 2, 8])),
        cache_size=8192,
        preallocate=False,
        sync=False,
    )
    seqnos = [0] * data.draw(st.integers(1, 3))
    with BinlogWriter(directory, options, format_description=FORMAT_DESCRIPTION) as writer:
        # Every domain is there from the start, as the servers of a replication are.
        steps = [*range(len(seqnos)), *(numbers.randrange(len(seqnos)) for _ in range(120))]
        for domain in steps:
            seqnos[domain] += 1
            gtid = Gtid(domain, numbers.choice([1, 1, 1, 2]), seqnos[domain])
            write(writer, gtid, numbers.choice([50, 300, 300, 9000]))
            if numbers.random() < 0.04:
                writer.restart(FORMAT_DESCRIPTION)
            if numbers.random() < 0.03:
                writer.flush_logs()
    with open_log(str(directory)) as log:
        groups = read_groups(log)
        assert log.end_position() == log.span(log.start_position()).end
        gtids = [Gtid.parse(group.gtid) for group in groups if group.gtid is not None]
        for _ in range(12):
            domains = [[gtid for gtid in gtids if gtid.domain == domain] for domain in range(len(seqnos))]
            check(log, groups, GtidPosition.of(numbers.choice(some) for some in domains))


def test_end_of_data_is_found_wherever_flush_begins_a_file(tmp_path: Path) -> None:
    """Also where the file before holds the rest of a record only, and the new one a GTID state only."""
    options = WriterOptions(page_size=512, max_binlog_size=2048, preallocate=False, sync=False)
    for count in range(1, 25):
        with BinlogWriter(tmp_path / str(count), options) as writer:
            for seqno in range(1, count + 1):
                write(writer, Gtid(0, 1, seqno), 300)
            writer.flush_logs()
        with open_log(str(tmp_path / str(count))) as log:
            assert log.end_position() == log.span(log.start_position()).end
