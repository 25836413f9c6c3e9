"""Reads all groups of a file, past those that cannot be read: `GroupCheck`."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from binlog_format.block import GROUP_DTYPE
from binlog_format.errors import BinlogError, CorruptError
from binlog_format.events.layout import EVENT_CHECKSUM_SIZE, EventType
from binlog_format.findings import Finding
from binlog_format.fragments.walk import FragmentWalk
from binlog_format.position import Position

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from binlog_format.block import Block, Table
    from binlog_format.innodb.inspection.file_views import FileView
    from binlog_format.innodb.reader import InnodbLog


@dataclass(slots=True)
class GroupCheck:
    """The groups whose commit records lie in one file.

    Attributes:
        log: Reads them.
        file: The file.
        commits: Page and chunk of every commit record, ascending.
        on_bytes: Told the bytes of the file that were passed.
        groups: `GROUP_DTYPE`: those that could be read.
    """

    log: InnodbLog
    file: FileView
    commits: NDArray[np.int64]
    on_bytes: Callable[[int], None]
    groups: Table = field(default_factory=lambda: np.zeros(0, dtype=GROUP_DTYPE))

    def findings(self, start: Position, end: Position) -> Iterator[Finding]:
        """Read all groups of [*start*, *end*); after one that cannot be read go on with the next."""
        tables: list[Table] = []
        position: Position | None = start
        while position is not None:
            last: Position | None = None
            fragments = FragmentWalk()
            try:
                for block in self.log.blocks(position, end):
                    ended = block.groups[block.groups["ends"]]
                    if len(ended):
                        tables.append(ended.copy())
                        last = Position(int(ended["file_no"][-1]), int(ended["page"][-1]), int(ended["chunk"][-1]))
                        self.on_bytes(int(ended["file_offset"][-1]))
                    yield from self._check_server_starts(block)
                    if fragments.concerns(block.events):
                        yield from fragments.findings(block.data, block.events, block.groups, block.place)
            except BinlogError as error:
                yield Finding.of(error)
            position = self._next(position, last, end)
        if tables:
            self.groups = np.concatenate(tables)

    def _next(self, position: Position, last: Position | None, end: Position) -> Position | None:
        """The first commit record that has not been tried yet; None: all have."""
        # What is at the place that was read from has been tried; so has the last group given.
        tried = position if last is None else last
        if last is None and position.chunk == 0 and not self._is_commit(position):
            row = self._row_after(Position(position.file_no, position.page, -1))
        else:
            row = self._row_after(tried)
        if row >= len(self.commits):
            return None
        page, chunk = self.commits[row].tolist()
        found = Position(self.file.file_no, page, chunk)
        return found if found < end else None

    def _is_commit(self, position: Position) -> bool:
        return bool(((self.commits[:, 0] == position.page) & (self.commits[:, 1] == position.chunk)).any())

    def _row_after(self, position: Position) -> int:
        pages, chunks = self.commits[:, 0], self.commits[:, 1]
        is_after = (pages > position.page) | ((pages == position.page) & (chunks > position.chunk))
        return int(np.argmax(is_after)) if is_after.any() else len(self.commits)

    def _check_server_starts(self, block: Block) -> Iterator[Finding]:
        """A server start logs its Format_description event, the only one that carries a checksum."""
        for group in block.groups[~block.groups["has_gtid"] & block.groups["begins"]]:
            event = block.events[int(group["first_event"])]
            if int(event["type"]) != EventType.FORMAT_DESCRIPTION or event["size"] <= EVENT_CHECKSUM_SIZE:
                continue
            start, end = int(event["start"]), int(event["start"] + event["size"])
            stored = int.from_bytes(block.data[end - EVENT_CHECKSUM_SIZE : end].tobytes(), "little")
            computed = zlib.crc32(block.data[start : end - EVENT_CHECKSUM_SIZE].data)
            if stored != computed:
                reason = f"Format_description event, CRC-32: stored {stored:#010x}, computed {computed:#010x}"
                place = self.file.place(*divmod(int(group["file_offset"]), self.file.page_size))
                yield Finding.of(CorruptError("EVENT_CHECKSUM", reason, at=place))
