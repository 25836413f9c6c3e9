"""From the settings of a sink to the brokers: `connection_of`, `publishing_of`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_connector.kafka.connection import Connection, Secret
from binlog_connector.kafka.publisher import Publishing
from binlog_streaming.settings.publish_model import Client

if TYPE_CHECKING:
    from binlog_streaming.settings.publish_model import KafkaSink
    from binlog_streaming.topics.names import TopicNames


def connection_of(sink: KafkaSink) -> Connection:
    """How the brokers of *sink* are reached."""
    security = sink.security
    password = None
    if security.user is not None:
        password = Secret(environment=security.password_variable, file=security.password_file)
    return Connection(
        sink.bootstrap_servers,
        tls=security.tls,
        ca_file=security.ca_file,
        certificate_file=security.certificate_file,
        key_file=security.key_file,
        user=security.user,
        password=password,
        mechanism=security.mechanism,
    )


def publishing_of(sink: KafkaSink, names: TopicNames, *, is_first_start: bool) -> Publishing:
    """Who publishes to *sink*, and how.

    Args:
        sink: The settings.
        names: Of the topics.
        is_first_start: Whether there may be no offset yet.
    """
    return Publishing(
        name=sink.topic_prefix,
        offsets_topic=names.offsets,
        is_first_start=is_first_start,
        delivery=sink.delivery,
        client=None if sink.client is Client.AUTO else sink.client.value,
        compression=sink.compression,
    )
