"""Debezium's names of settings in the section `[sink]`: `with_own_names`, `hint_for`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from binlog_streaming.settings.lines import KeyPath

OWN_NAMES: Mapping[str, str] = {
    "bigint.unsigned.handling.mode": "unsigned_bigint_handling",
    "binary.handling.mode": "binary_handling",
    "bootstrap.servers": "bootstrap_servers",
    "decimal.handling.mode": "decimal_handling",
    "heartbeat.interval.ms": "heartbeat",
    "include.query": "query",
    "include.schema.changes": "schema_changes",
    "provide.transaction.metadata": "transaction_metadata",
    "signal.data.collection": "signal_table",
    "skipped.operations": "skipped_operations",
    "time.precision.mode": "time_precision",
    "tombstones.on.delete": "tombstones",
    "topic.prefix": "topic_prefix",
}
"""Settings that mean the same."""

_FLAG_SETTINGS = frozenset({"query", "schema_changes", "transaction_metadata", "tombstones"})
_TABLES = 'Name tables in [[tables]]: select = "database\\\\.table, ..."; the expressions are the same'
_FILES = "The log is read from its files, not through the server: [source] path"
_TOPICS = "Topics are created with partitions, replication and topic_settings of [sink]"
_CONVERTER = 'format = "json" or "avro" is for keys and values'
_REGISTRY = "[sink.registry] url is for keys and values"
_ADJUSTED = "In Avro names are always adjusted, in JSON never"
_NO_SOURCE_TYPES = "Schemas have no types of the server's columns"
_TRANSFORMS = (
    'The Outbox Event Router is [outbox]; rows in place of envelopes are envelope = "flat", several tables in a topic '
    'are topic = "..."; rules for rows and columns are in [[tables]]'
)
_HINTS: Mapping[str, str] = {
    "message.key.columns": 'Name them for each table: [[tables]] select = "...", keys = ["..."]',
    "table.include.list": _TABLES,
    "database.include.list": _TABLES,
    "table.exclude.list": 'Name them in [source]: excludeTables = "database\\\\.table, ..."',
    "database.exclude.list": 'Name them in [source]: excludeTables = "database\\\\..*"',
    "gtid.source.includes": "Leave out servers with [source] ignoreServerIds, domains with ignoreDomainIds",
    "gtid.source.excludes": "Leave out servers with [source] ignoreServerIds, domains with ignoreDomainIds",
    "snapshot.mode": "binlog-stream snapshot JOB.toml --server URL brings existing rows, at any time",
    "event.processing.failure.handling.mode": "What cannot be read ends the job, with a named error",
    "exactly.once.source.support": 'delivery = "exactly-once" is the default',
    "topic.naming.strategy": 'Topics are named by topic = "{prefix}.{database}.{table}"',
    "skip.messages.without.change": "Each change of a row is a message",
    "topic.delimiter": 'Write it into the names: topic = "{prefix}.{database}.{table}"',
    "topic.transaction": 'transaction_topic = "{prefix}.transaction"',
    "topic.heartbeat.prefix": 'heartbeat_topic = "__debezium-heartbeat.{prefix}"',
    "value.converter.schemas.enable": "schemas_enable is for keys and values",
    "key.converter.schemas.enable": "schemas_enable is for keys and values",
    "key.converter": _CONVERTER,
    "value.converter": f'{_CONVERTER}; envelope = "cloudevents" is what CloudEventsConverter makes',
    "key.converter.schema.registry.url": _REGISTRY,
    "value.converter.schema.registry.url": _REGISTRY,
    "schema.name.adjustment.mode": _ADJUSTED,
    "field.name.adjustment.mode": _ADJUSTED,
    "offset.storage.topic": "offsets_topic: the offset is part of each transaction",
    "column.include.list": 'Name them for each table: [[tables]] select = "...", columns = ["..."]',
    "column.exclude.list": 'Name them for each table: [[tables]] select = "...", drop_columns = ["..."]',
    "tasks.max": "One process publishes; it decodes, writes envelopes and sends at the same time",
    "max.batch.size": "Transactions are as large as what waits in the log, up to 16 MiB of it",
    "poll.interval.ms": "The log's files are watched: a change is seen when it is written",
}
_HINT_PREFIXES = (
    ("database.", _FILES),
    ("schema.history.", "Tables are known from the log (binlog_row_metadata=FULL) or from [source] schemaFile"),
    ("topic.creation.", _TOPICS),
    ("snapshot.", _HINTS["snapshot.mode"]),
    ("column.mask.", 'Mask them for each table: [[tables]] mask = { email = "sha256", note = "text ***" }'),
    ("column.truncate.", 'Texts are whole, or masked: [[tables]] mask = { note = "last 4" }'),
    ("column.propagate.", _NO_SOURCE_TYPES),
    ("datatype.propagate.", _NO_SOURCE_TYPES),
    ("column.", _HINTS["column.include.list"]),
    ("connector.", "The kind of the log is detected"),
    ("notification.", 'notification_topic = "{prefix}.notifications"'),
    ("signal.", "Signals are rows of signal_table: binlog-stream snapshot JOB.toml --server URL --follow-signals"),
    ("transforms", _TRANSFORMS),
)


class Conflict(Exception):
    """A setting that is there under both of its names. *path*: its key, under Debezium's name."""

    def __init__(self, path: KeyPath, name: str) -> None:
        super().__init__(name)
        self.path = path
        self.name = name


def with_own_names(sink: Mapping[str, object]) -> tuple[dict[str, object], dict[str, KeyPath]]:
    """A section with all settings under their own names.

    `topic.prefix = "shop"` is a table in a table for TOML; written in quotes it is one name. Both are understood.

    Args:
        sink: `[sink]` as TOML has it.

    Returns:
        The section; under which key each setting is that had another name.

    Raises:
        Conflict: A setting is there twice.
    """
    settings: dict[str, object] = {}
    places: dict[str, KeyPath] = {}
    for name, value in sink.items():
        for path, dotted, item in _parts(name, value):
            own = OWN_NAMES.get(dotted)
            if own is None and dotted not in _HINTS and not ("." in dotted and hint_for(dotted) is not None):
                settings[name] = value
                break
            if own is not None and (own in settings or not isinstance(sink.get(own, {}), dict)):
                raise Conflict(path, own)
            settings[own or dotted] = _converted(dotted, item)
            places[own or dotted] = path
    return settings, places


def hint_for(name: str) -> str | None:
    """Advice for a setting of Debezium that has no equal here; None: it is not one of Debezium's."""
    found = _HINTS.get(name)
    return found or next((hint for prefix, hint in _HINT_PREFIXES if name.startswith(prefix)), None)


def _parts(name: str, value: object) -> Iterator[tuple[KeyPath, str, object]]:
    # The leaves of a dotted key, each with its path and its name.
    stack: list[tuple[KeyPath, object]] = [((name,), value)]
    while stack:
        path, item = stack.pop()
        if isinstance(item, dict) and item:
            stack += [((*path, inner), below) for inner, below in reversed(item.items())]
        else:
            yield path, ".".join(map(str, path)), item


_FLAGS = {"true": True, "false": False}


def _converted(name: str, value: object) -> object:
    # Debezium's own files quote all values.
    if isinstance(value, str) and OWN_NAMES.get(name) in _FLAG_SETTINGS:
        return _FLAGS.get(value.lower(), value)
    if name == "heartbeat.interval.ms" and isinstance(value, str) and value.isdecimal():
        value = int(value)
    if name == "heartbeat.interval.ms" and isinstance(value, int) and not isinstance(value, bool):
        return f"{value}ms" if value else None
    if name == "skipped.operations" and isinstance(value, str):
        return [] if value == "none" else [part.strip() for part in value.split(",")]
    return value
