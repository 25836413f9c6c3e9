"""The classic reader on logs of real MySQL servers: groups, GTIDs, positions, starts, searches, ranges."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from binlog_format import DataLossError, OptionError, Position, StartError, open_log
from binlog_format.errors import UnsupportedError
from binlog_format.events.layout import EventType
from binlog_format.gtids.gtid import Gtid
from binlog_format.gtids.gtid_history import gtids_of
from binlog_format.gtids.gtid_set import GtidPoint, GtidSet, MysqlGtid, parse_gtid
from binlog_format.log.log import ReadRange
from binlog_format.log.search import find_gtid
from binlog_format.position import byte_of
from binlog_format.vendor import Vendor
from binlog_format.views.columns import gtid_texts
from binlog_format.views.filters import GroupFilter
from tests.format.classic.logs import (
    MYSQL_CASES,
    OLTP_SMALL,
    Group,
    case_path,
    groups_of,
    open_classic,
)

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from binlog_format.block import Block
    from binlog_format.classic.reader import ClassicLog


A = "88ee60ec-e4d9-11f1-baee-02fc00000001"


def said_gtids(case: str) -> list[str]:
    """GTIDs in the order in which the server logged them, as it reported them itself."""
    if case.endswith("oltp_small"):
        return [f"{A}:{number}" for number in range(1, 310)]
    recovered = case.endswith("after_recovery")
    path = case_path(case.removesuffix("/after_recovery")) / "expected.json"
    gtids = [gtid for step in json.loads(path.read_text())["steps"] for gtid in step["gtids"]]
    if case.endswith("torn"):
        gtids.pop()  # of the transaction after the recovery; the killed one's is nowhere
    assert not recovered or len(gtids) == 6
    return gtids


def set_of(gtids: Iterable[str]) -> GtidSet:
    return GtidSet.parse(",".join(gtids))


def whole_log(case: str, *, block_size: int = 2 << 20) -> tuple[ClassicLog, list[Group]]:
    log = open_classic(case_path(case), block_size=block_size)
    return log, groups_of(log.blocks())


@pytest.mark.parametrize("case", MYSQL_CASES)
def test_groups_are_those_that_the_server_logged(case: str) -> None:
    _, groups = whole_log(case)
    assert [group.gtid for group in groups] == said_gtids(case)


@pytest.mark.parametrize("case", ["mysql-9/json_full", "mysql-9/ops", "mysql-9/ops_zstd", "mysql-9/rotation"])
def test_groups_stand_where_the_server_said(case: str) -> None:
    _, groups = whole_log(case)
    places = {group.gtid: (group.position[0], byte_of(Position(*group.position))) for group in groups}
    checked = 0
    for step in json.loads((case_path(case) / "expected.json").read_text())["steps"]:
        for gtid in step["gtids"]:
            file_no, byte = places[gtid]
            (name, before), (end_name, after) = step["pos"], step["end"]
            assert file_no == int(name.rpartition(".")[2])
            assert byte == before if len(step["gtids"]) == 1 else byte >= before
            assert end_name != name or byte < after
            checked += 1
    assert checked == len(groups)


def test_groups_begin_and_end_as_mysql_builds_them() -> None:
    """Statements are two events, transactions end in XID, COMMIT, XA_PREPARE or are a payload."""
    gtid_types = {EventType.GTID, EventType.GTID_TAGGED}
    for case in ("mysql-9/ops", "mysql-9/ops_zstd"):
        ends: Counter[tuple[str, bool]] = Counter()
        for group in whole_log(case)[1]:
            assert group.types[0] in gtid_types
            assert not gtid_types & set(group.types[1:])
            ends[EventType(group.types[-1]).name, group.types[1] == EventType.QUERY and len(group.types) == 2] += 1
        assert ends["QUERY", True] > 50
        assert ends["XID", False] + ends["TRANSACTION_PAYLOAD", False] > 90
        assert {name for name, _ in ends} <= {"QUERY", "XID", "XA_PREPARE", "TRANSACTION_PAYLOAD"}


@pytest.mark.parametrize("case", ["mysql-9/ops", "mysql-9/ops_zstd", "mysql-9/rotation"])
def test_reading_begins_and_ends_at_each_group(case: str) -> None:
    log, groups = whole_log(case)
    for i, start in enumerate(Position(*group.position) for group in groups):
        assert groups_of(log.blocks(start=start)) == groups[i:]
        assert groups_of(log.blocks(end=start)) == groups[:i]
        assert log.gtid_position_at(start) == set_of(group.gtid for group in groups[:i])


@pytest.mark.parametrize("size_max", [1, 3000, 20_000])
def test_span_passes_whole_groups_up_to_a_size(size_max: int) -> None:
    log, whole = whole_log("mysql-9/ops", block_size=4096)
    position, taken = log.start_position(), 0
    while taken < len(whole):
        span = log.span(position, size_max=size_max)
        assert groups_of(log.blocks(position, span.end)) == whole[taken : taken + span.groups]
        assert span.gtids == set_of(group.gtid for group in whole[taken : taken + span.groups])
        position, taken = span.end, taken + span.groups
    assert log.span(position).groups == 0


def test_sources_are_numbered_for_the_log_and_keep_their_numbers() -> None:
    log, groups = whole_log("mysql-9/ops", block_size=4096)
    numbers: dict[str, int] = {}
    texts = []
    for _ in range(2):
        for block in log.blocks():
            assert block.vendor is Vendor.MYSQL
            for row in block.groups:
                source = block.gtid_sources[row["gtid_source"]]
                assert numbers.setdefault(str(source), int(row["gtid_source"])) == row["gtid_source"]
                assert (row["domain"], row["gtid_flags"], bool(row["has_gtid"])) == (0, 0, True)
            texts += gtid_texts(block.groups[block.groups["begins"]], block.gtid_sources).to_pylist()
    assert list(numbers) == [
        A,
        "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee",
        f"{A}:tag_one",
        "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee:a_long_tag_of_32_characters_xyz",
    ]
    assert texts == 2 * [group.gtid for group in groups]
    (block,) = open_classic(OLTP_SMALL).blocks()
    assert (block.vendor, block.gtid_sources, set(block.groups["gtid_source"].tolist())) == (Vendor.MARIADB, (), {-1})


def taken_from(log: ClassicLog, gtids: GtidPoint) -> list[str]:
    """What a reader gets that has taken *gtids*."""
    start = log.position_of(gtids)
    assert not start.before.without(gtids)
    keep = GroupFilter(skip=start.taken)
    found: list[str] = []
    for block in log.blocks(start.position):
        found += gtid_texts(block.groups, block.gtid_sources).filter(keep.keep(block)).to_pylist()
    return found


def test_reading_goes_on_after_any_set() -> None:
    log, groups = whole_log("mysql-9/rotation")
    gtids = [group.gtid for group in groups]
    for i in range(len(gtids) + 1):
        assert taken_from(log, set_of(gtids[:i])) == gtids[i:]
        assert log.position_of(set_of(gtids[:i])).position.file_no >= (groups[i - 1].position[0] if i else 1)
    holes = [gtid for i, gtid in enumerate(gtids) if i % 3]
    assert taken_from(log, set_of(holes)) == gtids[::3]
    assert taken_from(log, set_of([*gtids[:9], "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee:1-5"])) == gtids[9:]


def test_start_before_the_first_file_names_what_is_missing(tmp_path: Path) -> None:
    for number in range(4, 10):
        shutil.copy(case_path("mysql-9/rotation") / f"mysql-bin.00000{number}", tmp_path)
    log = open_classic(tmp_path)
    assert str(log.gtid_position_at(log.start_position())) == f"{A}:1-5"
    assert taken_from(log, GtidSet.parse(f"{A}:1-6")) == [f"{A}:{number}" for number in range(7, 18)]
    with pytest.raises(DataLossError, match=f"{A}:4-5 has been purged") as raised:
        log.position_of(GtidSet.parse(f"{A}:1-3:6"))
    assert raised.value.condition == "BINLOG_DATA_LOSS.GTID_PURGED"
    with pytest.raises(DataLossError, match="GTID_PURGED"):
        log.position_of(GtidSet({}))
    with pytest.raises(DataLossError, match=rf"{A}:5 is older than the log, which begins after {A}:1-5"):
        find_gtid(log, parse_gtid(f"{A}:5"))


def test_every_gtid_and_time_is_found() -> None:
    for case in ("mysql-9/ops", "mysql-9/rotation"):
        log, groups = whole_log(case)
        for group in groups:
            assert find_gtid(log, parse_gtid(group.gtid)) == Position(*group.position)
        with pytest.raises(StartError, match="GTID_NOT_FOUND"):
            find_gtid(log, parse_gtid(f"{A}:9999"))
        with pytest.raises(OptionError, match="the log is of a MySQL server"):
            find_gtid(log, Gtid(0, 1, 5))
        assert log.position_of_time(0) == Position(*groups[0].position)
    with pytest.raises(OptionError, match="the log is of a MariaDB server"):
        find_gtid(open_classic(OLTP_SMALL), parse_gtid(f"{A}:9"))


def blocks_read(log: ClassicLog, part: ReadRange) -> tuple[list[Block], list[str]]:
    """The blocks of a range, and the GTIDs of the groups in them that it wants."""
    blocks = list(part.stored_blocks(log))
    texts: list[str] = []
    for block in blocks:
        keep = GroupFilter(part.skip, part.until).keep(block)
        assert keep is not None
        texts += gtid_texts(block.groups, block.gtid_sources).filter(keep).to_pylist()
    return blocks, texts


def test_ranges_are_given_as_sets_and_end_with_them() -> None:
    log, groups = whole_log("mysql-9/rotation")
    gtids = [group.gtid for group in groups]
    blocks, texts = blocks_read(log, ReadRange.of(log, f"{A}:1-3", f"{A.upper()}:1-9"))
    assert texts == gtids[3:9]
    assert blocks[-1].next_position.file_no < groups[-1].position[0]
    assert blocks_read(log, ReadRange.of(log, f"{A}:1-9", f"{A}:1-9")) == ([], [])
    with pytest.raises(StartError, match="START_AFTER_END"):
        ReadRange.of(log, f"{A}:1-9", f"{A}:1-3")
    assert blocks_read(log, ReadRange.of(log, None, f"{A}:5"))[1] == [gtids[4]]
    part = ReadRange.of(log, f"{A}:1-3", f"{A}:1-9")
    start, end = part.start, part.end
    assert start is not None
    assert end is not None
    assert [group.gtid for group in groups if start <= Position(*group.position) < end] == gtids[3:9]
    for edges in (("0-1-5", None), (None, "0-1-5")):
        with pytest.raises(OptionError, match="GTID position of MariaDB"):
            ReadRange.of(log, *edges)
    with pytest.raises(OptionError, match="has no numbers after it"):
        ReadRange.of(log, A, None)


def test_what_is_passed_adds_up_to_the_set_of_the_next_file() -> None:
    log, _ = whole_log("mysql-9/ops", block_size=4096)
    passed: GtidPoint = GtidSet({})
    for block in log.blocks(end=Position(2, 0, 4)):
        passed = passed.advanced_by(gtids_of(block.groups, block.gtid_sources))
    assert passed == log.gtid_position_at(Position(2, 0, 4))
    assert isinstance(passed, GtidSet)
    assert all(passed.covers(MysqlGtid(source, last[-1][1])) for source, last in passed.intervals.items())


def test_killed_server_s_file_is_cut_back_by_its_recovery() -> None:
    """The group that the crash tore has no end; read before the recovery or after it, it was never there."""
    _, before = whole_log("mysql-9/torn")
    _, after = whole_log("mysql-9/torn/after_recovery")
    assert after[:5] == before
    assert [(group.gtid, group.position[0]) for group in after[5:]] == [(f"{A}:6", 4)]
    file = open_classic(case_path("mysql-9/torn")).files()[-1]
    assert (file.state, file.size, file.used_size, file.header["in_use"]) == ("active", 28_672, 497, True)
    assert file.header["vendor"] == "mysql"
    assert file.header["gtid_list"] == [f"{A}:1-4"]


def test_files_of_two_vendors_are_no_log(tmp_path: Path) -> None:
    shutil.copy(case_path("mysql-9/rotation") / "mysql-bin.000001", tmp_path)
    shutil.copy(OLTP_SMALL / "mysql-bin.000001", tmp_path / "mysql-bin.000002")
    with (
        open_log(str(tmp_path)) as log,
        pytest.raises(UnsupportedError, match="of MariaDB, the files before it are of"),
    ):
        list(log.blocks())
