"""Out-of-band data in order: `Forest.nodes` finds the records that a commit record refers to.

A transaction that outgrows its cache is written in parts, each a record, before its commit record. The records form a
list of perfect binary trees: an inner node comes after its two children, the first leaf of a tree links to the root of
the tree before it.

The out-of-band records that a scan has passed are remembered, so that trees are walked without reading them again.

Out-of-band data of a large group, read by their places: `Forest.append`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from binlog_format.innodb.compressed_int_kernels import read_ints
from binlog_format.innodb.groups.block_builder import NodeCursor
from binlog_format.innodb.groups.forest_kernels import (
    FOREST_BAD_COUNT,
    FOREST_BAD_FIRST,
    FOREST_BAD_INDEX,
    FOREST_DONE,
    FOREST_NOT_BEFORE,
    FOREST_ORDER_FULL,
    FOREST_TOO_DEEP,
    FOREST_TOO_MANY,
    FOREST_UNKNOWN,
    NUMBER_BITS_MAX,
    STATE_COUNT,
    STATE_DEPTH,
    STATE_SIZE,
    WANTED_SIZE,
    collect_nodes,
    start_walk,
    walk_forest,
)
from binlog_format.innodb.layout import FIRST_DATA_PAGE, OOB_HEADER_INTS, OOB_HEADER_SIZE_MAX, RecordKind
from binlog_format.innodb.pages.pages import RUN_SIZE_MAX
from binlog_format.innodb.record_kernels import WALK_DONE, WALK_ELSEWHERE, WALK_ENOUGH, WALK_MORE, pages_ahead
from binlog_format.innodb.records import bad_reference, walk_error
from binlog_format.innodb.tables import GAP_PAGES_MAX, NODE_DTYPE, ORDER_DTYPE, VISIT_DTYPE, TableWalk
from binlog_format.kernels import empty_bytes
from binlog_format.position import Place

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlog_format.block import Block, Table
    from binlog_format.errors import CorruptError
    from binlog_format.innodb.files import LogFiles
    from binlog_format.innodb.groups.block_builder import BlockBuilder
    from binlog_format.innodb.pages.pages import PageRun
    from binlog_format.innodb.records import RecordReader
    from binlog_format.innodb.tables import Pages


NODES_MAX = 1 << 18
"""Records remembered, in 19 MB: with the server's default cache, those of 8 GB. Older ones are read by their place."""

_NODES_MIN = 1024

DEPTH_MAX = 4096
"""Nodes on the way to a leaf: the heights of all trees together, below a thousand for 2**30 records."""

ORDER_SIZE = 4096
"""Records put in order at a time."""

# A place of a record: file number, and byte in that file of its first chunk's type.
FilePlace = tuple[int, int]
NO_PLACE: FilePlace = (0, 0)


@dataclass(frozen=True, slots=True)
class OobSet:
    """Contents of a commit record about one set of out-of-band data. *last*: the root of the last tree."""

    count: int
    first: FilePlace
    last: FilePlace


class Forest:
    """Walks the trees of sets of out-of-band data, and reads the records of a set in its order.

    The last records that were given to `collect` are remembered, rolled back or not; when there are too many, the older
    half is forgotten.

    Args:
        records: Reads the records that the scan has not passed, or passed too long ago, and gives runs of pages.
    """

    def __init__(self, files: LogFiles, records: RecordReader) -> None:
        self._files = files
        self._records = records
        self._nodes = np.empty(_NODES_MIN, dtype=NODE_DTYPE)  # ascending by place
        self._node_count = 0
        self._is_open = False  # true: the last record continues in the next window
        self._head = empty_bytes(OOB_HEADER_SIZE_MAX)
        self._integers = np.empty(OOB_HEADER_INTS, dtype=np.uint64)
        self._given = np.zeros(1, dtype=NODE_DTYPE)
        self._given["offset"] = -1
        self._stack = np.empty(DEPTH_MAX, dtype=VISIT_DTYPE)
        self._state = np.zeros(STATE_SIZE, dtype=np.int64)
        self._wanted = np.zeros(WANTED_SIZE, dtype=np.int64)
        self._order = np.empty(ORDER_SIZE, dtype=ORDER_DTYPE)
        self._last_read: FilePlace = (-1, 0)

    def collect(self, pages: Pages, chunks: Table) -> None:
        """Remember the records of the next window; windows may overlap."""
        if (wanted := self._node_count + len(chunks)) > len(self._nodes):
            self._make_room(wanted, len(chunks))
        self._node_count, self._is_open = collect_nodes(
            pages, chunks, self._nodes, self._node_count, self._is_open, self._head, self._integers
        )

    def _make_room(self, wanted: int, added: int) -> None:
        kept = self._nodes[: self._node_count]
        kept = kept if wanted <= NODES_MAX else kept[-(NODES_MAX // 2) :]
        nodes = np.empty(max(min(2 * wanted, NODES_MAX), len(kept) + added), dtype=NODE_DTYPE)
        nodes[: len(kept)] = kept
        self._nodes, self._node_count = nodes, len(kept)

    def walk(self) -> TableWalk:
        """State of a walk over the records that have been passed by now."""
        nodes = self._nodes[: self._node_count]
        return TableWalk(nodes, self._given, self._stack, self._state, self._wanted, self._order)

    def nodes(self, oob: OobSet, commit: FilePlace) -> Iterator[Table]:
        """The records of a set in the order of their payload: 0, 1, ... count - 1.

        Args:
            commit: The commit record; everything it refers to lies before it.

        Yields:
            `ORDER_DTYPE`, some records at a time; overwritten by the next step.
        """
        for place in (oob.first, oob.last):
            if max(place) >> NUMBER_BITS_MAX:
                raise self._error(commit, f"there can be no file {place[0]} with a byte {place[1]:#x}")
        walk = self.walk()
        self._wanted[:] = oob.count, *oob.first
        start_walk(walk, *oob.last, *commit)
        order = self._order
        while True:
            code, written = walk_forest(walk._replace(order=order))
            if code == FOREST_UNKNOWN:
                # What has been put in order so far stays; the walk goes on after it.
                self._read(self._top())
                order = order[written:]
                continue
            filled = self._order[: len(self._order) - len(order) + written]
            order = self._order
            if len(filled) > 0:
                yield filled
            if code == FOREST_DONE:
                return
            if code != FOREST_ORDER_FULL:
                raise self._walk_error(code, oob)

    def append(self, builder: BlockBuilder, oob: OobSet, commit: FilePlace) -> Iterator[Block]:
        """Append the payload of a set to the group under construction; give the blocks that it fills.

        A run of pages is read once where records do not lie too far apart.

        Raises:
            BinlogError: The set cannot be read; blocks may have been given.
        """
        for order in self.nodes(oob, commit):
            cursor = NodeCursor()
            run = self._first_run(order, cursor)
            pages = run.pages()
            while (code := builder.append_nodes(pages, order, cursor)) != WALK_DONE:
                if code == WALK_ENOUGH:
                    yield from builder.cut_pieces()
                    continue
                if code == WALK_ELSEWHERE:
                    run = self._first_run(order, cursor)
                elif code == WALK_MORE:
                    run = self._next_run(order, cursor, run)
                else:
                    raise walk_error(code, self._files.existing(run.file_no), run, cursor.at, RecordKind.OOB)
                pages = run.pages()
            yield from builder.cut_pieces()

    def _first_run(self, order: Table, cursor: NodeCursor) -> PageRun:
        """The run in which a record begins."""
        file = self._files.existing(int(order["file_no"][cursor.row]))
        page, byte = divmod(int(order["offset"][cursor.row]), file.page_size)
        if page < FIRST_DATA_PAGE:
            raise bad_reference(file.place(page, byte), "it points into the header page")
        return self._records.run_at(file, page, begun=False, ahead=_ahead(order, cursor.row, page, file.page_size))

    def _next_run(self, order: Table, cursor: NodeCursor, run: PageRun) -> PageRun:
        """The run in which a record goes on that does not end in *run*."""
        file = self._files.existing(run.file_no)
        page = run.first_page + run.page_count
        ahead = RUN_SIZE_MAX // file.page_size
        if run.file_no == order["file_no"][cursor.row]:
            ahead = _ahead(order, cursor.row, page, file.page_size)
        following = self._records.run_at(file, page, begun=True, ahead=ahead)
        if following.file_no != run.file_no:
            page = FIRST_DATA_PAGE
        cursor.at = (page - following.first_page) * file.page_size
        return following

    def _top(self) -> FilePlace:
        entry = self._stack[self._state[STATE_DEPTH] - 1]
        return int(entry["file_no"]), int(entry["offset"])

    def _read(self, place: FilePlace) -> None:
        """Read the header of one record by its place."""
        file_no, offset = place
        # Mostly the next one in the file comes next, but for the way down to the first one of a tree.
        is_next = file_no == self._last_read[0] and 0 <= offset - self._last_read[1] < RUN_SIZE_MAX
        self._last_read = place
        head = self._records.head(file_no, offset, RecordKind.OOB, OOB_HEADER_SIZE_MAX, is_next=is_next)
        integers = np.empty(OOB_HEADER_INTS, dtype=np.uint64)
        header_size, count = read_ints(head, 0, len(head), integers)
        if header_size < 0 or count < OOB_HEADER_INTS:
            raise self._error(place, "the record's header is cut off")
        numbers = integers.tolist()
        if max(numbers) >> NUMBER_BITS_MAX:
            raise self._error(place, f"there can be no record with the numbers {', '.join(map(str, numbers))}")
        self._given[0] = (file_no, offset, 0, *numbers, header_size)

    def _walk_error(self, code: int, oob: OobSet) -> CorruptError:
        """The error that a walk ended with."""
        if code == FOREST_BAD_COUNT:
            return self._error(oob.last, f"expected {oob.count} records, got {self._state[STATE_COUNT]}")
        place = self._top()
        entry = self._stack[self._state[STATE_DEPTH] - 1]
        expected = int(self._state[STATE_COUNT])
        if code == FOREST_NOT_BEFORE:
            bound = f"byte {entry['bound_offset']:#x} of file {entry['bound_file_no']}"
            return self._error(place, f"it does not lie before {bound}, which needs it")
        if code == FOREST_TOO_DEEP:
            return self._error(place, f"the trees are deeper than {DEPTH_MAX}")
        if code == FOREST_BAD_INDEX:
            return self._error(place, f"expected record {expected} of its transaction, got {entry['index']}")
        if code == FOREST_TOO_MANY:
            return self._error(place, f"the transaction has {oob.count} records, here is one more")
        if code == FOREST_BAD_FIRST:
            first = f"byte {oob.first[1]:#x} of file {oob.first[0]}"
            return self._error(place, f"expected the first record at {first}")
        return self._error(place, "it lies before the record that comes before it")

    def _error(self, place: FilePlace, reason: str) -> CorruptError:
        return bad_reference(Place(self._files.path(place[0]), byte=place[1]), reason)


def _ahead(order: Table, row: int, page: int, page_size: int) -> int:
    return pages_ahead(order, row, page, page_size, GAP_PAGES_MAX, max(RUN_SIZE_MAX // page_size, 1))
