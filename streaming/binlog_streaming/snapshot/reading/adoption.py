"""A target that somebody else has filled, adopted at a place of the log: `plan_adoption`, then `adopt`.

Nothing of it is written anew: it gets the properties of a target that this job has written, once its columns and keys
are those that the job would have given it.
"""

from __future__ import annotations

import time
import uuid
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from binlog_connector.following.watched import WatchedLog
from binlog_connector.schema.definitions import TableName
from binlog_connector.schema.history import SchemaHistory
from binlog_format.errors import OptionError, SchemaError, TableError
from binlog_format.messages import row_value
from binlog_format.rows.column_types import NO_METADATA_HINT
from binlog_format.rows.columns import arrow_schema
from binlog_format.rows.json.variants import is_variant
from binlog_streaming.job_state.progress import Outcome, TableProgress
from binlog_streaming.jobs.log_tables import find_tables
from binlog_streaming.lake.commit_id import GTID_POSITION_KEY, QUERY_PROPERTY, SNAPSHOT_PROPERTY, CommitId
from binlog_streaming.lake.evolution import common_type
from binlog_streaming.lake.sinks import sink_type
from binlog_streaming.modes.mode_columns import mode_schema
from binlog_streaming.modes.row_keys import key_columns
from binlog_streaming.plan.job_state import TableSelection
from binlog_streaming.plan.snapshots import PlannedSnapshot
from binlog_streaming.settings import Deletes, Mode
from binlog_streaming.snapshot.reading.job_batch import JobBatch, offset_of, run_once

if TYPE_CHECKING:
    from collections.abc import Callable

    from binlog_connector.following.offsets import SourceOffset
    from binlog_format.events.table_map import TableLayout
    from binlog_format.gtids.gtid_set import GtidPoint
    from binlog_streaming.lake.target import Target
    from binlog_streaming.settings.model import Job
    from binlog_streaming.snapshot.locked_point import LogPoint

_SHOWN_MAX = 10
_PUT_ASIDE = "its target is being adopted, or that was cut off; do it again: binlog-stream adopt"
_STEP = 3


@dataclass(frozen=True, slots=True)
class Adoption:
    """A target that can be adopted.

    Attributes:
        keys: Names of the key columns; empty: the whole row tells rows apart.
        offset: Where in the log its rows are those of the table.
    """

    name: TableName
    uri: str
    keys: tuple[str, ...]
    row_count: int
    offset: SourceOffset


def plan_adoption(job: Job, table: str, at: LogPoint | GtidPoint) -> Adoption:
    """See whether a target can be adopted; nothing is changed.

    Args:
        table: `database.table` in the log.
        at: All of the log that its rows hold.

    Raises:
        TableError: `TARGET_GONE`: there is no table; `OTHER_WRITER`: a job has written it; `NULL_KEY`, `KEYS_CHANGED`:
            keys are null, or not unique.
        SchemaError: `SCHEMA_CHANGED`: its columns are not those of the log; `NO_COLUMN_METADATA`: these are not known.
    """
    name = TableName.parse(table)
    selected = TableSelection.of(job).find(name)
    if selected is None or selected.is_aside:
        raise OptionError("INVALID_VALUE", f"--table {table}: no [[tables]] of the job selects it")
    rule = selected.rule
    if rule.modes != (Mode.MIRROR,) or rule.deletes is not Deletes.REMOVE or rule.hides:
        reason = f"--table {table}: only a mirror that hides nothing, with deletes = remove, can be adopted"
        raise OptionError("INVALID_VALUE", reason, hint="What other modes add to rows nobody else has written")
    layout = _layout(job, name)
    uri = selected.uri(job.sink.directory, Mode.MIRROR)
    needs_key = rule.keys or layout.primary_key
    keys = tuple(str(layout.columns[index].name) for index in key_columns(layout, rule.keys)) if needs_key else ()
    with closing(sink_type(job.sink.format).at(job.sink, uri)) as target:
        properties = target.properties()
        if properties is None:
            raise TableError("TARGET_GONE", f"{name}: there is no table at {uri}", hint="See tables.target in the job")
        if QUERY_PROPERTY in properties:
            reason = f"{name}: {uri} was written by query {properties[QUERY_PROPERTY]}"
            raise TableError(
                "OTHER_WRITER", reason, hint="To go on with what a job has written use binlog-stream replay"
            )
        _check_columns(name, target, mode_schema(Mode.MIRROR, arrow_schema(layout, job.decoding())))
        row_count = _check_keys(name, target, keys)
    with WatchedLog(job.source.path, job.source.format) as watched:
        offset = offset_of(watched, at)
    return Adoption(name, uri, keys, row_count, offset)


def adopt(job: Job, adoption: Adoption, run: Callable[[Job], object] = run_once) -> None:
    """Take a target over; the job goes on from there.

    Args:
        run: Lets the job read up to the place; it may be far from there.
    """
    batch, name, offset = JobBatch(job, run), adoption.name, adoption.offset
    with batch.at(offset, [name], f"{_PUT_ASIDE} JOB.toml --table {name} --at {offset.gtid or 'PLACE'}"):
        snapshot, gtid = str(uuid.uuid4()), str(offset.gtid) or None
        commit_id = CommitId(
            query_id=batch.query_id,
            batch_id=batch.batch_id,
            step=_STEP,
            source_table=str(name),
            mode=Mode.MIRROR,
            keys=adoption.keys,
            position=str(offset.position),
            last_change=f"{offset.position}:0",
            gtid=None,
            complete=True,
        )
        adopted = f"{snapshot}: adopted at {gtid or offset.position}"
        recorded = {SNAPSHOT_PROPERTY: adopted, GTID_POSITION_KEY: gtid or ""}
        with closing(sink_type(job.sink.format).at(job.sink, adoption.uri)) as target:
            target.set_properties(commit_id, recorded=recorded)
        taken = PlannedSnapshot(
            database=name.database,
            table=name.table,
            snapshot=snapshot,
            purpose="adopt",
            key=adoption.keys,
            begun=str(offset.position),
            begun_gtid=gtid,
            rows=adoption.row_count,
            ended_gtid=gtid,
            is_ended=True,
        )
        batch.completed(taken, [_progress(adoption)])


def _progress(adoption: Adoption) -> TableProgress:
    return TableProgress(
        source_table=str(adoption.name),
        target=adoption.uri,
        mode=str(Mode.MIRROR),
        outcome=Outcome.WRITTEN,
        inserts=adoption.row_count,
        updates=0,
        deletes=0,
        rows_written=0,
        seconds=0.0,
        position=adoption.offset.position,
        commit_time=int(time.time()),
    )


def _layout(job: Job, name: TableName) -> TableLayout:
    """Layout of the table in the log."""
    source = job.source
    found = find_tables(
        source.path,
        source.format,
        schemas=SchemaHistory.from_schema_file(source.schema_file, folds_names=source.folds_names),
    )
    for table in found.tables:
        if table.name != str(name):
            continue
        if table.problem is not None:
            raise table.problem
        if table.definitions > 1:
            reason = f"{name}: its columns change in the log, so it is not known which ones it has at that place"
            raise SchemaError("SCHEMA_CHANGED", reason, hint="Take its rows with binlog-stream snapshot")
        return table.layout
    raise SchemaError("NO_COLUMN_METADATA", f"{name}: nothing in the log describes its columns", hint=NO_METADATA_HINT)


def _fits(kind: pa.DataType, wanted: pa.DataType) -> bool:
    # JSON may be text or a variant.
    is_either = is_variant(kind) or is_variant(wanted)
    return bool(kind == wanted) or (is_either and common_type(kind, wanted) is not None)


def _check_columns(name: TableName, target: Target, expected: pa.Schema) -> None:
    there, wanted = target.schema(), target.stored_schema(expected)
    differing = []
    for field in wanted:
        index = there.get_field_index(field.name)
        kind = None if index < 0 else there.field(index).type
        if kind is None:
            differing.append(f"{field.name} is missing ({field.type})")
        elif not _fits(kind, field.type):
            differing.append(f"{field.name} is {kind}, expected {field.type}")
    differing += [f"{other} is no column of the table" for other in there.names if other not in wanted.names]
    if differing:
        more = f"; and {len(differing) - _SHOWN_MAX} more" if len(differing) > _SHOWN_MAX else ""
        raise SchemaError(
            "SCHEMA_CHANGED",
            f"{name}: {target.uri} has other columns than the log: {'; '.join(differing[:_SHOWN_MAX])}{more}",
            hint="docs/types.md has the types; write it with these, or take its rows with binlog-stream snapshot",
        )


def _check_keys(name: TableName, target: Target, keys: tuple[str, ...]) -> int:
    """See that no two rows have the same key; how many rows there are."""
    if not keys:
        return sum(batch.num_rows for batch in target.read())
    rows = target.read()
    schema = pa.schema([rows.schema.field(key) for key in keys])
    table = pa.Table.from_batches((batch.select(list(keys)) for batch in rows), schema)
    for key in keys:
        if table[key].null_count:
            raise TableError("NULL_KEY", f"{name}: {table[key].null_count} rows of {target.uri} have no {key}")
    counts = table.group_by(list(keys)).aggregate([([], "count_all")])
    twice = counts.filter(pc.greater(counts["count_all"], 1))
    if twice.num_rows:
        shown = [tuple(row[key] for key in keys) for row in twice.slice(0, _SHOWN_MAX).to_pylist()]
        raise TableError(
            "KEYS_CHANGED",
            f"{name}: {twice.num_rows} keys ({', '.join(keys)}) have several rows in {target.uri}: "
            f"{row_value(', '.join(map(str, shown)))}",
            hint="Remove what is there twice, or take its rows with binlog-stream snapshot",
        )
    return int(table.num_rows)
