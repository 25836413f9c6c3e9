"""Common data of all tables of a batch: `BatchRun`.

The positions that targets record, step by step: `BatchPositions`.

A target is at its batch's end when it has the batch's last step; before that no GTIDs describe where it is.
So the last step records it in its commit, and those before it record nothing, and remove what was recorded.

The version of each table after each batch: `BatchVersions` keeps a table of it beside the others.

Most tables are written one after the other, each by a commit of its own; so at any moment one may be a batch ahead of
another. After each batch one row states which version of each touched table holds it, and up to which GTID that is.
Readers that take the versions of one row, or of earlier ones, see all tables as of one GTID.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from binlog_connector.given_definitions import NOTHING_GIVEN, GivenDefinitions
from binlog_format.errors import OptionError
from binlog_format.gtids.gtid_set import parse_gtids
from binlog_format.rows.decoding import DEFAULT_DECODING
from binlog_streaming.job_state.progress import Outcome
from binlog_streaming.lake.commit_id import GTID_POSITION_KEY, QUERY_PROPERTY, SOURCE_PROPERTY, CommitId
from binlog_streaming.lake.sinks import sink_type
from binlog_streaming.lake.target import same_target
from binlog_streaming.plan.batch_plan import RowsStep
from binlog_streaming.settings import OnError
from binlog_streaming.settings.choices import Mode
from binlog_streaming.tables.evidence_watch import WantedEvidence
from binlog_streaming.tables.open_targets import OpenTargets

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Callable, Collection, Mapping, Sequence

    from binlog_connector.schema.definitions import TableName
    from binlog_format.position import Position
    from binlog_format.rows.decoding import Decoding
    from binlog_streaming.job_state.progress import TableProgress
    from binlog_streaming.lake.target import Target
    from binlog_streaming.plan.batch_plan import Component
    from binlog_streaming.plan.cascades import CascadeLog
    from binlog_streaming.settings import Sink
    from binlog_streaming.settings.model import Job
    from binlog_streaming.tables.evidence_watch import Watched


DEFINITION_PROPERTY = "binlog-stream.definition"
"""`known`; `partial`: nothing states foreign keys, generated columns, defaults, or what else no table map has."""


@dataclass(frozen=True, slots=True)
class BatchRun:
    """Common data of all tables of a batch.

    Attributes:
        position: Where the log goes on after the batch.
        gtid_position: What the log has up to the batch's end, as text; None: not known.
        on_error: What becomes of a component with a table that cannot go on.
        given: Definitions that the job has beside the log; without a schema file if the batch does not use it.
        cascade_log: Reads rows of parents that have no targets; None: there are no foreign keys to follow.
        evidence: What is compared of rows that change, of tables that do not set it themselves.
        watched: What the job remembers of targets, by their place.
        compares_all: All rows that change are compared as a whole, whatever is set: a part of a step was contradicted,
            and is to be named.
        defined: Tables of which statements or marks define, after the batch, what no table map has; None: not known.
    """

    query_id: str
    batch_id: int
    sink: Sink
    position: Position
    decoding: Decoding = DEFAULT_DECODING
    gtid_position: str | None = None
    on_error: OnError = OnError.STOP
    given: GivenDefinitions = NOTHING_GIVEN
    cascade_log: CascadeLog | None = None
    evidence: WantedEvidence = field(default_factory=WantedEvidence)
    watched: Mapping[str, Watched] = field(default_factory=dict)
    compares_all: bool = False
    defined: frozenset[TableName] | None = None

    def check_source(self, tables: Collection[TableName], target: Target) -> None:
        """See that this query has made *target* for one of *tables*, if it has made it.

        A step counts as done by its number alone, and another table of the batch may have brought that.
        """
        properties = target.properties() or {}
        source, names = properties.get(SOURCE_PROPERTY), [str(name) for name in tables]
        if source is not None and properties.get(QUERY_PROPERTY) == self.query_id and source not in names:
            raise same_target(min(names), target.uri, source)

    def recorded(
        self, name: TableName, target: Target, types: Callable[[Mapping[str, str] | None], dict[str, str]]
    ) -> dict[str, str]:
        """Properties that a target of a table gets: whether its definition is known, and the types that it declares.

        Args:
            types: Gives properties that state the types, by those of the target.
        """
        properties = target.properties()
        found = types(properties) if self.decoding.declared_types else {}
        if self.defined is None:
            return found
        definition = "known" if name in self.defined else "partial"
        is_same = properties is not None and properties.get(DEFINITION_PROPERTY) == definition
        return found if is_same else {**found, DEFINITION_PROPERTY: definition}


class BatchPositions:
    """Positions of the targets of a component.

    Args:
        end: What the log has up to the batch's end, as text; None: not known.
    """

    def __init__(self, component: Component, end: str | None) -> None:
        self._end = end
        self._last: dict[TableName, int] = {}
        for step in component.steps:
            for name in (step.table,) if isinstance(step, RowsStep) else step.tables:
                self._last[name] = step.number

    def after(self, table: TableName, number: int) -> str | None:
        """Position of a target after a step, if the target may record it."""
        return self._end if number >= self._last.get(table, number) else None

    def clear_position(self, target: Target, commit_id: CommitId, others: Mapping[str, str] | None = None) -> None:
        """Before a commit: remove the position that *target* records, unless the commit records a new one.

        Args:
            others: What it has to record too, before the commit; None: nothing.
        """
        recorded = dict(others or {})
        held = (target.properties() or {}).get(GTID_POSITION_KEY)
        if held and commit_id.gtid_position is None and self._end is not None:
            recorded[GTID_POSITION_KEY] = ""
        if recorded:
            target.set_properties(commit_id, recorded=recorded)

    def last_step(self, table: TableName) -> int:
        """Number of the last step about a table; 0: there is none."""
        return self._last.get(table, 0)

    def record_end(self, target: Target, commit_id: CommitId) -> None:
        """After all steps: let *target* state where it is and whether it is complete, if its last commit does not.

        Args:
            commit_id: Of the last step about its table.
        """
        properties = target.properties() or {}
        if properties.get(QUERY_PROPERTY) != commit_id.query_id:
            return  # it is not there, or another one's
        applied = target.applied(commit_id)
        is_within = applied is not None and applied.batch_id == commit_id.batch_id and applied.step < commit_id.step
        is_behind = is_within or properties.get(GTID_POSITION_KEY) == ""
        recorded = {GTID_POSITION_KEY: self._end} if self._end is not None and is_behind else {}
        target.set_properties(commit_id, recorded=recorded)


NAME = "_binlog_stream.batches"
PLACE = "_binlog_stream/batches"
"""Folder in the sink's directory. (A database may have that name, but no server makes one that begins with `_` by
itself.)"""

_MOMENT = pa.timestamp("us", "UTC")
_TABLE = pa.struct([("table", pa.string()), ("mode", pa.string()), ("target", pa.string()), ("version", pa.string())])
SCHEMA = pa.schema(
    [
        ("job", pa.string()),
        ("query_id", pa.string()),
        ("batch_id", pa.int64()),
        ("position", pa.string()),
        ("gtid_position", pa.string()),
        ("first_commit_time", _MOMENT),
        ("last_commit_time", _MOMENT),
        ("recorded_at", _MOMENT),
        ("tables", pa.list_(_TABLE)),
    ]
)
"""A row for each batch that touched a table.

`position` and `gtid_position` are where the log goes on, and what it has up to there; the times are those of the
server's commits; `tables` are the touched ones, with `version` as a reader of the format names it. Rows are ordered by
`recorded_at`; batches are counted anew when the tables change hands.
"""

_MICROS = 1_000_000


@dataclass(frozen=True, slots=True)
class TableVersion:
    """A table as of a batch.

    Attributes:
        table: `database.table` in the log.
        version: What a reader names: Delta's version, Iceberg's snapshot id.
    """

    table: str
    mode: str
    target: str
    version: str


@dataclass(frozen=True, slots=True)
class Versions:
    """All tables as of one batch.

    Attributes:
        gtid_position: What the log has up to its end.
        last_commit_time: Of the server.
        tables: By their names.
    """

    batch_id: int
    gtid_position: str
    last_commit_time: dt.datetime
    tables: tuple[TableVersion, ...]


class BatchVersions:
    """The table `_binlog_stream.batches` of a job."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._uri = f"{job.sink.directory.rstrip('/')}/{PLACE}"

    @property
    def is_kept(self) -> bool:
        """True if there is one: plain files have no versions."""
        return self._job.sink.format.replaces_rows

    def record(
        self,
        query_id: str,
        batch_id: int,
        position: Position,
        gtid_position: str | None,
        tables: Sequence[TableProgress],
    ) -> None:
        """Record the versions that hold a batch, once however often the batch is repeated."""
        touched = [table for table in tables if table.version is not None and table.outcome is not Outcome.SET_ASIDE]
        if not touched or not self.is_kept:
            return
        commit_id = CommitId(
            query_id=query_id,
            batch_id=batch_id,
            step=0,
            source_table=NAME,
            mode=Mode.CHANGELOG,
            keys=(),
            position=str(position),
            last_change=str(position),
            gtid=None,
            gtid_position=gtid_position,
        )
        row = {
            "job": self._job.name,
            "query_id": query_id,
            "batch_id": batch_id,
            "position": str(position),
            "gtid_position": gtid_position,
            "first_commit_time": min(table.first_commit_time or table.commit_time for table in touched) * _MICROS,
            "last_commit_time": max(table.commit_time for table in touched) * _MICROS,
            "recorded_at": time.time_ns() // 1000,
            "tables": [
                {"table": table.source_table, "mode": table.mode, "target": table.target, "version": table.version}
                for table in touched
            ],
        }
        rows = pa.Table.from_pylist([row], SCHEMA)

        def append(target: Target) -> bool:
            properties = target.properties()
            if properties is None:
                target.create(SCHEMA, commit_id)
            elif properties.get(QUERY_PROPERTY) != query_id:
                # The tables have changed hands; or another job writes into the same directory.
                target.transfer_to(query_id)
            if target.is_done(commit_id):
                return False
            target.append(rows.to_reader(), commit_id)
            return True

        open_targets = OpenTargets(self._job.sink, sink_type(self._job.sink.format))
        with contextlib.closing(open_targets), open_targets.naming_errors(NAME, self._uri):
            if open_targets.write_with_retry(self._uri, append):
                open_targets.get(self._uri).maintain(self._job.sink)

    def at(self, gtids: str | None = None) -> Versions:
        """The versions that hold the log up to *gtids* (None: the newest ones), those of the first batch that does.

        Args:
            gtids: A GTID, or a position: `0-1-100`, `0-1-100,1-2-7`, `uuid:1-77`.
        """
        try:
            wanted = None if gtids is None else parse_gtids(gtids)
        except ValueError as error:
            raise OptionError("INVALID_VALUE", f"--at: {error}", hint="Write 0-1-100 or uuid:77") from error
        held: dict[tuple[str, str], TableVersion] = {}
        last: dict[str, Any] | None = None
        for row in self._rows():
            last = row
            for table in row["tables"]:
                held[table["table"], table["mode"]] = TableVersion(**table)
            if wanted is not None and not wanted.without(parse_gtids(row["gtid_position"] or "")):
                break
        else:
            if last is not None and wanted is not None:
                raise OptionError(
                    "INVALID_VALUE",
                    f"--at: {gtids} is not in the tables yet: they have {last['gtid_position']}",
                    hint="Without --at the newest versions are shown",
                )
        if last is None:
            raise OptionError(
                "INVALID_VALUE",
                f"{self._uri}: no batch of job {self._job.name!r} is recorded there",
                hint="Batches are recorded as they are written, for Delta and Iceberg tables",
            )
        tables = tuple(held[key] for key in sorted(held))
        return Versions(last["batch_id"], last["gtid_position"] or "", last["last_commit_time"], tables)

    def _rows(self) -> list[dict[str, Any]]:
        if not self.is_kept:
            return []
        with contextlib.closing(sink_type(self._job.sink.format).at(self._job.sink, self._uri)) as target:
            if target.properties() is None:
                return []
            rows = target.read().read_all()
        own = [row for row in rows.to_pylist() if row["job"] == self._job.name]
        return sorted(own, key=lambda row: row["recorded_at"])
