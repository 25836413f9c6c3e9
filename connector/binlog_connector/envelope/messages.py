"""A log's changes as messages, in the order in which they are to be sent: `MessagesView`."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from binlog_connector.envelope.change_messages import ChangeMessages
from binlog_connector.envelope.json.json_encoding import JsonEncoding
from binlog_connector.envelope.message_batch import (
    NO_OP,
    OPS,
    MessageKind,
    MessagePlace,
    MessageRun,
    message_batch,
    sort_keys,
)
from binlog_connector.envelope.message_context import BlockContext, TableEnvelopes, logged_statements
from binlog_connector.envelope.message_kernels import UNKNOWN_THREAD, find_threads
from binlog_connector.envelope.metadata_messages import SchemaChanges, Transactions
from binlog_connector.envelope.options import MessageOperation
from binlog_connector.schema.operations import TruncateTable
from binlog_connector.schema.table_names import names_unclear
from binlog_format.rows.decoding import DEFAULT_DECODING, Decoding, TimeType
from binlog_format.rows.images import ImageKind
from binlog_format.views.columns import bounded
from binlog_format.views.events import DELETE_TYPES, UPDATE_TYPES, WRITE_TYPES, StatementTexts
from binlog_format.views.filters import ALL_GROUPS, GroupFilter, TableFilter
from binlog_format.views.selection import Selection, touched_images

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow as pa

    from binlog_connector.envelope.encoding import BlockEncoder, MessageEncoding, Orders
    from binlog_connector.envelope.json.change_values import ChangeValues
    from binlog_connector.envelope.message_context import LoggedStatement
    from binlog_connector.envelope.options import EnvelopeOptions
    from binlog_connector.schema.definitions import TableName
    from binlog_format.block import Block
    from binlog_format.kernels import Int64s, Mask
    from binlog_format.rows.images import Images
    from binlog_format.rows.table_events import TableEvents
    from binlog_format.views.selection import SourceOf

    TopicOf = Callable[[MessageKind, str | None, str | None], str]


_EVENT_TYPES = {
    MessageOperation.CREATE: WRITE_TYPES,
    MessageOperation.UPDATE: UPDATE_TYPES,
    MessageOperation.DELETE: DELETE_TYPES,
}
_IMAGE_KINDS = {
    MessageOperation.CREATE: (ImageKind.INSERT,),
    MessageOperation.UPDATE: (ImageKind.UPDATE_BEFORE, ImageKind.UPDATE_AFTER),
    MessageOperation.DELETE: (ImageKind.DELETE,),
}
_OP_NUMBERS = np.array([*map(OPS.index, ("c", "u", "d")), NO_OP], dtype=np.int32)
"""Numbers in `OPS` of `CREATE`, `UPDATE`, `DELETE` and `TOMBSTONE`."""
_COPIED_OP_NUMBERS = np.where(_OP_NUMBERS == NO_OP, np.int32(NO_OP), np.int32(OPS.index("r")))


class MessagesView:
    """Messages for the changed rows of a log, and for its transactions and DDL where they are wanted.

    One object reads one run of blocks in order: of a large group it counts the changes over its pieces.

    Args:
        decoding: What the log leaves open; TIME is always read as microseconds.
        clock_ns: Tells the time at which a block's messages are made, nanoseconds since 1970 UTC.
        topic_of: The topic of messages, by their kind, database and table: then a batch holds messages of one topic.
        encoding: Makes their bytes; default: as JSON.

    Attributes:
        envelopes: Of the tables; who reads a log in parts gives each of them those of the part before.
        rows_before: Gives names of tables with rows in the log before; asked where a TRUNCATE may be of another table.
    """

    def __init__(
        self,
        options: EnvelopeOptions,
        *,
        tables: TableFilter | None = None,
        decoding: Decoding = DEFAULT_DECODING,
        groups: GroupFilter = ALL_GROUPS,
        clock_ns: Callable[[], int] = time.time_ns,
        topic_of: TopicOf | None = None,
        encoding: MessageEncoding | None = None,
    ) -> None:
        self._options = options
        self._encoding = encoding = encoding or JsonEncoding(options)
        self._topic_of = topic_of
        self.rows_before: Callable[[], frozenset[tuple[str, str]]] = frozenset
        self._decoding = replace(decoding, time_type=TimeType.MICROS)
        self._tables = tables = tables or TableFilter()
        self._selection = Selection(
            tables, groups, event_types=_wanted_types(options.skipped_operations), decoding=self._decoding
        )
        self._selection.keeps_sequences = False  # they have no topic
        self._clock_ns = clock_ns
        self.envelopes = TableEnvelopes(options, self._decoding)
        self._with_rows: set[tuple[str, str]] = set()
        self._threads = GroupThreads()
        self._queries = StatementTexts() if options.query else None
        self._transactions = Transactions(encoding) if options.transaction_metadata else None
        self._groups = groups
        self._schema_changes = SchemaChanges(options, tables, encoding, tells_text=decoding.rules is None)

    def take_copies(self, source_of: SourceOf) -> None:
        """Give messages about rows, too, that snapshots have copied: see `Selection.source_of`."""
        self._selection.source_of = source_of

    def batches(self, blocks: Iterable[Block]) -> Iterator[pa.RecordBatch]:
        """The messages of *blocks* (`MESSAGES_SCHEMA`), a batch (rarely more) for each block or topic in it."""
        for block in blocks:
            queries = None if self._queries is None else self._queries.of_rows(block)
            context = BlockContext(block, self._options, self._threads.of_groups(block), queries, self._clock_ns())
            if self._transactions is not None:
                self._transactions.enter(block)
            yield from self._batches_of(context)

    def _batches_of(self, context: BlockContext) -> Iterator[pa.RecordBatch]:
        block = context.block
        touched = self._selection.of(block)
        encoders = self._encoders(context, touched)
        logged = self._logged(block) if self._asks_for_statements else []
        statements = self._schema_changes.runs(context, logged) + self._truncates(context, logged)
        parts = self._parts(block, touched)
        ends = [min(int(images.table["event"][0]) for images in part) for part in parts[1:]] + [len(block.events)]
        for part, end in zip(parts, ends, strict=True):
            runs = self._change_runs(part, context, encoders, end)
            runs += [run for run in statements if run.events[0] < end]
            statements = [run for run in statements if run.events[0] >= end]
            for together in self._by_topic(runs):
                yield message_batch(block, together)

    def _logged(self, block: Block) -> list[LoggedStatement]:
        folds_names = self._options.folds_names
        logged = logged_statements(block, self._groups, folds_names=bool(folds_names))
        if folds_names is not None:
            return logged
        emptied = (
            operation.name
            for _, _, operations in logged
            for operation in operations
            if isinstance(operation, TruncateTable)
        )
        with_rows = self._with_rows
        for name in emptied:
            if name == name.lowered or name in with_rows:
                continue
            before = self.rows_before()
            if name not in before and name.lowered in with_rows | before:
                raise names_unclear(name.lowered, name, "it is emptied")
        return logged

    def _truncates(self, context: BlockContext, statements: Sequence[LoggedStatement]) -> list[MessageRun]:
        # A message without a key, with `op` t, for each TRUNCATE of a wanted table.
        if MessageOperation.TRUNCATE in self._options.skipped_operations:
            return []
        wanted = (
            (event, operation.name)
            for event, _, operations in statements
            for operation in operations
            if isinstance(operation, TruncateTable) and self._tables.accepts_name(*operation.name)
        )
        made = ((event, name, self._encoding.truncate(context, event, name)) for event, name in wanted)
        return [_truncate_run(event, name, value) for event, name, value in made if value is not None]

    @property
    def _asks_for_statements(self) -> bool:
        return self._options.schema_changes or MessageOperation.TRUNCATE not in self._options.skipped_operations

    def _by_topic(self, runs: list[MessageRun]) -> Iterable[list[MessageRun]]:
        if self._topic_of is None:
            return [runs] if runs else []
        topics: dict[str, list[MessageRun]] = {}
        for run in runs:
            topics.setdefault(self._topic_of(run.kind, run.database, run.table), []).append(run)
        return topics.values()

    def _encoders(self, context: BlockContext, touched: list[TableEvents]) -> _Encoders:
        tables = [(self.envelopes.of(table.layout, is_copied=table.is_copied), table.events) for table in touched]
        self._with_rows.update((table.layout.database, table.layout.table) for table in touched)
        changed = [table for table in tables if not table[0].is_copied]
        copied = [table for table in tables if table[0].is_copied]
        is_copied = np.zeros(len(context.block.events), dtype=np.bool_)
        for _, events in copied:
            is_copied[events] = True
        return _Encoders(
            self._encoding.block(context, changed) if changed else None,
            self._encoding.block(context.of_copied_rows(), copied) if copied else None,
            is_copied,
        )

    def _parts(self, block: Block, touched: list[TableEvents]) -> list[list[Images]]:
        # At least one, in which there may be nothing: a transaction may end here whose rows came before.
        images = [self._wanted(block, table) for table in touched]
        parts = [[of_table for of_table in part if len(of_table)] for part in bounded(images)]
        return [part for part in parts if part] or [[]]

    def _wanted(self, block: Block, table: TableEvents) -> Images:
        images = touched_images(block, table, self._decoding)
        # Where rules choose rows, types of events do not tell operations.
        rules, skipped = self._decoding.rules, self._options.skipped_operations
        if table.is_copied or rules is None or not rules.chooses_rows or not skipped:
            return images
        unwanted = [int(kind) for op in skipped for kind in _IMAGE_KINDS.get(op, ())]
        return images.select(~np.isin(images.table["kind"], unwanted))

    def _change_runs(
        self, images: list[Images], context: BlockContext, encoders: _Encoders, end: int
    ) -> list[MessageRun]:
        both = [self._changes(of_table, encoders) for of_table in images]
        copied = [_run(rows, None) for rows in both if rows.envelope.is_copied]
        changes = [rows for rows in both if not rows.envelope.is_copied]
        orders: list[Orders] | list[None] = [None] * len(changes)
        messages: list[MessageRun] = []
        if self._transactions is not None:
            orders, messages = self._transactions.count(context, changes, end)
        return [_run(rows, order) for rows, order in zip(changes, orders, strict=True)] + copied + messages

    def _changes(self, images: Images, encoders: _Encoders) -> ChangeMessages:
        is_copied = bool(encoders.is_copied[images.table["event"][0]])
        encoder = encoders.copied if is_copied else encoders.changed
        assert encoder is not None, "changes are of events"
        envelope = self.envelopes.of(images.layout, is_copied=is_copied)
        return ChangeMessages(envelope, images, encoder.changes(envelope, images), tombstones=self._options.tombstones)


def _wanted_types(skipped: frozenset[MessageOperation]) -> frozenset[int] | None:
    """Types of the row events of operations that are not skipped; None: no type is left out."""
    if skipped.isdisjoint(_EVENT_TYPES):
        return None
    return frozenset(int(kind) for op, types in _EVENT_TYPES.items() if op not in skipped for kind in types)


@dataclass(frozen=True, slots=True)
class _Encoders:
    # Of a block, by what its rows are: changes, or copies that a snapshot has made of existing rows.
    changed: BlockEncoder | None
    copied: BlockEncoder | None
    is_copied: Mask  # of each event


def _run(changes: ChangeMessages, orders: Orders | None) -> MessageRun:
    layout, plan = changes.envelope.layout, changes.plan
    ops = _COPIED_OP_NUMBERS if changes.envelope.is_copied else _OP_NUMBERS
    return MessageRun(
        MessageKind.CHANGE,
        layout.database,
        layout.table,
        sort_keys(changes.events, MessagePlace.ROW),
        changes.events,
        changes.row_nos,
        ops.take(plan.op),
        changes.keys,
        plan.key,
        plan.old_key,
        plan.new_key,
        changes.valued,
        changes.values(orders),
    )


class GroupThreads:
    """Give it the blocks of one log in their order; a group that comes in pieces needs all its pieces.

    A transaction of MySQL begins with a query event (BEGIN), which names the session. One of MariaDB does not: its
    GTID event takes the place of BEGIN.
    """

    def __init__(self) -> None:
        self._open = UNKNOWN_THREAD  # of the group that goes on in the next block

    def of_groups(self, block: Block) -> Int64s:
        """Thread of the first query event of each group of *block*; `UNKNOWN_THREAD` without one."""
        threads = np.full(len(block.groups), UNKNOWN_THREAD, dtype=np.int64)
        find_threads(block.data, block.events, threads)
        if len(threads):
            if not block.groups["begins"][0]:
                threads[0] = self._open
            self._open = UNKNOWN_THREAD if block.groups["ends"][-1] else int(threads[-1])
        return threads


def _truncate_run(event: int, name: TableName, value: ChangeValues) -> MessageRun:
    events = np.array([event], dtype=np.int64)
    order = sort_keys(events, MessagePlace.STATEMENT)
    run = MessageRun.of_events(MessageKind.CHANGE, name.database, name.table, order, events, None, value)
    return replace(run, ops=np.full(1, OPS.index("t"), dtype=np.int32))
