"""Out-of-band data: whatever the scan remembers, a transaction is read the same, and memory stays bounded."""

from __future__ import annotations

import random
import shutil
import tracemalloc
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from binlog_format import Gtid, open_log
from binlog_format.errors import BinlogError
from binlog_format.events.layout import EventType
from binlog_format.innodb.files import LogFiles
from binlog_format.innodb.groups import forest as out_of_band
from binlog_format.innodb.groups.forest import Forest, OobSet
from binlog_format.innodb.log_end import check_file_end
from binlog_format.innodb.pages.pages import PageReader, PageRuns
from binlog_format.innodb.records import RecordReader
from binlog_format.innodb.scanner import CommitScanner
from binlog_format.position import Position
from binlog_format.source_file import LocalDirectory
from binlog_lab.innodb_writer.options import WriterOptions
from binlog_lab.innodb_writer.server import BinlogWriter
from tests.chance import examples
from tests.format.innodb.damage import forge
from tests.format.innodb.log_groups import ReadGroup, collect, read_groups
from tests.format.innodb.test_large_groups import event, gtid_event

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from binlog_format.innodb.scanner import CommitWindow

OPTIONS = WriterOptions(
    page_size=4096,
    max_binlog_size=1 << 20,
    state_interval=65536,
    cache_size=4096,
    stmt_cache_size=4096,
    preallocate=False,
    sync=False,
)


def write_interleaved(directory: Path, options: WriterOptions, *, transactions: int, seed: int = 1) -> dict[str, bytes]:
    """Sessions that write at the same time, go back to savepoints and roll back; the data of each committed group."""
    numbers = random.Random(seed)
    committed: dict[str, bytes] = {}
    open_data: dict[int, list[bytes]] = {}
    marks: dict[int, int] = {}
    seqno = 0
    with BinlogWriter(directory, options) as writer:
        while seqno < transactions:
            session = numbers.randrange(4)
            if session not in open_data:
                writer.begin(session)
                open_data[session] = []
            action = numbers.random()
            if action < 0.75:
                data = event(EventType.QUERY, numbers.choice([50, 700, 3000, 9000]), numbers.randrange(256))
                writer.event(session, data)
                open_data[session].append(data)
            elif action < 0.80:
                writer.savepoint(session, 1)
                marks[session] = len(open_data[session])
            elif action < 0.86 and session in marks:
                writer.rollback_to(session, 1)
                del open_data[session][marks[session] :]
            elif action < 0.90:
                writer.rollback(session)
                del open_data[session]
                marks.pop(session, None)
            elif open_data[session]:
                seqno += 1
                writer.commit(session, Gtid(0, 1, seqno), gtid_event(seqno))
                committed[f"0-1-{seqno}"] = gtid_event(seqno) + b"".join(open_data.pop(session))
                marks.pop(session, None)
    return committed


def windows(directory: Path) -> Iterator[tuple[PageReader, CommitWindow]]:
    """A scan of the whole log, in small windows."""
    reader = PageReader(LogFiles(LocalDirectory(str(directory))), check_file_end)
    for window in CommitScanner(reader, Position(0, 1, 0), None, window_size=65536).windows():
        yield reader, window


def forest_of(reader: PageReader) -> Forest:
    return Forest(reader.files, RecordReader(reader, PageRuns(reader)))


def orders(directory: Path) -> list[list[tuple[int, ...]]]:
    """The out-of-band records of each group in order."""
    found = []
    forest: Forest | None = None
    for reader, window in windows(directory):
        forest = forest or forest_of(reader)
        forest.collect(window.pages.pages(), window.chunks)
        for record in window.records[window.records["oob_records"] > 0]:
            chunk = window.chunks[int(record["first"])]
            place = window.pages.position(int(chunk["page"]), int(chunk["number"]))
            first = int(record["first_file_no"]), int(record["first_offset"])
            oob = OobSet(int(record["oob_records"]), first, (int(record["last_file_no"]), int(record["last_offset"])))
            commit = (
                place.file_no,
                int(chunk["start"])
                - 3
                + int(window.pages.page_start[chunk["page"]] - chunk["page"] * window.pages.page_size),
            )
            parts = [part[["file_no", "offset", "header_size"]].tolist() for part in forest.nodes(oob, commit)]
            found.append([row for part in parts for row in part])
    return found


@pytest.mark.parametrize("page_size", [512, 4096, 65536])
def test_interleaved_transactions_are_read_whatever_is_remembered(
    page_size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = WriterOptions(
        page_size=page_size,
        max_binlog_size=64 * page_size,
        state_interval=8 * page_size,
        cache_size=4096,
        preallocate=False,
        sync=False,
    )
    wanted = write_interleaved(tmp_path / "log", options, transactions=60)
    assert sum(len(data) > 8192 for data in wanted.values()) > 20
    for nodes_max in (out_of_band.NODES_MAX, 16, 1):
        monkeypatch.setattr(out_of_band, "NODES_MAX", nodes_max)
        with open_log(str(tmp_path / "log")) as log:
            assert {group.gtid: group.data for group in read_groups(log)} == wanted


def test_records_are_put_in_the_same_order_from_memory_and_from_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_interleaved(tmp_path / "log", OPTIONS, transactions=80, seed=2)
    from_memory = orders(tmp_path / "log")
    assert max(len(order) for order in from_memory) > 8
    for nodes_max in (1, 20, 100):
        monkeypatch.setattr(out_of_band, "NODES_MAX", nodes_max)
        assert orders(tmp_path / "log") == from_memory


def test_records_that_nobody_needs_do_not_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Transactions that are rolled back for ever: what is remembered of them stays the same."""
    with BinlogWriter(tmp_path / "log", OPTIONS) as writer:
        for number in range(400):
            writer.begin(1)
            for _ in range(5):
                writer.piece(1, event(EventType.QUERY, 300 + number % 50))
            writer.rollback(1)
        writer.begin(1)
        writer.commit(1, Gtid(0, 1, 1), gtid_event(1))
    monkeypatch.setattr(out_of_band, "NODES_MAX", 256)
    forest: Forest | None = None
    sizes = []
    for reader, window in windows(tmp_path / "log"):
        forest = forest or forest_of(reader)
        forest.collect(window.pages.pages(), window.chunks)
        nodes = forest.walk().nodes
        sizes.append(len(nodes))
        places = list(zip(nodes["file_no"].tolist(), nodes["offset"].tolist(), strict=True))
        assert places == sorted(set(places))
    assert 128 <= sizes[-1] <= max(sizes) < 256 + 4096
    assert len(sizes) > 5


def test_windows_that_overlap_give_each_record_once(tmp_path: Path) -> None:
    write_interleaved(tmp_path / "log", OPTIONS, transactions=20, seed=3)
    forests: list[Forest] = []
    for reader, window in windows(tmp_path / "log"):
        forests = forests or [forest_of(reader), forest_of(reader)]
        for forest, times in zip(forests, (1, 2), strict=True):
            for _ in range(times):
                forest.collect(window.pages.pages(), window.chunks)
    once, again = (forest.walk().nodes for forest in forests)
    assert np.array_equal(once, again)
    assert (once["end"] > once["offset"]).mean() > 0.9


def test_trees_too_deep_for_the_stack_are_refused(tmp_path: Path) -> None:
    """A list of trees that only links backwards cannot fill the memory: the way down is limited."""
    with BinlogWriter(tmp_path / "log", OPTIONS) as writer:
        writer.begin(1)
        for _ in range(40):
            writer.piece(1, event(EventType.QUERY, 30))
        writer.commit(1, Gtid(0, 1, 1), gtid_event(1))
    for reader, window in windows(tmp_path / "log"):
        forest = forest_of(reader)
        forest._stack = forest._stack[:6]
        record = window.records[0]
        first = int(record["first_file_no"]), int(record["first_offset"])
        oob = OobSet(int(record["oob_records"]), first, (int(record["last_file_no"]), int(record["last_offset"])))
        with pytest.raises(BinlogError, match=r"OOB_REFERENCE.*deeper than"):
            list(forest.nodes(oob, (0, 1 << 40)))
        break


@pytest.mark.parametrize(
    ("count", "first", "message"),
    [
        (39, None, "the transaction has 39 records, here is one more"),
        (41, None, "expected 41 records, got 40"),
        (40, (0, 4096), "expected the first record at byte 0x1000 of file 0"),
        (40, (1 << 63, 4096), "there can be no file"),
    ],
)
def test_commit_record_that_says_something_else_is_refused(
    count: int, first: tuple[int, int] | None, message: str, tmp_path: Path
) -> None:
    with BinlogWriter(tmp_path / "log", OPTIONS) as writer:
        writer.begin(1)
        for _ in range(40):
            writer.piece(1, event(EventType.QUERY, 30))
        writer.commit(1, Gtid(0, 1, 1), gtid_event(1))
    for reader, window in windows(tmp_path / "log"):
        forest = forest_of(reader)
        record = window.records[0]
        true_first = int(record["first_file_no"]), int(record["first_offset"])
        last = int(record["last_file_no"]), int(record["last_offset"])
        with pytest.raises(BinlogError, match=message):
            list(forest.nodes(OobSet(count, first or true_first, last), (0, 1 << 40)))
        assert sum(len(part) for part in forest.nodes(OobSet(40, true_first, last), (0, 1 << 40))) == 40
        with pytest.raises(BinlogError, match="does not lie before byte 0x5 of file 0"):
            list(forest.nodes(OobSet(40, true_first, last), (0, 5)))
        break


def read_all(directory: Path) -> tuple[list[ReadGroup], str | None]:
    """All groups up to the damage, and what it is."""
    blocks = []
    error = None
    try:
        with open_log(str(directory)) as log:
            for block in log.blocks():
                blocks.append(block)
    except BinlogError as raised:
        error = str(raised)
    # The last group may have come in part.
    while blocks and len(blocks[-1].groups) and not blocks[-1].groups["ends"][-1]:
        del blocks[-1]
    return collect(blocks), error


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_forged_records_are_judged_alike_from_memory_and_from_the_files(data: st.DataObject, tmp_path: Path) -> None:
    """Any bytes with good checksums: the same groups and the same named error, whatever the scan remembers."""
    directory = tmp_path / "log"
    if not directory.exists():
        options = WriterOptions(max_binlog_size=1 << 20, state_interval=65536, cache_size=4096, sync=False)
        write_interleaved(directory, options, transactions=12)
        shutil.copytree(directory, tmp_path / "good")
    shutil.copytree(tmp_path / "good", directory, dirs_exist_ok=True)
    forest: Forest | None = None
    for reader, window in windows(directory):
        forest = forest or forest_of(reader)
        forest.collect(window.pages.pages(), window.chunks)
    assert forest is not None
    nodes = forest.walk().nodes
    for _ in range(data.draw(st.integers(1, 3))):
        node = nodes[data.draw(st.integers(0, len(nodes) - 1))]
        byte = int(node["offset"]) + data.draw(st.integers(0, 3 + int(node["header_size"])))
        forge(directory, int(node["file_no"]), byte, bytes([data.draw(st.integers(0, 255))]))
    remembered = read_all(directory)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Forest, "collect", lambda *_: None)
        assert read_all(directory) == remembered


@pytest.mark.slow
def test_memory_follows_the_block_and_not_the_transaction(tmp_path: Path) -> None:
    """300 MB in one transaction: buffers, windows kept and tables stay below 64 MB."""
    options = WriterOptions(max_binlog_size=128 << 20, preallocate=False, sync=False)
    count = 300_000_000 // 8000
    with BinlogWriter(tmp_path / "log", options) as writer:
        writer.begin(1)
        data = event(EventType.QUERY, 8000)
        for _ in range(count):
            writer.event(1, data)
        writer.commit(1, Gtid(0, 1, 1), gtid_event(1))
    with open_log(str(tmp_path / "log")) as log:
        next(iter(log.blocks()))  # compiles
        tracemalloc.start()
        assert sum(len(block.events) for block in log.blocks()) == count + 1
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 64 << 20
