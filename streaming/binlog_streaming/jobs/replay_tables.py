"""The targets that a replay meets: `ReplayTables` sorts and transfers them; `without_tables` leaves some out.

The end of a replay: the job continues where it ended, `transfer_checkpoint`, or takes tables back, `give_back`.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from binlog_connector.schema.definitions import TableName
from binlog_format.errors import OptionError, TableError
from binlog_format.gtids.gtid_set import NO_GTIDS
from binlog_format.position import Place
from binlog_format.views.filters import split_expressions
from binlog_streaming.job_state.checkpoint import read_checkpoint, state_of
from binlog_streaming.job_state.record_keeper import RecordKeeper
from binlog_streaming.jobs.replay_range import RECORD_FILE, ReplayCheckpoint
from binlog_streaming.lake.commit_id import GTID_POSITION_KEY, SET_ASIDE_PROPERTY, commit_id_of
from binlog_streaming.lake.sinks import sink_type
from binlog_streaming.plan.job_state import TableSelection
from binlog_streaming.settings.choices import OnError
from binlog_streaming.tables.open_targets import TargetState, check_ownership_can_transfer, read_target_state

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from binlog_format.gtids.gtid_set import GtidPoint
    from binlog_streaming.job_state.checkpoint import Checkpoint
    from binlog_streaming.jobs.replay_range import ReplayRecord
    from binlog_streaming.jobs.touched_tables import TouchedTables
    from binlog_streaming.lake.target import Target
    from binlog_streaming.plan.job_state import SetAside
    from binlog_streaming.settings.choices import Mode
    from binlog_streaming.settings.model import Job


_NAMED_MAX = 5
"""Tables that an error names."""


@dataclass(frozen=True, slots=True)
class ReplayTarget:
    """A target that is there."""

    name: TableName
    mode: Mode
    uri: str
    state: TargetState

    @property
    def position_text(self) -> str:
        """Position as text."""
        if self.state.gtid is None:
            return "does not record its GTID position"
        return f"is at {self.state.gtid or 'the start of the log'}"


@dataclass(frozen=True, slots=True)
class Sorted:
    """Targets by where they are, but those that the replay itself has written, before it was cut off.

    Attributes:
        at_first: Where it begins.
        at_last: Where it ends, so there is nothing to do.
        elsewhere: Neither.
    """

    at_first: tuple[ReplayTarget, ...]
    at_last: tuple[ReplayTarget, ...]
    elsewhere: tuple[ReplayTarget, ...]

    @property
    def left_alone(self) -> frozenset[TableName]:
        """Tables whose targets hold everything."""
        return frozenset(target.name for target in self.at_last)


class ReplayTables:
    """The targets of a job's tables.

    Args:
        job: The settings, with the directory that the replay writes in.
        job_checkpoint: That of the job itself; None: it has none.
    """

    def __init__(self, job: Job, names: Iterable[TableName], job_checkpoint: Checkpoint | None = None) -> None:
        self._job = job
        self._selection = TableSelection.of(job)
        self._names = sorted(names)
        self._job_checkpoint = job_checkpoint

    def there(self) -> list[ReplayTarget]:
        """Targets that exist."""
        found = []
        for name, mode, uri in self._places():
            with self._looked_at(uri) as target:
                state = read_target_state(target, str(name), mode)
            if state is not None:
                found.append(ReplayTarget(name, mode, uri, state))
        return found

    def missing(self) -> list[TableName]:
        """Tables of which no target is there."""
        there = {target.name for target in self.there()}
        return [name for name in self._names if name not in there]

    def sort(self, touched: TouchedTables, first: GtidPoint, last: GtidPoint, query_id: str | None) -> Sorted:
        """The positions of those that exist.

        Args:
            touched: Finds out which tables a part of the log touches.
            last: What tables hold where it ends.

        Raises:
            TableError: `STANDS_ELSEWHERE`: the job that keeps one was cut off within a batch; or of one table some
                targets are at the end, and others are not.
        """
        at_first, at_last, elsewhere_ = [], [], []
        for target in self.there():
            if target.state.owner == query_id:
                continue
            self._check_is_whole(target)
            if is_at(target, last, touched):
                at_last.append(target)
            elif is_at(target, first, touched):
                at_first.append(target)
            else:
                elsewhere_.append(target)
        self._check_are_together(at_last)
        return Sorted(tuple(at_first), tuple(at_last), tuple(elsewhere_))

    def check_ownership_can_transfer(self, targets: Iterable[ReplayTarget]) -> None:
        """See that a replay can go on with *targets*."""
        for replay_target in targets:
            with self._looked_at(replay_target.uri) as target:
                check_ownership_can_transfer(target, replay_target.state, f"{replay_target.name}: {replay_target.uri}")

    def transfer(self, targets: Iterable[ReplayTarget], query_id: str) -> None:
        """Make the replay the owner of *targets*."""
        for replay_target in targets:
            with self._looked_at(replay_target.uri) as target:
                target.transfer_to(query_id)

    def record_position(self, last: str, query_id: str, *, without: Collection[TableName] = ()) -> int:
        """Record in all targets of the replay that they hold *last*.

        Args:
            without: Tables that stopped before it.

        Returns:
            How many they are.
        """
        count = 0
        for replay_target in self.there():
            if replay_target.state.owner != query_id or replay_target.name in without:
                continue
            count += 1
            if last and str(replay_target.state.gtid or NO_GTIDS) != last:
                with self._looked_at(replay_target.uri) as target:
                    properties = target.properties() or {}
                    commit_id = commit_id_of(properties, query_id, str(replay_target.name), replay_target.mode)
                    target.set_properties(commit_id, recorded={GTID_POSITION_KEY: last})
        return count

    def go_on(self, query_id: str) -> None:
        """Remove the mark of being set aside from targets of a query."""
        for replay_target in self.there():
            with self._looked_at(replay_target.uri) as target:
                properties = target.properties() or {}
                if replay_target.state.owner == query_id and properties.get(SET_ASIDE_PROPERTY):
                    commit_id = commit_id_of(properties, query_id, str(replay_target.name), replay_target.mode)
                    target.set_properties(commit_id, recorded={SET_ASIDE_PROPERTY: ""})

    def _check_are_together(self, at_last: list[ReplayTarget]) -> None:
        for target in at_last:
            targets = [uri for name, _, uri in self._places() if name == target.name]
            if len(targets) > sum(other.name == target.name for other in at_last):
                raise elsewhere(
                    [target],
                    f"which is the end, but not all of {', '.join(targets)} do",
                    hint="Replay into another folder (--target), or by a job file with one mode",
                )

    def _check_is_whole(self, target: ReplayTarget) -> None:
        # A step records where its batch ends, before the batch is done.
        checkpoint, state = self._job_checkpoint, target.state
        if checkpoint is None or checkpoint.query_id != state.owner or state.batch_id is None:
            return
        if checkpoint.batch_id is None or state.batch_id > checkpoint.batch_id:
            raise elsewhere(
                [target],
                f"and its job was cut off within batch {state.batch_id}",
                hint="Let the job finish the batch first: binlog-stream run JOB.toml --once",
            )

    def _places(self) -> Iterator[tuple[TableName, Mode, str]]:
        for name in self._names:
            table = self._selection.find(name)
            if table is not None:
                for mode in table.rule.modes:
                    yield name, mode, table.uri(self._job.sink.directory, mode)

    @contextmanager
    def _looked_at(self, uri: str) -> Iterator[Target]:
        with closing(sink_type(self._job.sink.format).at(self._job.sink, uri)) as target:
            yield target


def is_at(target: ReplayTarget, point: GtidPoint, touched: TouchedTables) -> bool:
    """True if a target has the rows that it would have at *point*: no change of its table lies between."""
    reached = target.state.gtid
    if reached is None:
        return False
    if str(reached) == str(point):
        return True
    differing = touched.between(reached, point)
    return differing is not None and target.name not in differing


def elsewhere(targets: list[ReplayTarget], why: str, hint: str | None = None) -> TableError:
    """The error for targets with which a replay cannot go on."""
    told = "; ".join(f"{target.name}: {target.uri} {target.position_text}" for target in targets[:_NAMED_MAX])
    more = f"; and {len(targets) - _NAMED_MAX} more" if len(targets) > _NAMED_MAX else ""
    return TableError("STANDS_ELSEWHERE", f"{told}{more}: {why}", hint=hint)


_FLAGS = re.compile(r"(?:\(\?[aiLmsux]+\))?")


def without_tables(select: str, names: Sequence[str]) -> str:
    """Expressions that match what *select* does, but none of *names* (`database.table`)."""
    # After the expression, so that it begins as it was written; a comma would end it.
    unwanted = "".join(rf"(?<!\A{re.escape(name)})".replace(",", r"\x2c") for name in names)
    patterns = split_expressions(select) if names else []
    return ",".join(f"{_as_one(pattern)}{unwanted}" for pattern in patterns) or select


def _as_one(pattern: str) -> str:
    if "|" not in _outside_groups(pattern):
        return pattern
    match = _FLAGS.match(pattern)  # they are at the start of an expression
    assert match is not None
    return f"{match[0]}(?:{pattern[match.end() :]})"


def _outside_groups(pattern: str) -> str:
    depth, text = 0, ""
    for char in re.sub(r"\\.", "", pattern):
        depth += (char in "([") - (char in ")]")
        text += char if depth == 0 else ""
    return text


def transfer_checkpoint(
    job: Job, replay_job: Job, tables: tuple[tuple[str, str], ...], targets: Iterable[tuple[str, str, Mode]]
) -> None:
    """Make *job* continue where a replay ended: the replay's checkpoint becomes that of the job.

    Args:
        job: It has no checkpoint.
        replay_job: It has been run.
        tables: Those that it is about: database and name.
        targets: Those of them that exist: database, name, mode.
    """
    checkpoint = replay_job.checkpoint
    known = read_checkpoint(state_of(replay_job))
    assert known is not None, "a job that has run once has a checkpoint"
    assert known.offset is not None, "without one the job would begin at its start again"
    built = RecordKeeper(replay_job)
    built.changes()
    # The settings in its record are those of the replay.
    keeper = RecordKeeper(msgspec.structs.replace(job, checkpoint=checkpoint))
    keeper.inherit(built.record)
    keeper.record_batch(tables, targets)
    _move(Path(checkpoint), Path(job.checkpoint))
    ReplayCheckpoint(state_of(job)).forget(RECORD_FILE)


def _move(source: Path, to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.rename(source, to)  # noqa: PTH104 (onto an empty folder too)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        near = to.with_name(f"{to.name}.new")
        shutil.copytree(source, near, dirs_exist_ok=True)
        os.rename(near, to)  # noqa: PTH104
        shutil.rmtree(source)


def stopped_in(replay_job: Job) -> tuple[SetAside, ...]:
    """Tables that a replay has set aside, so that they are not at its end.

    Args:
        replay_job: It has been run, unless there was nothing in its part of the log.
    """
    keeper = RecordKeeper(replay_job)
    keeper.changes()
    return keeper.record.set_aside


def set_aside_by(job: Job) -> tuple[Job, GtidPoint]:
    """The job of those tables alone that *job* set aside, and up to where *job* has come."""
    keeper, checkpoint = RecordKeeper(job), read_checkpoint(state_of(job))
    keeper.changes()
    names = [stopped.name for stopped in keeper.record.set_aside]
    if checkpoint is None or checkpoint.offset is None or not names:
        raise OptionError("INVALID_VALUE", "--set-aside: the job has set no table aside", at=Place(job.checkpoint))
    if checkpoint.pending is not None:
        raise OptionError(
            "INVALID_VALUE",
            f"--set-aside: the job was cut off within batch {checkpoint.batch_id}",
            at=Place(job.checkpoint),
            hint="Let it finish the batch first: binlog-stream run JOB.toml --once",
        )
    selected = TableSelection.of(job)
    rules = ((name, selected.rule(name)) for name in names)
    tables = tuple(msgspec.structs.replace(rule, select=re.escape(str(name))) for name, rule in rules if rule)
    end = checkpoint.offset.gtid.advanced_by(checkpoint.offset.skip_gtid)
    return msgspec.structs.replace(job, tables=tables, on_error=OnError.STOP), end


def give_back(job: Job, replay_job: Job, record: ReplayRecord) -> int:
    """Return tables that a replay has brought to the position of *job* to it.

    Args:
        job: It set them aside.
        replay_job: It has been run.
        record: Of the replay; it is removed.

    Returns:
        How many targets they have.
    """
    owner = read_checkpoint(state_of(job))
    assert owner is not None, "a job that set tables aside has a checkpoint"
    tables, built = ReplayTables(replay_job, [TableName(*name) for name in record.tables]), RecordKeeper(replay_job)
    tables.record_position(record.last, record.query_id)
    tables.transfer(tables.there(), owner.query_id)
    tables.go_on(owner.query_id)
    there = [(target.name.database, target.name.table, target.mode) for target in tables.there()]
    built.changes()
    keeper = RecordKeeper(job)
    keeper.changes()
    keeper.resume_tables(built.record, there)
    ReplayCheckpoint(state_of(replay_job)).remove()
    return len(there)
