"""The part of a log that a replay is about: `find_range(watched, job, start, end)`.

Options of a replay and the range found for it, kept until it is complete: `ReplayRecord`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec

from binlog_connector.following.log_end import end_of_log
from binlog_connector.following.starts import Edge, Ending, advance, ending, initial_offset
from binlog_connector.following.watched import WatchedLog
from binlog_connector.options.source_options import SourceOptions
from binlog_format.errors import BinlogError, OptionError, StartError
from binlog_format.gtids.gtid_set import GtidSet
from binlog_streaming.settings.model import START_OPTIONS

if TYPE_CHECKING:
    from binlog_connector.following.offsets import SourceOffset
    from binlog_connector.following.starts import Start
    from binlog_format.gtids.gtid_set import GtidPoint, Taken
    from binlog_format.position import Position
    from binlog_streaming.job_state.checkpoint import StateFolder
    from binlog_streaming.settings.model import Job


_OPTION_OF = {"startingGtid": "--from", "endingGtid": "--to"}


@dataclass(frozen=True, slots=True)
class ReplayRange:
    """Start and end of a replay.

    Attributes:
        stop: The first place that is not read.
        wanted: Only groups that this covers are wanted; None: all.
        first: What tables hold before it, by GTID.
        last: What they hold after it.
        passed_over: What lies before `stop` in the log, and is not wanted.
        starting: The start as options of the source.
        ending: The end as options of the source.
        is_empty: No group lies in it.
    """

    start: SourceOffset
    stop: Position
    wanted: Taken | None
    first: GtidPoint
    last: GtidPoint
    passed_over: GtidPoint
    starting: dict[str, str]
    ending: dict[str, str]
    is_empty: bool


def open_log_of(job: Job) -> WatchedLog:
    """The log of a job; the caller closes it."""
    options = _options(job)
    return WatchedLog(job.source.path, options.format, bound=options.bound)


def find_range(watched: WatchedLog, job: Job, start: GtidPoint | None, end: GtidPoint | None) -> ReplayRange:
    """See where a replay begins and ends; costs a scan of what lies between.

    Args:
        start: Begin after this; None: where the job itself would with a new checkpoint, or at the start of the log.
        end: The last groups that are wanted; None: what is there now.
    """
    begin, starting = _start(job, start)
    try:
        offset = initial_offset(watched, begin)
        last = end_of_log(watched).position
        stop = Ending(last) if end is None else ending(watched, end, offset.position)
    except BinlogError as error:
        raise _in_our_words(error) from error
    assert stop.position is not None
    if offset.position > stop.position:
        raise StartError(
            "START_AFTER_END",
            f"{watched.log.path}: the job begins at {offset.position}, after --to {end}",
            hint="Give the start with --from",
        )
    first = offset.gtid.advanced_by(offset.skip_gtid) if start is None else start
    reached, is_empty = offset, True
    if offset.position < stop.position:
        reached, _ = advance(watched, offset, end=stop.position)
        is_empty = reached.position == offset.position
    logged = reached.gtid.advanced_by(reached.skip_gtid)
    for name, point in (("--from", start), ("--to", end)):
        _check_has_no_holes(name, point, logged)
    taken = stop.taken(replace(offset, gtid=first), logged, stop.position)
    return ReplayRange(
        start=offset,
        stop=stop.position,
        wanted=stop.wanted,
        first=first,
        last=taken,
        passed_over=logged.without(taken),
        starting=starting,
        ending={"endingOffsets": json.dumps(stop.position.to_json())} if end is None else {"endingGtid": str(end)},
        is_empty=is_empty,
    )


def _start(job: Job, start: GtidPoint | None) -> tuple[Start, dict[str, str]]:
    if start is not None:
        return start, {"startingGtid": str(start)}
    options = _options(job)
    if options.start is Edge.LATEST:
        return Edge.EARLIEST, {}
    given = job.source.options()
    return options.start, {name: given[name] for name in START_OPTIONS if name in given}


def _options(job: Job) -> SourceOptions:
    return SourceOptions.parse({"path": job.source.path, **job.source_options()})


def _in_our_words(error: BinlogError) -> BinlogError:
    reason = error.reason
    for name, ours in _OPTION_OF.items():
        reason = reason.replace(name, ours)
    return type(error)(error.subclass, reason, at=error.at, hint=error.hint)


def _check_has_no_holes(name: str, point: GtidPoint | None, logged: GtidPoint) -> None:
    """A set names each transaction, so `uuid:77` is that one alone: no state that a table was ever in."""
    if not isinstance(point, GtidSet) or not isinstance(logged, GtidSet):
        return
    filled = GtidSet.of((source, (1, numbers[-1][1])) for source, numbers in point.intervals.items())
    holes = filled.without(filled.without(logged)).without(point)
    if holes:
        raise OptionError(
            "INVALID_VALUE",
            f"{name} {point}: it leaves out {holes}, which the log has before it",
            hint=f"Give the set of all up to there: {point.advanced_by(holes)}",
        )


RECORD_FILE = "binlog-stream-replay.json"
"""Record in the replay's checkpoint; Spark ignores it."""
VERSION = 1


class ReplayRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A replay that has been begun.

    Attributes:
        asked_from: `--from`; None: it was not given.
        asked_to: `--to`; None: it was not given.
        hand_over: `--hand-over`.
        query_id: Under which the replay writes.
        starting: Options of the source that set where it begins, as the source takes them.
        ending: Those that set where it ends.
        first: What tables hold that it goes on with, as GTIDs.
        last: What tables hold after it.
        tables: The tables that it is about: database and name.
        left_alone: Those of them that held all of it before.
        continued: Those of them that were where it begins.
        from_first: It goes on where the tables are, in a log that begins with its server's first transaction; None:
            it begins elsewhere.
    """

    asked_from: str | None
    asked_to: str | None
    hand_over: bool
    query_id: str
    starting: dict[str, str]
    ending: dict[str, str]
    first: str
    last: str
    tables: tuple[tuple[str, str], ...] = ()
    left_alone: tuple[tuple[str, str], ...] = ()
    continued: tuple[tuple[str, str], ...] = ()
    from_first: bool | None = None
    version: int = VERSION

    def __post_init__(self) -> None:
        """Refuse what a later version has written."""
        if self.version > VERSION:
            raise ValueError(f"version {self.version}, this program reads up to {VERSION}")

    @property
    def asked(self) -> tuple[str | None, str | None, bool]:
        """Options that the user gave."""
        return self.asked_from, self.asked_to, self.hand_over


class ReplayCheckpoint:
    """The checkpoint of a replay."""

    def __init__(self, state: StateFolder) -> None:
        self.directory = state.directory
        self._state = state

    def read(self) -> ReplayRecord | None:
        """The replay that was begun there and is not complete; None: there is none."""
        hint = "It was damaged, or written by a later version. Delete the folder it is in to begin anew"
        return self._state.decoded(RECORD_FILE, ReplayRecord, "the record of a replay", hint)

    def begin(self, record: ReplayRecord) -> None:
        """Write *record* down, and the id under which Spark will run the query."""
        self.remove()  # what is left of one whose removal was cut off
        # Spark takes the id that is there, so tables can be given to the query before it runs.
        self._state.write("metadata", json.dumps({"id": record.query_id}).encode())
        self._state.write(RECORD_FILE, msgspec.json.format(msgspec.json.encode(record), indent=2))

    def forget(self, name: str) -> None:
        """Remove a file of it, if it is there."""
        self._state.forget(name)

    def remove(self) -> None:
        """Remove all of it, the record first: the rest without it is nothing to go on with."""
        self._state.forget(RECORD_FILE)
        self._state.remove()
