"""Settings at the start of a publishing job, in its checkpoint: `PublishRecord`, `begun_with`.

How far it has come is in Kafka, with the messages. The record only states that the job has begun: offsets that are not
in Kafka after that are lost, and no new start.

Progress of a publishing job: `Published` reports on one transaction, `PublishProgress` sums up.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from binlog_connector.crash_points import reached
from binlog_connector.envelope.options import FIRST_MESSAGES
from binlog_connector.following.debezium_offset import DEBEZIUM_OFFSET
from binlog_connector.following.resume import is_same_log
from binlog_connector.rules.row_rule import RowRule  # noqa: TC001 - msgspec looks it up
from binlog_connector.rules.row_rules import hiding_changes, hiding_part, salt_fingerprints, without_new_names
from binlog_format.errors import OptionError, SwitchError, UnsupportedError
from binlog_format.position import Place
from binlog_format.rows.decoding import ZeroDates
from binlog_format.source_file import without_archive
from binlog_format.views.filters import as_folded
from binlog_streaming.job_state.checkpoint import OTHER_CHECKPOINT, state_of
from binlog_streaming.job_state.record import RECORD_FILE
from binlog_streaming.job_state.switch_journal import (
    JOURNAL_FILE,
    SwitchStep,
    end_switch,
    keep_moved_definitions,
    read_journal,
)
from binlog_streaming.settings.model import START_OPTIONS, source_options
from binlog_streaming.settings.publish_model import MessageFormat
from binlog_streaming.topics.connecting import PublishedOffset, names_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from binlog_connector.following.offsets import SourceOffset
    from binlog_connector.kafka.publisher import Publisher
    from binlog_format.log.log import Log
    from binlog_streaming.settings.publish_model import PublishJob

    PublishListener = Callable[["Published"], None]


_ZERO_DATES = "zeroDates"
_DECLARED_TYPES = "declaredTypes"
_CONTENT_OPTIONS = ("ignoreDomainIds", "ignoreServerIds", _ZERO_DATES, _DECLARED_TYPES)
_RECORDED_OPTIONS = (*START_OPTIONS, DEBEZIUM_OFFSET, *_CONTENT_OPTIONS)


class PublishRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a job that belong to its checkpoint.

    Attributes:
        kind: Of the job's sink.
        format: What messages are written in: a consumer reads one.
        message_version: Of messages; that of jobs which did not record it is the first one.
        options: Options of the source that set where the job began, and which transactions it takes.
        rules: `[[tables]]`, as far as it sets what is hidden; empty: nothing is.
        salts: Fingerprints of the salts of these, by the environment variables in which these are.
    """

    kind: Literal["kafka"] = "kafka"
    path: str
    topic_prefix: str
    offsets_topic: str
    format: MessageFormat = MessageFormat.JSON
    message_version: int = FIRST_MESSAGES
    options: dict[str, str]
    rules: tuple[RowRule, ...] = ()
    salts: dict[str, str] = {}

    @staticmethod
    def of(job: PublishJob) -> PublishRecord:
        """The record of *job*. Raises `OptionError`: `MISSING`: the salt of a rule is not in the environment."""
        given = source_options(job.source)
        if given.get(_ZERO_DATES) != ZeroDates.TEXT:
            given.pop(_ZERO_DATES, None)  # null and error make the same fields
        if not job.source.declared_types:
            given.pop(_DECLARED_TYPES, None)  # as of versions that did not have it
        return PublishRecord(
            path=without_archive(job.source.path),
            topic_prefix=job.sink.topic_prefix,
            offsets_topic=names_of(job.sink).offsets,
            format=job.sink.format,
            message_version=job.sink.version,
            options={name: given[name] for name in _RECORDED_OPTIONS if name in given},
            rules=tuple(map(hiding_part, job.tables)) if any(rule.hides for rule in job.tables) else (),
            salts=salt_fingerprints(job.tables),
        )


def begun_with(job: PublishJob) -> PublishRecord | None:
    """Read the record of the job's checkpoint; None: it is a new job."""
    title = "the checkpoint of a job that publishes"
    return state_of(job).decoded(RECORD_FILE, PublishRecord, title, OTHER_CHECKPOINT)


def with_message_version(job: PublishJob) -> PublishJob:
    """*job* with the version of messages that it began with, unless its file sets another."""
    record = begun_with(job)
    if record is None or job.sink.message_version is not None:
        return job
    return msgspec.structs.replace(job, sink=msgspec.structs.replace(job.sink, message_version=record.message_version))


def same_job_errors(record: PublishRecord, job: PublishJob) -> list[OptionError]:
    """Errors about settings that *job* must not have otherwise than when *record* was made, whatever its log."""
    now = PublishRecord.of(job)
    pairs = [
        ("sink.topic_prefix", record.topic_prefix, now.topic_prefix),
        ("sink.offsets_topic", record.offsets_topic, now.offsets_topic),
        ("sink.format", str(record.format), str(now.format)),
    ]
    options = [(name, record.options.get(name, ""), now.options.get(name, "")) for name in _RECORDED_OPTIONS]
    pairs += [(f"source.{name}", was, is_now) for name, was, is_now in options]
    folds = job.source.folds_names  # earlier versions recorded expressions as they were written
    are_other = (as_folded(before.select, folds) != after.select for before, after in _pairs(record, now))
    if len(record.rules) != len(now.rules) or any(are_other):
        was, is_now = (", ".join(rule.select for rule in version.rules) for version in (record, now))
        pairs.append(("tables", was, is_now))
    for number, (before, after) in enumerate(_pairs(record, now)):
        # Messages are about one change each: from now on a column may be hidden under another name, too.
        changes = hiding_changes(before, record.salts, without_new_names(before, after), now.salts)
        pairs += [(f"tables[{number}].{setting}", was, is_now) for setting, was, is_now in changes]
    return [_refused(job, setting, was, is_now, "Set it back") for setting, was, is_now in pairs if was != is_now]


def other_log_errors(record: PublishRecord, job: PublishJob, offset: SourceOffset | None) -> list[OptionError]:
    """Error that *job* names another log than its checkpoint; none: it is the same one, perhaps elsewhere.

    Args:
        offset: Up to where was published; None: that is not known.
    """
    source, path = job.source, PublishRecord.of(job).path
    if record.path == path or (offset is not None and is_same_log(source.path, source.format, offset)):
        return []
    way = (
        "The same log may be named elsewhere, where all that was published of it is there too. The log of another "
        "server of the same replication: binlog-stream switch JOB.toml --to PATH. Else set it back"
    )
    return [_refused(job, "source.path", record.path, path, way)]


def _pairs(record: PublishRecord, now: PublishRecord) -> list[tuple[RowRule, RowRule]]:
    return list(zip(record.rules, now.rules, strict=False))


def check_same(record: PublishRecord, job: PublishJob) -> None:
    """See that *job* is the one that *record* is of, whatever its log."""
    for error in same_job_errors(record, job):
        raise error


def check_log(record: PublishRecord, job: PublishJob, offset: SourceOffset | None) -> None:
    """See that the log is the one that *record* is of; see `other_log_errors`."""
    for error in other_log_errors(record, job, offset):
        raise error


def _refused(job: PublishJob, setting: str, was: str, is_now: str, way: str) -> OptionError:
    reason = f"{setting}: this checkpoint was begun with {was or 'nothing'!r}, now it is {is_now or 'nothing'!r}"
    hint = f"{way}, or begin a new job: another checkpoint and another topic_prefix"
    return OptionError("INVALID_VALUE", reason, at=Place(f"{job.checkpoint}/{RECORD_FILE}"), hint=hint)


def remember(job: PublishJob) -> None:
    """Write down that *job* has begun, and with which log."""
    state_of(job).write(RECORD_FILE, msgspec.json.encode(PublishRecord.of(job)))


def complete_topics_switch(job: PublishJob, publisher: Publisher) -> None:
    """Complete the switch of *job* to another server's log, if one has been decided.

    Args:
        publisher: Entered, so that no other one publishes.
    """
    state = state_of(job)
    journal = read_journal(state)
    if journal is None:
        return
    before, after = journal.offsets
    published = None if publisher.offset is None else PublishedOffset.parse(publisher.offset)
    newest = None if published is None else published.offset
    if published is None or newest not in (before, after):
        raise SwitchError(
            "JOB_CHANGED",
            f"a switch to {journal.path} was decided at {before.position}, and the topics have come to "
            f"{'nothing' if newest is None else newest.position} since",
            at=Place(f"{state.directory}/{JOURNAL_FILE}"),
            hint="Another process has published with another checkpoint. Delete this file, set source.path back, and "
            "switch again",
        )
    keep_moved_definitions(state, journal)
    if newest == before:
        publisher.publish(lambda: (), published.followed_by(after).text())
        reached(SwitchStep.COMMIT)
    end_switch(state, journal)


def require_changes(log: Log) -> None:
    """See that *log* has what is published: changes of tables."""
    if not log.traits.has_changes:
        raise UnsupportedError(
            "FORMAT",
            f"this is a {log.format_name} log: it has events of a program, and changes of tables are published alone",
            at=Place(log.path),
            hint="Keep its events in tables (binlog-stream init --for tables, then run), or send them to Kafka with "
            'Spark: docs/structured-tables.md, "Into Kafka"',
        )


class TopicSnapshot(NamedTuple):
    """A mark about a snapshot whose rows a topic gets.

    Attributes:
        kind: `begin`, `chunk`, `end` or `cancel`.
        chunks: How many chunks it has so far; None: the mark does not tell.
        reason: Why it was cancelled; None: it was not.
    """

    topic: str
    kind: str
    chunks: int | None
    gtid: str | None
    reason: str | None

    @classmethod
    def of(cls, mark: Mapping[str, Any], detail: Mapping[str, Any], topic: str) -> TopicSnapshot:
        """Make it of a mark, as a value of `MARK_TYPE`, and the contents of its detail."""
        chunks = mark["chunk"] + 1 if mark["kind"] == "chunk" else detail.get("chunks")
        return cls(topic, str(mark["kind"]), chunks, mark["gtid"], detail.get("reason"))


@dataclass(slots=True)
class Records:
    """Messages of one transaction, by topic.

    Attributes:
        copied: How many of the messages are about rows that a snapshot has copied.
        snapshots: Marks about such snapshots, in order.
        sizes: Bytes of keys and values.
        made_at: When all had been made, by the monotonic clock; 0: not yet.
    """

    counts: Counter[str] = field(default_factory=Counter)
    copied: Counter[str] = field(default_factory=Counter)
    snapshots: list[TopicSnapshot] = field(default_factory=list)
    sizes: Counter[str] = field(default_factory=Counter)
    made_at: float = 0.0


@dataclass(frozen=True, slots=True)
class Published:
    """One transaction of Kafka that consumers see.

    Attributes:
        offset: After its event groups.
        size: Bytes of the log that the groups take.
        last_timestamp: Of the last group, seconds since 1970 UTC; None: there is none.
        read_seconds: Of `seconds`, until its messages had been made and passed on.
        attempts: How often it was begun; all but the last time it was not committed.
    """

    offset: SourceOffset
    groups: int
    size: int
    last_timestamp: int | None
    records: Records
    seconds: float
    attempts: int
    read_seconds: float = 0.0


@dataclass(slots=True)
class PublishProgress:
    """Messages that a process has published. *transactions*: transactions of Kafka."""

    transactions: int = 0
    groups: int = 0
    records: int = 0

    def add(self, published: Published) -> None:
        """One more transaction."""
        self.transactions += 1
        self.groups += published.groups
        self.records += published.records.counts.total()
