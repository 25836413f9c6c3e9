"""Out-of-band data of a large group, read by their places: `OobReader`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_format.innodb.extents import GAP_PAGES_MAX
from binlog_format.innodb.groups.block_builder import NodeCursor
from binlog_format.innodb.layout import FIRST_DATA_PAGE, RecordKind
from binlog_format.innodb.pages.page_runs import RUN_SIZE_MAX
from binlog_format.innodb.record_kernels import WALK_DONE, WALK_ELSEWHERE, WALK_ENOUGH, WALK_MORE, pages_ahead
from binlog_format.innodb.records import bad_reference, walk_error

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlog_format.block import Block, Table
    from binlog_format.innodb.files import LogFiles
    from binlog_format.innodb.groups.block_builder import BlockBuilder
    from binlog_format.innodb.out_of_band.forest import FilePlace, Forest, OobSet
    from binlog_format.innodb.pages.page_runs import PageRun
    from binlog_format.innodb.records import RecordReader


class OobReader:
    """Reads the records of a set in runs of pages, each run once where records do not lie too far apart.

    Args:
        files: The log's files.
        records: Gives runs of pages.
        forest: Puts the records in order.
    """

    def __init__(self, files: LogFiles, records: RecordReader, forest: Forest) -> None:
        self._files = files
        self._records = records
        self._forest = forest

    def append(self, builder: BlockBuilder, oob: OobSet, commit: FilePlace) -> Iterator[Block]:
        """Append the payload of a set to the group under construction; give the blocks that it fills.

        Args:
            builder: Holds the group.
            oob: The set.
            commit: The commit record.

        Raises:
            BinlogError: The set cannot be read; blocks may have been given.
        """
        for order in self._forest.nodes(oob, commit):
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


def _ahead(order: Table, row: int, page: int, page_size: int) -> int:
    return pages_ahead(order, row, page, page_size, GAP_PAGES_MAX, max(RUN_SIZE_MAX // page_size, 1))
