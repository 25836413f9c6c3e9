"""A connection's cache of events: `TransactionCache` keeps what fits and spills the rest out of band."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_format.innodb.layout import RecordKind
from binlog_lab.innodb_writer.encoding import encode_compressed_ints
from binlog_lab.innodb_writer.forest import NO_MARK, ForestMark, OobReference, WrittenForest

if TYPE_CHECKING:
    from binlog_lab.innodb_writer.page_writer import PageWriter
    from binlog_lab.innodb_writer.references import FileReferences

_STATEMENT_START = -1
"""Mark that stands for the start of the running statement; savepoints have non-negative numbers."""
_IO_SIZE = 4096
"""The server's caches end their writes at multiples of it (MariaDB mysys/mf_iocache.c)."""


class OobWriter:
    """Writes out-of-band records of all connections.

    Args:
        pages: Where they go.
        references: Counts the transactions that have some.
        data_max: Largest payload of a record.
    """

    def __init__(self, pages: PageWriter, references: FileReferences, data_max: int) -> None:
        self._pages = pages
        self._references = references
        self.data_max = data_max

    def write(self, forest: WrittenForest, data: bytes | memoryview) -> int | None:
        """Write one record as the next one of *forest*.

        Returns:
            The file where it begins, if it is the first one of its forest.
        """
        index = forest.next_number
        left, right = forest.links()
        if index == 0:
            self._references.add_oob()
        head = encode_compressed_ints((index, *left, *right))
        node = self._pages.write(RecordKind.OOB, b"".join((head, data)))
        forest.add(node)
        return node.file_no if index == 0 else None

    def release(self, file_no: int) -> None:
        """The transaction whose first record is in *file_no* needs it no longer."""
        self._references.remove_oob(file_no)


class TransactionCache:
    """Events of one transaction (or of one statement, in the statement cache), in order.

    Positions count the bytes since the start of the transaction; `_spilled` of them are out of band, the rest is in
    `_parts`.

    Args:
        buffer_size: Bytes that stay in memory.
        oob: Takes what does not.
    """

    __slots__ = (
        "_buffer_size",
        "_first_file_no",
        "_forest",
        "_limit",
        "_marks",
        "_oob",
        "_parts",
        "_size",
        "_spilled",
        "_tree_marks",
    )

    def __init__(self, buffer_size: int, oob: OobWriter) -> None:
        self._buffer_size = buffer_size
        self._limit = buffer_size  # bytes that the buffer takes now
        self._oob = oob
        self._parts: list[bytes | memoryview] = []
        self._size = 0
        self._spilled = 0
        self._forest = WrittenForest()
        self._first_file_no: int | None = None
        self._marks: dict[int, int] = {}  # savepoint -> position, in the order they were set
        self._tree_marks: dict[int, ForestMark] = {0: NO_MARK}  # position -> the forest there

    def append(self, event: bytes | memoryview) -> None:
        """Add bytes; when they do not fit, the buffer is filled to its end and spilled.

        What is left goes out in whole buffers, the last one too when it is full; only the rest stays.
        """
        if type(event) is not bytes:
            event = bytes(event)  # the caller's buffer may change
        size = self._size + len(event)
        if size <= self._limit:
            self._parts.append(event)
            self._size = size
            return
        rest = memoryview(event)
        while len(rest) >= (room := self._limit - self._size):
            self._parts.append(rest[:room])
            self._size = self._limit
            self.spill()
            rest = rest[room:]
        if rest:
            self._parts.append(rest)
            self._size = len(rest)

    def spill(self) -> None:
        """Write the buffer out of band, cut at savepoints and to the largest piece."""
        if self._size == 0:
            return
        data = memoryview(b"".join(self._parts))
        cuts = sorted({mark - self._spilled for mark in self._marks.values() if mark >= self._spilled})
        start = 0
        for end in [*cuts, len(data)]:
            self._write(data[start:end])
            start = end
            if end < len(data):
                self._tree_marks[self._spilled + end] = self._forest.mark()
        self._spilled += len(data)
        # The server adds the size once more than the position needs.
        self._limit = self._limit_at(self._spilled + len(data))
        self._parts.clear()
        self._size = 0

    def write_piece(self, data: bytes) -> None:
        """Write *data* as one out-of-band record, after what the buffer holds."""
        self.spill()
        if self._marks and self._spilled in self._marks.values():
            self._tree_marks[self._spilled] = self._forest.mark()
        self._write_record(data)
        self._spilled += len(data)

    def set_savepoint(self, savepoint: int) -> None:
        """Remember this position as *savepoint*; one of that number that is there already is forgotten."""
        self._marks.pop(savepoint, None)
        self._marks[savepoint] = self._spilled + self._size

    def roll_back_to(self, savepoint: int) -> None:
        """Drop what came after *savepoint*, and the savepoints after it.

        Raises:
            KeyError: There is no such savepoint.
        """
        position = self._marks[savepoint]
        names = list(self._marks)
        for later in names[names.index(savepoint) + 1 :]:
            del self._marks[later]
        self._roll_back_to_position(position)

    def start_statement(self) -> None:
        """Remember where a statement starts."""
        self.set_savepoint(_STATEMENT_START)

    def end_statement(self) -> None:
        """The running statement has ended: no piece is cut where it started any more."""
        self._marks.pop(_STATEMENT_START, None)

    def roll_back_statement(self) -> None:
        """Drop what the running statement has added."""
        self._roll_back_to_position(self._marks.get(_STATEMENT_START, 0))

    def is_empty(self) -> bool:
        """True if nothing is to be logged."""
        return self._size == 0 and self._spilled == 0

    def has_spilled(self) -> bool:
        """True if some of it is out of band already."""
        return self._spilled > 0

    def holds_oob(self) -> bool:
        """True if a part was written out of band, even if all of that was rolled back."""
        return self._first_file_no is not None

    def is_inline_with(self, gtid_event: bytes) -> bool:
        """True if everything fits into the commit record."""
        return self._spilled == 0 and self._size + len(gtid_event) <= self._buffer_size

    def parts(self) -> list[bytes | memoryview]:
        """Contents of the buffer."""
        return self._parts

    def reference(self) -> OobReference:
        """Fields of the commit record about the records out of band."""
        return self._forest.reference()

    def detach(self) -> int | None:
        """Give the out-of-band data to a prepared XA transaction.

        Returns:
            The file where it begins; None when nothing was spilled.
        """
        file_no, self._first_file_no = self._first_file_no, None
        return file_no

    def release(self) -> None:
        """The transaction has ended: the file of its first record is needed no longer."""
        if self._first_file_no is not None:
            self._oob.release(self._first_file_no)
            self._first_file_no = None

    def _write(self, data: memoryview) -> None:
        for start in range(0, len(data), self._oob.data_max):
            self._write_record(data[start : start + self._oob.data_max])

    def _write_record(self, data: bytes | memoryview) -> None:
        file_no = self._oob.write(self._forest, data)
        if file_no is not None:
            self._first_file_no = file_no

    def _limit_at(self, position: int) -> int:
        return self._buffer_size - position % _IO_SIZE

    def _roll_back_to_position(self, position: int) -> None:
        if position < self._spilled:
            self._forest.restore(self._tree_marks[position])
            self._spilled = position
            self._limit = self._limit_at(position)
            self._parts.clear()
            self._size = 0
        else:
            kept = b"".join(self._parts)[: position - self._spilled]
            self._parts[:] = [kept] if kept else []
            self._size = len(kept)
        self._tree_marks = {mark: trees for mark, trees in self._tree_marks.items() if mark <= position}
