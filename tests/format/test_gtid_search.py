"""Where GTIDs are, in logs of any order of GTIDs: against plain loops over all groups, in both formats."""

from __future__ import annotations

import struct
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from binlog_format import DataLossError, Gtid, GtidPosition, StartError, open_log
from binlog_format.classic.reader import ClassicLog
from binlog_format.events.layout import EventType
from binlog_format.gtids.gtid_history import gtid_of
from binlog_format.log.log import ReadRange
from binlog_format.log.search import find_gtid
from binlog_lab.event_encoding.event_encoding import (
    Origin,
    encode_event,
    encode_format_description,
    encode_gtid,
    encode_query,
    encode_xid,
)
from binlog_lab.innodb_writer.options import WriterOptions
from binlog_lab.innodb_writer.server import BinlogWriter
from tests.chance import examples
from tests.format.classic.logs import MemoryDirectory, file_of, with_checksum
from tests.format.gtid_orders import (
    ANY_ORDER,
    GTIDS,
    ends_of,
    has_diverged,
    nearly_growing,
    rows_after,
    rows_before,
)
from tests.format.innodb.damage import PAGE_SIZE, copy_log
from tests.format.innodb.test_corpus_manifests import data_set
from tests.format.innodb.test_gtid_search import FORMAT_DESCRIPTION, write

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from binlog_format import Log, Position

NOW = 1_700_000_000
ORIGIN = Origin(NOW, 1)
ORDERS = ANY_ORDER | nearly_growing()
CUTS = st.lists(st.integers(0, 40), max_size=6)
SLOW = settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])


class GtidLists:
    """What a server keeps: the last GTID of each domain and server, in each domain the most recent one last."""

    def __init__(self) -> None:
        self._last: dict[int, dict[int, Gtid]] = {}

    def put(self, gtid: Gtid) -> None:
        servers = self._last.setdefault(gtid.domain, {})
        servers.pop(gtid.server, None)
        servers[gtid.server] = gtid

    def all(self) -> list[Gtid]:
        return [gtid for servers in self._last.values() for gtid in servers.values()]


def classic_log(gtids: Sequence[Gtid], cuts: Sequence[int]) -> ClassicLog:
    """A log whose files end before the groups of *cuts*."""
    borders = sorted({0, len(gtids), *(cut for cut in cuts if cut < len(gtids))})
    lists = GtidLists()
    files = {}
    for number, (first, end) in enumerate(pairwise(borders), 1):
        description = bytearray(encode_format_description("10.11.19-MariaDB-log", NOW, ORIGIN))
        description[-5] = 1  # CRC-32; its own checksum comes after it
        known = lists.all()
        listed = struct.pack("<I", len(known)) + b"".join(
            struct.pack("<IIQ", gtid.domain, gtid.server, gtid.seqno) for gtid in known
        )
        events = [bytes(description[:-4]), encode_event(EventType.MARIADB_GTID_LIST, listed, ORIGIN)]
        for gtid in gtids[first:end]:
            events += [encode_gtid(gtid, NOW), encode_query("BEGIN", ORIGIN), encode_xid(1, ORIGIN)]
            lists.put(gtid)
        files[f"mysql-bin.{number:06}"] = file_of(with_checksum(event) for event in events)
    return ClassicLog(MemoryDirectory(files))


def innodb_log(directory: Path, gtids: Sequence[Gtid], cuts: Sequence[int], restarts: Sequence[int]) -> None:
    options = WriterOptions(page_size=512, max_binlog_size=1 << 14, state_interval=512, preallocate=False, sync=False)
    with BinlogWriter(directory, options, format_description=FORMAT_DESCRIPTION) as writer:
        for row, gtid in enumerate(gtids):
            if row in cuts:
                writer.flush_logs()
            if row in restarts:
                writer.restart(FORMAT_DESCRIPTION)
            write(writer, gtid, 150)


def hide_all_but_the_header(file: Path, page_size: int) -> None:
    """As a server has it on the disk that has just begun it."""
    content = file.read_bytes()
    file.write_bytes(content[:page_size] + bytes(len(content) - page_size))


def listed(log: Log, start: Position | None = None) -> list[tuple[str | None, Position]]:
    found = []
    for block in log.blocks(start):
        for group in block.groups:
            gtid = gtid_of(group, block.gtid_sources)
            place = type(block.next_position)(int(group["file_no"]), int(group["page"]), int(group["chunk"]))
            found.append((None if gtid is None else str(gtid), place))
    return found


def read_rows(log: Log, part: ReadRange, places: Sequence[Position]) -> list[int]:
    """Rows of the groups with a GTID that a range gives."""
    found = []
    for block in part.stored_blocks(log):
        keep = part.groups.keep(block)
        for row, group in enumerate(block.groups):
            if group["has_gtid"] and (keep is None or keep[row]):
                place = type(block.next_position)(int(group["file_no"]), int(group["page"]), int(group["chunk"]))
                found.append(places.index(place))
    return found


def check_log(log: Log, strangers: Sequence[Gtid], draw: st.DataObject) -> None:
    """Every GTID is found, others are not; and reading goes on after, and ends with, positions made of any of them."""
    base = log.gtid_position_at(log.start_position())
    assert isinstance(base, GtidPosition)
    groups = listed(log)
    gtids, places = [gtid for gtid, _ in groups], [place for _, place in groups]
    for gtid in dict.fromkeys(gtid for gtid in gtids if gtid is not None):
        assert (gtid, find_gtid(log, Gtid.parse(gtid))) in groups
    for stranger in strangers:
        if str(stranger) not in gtids:
            with pytest.raises((StartError, DataLossError), match=r"GTID_NOT_FOUND|GTID_PURGED"):
                find_gtid(log, stranger)
    known = sorted({Gtid.parse(gtid) for gtid in gtids if gtid is not None} | set(base.last.values()))
    for _ in range(6):
        some = draw.draw(st.lists(st.sampled_from([*known, *strangers]), max_size=3))
        check_start(log, GtidPosition.of([*base.last.values(), *some]), base, gtids, places)
        check_end(log, GtidPosition.of(some), base, gtids, places)


def refusals(gtids: Sequence[str | None], wanted: GtidPosition, base: GtidPosition) -> str:
    """What may be raised: domains are looked at in any order."""
    named = ["BINLOG_START.GTID_NOT_FOUND.*another server's"] if has_diverged(gtids, wanted, base) else []
    return "|".join([*named, *(["GTID_PURGED"] if ends_of(gtids, wanted, base) is None else [])])


def check_start(
    log: Log, wanted: GtidPosition, base: GtidPosition, gtids: Sequence[str | None], places: Sequence[Position]
) -> None:
    ways = ends_of(gtids, wanted, base)
    if ways is None or has_diverged(gtids, wanted, base):
        with pytest.raises((StartError, DataLossError), match=refusals(gtids, wanted, base)):
            log.position_of(wanted)
        return
    found = log.position_of(wanted)
    rows = [rows_after(gtids, way) for way in ways]
    part = ReadRange(found.position, None, found.taken)
    assert read_rows(log, part, places) in rows
    firsts = {places[some[0]] if some else None for some in rows}
    assert found.position in firsts or (None in firsts and found.position > places[-1])


def check_end(
    log: Log, wanted: GtidPosition, base: GtidPosition, gtids: Sequence[str | None], places: Sequence[Position]
) -> None:
    ways = ends_of(gtids, wanted, base)
    if ways is None or has_diverged(gtids, wanted, base):
        with pytest.raises((StartError, DataLossError), match=refusals(gtids, wanted, base)):
            ReadRange.of(log, None, str(wanted))
        return
    if not wanted:
        return
    if any(row + 1 == len(gtids) and gtids[row] != str(wanted.last[domain]) for domain, row in ways[0].items()):
        with pytest.raises(StartError, match="GTID_NOT_FOUND"):
            ReadRange.of(log, None, str(wanted))
        return
    part = ReadRange.of(log, None, str(wanted))
    assert read_rows(log, part, places) in [rows_before(gtids, way) for way in ways]


@SLOW
@given(gtids=ORDERS, cuts=CUTS, purged=st.integers(0, 2), strangers=st.lists(GTIDS, max_size=3), data=st.data())
def test_gtids_of_classic_logs_are_found_in_any_order(
    gtids: list[Gtid], cuts: list[int], purged: int, strangers: list[Gtid], data: st.DataObject
) -> None:
    log = classic_log(gtids, cuts)
    directory = log._directory
    assert isinstance(directory, MemoryDirectory)
    for name in sorted(directory.files)[:-1][:purged]:
        del directory.files[name]
    check_log(log, strangers, data)


@SLOW
@given(
    gtids=ORDERS,
    cuts=CUTS,
    restarts=CUTS,
    purged=st.integers(0, 1),
    is_newest_hidden=st.booleans(),
    strangers=st.lists(GTIDS, max_size=3),
    data=st.data(),
)
def test_gtids_of_innodb_logs_are_found_in_any_order(
    gtids: list[Gtid],
    cuts: list[int],
    restarts: list[int],
    purged: int,
    is_newest_hidden: bool,
    strangers: list[Gtid],
    data: st.DataObject,
    tmp_path_factory: object,
) -> None:
    assert isinstance(tmp_path_factory, pytest.TempPathFactory)
    directory = tmp_path_factory.mktemp("log")
    innodb_log(directory, gtids, cuts, restarts)
    written = sorted(path for path in directory.glob("*.ibb") if path.read_bytes()[:512].strip(b"\0"))
    for path in written[:-1][:purged]:
        path.unlink()
    if is_newest_hidden and len(written) > 1 + purged:
        hide_all_but_the_header(written[-1], 512)
    with open_log(str(directory)) as log:
        check_log(log, strangers, data)


def test_what_follows_a_gtid_with_a_lower_number_is_read() -> None:
    """As `gtid_strict_mode=OFF` allows: after 0-1-575 the log goes on with 0-2-100."""
    gtids = [Gtid(0, 1, 574), Gtid(0, 1, 575), Gtid(0, 2, 100), Gtid(0, 1, 576)]
    log = classic_log(gtids, [])
    places = [place for _, place in listed(log)]
    assert read_rows(log, ReadRange.of(log, "0-1-575", None), places) == [2, 3]
    assert read_rows(log, ReadRange.of(log, None, "0-2-100"), places) == [0, 1, 2]
    assert read_rows(log, ReadRange.of(log, "0-1-575", "0-2-100"), places) == [2]


def test_every_group_of_a_log_with_numbers_that_go_back_is_found() -> None:
    with open_log(str(data_set("oltp")[0])) as log:
        groups = [(gtid, place) for gtid, place in listed(log) if gtid is not None]
        numbers = [Gtid.parse(gtid).seqno for gtid, _ in groups]
        assert numbers != sorted(numbers)
        for gtid, place in groups:
            assert find_gtid(log, Gtid.parse(gtid)) == place


def test_groups_before_a_newest_file_without_its_list_are_found(tmp_path: Path) -> None:
    directory = copy_log(data_set("oltp")[0], tmp_path / "log")
    hide_all_but_the_header(directory / "binlog-000003.ibb", PAGE_SIZE)
    with open_log(str(directory)) as log:
        groups = [(gtid, place) for gtid, place in listed(log) if gtid is not None]
        for gtid, place in groups:
            assert find_gtid(log, Gtid.parse(gtid)) == place
