"""One table's step in one batch: `apply_table`; it runs in a Spark task, but needs no Spark.

Everything that can be refused is refused before anything is written: who owns the target, its columns, its keys. The
write itself is one commit that carries the batch's number, so a step that is repeated changes nothing.
"""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from binlog_format.errors import BinlogError, TableError
from binlog_format.rows.arrow_schema import arrow_schema
from binlog_format.rows.decoding import DEFAULT_DECODING
from binlog_format.views.changefeed import changefeed_batch, changefeed_schema
from binlog_streaming.settings import Mode
from binlog_streaming.tables.mirror import key_columns, reduce_images
from binlog_streaming.tables.pieces import Piece, load_pieces, log_order
from binlog_streaming.tables.progress import Outcome, TableProgress
from binlog_streaming.tables.sinks import sink_type
from binlog_streaming.tables.steps import Step, reached
from binlog_streaming.tables.target import Ticket, describe_difference, schema_changed, target_uri

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binlog_format.events.table_map import TableLayout
    from binlog_format.log import Log
    from binlog_format.position import Position
    from binlog_format.rows.decoding import Decoding
    from binlog_streaming.settings import Sink, TableRule
    from binlog_streaming.tables.target import Target


ATTEMPTS_MAX = 2
"""A second try when somebody else (an OPTIMIZE, our own dying twin) committed between the look and the write."""


@dataclass(frozen=True, slots=True)
class TableBatch:
    """What a batch holds for one table, as the source's index rows say.

    Attributes:
        database: Name in the log.
        table: The same.
        indexes: Serialised `TableIndex`es in log order.
        position: Where the batch's part of the table ends in the log.
        inserts: Row changes by kind.
        updates: The same.
        deletes: The same.
    """

    database: str
    table: str
    indexes: tuple[bytes, ...]
    position: Position
    inserts: int
    updates: int
    deletes: int

    @property
    def name(self) -> str:
        """`database.table`."""
        return f"{self.database}.{self.table}"


@dataclass(frozen=True, slots=True)
class BatchRun:
    """What all tables of a batch share.

    Attributes:
        query_id: Id of the streaming query.
        batch_id: Number of the batch.
        sink: Where the tables go.
        decoding: How rows become values.
    """

    query_id: str
    batch_id: int
    sink: Sink
    decoding: Decoding = DEFAULT_DECODING


@dataclass(frozen=True, slots=True)
class _Content:
    # The batch's rows of one table, and what is the same for all its targets; `last` holds the last change.
    pieces: list[Piece]
    schema: pa.Schema
    last: Piece


def apply_table(run: BatchRun, batch: TableBatch, rule: TableRule, log: Log) -> list[TableProgress]:
    """Write what *batch* holds for its table into every target that *rule* names.

    Raises:
        BinlogError: The first thing that is wrong; it names the table. Nothing of the batch is in a target for which
            it was raised.
    """
    try:
        pieces = load_pieces(batch.indexes, log, run.decoding)
        if not pieces:
            return []
        content = _Content(
            pieces,
            common_schema(batch.name, [piece.layout for piece in pieces], run.decoding),
            max(pieces, key=Piece.last_change),
        )
        return [_apply_mode(run, batch, rule, mode, content) for mode in rule.modes]
    except BinlogError as error:
        raise _naming(error, batch.name) from error


def _apply_mode(run: BatchRun, batch: TableBatch, rule: TableRule, mode: Mode, content: _Content) -> TableProgress:
    started = time.monotonic()
    uri = target_uri(run.sink.directory, rule.target, database=batch.database, table=batch.table, mode=mode)
    keys = _common_keys(batch.name, content.pieces, rule) if mode is Mode.MIRROR else ()
    ticket = Ticket(
        query_id=run.query_id,
        batch_id=run.batch_id,
        source_table=batch.name,
        mode=mode,
        keys=tuple(content.schema.names[key] for key in keys),
        position=str(batch.position),
        last_change="{}:{}".format(*content.last.last_change()),
        gtid=content.last.gtid(),
    )
    outcome, rows_written = _write(run.sink, uri, ticket, content, keys)
    return TableProgress(
        source_table=batch.name,
        target=uri,
        mode=str(mode),
        outcome=outcome,
        inserts=batch.inserts,
        updates=batch.updates,
        deletes=batch.deletes,
        rows_written=rows_written,
        seconds=time.monotonic() - started,
        position=batch.position,
        commit_time=content.last.commit_time(),
    )


def _write(sink: Sink, uri: str, ticket: Ticket, content: _Content, keys: tuple[int, ...]) -> tuple[Outcome, int]:
    targets = sink_type(sink.format)
    try:
        for attempt in range(1, ATTEMPTS_MAX + 1):
            with closing(targets.at(sink, uri)) as target:
                done = _attempt(target, sink, ticket, content, keys, is_last=attempt == ATTEMPTS_MAX)
            if done is not None:
                return done
    except (*targets.write_errors, OSError, pa.ArrowException) as error:
        raise TableError(
            "WRITE_FAILED",
            f"{ticket.source_table}: {uri}: {type(error).__name__}: {_first_line(error)}",
            hint="The batch will be written when the job starts again; what is in the table already is not doubled",
        ) from error
    raise AssertionError("the last attempt returns or raises")


def _attempt(
    target: Target, sink: Sink, ticket: Ticket, content: _Content, keys: tuple[int, ...], *, is_last: bool
) -> tuple[Outcome, int] | None:
    # None: somebody else was faster, look again.
    target.check_owner(ticket)
    if target.is_done(ticket):
        return Outcome.REPEATED, 0
    reached(Step.LOOKED)
    try:
        rows_written = _write_once(target, ticket, content, keys)
    except Exception as error:
        if not is_last and target.is_conflict(error):
            return None
        raise
    if rows_written:
        target.maintain(sink)
    return Outcome.WRITTEN if rows_written else Outcome.EMPTY, rows_written


def _write_once(target: Target, ticket: Ticket, content: _Content, keys: tuple[int, ...]) -> int:
    if ticket.mode is Mode.CHANGELOG:
        schema = changefeed_schema(content.pieces[0].layout, content.pieces[0].images.decoding)
        target.check_schema(schema, ticket)
        batches = [
            changefeed_batch(piece.images, piece.events, piece.groups, piece.gtid_sources) for piece in content.pieces
        ]
        target.ensure(schema, ticket)
        target.append(pa.RecordBatchReader.from_batches(schema, batches), ticket)
        return sum(batch.num_rows for batch in batches)
    target.check_schema(content.schema, ticket)
    change = reduce_images(
        [piece.images for piece in content.pieces],
        content.schema,
        keys,
        ticket.source_table,
        ranks=log_order(content.pieces),
    )
    target.ensure(content.schema, ticket)
    return target.merge(change, ticket)


def common_schema(
    source_table: str, layouts: Sequence[TableLayout], decoding: Decoding = DEFAULT_DECODING
) -> pa.Schema:
    """The columns that all *layouts* have.

    Raises:
        SchemaError: `SCHEMA_CHANGED`: they have not the same ones.
    """
    schema = arrow_schema(layouts[0], decoding)
    for layout in layouts[1:]:
        other = arrow_schema(layout, decoding)
        if not other.equals(schema):
            difference = describe_difference(_arrow_types(schema), _arrow_types(other))
            raise schema_changed(source_table, difference or "another order of columns")
    return schema


def _arrow_types(schema: pa.Schema) -> dict[str, str]:
    return {field.name: str(field.type) for field in schema}


def _common_keys(source_table: str, pieces: Sequence[Piece], rule: TableRule) -> tuple[int, ...]:
    keys = [key_columns(piece.layout, rule.keys) for piece in pieces]
    for other in keys[1:]:
        if other != keys[0]:
            raise schema_changed(source_table, "another primary key")
    return keys[0]


def _naming(error: BinlogError, source_table: str) -> BinlogError:
    # A damaged page, say, does not know for whom it was read.
    if source_table in error.reason:
        return error
    return type(error)(error.subclass, f"{source_table}: {error.reason}", at=error.at, hint=error.hint)


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
