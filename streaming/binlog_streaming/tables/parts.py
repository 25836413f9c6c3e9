"""A rows step that is too much for one task, written by several and committed once: `PartsWriter`.

A changelog is cut by places in the log: each task reads its part and writes it. Where keys count, tasks that read deal
their rows out by key (`modes.shards`), and as many others merge a shard each. What a task writes nobody refers to until
the driver commits all of it; so a task may die, run twice, or go on when nobody waits for it any more.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from binlog_connector.spark.worker_process import settle
from binlog_format import open_log
from binlog_format.errors import BinlogError
from binlog_format.views.changefeed import changefeed_batch
from binlog_format.views.table_index import TableIndex
from binlog_streaming.lake.conforming import conformed
from binlog_streaming.lake.sinks import sink_type
from binlog_streaming.modes.pieces import Piece, StepImages, load_pieces
from binlog_streaming.modes.shards import IndivisibleError, failed, gathered, sharded
from binlog_streaming.modes.whole_images import WholeImages
from binlog_streaming.settings import Deletes, Mode
from binlog_streaming.tables.log_facts import LogFacts
from binlog_streaming.tables.looks import Looks
from binlog_streaming.tables.rows_step import KeyedImages, RowsContent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

    from binlog_format.log import Log
    from binlog_format.rows.decoding import Decoding
    from binlog_streaming.lake.merge import Written
    from binlog_streaming.lake.target import Target
    from binlog_streaming.plan.batch_plan import LogPlace, RowsStep
    from binlog_streaming.settings import Sink, TableRule
    from binlog_streaming.tables.tasks import Shard, Tasks

    Failure = BinlogError | IndivisibleError

READ_BYTES = 8 << 20
"""Row events that are read and dealt out at a time; of more where there are so many shards that messages were small."""


FAIR = 1.25
"""Times the bytes that each task would read if all read as many: what one may be given, to spare the cut."""


@dataclass(frozen=True, slots=True)
class PartsWriter:
    """A rows step of one target, written in parts; tasks get it pickled.

    Attributes:
        log_path: Path of the log.
        sink: Where the tables go.
        uri: Place of the target.
        source_table: `database.table`.
        rule: What the job says of the table.
        mode: What the target holds.
        keys: Names of the key columns; empty: rows only come new.
        columns: Of the table, without those of the mode.
        schema: The same with those.
        after: Only rows after this place of the log.
        before: Only rows before this place.
        decoding: How rows become values.
        shard_count: In how many shards rows are merged.
    """

    log_path: str
    sink: Sink
    uri: str
    source_table: str
    rule: TableRule
    mode: Mode
    keys: tuple[str, ...]
    columns: pa.Schema
    schema: pa.Schema
    after: LogPlace | None
    before: LogPlace | None
    decoding: Decoding
    shard_count: int

    def write(self, tasks: Tasks, step: RowsStep) -> list[Written[Any]]:
        """Let tasks write *step*.

        Raises:
            BinlogError: What is wrong with the rows, the log or the target.
            IndivisibleError: The step has to be merged as a whole.
        """
        indexes = fair_cuts(step, tasks.parallelism)
        if self.keys:
            results = tasks.run_sharded(indexes, self.deal, self.shard_count, self.merge)
        else:
            results = tasks.run(indexes, self.append)
        for result in results:
            if isinstance(result, Exception):
                raise result
        return [result for result in results if not isinstance(result, Exception)]

    def deal(self, indexes: Iterable[bytes]) -> Iterator[Shard]:
        """In a task: rows out of the log, by shard; what is wrong goes to any one."""
        keys = [self.columns.get_field_index(key) for key in self.keys]
        last_only = self.mode is Mode.MIRROR and self.rule.deletes is Deletes.REMOVE
        try:
            with open_log(self.log_path) as log:
                for images in self._images(log, indexes):
                    yield from sharded(images, self.columns, keys, self.shard_count, last_only=last_only)
        except (BinlogError, IndivisibleError) as error:
            yield 0, failed(error)
        settle()

    def merge(self, messages: Iterable[bytes]) -> Iterator[Written[Any] | Failure]:
        """In a task: what becomes of the rows of a shard, written for its target."""
        try:
            pieces = gathered(messages, self.decoding)
            if not pieces:
                return
            with open_log(self.log_path) as log, closing(Looks(self.sink, sink_type(self.sink.format))) as looks:
                images = StepImages(self.source_table, tuple(pieces), LogFacts(log).of(pieces))
                keyed = KeyedImages(images, self.columns, self.keys, self.mode, self.rule)
                yield self._at_target(looks, lambda target: target.merge_part(keyed.change(target), self.keys))
        except (BinlogError, IndivisibleError) as error:
            yield error
        settle()

    def append(self, indexes: Iterable[bytes]) -> Iterator[Written[Any] | Failure]:
        """In a task: rows out of the log, written for a target that only gets more."""
        try:
            with open_log(self.log_path) as log, closing(Looks(self.sink, sink_type(self.sink.format))) as looks:
                rows = pa.RecordBatchReader.from_batches(self.schema, self._rows(log, indexes))
                yield self._at_target(looks, lambda target: target.append_part(rows))
        except BinlogError as error:
            yield error
        settle()

    def _at_target(self, looks: Looks, write: Callable[[Target], Written[Any]]) -> Written[Any]:
        with looks.naming_errors(self.source_table, self.uri):
            return write(looks.at(self.uri))

    def _rows(self, log: Log, indexes: Iterable[bytes]) -> Iterator[pa.RecordBatch]:
        for pieces in self._pieces(log, indexes):
            if self.mode is Mode.CHANGELOG:
                for piece in pieces:
                    batch = changefeed_batch(piece.images, piece.events, piece.groups, piece.gtid_sources)
                    yield conformed(batch, self.schema)
                continue
            _, images = self._content(log, pieces).images
            yield from WholeImages(images, self.columns).rows(images.in_log_order()).to_batches()

    def _images(self, log: Log, indexes: Iterable[bytes]) -> Iterator[StepImages]:
        for pieces in self._pieces(log, indexes):
            yield self._content(log, pieces).images[1]

    def _content(self, log: Log, pieces: Sequence[Piece]) -> RowsContent:
        return RowsContent(self.source_table, pieces, self.decoding, self.rule, LogFacts(log), self.columns)

    def _pieces(self, log: Log, indexes: Iterable[bytes]) -> Iterator[list[Piece]]:
        size = max(READ_BYTES, self.shard_count << 18)
        for index in (cut for content in indexes for cut in TableIndex.from_bytes(content).cut(size)):
            some = (piece.between(self.after, self.before) for piece in load_pieces((index,), log, self.decoding))
            pieces = [piece for piece in some if piece is not None]
            if pieces:
                yield pieces


def fair_cuts(step: RowsStep, task_count: int) -> list[bytes]:
    """The indexes of *step*, cut where *task_count* tasks would not have about as much to read each."""
    sizes = [part.size for part in step.parts]
    fair = sum(sizes) // task_count
    if len(sizes) % task_count == 0 and max(sizes) <= FAIR * fair:
        return [part.index for part in step.parts]
    half = max(fair // 2, 1)
    return [
        content
        for part in step.parts
        for content in (
            [part.index]
            if part.size <= half
            else [cut.to_bytes() for cut in TableIndex.from_bytes(part.index).cut(half)]
        )
    ]
