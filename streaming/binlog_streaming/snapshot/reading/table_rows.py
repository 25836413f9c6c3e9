"""The rows of one table at one point of a server, written into its targets by several sessions: `TableRows`.

It has the place of a `Division` in `apply_component`: so that who owns a target, its columns, keys, properties and
commits are the business of the same code as for rows of a log.

A table in ranges of its key, dealt out to sessions: `KeyRanges`.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from binlog_format.block import EVENT_DTYPE, GROUP_DTYPE
from binlog_format.errors import CorruptError
from binlog_format.gtids.gtid import Gtid
from binlog_format.kernels import empty_bytes
from binlog_format.rows.arrow_arrays import mask_array
from binlog_format.rows.images import IMAGE_DTYPE, ImageKind, Images
from binlog_streaming.lake.evolution import cast_to_schema
from binlog_streaming.lake.sinks import sink_type
from binlog_streaming.modes.row_batches import NO_IMAGE, RowBatch, StepImages
from binlog_streaming.modes.row_keys import key_columns, null_key
from binlog_streaming.server.raw_rows import RawRows
from binlog_streaming.settings import Deletes, Mode
from binlog_streaming.snapshot.marks import Bounds
from binlog_streaming.snapshot.reading.wire_columns import image_layout, wire_table
from binlog_streaming.snapshot.reading.wire_kernels import write_images
from binlog_streaming.snapshot.sql_text import bound_of, bound_statement, select_statement
from binlog_streaming.tables.rows_step import RowsContent, changelog_batch, target_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from binlog_format.block import Table
    from binlog_format.events.table_map import TableLayout
    from binlog_format.gtids.gtid_set import AnyGtid
    from binlog_format.kernels import Int64s
    from binlog_format.position import Position
    from binlog_format.rows.decoding import Decoding
    from binlog_streaming.lake.commit_id import CommitId
    from binlog_streaming.lake.merge import WrittenFiles
    from binlog_streaming.lake.target import Target
    from binlog_streaming.plan.batch_plan import RowsStep
    from binlog_streaming.plan.job_state import SelectedTable
    from binlog_streaming.server.raw_rows import PacketRows
    from binlog_streaming.server.session import ServerSession
    from binlog_streaming.settings import Sink
    from binlog_streaming.snapshot.reading.plan import ReadTable
    from binlog_streaming.snapshot.reading.wire_columns import WireTable
    from binlog_streaming.snapshot.source_table import SourceTable
    from binlog_streaming.tables.row_evidence import RowEvidence

RANGE_BYTES = 64 << 20
"""Approximate size of a range: the cost of its statement is small, and all sessions end at about the same time."""
_RANGE_ROWS_MAX = 1 << 20
_RANGE_ROWS_MIN = 1 << 10


class KeyRanges:
    """The ranges of a table, one for who asks next; together they are all of it. For several threads.

    Args:
        session: Finds where ranges end; at the point that all read.
        row_size: Bytes of a row, about.
    """

    def __init__(self, session: ServerSession, table: SourceTable, row_size: int) -> None:
        self._session = session
        self._table = table
        self._size = min(max(RANGE_BYTES // max(row_size, 1), _RANGE_ROWS_MIN), _RANGE_ROWS_MAX)
        self._lock = threading.Lock()
        self._after: tuple[str, ...] | None = None
        self._is_done = False

    def next(self) -> Bounds | None:
        """The next range; None: there is none, or others have stopped."""
        with self._lock:
            if self._is_done:
                return None
            bounds = Bounds(self._after, self._through())
            self._after, self._is_done = bounds.through, bounds.through is None
            return bounds

    def stop(self) -> None:
        """Give nobody another range."""
        self._is_done = True

    def _through(self) -> tuple[str, ...] | None:
        key = self._table.key
        if key is None:
            return None
        return bound_of(self._session.rows(bound_statement(self._table, key, self._after, self._size)))


_EVENT_NO = 0
"""Events with rows have others: so these rows come before all changes of the group that follows the point."""
_ROW_NO_MAX = (1 << 31) - 1
_SAVEPOINT = "binlog_stream"


@dataclass(frozen=True, slots=True)
class RowsPlace:
    """Place in a job's log at which rows are those of their table.

    Attributes:
        position: Before the next event group.
        gtid: Of the group before it, where that is known.
        commit_time: Of that group, seconds since 1970 UTC.
    """

    position: Position
    gtid: AnyGtid | None
    commit_time: int

    def events(self) -> tuple[Table, Table]:
        """An event group there, with one event: `EVENT_DTYPE` and `GROUP_DTYPE`."""
        groups, events = np.zeros(1, GROUP_DTYPE), np.zeros(1, EVENT_DTYPE)
        groups["file_no"], groups["page"], groups["chunk"] = (
            self.position.file_no,
            self.position.page,
            self.position.chunk,
        )
        groups["timestamp"], groups["gtid_source"] = self.commit_time, -1
        groups["begins"] = groups["ends"] = True
        if isinstance(self.gtid, Gtid):
            groups["has_gtid"] = True
            groups["domain"], groups["server_id"] = self.gtid.domain, self.gtid.server
            groups["seqno"] = self.gtid.seqno
        events["event_no"], events["timestamp"] = _EVENT_NO, self.commit_time
        return events, groups


@dataclass(frozen=True, slots=True)
class ReadingContext:
    """Common data of all tables that are read at one point.

    Attributes:
        sessions: All see the point; the first one finds where ranges end, the others read them.
        place: What place of the log the point is.
    """

    sessions: Sequence[ServerSession]
    place: RowsPlace
    decoding: Decoding
    sink: Sink


class TableRows:
    """The rows of a table.

    Args:
        snapshot: UUID, which tells the rows from changes.
        check_unchanged: Called before the rows of a target are committed; raises where the table was altered.
        on_rows: Told how many rows of a target have been read so far; from several threads.

    Attributes:
        row_count: Of the target that was written last.
    """

    def __init__(
        self,
        context: ReadingContext,
        read: ReadTable,
        snapshot: str,
        *,
        check_unchanged: Callable[[], None],
        on_rows: Callable[[int], None],
    ) -> None:
        self._finder, *self._readers = context.sessions
        self._table = read.source
        self._logged = read.logged
        self._row_size = read.table.row_size
        self._place = context.place
        self._snapshot = snapshot
        self._decoding = context.decoding
        self._sink = context.sink
        self._check_unchanged = check_unchanged
        self._on_rows = on_rows
        self._lock = threading.Lock()
        self.row_count = 0

    def outline(self, step: RowsStep, table: SelectedTable) -> RowsContent:
        """See `Division`."""
        del step  # its rows are read from the server, not from the log
        layout = self._decoding.shown(image_layout(self._logged))
        table_rows = np.zeros(1, IMAGE_DTYPE)
        slots, cells = np.zeros(len(layout.columns), np.int64), np.empty((0, 1), np.int32)
        images = Images(layout, empty_bytes(0), table_rows, cells, slots, self._decoding)
        return RowsContent(str(table.name), (self._row_batch(images),), self._decoding, table.rule)

    def rows(self, step: RowsStep, content: RowsContent, evidence: RowEvidence | None) -> ReadRows:
        """See `Division`."""
        del step, evidence  # rows that are read replace those of a target, and prove nothing of them
        return ReadRows(self, content)

    def write(self, target: Target, commit_id: CommitId, content: RowsContent) -> int:
        """Read all rows and write them into a target, in one commit; how many they are."""
        self.row_count = 0
        schema = target_schema(content, commit_id.mode)
        ranges = KeyRanges(self._finder, self._table, self._row_size)
        make = _maker(content, commit_id.mode, schema)
        if not target.is_divisible:
            row_batches = self._checked(self._row_batches(self._readers[0], ranges))
            target.append(pa.RecordBatchReader.from_batches(schema, map(make, row_batches)), commit_id)
            return self.row_count
        parts = self._parts(target.uri, ranges, make, schema)
        self._check_unchanged()
        target.commit_parts(parts, commit_id)
        return self.row_count

    def _checked(self, row_batches: Iterator[RowBatch]) -> Iterator[RowBatch]:
        # Before the commit that follows the last row.
        yield from row_batches
        self._check_unchanged()

    def _parts(
        self, uri: str, ranges: KeyRanges, make: Callable[[RowBatch], pa.RecordBatch], schema: pa.Schema
    ) -> list[WrittenFiles[Any]]:
        def part(session: ServerSession) -> WrittenFiles[Any]:
            try:
                with closing(sink_type(self._sink.format).at(self._sink, uri)) as target:
                    return target.append_part(self._reader(session, ranges, make, schema))
            except BaseException:
                ranges.stop()  # what others have read is of no use
                raise

        with ThreadPoolExecutor(len(self._readers), "binlog-stream-read") as pool:
            futures = [pool.submit(part, session) for session in self._readers]
            try:
                return [future.result() for future in futures]
            except BaseException:
                ranges.stop()  # Ctrl-C, too: the pool waits for its threads
                raise

    def _reader(
        self, session: ServerSession, ranges: KeyRanges, make: Callable[[RowBatch], pa.RecordBatch], schema: pa.Schema
    ) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(schema, map(make, self._row_batches(session, ranges)))

    def _row_batches(self, session: ServerSession, ranges: KeyRanges) -> Iterator[RowBatch]:
        while (bounds := ranges.next()) is not None:
            # An ALTER TABLE waits for the end of this range, not for that of the snapshot.
            session.execute(f"SAVEPOINT {_SAVEPOINT}")
            answer = RawRows(session, select_statement(self._table, bounds))
            wire = wire_table(self._logged, answer.types)
            for some in answer.chunks():
                row_batch = self._row_batch(self._images(wire, some))
                if len(row_batch.images.table):
                    yield row_batch
            session.execute(f"ROLLBACK TO SAVEPOINT {_SAVEPOINT}")

    def _images(self, wire: WireTable, some: PacketRows) -> Images:
        count = len(some.starts)
        data = empty_bytes(int((some.ends - some.starts).sum()) + count * wire.growth)
        cells = np.empty((len(wire.kinds), count), np.int32)
        row, column = write_images(some.data, some.starts, some.ends, wire.kinds, wire.wire, wire.image, data, cells)
        if row >= 0:
            name = wire.layout.columns[column].name
            raise CorruptError("BAD_EVENT", f"{self._table.full_name}.{name}: the server sent no value of its type")
        table = np.zeros(count, IMAGE_DTYPE)
        table["row_no"] = self._numbers(count)
        table["kind"] = ImageKind.INSERT
        slots = np.arange(len(wire.kinds), dtype=np.int64)
        images = Images(wire.layout, data, table, cells, slots, self._decoding)
        rules = self._decoding.rules
        return images if rules is None or self._decoding.shown(wire.layout) is wire.layout else rules.applied(images)

    def _numbers(self, count: int) -> Int64s:
        # Of rows of a target, each once.
        with self._lock:
            first = self.row_count
            self.row_count += count
            self._on_rows(self.row_count)
        return np.arange(first, first + count) & _ROW_NO_MAX

    def _row_batch(self, images: Images) -> RowBatch:
        events, groups = self._place.events()
        return RowBatch(images, events, groups, images.layout, (), self._decoding, self._snapshot)


@dataclass(frozen=True, slots=True)
class ReadRows:
    """Rows that only have to be read and written; see `PreparedRows`."""

    table: TableRows
    content: RowsContent

    def bring_into(self, target: Target, commit_id: CommitId) -> int:
        """See `PreparedRows`."""
        return self.table.write(target, commit_id, self.content)


def _maker(content: RowsContent, mode: Mode, schema: pa.Schema) -> Callable[[RowBatch], pa.RecordBatch]:
    """Make the function that converts existing rows, with no key twice, to rows of a target."""

    def make(row_batch: RowBatch) -> pa.RecordBatch:
        if mode is Mode.CHANGELOG:
            return cast_to_schema(changelog_batch(row_batch), schema)
        images = StepImages(content.source_table, (row_batch,))
        columns = list(map(row_batch.images.column, range(len(row_batch.layout.columns))))
        for index in _keys(content, row_batch.layout):
            if columns[index].null_count:
                raise null_key(images, index, schema.field(index), columns[index].null_count)
        return pa.RecordBatch.from_arrays([*columns, *_own_columns(images, mode, content)], schema=schema)

    return make


def _keys(content: RowsContent, layout: TableLayout) -> tuple[int, ...]:
    """Columns that tell rows of a target apart; none where the whole row does."""
    needs_key = content.rule.keys or layout.primary_key
    return key_columns(layout, content.rule.keys) if needs_key else ()


def _own_columns(images: StepImages, mode: Mode, content: RowsContent) -> list[pa.Array]:
    count = len(images)
    if mode is not Mode.SCD2 and content.rule.deletes is not Deletes.MARK:
        return []
    never = images.times(np.full(count, NO_IMAGE))
    if mode is not Mode.SCD2:
        return [mask_array(np.zeros(count, np.bool_)), never]
    numbers, is_current = np.arange(count, dtype=np.int64), mask_array(np.ones(count, np.bool_))
    return [images.times(numbers), never, is_current, images.place_texts(numbers).combine_chunks()]
