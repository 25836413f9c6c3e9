"""When a transaction goes out of band, and in which pieces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import pytest

from binlog_format.gtids.gtid import Gtid
from binlog_lab.innodb_writer.forest import Node, WrittenForest
from binlog_lab.innodb_writer.options import WriterOptions
from binlog_lab.innodb_writer.server import BinlogWriter, Cache
from tests.format.innodb.reference_reader import OOB, compressed_ints, read_log
from tests.format.innodb.writer.sessions import GTID_EVENT_SIZE, gtid_event

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

GTID = Gtid(0, 1, 1)
BUFFER = 8192


def _oob_sizes(folder: Path) -> list[int]:
    """Payload sizes of all out-of-band records, in the order they were written."""
    sizes = []
    for path in sorted(folder.glob("*.ibb")):
        data = path.read_bytes()
        for start in range(65536, len(data), 65536):  # one page holds each record
            at = start
            while data[at] not in (0, 0xFF):
                size = data[at + 1] | data[at + 2] << 8
                if data[at] & 0x3F == OOB:
                    assert data[at] == 0x40 | OOB, "the test wants records of one chunk"
                    _, payload = compressed_ints(data, at + 3, 5)
                    sizes.append(at + 3 + size - payload)
                at += 3 + size
    return sizes


class Run(Protocol):
    """Runs something in session 1 and commits."""

    def __call__(
        self, work: Callable[[BinlogWriter], None], *, cache_size: int = BUFFER, stmt_cache_size: int = 32768
    ) -> tuple[list[int], int]:
        """Sizes of the out-of-band records, and how many the commit record refers to."""


@pytest.fixture
def run(tmp_path: Path) -> Run:
    def do(
        work: Callable[[BinlogWriter], None], *, cache_size: int = BUFFER, stmt_cache_size: int = 32768
    ) -> tuple[list[int], int]:
        options = WriterOptions(
            page_size=65536,
            max_binlog_size=1 << 21,
            state_interval=0,
            cache_size=cache_size,
            stmt_cache_size=stmt_cache_size,
            sync=False,
        )
        with BinlogWriter(tmp_path, options) as writer:
            work(writer)
            writer.commit(1, GTID, gtid_event(GTID))
        return _oob_sizes(tmp_path), read_log(tmp_path).groups[0].oob_records

    return do


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([BUFFER - GTID_EVENT_SIZE], []),
        ([BUFFER - GTID_EVENT_SIZE + 1], [BUFFER - GTID_EVENT_SIZE + 1]),
        ([BUFFER], [BUFFER]),
        ([BUFFER + 1], [BUFFER, 1]),
        ([5000, 5000], [BUFFER, 10_000 - BUFFER]),
        ([3 * BUFFER], [BUFFER, BUFFER, BUFFER]),
    ],
    ids=["fits", "GTID event does not fit", "exactly the buffer", "one more", "cut inside an event", "large event"],
)
def test_what_does_not_fit_goes_out_in_pieces(run: Run, events: list[int], expected: list[int]) -> None:
    def work(writer: BinlogWriter) -> None:
        for size in events:
            writer.event(1, b"e" * size)

    assert run(work) == (expected, len(expected))


def test_small_cache_size_has_a_larger_buffer_but_small_pieces(run: Run) -> None:
    """`binlog_cache_size` 4096: the buffer is 8192, pieces are 4096."""
    assert run(lambda writer: writer.event(1, b"e" * 9000), cache_size=4096) == ([4096, 4096, 808], 3)


def test_statement_cache_is_cut_by_the_other_caches_size(run: Run) -> None:
    def work(writer: BinlogWriter) -> None:
        writer.event(1, b"e" * 40_000, Cache.STATEMENT)

    sizes, count = run(work, stmt_cache_size=32768)
    assert sizes == [8192, 8192, 8192, 8192, 7232]
    assert count == 5


def test_savepoint_cuts_a_piece_only_where_it_lies(run: Run) -> None:
    """Pieces end at savepoints; one at a piece's start gives no empty record."""

    def work(writer: BinlogWriter) -> None:
        writer.savepoint(1, 0)
        writer.event(1, b"a" * 1000)
        writer.savepoint(1, 1)
        writer.event(1, b"b" * 9000)

    assert run(work) == ([1000, BUFFER - 1000, 10_000 - BUFFER], 3)


def _starts(writer: BinlogWriter) -> None:
    writer.event(1, b"a" * 5000)
    writer.statement_start(1)
    writer.event(1, b"b" * 5000)
    writer.statement_start(1)
    writer.event(1, b"c" * 9000)


def _savepoints(writer: BinlogWriter) -> None:
    for number in range(3):
        writer.event(1, b"a" * 1000)
        writer.savepoint(1, number)
    writer.event(1, b"b" * 7000)


def _same_place(writer: BinlogWriter) -> None:
    writer.event(1, b"a" * 1000)
    writer.savepoint(1, 1)
    writer.savepoint(1, 2)
    writer.statement_start(1)
    writer.event(1, b"b" * 9000)


def _set_again(writer: BinlogWriter) -> None:
    writer.event(1, b"a" * 1000)
    writer.savepoint(1, 1)
    writer.event(1, b"b" * 1000)
    writer.savepoint(1, 1)
    writer.event(1, b"c" * 7000)


def _at_commit(writer: BinlogWriter) -> None:
    writer.event(1, b"a" * 9000)
    writer.savepoint(1, 1)
    writer.event(1, b"b" * 100)
    writer.statement_start(1)
    writer.event(1, b"c" * 100)


def _after_a_full_buffer(writer: BinlogWriter) -> None:
    writer.event(1, b"a" * BUFFER)
    writer.savepoint(1, 1)
    writer.statement_start(1)
    writer.event(1, b"b" * (BUFFER + 10))


@pytest.mark.parametrize(
    ("work", "expected"),
    [
        (_starts, [5000, BUFFER - 5000, 1808, BUFFER - 1808, 2616]),
        (_savepoints, [1000, 1000, 1000, BUFFER - 3000, 1808]),
        (_same_place, [1000, BUFFER - 1000, 1808]),
        (_set_again, [2000, BUFFER - 2000, 808]),
        (_at_commit, [BUFFER, 808, 200]),
        (_after_a_full_buffer, [BUFFER, BUFFER, 10]),
    ],
    ids=["statement starts", "savepoints", "same place", "set again", "at commit", "after a full buffer"],
)
def test_savepoints_and_statement_starts_cut_pieces(
    run: Run, work: Callable[[BinlogWriter], None], expected: list[int]
) -> None:
    """A statement has ended when its transaction is committed: its start cuts nothing then."""
    assert run(work) == (expected, len(expected))


def test_marks_cut_pieces_that_are_cut_by_size_too(run: Run) -> None:
    """`binlog_cache_size` 4096: a buffer of 8192 bytes goes out in pieces of at most 4096, counted from each mark."""

    def work(writer: BinlogWriter) -> None:
        writer.event(1, b"a" * 3000)
        writer.savepoint(1, 1)
        writer.event(1, b"b" * 9000)

    assert run(work, cache_size=4096) == ([3000, 4096, 1096, 3808], 4)


@pytest.mark.parametrize(("size", "before"), [(2 * BUFFER, 2), (2 * BUFFER + 1, 2), (2 * BUFFER - 1, 1), (BUFFER, 0)])
def test_whole_buffers_of_a_large_event_go_out_at_once(size: int, before: int, tmp_path: Path) -> None:
    """Before what another session commits then."""
    options = WriterOptions(page_size=65536, max_binlog_size=1 << 21, cache_size=BUFFER, sync=False)
    with BinlogWriter(tmp_path, options) as writer:
        writer.event(1, b"a" * size)
        other = writer.write_group(Gtid(0, 1, 2), gtid_event(Gtid(0, 1, 2)), [b"b" * 30])
    _, byte = other
    assert before * BUFFER <= byte - 65536 < before * BUFFER + 100


def test_rollback_into_the_spilled_part_leaves_garbage(run: Run, tmp_path: Path) -> None:
    def work(writer: BinlogWriter) -> None:
        writer.event(1, b"a" * 1000)
        writer.savepoint(1, 1)
        writer.event(1, b"b" * 9000)
        writer.rollback_to(1, 1)
        writer.event(1, b"c" * 10)

    assert run(work) == ([1000, BUFFER - 1000, 10], 2)
    assert read_log(tmp_path).groups[0].data == gtid_event(GTID) + b"a" * 1000 + b"c" * 10


def test_first_statement_that_fails_after_spilling_can_still_go_inline(run: Run, tmp_path: Path) -> None:
    """Nothing of it is live, so the rest is a small transaction like any other."""

    def work(writer: BinlogWriter) -> None:
        writer.statement_start(1)
        writer.event(1, b"a" * 9000)
        writer.statement_rollback(1)
        writer.event(1, b"b" * 10)

    assert run(work) == ([BUFFER], 0)
    assert read_log(tmp_path).groups[0].data == gtid_event(GTID) + b"b" * 10


def test_both_caches_go_out_of_band_even_if_tiny(run: Run, tmp_path: Path) -> None:
    """The statement cache is the first set."""

    def work(writer: BinlogWriter) -> None:
        writer.event(1, b"t" * 20)
        writer.event(1, b"s" * 30, Cache.STATEMENT)

    assert run(work) == ([30, 20], 1)
    group = read_log(tmp_path).groups[0]
    assert group.oob_records_second_set == 1
    assert group.data == gtid_event(GTID) + b"s" * 30 + b"t" * 20


def test_unknown_savepoint_is_an_error(tmp_path: Path) -> None:
    with BinlogWriter(tmp_path, WriterOptions(max_binlog_size=1 << 16, sync=False)) as writer, pytest.raises(KeyError):
        writer.rollback_to(1, 3)


def test_an_event_is_copied_when_its_buffer_may_change(tmp_path: Path) -> None:
    buffer = bytearray(b"abcd" * 10)
    with BinlogWriter(tmp_path, WriterOptions(max_binlog_size=1 << 16, sync=False)) as writer:
        writer.event(1, memoryview(buffer))
        buffer[:] = bytes(40)
        writer.commit(1, GTID, gtid_event(GTID))
    assert read_log(tmp_path).groups[0].data == gtid_event(GTID) + b"abcd" * 10


# For each record, its left child and its right child or link.
LINKS = [
    (None, None),
    (None, 0),
    (0, 1),
    (None, 2),
    (None, 3),
    (3, 4),
    (2, 5),
    (None, 6),
    (None, 7),
]


def test_forest_links_as_specified() -> None:
    forest = WrittenForest()
    nodes: list[Node] = []
    for number, (left, right) in enumerate(LINKS):
        none = Node(0, 0)
        expected = (none if left is None else nodes[left], none if right is None else nodes[right])
        assert forest.next_number == number
        assert forest.links() == expected
        nodes.append(Node(7, 100 + number))
        forest.add(nodes[-1])
    assert forest.reference() == (len(LINKS), nodes[0], nodes[-1])


def test_forest_goes_back_to_a_mark_and_uses_numbers_again() -> None:
    forest = WrittenForest()
    forest.add(Node(0, 10))
    mark = forest.mark()
    forest.add(Node(0, 20))
    forest.restore(mark)
    assert forest.next_number == 1
    assert forest.reference() == (1, Node(0, 10), Node(0, 10))
