"""The changes of a batch into their tables: `write_batch`.

Changes that came in messages, as row images at their places in the log: `received_row_batch`.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlog_connector.kafka_decode.row_changes import CREATE, DELETE, UPDATE, ReceivedChanges
from binlog_connector.schema.definitions import TableName
from binlog_connector.schema.log_ddl import DdlStatement
from binlog_connector.schema.table_changes import TableTruncated
from binlog_format.block import EVENT_DTYPE, GROUP_DTYPE
from binlog_format.errors import SchemaError, TableError
from binlog_format.gtids.gtid import GtidSource
from binlog_format.names import folded_name, folded_names
from binlog_format.position import Position
from binlog_format.rows.arrow_arrays import numbers_array
from binlog_format.rows.decoding import DEFAULT_DECODING, Decoding
from binlog_format.rows.images import IMAGE_DTYPE, ImageKind
from binlog_streaming.lake.change import Expected
from binlog_streaming.lake.commit_id import commit_id_of
from binlog_streaming.lake.row_values import one_array
from binlog_streaming.lake.sinks import joint_commit, may_have_tables, sink_type
from binlog_streaming.modes.decoded_images import DecodedImages
from binlog_streaming.modes.row_batches import RowBatch
from binlog_streaming.plan.batch_plan import ROWS_STEP, STEPS_PER_CHANGE, ChangeStep, Component, RowsStep
from binlog_streaming.plan.job_state import SelectedTable, TableSelection
from binlog_streaming.settings import Mode, UnknownValues
from binlog_streaming.tables.batch import (
    Result,
    component_result,
    joined_progress,
    maintenance_errors,
    write_at_once,
)
from binlog_streaming.tables.batch_run import BatchRun
from binlog_streaming.tables.evidence_watch import WantedEvidence
from binlog_streaming.tables.open_targets import OpenTargets, check_folders, target_gone
from binlog_streaming.tables.step_rows import ReceivedPart
from binlog_streaming.topic_tables.batch import TableState
from binlog_streaming.topic_tables.existing_rows import ANEW, check_existing, fraction_digits, key_columns, last_place

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from binlog_format.block import Table
    from binlog_format.events.table_map import TableLayout
    from binlog_format.kernels import Int64s, Mask
    from binlog_format.rows.images import Images
    from binlog_streaming.job_state.progress import TableProgress
    from binlog_streaming.lake.files_target import JointCommit
    from binlog_streaming.settings import TableRule, TopicTablesJob
    from binlog_streaming.settings.choices import Evidence
    from binlog_streaming.tables.evidence_watch import Watched
    from binlog_streaming.topic_tables.batch import TopicBatch, TopicTablesState, Truncate

_KINDS = np.zeros(3, dtype=np.uint8)
_KINDS[[DELETE, UPDATE, CREATE]] = ImageKind.DELETE, ImageKind.UPDATE_BEFORE, ImageKind.INSERT
_EXPECTED = np.zeros(3, dtype=np.uint8)
_EXPECTED[[DELETE, UPDATE, CREATE]] = Expected.THIS_ROW_IF_ANY, Expected.THIS_ROW_IF_ANY, Expected.NO_ROW
"""A topic may begin in the middle of the life of its table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedImages(DecodedImages):
    """Images that came in messages."""

    layout: TableLayout
    decoding: Decoding = DEFAULT_DECODING

    def column(self, column: int) -> pa.Array:
        """All values of a column."""
        return one_array(self.rows.column(column))


def received_row_batch(changes: ReceivedChanges) -> RowBatch:
    """The row images of *changes*, in log order; none of them is a TRUNCATE."""
    # At one place a delete comes before the create that a changed key makes.
    order = np.lexsort((changes.ops, *changes.places.T[::-1]))
    places, ops = changes.places[order], changes.ops[order]
    events, groups, sources = _events(places, changes.seconds[order], changes.gtids.take(numbers_array(order)))
    counts = np.where(ops == UPDATE, 2, 1)
    change = np.repeat(np.arange(len(ops)), counts)
    is_second = np.zeros(len(change), dtype=np.bool_)
    is_second[np.cumsum(counts)[ops == UPDATE] - 1] = True
    table = np.empty(len(change), dtype=IMAGE_DTYPE)
    table["event"] = np.cumsum(_begins(places[:, :4]))[change] - 1
    table["row_no"] = places[change, 4]
    table["kind"] = np.where(is_second, ImageKind.UPDATE_AFTER, _KINDS[ops[change]])
    is_after = is_second | (ops[change] == CREATE)
    rows = pa.concat_tables([changes.before, changes.after])
    rows = rows.take(numbers_array(order[change] + is_after * len(order)))
    images = cast("Images", ReceivedImages(table, rows, layout=changes.layout))
    # A row that was copied takes the place of any other.
    expected = np.where(changes.copied[order[change]], np.uint8(Expected.ANYTHING), _EXPECTED[ops[change]])
    expected[is_second] = Expected.NO_ROW  # of an update that keeps its key it is the second image
    return RowBatch(images, events, groups, changes.layout, sources, expected=expected)


def _events(places: Int64s, seconds: Int64s, gtids: pa.Array) -> tuple[Table, Table, tuple[GtidSource, ...]]:
    begins_event, begins_group = _begins(places[:, :4]), _begins(places[:, :3])
    firsts = np.flatnonzero(begins_group)
    groups = np.zeros(len(firsts), dtype=GROUP_DTYPE)
    for number, name in enumerate(("file_no", "page", "chunk")):
        groups[name] = places[firsts, number]
    groups["timestamp"] = seconds[firsts]
    groups["gtid_source"] = -1
    groups["begins"] = groups["ends"] = True
    sources = _fill_gtids(groups, gtids.take(numbers_array(firsts)))
    rows = np.flatnonzero(begins_event)
    events = np.zeros(len(rows), dtype=EVENT_DTYPE)
    events["group"] = (np.cumsum(begins_group) - 1)[rows]
    events["event_no"] = places[rows, 3]
    events["timestamp"] = seconds[rows]
    return events, groups, sources


def _begins(places: Int64s) -> Mask:
    begins = np.ones(len(places), dtype=np.bool_)
    begins[1:] = (places[1:] != places[:-1]).any(axis=1)
    return begins


def _fill_gtids(groups: Table, gtids: pa.Array) -> tuple[GtidSource, ...]:
    there = gtids.is_valid().to_numpy(zero_copy_only=False)
    groups["has_gtid"] = there
    texts = gtids.filter(gtids.is_valid())
    if len(texts) == 0:
        return ()
    if not pc.any(pc.match_substring(texts, ":")).as_py():
        numbers = pc.split_pattern(texts, "-").flatten().cast(pa.uint64()).to_numpy().reshape(-1, 3)
        groups["domain"][there], groups["server_id"][there], groups["seqno"][there] = numbers.T
        return ()
    # MySQL: a server, perhaps a tag, and a number.
    parts = pc.split_pattern(texts, ":", max_splits=1, reverse=True).flatten()
    sources = parts[0::2].dictionary_encode()
    groups["gtid_source"][there] = sources.indices.to_numpy()
    groups["seqno"][there] = parts[1::2].cast(pa.uint64()).to_numpy()
    return tuple(GtidSource(*text.split(":", 1)) for text in sources.dictionary.to_pylist())


THREADS = 2
"""Tables that are written at a time."""


@dataclass(frozen=True, slots=True)
class WrittenBatch:
    """Result of a batch. *tables*: all that have been written by now."""

    progress: tuple[TableProgress, ...]
    tables: tuple[TableState, ...]


def write_batch(
    job: TopicTablesJob,
    state: TopicTablesState,
    batch: TopicBatch,
    evidence: Evidence,
    watched: Mapping[str, Watched],
) -> WrittenBatch:
    """Write *batch* into the tables; a batch that is there already changes nothing.

    Args:
        state: With the batch's number, and the tables before it.
        batch: Rows, or a TRUNCATE of one table.
        evidence: What changes prove, of tables that do not set it.
        watched: As `BatchRun.watched`.

    Raises:
        BinlogError: Of one failing table. Others may have been written, unless the catalog has one commit for all;
            written again they do not change.
    """
    changed = _Changed(job, state, batch)
    if not changed.components:
        return WrittenBatch((), state.tables)
    check_folders(changed.components, job.sink)
    wanted = WantedEvidence(evidence, compares_incomplete=True)
    position = changed.last_position
    run = BatchRun(state.query_id, state.batch_id, job.sink, position, evidence=wanted, watched=watched)
    joint = joint_commit(job.sink)
    with ThreadPoolExecutor(THREADS) as pool:

        def write(some: Sequence[Component]) -> list[Result]:
            return list(pool.map(lambda component: _result(run, component, joint), some))

        if joint is None:
            progress = joined_progress(write(changed.components))
        else:
            maintain = partial(maintenance_errors, joint, job.sink)
            progress = write_at_once(joint, job.sink, changed.components, write, maintain)
    return WrittenBatch(tuple(progress), _tables(changed.known, changed.selection, changed.rows))


def _result(run: BatchRun, component: Component, joint: JointCommit[Any] | None) -> Result:
    try:
        return component_result(run, component, None, joint)
    except TableError as error:
        if error.subclass != "CONTRADICTED":
            raise
        raise TableError(error.subclass, error.reason, at=error.at, hint=_CONTRADICTED) from error


_CONTRADICTED = (
    "The table was wrong before this change already, and nothing of the step was written. What changed its rows is in "
    "no message: a TRUNCATE that publish leaves out (skipped_operations), DROP TABLE and CREATE TABLE, RENAME TABLE, "
    f'an ALTER TABLE that converts values, foreign keys. {ANEW}. Or set evidence = "off" in [[tables]]: the table goes '
    "on, and stays wrong where no message comes"
)


def check_batch(job: TopicTablesJob, state: TopicTablesState, batch: TopicBatch) -> None:
    """See that `write_batch` could write *batch*, as far as a look at its targets tells; nothing is written."""
    components, sink = _Changed(job, state, batch).components, job.sink
    check_folders(components, sink)
    joint_commit(sink)  # asks the catalog
    if sink.format.has_catalog and not may_have_tables(sink):
        return  # a look would make the catalog
    with contextlib.closing(OpenTargets(sink, sink_type(sink.format))) as targets:
        for table in (table for component in components for table in component.tables.values()):
            for mode in table.rule.modes:
                uri = table.uri(sink.directory, mode)
                with targets.naming_errors(str(table.name), uri):
                    properties = targets.get(uri).properties()
                    if properties is not None:
                        targets.get(uri).check_owner(commit_id_of(properties, state.query_id, str(table.name), mode))
                    elif mode in table.known:
                        raise target_gone(table.name, mode, uri)


class _Changed:
    """Tables that a batch changes.

    Attributes:
        known: Those that were written before.
        rows: Changed rows, by table.
    """

    def __init__(self, job: TopicTablesJob, state: TopicTablesState, batch: TopicBatch) -> None:
        self.selection = TableSelection(job.tables)
        self.known = {TableName(table.database, table.table): table for table in state.tables}
        self.rows: dict[TableName, list[ReceivedChanges]] = defaultdict(list)
        for change in batch.changes:
            name = TableName(change.layout.database, change.layout.table)
            if self.selection.rule(name) is not None:
                self.rows[name].append(change)
        self._truncates = {truncate.table: truncate for some in batch.truncates.values() for truncate in some}
        self.components = [
            *(
                _rows_component(name, self.selection, some, self.known.get(name))
                for name, some in sorted(self.rows.items())
            ),
            *(
                _truncate_component(name, self.selection, truncate, self.known[name])
                for name, truncate in self._truncates.items()
                if name in self.known
            ),
        ]

    @property
    def last_position(self) -> Position:
        """The highest place of a change."""
        places = [tuple(change.places.max(axis=0)[:3].tolist()) for some in self.rows.values() for change in some]
        return Position(*max([*places, *(truncate.place[:3] for truncate in self._truncates.values())]))


def _rows_component(
    name: TableName, selection: TableSelection, changes: Sequence[ReceivedChanges], known: TableState | None
) -> Component:
    table = _selected(name, selection, known)
    for change in changes:
        _check_keys(name, table.rule, change)
        _check_columns(name, table.rule, change, known or _table_state(name, table.rule, changes[:1], None))
    check_existing(name, table.rule, changes, known)
    parts = tuple(_part(change) for change in changes)
    return Component({name: table}, (RowsStep(ROWS_STEP, name, parts),))


def _truncate_component(name: TableName, selection: TableSelection, truncate: Truncate, known: TableState) -> Component:
    statement = DdlStatement(
        Position(*truncate.place[:3]),
        truncate.place[3],
        "TRUNCATE",
        name.database,
        commit_time=truncate.seconds,
        gtid=truncate.gtid,
    )
    step = ChangeStep(STEPS_PER_CHANGE, TableTruncated(name), statement, (name,))
    return Component({name: _selected(name, selection, known)}, (step,))


def _selected(name: TableName, selection: TableSelection, known: TableState | None) -> SelectedTable:
    rule = selection.rule(name)
    assert rule is not None, "only tables that a rule selects are written"
    return SelectedTable(name, rule, known=frozenset() if known is None else frozenset(known.modes))


def _part(changes: ReceivedChanges) -> ReceivedPart:
    places = changes.places[np.lexsort(changes.places.T[::-1])[[0, -1]], :3].tolist()
    creates, updates, deletes = (int((changes.ops == op).sum()) for op in (CREATE, UPDATE, DELETE))
    return ReceivedPart(
        Position(*places[0]),
        Position(*places[1]),
        index=b"",
        inserts=creates,
        updates=updates,
        deletes=deletes,
        size=changes.before.nbytes + changes.after.nbytes,
        row_batches=(received_row_batch(changes),),
    )


def _check_keys(name: TableName, rule: TableRule, changes: ReceivedChanges) -> None:
    # Messages keep their order by their keys: two changes of a row must not have two of these.
    key = key_columns(changes)
    if rule.keys and not folded_names(key) <= folded_names(rule.keys):
        raise SchemaError(
            "NO_PRIMARY_KEY",
            f"{name}: tables.keys names {', '.join(rule.keys)}, and messages have the key {', '.join(key)}: changes of "
            "one row may be in several partitions, in no order",
            hint="Name the columns of the messages' key too, or leave tables.keys out",
        )


def _check_columns(name: TableName, rule: TableRule, changes: ReceivedChanges, known: TableState) -> None:
    # What rows hold in a column that their messages do not have, a message does not tell.
    if rule.unknown_values is UnknownValues.NULL or set(rule.modes) == {Mode.CHANGELOG}:
        return
    now, before = (folded_names(names) for names in (_columns(changes), known.columns))
    if now != before:
        raise SchemaError(
            "SCHEMA_CHANGED",
            f"{name}: messages have the columns {', '.join(_columns(changes))}, and the table was written with "
            f"{', '.join(known.columns)}; no message gives the values of the others",
            hint='Set unknown_values = "null" for this table to have null there',
        )


def _columns(changes: ReceivedChanges) -> tuple[str, ...]:
    return tuple(str(column.name) for column in changes.layout.columns)


def _tables(
    known: Mapping[TableName, TableState],
    selection: TableSelection,
    changes: Mapping[TableName, Sequence[ReceivedChanges]],
) -> tuple[TableState, ...]:
    after = dict(known)
    for name, some in changes.items():
        rule = selection.rule(name)
        assert rule is not None, "only tables that a rule selects are written"
        after[name] = _table_state(name, rule, some, known.get(name))
    return tuple(after[name] for name in sorted(after))


def _table_state(
    name: TableName, rule: TableRule, changes: Sequence[ReceivedChanges], known: TableState | None
) -> TableState:
    columns = {} if known is None else {folded_name(column): column for column in known.columns}
    for change in changes:
        columns |= {folded_name(column): column for column in _columns(change) if folded_name(column) not in columns}
    last = max(changes, key=last_place)
    before = () if known is None else known.place
    return TableState(
        database=name.database,
        table=name.table,
        columns=tuple(columns.values()),
        modes=rule.modes,
        key_form=last.key_form,
        place=max(before, last_place(last)),
        keys=key_columns(last),
        digits=fraction_digits(last),
    )
