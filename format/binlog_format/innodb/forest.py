"""Out-of-band data in order: `Forest.nodes` finds the records that a commit record refers to.

A transaction that outgrows its cache is written in parts, each a record, before its commit record. The records form a
list of perfect binary trees (reading specification, section 5; writing specification, section 12): an inner node comes
after its two children, the first leaf of a tree links to the root of the tree before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from binlog_format.innodb.compressed_int_kernels import read_ints
from binlog_format.innodb.layout import OOB_HEADER_INTS, OOB_HEADER_SIZE_MAX, RecordKind
from binlog_format.innodb.records import bad_reference
from binlog_format.position import Place

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlog_format.errors import CorruptError
    from binlog_format.innodb.files import LogFiles
    from binlog_format.innodb.records import RecordReader

DEPTH_MAX = 4096
"""Nodes on the way to a leaf: the heights of all trees together, below a thousand for 2**30 records."""

# A place of a record: file number, and byte in that file of its first chunk's type.
FilePlace = tuple[int, int]
NO_PLACE: FilePlace = (0, 0)


@dataclass(frozen=True, slots=True)
class OobSet:
    """What a commit record says about one set of out-of-band data.

    Attributes:
        count: Records in it.
        first: The first one.
        last: The root of the last tree.
    """

    count: int
    first: FilePlace
    last: FilePlace


@dataclass(frozen=True, slots=True)
class Node:
    """One record of out-of-band data.

    Attributes:
        place: Where it is.
        index: Number in its set.
        left: Left child; `NO_PLACE` in a leaf.
        right: Right child; in a leaf the root of the tree before.
        header_size: Bytes of its data before the payload.
    """

    place: FilePlace
    index: int
    left: FilePlace
    right: FilePlace
    header_size: int


class Forest:
    """Walks the trees of sets of out-of-band data.

    Args:
        files: The log's files, for the names in errors.
        records: Reads single records.
    """

    def __init__(self, files: LogFiles, records: RecordReader) -> None:
        self._files = files
        self._records = records
        self._integers = np.empty(OOB_HEADER_INTS, dtype=np.uint64)

    def nodes(self, oob: OobSet, commit: FilePlace) -> Iterator[Node]:
        """The nodes of a set in the order of their payload: 0, 1, ... count - 1.

        Args:
            oob: The set.
            commit: The commit record; everything it refers to lies before it.

        Raises:
            CorruptError: `OOB_REFERENCE`: indexes, count, first place or order are not what a server writes; and
                what reading a record raises.
            DataLossError: A file that is referred to is not there.
        """
        # Entries: place, its bound, whether links are followed from it, and the node once its children are done.
        stack: list[tuple[FilePlace, FilePlace, bool, Node | None]] = [(oob.last, commit, True, None)]
        expected = 0
        previous = NO_PLACE
        while stack:
            place, bound, leftmost, node = stack.pop()
            if node is not None:
                self._check_order(node, expected, previous, oob)
                expected += 1
                previous = place
                yield node
                continue
            if place >= bound:
                raise self._error(
                    place, f"it does not lie before byte {bound[1]:#x} of file {bound[0]}, which needs it"
                )
            if len(stack) >= DEPTH_MAX:
                raise self._error(place, f"the trees are deeper than {DEPTH_MAX}")
            node = self._read(place)
            stack.append((place, bound, leftmost, node))
            if node.left != NO_PLACE:
                stack.append((node.right, place, False, None))
                stack.append((node.left, node.right, leftmost, None))
            elif leftmost and node.right != NO_PLACE:
                stack.append((node.right, place, True, None))
        if expected != oob.count:
            raise self._error(oob.last, f"expected {oob.count} records, got {expected}")

    def _read(self, place: FilePlace) -> Node:
        file_no, offset = place
        head = self._records.head(file_no, offset, RecordKind.OOB, OOB_HEADER_SIZE_MAX)
        header_size, count = read_ints(head, 0, len(head), self._integers)
        if header_size < 0 or count < OOB_HEADER_INTS:
            raise self._error(place, "the record's header is cut off")
        index, left_file, left_offset, right_file, right_offset = self._integers.tolist()
        return Node(place, index, (left_file, left_offset), (right_file, right_offset), header_size)

    def _check_order(self, node: Node, expected: int, previous: FilePlace, oob: OobSet) -> None:
        if node.index != expected:
            raise self._error(node.place, f"expected record {expected} of its transaction, got {node.index}")
        if expected >= oob.count:
            raise self._error(node.place, f"the transaction has {oob.count} records, here is one more")
        if expected == 0 and node.place != oob.first:
            raise self._error(node.place, f"expected the first record at byte {oob.first[1]:#x} of file {oob.first[0]}")
        if node.place <= previous:
            raise self._error(node.place, "it lies before the record that comes before it")

    def _error(self, place: FilePlace, reason: str) -> CorruptError:
        return bad_reference(Place(self._files.name(place[0]), byte=place[1]), reason)
