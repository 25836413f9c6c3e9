"""A job that publishes, as a commented job file: `publish_job_text(job)`; `settings.load_any_job` reads it back.

A job that writes tables of a structured log, as a commented job file: `event_job_text(job)`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_streaming.settings.model import Metrics, Status
from binlog_streaming.settings.publish_model import (
    FollowedSource,
    KafkaSink,
    Outbox,
    Oversized,
    PublishJob,
    Registry,
    Security,
    TopicRule,
)
from binlog_streaming.settings.source_models import EventLogSource, EventRule, EventTablesJob
from binlog_streaming.settings.table_settings import ROWS, Setting
from binlog_streaming.settings.text import CHECKPOINT, ERRORS_SHOW_VALUES, METRICS, SINK, SOURCE, STATUS, JobForm

if TYPE_CHECKING:
    import msgspec


PUBLISH_TOP = (
    Setting("name", "Name of the job in messages and in metrics; default: the name of this file.", '"shop"'),
    Setting(
        "checkpoint",
        "A folder. The progress of the job is in Kafka, written by the same transactions as the messages; the "
        "folder only records that the job has begun, and its settings: if the offsets in Kafka are lost, the job "
        "stops, and does not begin anew.",
    ),
    ERRORS_SHOW_VALUES,
)
_SPARKS_OWN = ("maxBytesPerTrigger", "maxFilesPerTrigger", "minPartitions", "bound", "timeType", "declaredTypes")
_DECLARED_TYPES = Setting(
    "declaredTypes",
    "UUID, INET4, INET6 and VECTOR columns of MariaDB have the types that statements in the log declare (text; true "
    "in a file that init writes), even if table maps have names; false: bytes there. It cannot be changed later.",
    "true",
)
FOLLOWED_SOURCE = (
    *(setting for setting in SOURCE if setting.name not in _SPARKS_OWN),
    _DECLARED_TYPES,
    Setting(
        "debeziumOffset",
        "Or start where a connector of Debezium was stopped: its offset, as Kafka Connect gives it (docs/debezium.md).",
        '{ "file" = "mariadb-bin.000003", "pos" = 4711, "gtids" = "0-1-575", "event" = 2, "row" = 1 }',
    ),
    Setting(
        "failOnStatement",
        "Stop before a statement that changes rows of a selected table without row events (binlog_format=MIXED or "
        "STATEMENT); false: leave these changes out.",
        "true",
    ),
)
RULES = (
    Setting("select", "Regular expressions on database.table, separated by commas, each for the whole name."),
    Setting("keys", "Columns that make the key of a message; default: the primary key, or no key.", '["id"]'),
    *ROWS,
    Setting(
        "generated",
        "Handling of generated columns that the log lacks (MariaDB leaves VIRTUAL ones out of partial row images, "
        "MariaDB 11.8 STORED ones too, also with binlog_row_image=FULL), and that are not computed (docs/ddl.md says "
        "which ones are): fail (the job stops before such a "
        "row), null (they are null there), or drop (messages have no generated columns at all).",
    ),
)
KAFKA_SINK = (
    Setting("kind", "kafka; or tables, whose settings are others: binlog-stream init LOG."),
    Setting("bootstrap_servers", "Some of the brokers: host:port,host:port."),
    Setting(
        "topic_prefix", "First part of the topics' names, and publisher's name. Only one job can publish under it."
    ),
    Setting(
        "source_name",
        "Name of the source in messages, and in keys with schemas; default: topic_prefix. With the former prefix here, "
        "keys stay in their partitions when the topics get other names.",
        '"shop"',
    ),
    Setting(
        "message_version", "1 or 2: messages as earlier versions made them (docs/upgrade.md); default: the newest.", "1"
    ),
    Setting("topic", "Topic of a table; other characters than letters, digits, dots, _ and - become _."),
    Setting("partitions", "Create missing topics, with this number of partitions; default: none is created.", "1"),
    Setting("replication", "Copies of each of these partitions; default: as the brokers are set.", "3"),
    Setting("topic_settings", "Settings of topics that are created.", '{ "min.insync.replicas" = 2 }'),
    Setting(
        "topics",
        "These three for some topics, by regular expressions for their whole names; the first that matches counts.",
        '[{ select = "shop[.]sales[.].*", partitions = 12, settings = { "retention.ms" = 604800000 } }]',
    ),
    Setting(
        "envelope",
        "Form of the value of a change: debezium (before, after, op, source, ...), flat (the row), cloudevents "
        "(debezium's as the data of a CloudEvent), or cloudevents-binary (the same, with attributes as headers).",
    ),
    Setting("format", "json; or avro, with schemas in a registry: [sink.registry]."),
    Setting("schemas_enable", "In JSON: keys and values carry their schema, as Kafka Connect's converter writes it."),
    Setting("tombstones", "A delete is followed by a message with its key and without a value."),
    Setting(
        "skipped_operations",
        "Changes that give no messages: c (create), u (update), d (delete), t (TRUNCATE); default: t.",
        '["t"]',
    ),
    Setting("query", "Changes carry the text of their statement, where the log has it (annotated rows)."),
    Setting(
        "transaction_metadata",
        "Changes contain their place in their transaction, and each transaction has a message for its begin and its "
        "end.",
    ),
    Setting("transaction_topic", "Where these go."),
    Setting("schema_changes", "Statements that change tables (CREATE, ALTER, TRUNCATE, ...) have messages."),
    Setting("schema_topic", "Where these go."),
    Setting(
        "heartbeat", "Interval of a message that is sent if there is no other: 10s, 1m, ...; default: none.", '"10s"'
    ),
    Setting("heartbeat_topic", "Where it goes."),
    Setting(
        "notification_topic",
        "Topic of messages about snapshots and starts of the job; default: there are none.",
        '"{prefix}.notifications"',
    ),
    Setting(
        "signal_table",
        "Table whose rows start and stop snapshots, as Debezium's signals do, while binlog-stream snapshot JOB.toml "
        "--server URL --follow-signals runs (docs/kafka.md); default: none.",
        '"shop.debezium_signal"',
    ),
    Setting("decimal_handling", "DECIMAL: precise (bytes, with the scale in the schema), double, or string."),
    Setting("unsigned_bigint_handling", "BIGINT UNSIGNED: long, or precise (as a decimal)."),
    Setting("binary_handling", "Binary columns: bytes (base64 in JSON), base64, base64-url-safe, or hex."),
    Setting(
        "time_precision",
        "DATE, TIME and DATETIME: adaptive_time_microseconds, connect, microseconds, nanoseconds, or isostring.",
    ),
    Setting(
        "delivery",
        "exactly-once: consumers that read with isolation.level=read_committed see each change once. at-least-once: "
        "for brokers without transactions; after a failure the last changes are sent again.",
    ),
    Setting(
        "offsets_topic",
        "Topic for the offset of each transaction, in the same transaction; compacted, created if missing.",
    ),
    Setting(
        "client", "kafka-python, confluent-kafka (binlog-stream[rdkafka]; faster), or auto: the faster one there is."
    ),
    Setting("compression", "none, gzip or zstd."),
)
OUTBOX = (
    Setting(
        "table",
        "database.table, which [[tables]] selects: a row that an application inserts there is an event for others, "
        "with its own topic, key and value; default: there is none.",
        '"shop.outbox"',
    ),
    Setting("topic", "Topic of an event; {prefix}, and {route} from the row, are filled in."),
    Setting("route", "Column that fills {route}."),
    Setting("key", "Column that is the key of the message."),
    Setting("payload", "Column that is its value, as it is; NULL gives a tombstone."),
    Setting("id", "Column that is its header id, by which consumers recognise an event."),
    Setting("headers", "More headers, and the columns that fill them.", '{ eventType = "type" }'),
)
SECURITY = (
    Setting("tls", "Encrypt connections, and verify the broker's certificate."),
    Setting("ca_file", "PEM file of certificates to trust; default: those that the system trusts.", '"ca.pem"'),
    Setting("certificate_file", "PEM file of the client's own certificate.", '"client.pem"'),
    Setting("key_file", "PEM file of its key.", '"client.key"'),
    Setting("user", "Name for SASL; default: no SASL.", '"binlog-stream"'),
    Setting("mechanism", "PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512."),
    Setting("password_variable", "Environment variable with the password.", '"KAFKA_PASSWORD"'),
    Setting("password_file", "Or a file with it.", '"/run/secrets/kafka"'),
)

REGISTRY = (
    Setting("url", 'Address of a schema registry, for format = "avro".', '"https://registry:8081"'),
    Setting("user", "Name for HTTP's basic authentication; default: none.", '"binlog-stream"'),
    Setting("password_variable", "Environment variable with the password.", '"REGISTRY_PASSWORD"'),
    Setting("password_file", "Or a file with it.", '"/run/secrets/registry"'),
    *SECURITY[1:4],
)

OVERSIZED = (
    Setting(
        "store",
        "A folder, or a URL of an object store (with its access in the environment): a value that is too large for a "
        "message becomes a file there, and the message has a claim in its place (docs/kafka.md); default: such a "
        "message ends the job.",
        '"s3://bucket/claims"',
    ),
    Setting("max_bytes", "Bytes of the largest key and value that are sent whole; less than a topic's limit."),
)


publish_job_text = JobForm(
    "published to Kafka",
    "publish",
    PUBLISH_TOP,
    FOLLOWED_SOURCE,
    RULES,
    ("select",),
    (
        ("sink", KAFKA_SINK, ("kind", "bootstrap_servers", "topic_prefix")),
        ("sink.security", SECURITY, ()),
        ("sink.registry", REGISTRY, ()),
        ("sink.oversized", OVERSIZED, ()),
        ("outbox", OUTBOX, ()),
        ("metrics", METRICS, ()),
        ("status", STATUS, ()),
    ),
).text
"""Write a job down that publishes."""
PUBLISH_SECTIONS: dict[type[msgspec.Struct], tuple[Setting, ...]] = {
    PublishJob: PUBLISH_TOP,
    FollowedSource: FOLLOWED_SOURCE,
    TopicRule: RULES,
    KafkaSink: KAFKA_SINK,
    Security: SECURITY,
    Registry: REGISTRY,
    Oversized: OVERSIZED,
    Outbox: OUTBOX,
    Metrics: METRICS,
    Status: STATUS,
}
"""All settings, as they are explained."""


EVENT_TOP = (
    Setting("name", "Name of the job in messages and in metrics; default: the name of this file.", '"app"'),
    CHECKPOINT,
    ERRORS_SHOW_VALUES,
)

EVENT_SOURCE = (
    Setting("path", "Folder of one program's log files, one file of it, a pattern (log/app.blog*), or a URL."),
    Setting("format", "structured; default: detected, but for a URL.", '"structured"'),
    Setting(
        "startingOffsets",
        "Start of a new job: earliest (the oldest file of the log), latest (the present end), or a "
        "place such as { file_no = 1710072000000000000, page = 12, chunk = 0 }. A job that has begun continues "
        "where it stopped.",
        '"latest"',
    ),
    Setting("startingTimestamp", "Or start with the first event at this time or later.", '"2026-01-31T12:00:00Z"'),
    Setting("failOnDataLoss", "Stop if log data disappeared before it was read."),
    Setting(
        "skipDamaged",
        "Leave out entries that cannot be read: each is a warning, and a row of the table of gaps; false: stop there.",
    ),
    Setting("maxBytesPerTrigger", "Bytes of the log in one batch; this bounds the memory that a batch takes."),
)
EVENT_RULES = (
    Setting(
        "arguments",
        "json: one column of text, so that events of all sources fit into one table. columns: a typed column for each "
        "argument; events of each source (a place in the program that logs) then go into a table of their own.",
    ),
    Setting(
        "target",
        "Place in the sink's directory. {category}, {severity}, {function}, {file}, {line} and {source_id} are those "
        'of the source of an event. Default: logs; with arguments = "columns": {category}/{file}_{line}.',
        '"{category}/{severity}"',
    ),
    Setting("min_severity", "The least severity: trace, debug, info, warning, error, critical.", '"warning"'),
    Setting("categories", "Regular expressions, separated by commas, each for the whole category.", '"net,db.*"'),
    Setting("source_files", "The same for the source file, with its folders.", "'.*/server\\.cpp'"),
    Setting("formats", "One regular expression for the whole format string.", "'.*failed.*'"),
    Setting("partition_by", "Partitions of new tables, as in jobs of databases.", '["category"]'),
)
event_job_text = JobForm(
    "as tables of its events",
    "run",
    EVENT_TOP,
    EVENT_SOURCE,
    EVENT_RULES,
    ("arguments",),
    (
        ("sink", tuple(setting for setting in SINK if setting.name not in ("kind", "merge")), ("directory", "format")),
        ("metrics", METRICS, ()),
    ),
    "Tables and their events. Each entry takes all events that it selects, whatever other entries take.",
).text
"""Write a job down that keeps tables of events."""
EVENT_SECTIONS: dict[type[msgspec.Struct], tuple[Setting, ...]] = {
    EventTablesJob: EVENT_TOP,
    EventLogSource: EVENT_SOURCE,
    EventRule: EVENT_RULES,
}
"""All settings, as they are explained; those of the sink and of metrics are in `text`."""
