"""Place where a new job takes over from a connector of Debezium: `new_start`.

The connector must have published no more than the offset says that it stored.
"""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any, NamedTuple

from binlog_connector.envelope.avro.avro_encoding import AVRO_MAGIC
from binlog_connector.following.debezium_offset import DEBEZIUM_OFFSET, DebeziumOffset, start_after
from binlog_connector.installing import require
from binlog_connector.kafka.topic_reader import TopicReader
from binlog_format.errors import StartError
from binlog_format.gtids.gtid_history import gtid_of
from binlog_format.gtids.gtid_set import parse_gtid
from binlog_format.log.log import ServerPosition, shown_position
from binlog_streaming.topics.connecting import connection_of, names_of, registry_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from binlog_connector.following.offsets import SourceOffset
    from binlog_connector.following.watched import WatchedLog
    from binlog_connector.kafka.producer import ClaimedFile
    from binlog_connector.kafka.registry import SchemaRegistry
    from binlog_format.gtids.gtid_set import AnyGtid
    from binlog_format.position import Place, Position
    from binlog_streaming.settings.publish_model import PublishJob

_LOOK_BACK = 8
"""Messages at the end of a partition that are looked at: the last one may be a tombstone, or a control record."""
_FIELDS = ("file", "pos", "gtid", "db", "table")
_OTHER_MESSAGES = ({"databaseName", "ddl"}, {"aggregate_type", "additional_data"})
"""Fields of messages in a connector's topics of schema history and of notifications, which may have the prefix, too."""


class _Published(NamedTuple):
    # A change that a message is about; one of *place* and *gtid* is known.
    topic: str
    place: ServerPosition | None
    gtid: AnyGtid | None


def new_start(job: PublishJob, watched: WatchedLog) -> SourceOffset | None:
    """The offset at which a new *job* takes over; None: it follows no connector.

    Raises:
        StartError, DataLossError: The log does not have that place; `CONFLICTING_OPTIONS`: a topic has a change from
            further on, as the connector runs or was killed, or has messages that do not tell.
    """
    if job.source.debezium_offset is None:
        return None
    given = DebeziumOffset.parse(job.source.debezium_offset)
    start = start_after(watched, given, counts_annotations=job.sink.query)
    _require_stopped(job, watched, given, start)
    return start


def _require_stopped(job: PublishJob, watched: WatchedLog, given: DebeziumOffset, start: SourceOffset) -> None:
    # A connector stores its offset once in a minute. After a kill its topics go further than that.
    log = watched.log
    # The first transaction may be published in part.
    end = start.position if start.taken is None else log.span(start.position, size_max=1).end
    begun = None if start.taken is None else next(log.committed_blocks(start.position, end), None)
    begun_gtid = None if begun is None else gtid_of(begun.groups[0], begun.gtid_sources)
    for published in _newest_published(job):
        position = None if given.place is None else _position(published, watched)
        if position is not None:
            is_further, place = position >= end, shown_position(log, position)
        elif published.gtid is not None and given.gtids:  # it may have read another server, whose places are others
            is_further, place = not given.gtids.covers(published.gtid), f"GTID {published.gtid}"
            is_further &= published.gtid != begun_gtid
        else:
            continue
        if is_further:
            raise StartError(
                "CONFLICTING_OPTIONS",
                f"{DEBEZIUM_OFFSET}: {given.place or given.gtids}, and topic {published.topic} has a change at "
                f"{place}: the connector runs, or was killed, and changes in between would be in the topics twice",
                hint="Start the connector, wait until its topics have a change that was made after this, stop it (PUT "
                "/connectors/NAME/stop), and take the offset that it has then. Or begin at a place of your own "
                "(startingGtid)",
            )


def _position(published: _Published, watched: WatchedLog) -> Position | None:
    if published.place is None:
        return None
    position = watched.log.position_at_byte(published.place.name, published.place.byte)
    # The connector may have read another server before, which had other files.
    return position if position is not None and watched.has(position.file_no) else None


def _newest_published(job: PublishJob) -> Iterator[_Published]:
    """The last changes in the topics of tables.

    Raises:
        StartError: A topic has messages, and none of its last ones tells which change it is about.
    """
    names, registry = names_of(job.sink), registry_of(job.sink)
    if registry is not None:
        require("fastavro")
    with TopicReader(connection_of(job.sink), _no_file) as reader:
        partitions = reader.partitions(filter(names.may_be_of_table, reader.topics()))
        ranges = reader.ranges(partitions)
        last = {one: (max(first, end - _LOOK_BACK), end) for one, (first, end) in ranges.items() if first < end}
        for messages in reader.read_ranges(last) if last else ():
            topic = messages.partition.topic
            values = [value for value in messages.values.to_pylist() if value is not None]
            sources = [source for value in values if (source := _source_of(value, registry)) is not None]
            is_outbox = job.outbox.table is not None and names.may_be_of_route(job.outbox.topic, topic)
            if values and not sources and names.have_prefix and not is_outbox:
                raise _unknown_form(job, topic)
            for source in filter(None, sources):
                tables = source.get("db"), source.get("table")
                if None in tables or names.is_of_table(topic, *map(str, tables)):
                    yield _Published(topic, source["place"], source["gtid"])


def _unknown_form(job: PublishJob, topic: str) -> StartError:
    return StartError(
        "CONFLICTING_OPTIONS",
        f"{DEBEZIUM_OFFSET}: topic {topic} has messages without a place in the log, which no connector writes whose "
        f"settings are envelope = {job.sink.envelope} and format = {job.sink.format}: nothing shows whether the "
        "connector was stopped, and consumers would get messages of another form",
        hint="Set envelope and format of [sink] as the connector's transforms and converters have them. If "
        "the topic is to have both forms, begin at a place of your own (startingGtid)",
    )


def _source_of(value: bytes, registry: SchemaRegistry | None) -> dict[str, Any] | None:
    """Fields of `source` of a message, with `place` and `gtid` parsed; none if it is about no row; None: unknown."""
    try:
        message = _read(value, registry)
        if any(fields <= message.keys() for fields in _OTHER_MESSAGES):
            return {}
        source = _source(message)
        has_place = source.get("file") is not None
        place = ServerPosition(str(source["file"]), int(source["pos"])) if has_place else None
        gtid = parse_gtid(str(source["gtid"])) if source.get("gtid") else None
    except (ValueError, LookupError, TypeError, AttributeError, EOFError, ArithmeticError):  # any bytes may be there
        return None
    return None if place is None and gtid is None else {**source, "place": place, "gtid": gtid}


def _read(value: bytes, registry: SchemaRegistry | None) -> Any:
    if registry is None:
        return json.loads(value)
    if not value.startswith(AVRO_MAGIC):
        raise ValueError("no message of Confluent's AvroConverter")
    schema = registry.schema_of(int.from_bytes(value[1:5], "big"))
    if schema is None:
        raise ValueError("the registry does not have its schema")
    from fastavro import schemaless_reader

    return schemaless_reader(io.BytesIO(value[5:]), json.loads(schema), None)


def _source(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """Fields of `source`, as messages have them: the envelope, CloudEvents, flat rows with `add.fields`."""
    payload = message["payload"] if isinstance(message.get("payload"), dict) else message
    source = payload.get("source")
    if isinstance(source, dict):
        return source
    for mark in ("iodebezium", "__source_", "__"):
        found = {name: payload[f"{mark}{name}"] for name in _FIELDS if f"{mark}{name}" in payload}
        if "pos" in found or "gtid" in found:
            return found
    raise KeyError("source")


def _no_file(_claim: bytes | None, place: Place) -> ClaimedFile:
    raise StartError("CONFLICTING_OPTIONS", f"{place}: a message of another job, and not of a connector of Debezium")
