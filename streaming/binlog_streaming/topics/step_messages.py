"""Messages of a step of the log: `StepMessages`; of one topic: `messages_of`; about the job: `Notifications`."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa

from binlog_connector.envelope.avro.avro_encoding import AvroEncoding
from binlog_connector.envelope.json.json_encoding import JsonEncoding
from binlog_connector.envelope.message_batch import OPS, MessageKind
from binlog_connector.envelope.messages import MessagesView
from binlog_connector.envelope.options import EnvelopeOptions
from binlog_connector.following.debezium_offset import of_group, rows_taken
from binlog_connector.given_definitions import GivenDefinitions
from binlog_connector.kafka.producer import Headers, Messages
from binlog_connector.log_definitions import DefinitionUse, RangeSchemas, SchemaFile, known_statements
from binlog_connector.options.message_view import NEW_KEY_HEADER, OLD_KEY_HEADER
from binlog_connector.options.source_options import SourceOptions
from binlog_connector.rules.revealing_statements import not_revealing
from binlog_connector.rules.row_rules import TableRules
from binlog_connector.schema.log_ddl import ServerRuns
from binlog_connector.schema.row_format import RowFormat, only_rows
from binlog_connector.schema.snapshot_marks import TOPICS, CopiedTables
from binlog_format.messages import visible_json
from binlog_format.views.filters import TableFilter
from binlog_format.views.snapshot_events import marks_in
from binlog_streaming.job_state.definition_keeper import DefinitionKeeper
from binlog_streaming.topics.outbox import OutboxMessages
from binlog_streaming.topics.record import TopicSnapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence

    from binlog_connector.envelope.avro.avro_encoding import SchemaIds
    from binlog_connector.envelope.encoding import MessageEncoding
    from binlog_connector.envelope.message_context import TableEnvelopes
    from binlog_connector.following.offsets import SourceOffset
    from binlog_connector.following.steps import Step
    from binlog_connector.kafka.topic_names import TopicNames
    from binlog_format.block import Block
    from binlog_format.kernels import Int64s
    from binlog_streaming.settings.publish_model import KafkaSink, PublishJob, TopicRule
    from binlog_streaming.topics.record import Records

    PartitionCount = Callable[[str], int]

SNAPSHOT, JOB = "Incremental Snapshot", "Job"
_TYPES = {"begin": "STARTED", "chunk": "IN_PROGRESS", "end": "TABLE_SCAN_COMPLETED", "cancel": "ABORTED"}
_MS = 1000


class NotTaken:
    """Leaves out messages that another program has published for sure: see `SourceOffset.taken`."""

    def __init__(self, start: SourceOffset) -> None:
        self._start = start
        self._has_begun = False

    def of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The messages of *batch* that are not taken; the batches of a step come in order."""
        taken = self._start.taken
        if taken is None or not len(batch):
            return batch
        position = batch.column("position")
        is_there = of_group(self._start.position, lambda name: position.field(name).to_numpy(zero_copy_only=False))
        event_nos, row_nos = (batch.column(name).to_numpy(zero_copy_only=False) for name in ("event_no", "row_no"))
        is_taken = is_there & rows_taken(taken, event_nos, row_nos)
        is_transaction = batch.column("kind")[0].as_py() == MessageKind.TRANSACTION
        if is_transaction and is_there.any() and not self._has_begun:
            is_taken[np.flatnonzero(is_there)[0]] = True  # that it begins was the first message of all about it
            self._has_begun = True
        if not is_transaction:
            # A connector stores one offset with all messages of a row (delete, tombstone, creation under another key),
            # and may have been stopped after the first of them.
            is_last = is_there & (event_nos == taken.event_no) & (row_nos == taken.row_no - 1)
            is_taken[np.flatnonzero(is_last)[1:]] = False
        return batch.filter(pa.array(~is_taken))


class KeyColumns(Mapping[str, tuple[str, ...]]):
    """Columns of keys by `database.table`, as the first rule that matches a table names them. *rules*: `[[tables]]`."""

    def __init__(self, rules: Sequence[TopicRule]) -> None:
        self._rules = [(TableFilter(rule.select), rule.keys) for rule in rules]

    def __getitem__(self, name: str) -> tuple[str, ...]:
        database, _, table = name.partition(".")
        keys = next((keys for wanted, keys in self._rules if wanted.accepts_name(database, table)), ())
        if not keys:
            raise KeyError(name)
        return keys

    def __iter__(self) -> Iterator[str]:
        return iter(())  # rules do not name tables one by one

    def __len__(self) -> int:
        return 0


class _Notification(msgspec.Struct, frozen=True):
    id: str
    aggregate_type: str
    type: str
    additional_data: dict[str, str]
    timestamp: int


@dataclass(frozen=True, slots=True)
class Notifications:
    """Makes messages about what becomes of snapshots and of the job itself, for `sink.notification_topic`.

    Their form is that of Debezium's notifications: `id`, `aggregate_type`, `type`, `additional_data` (texts by name)
    and `timestamp` (milliseconds since 1970 UTC), as JSON without a schema; the key has the `id`.

    Attributes:
        publisher: The job's `topic_prefix`.
    """

    topic: str
    publisher: str

    def of_marks(self, marks: Sequence[Mapping[str, Any]]) -> Messages:
        """Messages about snapshots whose rows the job publishes.

        Args:
            marks: Of these snapshots, in log order, as values of `MARK_TYPE`; at least one.
        """
        return self._messages([self._of_mark(mark) for mark in marks if mark["kind"] in _TYPES])

    def started(self, offset: SourceOffset) -> Messages:
        """The message that the job has started, and continues at *offset*."""
        about = {"connector_name": self.publisher, "position": str(offset.position), "gtid": str(offset.gtid)}
        return self._messages([_Notification(str(uuid.uuid4()), JOB, "STARTED", about, int(time.time() * _MS))])

    def _of_mark(self, mark: Mapping[str, Any]) -> _Notification:
        kind, table = str(mark["kind"]), f"{mark['database']}.{mark['table']}"
        about = {"connector_name": self.publisher, "data_collections": table}
        detail = msgspec.json.decode(str(mark["detail"]))
        if kind == "chunk":
            about |= {"current_collection_in_progress": table, "chunk": str(mark["chunk"])}
            about |= {"rows_scanned": str(mark["row_count"])}
        elif kind == "end":
            about |= {"scanned_collection": table, "total_rows_scanned": str(detail["rows"]), "status": "SUCCEEDED"}
        elif kind == "cancel":
            about |= {"reason": str(detail.get("reason", ""))}
        return _Notification(str(mark["snapshot"]), SNAPSHOT, _TYPES[kind], about, int(mark["commit_time"]) * _MS)

    def _messages(self, notifications: Sequence[_Notification]) -> Messages:
        keys = [visible_json(msgspec.json.encode({"id": notification.id})) for notification in notifications]
        values = [visible_json(msgspec.json.encode(notification)) for notification in notifications]
        return Messages(self.topic, pa.array(keys, pa.binary()), pa.array(values, pa.binary()))


class StepMessages:
    """Makes the messages of steps of one log.

    Args:
        registry: Where the schemas of Avro are; None: messages are JSON.
        partition_count: Tells how many partitions a topic has; called in the thread that makes the messages.

    Attributes:
        files_before: See `EnvelopeOptions`; that of the steps that come next.
    """

    def __init__(
        self, job: PublishJob, names: TopicNames, registry: SchemaIds | None, partition_count: PartitionCount
    ) -> None:
        self.files_before = 0
        self._partition_count = partition_count
        self._job = job
        self._definitions = DefinitionKeeper(job)
        source = job.source
        self._source = SourceOptions.parse({"path": source.path, **source.options()})
        self._decoding = job.decoding()
        self._schema_file = None if source.schema_file is None else SchemaFile.read(source.schema_file)
        self._tables = job.selected
        self._published = job.published
        self._outbox = None if job.outbox.table is None else OutboxMessages(job.outbox, names)
        self._names = names
        self._copied = CopiedTables(job.sink.topic_prefix)
        topic = names.notifications
        self.notifications = None if topic is None else Notifications(topic, job.sink.topic_prefix)
        self.options = options = envelope_options(job.sink, job.tables, folds_names=source.folds_names)
        self._encoding: MessageEncoding = JsonEncoding(options)
        if registry is not None:
            self._encoding = AvroEncoding(options, registry, names.of, names.heartbeat)
        self._envelopes: TableEnvelopes | None = None

    def of(self, step: Step, records: Records) -> Generator[Messages]:
        """The messages of *step*, topic by topic, block by block; may be called again.

        Args:
            records: What snapshots have brought is noted there.
        """
        source = self._source
        if step.loss is not None:
            self._definitions.forget()
        groups = replace(step.groups, ignored_domains=source.ignored_domains, ignored_servers=source.ignored_servers)
        start = step.start.position
        self._definitions.bring_to(step.watched, start)
        given = GivenDefinitions(self._schema_file, self._job.kept_definitions, source.folds_names)
        schemas = RangeSchemas(
            step.watched,
            start,
            given,
            use=DefinitionUse.of(types=bool(source.declared_types), declarations=not self.options.is_first_version),
            defined_tables=self._job.defined_tables,
        )
        marks: list[Mapping[str, Any]] = []
        blocks = self._definitions.observed(self._marked(schemas.observed(step.blocks()), records, marks))
        log, rules, folds = step.watched.log, self._decoding.rules, source.folds_names
        if source.fail_on_statement:
            row_format = RowFormat(
                self._tables,
                folds_names=folds,
                scope_before=lambda: known_statements(step.watched, given).scope_before(step.watched, start),
                schemas=schemas,
            )
            blocks = only_rows(blocks, row_format, groups, ServerRuns(log), tells_text=rules is None)
        if isinstance(rules, TableRules):
            blocks = not_revealing(blocks, rules, log, start, groups, folds_names=folds)
        self._copied.enter(step.blocks)
        decoding = replace(self._decoding, schemas=schemas)
        view = MessagesView(
            replace(self.options, files_before=self.files_before),
            tables=self._published,
            decoding=decoding,
            groups=groups,
            topic_of=self._names.of,
            encoding=self._encoding,
        )
        self._envelopes = view.envelopes = self._envelopes or view.envelopes
        view.take_copies(self._copied.source_of)
        view.rows_before = cache(partial(_tables_with_rows, step))  # it reads all of the log before the step
        not_taken = NotTaken(step.start)
        for batch in map(not_taken.of, view.batches(blocks)):
            if not len(batch):
                continue
            kind, database, table = (batch.column(name)[0].as_py() for name in ("kind", "database", "table"))
            topic = self._names.of(MessageKind(kind), database, table)
            copied = len(_messages_with(batch, "r"))
            if copied:
                records.copied[topic] += copied
            yield from messages_of(batch, topic, self._partition_count)
        if self.notifications is not None and marks:
            yield self.notifications.of_marks(marks)
        if self._outbox is not None:
            yield from self._outbox.of(schemas.observed(step.blocks()), decoding, groups, step.start)
        self._definitions.take(step.watched, (), step.end.position)  # before the offset is in Kafka

    def _marked(self, blocks: Iterable[Block], records: Records, marks: list[Mapping[str, Any]]) -> Iterator[Block]:
        """The same *blocks*; marks about snapshots for these topics are noted."""
        for block in blocks:
            for mark in marks_in(block):
                name = str(mark["database"]), str(mark["table"])
                detail = json.loads(str(mark["detail"])) if self._published.accepts_name(*name) else {}
                if detail.get(TOPICS) == self._job.sink.topic_prefix:
                    records.snapshots.append(TopicSnapshot.of(mark, detail, self._names.of_table(*name)))
                    marks.append(mark)
            yield block

    def heartbeat(self) -> Messages:
        """The message that comes when no other does."""
        key, value = self._encoding.heartbeat(time.time_ns())
        return Messages(self._names.heartbeat, pa.array([key]), pa.array([value]))


def _tables_with_rows(step: Step) -> frozenset[tuple[str, str]]:
    """Names of the tables that have rows in the log before a step."""
    from binlog_format.rows.table_events import TableMaps  # compiled code takes a moment to load

    log, maps = step.watched.log, TableMaps()
    first, end = log.start_position(), step.start.position
    blocks = log.committed_blocks(first, end) if first < end else ()
    layouts = (touched.layout for block in blocks for touched in maps.resolve(block))
    return frozenset((layout.database, layout.table) for layout in layouts)


def envelope_options(
    sink: KafkaSink, rules: Sequence[TopicRule], *, folds_names: bool | None = None
) -> EnvelopeOptions:
    """Form of a job's messages.

    Args:
        rules: `[[tables]]`.
        folds_names: Statements have the names of rows; None: that is not known.
    """
    return EnvelopeOptions(
        sink.source_name or sink.topic_prefix,
        version=sink.version,
        format=sink.envelope,
        schemas=sink.schemas_enable,
        decimal_handling=sink.decimal_handling,
        unsigned_bigint_handling=sink.unsigned_bigint_handling,
        binary_handling=sink.binary_handling,
        time_precision=sink.time_precision,
        tombstones=sink.tombstones,
        skipped_operations=sink.skipped,
        transaction_metadata=sink.transaction_metadata,
        schema_changes=sink.schema_changes,
        query=sink.query,
        folds_names=folds_names,
        key_columns=KeyColumns(rules),
    )


def messages_of(batch: pa.RecordBatch, topic: str, partition_count: PartitionCount) -> Iterator[Messages]:
    """The messages of *batch* (`MESSAGES_SCHEMA`), all of them for *topic*, in their order.

    A TRUNCATE goes to each partition: it is about rows of all of them, and has its place in the order of each.
    """
    start = 0
    for row in _messages_with(batch, "t").tolist():
        yield from _part(batch[start:row], topic)
        truncate = batch[row : row + 1]
        for partition in range(partition_count(topic)):
            yield Messages(topic, truncate.column("key"), truncate.column("value"), _headers(truncate), partition)
        start = row + 1
    yield from _part(batch[start:], topic)


def _messages_with(batch: pa.RecordBatch, op: str) -> Int64s:
    """Numbers of the messages of *batch* that have that `op`; tombstones have none."""
    numbers = batch.column("op").indices.to_numpy(zero_copy_only=False)  # NaN where there is none
    found: Int64s = np.flatnonzero(numbers == OPS.index(op))
    return found


def _part(batch: pa.RecordBatch, topic: str) -> Iterator[Messages]:
    if len(batch):
        yield Messages(topic, batch.column("key"), batch.column("value"), _headers(batch))


def _headers(batch: pa.RecordBatch) -> list[Headers] | None:
    told = [batch.column(name) for name in ("attributes", "old_key", "new_key")]
    if all(column.null_count == len(batch) for column in told):
        return None
    return [
        [
            *([] if attributes is None else _event_headers(attributes)),
            *((name, key) for name, key in ((OLD_KEY_HEADER, old), (NEW_KEY_HEADER, new)) if key is not None),
        ]
        for attributes, old, new in zip(*(column.to_pylist() for column in told), strict=True)
    ]


def _event_headers(attributes: bytes) -> Headers:
    # As CloudEvents' binding for Kafka has them in binary mode; what is not known has none.
    told: dict[str, str | int | None] = msgspec.json.decode(attributes)
    content_type = str(told.pop("datacontenttype"))
    named = [(f"ce_{name}", str(value).encode()) for name, value in told.items() if value is not None]
    return [("content-type", content_type.encode()), *named]
