from __future__ import annotations

import shutil
from contextlib import closing
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from binlog_connector.following.decision import Decision
from binlog_connector.following.log_end import end_of_log
from binlog_connector.following.offsets import SourceOffset
from binlog_connector.following.resume import compare
from binlog_connector.following.watched import WatchedLog
from binlog_format.gtids.gtid import Gtid
from binlog_format.innodb.layout import PAGE_CHECKSUM_SIZE
from binlog_format.position import Position
from binlog_lab.event_encoding.event_encoding import (
    Origin,
    encode_format_description,
    encode_gtid,
    encode_query,
    encode_xid,
)
from binlog_lab.innodb_writer.options import WriterOptions
from binlog_lab.innodb_writer.server import BinlogWriter
from tests.connector.shop import Shop
from tests.corpus import SERVER_CASES, corpus

if TYPE_CHECKING:
    from pathlib import Path

CLASSIC_CASE = SERVER_CASES / "mariadb-10.11" / "oltp_small"
FORMAT_DESCRIPTION = encode_format_description("12.3.1-MariaDB-log", 1, Origin(1, 1))
SMALL_FILES = 4 * 16384


def end(directory: Path) -> SourceOffset:
    """The offset of a query that has read everything, as its checkpoint gives it back."""
    with WatchedLog(str(directory)) as watched:
        return SourceOffset.from_json(end_of_log(watched).to_json())


def decide(directory: Path, offset: SourceOffset) -> Decision:
    with WatchedLog(str(directory)) as watched:
        return compare(watched, offset)


def loss(directory: Path, offset: SourceOffset) -> tuple[str, str]:
    """Name and text of what is lost."""
    decision = decide(directory, offset)
    assert decision.loss is not None, decision.reason
    assert "\n" not in str(decision.loss)
    return decision.loss.subclass, str(decision.loss)


def write_note(writer: BinlogWriter, seqno: int, size: int) -> None:
    origin, gtid = Origin(1, 1), Gtid(0, 1, seqno)
    events = [encode_query(f"INSERT INTO t VALUES ('{'x' * size}')", origin), encode_xid(seqno, origin)]
    writer.write_group(gtid, encode_gtid(gtid, 1), events)
    writer.checkpoint()


def go_back(directory: Path, backup: Path) -> None:
    shutil.rmtree(directory)
    shutil.copytree(backup, directory)


def test_log_that_only_grew_is_the_same(tmp_path: Path) -> None:
    """Also in the page that the offset lies in, whose checksum is then another."""
    with Shop(tmp_path) as shop:
        shop.sell(3)
        offset = end(tmp_path)
        assert decide(tmp_path, offset) == Decision(offset, "what was consumed is still there")
        for count in (1, 30, 300):
            shop.sell(count)
            assert decide(tmp_path, offset).loss is None


def test_last_bytes_of_a_page_without_room_for_a_chunk_were_not_read(tmp_path: Path) -> None:
    """The server fills them when it goes on, which may be after all of the page was read."""
    unfilled = 0
    for size in range(60, 160):
        directory = tmp_path / str(size)
        directory.mkdir()
        options = WriterOptions(page_size=512, max_binlog_size=8192, state_interval=0, sync=False)
        with closing(BinlogWriter(directory, options, format_description=FORMAT_DESCRIPTION)) as writer:
            write_note(writer, 1, size)
            offset = end(directory)
            page = (directory / "binlog-000000.ibb").read_bytes()[512:1024]
            unfilled += offset.position.chunk == 0 and page[-PAGE_CHECKSUM_SIZE - 1] == 0
            write_note(writer, 2, 1)
            assert decide(directory, offset).loss is None
    assert unfilled


def test_restarted_server_goes_on_after_what_was_consumed(tmp_path: Path) -> None:
    with Shop(tmp_path) as shop:
        shop.sell(3)
    offset = end(tmp_path)
    with Shop(tmp_path) as shop:
        shop.sell(3)
    assert decide(tmp_path, offset).loss is None


def test_purged_file_names_the_missing_transactions(tmp_path: Path) -> None:
    with Shop(tmp_path, files_of=SMALL_FILES) as shop:
        shop.sell(3)
        offset = end(tmp_path)
        shop.sell(400)
        shop.writer.purge(2)
        name, text = loss(tmp_path, offset)
        decision = decide(tmp_path, offset)
    assert name == "FILE_PURGED"
    assert "file 0 was purged" in text
    assert "after GTID 0-11-3 up to 0-11-" in text
    assert decision.offset.position.file_no == 2


def test_file_purged_after_it_was_read_to_its_end_is_no_loss(tmp_path: Path) -> None:
    with Shop(tmp_path) as shop:
        shop.sell(3)
        offset = end(tmp_path)
        assert offset.position.file_no == 0
        shop.writer.flush_logs()
        shop.sell(3)
        shop.writer.flush_logs()
        shop.writer.purge(1)
        decision = decide(tmp_path, offset)
    assert decision.loss is None
    assert decision.offset.position.file_no == 1
    assert decision.reason == "file 0 was purged after all of it had been read"


def test_missing_file_in_the_middle_is_a_purged_one(tmp_path: Path) -> None:
    with Shop(tmp_path, files_of=SMALL_FILES) as shop:
        shop.sell(3)
        while shop.writer.position.file_no < 1:
            shop.sell()
        offset = end(tmp_path)
        while shop.writer.position.file_no < 3:
            shop.sell()
    (tmp_path / "binlog-000001.ibb").unlink()
    name, text = loss(tmp_path, offset)
    assert (name, offset.position.file_no) == ("FILE_PURGED", 1)
    assert "file 1 is gone, but there are files before and after it" in text


@pytest.mark.parametrize("file_no", [0, 2])
def test_reset_log_is_recognised(tmp_path: Path, file_no: int) -> None:
    with Shop(tmp_path, files_of=SMALL_FILES) as shop:
        shop.sell()
        while shop.writer.position.file_no < file_no:
            shop.sell()
        offset = end(tmp_path)
        shop.writer.reset_master()
        shop.sell(3)
        name, text = loss(tmp_path, offset)
    assert (name, offset.position.file_no) == ("LOG_RESET", file_no)
    assert "RESET MASTER" in text


def test_reset_log_that_has_grown_again_is_recognised(tmp_path: Path) -> None:
    with Shop(tmp_path, files_of=SMALL_FILES) as shop:
        while shop.writer.position.file_no < 1:
            shop.sell()
        offset = end(tmp_path)
        shop.writer.reset_master()
        while shop.writer.position.file_no < 2:
            shop.sell()
        assert loss(tmp_path, offset)[0] == "LOG_RESET"


def test_page_with_other_transactions_after_a_crash_is_recognised(tmp_path: Path) -> None:
    log, before = tmp_path / "log", tmp_path / "before"
    with Shop(log) as shop:
        shop.sell(3)
        shutil.copytree(log, before)
        shop.sell(2, note="lost in the crash")
    offset = end(log)
    go_back(log, before)
    with Shop(log) as shop:
        shop.sell(5, note="written after the crash, with the same GTIDs")
    name, text = loss(log, offset)
    assert name == "PAGE_REWRITTEN"
    assert "binlog-000000.ibb: page 1: the page was written again" in text
    assert f"stored {offset.last_page_crc:#010x}, computed 0x" in text
    assert decide(log, offset).offset.skip_gtid == offset.gtid


def test_transactions_that_vanished_in_a_crash_are_recognised(tmp_path: Path) -> None:
    log, before = tmp_path / "log", tmp_path / "before"
    with Shop(log) as shop:
        shop.sell(3)
        shutil.copytree(log, before)
        shop.sell(2)
    offset = end(log)
    go_back(log, before)
    name, text = loss(log, offset)
    assert name == "TRUNCATED_TRANSACTION"
    assert (
        f"read up to {offset.position}, but ends before that now: read up to GTID 0-11-5, the last one there is" in text
    )
    assert decide(log, offset).offset == end(log)


def test_file_that_vanished_in_a_crash_is_recognised(tmp_path: Path) -> None:
    log, before = tmp_path / "log", tmp_path / "before"
    with Shop(log, files_of=SMALL_FILES) as shop:
        shop.sell(3)
        shutil.copytree(log, before)
        while shop.writer.position.file_no < 1:
            shop.sell()
    offset = end(log)
    go_back(log, before)
    assert (loss(log, offset)[0], offset.position.file_no) == ("TRUNCATED_TRANSACTION", 1)
    assert decide(log, offset).offset == end(log)


def test_file_written_anew_after_a_crash_is_recognised(tmp_path: Path) -> None:
    log, before = tmp_path / "log", tmp_path / "before"
    with Shop(log, files_of=SMALL_FILES) as shop:
        shop.sell(3)
        shutil.copytree(log, before)
        while shop.writer.position.file_no < 1:
            shop.sell(note="first")
    offset = end(log)
    go_back(log, before)
    with Shop(log, files_of=SMALL_FILES) as shop:
        while shop.writer.position.file_no < 2:
            shop.sell(note="another history")
    name, text = loss(log, offset)
    assert name == "FILE_REUSED"
    assert f"binlog-000001.ibb: this is not the file that was read before: identity stored {offset.fingerprint}" in text


def test_log_of_another_format_is_another_log(tmp_path: Path) -> None:
    with Shop(tmp_path) as shop:
        shop.sell()
    name, text = loss(CLASSIC_CASE, end(tmp_path))
    assert name == "FORMAT_CHANGED"
    assert "the log was innodb when this query read it, and is classic now" in text


def test_position_given_by_a_user_has_nothing_to_compare(tmp_path: Path) -> None:
    with Shop(tmp_path) as shop:
        shop.sell()
    assert decide(tmp_path, SourceOffset(Position(0, 1, 0))).loss is None


@pytest.fixture
def classic(tmp_path: Path) -> Path:
    shutil.copytree(CLASSIC_CASE, tmp_path / "classic")
    return tmp_path / "classic"


def edit(directory: Path, byte: int, flip: int) -> None:
    with (directory / "mysql-bin.000001").open("r+b") as file:
        file.seek(byte)
        value = file.read(1)[0]
        file.seek(byte)
        file.write(bytes([value ^ flip]))


def test_closing_a_classic_file_changes_nothing_that_was_consumed(classic: Path) -> None:
    """The server clears a flag in the file's first event then."""
    offset = end(classic)
    first_page = SourceOffset(Position(1, 0, 5000), format="classic", fingerprint=offset.fingerprint)
    with WatchedLog(str(classic)) as watched:
        crc = watched.consumed_crc(first_page.position)
    edit(classic, 4 + 17, 1)
    with WatchedLog(str(classic)) as watched:
        assert watched.consumed_crc(first_page.position) == crc
    assert decide(classic, offset).loss is None


def test_classic_file_with_other_bytes_is_recognised(classic: Path) -> None:
    offset = end(classic)
    byte = offset.position.page * 16384 + offset.position.chunk - 1
    edit(classic, byte, 0x10)
    name, text = loss(classic, offset)
    assert name == "PAGE_REWRITTEN"
    assert "mysql-bin.000001" in text


def test_shorter_classic_file_is_recognised(classic: Path) -> None:
    offset = end(classic)
    file = classic / "mysql-bin.000001"
    with file.open("r+b") as opened:
        opened.truncate(file.stat().st_size // 2)
    assert loss(classic, offset)[0] == "TRUNCATED_TRANSACTION"


@pytest.mark.parametrize(
    ("read", "now", "lost"),
    [
        ("a_before", "b_seen_by_tailer", None),
        ("a_before", "c_after_recovery", None),
        ("b_seen_by_tailer", "c_after_recovery", "TRUNCATED_TRANSACTION"),
        ("b_seen_by_tailer", "d_later", "TRUNCATED_TRANSACTION"),
        ("b_seen_by_tailer", ".", "TRUNCATED_TRANSACTION"),
        ("c_after_recovery", ".", None),
    ],
)
def test_crash_of_the_corpus(read: str, now: str, lost: str | None) -> None:
    views = corpus("innodb-binlog") / "innodb-binlog" / "crash"
    decision = decide(views / now, end(views / read))
    assert (decision.loss.subclass if decision.loss else None) == lost
    if lost:
        assert "read up to GTID 0-1-180, the last one there is 0-1-" in str(decision.loss)


def test_live_log_of_the_corpus_only_grows() -> None:
    steps = sorted((corpus("innodb-binlog") / "innodb-binlog" / "live").glob("step*"))
    assert len(steps) > 10
    for before, after in pairwise(steps):
        assert decide(after, end(before)).loss is None
