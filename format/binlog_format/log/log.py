"""The log, whatever its format: `Log`; `opening.open_log(path)` returns one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_format.gtids.gtid import GtidPosition
from binlog_format.gtids.gtid_set import GtidSet, check_kind
from binlog_format.log_format import LogFormat

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

    from binlog_format.block import Block
    from binlog_format.gtids.gtid_set import GtidPoint
    from binlog_format.log_format import GtidStart
    from binlog_format.position import Position
    from binlog_format.rows.decoding import Decoding
    from binlog_format.transactions.xa import PreparedXa


class Log(LogFormat):
    """A log of a format, with what is made of any format's blocks."""

    def position_of(self, gtids: GtidPoint) -> GtidStart:
        """Find the position after *gtids*: no group before it is needed.

        MariaDB: after a GTID comes what follows it in its domain in the log, whatever its number.

        Raises:
            DataLossError: `GTID_PURGED`: groups that come after *gtids* are not in the log any more.
            OptionError: `INVALID_VALUE`: the log has GTIDs of the other vendor.
        """
        first = self.start_position()
        before = self.gtid_position_at(first)
        check_kind(before, gtids)
        from binlog_format.gtids.gtid_search import GtidSearch, start_after_set  # compiled code, as below

        if isinstance(before, GtidSet):
            return start_after_set(self, gtids if isinstance(gtids, GtidSet) else GtidSet({}))
        return GtidSearch(self).start(gtids if isinstance(gtids, GtidPosition) else GtidPosition({}))

    def committed_blocks(
        self, start: Position | None = None, end: Position | None = None, *, prepared: Iterable[PreparedXa] = ()
    ) -> Iterator[Block]:
        """The groups of `blocks` as consumers of rows want them: plain events, and of committed changes alone.

        Compressed events and transactions are expanded, rows that their own group takes back are left out, and rows of
        a prepared XA transaction come with its XA COMMIT.

        Args:
            start: Default: `start_position()`.
            end: Default: the end of the log when that place is reached.
            prepared: XA transactions that lie before *start* and have not ended there (`classic`), as far as they are
                known; the log before *start* is searched for others when their XA COMMIT comes.

        Raises:
            CorruptError: As `blocks`.
            DataLossError: As `blocks`; `XA_PREPARE_MISSING`: an XA COMMIT whose rows are not in reach.
        """
        from binlog_format.transactions.committed import committed  # compiled code, as below

        return committed(self, start, end, prepared)

    def changes(
        self,
        *,
        tables: str | None = None,
        exclude_tables: str | None = None,
        table: str | None = None,
        start: Position | str | None = None,
        end: Position | str | None = None,
        decoding: Decoding | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Read changed rows, in commit order: the view `changes`.

        Args:
            tables: Regular expressions on `database.table`, separated by commas; default: all tables.
            exclude_tables: The same, for what to leave out.
            table: One table by name; the images are then typed structs, not JSON texts.
            start: A position, or GTIDs (`0-1-575`) after which to start; default: the start of the log.
            end: A position to stop before, or GTIDs to stop after; default: the end of the log.
            decoding: How rows become values, where the log leaves it open; default: `DEFAULT_DECODING`.

        Raises:
            OptionError: `INVALID_VALUE`: *table* names no database.
            StartError: *start* or *end* is not in the log; see `ReadRange.of`.
        """
        from binlog_format.log.read_range import ReadRange
        from binlog_format.rows.decoding import DEFAULT_DECODING
        from binlog_format.views.changes import ChangesView  # compiled code; not every use of a log needs it
        from binlog_format.views.table_filter import TableFilter, check_table_name

        check_table_name("table", table)
        part = ReadRange.of(self, start, end)
        view = ChangesView(
            table=table,
            tables=TableFilter(tables, exclude_tables),
            groups=part.groups,
            decoding=DEFAULT_DECODING if decoding is None else decoding,
        )
        return view.batches(part.blocks(self))

    def position_of_time(self, seconds: int) -> Position:
        """Position of the first group that was committed at *seconds* since 1970 UTC, or later.

        Raises:
            StartError: `TIMESTAMP_NOT_FOUND`: all groups are older.
        """
        from binlog_format.log.search import find_time  # compiled code, as above

        return find_time(self, seconds)
