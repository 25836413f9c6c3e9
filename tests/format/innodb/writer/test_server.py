"""What a server does with its files: making, filling, cutting, deleting and taking them up again."""

from __future__ import annotations

import itertools
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from binlog_format.errors import OptionError
from binlog_format.gtids.gtid import Gtid
from binlog_lab.innodb_writer.options import WriterOptions
from binlog_lab.innodb_writer.server import BinlogWriter
from binlog_lab.innodb_writer.sessions import Xid
from tests.format.innodb.reference_reader import DUMMY, read_log
from tests.format.innodb.writer.sessions import gtid_event

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PAGE = 512
DATA = PAGE - 4
PAGES = 8
STATE_SIZE = 5  # the first page's state record, when it is empty
SMALL = WriterOptions(page_size=PAGE, max_binlog_size=PAGES * PAGE, state_interval=0, cache_size=100, sync=False)
COMMIT_HEAD = 4  # chunk header and the number 0


def _sizes(folder: Path) -> list[int]:
    return [path.stat().st_size // PAGE for path in sorted(folder.iterdir())]


def _page(folder: Path, file_no: int, page: int) -> bytes:
    return (folder / f"binlog-{file_no:06}.ibb").read_bytes()[page * PAGE : (page + 1) * PAGE]


def _fill(writer: BinlogWriter, free: int) -> None:
    """Write records until exactly *free* bytes are left in the page; 0: up to the page's very end."""
    room = DATA - writer.position.file_offset % PAGE
    while room - free < COMMIT_HEAD + 1:
        writer.raw_commit(b"f" * (room - COMMIT_HEAD) if room > COMMIT_HEAD else b"g" * 20)
        room = DATA - writer.position.file_offset % PAGE
    writer.raw_commit(b"f" * (room - free - COMMIT_HEAD))
    assert (DATA - writer.position.file_offset % PAGE) % DATA == free


def test_new_server_has_a_header_and_a_second_file_of_zeros(tmp_path: Path) -> None:
    writer = BinlogWriter(tmp_path, SMALL)
    assert _sizes(tmp_path) == [PAGES, PAGES]
    assert _page(tmp_path, 0, 0)[:4] == b"\xfe\xfe\x0d\x01"
    assert not any(_page(tmp_path, 0, 1))
    assert not any((tmp_path / "binlog-000001.ibb").read_bytes())
    writer.close()
    assert _page(tmp_path, 0, 1)[:5] == b"\x42\x02\0\0\0", "page 1 of file 0: an empty state"


def test_file_after_the_next_is_made_when_the_first_is_complete(tmp_path: Path) -> None:
    writer = BinlogWriter(tmp_path, SMALL)
    while len(list(tmp_path.iterdir())) == 2:
        writer.raw_commit(b"x" * 100)
    assert writer.position.file_no == 1
    assert all(any(_page(tmp_path, 0, page)) for page in range(PAGES))
    writer.kill()


def test_partial_page_is_rewritten_in_place_by_checkpoints_only(tmp_path: Path) -> None:
    writer = BinlogWriter(tmp_path, SMALL)
    seen: list[bytes] = []
    for _ in range(3):
        writer.raw_commit(b"x" * 30)
        assert _page(tmp_path, 0, 1) == (seen[-1] if seen else bytes(PAGE))
        writer.checkpoint()
        seen.append(_page(tmp_path, 0, 1))
    assert len(set(seen)) == 3
    for before, after in itertools.pairwise(seen):
        data = before[:-4].rstrip(b"\0")
        assert after[: len(data)] == data
    writer.kill()


@pytest.mark.parametrize(
    ("free", "pages_after"),
    [(200, 2), (4, 2), (3, 3), (1, 3), (0, 3)],
    ids=["middle", "dummy of one byte", "filler, then a page of dummy", "one byte of filler", "at a page's start"],
)
def test_flush_cuts_the_file_and_fills_it_with_a_dummy(free: int, pages_after: int, tmp_path: Path) -> None:
    """Wherever in its page the log ends: a dummy, filler before it, or a dummy page."""
    with BinlogWriter(tmp_path, SMALL) as writer:
        _fill(writer, free)
        writer.flush_logs()
        assert _sizes(tmp_path) == [pages_after, PAGES, PAGES]
        assert any(_page(tmp_path, 1, 0))
        assert not any(_page(tmp_path, 1, 1)), "the next file's first page waits"
    log = read_log(tmp_path)
    assert [kind for kind, file_no, _ in log.records if file_no == 0][-1] == DUMMY
    assert log.headers[0].page_count == PAGES, "the header is not corrected"
    last = _page(tmp_path, 0, pages_after - 1)
    assert last[-5] == 0xFF


def test_two_flushes_in_a_row_leave_a_file_of_two_pages(tmp_path: Path) -> None:
    with BinlogWriter(tmp_path, SMALL) as writer:
        writer.flush_logs()
        writer.flush_logs()
    assert _sizes(tmp_path) == [2, 2, PAGES, PAGES]


@pytest.mark.parametrize("free", [0, 3])
def test_flush_of_a_full_file_cuts_nothing(free: int, tmp_path: Path) -> None:
    """A server would fail here; the model goes on to the next file."""
    with BinlogWriter(tmp_path, SMALL) as writer:
        while writer.position.file_offset // PAGE < PAGES - 1:
            _fill(writer, 0)
        _fill(writer, free)
        writer.flush_logs()
        writer.raw_commit(b"x" * 20)
    log = read_log(tmp_path)
    assert _sizes(tmp_path)[0] == PAGES
    assert log.groups[-1].file_no == 1
    assert all(kind != DUMMY for kind, _, _ in log.records)


def test_flush_can_take_domains_out_of_the_state(tmp_path: Path) -> None:
    with BinlogWriter(tmp_path, SMALL) as writer:
        for domain in (3, 4):
            gtid = Gtid(domain, 1, 7)
            writer.write_group(gtid, gtid_event(gtid), [b"x"])
        writer.flush_logs([Gtid(3, 1, 7)])
        assert writer.gtids() == [Gtid(3, 1, 7)]
    assert read_log(tmp_path).states[-1].gtids == [(3, 1, 7)]


def test_restart_goes_on_at_the_same_byte(tmp_path: Path) -> None:
    with BinlogWriter(tmp_path, SMALL) as writer:
        writer.raw_commit(b"x" * 30)
        position = writer.position
        writer.event(1, b"open")
        writer.restart(b"d" * 25)
        assert writer.position == (0, position.file_offset + 25 + COMMIT_HEAD)
    assert [group.data for group in read_log(tmp_path).groups] == [b"x" * 30, b"d" * 25]


def test_restart_with_less_than_a_chunk_of_room_fills_the_page(tmp_path: Path) -> None:
    """On disk those bytes are zero until the next record comes."""
    with BinlogWriter(tmp_path, SMALL) as writer:
        _fill(writer, 2)
    assert _page(tmp_path, 0, 1)[-6:-4] == b"\0\0"
    with BinlogWriter(tmp_path, SMALL) as writer:
        writer.raw_commit(b"x")
    assert _page(tmp_path, 0, 1)[-6:-4] == b"\xff\xff"
    assert read_log(tmp_path).groups[-1].page == 2


def test_prepared_transaction_survives_restarts_and_its_files_purge(tmp_path: Path) -> None:
    xid = Xid(1, b"gtrid", b"bqual")
    with BinlogWriter(tmp_path, SMALL) as writer:
        writer.event(1, b"x" * 300)
        writer.xa_prepare(1, xid, engine_count=2)
        for _ in range(60):
            writer.raw_commit(b"y" * 200)
        writer.restart()
        assert writer.prepared_xids() == [xid]
        assert writer.purge(100) == []
        writer.xa_commit(xid, Gtid(0, 1, 1), gtid_event(Gtid(0, 1, 1)))
        while writer.position.file_no < 7:
            writer.raw_commit(b"y" * 200)
        assert writer.purge(5) == [0, 1, 2, 3, 4]
        with pytest.raises(KeyError):
            writer.xa_rollback(xid)
    headers = read_log(tmp_path).headers
    assert headers[6].xa_file_no is None
    assert headers[6].oob_file_no == 6


def test_empty_prepared_transaction_is_only_ended(tmp_path: Path) -> None:
    with BinlogWriter(tmp_path, SMALL) as writer:
        writer.xa_prepare(1, Xid(1, b"a"))
        with pytest.raises(ValueError, match="prepared already"):
            writer.xa_prepare(2, Xid(1, b"a"))
        writer.xa_commit(Xid(1, b"a"), Gtid(0, 1, 1), gtid_event(Gtid(0, 1, 1)))
        assert writer.gtids() == []
    assert read_log(tmp_path).groups == []


def test_reset_master_begins_anew_with_a_higher_lsn(tmp_path: Path) -> None:
    with BinlogWriter(tmp_path, SMALL) as writer:
        for _ in range(40):
            writer.raw_commit(b"y" * 200)
        lsn = max(header.lsn for header in read_log(tmp_path).headers.values())
        writer.reset_master([Gtid(0, 1, 1), Gtid(2, 1, 5)])
        assert _sizes(tmp_path) == [PAGES, PAGES]
    log = read_log(tmp_path)
    assert log.groups == []
    assert log.headers[0].lsn > lsn
    assert log.states[0].gtids == [(0, 1, 1), (2, 1, 5)]


def test_reset_master_is_refused_while_a_transaction_has_data_in_the_log(tmp_path: Path) -> None:
    with BinlogWriter(tmp_path, SMALL) as writer:
        writer.piece(1, b"x" * 40)
        with pytest.raises(ValueError, match="a transaction is open"):
            writer.reset_master()
        writer.rollback(1)
        writer.reset_master()


def test_reset_master_leaves_no_format_description(tmp_path: Path) -> None:
    """The header is on disk at once, a Format_description comes with the next start."""
    with BinlogWriter(tmp_path, SMALL, format_description=b"d" * 40) as writer:
        writer.flush_logs()
        writer.reset_master()
        assert _page(tmp_path, 0, 0)[:1] != b"\0"
        assert not any(_page(tmp_path, 0, 1))
        writer.checkpoint()
        assert read_log(tmp_path).groups == []
        writer.restart(b"e" * 40)
    assert [group.data for group in read_log(tmp_path).groups] == [b"e" * 40]


def test_reset_master_does_not_mind_a_count_that_was_never_released(tmp_path: Path) -> None:
    """A file's counter can stay up after its transaction has ended; nothing is open then."""
    with BinlogWriter(tmp_path, SMALL) as writer:
        while writer.position.file_offset != PAGES * PAGE:
            _fill(writer, 0)
        writer.piece(1, b"x" * 40)
        writer.commit(1, Gtid(0, 1, 1), gtid_event(Gtid(0, 1, 1)))
        writer.flush_logs()
        assert read_log(tmp_path).headers[2].oob_file_no == 0
        writer.reset_master()
        assert _sizes(tmp_path) == [PAGES, PAGES]


def test_purge_keeps_what_somebody_needs(tmp_path: Path) -> None:
    """The active file, the files of open transactions, what replicas read and what their files refer to."""
    with BinlogWriter(tmp_path, SMALL) as writer:
        for _ in range(3):
            writer.flush_logs()
        writer.piece(1, b"x" * 40)
        writer.flush_logs()  # the header of file 4 refers to file 3
        writer.rollback(1)
        writer.flush_logs()
        assert read_log(tmp_path).headers[4].oob_file_no == 3
        assert writer.purge(100, replica_file_nos=[2]) == [0, 1]
        assert writer.purge(100, replica_file_nos=[4]) == [2]
        writer.piece(1, b"x" * 40)
        assert writer.purge(4) == [3]
        writer.flush_logs()
        assert writer.purge(100) == [4]
        writer.rollback(1)
        assert writer.purge(100, is_automatic=True) == []
        assert writer.purge(100) == [5]
        assert writer.purge(100) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["binlog-000006.ibb", "binlog-000007.ibb"]


def test_flush_may_come_between_a_transaction_and_its_commit(tmp_path: Path) -> None:
    """Out-of-band records in one file, the commit record in a later one."""
    event = gtid_event(Gtid(0, 1, 1))
    with BinlogWriter(tmp_path, SMALL) as writer:
        writer.piece(1, b"x" * 700)
        writer.flush_logs()
        writer.flush_logs()
        writer.piece(1, b"y" * 30)
        writer.commit(1, Gtid(0, 1, 1), event)
    (group,) = read_log(tmp_path).groups
    assert (group.file_no, group.data) == (2, event + b"x" * 700 + b"y" * 30)


def test_only_first_gtid_is_left_out_of_the_first_state(tmp_path: Path) -> None:
    """A full state of file 0 with one GTID of number 1 is written as empty."""
    with BinlogWriter(tmp_path, SMALL, gtids=[Gtid(0, 1, 1)]):
        pass
    assert read_log(tmp_path).states[0].gtids == []


def test_fresh_server_may_write_its_interval_in_bytes(tmp_path: Path) -> None:
    """The first file has no differential states then, the second one is right."""
    options = WriterOptions(
        page_size=PAGE, max_binlog_size=PAGES * PAGE, state_interval=2 * PAGE, sync=False, fresh_interval_in_bytes=True
    )
    with BinlogWriter(tmp_path, options) as writer:
        while writer.position.file_no < 2:
            writer.raw_commit(b"y" * 200)
    log = read_log(tmp_path)
    assert [log.headers[file_no].interval for file_no in (0, 1)] == [2 * PAGE, 2]
    assert [state.page for state in log.states if state.file_no == 0] == [1]
    assert [state.page for state in log.states if state.file_no == 1] == [1, 2, 4, 6]


def test_header_keeps_a_file_that_was_counted_and_not_released(tmp_path: Path) -> None:
    """A first out-of-band record after the end of a full file is counted in one, released in the next."""
    with BinlogWriter(tmp_path, SMALL) as writer:
        while writer.position.file_offset // PAGE < PAGES:
            _fill(writer, 0)
        gtid = Gtid(0, 1, 1)
        writer.piece(1, b"x" * 40)
        writer.commit(1, gtid, gtid_event(gtid))
        while writer.position.file_no < 3:
            writer.raw_commit(b"y" * 200)
        writer.restart()
        while writer.position.file_no < 4:
            writer.raw_commit(b"y" * 200)
    headers = read_log(tmp_path).headers
    assert [headers[file_no].oob_file_no for file_no in range(5)] == [0, 0, 0, 0, 4]


def test_another_page_size_is_refused(tmp_path: Path) -> None:
    BinlogWriter(tmp_path, SMALL).close()
    with pytest.raises(OptionError, match="has pages of 512 bytes"):
        BinlogWriter(tmp_path, WriterOptions(page_size=1024, max_binlog_size=1 << 14, state_interval=0))


@pytest.mark.parametrize(
    "make",
    [
        lambda: WriterOptions(page_size=1000),
        lambda: WriterOptions(page_size=256),
        lambda: WriterOptions(state_interval=3 * 16384),
        lambda: WriterOptions(state_interval=100),
        lambda: WriterOptions(cache_size=0),
    ],
    ids=["page size 1000", "page size 256", "interval 3 pages", "interval 100", "no cache"],
)
def test_settings_that_no_server_takes_are_refused(make: Callable[[], WriterOptions]) -> None:
    with pytest.raises(OptionError) as error:
        make()
    assert error.value.condition == "BINLOG_OPTION.INVALID_VALUE"


WRITE_ON = """
import sys
from pathlib import Path
from binlog_format.gtids.gtid import Gtid
from binlog_lab.innodb_writer.options import WriterOptions
from binlog_lab.innodb_writer.server import BinlogWriter
from tests.format.innodb.writer.sessions import gtid_event

writer = BinlogWriter(Path(sys.argv[1]), WriterOptions(max_binlog_size=1 << 20, sync=False))
number = max((gtid.seqno for gtid in writer.gtids()), default=0)
for number in range(number + 1, number + 4000):
    writer.write_group(Gtid(0, 1, number), gtid_event(Gtid(0, 1, number)), [b"x" * (number * 371 % 40000 + 1)])
    if number % 40 == 0:
        writer.checkpoint()
        print(number, flush=True)
"""


def test_killed_process_leaves_whole_groups_and_another_one_goes_on(tmp_path: Path) -> None:
    """kill -9, three times; what was checkpointed is there, and no number is missing or there twice."""
    reached = 0
    for _ in range(3):
        with subprocess.Popen(
            [sys.executable, "-c", WRITE_ON, str(tmp_path)], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            for _ in range(3):
                reached = int(process.stdout.readline())
            process.kill()
        # A page may be torn: the kernel stops copying between two pages of its own. The next start repairs that.
        BinlogWriter(tmp_path, WriterOptions(max_binlog_size=1 << 20, sync=False)).close()
        log = read_log(tmp_path)
        assert [int.from_bytes(group.data[19:27], "little") for group in log.groups] == list(
            range(1, len(log.groups) + 1)
        )
        assert len(log.groups) >= reached
