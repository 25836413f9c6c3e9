"""The forest that ties a transaction's out-of-band records together: `WrittenForest`.

Records are numbered 0, 1, 2, ... in the order of their data. The forest is a list of perfect binary trees; their roots
are the records that the next ones link to.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


class Node(NamedTuple):
    """Start of an out-of-band record; (0, 0) is none, since offset 0 is never a record."""

    file_no: int
    file_offset: int


NO_NODE = Node(0, 0)


class _Tree(NamedTuple):
    root: Node
    number: int
    height: int


class ForestMark(NamedTuple):
    """A forest as it was: going back to it forgets the records after it."""

    trees: tuple[_Tree, ...]
    first: Node


NO_MARK = ForestMark((), NO_NODE)
"""Mark of a forest without records."""


class OobReference(NamedTuple):
    """Fields of a commit record about one set of out-of-band records."""

    record_count: int
    first: Node
    last: Node


NO_OOB = OobReference(0, NO_NODE, NO_NODE)


@dataclass(slots=True)
class WrittenForest:
    """The live out-of-band records of one cache."""

    _trees: list[_Tree] = field(default_factory=list)
    _first: Node = NO_NODE

    @property
    def next_number(self) -> int:
        """Number of the next record; 0 when no record is live."""
        return self._trees[-1].number + 1 if self._trees else 0

    def links(self) -> tuple[Node, Node]:
        """Left and right link of the next record."""
        trees = self._trees
        if len(trees) >= 2 and trees[-1].height == trees[-2].height:
            return trees[-2].root, trees[-1].root
        return NO_NODE, trees[-1].root if trees else NO_NODE

    def add(self, node: Node) -> None:
        """Take in the record that has just been written at *node*, with the number and links given before."""
        trees = self._trees
        number = self.next_number
        if number == 0:
            self._first = node
        if len(trees) >= 2 and trees[-1].height == trees[-2].height:
            height = trees[-1].height + 1
            del trees[-2:]
            trees.append(_Tree(node, number, height))
        else:
            trees.append(_Tree(node, number, 1))

    def reference(self) -> OobReference:
        """Fields of the commit record about these records."""
        if not self._trees:
            return NO_OOB
        return OobReference(self.next_number, self._first, self._trees[-1].root)

    def mark(self) -> ForestMark:
        """The present state, for `restore`."""
        return ForestMark(tuple(self._trees), self._first)

    def restore(self, mark: ForestMark) -> None:
        """Go back to *mark*; the numbers of the forgotten records are used again."""
        self._trees = list(mark.trees)
        self._first = mark.first
