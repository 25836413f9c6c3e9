"""Report on a publishing job without running it: `check_publish_job(job)` -> `PublishReport`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from binlog_connector.envelope.avro.avro_encoding import table_schemas
from binlog_connector.envelope.avro.avro_schema import avro_schema
from binlog_connector.envelope.message_context import TableEnvelope
from binlog_connector.envelope.options import MessageOperation
from binlog_connector.following.starts import initial_offset
from binlog_connector.following.watched import WatchedLog
from binlog_connector.installing import require
from binlog_connector.kafka.connection import broker_error
from binlog_connector.kafka.topics import Topics
from binlog_connector.options.source_options import SourceOptions
from binlog_connector.rules.revealing_statements import not_revealing
from binlog_connector.rules.row_rules import TableRules, WantedDefinitions
from binlog_connector.schema.history import SchemaHistory
from binlog_format.errors import BinlogError, BrokerError, OptionError, RegistryError, SchemaError
from binlog_format.messages import told_options
from binlog_format.rows.decoding import TimeType
from binlog_format.views.filters import ALL_GROUPS, TableFilter
from binlog_streaming.job_state.checkpoint import place_errors
from binlog_streaming.jobs.check import LogReport, log_report, resumed, size_behind
from binlog_streaming.jobs.log_tables import SCAN_SIZE, find_tables
from binlog_streaming.jobs.tables import told
from binlog_streaming.settings.names import as_job_setting
from binlog_streaming.settings.publish_model import Client
from binlog_streaming.status.wording import names_text
from binlog_streaming.topics.connecting import connection_of, names_of, published_offset, registry_of
from binlog_streaming.topics.oversized import OversizedValues
from binlog_streaming.topics.record import begun_with, other_log_errors, same_job_errors, with_message_version
from binlog_streaming.topics.step_messages import envelope_options
from binlog_streaming.topics.take_over import new_start

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from binlog_connector.following.offsets import SourceOffset
    from binlog_connector.kafka.connection import Connection
    from binlog_connector.kafka.topic_names import TopicNames
    from binlog_format.events.table_map import TableLayout
    from binlog_format.position import Position
    from binlog_format.rows.decoding import Decoding
    from binlog_streaming.jobs.log_tables import FoundTable, OnProgress
    from binlog_streaming.settings.publish_model import PublishJob, TopicShape

_MESSAGE_HEAD_SIZE = 4096
"""Bytes of a record batch beside key and value of its one message: heads, and headers with keys."""


@dataclass(frozen=True, slots=True)
class PublishStart:
    """Start of the job.

    Attributes:
        is_new: Nothing was published yet: `starting...` options count.
        position: Where it would begin.
        gtid: What has been published up to there.
        size_behind: Bytes of the log after that place.
    """

    is_new: bool
    position: str
    gtid: str
    size_behind: int


@dataclass(frozen=True, slots=True)
class TopicReport:
    """A topic that the job would write to.

    Attributes:
        table: Whose changes go there; None: it is for messages of another kind.
        keys: Columns that make the key of a message.
        partitions: How many it has; None: it is not there.
        changes: Of the table, in the part of the log that was looked at.
        problems: Why the job could not go on with it.
    """

    topic: str
    table: str | None
    keys: tuple[str, ...]
    partitions: int | None
    changes: int
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PublishReport:
    """Report on a job without running it.

    Attributes:
        registry: Address of the registry of schemas; None: the job needs none.
        left_out: Names of tables that no rule selects.
        scan_size: Bytes of the log that were looked at for tables.
        changed: What the job file sets otherwise than when the job began, and must not.
        statements: Statements, and lost events, that would stop the job.
        outbox: Why the events of its outbox could not be published.
    """

    log: LogReport
    start: PublishStart
    topics: tuple[TopicReport, ...]
    registry: str | None
    left_out: tuple[str, ...]
    scan_size: int
    warnings: tuple[str, ...]
    changed: tuple[str, ...]
    statements: tuple[str, ...]
    outbox: tuple[str, ...]
    places: tuple[str, ...] = ()

    @property
    def problems(self) -> tuple[str, ...]:
        """Reasons why the job could not run; none: it can."""
        of_topics = (problem for topic in self.topics for problem in topic.problems)
        return (*self.places, *self.changed, *of_topics, *self.statements, *self.outbox)


def check_publish_job(
    job: PublishJob, *, scan_size: int = SCAN_SIZE, on_progress: OnProgress | None = None
) -> PublishReport:
    """See what *job* would do; nothing is written, in Kafka neither.

    Args:
        scan_size: Bytes of the log, from its end, that are looked at for tables.
        on_progress: Called with the bytes looked at and the bytes there are.
    """
    if job.sink.client is Client.CONFLUENT_KAFKA:
        require("confluent_kafka")
    job = with_message_version(job)
    names, connection = names_of(job.sink), connection_of(job.sink)
    registry = RegistryCheck(job)
    record = begun_with(job)
    changed = [] if record is None else same_job_errors(record, job)
    is_other = record is None or bool(changed)
    offset = published_offset(job, may_be_new=is_other)
    changed += [] if record is None else other_log_errors(record, job, offset)
    source = job.source
    options = SourceOptions.parse({"path": source.path, **source.options()})
    with WatchedLog(source.path, options.format) as watched:
        log = log_report(watched)
        begin, warnings = _begin(job, watched, options, offset)
        start = PublishStart(offset is None, str(begin.position), str(begin.gtid), size_behind(watched, begin))
        revealing = _revealing(job, watched, begin.position) if start.size_behind <= scan_size else []
    found = find_tables(
        source.path,
        options.format,
        schemas=SchemaHistory.from_schema_file(options.schema_file, folds_names=options.folds_names),
        wanted=WantedDefinitions(job.defined_tables, options.full_source_images),
        scan_size=scan_size,
        on_progress=on_progress,
        tally_from=begin.position,
    )
    selected, published = job.selected, job.published
    tables = [table for table in found.tables if published.accepts(table.layout)]
    if not tables:
        warnings.append("no table that [[tables]] selects has row changes there")
    older = [table.name for table in tables if table.begun_at is None]
    if older and offset is None:
        warnings.append(
            f"no CREATE TABLE or TRUNCATE there is about {names_text(older)}: rows that are older come into topics "
            "with binlog-stream snapshot JOB.toml --server URL"
        )
    lacking = [
        told_options(str(count.first.error(tells_text=not any(rule.hides for rule in job.tables))), as_job_setting)
        for (name, _), count in found.tally.counts.items()
        if name is None or selected.accepts_name(*name)
    ]
    if not options.fail_on_statement:
        warnings += lacking
    return PublishReport(
        log=log,
        start=start,
        topics=tuple(_topics(job, names, connection, registry, tables)),
        registry=registry.url,
        left_out=tuple(table.name for table in found.tables if not selected.accepts(table.layout)),
        scan_size=found.size,
        warnings=tuple(warnings),
        changed=tuple(map(str, changed)),
        statements=(*(lacking if options.fail_on_statement else ()), *revealing),
        outbox=tuple(_lacking_of_outbox(job, found.tables)),
        places=(*map(str, place_errors(job).values()), *_claims_problems(job)),
    )


def _revealing(job: PublishJob, watched: WatchedLog, start: Position) -> list[str]:
    """The first statement from *start* on after which hidden values would be shown, if there is one."""
    rules, log = job.decoding().rules, watched.log
    if not isinstance(rules, TableRules):
        return []
    blocks = log.committed_blocks(start)
    try:
        for _ in not_revealing(blocks, rules, log, start, ALL_GROUPS, folds_names=job.source.folds_names):
            pass
    except SchemaError as error:
        return [str(error)]
    return []


def _claims_problems(job: PublishJob) -> Iterator[str]:
    oversized = OversizedValues.of(job.sink)
    try:
        if oversized is not None:
            oversized.reach()
    except BinlogError as error:
        yield f"sink.oversized.store: {error}"


def _lacking_of_outbox(job: PublishJob, tables: Iterable[FoundTable]) -> Iterator[str]:
    decoding = job.decoding()
    for table in tables:
        if table.name == job.outbox.table:
            layout, problems = _shown(table, decoding)
            yield from problems or job.outbox.problems(column.name or "" for column in layout.columns)


def _begin(
    job: PublishJob, watched: WatchedLog, options: SourceOptions, offset: SourceOffset | None
) -> tuple[SourceOffset, list[str]]:
    if offset is None:
        return new_start(job, watched) or initial_offset(watched, options.start), []
    return resumed(watched, options, offset)


def _topics(
    job: PublishJob, names: TopicNames, connection: Connection, registry: RegistryCheck, tables: list[FoundTable]
) -> Iterator[TopicReport]:
    rules, decoding = [(TableFilter(rule.select), rule) for rule in job.tables], job.decoding()
    with Topics(connection) as topics:
        for table in tables:
            rule = next(rule for wanted, rule in rules if wanted.accepts(table.layout))
            layout, problems = _shown(table, decoding)
            problems += [] if problems else registry.problems_of_rows(layout)
            try:
                topic = names.of_table(table.layout.database, table.layout.table)
            except OptionError as error:
                yield TopicReport("", table.name, (), None, table.changes, (*problems, told(table.name, error)))
                continue
            keys = rule.keys or tuple(str(layout.columns[index].name) for index in layout.primary_key)
            report = _topic(job, topics, topic, is_keyed=bool(keys))
            if not problems:
                problems += registry.problems(layout, topic)
            yield TopicReport(topic, table.name, keys, report.partitions, table.changes, (*problems, *report.problems))
        sink = job.sink
        wanted = (
            (sink.transaction_metadata, names.transactions),
            (sink.schema_changes, names.schema_changes),
            (sink.heartbeat is not None, names.heartbeat),
            (names.notifications is not None, names.notifications),
        )
        for is_wanted, own in wanted:
            if is_wanted and own is not None:
                yield _topic(job, topics, own)


def _topic(job: PublishJob, topics: Topics, topic: str, *, is_keyed: bool = True) -> TopicReport:
    partitions, problems = None, []
    try:
        partitions = topics.partition_count(topic)
    except BrokerError as error:
        problems.append(str(error))
    else:
        shape = job.sink.shape_of(topic)
        if partitions is None and shape is None:
            missing = broker_error("TOPIC_NOT_FOUND", "there is no such topic", at=f"topic {topic}")
            problems.append(f"{missing}, or let the job create it (sink.partitions = 1)")
        else:
            settings = _settings(topics, topic, None if partitions is not None else shape)
            if "compact" in settings.get("cleanup.policy", ""):  # it takes no messages without a key
                problems += _without_key(job, topic, is_keyed=is_keyed)
            problems += _too_small(job, topic, settings)
    return TopicReport(topic, None, (), partitions, 0, tuple(problems))


def _settings(topics: Topics, topic: str, shape: TopicShape | None) -> dict[str, str]:
    """Settings of a topic, or of the one that the job would create; none where the job may not see them."""
    if shape is not None:
        return {name: str(value) for name, value in shape.settings.items()}
    try:
        return topics.settings(topic)
    except BrokerError as error:
        if error.subclass != "DENIED":  # the job needs no right to see them
            raise
        return {}


def _too_small(job: PublishJob, topic: str, settings: dict[str, str]) -> Iterator[str]:
    oversized, limit = job.sink.oversized, settings.get("max.message.bytes")
    if oversized.store is not None and limit is not None and int(limit) < oversized.max_bytes + _MESSAGE_HEAD_SIZE:
        yield (
            f"{topic}: its max.message.bytes is {limit}, too few for the {oversized.max_bytes} bytes of "
            f"sink.oversized.max_bytes: set this to {max(int(limit) - _MESSAGE_HEAD_SIZE, 0)} or less"
        )


def _without_key(job: PublishJob, topic: str, *, is_keyed: bool) -> Iterator[str]:
    compacted = f"{topic}: cleanup.policy has compact, and such a topic takes no message without a key"
    if not is_keyed:
        yield f"{compacted}: name columns for it (keys = [...] in [[tables]]), or give the topic another policy"
    elif MessageOperation.TRUNCATE not in job.sink.skipped:
        yield f'{compacted}, as that of a TRUNCATE: leave these out (skipped_operations = ["t"])'


def _shown(table: FoundTable, decoding: Decoding) -> tuple[TableLayout, list[str]]:
    # The table as its rule shows it, and why its rows cannot be published.
    try:
        if table.problem is not None:
            raise table.problem
        return decoding.shown(table.layout), []
    except BinlogError as error:
        return table.layout, [told(table.name, error)]


class RegistryCheck:
    """Asks the registry of a job, if it has one. *url*: of the registry; None: the job needs none."""

    def __init__(self, job: PublishJob) -> None:
        self._registry = registry_of(job.sink)
        self._options = envelope_options(job.sink, job.tables)
        self._decoding = replace(job.source.decoding(), time_type=TimeType.MICROS)
        self.url = None if self._registry is None else job.sink.registry.url
        if self._registry is not None:
            self._registry.reach()

    def problems_of_rows(self, layout: TableLayout) -> Iterator[str]:
        """Reasons why the rows of a table could be no messages."""
        try:
            TableEnvelope.of(layout, self._options, self._decoding)
        except BinlogError as error:
            yield told(layout.full_name, error)

    def problems(self, layout: TableLayout, topic: str) -> Iterator[str]:
        """Reasons why the schemas of a table could not be registered under the subjects of *topic*."""
        if self._registry is None:
            return
        try:
            schemas = table_schemas(TableEnvelope.of(layout, self._options, self._decoding), self._options)
            for part, schema in schemas.items():
                refusal = self._registry.refusal(f"{topic}-{part}", avro_schema(schema))
                if refusal is not None:
                    yield refusal
        except RegistryError as error:
            yield str(error)
        except BinlogError as error:
            yield told(layout.full_name, error)
