"""The rows of a batch into their tables: `write_rows`; one commit for each table, which carries the batch's number."""

from __future__ import annotations

import contextlib
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from binlog_format.errors import TableError
from binlog_streaming.job_state.progress import Outcome, TableProgress
from binlog_streaming.lake.commit_id import CommitId
from binlog_streaming.lake.crash_points import CrashPoint, reached
from binlog_streaming.lake.evolution import reconciled
from binlog_streaming.lake.schema_cast import cast_to_schema
from binlog_streaming.lake.sinks import sink_type
from binlog_streaming.plan.batch_plan import COLUMNS_STEP, ROWS_STEP
from binlog_streaming.settings import Mode
from binlog_streaming.settings.partition_rules import partition_rule
from binlog_streaming.tables.open_targets import OpenTargets

if TYPE_CHECKING:
    from binlog_format.position import Position
    from binlog_streaming.event_tables.rows import EventTableRows
    from binlog_streaming.event_tables.state import EventTablesState
    from binlog_streaming.lake.target import Target
    from binlog_streaming.settings import EventTablesJob

_NS_PER_SECOND = 1_000_000_000


def write_rows(job: EventTablesJob, state: EventTablesState, rows: EventTableRows, end: Position) -> TableProgress:
    """Write *rows* into their table; rows that exist already change nothing.

    Args:
        job: The settings.
        state: With the batch's number, and the tables before it.
        rows: At least one.
        end: Where the log goes on after the batch.

    Raises:
        BinlogError: The table cannot take them; nothing of them is in it.
    """
    started = time.monotonic()
    uri = f"{job.sink.directory.rstrip('/')}/{rows.place}"
    commit_id = _commit_id(job, state, rows, end)
    with (
        contextlib.closing(OpenTargets(job.sink, sink_type(job.sink.format))) as open_targets,
        open_targets.naming_errors(rows.name, uri),
    ):
        outcome = open_targets.write_with_retry(
            uri, lambda target: _write(target, commit_id, rows, is_known=rows.place in state.tables)
        )
        if outcome is Outcome.WRITTEN:
            open_targets.get(uri).maintain(job.sink)
        version = open_targets.get(uri).version()
    first, last = _seconds(rows)
    return TableProgress(
        source_table=rows.place,
        target=uri,
        mode=str(commit_id.mode),
        outcome=outcome,
        inserts=rows.count,
        updates=0,
        deletes=0,
        rows_written=rows.count if outcome is Outcome.WRITTEN else 0,
        seconds=time.monotonic() - started,
        position=end,
        commit_time=last,
        first_commit_time=first,
        version=version,
    )


def _commit_id(job: EventTablesJob, state: EventTablesState, rows: EventTableRows, end: Position) -> CommitId:
    return CommitId(
        query_id=state.query_id,
        batch_id=state.batch_id,
        step=ROWS_STEP,
        source_table=rows.name,
        mode=Mode.CHANGELOG,
        keys=(),
        position=str(end),
        last_change=rows.last_place,
        gtid=None,
        partition_by=tuple(map(partition_rule, job.tables[rows.rule].partition_by)),
    )


def _write(target: Target, commit_id: CommitId, rows: EventTableRows, *, is_known: bool) -> Outcome:
    if target.properties() is None and is_known:
        raise TableError(
            "TARGET_GONE",
            f"{target.uri} was written by this job, and is not there any more",
            hint="It would begin in the middle of the log. Bring it back; or delete the checkpoint and the other "
            "tables too, and let the job build all of them anew from what is left of the log",
        )
    target.check_owner(commit_id)
    if target.is_done(commit_id):
        return Outcome.REPEATED
    reached(CrashPoint.LOOKED)
    schema = rows.schema
    if target.properties() is None:
        target.create(schema, commit_id)
    else:
        _fit_columns(target, commit_id, schema)
    batches = (cast_to_schema(batch, schema) for batch in rows.batches)
    target.append(pa.RecordBatchReader.from_batches(schema, batches), commit_id)
    return Outcome.WRITTEN


def _fit_columns(target: Target, commit_id: CommitId, schema: pa.Schema) -> None:
    """Add the columns that the table lacks, and widen those that are too narrow.

    Raises:
        SchemaError: `SCHEMA_CHANGED`: a column became one that does not hold its values.
    """
    commit_id = replace(commit_id, step=COLUMNS_STEP)
    change = reconciled(target.schema(), target.stored_schema(schema), commit_id.source_table)
    if change:
        target.evolve(change, commit_id)


def _seconds(rows: EventTableRows) -> tuple[int, int]:
    """Times of the first and the last event; without any time: now."""
    ranges = [pc.min_max(batch.column("ns")).as_py() for batch in rows.batches]
    known = [one for one in ranges if one["min"] is not None]
    if not known:
        return int(time.time()), int(time.time())
    return min(one["min"] for one in known) // _NS_PER_SECOND, max(one["max"] for one in known) // _NS_PER_SECOND
