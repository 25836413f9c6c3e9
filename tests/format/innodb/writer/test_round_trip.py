"""Whatever sessions do, the files contain exactly what was committed, in that order."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, given, settings

from tests.chance import examples
from tests.format.innodb.reference_reader import Log, read_log
from tests.format.innodb.writer.sessions import Driver, Operation, operations, operations_with_kills, options

if TYPE_CHECKING:
    from binlog_lab.innodb_writer.options import WriterOptions

slow_examples = settings(
    max_examples=examples(150), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


def _groups(directory: Path) -> list[bytes]:
    return [group.data for group in read_log(directory).groups]


@slow_examples
@given(options(), operations)
def test_a_closed_log_has_exactly_what_was_committed(options: WriterOptions, work: list[Operation]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        driver = Driver(Path(folder), options)
        for operation in work:
            driver.do(operation)
        driver.writer.close()
        log = read_log(Path(folder))
        assert [group.data for group in log.groups] == driver.committed
        assert not log.is_cut_off


@slow_examples
@given(options(), operations)
def test_a_live_log_shows_a_prefix_and_all_of_it_after_a_checkpoint(
    options: WriterOptions, work: list[Operation]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        driver = Driver(Path(folder), options)
        visible = 0
        for operation in work:
            driver.do(operation)
            groups = _groups(Path(folder))
            assert groups == driver.committed[: len(groups)]
            assert len(groups) >= max(visible, driver.durable)
            visible = len(groups)
        driver.writer.kill()


@slow_examples
@given(options(), operations_with_kills)
def test_a_killed_writer_goes_on_after_what_it_had_written(options: WriterOptions, work: list[Operation]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        driver = Driver(Path(folder), options)
        for operation in [*work, ("kill", 0, 0, 0)]:
            driver.do(operation)
            if operation[0] == "kill":
                groups = _groups(Path(folder))
                assert groups == driver.committed[: len(groups)]
                assert len(groups) >= driver.durable
                driver.forget_after(len(groups))
                driver.reopen()
                state = {(gtid.domain, gtid.server): gtid.seqno for gtid in driver.writer.gtids()}
                assert state == driver.newest_gtids()
                assert _groups(Path(folder)) == groups
                assert not read_log(Path(folder)).is_cut_off
        driver.writer.close()
        assert _groups(Path(folder)) == driver.committed


@slow_examples
@given(options(), operations)
def test_state_records_say_which_groups_came_before(options: WriterOptions, work: list[Operation]) -> None:
    """In page 1 of a file all of them; further on what has changed since, unless the server was restarted there."""
    with tempfile.TemporaryDirectory() as folder:
        driver = Driver(Path(folder), options)
        for operation in work:
            driver.do(operation)
        driver.writer.close()
        has_restart = any(operation[0] == "restart" for operation in work)
        _check_states(read_log(Path(folder)), driver, options, only_full=has_restart)


def _check_states(log: Log, driver: Driver, options: WriterOptions, *, only_full: bool) -> None:
    groups_at_file_start = 0
    for state in log.states:
        if state.page == 1:
            groups_at_file_start = state.groups_before
        elif only_full:
            continue
        else:
            assert state.page % log.headers[state.file_no].interval == 0
        start = 0 if state.page == 1 else groups_at_file_start
        gtids = [gtid for gtid in driver.gtids[start : state.groups_before] if gtid is not None]
        expected = {(gtid.domain, gtid.server): gtid.seqno for gtid in gtids}
        assert {(domain, server): seqno for domain, server, seqno in state.gtids} == expected
        newest = {gtid.domain: gtid.server for gtid in gtids}
        assert {domain: server for domain, server, _ in state.gtids} == newest, "the most recent one comes last"
    due = [
        (file_no, page)
        for file_no, header in log.headers.items()
        for page in range(1, header.page_count - 1)
        if page == 1 or (options.state_interval and page % header.interval == 0)
    ]
    last = log.records[-1][1], log.records[-1][2] // options.page_size
    written = {(state.file_no, state.page) for state in log.states}
    pages = {file_no: driver_pages(driver, file_no, options) for file_no in log.headers}
    missing = [place for place in due if place not in written and place <= last and place[1] < pages[place[0]]]
    assert missing == []


def driver_pages(driver: Driver, file_no: int, options: WriterOptions) -> int:
    """Pages that the file really has."""
    return (driver.directory / f"binlog-{file_no:06}.ibb").stat().st_size // options.page_size


@slow_examples
@given(options(), operations)
def test_headers_name_a_file_that_is_early_enough(options: WriterOptions, work: list[Operation]) -> None:
    """The reference reader checks every out-of-band reference against the header; here the rest is checked."""
    with tempfile.TemporaryDirectory() as folder:
        driver = Driver(Path(folder), options)
        for operation in work:
            driver.do(operation)
        driver.writer.close()
        log = read_log(Path(folder))
        lsns = [log.headers[file_no].lsn for file_no in sorted(log.headers)]
        assert lsns == sorted(set(lsns))
        for file_no, header in log.headers.items():
            assert header.page_count == options.page_count
            assert header.oob_file_no <= file_no
            assert header.xa_file_no is None or header.xa_file_no <= file_no
