"""Tables as they were at a GTID: `plan_replay(ReplayRequest(...))` -> `Replay`, a job with a start and an end.

A replay is the job itself over one part of the log, under a query id of its own. Before it runs, the targets that are
where it begins become this id's; those that hold all of the part are left out of it. What was found is kept beside
its checkpoint, so a replay that was cut off goes on with it.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from binlog_connector.following.offsets import taken_in
from binlog_connector.schema.definitions import TableName
from binlog_format.errors import OptionError, StartError, TableError
from binlog_format.gtids.gtid import GtidPosition
from binlog_format.gtids.gtid_set import parse_gtids
from binlog_format.log.search import end_of_gtids
from binlog_format.position import Place
from binlog_streaming.job_state.checkpoint import StateFolder, read_checkpoint, state_of
from binlog_streaming.job_state.record_keeper import begins_with_first
from binlog_streaming.jobs.mirror import OWN_FOLDER
from binlog_streaming.jobs.replay_range import ReplayCheckpoint, ReplayRange, ReplayRecord, find_range, open_log_of
from binlog_streaming.jobs.replay_tables import (
    ReplayTables,
    Sorted,
    elsewhere,
    give_back,
    set_aside_by,
    stopped_in,
    transfer_checkpoint,
    without_tables,
)
from binlog_streaming.lake.sinks import may_have_tables
from binlog_streaming.settings.model import Job, Metrics, Source

if TYPE_CHECKING:
    from binlog_connector.following.watched import WatchedLog
    from binlog_format.gtids.gtid_set import GtidPoint
    from binlog_format.position import Position
    from binlog_streaming.plan.job_state import SetAside
    from binlog_streaming.settings.choices import Mode

CHECKPOINT = f"{OWN_FOLDER}/replay-checkpoint"
"""Checkpoint in the target directory."""


class ReplaySource(Source, frozen=True, kw_only=True, rename="camel"):
    """`[source]` with an end, as only a replay has it."""

    ending_gtid: str | None = None
    ending_offsets: str | None = None


def ending_at(job: Job, position: Position) -> Job:
    """The same job, which ends at a place of its log."""
    given = msgspec.structs.asdict(job.source) | {"ending_offsets": json.dumps(position.to_json())}
    return msgspec.structs.replace(job, source=ReplaySource(**given))


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """Request of a user.

    Attributes:
        start: Begin after this; None: where the tables are, or where the job itself would begin.
        end: Up to this; None: what is there now.
        directory: Where the tables go; None: where the job has them.
        hand_over: The job goes on from there.
        given_back_to: The job that set the tables aside, and takes them up again.
    """

    job: Job
    start: GtidPoint | None = None
    end: GtidPoint | None = None
    directory: str | None = None
    hand_over: bool = False
    given_back_to: Job | None = None

    @classmethod
    def of_set_aside(cls, job: Job) -> ReplayRequest:
        """Make a request that brings the tables that *job* set aside to the job's present position."""
        tables, end = set_aside_by(job)
        return cls(tables, end=end, given_back_to=job)

    @property
    def asked(self) -> tuple[str | None, str | None, bool]:
        """Options as a `ReplayRecord` has them."""
        start, end = (None if point is None else str(point) for point in (self.start, self.end))
        return start, end, self.hand_over

    @property
    def target_job(self) -> Job:
        """The job, writing where the replay is to write."""
        if self.directory is None:
            return self.job
        return msgspec.structs.replace(
            self.job, sink=msgspec.structs.replace(self.job.sink, directory=self.directory.rstrip("/"))
        )

    @property
    def checkpoint(self) -> str:
        """Checkpoint of the replay."""
        directory = self.target_job.sink.directory
        # Spark's checkpoint and the tables need not know the same object stores.
        return f"{self.job.checkpoint}-replay" if "://" in directory else f"{directory}/{CHECKPOINT}"


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """End of a replay.

    Attributes:
        targets: How many are at its end now, without those that were left alone.
        set_aside: Tables that are not: they stopped on the way (`on_error`).
    """

    targets: int
    set_aside: tuple[SetAside, ...]


@dataclass(frozen=True, slots=True)
class Replay:
    """A replay that can be run.

    Attributes:
        job: To be run once.
        is_resumed: It was begun before.
        is_empty: There is nothing in its part of the log.
    """

    request: ReplayRequest
    record: ReplayRecord
    job: Job
    is_resumed: bool
    is_empty: bool

    def finish(self) -> ReplayResult:
        """Finish after the job has run: record positions in tables, transfer them, and remove the replay's record."""
        checkpoint = read_checkpoint(state_of(self.job))
        if checkpoint is not None and checkpoint.pending is not None:
            raise StartError(
                "POSITION_NOT_FOUND",
                f"{self.job.checkpoint}: has not reached its end: batch {checkpoint.batch_id} is the last one",
                hint="Call it again; it goes on there",
            )
        if self.request.given_back_to is not None:
            return ReplayResult(give_back(self.request.given_back_to, self.job, self.record), ())
        names = [TableName(*name) for name in self.record.tables]
        stopped = stopped_in(self.job)
        count = 0
        targets: list[tuple[str, str, Mode]] = []
        if may_have_tables(self.job.sink):
            tables = ReplayTables(self.request.target_job, names)
            if self.record.hand_over:
                alone = set(self.record.left_alone)
                tables.transfer(
                    (target for target in tables.there() if tuple(target.name) in alone), self.record.query_id
                )
            stopped_names = {table.name for table in stopped}
            count = tables.record_position(self.record.last, self.record.query_id, without=stopped_names)
            targets = [(target.name.database, target.name.table, target.mode) for target in tables.there()]
        if self.record.hand_over:
            transfer_checkpoint(self.request.job, self.job, self.record.tables, targets)
        else:
            ReplayCheckpoint(state_of(self.job)).remove()
        return ReplayResult(count, stopped)


def plan_replay(request: ReplayRequest) -> Replay:
    """See what a replay has to do, and prepare the targets for it; called again it goes on with what was begun.

    Raises:
        OptionError: `INVALID_VALUE`: another replay was begun there; the job cannot be replayed, or get the tables.
        TableError: `STANDS_ELSEWHERE`: a target is neither at the start nor at the end.
    """
    _check_request(request)
    checkpoint = ReplayCheckpoint(StateFolder(request.checkpoint, request.job.sink.storage))
    known = checkpoint.read()
    if known is not None and known.asked != request.asked:
        raise _other_replay(checkpoint.directory, known)
    with open_log_of(request.job) as watched:
        planner = _Planner(watched, request)
        record = planner.resumed(known) if known is not None else planner.record()
        if known is None:
            checkpoint.begin(record)
        planner.transfer(record)
    return Replay(request, record, _job_of(request, record), known is not None, planner.is_empty)


class _Planner:
    def __init__(self, watched: WatchedLog, request: ReplayRequest) -> None:
        from binlog_streaming.jobs.touched_tables import TouchedTables  # compiled code takes a moment to load

        self._watched = watched
        self._request = request
        self._touched = TouchedTables(watched, request.job)
        self._job_checkpoint = read_checkpoint(state_of(request.job))
        self._sorted: Sorted | None = None
        self._names: frozenset[TableName] = frozenset()
        self.is_empty = False

    def record(self) -> ReplayRecord:
        request = self._request
        part = find_range(self._watched, request.job, request.start, request.end)
        if request.start is None:
            start = self._where_tables_are(part)
            if start is not None:
                part = find_range(self._watched, request.job, start, request.end)
        if request.hand_over and part.passed_over:
            raise StartError(
                "START_AFTER_END",
                f"--hand-over: a job goes on after {part.last}, but {part.passed_over} lies before that in the log",
                hint="Name in --to the last GTID of every domain at one place of the log, or leave it out",
            )
        self.is_empty = part.is_empty
        if request.hand_over and part.is_empty:
            raise StartError(
                "POSITION_NOT_FOUND",
                f"--hand-over: nothing follows {part.last or 'that'} in the log yet: no batch to go on from",
                hint="Call it again when the log has gone on",
            )
        self._names = self._touched_in(part)
        query_id = str(uuid.uuid4())
        self._sorted = self._sort(part.first, part.last, query_id)
        if not request.hand_over and self._names <= self._sorted.left_alone:
            self.is_empty = True
        taken = (*self._sorted.at_first, *(self._sorted.at_last if request.hand_over else ()))
        self._tables(self._names).check_ownership_can_transfer(taken)
        asked_from, asked_to, hand_over = request.asked
        return ReplayRecord(
            asked_from=asked_from,
            asked_to=asked_to,
            hand_over=hand_over,
            query_id=query_id,
            starting=part.starting,
            ending=part.ending,
            first=str(part.first),
            last=str(part.last),
            tables=tuple(sorted((name.database, name.table) for name in self._names)),
            left_alone=tuple(sorted((name.database, name.table) for name in self._sorted.left_alone)),
            continued=tuple(sorted({(target.name.database, target.name.table) for target in self._sorted.at_first})),
            from_first=begins_with_first(request.job.source.path) if request.start is None else None,
        )

    def resumed(self, record: ReplayRecord) -> ReplayRecord:
        alone = set(record.left_alone)
        self._names = frozenset(TableName(*name) for name in record.tables if name not in alone)
        self._sorted = self._sort(parse_gtids(record.first), parse_gtids(record.last), record.query_id)
        return record

    def transfer(self, record: ReplayRecord) -> None:
        assert self._sorted is not None
        self._tables(self._names).transfer(self._sorted.at_first, record.query_id)

    def _tables(self, names: frozenset[TableName]) -> ReplayTables:
        request = self._request
        some = names if may_have_tables(request.target_job.sink) else frozenset()
        return ReplayTables(request.target_job, some, self._job_checkpoint)

    def _sort(self, first: GtidPoint, last: GtidPoint, query_id: str) -> Sorted:
        found = self._tables(self._names).sort(self._touched, first, last, query_id)
        if found.elsewhere:
            raise elsewhere(
                list(found.elsewhere),
                f"the replay begins at {first or 'the start of the log'} and ends at {last or 'its end'}",
                hint="Begin where it is (--from), build the tables anew in another folder (--target), or delete it",
            )
        return found

    def _touched_in(self, part: ReplayRange) -> frozenset[TableName]:
        if self._request.hand_over:  # the job will meet all of them
            return self._touched.within(self._watched.log.start_position(), part.stop)
        skip = taken_in(self._watched.log, part.start, part.stop)
        return self._touched.within(part.start.position, part.stop, skip=skip, until=part.wanted)

    def _where_tables_are(self, part: ReplayRange) -> GtidPoint | None:
        """One point for all tables that are there and have not come to the end; None: there are none."""
        if not may_have_tables(self._request.target_job.sink):
            return None
        earliest = self._watched.log.start_position()
        names = self._touched.within(earliest, part.stop, until=part.wanted)
        tables = self._tables(names)
        found = tables.sort(self._touched, part.last, part.last, None).elsewhere
        if not found:
            return None
        points = {str(target.state.gtid): target.state.gtid for target in found}
        silent = [target for target in found if target.state.gtid is None]
        if silent:
            hint = "Give the GTID position of the tables with --from, or build them anew in another folder (--target)"
            raise elsewhere(silent, "it is not known where to go on", hint=hint)
        for start in sorted((point for point in points.values() if point is not None), key=str):
            there = tables.sort(self._touched, start, part.last, None)
            if not there.elsewhere:
                self._check_missing(tables, start, part)
                return start
        hint = "Bring those that are behind to where the others are first: --from and --to name the two places"
        raise elsewhere(list(found), "they are not at one GTID position", hint=hint)

    def _check_missing(self, tables: ReplayTables, start: GtidPoint, part: ReplayRange) -> None:
        earliest = self._watched.log.start_position()
        missing = set(tables.missing())
        until = end_of_gtids(self._watched.log, start).taken
        partly = missing & self._touched.within(earliest, part.stop, until=until)
        if partly:
            raise _begins_in_the_middle(sorted(partly), start)


def _begins_in_the_middle(names: list[TableName], start: GtidPoint) -> TableError:
    told = ", ".join(str(name) for name in names[:5])
    return TableError(
        "STANDS_ELSEWHERE",
        f"{told}: does not exist, while other tables are at {start}: its earlier rows would be missing",
        hint=f"Build what is missing first, --to {start} (tables that are at it already are left alone); or give "
        "--from, to begin with it in the middle",
    )


def _check_request(request: ReplayRequest) -> None:
    start, end, job = request.start, request.end, request.job
    lacking = None if start is None or end is None else _lacking(start, end)
    if lacking:
        raise StartError(
            "START_AFTER_END",
            f"--from {start} comes after --to {end}: {lacking} is not in that",
            hint="Swap them; where there are several domains or servers, --to names all that --from names",
        )
    if not request.hand_over:
        return
    if request.directory is not None:
        raise OptionError(
            "INVALID_VALUE",
            f"--hand-over does not go with --target, got {request.directory}",
            hint="A job goes on with the tables in its own sink.directory: name another one in a copy of the job file",
        )
    if "://" in job.checkpoint or "://" in job.sink.directory:
        raise OptionError(
            "INVALID_VALUE", "--hand-over: expected checkpoint and sink.directory to be folders, got a URL"
        )
    if any(Path(job.checkpoint).glob("*")):
        raise OptionError(
            "INVALID_VALUE",
            "--hand-over: the job has a checkpoint, and goes on from there",
            at=Place(job.checkpoint),
            hint="Delete it if its place is not to count any more; the replay's will take its place",
        )


def _lacking(start: GtidPoint, end: GtidPoint) -> GtidPoint:
    """GTIDs of *start* that *end* lacks; of a position whole domains: their numbers need not grow."""
    if not isinstance(start, GtidPosition) or not isinstance(end, GtidPosition):
        return start.without(end)
    return GtidPosition({domain: gtid for domain, gtid in start.last.items() if domain not in end.last})


def _other_replay(directory: str, known: ReplayRecord) -> OptionError:
    asked = (("--from", known.asked_from), ("--to", known.asked_to))
    told = " ".join(f"{name} {value}" for name, value in asked if value is not None)
    return OptionError(
        "INVALID_VALUE",
        f"a replay {told or 'without --from and --to'}{' --hand-over' if known.hand_over else ''} was begun here, and "
        "is not complete",
        at=Place(directory),
        hint="Call it with the same options to complete it; or delete this folder, and the tables that it was to build",
    )


def _job_of(request: ReplayRequest, record: ReplayRecord) -> Job:
    given = msgspec.structs.asdict(request.job.source)
    given |= {"starting_offsets": None, "starting_gtid": None, "starting_timestamp": None}
    options = {field.encode_name: field.name for field in msgspec.structs.fields(ReplaySource)}
    given |= {options[name]: value for name, value in (record.starting | record.ending).items()}
    alone = [f"{database}.{table}" for database, table in record.left_alone]
    rules = tuple(
        msgspec.structs.replace(rule, select=without_tables(rule.select, alone)) for rule in request.job.tables
    )
    return msgspec.structs.replace(
        request.target_job,
        name=f"{request.job.name}-replay",
        source=ReplaySource(**given),
        tables=rules,
        checkpoint=request.checkpoint,
        metrics=Metrics(),
    )
