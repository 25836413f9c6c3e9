"""A crash takes the log back to where its redo was durable: to exactly the files of a server that wrote no more."""

from __future__ import annotations

import contextlib
import dataclasses
import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from binlog_format.gtids.gtid import Gtid
from binlog_format.innodb.pages.checksum import page_checksum, stored_checksum
from binlog_lab.innodb_writer import files
from binlog_lab.innodb_writer.options import RedoSync, WriterOptions
from binlog_lab.innodb_writer.server import BinlogWriter
from binlog_lab.innodb_writer.sessions import Xid
from tests.chance import examples
from tests.faults.writer_os import Crashed, LossyOs
from tests.format.innodb.reference_reader import read_log
from tests.format.innodb.writer.sessions import (
    Driver,
    Operation,
    gtid_event,
    operations,
    operations_with_crashes,
    options,
)

slow_examples = settings(
    max_examples=examples(150), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)

SMALL = WriterOptions(
    page_size=512, max_binlog_size=1 << 13, state_interval=1 << 10, sync=False, redo_sync=RedoSync.EXPLICIT
)
"""Files of 16 pages."""


def _groups(folder: Path) -> list[bytes]:
    return [group.data for group in read_log(folder).groups]


def _files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def _file_no(writer: BinlogWriter) -> int:
    return writer.position.file_no


# --- a crash of the server: the files keep what was written to them ---------------------------------------------------


@slow_examples
@given(options(), operations_with_crashes, st.sampled_from(RedoSync))
def test_log_after_a_crash_is_a_prefix_with_everything_durable(
    options: WriterOptions, work: list[Operation], sync: RedoSync
) -> None:
    """Also when it goes on after that, and crashes again; GTID state and prepared XA transactions fit the groups."""
    assume(sync != RedoSync.NONE)
    with tempfile.TemporaryDirectory() as folder:
        driver = Driver(Path(folder), dataclasses.replace(options, redo_sync=sync))
        for operation in work:
            if operation[0] != "crash":
                driver.do(operation)
                continue
            _crash(driver, sync)
        driver.writer.close()
        assert _groups(Path(folder)) == driver.committed


def _crash(driver: Driver, sync: RedoSync) -> None:
    end = driver.writer.durable_position
    driver.do(("crash", 0, 0, 0))
    assert driver.writer.position == driver.writer.durable_position == end
    driver.writer.checkpoint()  # the reference reader needs the header's state, which can be in memory only
    log = read_log(driver.directory)
    assert not log.is_cut_off
    groups = [group.data for group in log.groups]
    assert groups == driver.committed[: len(groups)]
    if sync == RedoSync.COMMIT:
        assert len(groups) == len(driver.committed)
    elif sync == RedoSync.TIMER:
        assert len(groups) >= driver.durable
    driver.forget_after(len(groups))
    driver.recovered()
    state = {(gtid.domain, gtid.server): gtid.seqno for gtid in driver.writer.gtids()}
    assert state == driver.newest_gtids()


@pytest.mark.parametrize("seed", range(30))
def test_files_after_a_crash_are_those_of_a_server_that_wrote_no_more(seed: int, tmp_path: Path) -> None:
    """One does the work after the mark and crashes, the other stops at the mark: not a byte is different."""
    source = random.Random(seed)
    before = [_operation(source) for _ in range(source.randrange(40))]
    after = [_operation(source) for _ in range(source.randrange(12))]
    flushes = [number for number, operation in enumerate(after) if operation[0] == "flush"]
    for number in reversed(flushes[1:]):  # a second one would make durable what lies before the first
        del after[number]
    for folder, lost in (("crashed", after), ("stopped", [])):
        driver = Driver(tmp_path / folder, dataclasses.replace(SMALL, max_binlog_size=1 << 15))
        for operation in before:
            driver.do(operation)
        driver.do(("mark", 0, 0, 0))
        end = driver.writer.durable_position
        for operation in lost:
            driver.do(operation)
        driver.do(("crash", 0, 0, 0))
        assert driver.writer.position == end
        driver.writer.raw_commit(b"r" * 900)
        driver.writer.close()
    assert _without_lsn(tmp_path / "crashed") == _without_lsn(tmp_path / "stopped")


def _operation(source: random.Random) -> Operation:
    name = source.choice(["event", "event", "event", "piece", "commit", "commit", "group", "xa_prepare", "flush"])
    size = source.choice([60, 200, 500])
    numbers = {"event": (0, size), "piece": (0, size), "group": (size, 0)}
    first, second = numbers.get(name, (0, 0))
    return name, source.randrange(3), first, second


def _without_lsn(folder: Path) -> dict[str, bytes]:
    """The files' bytes without each header's LSN, its checksum and that of its page."""
    return {name: data[:32] + data[40:508] + data[512:] for name, data in _files(folder).items()}


def _fill_file(writer: BinlogWriter) -> None:
    """Write records up to somewhere in the next file."""
    file_no = _file_no(writer)
    while _file_no(writer) == file_no:
        writer.raw_commit(b"f" * 100)


def test_recovery_zeroes_what_is_after_and_deletes_later_files(tmp_path: Path) -> None:
    """Zeros after the data of the last page, and in all later pages of the file."""
    writer = BinlogWriter(tmp_path, SMALL)
    writer.raw_commit(b"a" * 700)
    writer.sync_redo()
    end = writer.durable_position
    for _ in range(30):
        writer.raw_commit(b"b" * 300)
        if _file_no(writer) == 1:
            break
    assert sorted(_files(tmp_path)) == ["binlog-000000.ibb", "binlog-000001.ibb", "binlog-000002.ibb"]
    writer.crash()
    data = _files(tmp_path)["binlog-000000.ibb"]
    assert sorted(_files(tmp_path)) == ["binlog-000000.ibb", "binlog-000001.ibb"]
    assert not any(_files(tmp_path)["binlog-000001.ibb"])
    assert len(data) == SMALL.max_binlog_size
    last = data[end.file_offset // 512 * 512 :][:512]
    assert page_checksum(last) == stored_checksum(last)
    assert not any(last[end.file_offset % 512 : 508])
    assert not any(data[end.file_offset // 512 * 512 + 512 :])


def test_partial_page_that_was_never_written_is_recovered_from_redo(tmp_path: Path) -> None:
    writer = BinlogWriter(tmp_path, SMALL)
    writer.raw_commit(b"a" * 70)
    writer.sync_redo()
    assert not any(_files(tmp_path)["binlog-000000.ibb"][512:])
    writer.crash()
    assert _groups(tmp_path) == [b"a" * 70]


def test_file_that_flush_had_cut_grows_back(tmp_path: Path) -> None:
    """The file gets the length that its header contains."""
    writer = BinlogWriter(tmp_path, SMALL)
    writer.raw_commit(b"a" * 70)
    writer.sync_redo()
    writer.flush_logs()
    assert len(_files(tmp_path)["binlog-000000.ibb"]) < SMALL.max_binlog_size
    writer.crash()
    assert {name: len(data) for name, data in _files(tmp_path).items()} == {
        "binlog-000000.ibb": SMALL.max_binlog_size,
        "binlog-000001.ibb": SMALL.max_binlog_size,
    }
    assert _groups(tmp_path) == [b"a" * 70]


def test_recovery_never_reaches_after_the_last_two_files(tmp_path: Path) -> None:
    """A third file makes the first one durable, whether it was asked for or not."""
    writer = BinlogWriter(tmp_path, SMALL)
    writer.sync_redo()
    for _ in range(4):
        _fill_file(writer)
    before = _files(tmp_path)
    assert writer.durable_position.file_no == _file_no(writer) - 1 == 3
    writer.crash()
    after = _files(tmp_path)
    for file_no in range(3):
        assert after[f"binlog-{file_no:06}.ibb"] == before[f"binlog-{file_no:06}.ibb"]
    assert _file_no(writer) == 3


def test_closing_a_file_makes_its_redo_durable(tmp_path: Path) -> None:
    """With the settings 0 and 2 nothing of a file is lost once the file after the next is there."""
    writer = BinlogWriter(tmp_path, dataclasses.replace(SMALL, redo_sync=RedoSync.TIMER))
    writer.raw_commit(b"a" * 70)
    assert writer.durable_position.file_offset < 600
    _fill_file(writer)
    end = writer.position
    assert writer.durable_position == end
    writer.raw_commit(b"z")
    assert writer.durable_position == end
    writer.crash()
    assert _groups(tmp_path)[0] == b"a" * 70
    assert writer.position == end


def test_lost_gtids_are_given_out_again(tmp_path: Path) -> None:
    """The server has forgotten them, and numbers go on after the last durable one."""
    writer = BinlogWriter(tmp_path, SMALL)
    for seqno in (1, 2, 3):
        writer.write_group(Gtid(0, 1, seqno), gtid_event(Gtid(0, 1, seqno)), [b"x" * 400])
        if seqno == 1:
            writer.sync_redo()
    writer.crash(b"f" * 90)
    assert writer.gtids() == [Gtid(0, 1, 1)]
    second = gtid_event(Gtid(0, 1, 2)) + b"y" * 30
    writer.write_group(Gtid(0, 1, 2), second[:38], [second[38:]])
    writer.close()
    assert _groups(tmp_path)[1:] == [b"f" * 90, second]


def test_xa_commit_after_the_durable_point_has_not_happened(tmp_path: Path) -> None:
    """It is prepared again, and can be committed; one that was prepared after that point is gone."""
    writer = BinlogWriter(tmp_path, SMALL)
    early, late, gtid = Xid(1, b"early"), Xid(1, b"late"), Gtid(0, 1, 1)
    writer.event(1, b"x" * 300)
    writer.xa_prepare(1, early)
    writer.sync_redo()
    writer.xa_commit(early, gtid, gtid_event(gtid))
    writer.event(1, b"y")
    writer.xa_prepare(1, late)
    writer.crash()
    assert writer.prepared_xids() == [early]
    assert writer.gtids() == []
    writer.xa_commit(early, gtid, gtid_event(gtid))
    writer.close()
    assert _groups(tmp_path) == [gtid_event(gtid) + b"x" * 300]


def test_xa_complete_record_is_not_durable_without_its_commit_record(tmp_path: Path) -> None:
    """They are one mini-transaction: a server that dies between the two has written neither."""
    writer = BinlogWriter(tmp_path, dataclasses.replace(SMALL, redo_sync=RedoSync.COMMIT))
    xid = Xid(1, b"name")
    writer.event(1, b"x" * 300)
    writer.xa_prepare(1, xid)
    before = writer.durable_position
    assert before == writer.position
    with pytest.raises(TypeError):
        writer.xa_commit(xid, Gtid(0, 1, 1), None)  # type: ignore[arg-type]
    assert writer.position > before
    assert writer.durable_position == before


def test_clean_shutdown_and_reset_master_are_durable(tmp_path: Path) -> None:
    writer = BinlogWriter(tmp_path, SMALL)
    writer.raw_commit(b"a" * 40)
    writer.restart(b"b" * 40)
    writer.crash()
    assert _groups(tmp_path) == [b"a" * 40]
    writer.raw_commit(b"c")
    writer.reset_master([Gtid(3, 4, 5)])
    writer.raw_commit(b"d")
    writer.crash()
    assert _groups(tmp_path) == []
    assert writer.gtids() == [Gtid(3, 4, 5)]


def test_lsn_goes_on_from_the_durable_one(tmp_path: Path) -> None:
    writer = BinlogWriter(tmp_path, SMALL)
    writer.raw_commit(b"a" * 40)
    writer.sync_redo()
    _fill_file(writer)
    lost = int.from_bytes(_files(tmp_path)["binlog-000001.ibb"][32:40], "little")
    writer.crash()
    writer.flush_logs()
    now = int.from_bytes(_files(tmp_path)["binlog-000001.ibb"][32:40], "little")
    assert SMALL.lsn < now < lost


def test_checkpoints_keep_the_redo_log_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a server's, which has a limit: when it is full, a checkpoint frees it."""
    monkeypatch.setattr("binlog_lab.innodb_writer.redo.REDO_SIZE_MAX", 4000)
    options = WriterOptions(page_size=512, max_binlog_size=1 << 20, state_interval=0, redo_sync=RedoSync.TIMER)
    writer = BinlogWriter(tmp_path, options)
    for _ in range(30):
        writer.raw_commit(b"a" * 300)
    assert writer.position.file_offset - writer.durable_position.file_offset < 4000
    writer.crash()
    assert 14 <= len(_groups(tmp_path)) < 30


def test_writer_without_redo_log_cannot_crash(tmp_path: Path) -> None:
    with BinlogWriter(tmp_path, dataclasses.replace(SMALL, redo_sync=RedoSync.NONE)) as writer:
        with pytest.raises(ValueError, match="no redo log"):
            writer.crash()
        writer.raw_commit(b"a")
    assert _groups(tmp_path) == [b"a"]


# --- a crash of the machine: what was not synced may be lost, or half there ------------------------------------------


@settings(max_examples=examples(200), suppress_health_check=list(HealthCheck))
@given(options(), operations, st.integers(1, 60), st.randoms(use_true_random=False), st.booleans())
def test_machine_that_stops_loses_nothing_that_was_committed(
    options: WriterOptions, work: list[Operation], writes: int, source: random.Random, crashes_again: bool
) -> None:
    """Pages that never reached the disk come from the redo log: with setting 1 each acknowledged commit is there."""
    options = dataclasses.replace(options, sync=True, redo_sync=RedoSync.COMMIT)
    lossy = LossyOs(source)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "os", lossy)
        driver = Driver(Path(folder), options)
        acknowledged = 0
        lossy.writes_left = writes
        with contextlib.suppress(Crashed):
            for operation in work:
                driver.do(operation)
                acknowledged = len(driver.committed)
        lossy.lose_power()
        if crashes_again:
            lossy.writes_left = 2
            with contextlib.suppress(Crashed):
                driver.do(("crash", 0, 0, 0))
            lossy.lose_power()
        lossy.writes_left = 1 << 30
        driver.do(("crash", 0, 0, 0))
        driver.writer.checkpoint()
        groups = _groups(Path(folder))
        assert groups == driver.committed[: len(groups)]
        assert len(groups) >= acknowledged
        driver.forget_after(len(groups))
        driver.recovered()
        driver.do(("group", 0, 5000, 0))
        driver.writer.close()
        assert _groups(Path(folder)) == driver.committed
