"""Place where a new job takes over from a connector of Debezium: `new_start`.

The connector must have published no more than the offset says that it stored.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from binlog_connector.following.debezium_offset import DEBEZIUM_OFFSET, DebeziumOffset, start_after
from binlog_connector.kafka.topic_reader import TopicReader
from binlog_format.errors import StartError
from binlog_format.log.log import shown_position
from binlog_streaming.topics.connecting import connection_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlog_connector.following.offsets import SourceOffset
    from binlog_connector.following.watched import WatchedLog
    from binlog_connector.kafka.producer import ClaimedFile
    from binlog_format.position import Place, Position
    from binlog_streaming.settings.publish_model import PublishJob

_LOOK_BACK = 8
"""Messages at the end of a partition that are looked at: the last one may be a tombstone, or a control record."""


class _Published(NamedTuple):
    # A change that a message is about.
    position: Position
    topic: str


def new_start(job: PublishJob, watched: WatchedLog) -> SourceOffset | None:
    """The offset at which a new *job* takes over; None: it follows no connector.

    Raises:
        StartError, DataLossError: The log does not have that place; `CONFLICTING_OPTIONS`: a topic has a change from
            further on, as the connector runs or was killed.
    """
    if job.source.debezium_offset is None:
        return None
    given = DebeziumOffset.parse(job.source.debezium_offset)
    start = start_after(watched, given, counts_annotations=job.sink.query)
    if given.place is not None:  # else it may have read another server, whose places are others
        _require_stopped(job, watched, given, start)
    return start


def _require_stopped(job: PublishJob, watched: WatchedLog, given: DebeziumOffset, start: SourceOffset) -> None:
    # A connector stores its offset once in a minute. After a kill its topics go further than that.
    log = watched.log
    # The first transaction may be published in part.
    end = start.position if start.taken is None else log.span(start.position, size_max=1).end
    newest = max(_newest_published(job, watched), default=None)
    if newest is None or newest.position < end:
        return
    raise StartError(
        "CONFLICTING_OPTIONS",
        f"{DEBEZIUM_OFFSET}: {given.place}, and topic {newest.topic} has a change at "
        f"{shown_position(log, newest.position)}: the connector runs, or was killed, and changes in between would be "
        "in the topics twice",
        hint="Start the connector, wait until its topics have a change that was made after this, stop it (PUT "
        "/connectors/NAME/stop), and take the offset that it has then. Or begin at a place of your own (startingGtid)",
    )


def _newest_published(job: PublishJob, watched: WatchedLog) -> Iterator[_Published]:
    """The last changes in the topics, as far as their messages are JSON, and about files that the log has."""
    prefix, log = f"{job.sink.topic_prefix}.", watched.log
    with TopicReader(connection_of(job.sink), _no_file) as reader:
        partitions = reader.partitions(topic for topic in reader.topics() if topic.startswith(prefix))
        ranges = reader.ranges(partitions)
        last = {one: (max(first, end - _LOOK_BACK), end) for one, (first, end) in ranges.items() if first < end}
        for messages in reader.read_ranges(last) if last else ():
            places = filter(None, map(_place, messages.values.to_pylist()))
            for position in (log.position_at_byte(file, byte) for file, byte in places):
                # The connector may have read another server before, which had other files.
                if position is not None and watched.has(position.file_no):
                    yield _Published(position, messages.partition.topic)


def _place(value: bytes | None) -> tuple[str, int] | None:
    """The place in the log of the change that a message of Debezium is about; None: it is about none, or is no JSON."""
    try:
        message: Any = json.loads(value or b"null")
        source = (message.get("payload") or message)["source"]
        return str(source["file"]), int(source["pos"])
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _no_file(_claim: bytes | None, place: Place) -> ClaimedFile:
    raise StartError("CONFLICTING_OPTIONS", f"{place}: a message of another job, and not of a connector of Debezium")
