"""The classic reader on real logs: groups, positions, rotation, torn ends, ranges."""

from __future__ import annotations

import shutil
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import pytest

from binlog_format import open_log
from binlog_format.block import EXTENT_DTYPE
from binlog_format.classic.layout import MAGIC_ENCRYPTED
from binlog_format.classic.reader import ClassicLog
from binlog_format.errors import BinlogError, CorruptError, DataLossError, StartError, UnsupportedError
from binlog_format.events.layout import EventType
from binlog_format.formats.directories import open_directory
from binlog_format.gtids.gtid import Gtid, GtidPosition
from binlog_format.gtids.gtid_search import GtidSearch
from binlog_format.log.search import end_of_gtids, find_gtid
from binlog_format.position import Position, byte_of
from binlog_format.source_file import LocalDirectory
from tests.format.classic.logs import (
    DECODED_CASES,
    MARIADB_CASES,
    MYSQL_CASES,
    OLTP_SMALL,
    as_tuple,
    case_path,
    decoded_gtids,
    groups_of,
    listed_event_counts,
    open_classic,
)

if TYPE_CHECKING:
    from pathlib import Path

_LISTED_NAMES = {EventType.XA_PREPARE: "XA_PREPARE", EventType.MARIADB_GTID: "MDB_GTID"}
_OUTSIDE_OF_GROUPS = ("FORMAT_DESC", "MDB_GTID_LIST", "PREVIOUS_GTIDS", "BINLOG_CHECKPOINT", "ROTATE", "STOP")
_WHOLE_CASES = [case for case in (*MARIADB_CASES, *MYSQL_CASES) if "torn" not in case]
_SMALL_CASES = [f"mariadb-10.11/{name}" for name in ("ops", "rotation", "hugeblob")]
_SMALL_CASES += [f"mysql-9/{name}" for name in ("ops", "ops_zstd", "rotation", "hugeblob")]
_SPLIT_CASES = [f"mariadb-10.11/{name}" for name in ("ops", "rotation", "oltp_small")]
_SPLIT_CASES += [f"mysql-9/{name}" for name in ("ops", "rotation", "oltp_small", "types_full")]


def copied(path: Path, to: Path) -> Path:
    """The binlog files of *path* in a folder of their own."""
    to.mkdir()
    for file in path.glob("mysql-bin.0*"):
        shutil.copy(file, to)
    return to


def test_committed_case_has_its_groups_in_order() -> None:
    groups = groups_of(open_classic(OLTP_SMALL).blocks())
    assert [group.gtid for group in groups] == [f"0-1011-{n}" for n in range(1, 310)]
    assert sum(len(group.events) for group in groups) == 4238


@pytest.mark.parametrize("case", DECODED_CASES)
def test_groups_are_those_that_the_server_decodes(case: str) -> None:
    expected = decoded_gtids(case)
    if case.endswith("torn"):
        assert expected.pop() == "0-1011-6"  # the killed transaction: its group has no end
    elif case.endswith("types_oldtemporal"):
        expected = [f"0-1011-{n}" for n in range(1, 41)]  # the decoder gives up at the first old TIME
    assert [group.gtid for group in groups_of(open_classic(case_path(case)).blocks())] == expected


@pytest.mark.parametrize("case", _WHOLE_CASES)
def test_all_events_of_groups_are_given(case: str) -> None:
    counts = Counter(
        _LISTED_NAMES.get(EventType(kind), EventType(kind).name)
        for group in groups_of(open_classic(case_path(case)).blocks())
        for kind in group.types
    )
    listed = listed_event_counts(case)
    for name in _OUTSIDE_OF_GROUPS:
        listed.pop(name, None)
    assert dict(counts) == listed


@pytest.mark.parametrize("case", _SMALL_CASES)
@pytest.mark.parametrize("block_size", [64, 700, 4096])
def test_small_blocks_give_the_same_groups(case: str, block_size: int) -> None:
    """Blocks smaller than a group, and than an event, give large groups in pieces."""
    whole = groups_of(open_classic(case_path(case)).blocks())
    assert groups_of(open_classic(case_path(case), block_size=block_size).blocks()) == whole


def test_torn_group_is_not_there_and_its_gtid_comes_again() -> None:
    """After the restart the lost transaction's GTID belongs to another one."""
    before = groups_of(open_classic(case_path("mariadb-10.11/torn")).blocks())
    after = groups_of(open_classic(case_path("mariadb-10.11/torn/after_recovery")).blocks())
    assert [group.gtid for group in before] == [f"0-1011-{n}" for n in range(1, 6)]
    assert after[:5] == before
    assert [(group.gtid, group.position[0]) for group in after[5:]] == [("0-1011-6", 4)]


def test_torn_end_with_groups_after_it_is_damage(tmp_path: Path) -> None:
    """A damaged size in a killed server's file cannot hide groups: the next file knows of them."""
    folder = copied(case_path("mariadb-10.11/torn/after_recovery"), tmp_path / "log")
    data = bytearray((folder / "mysql-bin.000003").read_bytes())
    data[342 + 9 + 3] = 0x20  # the size of the GTID event of 0-1011-5
    data[342 + 13 : 342 + 17] = bytes(4)
    (folder / "mysql-bin.000003").write_bytes(data)
    with pytest.raises(CorruptError, match="0-1011-5 was logged") as raised:
        list(open_classic(folder).blocks())
    assert raised.value.condition == "BINLOG_CORRUPT.BAD_EVENT"
    assert raised.value.at is not None
    assert raised.value.at.byte == 342


def test_cut_off_group_in_a_closed_file_is_damage(tmp_path: Path) -> None:
    folder = copied(case_path("mariadb-10.11/rotation"), tmp_path / "log")
    file = folder / "mysql-bin.000002"
    file.write_bytes(file.read_bytes()[:1230])
    with pytest.raises(CorruptError, match="its server closed"):
        list(open_classic(folder).blocks())


def test_positions_are_bytes_and_ranges_cut_the_log() -> None:
    log = open_classic(case_path("mariadb-10.11/rotation"))
    groups = groups_of(log.blocks())
    starts = [Position(*group.position) for group in groups]
    assert byte_of(starts[0]) == 328
    for i, start in enumerate(starts):
        assert groups_of(log.blocks(start=start)) == groups[i:]
        assert groups_of(log.blocks(end=start)) == groups[:i]
        assert groups_of(log.blocks(start, start)) == []


def test_next_positions_lead_through_the_log() -> None:
    """Reading block by block, each time from the last one's next position, gives everything once."""
    log = open_classic(case_path("mariadb-10.11/ops"), block_size=2000)
    whole = groups_of(log.blocks())
    position, taken = log.start_position(), []
    while True:
        blocks = []
        for block in log.blocks(position):
            blocks.append(block)
            if block.groups[-1]["ends"]:
                break
        if not blocks:
            break
        taken += groups_of(blocks)
        position = blocks[-1].next_position
    assert taken == whole


@pytest.mark.parametrize("case", _SPLIT_CASES)
def test_split_parts_give_the_whole(case: str) -> None:
    log = open_classic(case_path(case), block_size=16384)
    start = log.start_position()
    end = log.span(start).end
    whole = groups_of(log.blocks(start, end))
    for count in (1, 2, 5, 40):
        cuts = log.split(start, end, count)
        assert len(cuts) < count or count == 1
        assert cuts == sorted(set(cuts))
        borders = [start, *cuts, end]
        parts = [groups_of(log.blocks(*borders[i : i + 2])) for i in range(len(borders) - 1)]
        assert [group for part in parts for group in part] == whole
        if count > 1:
            assert all(parts)


@pytest.mark.parametrize("size_max", [1, 3000, 20_000])
def test_span_passes_whole_groups_up_to_a_size(size_max: int) -> None:
    log = open_classic(case_path("mariadb-10.11/ops"), block_size=4096)
    whole = groups_of(log.blocks())
    position, taken = log.start_position(), 0
    while taken < len(whole):
        span = log.span(position, size_max=size_max)
        read = groups_of(log.blocks(position, span.end))
        assert read == whole[taken : taken + span.groups]
        assert span.groups == 1 or (span.groups > 1 and span.size <= size_max)
        # Events between groups (binlog checkpoints, for example) are passed too; there are few.
        in_groups = sum(len(event) + 4 for group in read for event in group.events)
        assert in_groups <= span.size <= in_groups + 300
        last = {gtid.partition("-")[0]: gtid for gtid in (group.gtid for group in read)}
        assert str(span.gtids) == ",".join(last[domain] for domain in sorted(last, key=int))
        position, taken = span.end, taken + span.groups
    assert log.span(position).groups == 0


def test_gtid_position_at_every_group() -> None:
    """The list at the start of the second file has five GTIDs of four domains."""
    log = open_classic(case_path("mariadb-10.11/ops"))
    last: dict[str, str] = {}
    for group in groups_of(log.blocks()):
        expected = ",".join(last[domain] for domain in sorted(last, key=int))
        assert str(log.gtid_position_at(Position(*group.position))) == expected
        last[group.gtid.partition("-")[0]] = group.gtid


def test_find_gtid_finds_each_group() -> None:
    log = open_classic(case_path("mariadb-10.11/ops"))
    for group in groups_of(log.blocks()):
        assert as_tuple(find_gtid(log, Gtid.parse(group.gtid))) == group.position
    assert GtidSearch(log).find(Gtid.parse("0-1011-100000")) is None


def test_a_gtid_that_is_logged_while_it_is_looked_for_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    *_, last = groups_of(open_classic(OLTP_SMALL).blocks())
    (source,) = (path for path in OLTP_SMALL.iterdir() if path.name.endswith(f".{last.position[0]:06}"))
    growing, content = tmp_path / source.name, source.read_bytes()
    growing.write_bytes(content[: byte_of(Position(*last.position))])
    find = GtidSearch.find

    def find_and_grow(search: GtidSearch, gtid: Gtid) -> object:
        found = find(search, gtid)
        growing.write_bytes(content)
        return found

    monkeypatch.setattr(GtidSearch, "find", find_and_grow)
    end = end_of_gtids(open_classic(tmp_path), GtidPosition.parse(last.gtid))
    assert not end.missing
    assert end.position > Position(*last.position)


def test_read_extents_joins_event_bytes() -> None:
    log = open_classic(OLTP_SMALL)
    (block,) = log.blocks()
    events = block.events[5::7]
    extents = np.zeros(len(events), dtype=EXTENT_DTYPE)
    extents["file_no"] = 1
    extents["file_offset"] = events["start"] + block.extents["file_offset"][0]
    extents["size"] = events["size"]
    expected = b"".join(block.data[e["start"] : e["start"] + e["size"]].tobytes() for e in events)
    assert log.read_extents(extents).tobytes() == expected


def test_files_that_are_gone_record_no_gtids() -> None:
    log = open_classic(OLTP_SMALL)
    assert log.file_gtids([file for file in log.files() if file.file_no > 1_000]) == []


def test_files_tell_what_they_are() -> None:
    files = open_classic(case_path("mariadb-10.11/torn")).files()
    assert [(file.file_no, file.state) for file in files] == [(1, "full"), (2, "full"), (3, "active")]
    assert (files[2].size, files[2].used_size) == (195_847, 675)
    assert files[2].header["gtid_list"] == ["0-1011-4"]
    assert files[2].header["in_use"] is True
    assert str(files[0].header["server_version"]).startswith("10.11.")


def test_one_file_of_a_directory_is_read_alone() -> None:
    log = ClassicLog(*open_directory(str(OLTP_SMALL / "mysql-bin.000001")))
    assert len(groups_of(log.blocks())) == 309


def test_encrypted_log_is_named_with_its_key() -> None:
    with pytest.raises(UnsupportedError, match="version 1 of the key, scheme 1") as raised:
        list(open_classic(case_path("mariadb-10.11/encrypted")).blocks())
    assert raised.value.condition == "BINLOG_UNSUPPORTED.ENCRYPTED"
    assert raised.value.at is not None
    assert raised.value.at.byte == 256


def test_encrypted_magic_is_named_with_its_key(tmp_path: Path) -> None:
    key = b"MySQLReplicationKey_88ee60ec-e4d9-11f1-baee-02fc00000001_3"
    path = tmp_path / "binlog.000001"
    for head, said in (
        (b"\x01\x01" + bytes([len(key)]) + key, key.decode()),
        (b"\x01\x01\xff", "encrypted"),
        (b"", ""),
    ):
        path.write_bytes((MAGIC_ENCRYPTED + head).ljust(600, b"\0") if said else MAGIC_ENCRYPTED)
        for given in (str(tmp_path), str(path)):
            with pytest.raises(UnsupportedError, match=said or "encrypted") as raised:
                open_log(given)
            assert raised.value.condition == "BINLOG_UNSUPPORTED.ENCRYPTED"
        with pytest.raises(UnsupportedError, match=said or "encrypted"):
            open_classic(tmp_path)


def test_several_logs_in_a_directory_are_named(tmp_path: Path) -> None:
    source = OLTP_SMALL / "mysql-bin.000001"
    shutil.copy(source, tmp_path / "relay-bin.000007")
    shutil.copy(source, tmp_path / "mysql-bin.000001")
    (tmp_path / "aria_log.00000001").write_bytes(bytes(100))  # of another kind, though named like one
    with pytest.raises(StartError, match=r"mysql-bin\.\* and relay-bin\.\*"):
        open_classic(tmp_path)
    log = ClassicLog(LocalDirectory(str(tmp_path)), "mysql-bin.000001")
    assert len(groups_of(log.blocks())) == 309


def test_missing_file_in_the_middle_is_data_loss(tmp_path: Path) -> None:
    source = OLTP_SMALL / "mysql-bin.000001"
    for number in (3, 5):
        shutil.copy(source, tmp_path / f"mysql-bin.00000{number}")
    log = open_classic(tmp_path)
    with pytest.raises(DataLossError) as raised:
        list(log.blocks())
    assert raised.value.condition == "BINLOG_DATA_LOSS.FILE_PURGED"
    for position, condition in (
        (Position(2, 0, 4), "BINLOG_DATA_LOSS.FILE_PURGED"),
        (Position(6, 0, 4), "BINLOG_START.POSITION_NOT_FOUND"),
        (Position(5, 1000, 0), "BINLOG_START.POSITION_NOT_FOUND"),
    ):
        with pytest.raises(BinlogError) as caught:
            list(log.blocks(position))
        assert caught.value.condition == condition


def test_directory_without_binlog_files_is_named(tmp_path: Path) -> None:
    (tmp_path / "mysql-bin.index").write_text("mysql-bin.000001\n")
    (tmp_path / "mysql-bin.000001").write_bytes(b"")
    with pytest.raises(StartError) as raised:
        open_classic(tmp_path)
    assert raised.value.condition == "BINLOG_START.NO_LOG_FILES"
