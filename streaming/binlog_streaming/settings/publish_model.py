"""Settings of a job whose sink is Kafka: `PublishJob` and its sections; `model.Job` has tables as its sink."""

from __future__ import annotations

import re
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from binlog_connector.envelope.options import (
    CURRENT_MESSAGES,
    FIRST_MESSAGES,
    BinaryHandling,
    DecimalHandling,
    EnvelopeFormat,
    MessageOperation,
    TimePrecision,
    UnsignedBigintHandling,
)
from binlog_connector.kafka.producer import Delivery
from binlog_connector.rules.row_rule import RowRule
from binlog_connector.rules.row_rules import bound_rule, defined_tables, table_rules
from binlog_format.views.filters import TableFilter
from binlog_streaming.settings.choices import parse_milliseconds
from binlog_streaming.settings.model import JobLogSource, JobSettings, Section, Status, source_options

if TYPE_CHECKING:
    from collections.abc import Iterable

    from binlog_format.rows.decoding import Decoding


OFFSETS_TOPIC = "__binlog-stream-offsets.{prefix}"
"""Topic of the offsets in new job files: consumers that select topics by the prefix do not get it."""


class Client(StrEnum):
    """The package that talks to Kafka."""

    AUTO = "auto"
    """confluent-kafka where it is installed."""
    KAFKA_PYTHON = "kafka-python"
    CONFLUENT_KAFKA = "confluent-kafka"


class Compression(StrEnum):
    """Compression of record batches."""

    NONE = "none"
    GZIP = "gzip"
    ZSTD = "zstd"


class MessageFormat(StrEnum):
    """Format of keys and values."""

    JSON = "json"
    AVRO = "avro"
    """Each with the id of its schema, which is in a registry."""


class SaslMechanism(StrEnum):
    """Authentication of a user."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"


class FollowedSource(JobLogSource, frozen=True, rename="camel"):
    """`[source]` of a job that follows the log in its own process."""

    fail_on_statement: bool | None = None
    declared_types: bool | None = None
    debezium_offset: dict[str, Any] | None = None

    def options(self) -> dict[str, str]:
        """See `JobLogSource`."""
        return source_options(msgspec.structs.replace(self, debezium_offset=None))


class TopicRule(RowRule, frozen=True, kw_only=True):
    """`[[tables]]`: which tables are published; the first rule that matches a table counts."""

    keys: tuple[str, ...] = ()


class Security(Section, frozen=True):
    """`[sink.security]`: how brokers are trusted, and who we are for them."""

    PATHS = frozenset({"ca_file", "certificate_file", "key_file", "password_file"})

    tls: bool = False
    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    user: str | None = None
    mechanism: SaslMechanism = SaslMechanism.PLAIN
    password_variable: str | None = None
    password_file: str | None = None


class Registry(Section, frozen=True):
    """`[sink.registry]`: where schemas are registered, and who we are for it; `url` may be several, with commas."""

    PATHS = frozenset({"ca_file", "certificate_file", "key_file", "password_file"})

    url: str | None = None
    user: str | None = None
    password_variable: str | None = None
    password_file: str | None = None
    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None


class Oversized(Section, frozen=True):
    """`[sink.oversized]`: files for values that are too large for a message."""

    PATHS = frozenset({"store"})

    store: str | None = None
    max_bytes: int = 1_000_000


class TopicShape(Section, frozen=True, kw_only=True):
    """`[[sink.topics]]`: how some of the topics that the job creates are made; the first that matches a topic counts.

    Attributes:
        select: Regular expression for the whole name of a topic.
        partitions: Their number; None: as `sink.partitions`.
        replication: Copies of each; None: as `sink.replication`.
        settings: Their settings, under Kafka's names, beside `sink.topic_settings`.
    """

    select: str
    partitions: int | None = None
    replication: int | None = None
    settings: dict[str, str | int] = msgspec.field(default_factory=dict)


class KafkaSink(Section, frozen=True):
    """`[sink]`: the brokers, the topics, and what messages look like."""

    kind: Literal["kafka"]
    bootstrap_servers: str
    topic_prefix: str
    source_name: str | None = None
    message_version: int | None = None
    topic: str = "{prefix}.{database}.{table}"
    partitions: int | None = None
    replication: int | None = None
    topic_settings: dict[str, str | int] = msgspec.field(default_factory=dict)
    topics: tuple[TopicShape, ...] = ()
    envelope: EnvelopeFormat = EnvelopeFormat.DEBEZIUM
    format: MessageFormat = MessageFormat.JSON
    schemas_enable: bool = False
    tombstones: bool = True
    skipped_operations: tuple[MessageOperation, ...] | None = None
    query: bool = False
    transaction_metadata: bool = False
    transaction_topic: str = "{prefix}.transaction"
    schema_changes: bool = False
    schema_topic: str = "{prefix}"
    heartbeat: str | None = None
    heartbeat_topic: str = "__debezium-heartbeat.{prefix}"
    notification_topic: str | None = None
    signal_table: str | None = None
    decimal_handling: DecimalHandling = DecimalHandling.PRECISE
    unsigned_bigint_handling: UnsignedBigintHandling = UnsignedBigintHandling.LONG
    binary_handling: BinaryHandling = BinaryHandling.BYTES
    time_precision: TimePrecision = TimePrecision.ADAPTIVE_TIME_MICROSECONDS
    delivery: Delivery = Delivery.EXACTLY_ONCE
    offsets_topic: str = "{prefix}.offsets"
    client: Client = Client.AUTO
    compression: Compression = Compression.NONE
    security: Security = Security()
    registry: Registry = Registry()
    oversized: Oversized = Oversized()

    @property
    def version(self) -> int:
        """`message_version`, of a new job where it is not set."""
        return self.message_version or CURRENT_MESSAGES

    @property
    def skipped(self) -> frozenset[MessageOperation]:
        """`skipped_operations`, with their default."""
        if self.skipped_operations is not None:
            return frozenset(self.skipped_operations)
        return frozenset() if self.version == FIRST_MESSAGES else frozenset([MessageOperation.TRUNCATE])

    @property
    def heartbeat_seconds(self) -> float | None:
        """`heartbeat` in seconds."""
        return None if self.heartbeat is None else parse_milliseconds(self.heartbeat) / 1000

    def shape_of(self, topic: str) -> TopicShape | None:
        """The shape in which the job creates *topic*; None: it does not."""
        found = next((shape for shape in self.topics if re.fullmatch(shape.select, topic)), TopicShape(select=".*"))
        partitions = self.partitions if found.partitions is None else found.partitions
        if partitions is None:
            return None
        replication = self.replication if found.replication is None else found.replication
        settings = {**self.topic_settings, **found.settings}
        return TopicShape(select=found.select, partitions=partitions, replication=replication, settings=settings)


class Outbox(Section, frozen=True):
    """`[outbox]`: a table whose inserted rows are events for others, as of Debezium's Outbox Event Router."""

    table: str | None = None
    topic: str = "outbox.event.{route}"
    route: str = "aggregatetype"
    key: str = "aggregateid"
    payload: str = "payload"
    id: str = "id"
    headers: dict[str, str] = msgspec.field(default_factory=dict)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that a row must have."""
        return tuple(dict.fromkeys((self.route, self.key, self.payload, self.id, *self.headers.values())))

    def problems(self, names: Iterable[str]) -> list[str]:
        """Reasons why rows with columns of these *names* cannot be events; none: they can."""
        known = {*names}
        lacking = [name for name in self.columns if name not in known]
        return [f"{self.table}: it has no column {', '.join(lacking)} for its events"] if lacking else []

    @property
    def expression(self) -> str:
        """Regular expression for the table alone; empty: there is none."""
        return "" if self.table is None else re.escape(self.table).replace(",", r"\x2c")


class PublishJob(JobSettings, frozen=True):
    """A job file whose sink is Kafka."""

    source: FollowedSource
    sink: KafkaSink
    tables: tuple[TopicRule, ...] = (TopicRule(),)
    outbox: Outbox = Outbox()
    status: Status = Status()

    @property
    def selected(self) -> TableFilter:
        """Tables that `[[tables]]` selects."""
        return TableFilter(",".join(rule.select for rule in self.tables), self.source.exclude_tables)

    @property
    def published(self) -> TableFilter:
        """Those of them whose changes are published as such: all but the outbox."""
        excluded = (self.source.exclude_tables, self.outbox.expression)
        return TableFilter(",".join(rule.select for rule in self.tables), ",".join(filter(None, excluded)) or None)

    @property
    def defined_tables(self) -> str | None:
        """Tables of which more has to be known than table maps have: expressions; None: there are none."""
        return defined_tables(self.tables)

    def decoding(self) -> Decoding:
        """Options for decoding and hiding rows; schemas are completed where the log is read."""
        bound = (bound_rule(rule, keys=rule.keys, needs_key=True) for rule in self.tables)
        return replace(self.source.decoding(), rules=table_rules(bound, self.source.exclude_tables))
