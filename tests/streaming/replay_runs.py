"""Jobs and replays as Spark runs them, with its checkpoint, but without Spark; and what the server had at a GTID."""

from __future__ import annotations

import contextlib
import json
import uuid
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from deltalake import DeltaTable

from binlog_connector.spark.source import BinlogDataSource
from binlog_format import open_log
from binlog_format.gtids.gtid_set import parse_gtids
from binlog_streaming.job_state.checkpoint import read_checkpoint, state_of
from binlog_streaming.job_state.progress import BatchProgress
from binlog_streaming.job_state.record import with_declared_types
from binlog_streaming.job_state.record_keeper import RecordKeeper
from binlog_streaming.jobs.replay_run import ReplayRequest, plan_replay
from binlog_streaming.settings.choices import OnStatement, TableFormat, UnknownValues
from binlog_streaming.settings.model import Job, Sink, Source, TableRule
from binlog_streaming.tables.apply import apply_component
from binlog_streaming.tables.batch import BatchContext, write_plan
from binlog_streaming.tables.evidence_watch import watched_after
from binlog_streaming.tables.open_targets import check_folders
from tests.faults.processes import Killed
from tests.truth.replay import row_differences
from tests.truth.truth_case import case_path
from tests.truth.truth_values import typed_difference

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    import pyarrow as pa

    from binlog_connector.following.offsets import SourceOffset
    from binlog_streaming.jobs.replay_run import Replay
    from binlog_streaming.plan.job_state import JobState
    from binlog_streaming.tables.division import Tasks
    from binlog_streaming.tables.evidence_watch import Watched
    from tests.truth.truth_case import Case, Row


def job_for(folder: Path, name: str, *, bytes_max: str = "2k", select: str = r"t\.(a|b|nokey)", **rule: object) -> Job:
    """A job for a log of a real server, in batches of a few groups."""
    rules = {"select": select, "unknown_values": UnknownValues.NULL, "on_drop": OnStatement.APPLY} | rule
    table_format = rules.pop("table_format", TableFormat.DELTA)
    return Job(
        source=Source(path=str(case_path(name)), max_bytes_per_trigger=bytes_max),
        sink=Sink(directory=str(folder / "tables"), format=TableFormat(str(table_format))),
        checkpoint=str(folder / "checkpoint"),
        tables=(msgspec.convert(rules, TableRule),),
    )


def run(
    job: Job,
    *,
    batches_max: int | None = None,
    stop: str = "behind",
    held: Iterable[tuple[str, str]] = (),
    from_first: bool | None = None,
    listener: Callable[[BatchProgress], object] | None = None,
    tasks: Tasks | None = None,
) -> int:
    """What `binlog-stream run --once` does; how many batches it did.

    Args:
        batches_max: It is killed behind so many.
        stop: `behind` a batch, or `before` its commit is written down.
        held: As `run_job` takes it.
        from_first: As `run_job` takes it.
        listener: Called after each batch.
        tasks: Write the tables, as those of Spark do; None: this thread does, which an observer of its steps needs.

    Raises:
        Killed: It was.
    """
    job = with_declared_types(job)
    keeper = RecordKeeper(job)
    keeper.begin()
    keeper.record_batch(held, from_first=from_first)
    folder = Path(job.checkpoint)
    for name in ("offsets", "commits"):
        (folder / name).mkdir(exist_ok=True)
    if not (folder / "metadata").exists():
        (folder / "metadata").write_text(json.dumps({"id": str(uuid.uuid4())}))
    checkpoint = read_checkpoint(state_of(job))
    assert checkpoint is not None
    source = BinlogDataSource({"path": job.source.path, **job.source_options()})
    reader = source.streamReader(source.schema())
    offset = reader.initialOffset() if checkpoint.offset is None else checkpoint.offset.to_json()
    reader.prepareForTriggerAvailableNow()
    batch_id = 0 if checkpoint.batch_id is None else checkpoint.batch_id + 1
    done = 0
    watched: dict[str, Watched] = {}
    pending = checkpoint.pending
    while True:
        end = pending.to_json() if pending is not None else reader.latestOffset(offset, reader.getDefaultReadLimit())
        if end == offset and pending is None:
            return done
        pending = None
        (folder / "offsets" / str(batch_id)).write_text(f"v1\n{{}}\n{json.dumps(end)}")
        rows = [
            row for part in reader.partitions(offset, end) for batch in reader.read(part) for row in batch.to_pylist()
        ]
        context = _context(job, checkpoint.query_id, batch_id, keeper.state_before(batch_id), watched)
        batch = _write(context, keeper, rows, tasks)
        watched = watched_after(watched, batch.tables)
        keeper.saw_batch(batch)
        if listener is not None:
            listener(batch)
        done += 1
        if done == batches_max and stop == "before":
            raise Killed
        (folder / "commits" / str(batch_id)).write_text('v1\n{"nextBatchWatermarkMs":0}')
        if done == batches_max:
            raise Killed
        offset, batch_id = end, batch_id + 1


def _context(job: Job, query_id: str, batch_id: int, memory: JobState, watched: Mapping[str, Watched]) -> BatchContext:
    offset = _pending(job)
    return BatchContext(query_id, batch_id, job, str(offset.gtid.advanced_by(offset.skip_gtid)), memory, watched)


def _pending(job: Job) -> SourceOffset:
    checkpoint = read_checkpoint(state_of(job))
    assert checkpoint is not None
    assert checkpoint.pending is not None
    return checkpoint.pending


def _write(
    context: BatchContext, keeper: RecordKeeper, rows: list[dict[str, object]], tasks: Tasks | None
) -> BatchProgress:
    job, batch_id, offset = context.job, context.batch_id, _pending(context.job)
    plan = context.plan(rows)
    defined = keeper.keep_definitions(batch_id, plan.state_change.definitions, offset)
    context = replace(context, defined=defined)
    if plan.end is None:
        return BatchProgress(batch_id, (), 0.0, 0.0, None, plan.state_change, offset=offset, defined=defined)
    if tasks is not None:
        written = write_plan(context, plan, tasks)
        return BatchProgress(
            batch_id, tuple(written), 0.0, 0.0, None, plan.state_change, offset=offset, defined=defined
        )
    check_folders(plan.components, job.sink)
    batch = context.run(plan.end)
    with open_log(job.source.path) as log:
        tables = [table for component in plan.components for table in apply_component(batch, component, log)]
    return BatchProgress(batch_id, tuple(tables), 0.0, 0.0, None, plan.state_change, offset=offset, defined=defined)


def plan(
    job: Job,
    start: str | None = None,
    end: str | None = None,
    directory: Path | None = None,
    *,
    hand_over: bool = False,
) -> Replay:
    """What `binlog-stream replay` does before it runs the job."""
    first, last = (None if text is None else parse_gtids(text) for text in (start, end))
    return plan_replay(ReplayRequest(job, first, last, None if directory is None else str(directory), hand_over))


def replay(
    job: Job,
    start: str | None = None,
    end: str | None = None,
    directory: Path | None = None,
    *,
    hand_over: bool = False,
) -> int:
    """`binlog-stream replay`; how many batches it did."""
    planned = plan(job, start, end, directory, hand_over=hand_over)
    done = (
        0 if planned.is_empty else run(planned.job, held=planned.record.continued, from_first=planned.record.from_first)
    )
    planned.finish()
    return done


def rows_at(truth: Case, table: str, gtid: str) -> list[Row]:
    """What the server had in a table, whose columns never changed, behind a transaction."""
    rank = {known: number for number, known in enumerate(truth.gtids)}
    rows: list[Row] = []
    changes = [change for change in truth.changes if change.table == table and not change.is_undone]
    for change in sorted(changes, key=lambda change: (rank[change.gtid or ""], change.step)):
        if rank[change.gtid or ""] > rank[gtid]:
            break
        if change.before is not None:
            rows.remove(change.before)
        if change.after is not None:
            rows.append(change.after)
    return rows


def check(truth: Case, directory: Path, table: str, gtid: str) -> None:
    """The table there is what the server had behind a transaction."""
    columns = truth.schema_at(table, len(truth.steps)).columns
    got = rows_of(directory, table).to_pylist()
    wanted = rows_at(truth, table, gtid)
    assert row_differences(table, got, wanted, columns, difference=typed_difference, declared=True) == []


def rows_of(directory: Path, table: str) -> pa.Table:
    """What is in a table, whatever its format."""
    database, _, name = table.partition(".")
    if (directory / "iceberg-catalog.db").exists():
        from binlog_streaming.lake.iceberg.target import IcebergTarget

        sink = Sink(directory=str(directory))
        with contextlib.closing(IcebergTarget.at(sink, str(directory / database / name))) as one:
            return one.read().read_all()
    return DeltaTable(str(directory / database / name)).to_pyarrow_table()
