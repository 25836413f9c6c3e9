"""A job goes on in the log of another server, at its GTIDs: `plan_switch(place, path)` -> `Switch`, then `apply`.

Nothing is changed by planning. Tables, topics, keys, the query's id and the numbers of batches stay: what changes is
the place where the next batch begins, by a batch in which nothing of a log is read (tables), or by a transaction of
Kafka without messages (topics).
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from binlog_connector.crash_points import reached
from binlog_connector.following.kept_definitions import KeptDefinitions
from binlog_connector.following.log_end import end_of_log
from binlog_connector.following.resume import compare, is_same_log
from binlog_connector.following.switching import Ignored, OldLog, find_switch
from binlog_connector.following.watched import WatchedLog
from binlog_connector.options.source_options import SourceOptions
from binlog_format.errors import BinlogError, OptionError, SwitchError, TableError
from binlog_format.log.log import shown_position
from binlog_format.position import Place
from binlog_format.source_file import without_archive
from binlog_streaming.job_state.checkpoint import read_checkpoint, state_of
from binlog_streaming.job_state.job_run import JobLock
from binlog_streaming.job_state.record import read_record
from binlog_streaming.job_state.switch_journal import (
    SwitchJournal,
    SwitchStep,
    complete_switch,
    read_journal,
    record_path,
    write_journal,
)
from binlog_streaming.jobs.mirror import absolute_path, any_job_at, job_text_at, write_job_text
from binlog_streaming.lake.target import NEWEST_CHECKPOINT_HINT
from binlog_streaming.settings import Job, PublishJob
from binlog_streaming.settings.lines import value_span
from binlog_streaming.settings.model import KEPT_DEFINITIONS_FILE
from binlog_streaming.settings.text import toml_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from binlog_connector.following.offsets import SourceOffset
    from binlog_connector.kafka.publisher import Publisher

LogJob = Job | PublishJob
"""Jobs that can be switched."""


@dataclass(frozen=True, slots=True)
class SwitchStart:
    """The place of a job in the log so far.

    Attributes:
        offset: Where the job goes on there.
        unfinished: Number of a batch that was begun, and ends at `offset`; None: none was.
        batch_start: Where that batch begins; None: none was begun, or it begins where the log does.
        tables: What it writes, for people.
    """

    path: str
    offset: SourceOffset
    unfinished: int | None
    batch_start: SourceOffset | None
    tables: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Switch:
    """A switch that can be made.

    Attributes:
        file: The job file, or the folder of the job.
        before: The job's place in the log so far.
        after: Its offset in the other log; as before, if it is the same log under another path.
        shown_before: The place of `before`, for people.
        shown_after: The place of `after`.
        new_text: The job file with the other path; None: it has it.
        is_same_log: The log at the other path is the one so far: only its path changes.
        is_done: Nothing is left to do.
    """

    job: LogJob
    file: str
    path: str
    before: SwitchStart
    after: SourceOffset
    shown_before: str
    shown_after: str
    new_text: str | None
    is_same_log: bool

    @property
    def is_done(self) -> bool:
        """See above."""
        return self.is_same_log and self.new_text is None and self.before.path == self.path

    def apply(self, run: Callable[[Job], object]) -> None:
        """Make it. A process that ends within it has done nothing, or the next one that starts the job completes it.

        Args:
            run: Lets a job run up to its end, for a batch that was begun.

        Raises:
            SwitchError: `JOB_CHANGED`: the job has gone on since the plan was made.
            StorageError: `IN_USE`: the job runs.
        """
        if self.before.unfinished is not None and isinstance(self.job, Job):
            from binlog_streaming.jobs.replay_run import ending_at  # a circle, without a need for it

            path = self.path if self.is_same_log else self.before.path
            run(ending_at(_reading(self.job, path), self.before.offset.position))
        if isinstance(self.job, Job):
            self._apply_to_tables(self.job)
        else:
            self._apply_to_topics(self.job)

    def _apply_to_tables(self, job: Job) -> None:
        state = state_of(job)
        with JobLock(job):
            checkpoint = read_checkpoint(state)
            if checkpoint is None or checkpoint.pending is not None or checkpoint.offset != self.before.offset:
                raise self._job_changed(None if checkpoint is None else checkpoint.offset)
            self._write_job_file()
            if self.is_same_log:
                record_path(state, self.path)
                return
            write_journal(state, self._journal())
            complete_switch(state)

    def _apply_to_topics(self, job: PublishJob) -> None:
        from binlog_streaming.topics.connecting import PublishedOffset
        from binlog_streaming.topics.record import complete_topics_switch

        with _publisher(job) as publisher:
            published = None if publisher.offset is None else PublishedOffset.parse(publisher.offset).offset
            if published != self.before.offset:
                raise self._job_changed(published)
            self._write_job_file()
            if self.is_same_log:
                record_path(state_of(job), self.path)
                return
            write_journal(state_of(job), self._journal())
            complete_topics_switch(job, publisher)

    def _write_job_file(self) -> None:
        if self.new_text is not None:
            write_job_text(self.file, self.new_text)
        reached(SwitchStep.JOB_FILE)

    def _journal(self) -> SwitchJournal:
        content = None if self.job.kept_definitions is None else state_of(self.job).read(KEPT_DEFINITIONS_FILE)
        kept = None if content is None else KeptDefinitions.parse(content, str(self.job.kept_definitions))
        return SwitchJournal(
            path=self.path,
            before=self.before.offset.to_json(),
            after=self.after.to_json(),
            definitions=None if kept is None else kept.moved(self.before.offset, self.after),
        )

    def _job_changed(self, offset: SourceOffset | None) -> SwitchError:
        now = "nowhere" if offset is None else f"at {offset.position}"
        return SwitchError(
            "JOB_CHANGED",
            f"the job was at {self.before.offset.position} when this was planned, and is {now} now",
            at=Place(self.job.checkpoint),
            hint="Stop the job, and call it again",
        )


def job_to_switch(file: str) -> LogJob:
    """The job at *file*, if it can be switched."""
    job = any_job_at(file)
    if isinstance(job, LogJob):
        return job
    raise OptionError(
        "INVALID_VALUE",
        "expected a job that reads the log of a database server: only there transactions have GTIDs",
        at=Place(file),
    )


def complete_begun(job: LogJob) -> None:
    """Complete a switch of *job* that was decided, and cut off. Raises `StorageError`: `IN_USE`: the job runs."""
    if isinstance(job, Job):
        with JobLock(job):
            pass  # whoever has it finds the switch completed
    elif read_journal(state_of(job)) is not None:
        from binlog_streaming.topics.record import complete_topics_switch

        with _publisher(job) as publisher:
            complete_topics_switch(job, publisher)


def _publisher(job: PublishJob) -> Publisher:
    """The only publisher of *job* from when it is entered on."""
    from binlog_connector.kafka.publisher import Publisher  # Kafka's client takes a moment to load
    from binlog_streaming.topics.connecting import connection_of, names_of, publishing_of

    return Publisher(connection_of(job.sink), publishing_of(job.sink, names_of(job.sink), is_first_start=False))


def plan_switch(file: str, path: str) -> Switch:
    """See whether the job at *file* can go on in the log at *path*, and where.

    Raises:
        SwitchError: It cannot: `NO_GTIDS`, `OTHER_SERVER`, `MISSING_GTIDS`, `ERRANT_TRANSACTIONS`, `PURGED`,
            `WITHIN_BATCH`.
        TableError: `CHECKPOINT_BEHIND`: the checkpoint lacks the place of the last batch.
        OptionError: `INVALID_VALUE`: the job has not begun; or the job file's path cannot be replaced.
    """
    job, path = job_to_switch(file), absolute_path(path)
    new_text = _new_text(job, file, path)
    before = _place_of(job)
    offset = before.offset
    with ExitStack() as opened:
        new_path = job.source.path if new_text is None else path
        if is_same_log(new_path, job.source.format, offset):
            with WatchedLog(new_path, job.source.format) as watched:
                shown = shown_position(watched.log, offset.position)
            return Switch(job, file, path, before, offset, shown, shown, new_text, is_same_log=True)
        old = _old_log(opened, job, before)
        has_batch = old is not None and old.log.start_position() <= old.end <= old.log.end_position()
        if before.unfinished is not None and not has_batch:
            raise SwitchError(
                "WITHIN_BATCH",
                f"the job was cut off within batch {before.unfinished}, and the log at {before.path} does not have all "
                "of it any more",
                at=Place(job.checkpoint),
                hint="Bring its files back, as far as they are needed, or name an archive of them as source.archive: "
                "the batch is completed first. Else take the tables again: a new checkpoint, an empty sink.directory, "
                "binlog-stream snapshot",
            )
        watched = opened.enter_context(WatchedLog(new_path, job.source.format))
        options = SourceOptions.parse({"path": new_path, **job.source.options()})
        ignored = Ignored(frozenset(options.ignored_domains), frozenset(options.ignored_servers))
        after = find_switch(watched, offset, ignored=ignored, old=old)
        return Switch(
            job,
            file,
            path,
            before,
            after,
            shown_before=str(offset.position) if old is None else shown_position(old.log, offset.position),
            shown_after=shown_position(watched.log, after.position),
            new_text=new_text,
            is_same_log=False,
        )


def _new_text(job: LogJob, file: str, path: str) -> str | None:
    """The job file with *path* as its `source.path`; None: it has that already."""
    if without_archive(job.source.path) == path:
        return None
    place = Place(file)
    if without_archive(job.source.path) != job.source.path:
        raise OptionError(
            "INVALID_VALUE",
            "source.archive is an archive of the log so far, and does not go with another server's log",
            at=place,
            hint=f"Set source.path to {path}, remove source.archive or name an archive of that log, and call it again",
        )
    text = job_text_at(file)
    span = value_span(text, ("source", "path"))
    if "${" in text[span]:
        raise OptionError(
            "INVALID_VALUE",
            "source.path is made from variables of the environment",
            at=place,
            hint=f"Set them so that it is {path}, here and for the job, and call it again",
        )
    return f"{text[: span.start]}{toml_text(path)}{text[span.stop :]}"


def _place_of(job: LogJob) -> SwitchStart:
    path, state = without_archive(job.source.path), state_of(job)
    tables: tuple[str, ...] = ()
    offset, unfinished, batch_start = None, None, None
    if isinstance(job, Job):
        record = read_record(state)
        if record is not None:
            path, tables = record.path, tuple(f"{database}.{table}" for database, table in record.tables)
        checkpoint = read_checkpoint(state)
        if checkpoint is not None and checkpoint.unplaced is not None:
            raise TableError(
                "CHECKPOINT_BEHIND",
                f"the checkpoint has the end of batch {checkpoint.unplaced}, and not its place in the log: a loss of "
                "power, or a copy, has left a part of it",
                at=Place(job.checkpoint),
                hint=NEWEST_CHECKPOINT_HINT,
            )
        if checkpoint is not None:
            offset = checkpoint.offset
            # A batch without changes that was cut off is no reason to run the job.
            if checkpoint.pending is not None:
                unfinished = 0 if checkpoint.batch_id is None else checkpoint.batch_id + 1
                offset, batch_start = checkpoint.pending, checkpoint.offset
    else:
        from binlog_streaming.topics.connecting import published_offset
        from binlog_streaming.topics.record import begun_with

        published = begun_with(job)
        if published is not None:
            path, offset = published.path, published_offset(job, may_be_new=False)
        if offset is not None and offset.taken is not None:
            raise SwitchError(
                "WITHIN_BATCH",
                "the rest of the transaction in which a connector of Debezium was stopped is not published yet",
                at=Place(job.checkpoint),
                hint="Publish it first: binlog-stream publish JOB.toml --once",
            )
        tables = tuple(rule.select for rule in job.tables)
    if offset is None:
        raise OptionError(
            "INVALID_VALUE",
            "the job has not read anything yet: there is no place to switch from",
            at=Place(job.checkpoint),
            hint="Set source.path in the job file",
        )
    return SwitchStart(path, offset, unfinished, batch_start, tables)


def _reading(job: Job, path: str) -> Job:
    """The same job, reading the log at *path*."""
    if without_archive(job.source.path) == path:
        return job
    return msgspec.structs.replace(job, source=msgspec.structs.replace(job.source, path=path))


def _old_log(opened: ExitStack, job: LogJob, before: SwitchStart) -> OldLog | None:
    """The log so far, if it still has what was consumed; None: it does not, or cannot be read any more."""
    path = job.source.path if without_archive(job.source.path) == before.path else before.path
    try:
        watched = opened.enter_context(WatchedLog(path, job.source.format))
        needed = (before.offset,) if before.batch_start is None else (before.batch_start, before.offset)
        is_there = all(compare(watched, offset).loss is None for offset in needed)
        is_there &= watched.has(before.offset.position.file_no)
        # A last page that a dying server has left torn has what was consumed, and cannot be read any more.
        is_there &= not before.offset.gtid.without(end_of_log(watched).gtid)
    except BinlogError:
        return None  # its machine is gone: the check goes on without it
    return OldLog(watched.log, before.offset.position) if is_there else None
