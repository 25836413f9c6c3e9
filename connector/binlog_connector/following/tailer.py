"""Follows a live log without Spark: `Tailer`, which gives what is new in steps.

Example:
    ::

        with Tailer("/var/lib/mysql", Edge.LATEST) as tailer:
            for step in tailer.steps():
                for batch in ChangesView(groups=step.groups).batches(step.blocks()):
                    take(batch)
                save(step.end)  # with the rows, in one transaction, where the target has such

A step is a run of whole transactions of bounded size, and tells beforehand where it ends: rows and offset can be
committed together. A step that was not committed is read again, from its object or by another tailer that begins at
`step.start`, and gives the same.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeAlias

from binlog_connector.following.entry_marks import damage_after, marks_after
from binlog_connector.following.log_end import end_of_log, offset_at, offset_over_damage
from binlog_connector.following.offsets import SourceOffset, skip_after
from binlog_connector.following.resume import compare
from binlog_connector.following.starts import Edge, StartMoment, initial_offset
from binlog_connector.following.steps import Step, measure
from binlog_connector.following.watch import DirectoryWatch
from binlog_connector.following.watched import WatchedLog
from binlog_format.errors import BinlogError, CorruptError, DataLossError, StartError
from binlog_format.formats.directories import open_directory
from binlog_format.formats.opening import open_live_files
from binlog_format.gtids.gtid_set import GtidPoint
from binlog_format.log.log import ServerPosition
from binlog_format.transactions.xa import pending_after

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from binlog_connector.following.decision import Decision
    from binlog_format.live_files import EndMark
    from binlog_format.log_format import Span
    from binlog_format.position import Place
    from binlog_format.source_file import Directory

logger = logging.getLogger(__name__)

STEP_SIZE_MAX = 16 << 20
"""Bytes of the log in a step, unless one transaction is larger: a moment's work, so that offsets keep up with rows."""

POLL_INTERVAL_SECONDS = 0.2
"""Seconds between looks at the end of a local log, whatever changes the operating system reports."""
REMOTE_POLL_INTERVAL_SECONDS = 5.0
"""The same for URLs, where a look costs requests."""
LOOK_INTERVAL_MIN_SECONDS = 0.01
"""Shortest time between looks, for directories in which other files are written all the time."""

GRACE_SECONDS = 30.0
"""Longest time that a last page may stay torn, or a directory without files: RESET MASTER takes some seconds."""

LOOKS_MAX = 3
"""An error may come from looking while something is being changed; what is looked at so often and stays is true."""

_COMES_BACK = frozenset({"NO_LOG_FILES", "PATH_NOT_FOUND"})


@dataclass(frozen=True, slots=True)
class FollowOptions:
    """Options for following a log.

    Attributes:
        format_name: Format that the log must have; None: whatever it is.
        step_size_max: Bytes of the log in a step; one transaction is taken whatever its size.
        fail_on_data_loss: Whether data that has gone is an error; else reading goes on after it, with a warning, and
            the step after it tells so.
        skip_damaged: Go on after entries of a structured log that cannot be read; a step tells which.
        ends: Stop at what is there at the beginning.
        poll_interval: Seconds between looks; None: by where the log is.
        grace: Seconds that a torn last page may stay so.
    """

    format_name: str | None = None
    step_size_max: int = STEP_SIZE_MAX
    fail_on_data_loss: bool = True
    skip_damaged: bool = False
    ends: bool = False
    poll_interval: float | None = None
    grace: float = GRACE_SECONDS


DEFAULT_FOLLOWING = FollowOptions()

Start: TypeAlias = Edge | SourceOffset | ServerPosition | GtidPoint | StartMoment | datetime


@dataclass(slots=True)
class _Trouble:
    """An error that may pass: since when, and how often it has been seen."""

    error: BinlogError
    since: float
    looks: int = 1


class Tailer:
    """Follows one log; a context manager. One thread uses it; `stop` may be called from others, and by signals.

    Args:
        path: Directory of the binlog files, one file, or a URL.
        start: Where to begin: an edge, a position, GTIDs that have been taken, or a time (the first transaction
            committed then or later).
        saved: Where another tailer ended; *start* does not count then.
        clock: Seconds that only go forward.

    Attributes:
        has_log_events: Whether it is a structured log, whose steps have `entries`.
        offset: After the last step that is done: one is, when the next one is asked for.
    """

    def __init__(
        self,
        path: str,
        start: Start = Edge.LATEST,
        *,
        saved: SourceOffset | None = None,
        how: FollowOptions = DEFAULT_FOLLOWING,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.path = path
        self._how = how
        folder = _folder(path)
        remote = REMOTE_POLL_INTERVAL_SECONDS if "://" in folder else POLL_INTERVAL_SECONDS
        self._poll_interval = how.poll_interval or remote
        self._clock = clock
        self._waited_at = clock()
        self._stopped = False
        self._has_looked = False  # before, the offset may be one that the log has no more
        self._has_seen_all = False  # at the last look: records that are no groups may lie before the end
        self._given: Step | None = None
        self._seen: EndMark | None = None
        self._torn: tuple[EndMark, float] | None = None
        self._trouble: _Trouble | None = None
        with WatchedLog(path, how.format_name) as watched:
            self.format_name = watched.log.format_name
            self.has_log_events = watched.log.events is not None
            self.offset = saved or _begin(watched, start)
            if saved is not None:
                self._accepted(watched, saved)  # what is wrong with it shows now, not with the first change
            self._target = _end_of(watched, how) if how.ends else None
        self._files = open_live_files(path, self.format_name)
        # From now on nothing is missed: looking and waiting follow each other, and changes in between end the wait.
        self._watch = DirectoryWatch(folder, poll_interval=self._poll_interval)

    def __enter__(self) -> Tailer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def is_ended(self) -> bool:
        """True if no further step will come: it was stopped, or has reached the end that was set."""
        target = self._target
        if target is None or not self._has_looked:
            return self._stopped
        return self._stopped or self._has_seen_all or self.offset.position >= target.position

    def stop(self) -> None:
        """End the present wait, or the next one, at once: no further step is given."""
        self._stopped = True
        self._watch.wake()

    def close(self) -> None:
        """Close all files; this does not finish the last step."""
        self._finish(None)
        self._watch.close()
        self._files.close()

    def steps(self, *, idle_seconds: float | None = None) -> Iterator[Step]:
        """Step after step, until `stop` is called, the end is reached or nothing comes for *idle_seconds*."""
        while (step := self.step(idle_seconds)) is not None:
            yield step

    def step(self, timeout: float | None = None) -> Step | None:
        """The next step; what was given before counts as done.

        Args:
            timeout: Seconds to wait for it; None: for ever.

        Returns:
            None when the time is over, or `is_ended`.
        """
        if self._given is not None:
            self._finish(self._given.end)
        deadline = None if timeout is None else self._clock() + timeout
        while not self.is_ended:
            step = self._look()
            if step is not None:
                self._given = step
                return step
            if self.is_ended or (deadline is not None and self._clock() >= deadline):
                return None
            self._wait(self._poll_interval if deadline is None else min(self._poll_interval, deadline - self._clock()))
        return None

    def _wait(self, seconds: float) -> None:
        """Wait until something may be new; not for less than `LOOK_INTERVAL_MIN_SECONDS` since the last wait."""
        looked_for = self._clock() - self._waited_at
        if looked_for < LOOK_INTERVAL_MIN_SECONDS:
            time.sleep(LOOK_INTERVAL_MIN_SECONDS - looked_for)
        self._watch.wait(seconds)
        self._waited_at = self._clock()

    def _finish(self, offset: SourceOffset | None) -> None:
        if self._given is not None:
            self._given.close()
            self._given = None
        self.offset = offset or self.offset

    def _look(self) -> Step | None:
        """One look at the log; None: nothing new."""
        # This look reads all changes that the watch has reported so far, so they must not end the wait after it.
        self._watch.forget()
        try:
            # Before reading: what is written meanwhile changes the mark of the next look.
            mark = self._files.look()
            step = None if mark == self._seen and self._trouble is None else self._read()
        except (CorruptError, DataLossError, StartError) as error:
            return self._judge(error)
        self._trouble = None
        self._has_looked = True
        if step is None:
            self._seen = mark
            self._check_torn(mark)
        return step

    def _read(self) -> Step | None:
        # Opened anew each time: a file that was replaced under its name must be seen.
        watched = WatchedLog(self.path, self.format_name)
        try:
            decision = self._accepted(watched, self.offset)
            begin, step = decision.offset, None
            while not decision.is_waiting:
                step = self._plan(watched, begin, decision)
                if step is not None or self.offset.position <= begin.position:
                    break
                begin = self.offset  # groups may follow what held none
            self._has_seen_all = step is None
        except BaseException:
            watched.log.close()
            raise
        if step is None:
            watched.log.close()
        return step

    def _accepted(self, watched: WatchedLog, offset: SourceOffset) -> Decision:
        decision = compare(watched, offset)
        if decision.loss is not None and self._how.fail_on_data_loss:
            raise decision.loss
        return decision

    def _plan(self, watched: WatchedLog, begin: SourceOffset, decision: Decision) -> Step | None:
        span = measure(watched.log, begin.position, self._how.step_size_max)
        end = self._end_of_step(watched, begin, span)
        if decision.loss is not None:
            logger.warning("going on at %s after data loss: %s", begin.position, decision.loss)
        elif decision.doubt is not None:
            logger.warning("going on at %s: %s", begin.position, decision.doubt.reason)
        elif span.groups == 0 and end.position.file_no == begin.position.file_no:
            # Records that are no groups (data of a transaction that has not ended, for example) are passed once only.
            self.offset = end
            return None
        return Step(
            watched=watched,
            start=begin,
            end=end,
            group_count=span.groups,
            size=span.size,
            last_timestamp=span.last_timestamp,
            loss=decision.loss,
            doubt=decision.doubt,
            pause=self._pause,
        )

    def _end_of_step(self, watched: WatchedLog, begin: SourceOffset, span: Span) -> SourceOffset:
        target = self._target
        # Where all groups were read and purged, the end that was set is the start of what is left, before *begin*.
        # An end that sizes tell may be within an entry: there no step ends.
        may_cut = not self._how.skip_damaged
        is_cut = target is not None and may_cut and begin.position <= target.position < span.end
        gtid = begin.gtid.advanced_by(target.gtid if target is not None and is_cut else span.gtids)
        position = target.position if target is not None and is_cut else span.end
        steps = [step for step in span.xa if step.position < position]
        skip, marks = skip_after(watched.log, begin, position, gtid), marks_after(watched, begin, position)
        reached = offset_at(watched, position, gtid=gtid, skip=skip, marks=marks)
        return replace(reached, prepared_xa=pending_after(begin.prepared_xa, steps))

    def _pause(self) -> None:
        self._watch.wait(self._poll_interval)

    def _judge(self, error: BinlogError) -> Step | None:
        """Raise *error*, unless it may pass; what is damaged and is to be skipped is a step."""
        now = self._clock()
        trouble = self._trouble
        if trouble is None or trouble.error.condition != error.condition or trouble.error.at != error.at:
            self._trouble = _Trouble(error, now)
            return None
        trouble.looks += 1
        is_over = now - trouble.since > self._how.grace if error.subclass in _COMES_BACK else trouble.looks >= LOOKS_MAX
        if not is_over:
            return None
        if not self._how.skip_damaged or not isinstance(error, CorruptError):
            raise error
        self._trouble = None
        return self._step_over(error)

    def _step_over(self, error: CorruptError) -> Step:
        """The events before the damage that comes next; where there are none, a step without events over it."""
        watched = WatchedLog(self.path, self.format_name)
        try:
            decision = self._accepted(watched, self.offset)
            if decision.loss is not None or decision.doubt is not None:
                return self._step_to(watched, decision)
            begin = decision.offset
            found = None if watched.log.events is None else damage_after(watched.log.events, begin)
            if found is None:
                raise error
            end = offset_over_damage(watched, begin, found)
            self._has_looked, self._has_seen_all = True, False
            return Step(
                watched=watched,
                start=begin,
                end=end,
                group_count=found.event_count,
                size=watched.files.byte_of(end.position) - watched.files.byte_of(begin.position),
                last_timestamp=None,
                loss=None if found.event_count else found.error,
                doubt=None,
                pause=self._pause,
            )
        except BaseException:
            watched.log.close()
            raise

    def _step_to(self, watched: WatchedLog, decision: Decision) -> Step:
        """A step without events, which tells what is missing before the place where reading goes on."""
        begin, loss, doubt = decision.offset, decision.loss, decision.doubt
        logger.warning("going on at %s: %s", begin.position, loss or doubt)
        return Step(watched, begin, begin, 0, 0, None, loss, doubt, self._pause)

    def _check_torn(self, mark: EndMark) -> None:
        """See that the last page does not stay torn for ever: nothing can be read before it has become whole."""
        if mark.torn is None:
            self._torn = None
            return
        now = self._clock()
        if self._torn is None or self._torn[0] != mark:
            self._torn = mark, now
        elif now - self._torn[1] > self._how.grace:
            raise _stays_torn(mark.torn, now - self._torn[1])


def _begin(watched: WatchedLog, start: Start) -> SourceOffset:
    if not isinstance(start, datetime):
        return initial_offset(watched, start)
    position = watched.log.position_of_time(int(start.astimezone(UTC).timestamp()))
    return initial_offset(watched, SourceOffset(position))


def _end_of(watched: WatchedLog, how: FollowOptions) -> SourceOffset:
    # Where damage is skipped, only sizes tell the end: a scan would end at the damage.
    return SourceOffset(watched.end_of_bytes()) if how.skip_damaged else end_of_log(watched)


def _folder(path: str) -> str:
    directory: Directory = open_directory(path)[0]
    return directory.path


def _stays_torn(at: Place, seconds: float) -> CorruptError:
    return CorruptError(
        "PAGE_CHECKSUM",
        f"the last page's checksum has been wrong for {seconds:.0f} s, and nobody writes to it",
        at=at,
        hint="If the server crashed, start it: recovery writes the page again. Else the disk or the copy is damaged",
    )
