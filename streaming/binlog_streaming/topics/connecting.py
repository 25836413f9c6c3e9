"""Brokers and registry that settings name: `connection_of`, `names_of`, `registry_of`.

How far a job has published: `PublishedOffset`, and `published_offset`.

Refusal of a job that would not read what its log gets next: `require_start`.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from binlog_connector.following.offsets import SourceOffset
from binlog_connector.following.starts import Edge
from binlog_connector.kafka.connection import Connection, Secret
from binlog_connector.kafka.offset_store import OffsetStore
from binlog_connector.kafka.publisher import PublisherOptions
from binlog_connector.kafka.registry import RegistryConnection, SchemaRegistry
from binlog_connector.kafka.topic_names import TopicNames, TopicTemplates
from binlog_connector.kafka.topics import Topics
from binlog_connector.options.source_options import SourceOptions
from binlog_format.errors import OptionError
from binlog_streaming.settings.publish_model import Client, MessageFormat

if TYPE_CHECKING:
    from binlog_format.position import Position
    from binlog_streaming.settings.publish_model import KafkaSink, PublishJob, Registry, Security
    from binlog_streaming.settings.source_models import TopicSource


def connection_of(section: KafkaSink | TopicSource) -> Connection:
    """Connection to the brokers of *section*."""
    security = section.security
    return Connection(
        section.bootstrap_servers,
        tls=security.tls,
        ca_file=security.ca_file,
        certificate_file=security.certificate_file,
        key_file=security.key_file,
        user=security.user,
        password=_password(security),
        mechanism=security.mechanism,
    )


def registry_of(sink: KafkaSink) -> SchemaRegistry | None:
    """Registry of *sink* for schemas; None: its messages are JSON."""
    if sink.format is not MessageFormat.AVRO:
        return None
    registry = sink.registry
    assert registry.url is not None, "settings are checked"
    connection = RegistryConnection(
        registry.url,
        user=registry.user,
        password=_password(registry),
        ca_file=registry.ca_file,
        certificate_file=registry.certificate_file,
        key_file=registry.key_file,
    )
    return SchemaRegistry(connection)


def _password(section: Security | Registry) -> Secret | None:
    if section.user is None:
        return None
    return Secret(environment=section.password_variable, file=section.password_file)


def names_of(sink: KafkaSink) -> TopicNames:
    """Names of the topics of *sink*."""
    return TopicNames(
        TopicTemplates(
            sink.topic_prefix,
            tables=sink.topic,
            transactions=sink.transaction_topic,
            schema_changes=sink.schema_topic,
            heartbeat=sink.heartbeat_topic,
            offsets=sink.offsets_topic,
            notifications=sink.notification_topic,
        )
    )


def publishing_of(
    sink: KafkaSink, names: TopicNames, *, is_first_start: bool, start_patience: float = 0.0
) -> PublisherOptions:
    """Publisher options of *sink*.

    Args:
        is_first_start: Whether there may be no offset yet.
        start_patience: Seconds for which brokers may be down at the start.
    """
    return PublisherOptions(
        name=sink.topic_prefix,
        offsets_topic=names.offsets,
        is_first_start=is_first_start,
        delivery=sink.delivery,
        client=None if sink.client is Client.AUTO else sink.client.value,
        compression=sink.compression,
        start_patience=start_patience,
    )


_FILES_BEFORE = "files_before"


class PublishedOffset(NamedTuple):
    """Content of the record of a job in the offsets topic.

    Attributes:
        files_before: `EnvelopeOptions.files_before` of what it publishes there.
    """

    offset: SourceOffset
    files_before: int = 0

    @classmethod
    def parse(cls, text: str) -> PublishedOffset:
        """Read what `text` gave; earlier versions wrote the offset alone."""
        fields = json.loads(text)
        files_before = fields.pop(_FILES_BEFORE, 0)
        return cls(SourceOffset.from_json(fields), files_before)

    def text(self) -> str:
        """The form that the record has."""
        fields = self.offset.to_json()
        return json.dumps({**fields, _FILES_BEFORE: self.files_before} if self.files_before else fields)

    @property
    def order(self) -> Position:
        """Position of `offset` as in total orders."""
        position = self.offset.position
        return replace(position, file_no=self.files_before + position.file_no)

    def followed_by(self, offset: SourceOffset) -> PublishedOffset:
        """The same for what follows at *offset*, which may be in another log: total orders grow all the same."""
        files = self.offset.position.file_no + 1 - offset.position.file_no
        goes_back = offset.position < self.offset.position
        return PublishedOffset(offset, self.files_before + (max(files, 0) if goes_back else 0))


def published_offset(job: PublishJob, *, may_be_new: bool) -> SourceOffset | None:
    """Offset at which *job* continues; None: it has published nothing yet.

    Args:
        may_be_new: Without an offset in Kafka it is a new job; else its offsets are lost.
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
    return PublishedOffset.parse(newest.offset).offset


def require_start(job: PublishJob) -> None:
    """See that *job* reads what its log gets from now on: that it has begun, or begins with what is there."""
    options = SourceOptions.parse({"path": job.source.path, **job.source.options()})
    if options.start is Edge.LATEST and published_offset(job, may_be_new=True) is None:
        reason = 'the job has not begun, and with startingOffsets = "latest" it would leave out what is written now'
        raise OptionError(
            "MISSING", reason, hint="Start it first: binlog-stream publish JOB.toml, with --once or without"
        )
