"""The rows of a batch into their tables: `write_rows`; one commit for each table, which carries the batch's number.

Events of a batch as rows of the tables that they go into: `table_rows`. What a batch lacks: `write_gaps`.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlog_connector.crash_points import reached
from binlog_format.errors import CorruptError, TableError
from binlog_format.structured.event_filter import EventFilter, severity_name, shown_text
from binlog_format.structured.view import LogsView, chosen, with_events
from binlog_streaming.job_state.progress import Outcome, TableProgress
from binlog_streaming.lake.commit_id import CommitId
from binlog_streaming.lake.evolution import cast_to_schema, common_schema, reconciled
from binlog_streaming.lake.sinks import may_have_tables, sink_type
from binlog_streaming.lake.table_places import path_part
from binlog_streaming.lake.target import CrashPoint
from binlog_streaming.plan.batch_plan import COLUMNS_STEP, ROWS_STEP
from binlog_streaming.settings import Mode
from binlog_streaming.settings.choices import partition_rule
from binlog_streaming.settings.source_models import Arguments
from binlog_streaming.tables.open_targets import OpenTargets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from binlog_format.position import Position
    from binlog_format.structured.event_log import EventSource, LogBlock
    from binlog_streaming.event_tables.state import EventTablesState
    from binlog_streaming.lake.target import Target
    from binlog_streaming.settings import EventRule, EventTablesJob


_NS_PER_SECOND = 1_000_000_000
_US_PER_SECOND = 1_000_000


def write_rows(
    job: EventTablesJob, state: EventTablesState, rows: EventTableRows, end: Position, *, is_rest: bool
) -> TableProgress:
    """Write *rows* into their table; rows that exist already change nothing.

    Args:
        state: With the batch's number, and the tables before it.
        rows: At least one.
        end: Where the log goes on after the batch.
        is_rest: They are what the log still has of a batch that was under way before.

    Raises:
        BinlogError: The table cannot take them; nothing of them is in it.
    """
    started = time.monotonic()
    uri = _uri(job, rows.place)
    commit_id = replace(
        _commit_id(state, rows.name, str(end), rows.last_place),
        partition_by=tuple(map(partition_rule, job.tables[rows.rule].partition_by)),
    )
    with _open_targets(job, rows.name, uri) as open_targets:
        outcome = open_targets.write_with_retry(
            uri, lambda target: _write(target, commit_id, rows, is_known=rows.place in state.tables, is_rest=is_rest)
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


_GAPS_SCHEMA = pa.schema(
    [
        pa.field("found_at", pa.timestamp("us", "UTC")),
        pa.field("batch_id", pa.int64()),
        pa.field("condition", pa.string()),
        pa.field("certain", pa.bool_()),  # false: perhaps nothing is missing
        pa.field("start", pa.string()),  # the last place that was read before it
        pa.field("go_on", pa.string()),
        pa.field("events", pa.int64()),  # null: not known
        pa.field("reason", pa.string()),
    ]
)


def write_gaps(job: EventTablesJob, state: EventTablesState) -> None:
    """Write what the last batch lacks into the job's table of gaps; rows that exist already change nothing."""
    if not state.gaps:
        return
    place = f"_binlog_stream/gaps_{state.query_id[:8]}"
    uri = _uri(job, place)
    rows = [
        {**msgspec.structs.asdict(gap), "batch_id": state.batch_id, "found_at": int(gap.found_at * _US_PER_SECOND)}
        for gap in state.gaps
    ]
    batch = pa.RecordBatch.from_pylist(rows, schema=_GAPS_SCHEMA)
    commit_id = _commit_id(state, place, state.gaps[-1].go_on, state.gaps[-1].go_on)
    found = EventTableRows(place, -1, [batch])
    with _open_targets(job, place, uri) as open_targets:
        open_targets.write_with_retry(uri, lambda target: _write(target, commit_id, found, is_known=False))


def _uri(job: EventTablesJob, place: str) -> str:
    return f"{job.sink.directory.rstrip('/')}/{place}"


@contextlib.contextmanager
def _open_targets(job: EventTablesJob, name: str, uri: str) -> Iterator[OpenTargets]:
    with (
        contextlib.closing(OpenTargets(job.sink, sink_type(job.sink.format))) as open_targets,
        open_targets.naming_errors(name, uri),
    ):
        yield open_targets


def _commit_id(state: EventTablesState, name: str, position: str, last_change: str) -> CommitId:
    return CommitId(
        query_id=state.query_id,
        batch_id=state.batch_id,
        step=ROWS_STEP,
        source_table=name,
        mode=Mode.CHANGELOG,
        keys=(),
        position=position,
        last_change=last_change,
        gtid=None,
    )


def check_table(job: EventTablesJob, state: EventTablesState, rows: EventTableRows) -> None:
    """See that `write_rows` could write *rows*; nothing is written."""
    uri = _uri(job, rows.place)
    if job.sink.format.has_catalog and not may_have_tables(job.sink):
        return  # a look would make the catalog
    commit_id = _commit_id(state, rows.name, "", "")
    with _open_targets(job, rows.name, uri) as open_targets:
        target = open_targets.get(uri)
        _check(target, commit_id, is_known=rows.place in state.tables)
        if target.properties() is not None:
            reconciled(target.schema(), target.stored_schema(rows.schema), commit_id.source_table)


def _check(target: Target, commit_id: CommitId, *, is_known: bool) -> None:
    if target.properties() is None and is_known:
        raise TableError(
            "TARGET_GONE",
            f"{target.uri} was written by this job, and is not there any more",
            hint="It would begin in the middle of the log. Bring it back; or delete the checkpoint and the other "
            "tables too, and let the job build all of them anew from what is left of the log",
        )
    target.check_owner(commit_id)


def _write(
    target: Target, commit_id: CommitId, rows: EventTableRows, *, is_known: bool, is_rest: bool = False
) -> Outcome:
    _check(target, commit_id, is_known=is_known)
    applied = target.applied(commit_id) if is_rest else None
    if applied is not None and applied.place == commit_id.place:
        # The log has lost a part of the batch since then: the table has all events of it, the rest too.
        commit_id = replace(commit_id, last_change=applied.last_change or commit_id.last_change)
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
    """Add the columns that the table lacks, and widen those that are too narrow."""
    commit_id = replace(commit_id, step=COLUMNS_STEP)
    change = reconciled(target.schema(), target.stored_schema(schema), commit_id.source_table)
    if change:
        target.evolve(change, commit_id)


def _seconds(rows: EventTableRows) -> tuple[int, int]:
    """Times of the first and the last event; without any time: now."""
    ranges = [pc.min_max(batch.column("ns")).as_py() for batch in rows.batches]
    known = [bounds for bounds in ranges if bounds["min"] is not None]
    if not known:
        return int(time.time()), int(time.time())
    first, last = min(bounds["min"] for bounds in known), max(bounds["max"] for bounds in known)
    return first // _NS_PER_SECOND, last // _NS_PER_SECOND


@dataclass(slots=True)
class EventTableRows:
    """Rows of a batch that go into one table.

    Attributes:
        place: In the sink's directory.
        rule: Number of the rule that selects them, from 0.
        batches: The rows, in the order of the log; their columns may differ.
    """

    place: str
    rule: int
    batches: list[pa.RecordBatch] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Name of the target, for messages and for the table's own record."""
        return f"{self.place} (tables[{self.rule}])"

    @property
    def schema(self) -> pa.Schema:
        """Columns of all rows. Raises `SchemaError`: `SCHEMA_CHANGED`: a column has types that have no common one."""
        return common_schema([batch.schema for batch in self.batches], self.name)

    @property
    def count(self) -> int:
        """Rows."""
        return sum(batch.num_rows for batch in self.batches)

    @property
    def last_place(self) -> str:
        """Position of the last event."""
        position = self.batches[-1].column("position")[-1].as_py()
        return "{file_no}:{page}:{chunk}".format(**position)


def table_rows(
    blocks: Iterable[LogBlock], rules: Sequence[EventRule], on_damage: Callable[[CorruptError, int], None] | None = None
) -> list[EventTableRows]:
    """The rows of all tables, by rule and place.

    Args:
        on_damage: Told of each event whose arguments cannot be read, once for each rule that selects it; it is left
            out. None: it is an error.
    """
    routes = [_Route(number, rule, on_damage) for number, rule in enumerate(rules)]
    for block in blocks:
        for route in routes:
            route.take(block)
    found = [rows for route in routes for _, rows in sorted(route.tables.items()) if rows.batches]
    rules_of = {rows.place: rows.rule for rows in reversed(found)}
    for rows in found:
        if rows.rule != rules_of[rows.place]:
            raise TableError(
                "SAME_TARGET",
                f"{rows.place}: events of tables[{rules_of[rows.place]}] and of tables[{rows.rule}] go there",
                hint="Give the two rules different targets",
            )
    return found


def place_of(rule: EventRule, source: EventSource) -> str:
    """Place in the sink's directory for events of *source*, by `EventRule.target`."""
    path = shown_text(source.file)
    name = (PureWindowsPath if "\\" in path else PurePosixPath)(path).name
    values = {
        "category": shown_text(source.category),
        "severity": severity_name(source.severity),
        "function": shown_text(source.function),
        "file": name.replace(".", "_"),
        "line": str(source.line),
        "source_id": str(source.id),
    }
    return rule.place.format(**{key: path_part(value) or "_" for key, value in values.items()}).strip("/")


class _Route:
    """Sends the events of one rule to its tables."""

    def __init__(self, number: int, rule: EventRule, on_damage: Callable[[CorruptError, int], None] | None) -> None:
        self._on_damage = on_damage
        self._number = number
        self._rule = rule
        self._wanted = EventFilter(rules=rule.sources)
        self._view = LogsView(typed=rule.arguments is Arguments.COLUMNS)
        self._places: dict[EventSource, str] = {}
        self.tables: dict[str, EventTableRows] = {}

    def take(self, block: LogBlock) -> None:
        found = chosen(block, self._wanted)
        parts = self._by_source(found) if self._rule.arguments is Arguments.COLUMNS else self._by_place(found)
        for source, part in parts:
            place = self._place(source)
            if place not in self.tables:
                self.tables[place] = EventTableRows(place, self._number)
            self.tables[place].batches.extend(self._batches(part))

    def _batches(self, part: LogBlock) -> list[pa.RecordBatch]:
        try:
            return [self._view.batch(part)]
        except CorruptError:
            if self._on_damage is None:
                raise
        found = self._view.sound(part, self._on_damage)  # damage is rare: which events are sound is tried out
        return [self._view.batch(found)] if len(found.events) else []

    def _by_source(self, block: LogBlock) -> Iterator[tuple[EventSource, LogBlock]]:
        numbers = block.events["source"]
        for number in np.unique(numbers).tolist():
            yield block.sources[number], with_events(block, np.flatnonzero(numbers == number))

    def _by_place(self, block: LogBlock) -> Iterator[tuple[EventSource, LogBlock]]:
        numbers = block.events["source"]
        used = np.unique(numbers).tolist()
        places: dict[str, list[int]] = {}
        for number in used:
            places.setdefault(self._place(block.sources[number]), []).append(number)
        for of_place in places.values():
            is_all = len(of_place) == len(used)
            part = block if is_all else with_events(block, np.flatnonzero(np.isin(numbers, of_place)))
            yield block.sources[of_place[0]], part

    def _place(self, source: EventSource) -> str:
        if source not in self._places:
            self._places[source] = place_of(self._rule, source)
        return self._places[source]
