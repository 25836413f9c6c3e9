"""A writer that is killed in the middle of a system call leaves a log that can be read and continued."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from binlog_format.errors import CorruptError
from binlog_format.gtids.gtid import Gtid
from binlog_lab.innodb_writer import files
from binlog_lab.innodb_writer.options import WriterOptions
from binlog_lab.innodb_writer.server import BinlogWriter
from binlog_lab.innodb_writer.sessions import Xid
from tests.chance import examples
from tests.faults.processes import Killed
from tests.faults.writer_os import FaultyOs
from tests.format.innodb.reference_reader import XA_COMPLETE, Damaged, read_log
from tests.format.innodb.writer.sessions import Driver, Operation, gtid_event, operations, options

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def faulty_os() -> Iterator[FaultyOs]:
    """In place of `os` for one test."""
    faulty = FaultyOs()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "os", faulty)
        yield faulty


@settings(
    max_examples=examples(400),
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.function_scoped_fixture,  # every example sets it up anew
    ],
)
@given(options(), operations, st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), min_size=1, max_size=4))
def test_kill_in_a_system_call_loses_nothing_that_was_visible(
    faulty_os: FaultyOs, options: WriterOptions, work: list[Operation], kills: list[tuple[int, int]]
) -> None:
    """Also when it is killed again while it recovers."""
    faulty_os.calls_left = 1000
    with tempfile.TemporaryDirectory() as folder:
        driver = Driver(Path(folder), options)
        work = list(work)
        for calls, sectors in kills:
            faulty_os.calls_left, faulty_os.sectors = calls, sectors
            with contextlib.suppress(Killed):
                while work:
                    driver.do(work.pop(0))
            driver.do(("kill", 0, 0, 0))
            visible = _visible(Path(folder))
            _reopen(driver, faulty_os, calls)
            groups = [group.data for group in read_log(Path(folder)).groups]
            assert groups == driver.committed[: len(groups)]
            assert len(groups) >= max(visible, driver.durable)
            driver.forget_after(len(groups))
            state = {(gtid.domain, gtid.server): gtid.seqno for gtid in driver.writer.gtids()}
            assert state == driver.newest_gtids()
        faulty_os.calls_left = 1_000_000
        for operation in work:
            driver.do(operation)
        driver.writer.close()
        assert [group.data for group in read_log(Path(folder)).groups] == driver.committed


def _visible(folder: Path) -> int:
    try:
        return len(read_log(folder).groups)
    except Damaged:  # the last page is torn: a reader waits
        return 0


def _reopen(driver: Driver, faulty_os: FaultyOs, calls: int) -> None:
    faulty_os.calls_left = calls % 7
    try:
        driver.reopen()
    except Killed:
        faulty_os.calls_left = 1_000_000
        driver.reopen()
    faulty_os.calls_left = 1_000_000


def _log_with_cut_record(folder: Path) -> tuple[Driver, int]:
    """A killed log whose last page was written with two groups, and then again with the start of a third."""
    driver = Driver(folder, WriterOptions(max_binlog_size=1 << 17, sync=False))
    driver.do(("group", 0, 700, 0))
    driver.do(("group", 0, 900, 0))
    driver.do(("checkpoint", 0, 0, 0))
    driver.do(("group", 0, 20_000, 0))
    driver.do(("kill", 0, 0, 0))
    assert read_log(folder).is_cut_off
    return driver, 2


@pytest.mark.parametrize("sectors", [0, 1, 4, 5, 31, 32])
def test_recovery_that_is_killed_while_it_shortens_a_page(faulty_os: FaultyOs, sectors: int, tmp_path: Path) -> None:
    """Whatever part of the page is written when it dies, the next recovery finds the same groups."""
    survived = 0
    for calls in range(10):
        faulty_os.calls_left = 1000
        driver, count = _log_with_cut_record(tmp_path / str(calls))
        faulty_os.calls_left, faulty_os.sectors = calls, sectors
        try:
            driver.reopen()
            survived += 1
        except Killed:
            faulty_os.calls_left = 1000
            driver.reopen()
        assert [group.data for group in read_log(driver.directory).groups] == driver.committed[:count]
        assert not read_log(driver.directory).is_cut_off
        driver.writer.kill()
    assert 0 < survived < 10


def test_xa_commit_whose_commit_record_is_lost_has_not_happened(tmp_path: Path) -> None:
    """Its complete record may be on disk alone, when it was killed between the two."""
    xid, gtid = Xid(1, b"name"), Gtid(0, 1, 9)
    alone = 0
    outcomes = set()
    for padding in range(400, 1000):
        folder = tmp_path / str(padding)
        writer = BinlogWriter(folder, WriterOptions(page_size=512, max_binlog_size=1 << 14, sync=False))
        writer.event(1, b"x" * 40)
        writer.xa_prepare(1, xid)
        writer.raw_commit(b"y" * padding)  # completes the page of the prepare record
        writer.xa_commit(xid, gtid, gtid_event(gtid))
        writer.kill()
        before = read_log(folder)
        alone += before.records[-1][0] == XA_COMPLETE
        with BinlogWriter(folder, writer.options) as writer:
            has_happened = gtid in writer.gtids()
            assert writer.prepared_xids() == ([] if has_happened else [xid])
            if not has_happened:
                writer.xa_commit(xid, gtid, gtid_event(gtid))
        outcomes.add(has_happened)
        log = read_log(folder)
        assert log.groups[-1].data == gtid_event(gtid) + b"x" * 40
        assert [kind for kind, _, _ in log.records].count(XA_COMPLETE) == 1
    assert alone > 0
    assert outcomes == {True, False}


def test_damage_in_the_middle_is_an_error_and_not_repaired(tmp_path: Path) -> None:
    driver = Driver(tmp_path, WriterOptions(max_binlog_size=1 << 17, sync=False))
    driver.do(("group", 0, 60_000, 0))
    driver.writer.close()
    path = tmp_path / "binlog-000000.ibb"
    data = bytearray(path.read_bytes())
    data[20_000] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptError) as error:
        BinlogWriter(tmp_path, driver.options)
    assert str(error.value).startswith(f"[BINLOG_CORRUPT.PAGE_CHECKSUM] {path}: page 1, byte 0x4000:")
    assert path.read_bytes() == bytes(data)
