"""Messages about transactions, and where changes are in theirs: `Transactions`.

Names of the event groups of some events: `EventGroups`.

Messages about statements that change tables as a whole: `SchemaChanges`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlog_connector.envelope.encoding import Collections, Orders, SchemaChangeMessage
from binlog_connector.envelope.json.change_values import TextValues
from binlog_connector.envelope.message_batch import MessageKind, MessagePlace, MessageRun, sort_keys
from binlog_connector.schema.operations import (
    AlterTable,
    ChangeRows,
    CreateSequence,
    CreateTable,
    CreateView,
    DropDatabase,
    DropTables,
    DropViews,
    NotParsed,
    RenameTables,
    SetDatabaseCharset,
    TruncateTable,
)
from binlog_format.rows.arrow_arrays import numbers_array, strings_array
from binlog_format.views.columns import PlaceColumns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binlog_connector.envelope.change_messages import ChangeMessages
    from binlog_connector.envelope.encoding import MessageEncoding, Texts
    from binlog_connector.envelope.message_context import BlockContext, LoggedStatement
    from binlog_connector.envelope.options import EnvelopeOptions
    from binlog_connector.schema.definitions import TableName
    from binlog_connector.schema.log_ddl import DdlStatement
    from binlog_connector.schema.operations import Operation
    from binlog_format.block import Block
    from binlog_format.kernels import Int64s
    from binlog_format.views.filters import TableFilter


@dataclass(frozen=True, slots=True)
class EventGroups:
    """The groups of some events, for messages. *events*: rows of its event table."""

    block: Block
    events: Int64s

    @property
    def rows(self) -> Int64s:
        """Row of each event's group."""
        rows: Int64s = self.block.events["group"][self.events]
        return rows

    def gtids(self) -> pa.Array:
        """GTID of each group as text; null without."""
        return PlaceColumns(self.block.events, self.block.groups, self.events, self.block.gtid_sources).gtid()

    def file_names(self) -> pa.Array:
        """Name of the file that each group is in."""
        file_nos, codes = np.unique(self.block.groups["file_no"][self.rows], return_inverse=True)
        names = [self.block.path_of(int(number)).rsplit("/", 1)[-1] for number in file_nos]
        return strings_array(names).take(numbers_array(codes.astype(np.int64)))

    def file_offsets(self) -> Int64s:
        """Byte in its file where each group starts."""
        offsets: Int64s = self.block.groups["file_offset"][self.rows]
        return offsets

    def transaction_ids(self) -> pa.Array:
        """The GTID of each group, or else its file and place in it, as Debezium has it."""
        places = numbers_array(self.file_offsets()).cast(pa.string())
        unnamed = pc.binary_join_element_wise("file=", self.file_names(), ",pos=", places, "")
        return pc.coalesce(self.gtids(), unnamed)


@dataclass(frozen=True, slots=True)
class _Open:
    # A transaction that has had messages and goes on.
    group: int  # row in the group table of the current block
    counts: Counter[str]  # values by `database.table`


@dataclass(frozen=True, slots=True)
class _Tally:
    # How many values the transactions have, by group and table; ascending.
    groups: Int64s
    tables: Int64s
    counts: Int64s


class Transactions:
    """Counts the values of transactions; give it the blocks of one log in order."""

    def __init__(self, encoding: MessageEncoding) -> None:
        self._encoding = encoding
        self._open: _Open | None = None

    def enter(self, block: Block) -> None:
        """Go on to the next block; a group that was open is its first one."""
        if self._open is not None and len(block.groups):
            self._open = None if block.groups["begins"][0] else _Open(0, self._open.counts)

    def count(
        self, context: BlockContext, changes: Sequence[ChangeMessages], end: int
    ) -> tuple[list[Orders], list[MessageRun]]:
        """Number *changes* in their transactions, and make the messages about these.

        Args:
            changes: Of each table, those that follow the ones before.
            end: Row of the first event whose changes come later.

        Returns:
            For each of *changes* the orders of its values; the messages that begin and end transactions.
        """
        block = context.block
        earlier = () if self._open is None else self._open.counts
        names = sorted({change.envelope.layout.full_name for change in changes}.union(earlier))
        sizes = [len(change.valued) for change in changes]
        events = np.concatenate([np.empty(0, np.int64), *(change.events[change.valued] for change in changes)])
        numbers = np.array([names.index(change.envelope.layout.full_name) for change in changes], dtype=np.int64)
        tables = np.repeat(numbers, sizes)
        sorting = np.argsort(events, kind="stable")
        events, tables = events[sorting], tables[sorting]
        groups: Int64s = block.events["group"][events]
        orders = self._orders(groups, tables, names)
        ranks = np.empty_like(sorting)
        ranks[sorting] = np.arange(len(sorting))
        split = np.split(ranks, np.cumsum(sizes)[:-1]) if sizes else []
        of_changes = [Orders(orders.total[rows], orders.of_table[rows]) for rows in split]
        return of_changes, self._messages(block, events, groups, self._tally(groups, tables, names), names, end)

    def _orders(self, groups: Int64s, tables: Int64s, names: list[str]) -> Orders:
        total = _numbers_in_runs(groups)
        of_both = groups * len(names) + tables
        sorting = np.argsort(of_both, kind="stable")
        of_table = np.empty_like(total)
        of_table[sorting] = _numbers_in_runs(of_both[sorting])
        if self._open is not None:
            goes_on = groups == self._open.group
            total[goes_on] += self._open.counts.total()
            earlier = np.array([self._open.counts[name] for name in names], dtype=np.int64)
            of_table[goes_on] += earlier[tables[goes_on]]
        return Orders(total, of_table)

    def _tally(self, groups: Int64s, tables: Int64s, names: list[str]) -> _Tally:
        of_both, weights = groups * len(names) + tables, np.ones(len(groups), dtype=np.int64)
        if self._open is not None:
            earlier = [self._open.group * len(names) + names.index(name) for name in self._open.counts]
            of_both = np.concatenate([np.array(earlier, dtype=np.int64), of_both])
            weights = np.concatenate([np.array([*self._open.counts.values()], dtype=np.int64), weights])
        found, codes = np.unique(of_both, return_inverse=True)
        counts = np.zeros(len(found), dtype=np.int64)
        np.add.at(counts, codes, weights)
        return _Tally(found // max(len(names), 1), found % max(len(names), 1), counts)

    def _messages(
        self, block: Block, events: Int64s, groups: Int64s, tally: _Tally, names: list[str], end: int
    ) -> list[MessageRun]:
        present = tally.groups[_starts(tally.groups)]
        last_events = (block.groups["first_event"] + block.groups["event_count"] - 1)[present]
        closes = block.groups["ends"][present] & (last_events < end)
        firsts = _starts(groups)
        begin_groups = groups[firsts]
        begins = np.ones(len(begin_groups), dtype=np.bool_)
        if self._open is not None:
            begins &= begin_groups != self._open.group
        self._open = self._still_open(present[~closes], tally, names)
        runs = []
        if begins.any():
            runs.append(self._begins(block, events[firsts[begins]]))
        if closes.any():
            runs.append(self._ends(block, last_events[closes], _of_groups(tally, present[closes]), names))
        return runs

    def _still_open(self, groups: Int64s, tally: _Tally, names: list[str]) -> _Open | None:
        if len(groups) == 0:
            return None
        assert len(groups) == 1, "only the last transaction goes on"
        group = int(groups[0])
        counts = {
            names[table]: count
            for of_group, table, count in zip(
                tally.groups.tolist(), tally.tables.tolist(), tally.counts.tolist(), strict=True
            )
            if of_group == group
        }
        return _Open(group, Counter(counts))

    def _begins(self, block: Block, events: Int64s) -> MessageRun:
        ids = EventGroups(block, events).transaction_ids()
        counts = pa.nulls(len(events), pa.int64())
        values = self._encoding.transaction_values("BEGIN", ids, counts, None, _milliseconds(block, events))
        return self._run(ids, events, MessagePlace.BEGIN, values)

    def _ends(self, block: Block, events: Int64s, tally: _Tally, names: list[str]) -> MessageRun:
        ids = EventGroups(block, events).transaction_ids()
        starts = _starts(tally.groups)
        counts = numbers_array(np.add.reduceat(tally.counts, starts))
        collections = Collections(names, tally.tables, tally.counts, np.append(starts, len(tally.groups)))
        values = self._encoding.transaction_values("END", ids, counts, collections, _milliseconds(block, events))
        return self._run(ids, events, MessagePlace.END, values)

    def _run(self, ids: pa.Array, events: Int64s, place: MessagePlace, values: Texts) -> MessageRun:
        keys = self._encoding.transaction_keys(ids)
        order = sort_keys(events, place)
        return MessageRun.of_events(MessageKind.TRANSACTION, None, None, order, events, keys, TextValues(values))


def _starts(groups: Int64s) -> Int64s:
    """Starts of the groups in *groups*, which ascend."""
    return np.flatnonzero(np.diff(groups, prepend=-1))


def _numbers_in_runs(codes: Int64s) -> Int64s:
    """Number of each of *codes* among the equal ones, from 1; equal codes are together."""
    places = np.arange(len(codes), dtype=np.int64)
    is_first = np.ones(len(codes), dtype=np.bool_)
    is_first[1:] = codes[1:] != codes[:-1]
    numbers: Int64s = places - np.maximum.accumulate(np.where(is_first, places, 0)) + 1
    return numbers


def _of_groups(tally: _Tally, groups: Int64s) -> _Tally:
    chosen = np.isin(tally.groups, groups)
    return _Tally(tally.groups[chosen], tally.tables[chosen], tally.counts[chosen])


def _milliseconds(block: Block, events: Int64s) -> pa.Array:
    return numbers_array(block.events["timestamp"][events].astype(np.int64) * 1000)


class SchemaChanges:
    """Makes a message for each wanted statement; there are few of them.

    A statement is wanted if one of its tables is, or if its database may have such tables. If its tables are unknown,
    the message has the text only if all tables are wanted. A statement about neither (routines, triggers, events,
    accounts, temporary tables) is no change of a schema.

    Args:
        options: What messages look like; none are made unless they ask for them.
        tells_text: Whether the text of a statement, which may hold values of rows, is in its message.
    """

    def __init__(
        self, options: EnvelopeOptions, tables: TableFilter, encoding: MessageEncoding, *, tells_text: bool
    ) -> None:
        self._options = options
        self._tells_text = tells_text
        self._tables = tables
        self._encoding = encoding

    def runs(self, context: BlockContext, statements: Sequence[LoggedStatement]) -> list[MessageRun]:
        """The messages about *statements* of a block, each a run of its own, in order."""
        if not self._options.schema_changes:
            return []
        made = []
        for event, statement, operations in statements:
            if any(map(self._is_wanted, operations)):
                named = [change for operation in operations for change in _changes(operation)]
                changes = [(kind, name) for kind, name in named if self._tables.accepts_name(*name)]
                is_clear = not any(isinstance(operation, NotParsed) and not operation.names for operation in operations)
                text = statement.text if self._tells_text and (is_clear or self._tables.accepts_all) else None
                made.append(self._run(context, event, statement, text, changes))
        return made

    def _is_wanted(self, operation: Operation) -> bool:
        match operation:
            case SetDatabaseCharset() | DropDatabase():
                return self._tables.may_accept_in(operation.database)
            case ChangeRows():  # ALTER SEQUENCE
                return any(self._tables.accepts_name(*name) for name in operation.names or ())
            case NotParsed():
                return not operation.names or any(self._tables.accepts_name(*name) for name in operation.names)
        return any(self._tables.accepts_name(*name) for _, name in _changes(operation))

    def _run(
        self,
        context: BlockContext,
        event: int,
        statement: DdlStatement,
        text: str | None,
        changes: list[tuple[str, TableName]],
    ) -> MessageRun:
        database = changes[0][1].database if changes else statement.database
        table = changes[0][1].table if changes else None
        events = np.array([event], dtype=np.int64)
        change = SchemaChangeMessage(event, database, table, text, changes)
        keys, values = self._encoding.schema_change(context, change)
        order = sort_keys(events, MessagePlace.STATEMENT)
        kind, texts = MessageKind.SCHEMA_CHANGE, TextValues(values)
        return MessageRun.of_events(kind, database or None, table, order, events, keys, texts)


def _changes(operation: Operation) -> list[tuple[str, TableName]]:
    match operation:
        case CreateTable() | CreateSequence() | CreateView():
            return [("CREATE", operation.name)]
        case AlterTable():
            return [("ALTER", operation.name)]
        case TruncateTable():
            return [("TRUNCATE", operation.name)]
        case RenameTables():
            return [("ALTER", new) for _, new in operation.pairs]
        case DropTables(only_sequences=False) | DropViews():
            return [("DROP", name) for name in operation.names]
    return []
