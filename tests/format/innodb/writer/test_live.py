"""What a tailer can see of a live log: nothing that a server could not show it."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings

from binlog_format import open_log
from binlog_lab.innodb_writer import files
from binlog_lab.innodb_writer.options import WriterOptions
from tests.chance import examples
from tests.faults.writer_os import SlowOs
from tests.format.innodb.reference_reader import Group, read_log
from tests.format.innodb.writer.sessions import Driver, Operation, operations, options

if TYPE_CHECKING:
    from binlog_format.log.log import Log

slow_examples = settings(
    max_examples=examples(100), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)

WEIGHTS = {
    "event": 30,
    "piece": 8,
    "spill": 4,
    "commit": 12,
    "group": 10,
    "two_phase": 2,
    "rollback": 2,
    "savepoint": 5,
    "rollback_to": 4,
    "statement_start": 5,
    "statement_rollback": 3,
    "xa_prepare": 3,
    "xa_commit": 2,
    "xa_rollback": 1,
    "raw_commit": 1,
    "flush": 1,
    "checkpoint": 3,
    "restart": 1,
    "kill": 1,
}


def _files(folder: Path) -> dict[int, bytes]:
    return {int(path.stem[7:]): path.read_bytes() for path in folder.iterdir()}


def _check_only_grown(before: dict[int, bytes], after: dict[int, bytes], page_size: int) -> None:
    """No byte of data changes once it is on disk, and files are given up in order (docs/formats/innodb.md)."""
    for file_no, old in before.items():
        new = after[file_no]
        is_final = any(before.get(file_no + 1, b""))
        if is_final or file_no + 2 in before:
            assert new == old, f"file {file_no} changes after the next one was begun"
        for start in range(0, len(old), page_size):
            page = old[start : start + page_size - 4]
            data = page.rstrip(b"\0")
            assert new[start : start + len(data)] == data
            if data and page[-1]:  # complete
                assert new[start : start + page_size] == old[start : start + page_size]


def _check_order(files: dict[int, bytes], page_size: int, *, preallocate: bool) -> None:
    begun = [file_no for file_no, data in files.items() if any(data)]
    for file_no, data in files.items():
        filled = [any(data[start : start + page_size]) for start in range(0, len(data), page_size)]
        assert filled == sorted(filled, reverse=True), "pages are written in order"
        if file_no < max(begun):
            assert all(filled), "all of a file is written before the next one is begun"
    assert len(files) - len(begun) == (1 if preallocate else 0)


@slow_examples
@given(options(), operations)
def test_bytes_on_disk_are_final_and_in_order(options: WriterOptions, work: list[Operation]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        driver = Driver(Path(folder), options)
        before = _files(Path(folder))
        for operation in work:
            driver.do(operation)
            after = _files(Path(folder))
            _check_only_grown(before, after, options.page_size)
            _check_order(after, options.page_size, preallocate=options.preallocate)
            before = after
        driver.writer.kill()


def _groups(log: Log) -> list[Group]:
    """What the package's own reader gives, in the reference reader's words."""
    groups = []
    for block in log.blocks():
        for group in block.groups:
            assert group["begins"]
            assert group["ends"]
            first = int(group["first_event"])
            events = block.events[first : first + int(group["event_count"])]
            start, end = int(events["start"][0]), int(events["start"][-1] + events["size"][-1])
            groups.append(
                Group(
                    int(group["file_no"]),
                    int(group["page"]),
                    int(group["chunk"]),
                    int(group["file_offset"]),
                    block.data[start:end].tobytes(),
                    int(group["oob_records"]),
                    int(group["oob_records_second_set"]),
                )
            )
    return groups


def _random_options(random_source: random.Random) -> WriterOptions:
    page_size = random_source.choice([512, 512, 1024, 4096, 16384])
    return WriterOptions(
        page_size=page_size,
        max_binlog_size=page_size * random_source.choice([4, 5, 8, 16, 33, 64]),
        state_interval=page_size * random_source.choice([0, 1, 2, 4, 8]),
        cache_size=random_source.choice([100, 1000, 8192, 32768]),
        stmt_cache_size=random_source.choice([1000, 32768]),
        preallocate=random_source.random() < 0.5,
        sync=False,
    )


def _random_operation(random_source: random.Random) -> Operation:
    name = random_source.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
    size = random_source.choice([random_source.randint(1, 600), random_source.randint(400, 9000), 20_000])
    numbers = {
        "event": (random_source.choice([0, 0, 0, 1]), size),
        "piece": (random_source.choice([0, 0, 0, 1]), random_source.randint(1, 700)),
        "spill": (random_source.choice([0, 1]), 0),
        "group": (size, 0),
    }
    first, second = numbers.get(name, (random_source.randrange(3), 0))
    return name, random_source.randrange(3), first, second


@pytest.mark.parametrize("seed", range(8))
def test_both_readers_see_the_same_prefix_of_a_long_busy_day(seed: int, tmp_path: Path) -> None:
    """Hundreds of operations, kills among them; everything committed before a checkpoint is visible."""
    random_source = random.Random(seed)
    driver = Driver(tmp_path, _random_options(random_source))
    for number in range(200):
        operation = _random_operation(random_source)
        driver.do(operation)
        is_kill = operation[0] == "kill"
        if number % 20 and not is_kill:
            continue
        expected = read_log(tmp_path).groups
        with open_log(str(tmp_path)) as log:
            groups = _groups(log)
        assert groups == expected
        assert [group.data for group in groups] == driver.committed[: len(groups)]
        assert len(groups) >= driver.durable
        if is_kill:
            driver.forget_after(len(groups))
            driver.reopen()
    driver.writer.close()
    assert [group.data for group in read_log(tmp_path).groups] == driver.committed


@pytest.mark.parametrize("seed", range(4))
def test_reader_waits_before_a_torn_page(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that is only partly written, for the first time or again, is not there yet: no error, no wrong group."""
    random_source = random.Random(seed)
    options = WriterOptions(page_size=4096, max_binlog_size=1 << 16, state_interval=1 << 14, sync=False)
    driver = Driver(tmp_path, options)
    counts: list[int] = []

    def look() -> None:
        with open_log(str(tmp_path)) as log:
            groups = [group.data for group in _groups(log)]
        assert groups == driver.committed[: len(groups)]
        counts.append(len(groups))

    monkeypatch.setattr(files, "os", SlowOs(look, sectors=(1, 5, 7, 9)))
    for _ in range(120):
        operation = _random_operation(random_source)
        if operation[0] != "kill":
            driver.do(operation)
    driver.writer.close()
    assert len(counts) > 50
    assert max(counts) > 10
