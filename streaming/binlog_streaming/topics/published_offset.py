"""Offset that a job has published, read without running it: `published_offset(job)`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from binlog_connector.following.offsets import SourceOffset
from binlog_connector.kafka.offset_store import OffsetStore
from binlog_connector.kafka.topics import Topics
from binlog_streaming.topics.connecting import connection_of, names_of

if TYPE_CHECKING:
    from binlog_streaming.settings.publish_model import PublishJob


def published_offset(job: PublishJob, *, may_be_new: bool) -> SourceOffset | None:
    """Offset at which *job* continues; None: it has published nothing yet.

    Args:
        job: The settings.
        may_be_new: Without an offset in Kafka it is a new job; else its offsets are lost.

    Raises:
        BrokerError: Kafka cannot be asked, or the offsets are lost.
    """
    connection, names = connection_of(job.sink), names_of(job.sink)
    store = OffsetStore(connection, names.offsets, job.sink.topic_prefix)
    with Topics(connection) as topics:
        is_there = topics.partition_count(names.offsets) is not None
    newest = store.newest(waits=False) if is_there else None
    if newest is None and not may_be_new:
        raise store.lost("it has no record" if is_there else "the topic is not there")
    if newest is None or newest.offset is None:
        return None
    return SourceOffset.from_json(json.loads(newest.offset))
