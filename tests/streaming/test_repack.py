"""Repacking real logs: what comes out of the `.ibb` log is what went in, whatever happens on the way."""

from __future__ import annotations

import random
import shutil
import struct
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from binlog_connector.following.watch import DirectoryWatch
from binlog_format import open_log
from binlog_format.errors import StartError, UnsupportedError
from binlog_format.events.layout import EventType
from binlog_format.innodb.reader import InnodbLog
from binlog_format.source_file import LocalDirectory
from binlog_lab.event_encoding.gtid_events import encode_gtid_event, parse_gtid_event
from binlog_lab.innodb_writer.options import WriterOptions
from binlog_lab.repack.repacker import Repacker, RepackProgress
from tests.corpus import SERVER_CASES
from tests.faults.processes import Killed
from tests.format.classic.logs import (
    MARIADB_CASES,
    OLTP_SMALL,
    Group,
    case_path,
    file_of,
    groups_of,
    open_classic,
    raw_events,
    with_checksum,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

# Small enough that most transactions of the cases go out of band, and groups run over page and file ends.
SMALL = WriterOptions(cache_size=4096, max_binlog_size=256 << 10, state_interval=32 << 10, sync=False)
PREPARED, COMPLETED, STANDALONE = 0x40, 0x80, 0x01
ROWS = frozenset({23, 24, 25, 166, 167, 168})

Packed = list[tuple[str, list[bytes]]]


def expected_groups(groups: list[Group]) -> Packed:
    """What the `.ibb` log must hold, told apart from the code under test: GTID and events of each group."""
    result: Packed = []
    prepared: dict[object, list[bytes]] = {}
    for group in groups:
        events = [plain(event) for event in group.events]
        head = parse_gtid_event(events[0])
        if head.flags & PREPARED:
            assert b"XA END" in events[-2]
            prepared[head.xa_name] = [*events[1:-2], query_text(events[-2], b"COMMIT")]
        elif head.flags & COMPLETED:
            rows = prepared.pop(head.xa_name)
            if b"XA COMMIT" in events[1]:
                flags = head.flags & ~(PREPARED | COMPLETED | STANDALONE)
                result.append((group.gtid, [encode_gtid_event(replace(head, flags=flags, xa_name=None)), *rows]))
        else:
            result.append((group.gtid, events))
    return result


def plain(event: bytes) -> bytes:
    """An event without checksum already; its size says so, and it has no place in a file."""
    return event[:9] + struct.pack("<II", len(event), 0) + event[17:]


def query_text(event: bytes, text: bytes) -> bytes:
    head = event[: event.rindex(b"XA END")]
    return plain(head + text)


def packed_groups(target: Path) -> Packed:
    """The groups with a GTID of an `.ibb` log."""
    log = InnodbLog(LocalDirectory(str(target)))
    groups = groups_of(log.blocks())
    return [(group.gtid, list(group.events)) for group in groups if group.types[0] == EventType.MARIADB_GTID]


def server_starts(target: Path) -> int:
    log = InnodbLog(LocalDirectory(str(target)))
    return sum(group.types == (EventType.FORMAT_DESCRIPTION,) for group in groups_of(log.blocks()))


def repack(
    source: Path,
    target: Path,
    options: WriterOptions = SMALL,
    *,
    block_size: int = 2 << 20,
    on_progress: Callable[[RepackProgress], None] | None = None,
) -> RepackProgress:
    log = open_classic(source, block_size=block_size)
    with Repacker(log, target, options, on_progress=on_progress) as repacker:
        repacker.run(threading.Event(), follow=False)
    return repacker.progress


def repack_until_killed(source: Path, target: Path, blocks: int, *, block_size: int) -> bool:
    """Repack *blocks* blocks, then lose what is in memory; False when the end came first."""
    left = blocks

    def count(_: RepackProgress) -> None:
        nonlocal left
        left -= 1
        if left <= 0:
            raise Killed

    repacker = Repacker(open_classic(source, block_size=block_size), target, SMALL, on_progress=count)
    try:
        repacker.run(threading.Event(), follow=False)
    except Killed:
        repacker.kill()
        return True
    repacker.close()
    return False


@pytest.fixture
def long_log(tmp_path: Path) -> Path:
    """A log of 3 files and some 1,800 transactions, none of them alike."""
    events = raw_events((OLTP_SMALL / "mysql-bin.000001").read_bytes())
    first = next(i for i, event in enumerate(events) if event[4] == EventType.MARIADB_GTID)
    folder = tmp_path / "long"
    folder.mkdir()
    seqno = 0
    for number in (1, 2, 3):
        content = [
            _listing(event, seqno) if event[4] == EventType.MARIADB_GTID_LIST else event for event in events[:first]
        ]
        for event in events[first:-1] * 2:
            if event[4] == EventType.MARIADB_GTID:
                seqno += 1
                event = event[:19] + struct.pack("<Q", seqno) + event[27:]
            content.append(event)
        (folder / f"mysql-bin.00000{number}").write_bytes(file_of(content))
    return folder


def _listing(gtid_list: bytes, seqno: int) -> bytes:
    """The list of a file before which all transactions to *seqno* were logged."""
    body = struct.pack("<IIIQ", 1, 0, 1011, seqno) if seqno else struct.pack("<I", 0)
    return with_checksum(gtid_list[:19] + body)


@pytest.mark.parametrize("case", MARIADB_CASES)
def test_repacked_log_has_the_same_groups(case: str, tmp_path: Path) -> None:
    expected = expected_groups(groups_of(open_classic(case_path(case)).blocks()))
    progress = repack(case_path(case), tmp_path / "ibb")
    packed = packed_groups(tmp_path / "ibb")
    assert [gtid for gtid, _ in packed] == [gtid for gtid, _ in expected]
    assert packed == expected
    assert progress.gtids.last
    rows = [event for _, events in packed for event in events if event[4] in ROWS]
    assert rows


@pytest.mark.parametrize("block_size", [64, 1000])
def test_groups_in_pieces_are_repacked_whole(block_size: int, tmp_path: Path) -> None:
    """XA groups too, which then have their end in another piece than their rows."""
    source = case_path("mariadb-10.11/ops")
    repack(source, tmp_path / "ibb", block_size=block_size)
    assert packed_groups(tmp_path / "ibb") == expected_groups(groups_of(open_classic(source).blocks()))


@pytest.mark.parametrize(("case", "starts"), [("rotation", 2), ("torn/after_recovery", 2), ("ops", 1)])
def test_each_server_start_is_there(case: str, starts: int, tmp_path: Path) -> None:
    """As a commit record with the Format_description event alone; rotation adds none."""
    repack(case_path(f"mariadb-10.11/{case}"), tmp_path / "ibb")
    assert server_starts(tmp_path / "ibb") == starts


def test_repack_again_writes_nothing_more(tmp_path: Path) -> None:
    repack(OLTP_SMALL, tmp_path / "ibb")
    files = {path.name: path.read_bytes() for path in (tmp_path / "ibb").iterdir()}
    progress = repack(OLTP_SMALL, tmp_path / "ibb")
    assert progress.groups == 0
    assert {path.name: path.read_bytes() for path in (tmp_path / "ibb").iterdir()} == files


@pytest.mark.thorough_where("rotation|^[13]")
@pytest.mark.parametrize("case", ["mariadb-10.11/ops", "mariadb-10.11/rotation", "mariadb-10.11/oltp_small"])
@pytest.mark.parametrize("seed", range(4))
def test_killed_repack_goes_on_where_it_was(case: str, seed: int, tmp_path: Path) -> None:
    """Killed again and again, at any block; XA transactions may be prepared, groups half written."""
    rng = random.Random(seed)
    source = case_path(case)
    kills = 0
    # Later runs live longer: one that is killed before it has filled a page leaves nothing.
    while repack_until_killed(
        source, tmp_path / "ibb", rng.randrange(1, 4 + kills), block_size=rng.choice([200, 900, 9000])
    ):
        kills += 1
    assert kills > 0
    assert packed_groups(tmp_path / "ibb") == expected_groups(groups_of(open_classic(source).blocks()))
    repack(source, tmp_path / "again")
    assert server_starts(tmp_path / "ibb") == server_starts(tmp_path / "again")


def test_lost_pages_are_written_again(tmp_path: Path, long_log: Path) -> None:
    """After a crash of the machine the end of the target may be missing: it is made anew, from there on."""
    expected = expected_groups(groups_of(open_classic(long_log).blocks()))
    rng = random.Random(7)
    for _ in range(8):
        repack(long_log, tmp_path / "ibb")
        assert packed_groups(tmp_path / "ibb") == expected
        files = sorted((tmp_path / "ibb").iterdir())
        last = next(path for path in reversed(files) if path.read_bytes().strip(b"\0"))
        pages = len(last.read_bytes().rstrip(b"\0")) // 16384 + 1
        with last.open("r+b") as file:
            start = rng.randrange(1, pages + 1) * 16384
            size = last.stat().st_size
            file.seek(start)
            file.write(bytes(size - start))


def test_source_grows_between_runs(tmp_path: Path) -> None:
    """Its last file is read on where it ended, in the middle of a file."""
    source = tmp_path / "classic"
    source.mkdir()
    whole = (OLTP_SMALL / "mysql-bin.000001").read_bytes()
    for size in (300, 5_000, 100_000, 100_001, 400_000, len(whole)):
        (source / "mysql-bin.000001").write_bytes(whole[:size])
        repack(source, tmp_path / "ibb")
        assert packed_groups(tmp_path / "ibb") == expected_groups(groups_of(open_classic(source).blocks()))


def test_purged_source_starts_with_what_its_files_say(tmp_path: Path) -> None:
    """The target's GTID state has the groups of the purged files, its data begins behind them."""
    source = tmp_path / "classic"
    source.mkdir()
    for number in (4, 5, 6):
        shutil.copy(case_path("mariadb-10.11/rotation") / f"mysql-bin.00000{number}", source)
    repack(source, tmp_path / "ibb")
    assert packed_groups(tmp_path / "ibb") == expected_groups(groups_of(open_classic(source).blocks()))
    log = InnodbLog(LocalDirectory(str(tmp_path / "ibb")))
    assert str(log.gtid_position_at(log.start_position())) == "0-1011-5"


def test_target_of_another_source_is_named(tmp_path: Path, long_log: Path) -> None:
    repack(long_log, tmp_path / "ibb")
    with pytest.raises(StartError) as raised:
        repack(OLTP_SMALL, tmp_path / "ibb")
    assert raised.value.condition == "BINLOG_START.GTID_NOT_FOUND"


def test_target_with_the_same_gtid_for_another_group_is_named(tmp_path: Path) -> None:
    """The same GTID at another time is another group: the source was begun anew."""
    repack(OLTP_SMALL, tmp_path / "ibb")
    source = tmp_path / "anew"
    source.mkdir()
    events = raw_events((OLTP_SMALL / "mysql-bin.000001").read_bytes())
    (source / "mysql-bin.000001").write_bytes(file_of([events[0], *(b"\1\0\0\0" + event[4:] for event in events[1:])]))
    with pytest.raises(StartError, match="made from another source"):
        repack(source, tmp_path / "ibb")


def test_xa_commit_without_its_prepare_is_named(tmp_path: Path) -> None:
    source = tmp_path / "classic"
    source.mkdir()
    events = raw_events((case_path("mariadb-10.11/ops") / "mysql-bin.000001").read_bytes())
    commit = next(i for i, event in enumerate(events) if event[4] == EventType.MARIADB_GTID and event[31] & COMPLETED)
    (source / "mysql-bin.000001").write_bytes(file_of([*events[:3], *events[commit : commit + 2]]))
    with pytest.raises(UnsupportedError) as raised:
        repack(source, tmp_path / "ibb")
    assert raised.value.condition == "BINLOG_UNSUPPORTED.XA_TRANSACTION"


@pytest.mark.parametrize("case", ["mariadb-10.11/ops", "mariadb-10.11/ops_compressed", "mariadb-10.11/oltp_small"])
def test_repacked_log_has_the_same_changes(tmp_path: Path, case: str) -> None:
    """XA transactions and savepoints as well: only places in files differ."""
    repack(SERVER_CASES / case, tmp_path / "ibb")
    packed = _changes(tmp_path / "ibb")
    assert packed == _changes(SERVER_CASES / case)
    assert len(packed) > 900


def _changes(path: Path) -> list[dict[str, object]]:
    with open_log(str(path)) as log:
        rows = [row for batch in log.changes() for row in batch.to_pylist()]
    for row in rows:
        del row["position"]
    return rows


def test_log_of_mysql_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=r"FORMAT\] .*a log of a MySQL server"):
        repack(SERVER_CASES / "mysql-9" / "oltp_small", tmp_path / "ibb")


def test_follow_takes_what_comes_and_stops(tmp_path: Path) -> None:
    """Each piece written to the source can be read from the target soon after, without the target being closed."""
    source, target = tmp_path / "classic", tmp_path / "ibb"
    source.mkdir()
    whole = (OLTP_SMALL / "mysql-bin.000001").read_bytes()
    path = source / "mysql-bin.000001"
    path.write_bytes(whole[:1000])
    stop = threading.Event()
    repacker = Repacker(open_classic(source), target, SMALL, checkpoint_seconds=0.01)
    thread = threading.Thread(target=repacker.run, args=(stop,), kwargs={"follow": True})
    thread.start()
    try:
        with DirectoryWatch(target) as watch:
            for size in (80_000, 300_000, len(whole)):
                with path.open("ab") as file:
                    file.write(whole[path.stat().st_size : size])
                expected = expected_groups(groups_of(open_classic(source).blocks()))
                deadline = time.monotonic() + 300
                while packed_groups(target) != expected:
                    assert time.monotonic() < deadline
                    assert thread.is_alive()
                    watch.wait(10)
    finally:
        stop.set()
        thread.join(300)
        repacker.close()
    assert not thread.is_alive()
