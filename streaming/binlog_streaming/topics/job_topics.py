"""The topics of a job at the brokers: `JobTopics`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_connector.kafka.topics import Topics

if TYPE_CHECKING:
    from binlog_connector.kafka.connection import Connection
    from binlog_streaming.settings.publish_model import KafkaSink


class JobTopics:
    """Creates topics before the first message to them, where the settings ask for it; may be used by several threads.

    Args:
        connection: To the brokers.
        sink: The settings.
    """

    def __init__(self, connection: Connection, sink: KafkaSink) -> None:
        self._connection = connection
        self._partitions = sink.partitions
        self._replication = -1 if sink.replication is None else sink.replication
        self._settings = {name: str(value) for name, value in sink.topic_settings.items()}
        self._known: set[str] = set()

    def ensure(self, topic: str) -> None:
        """See that *topic* is there, the first time that it is asked for.

        Raises:
            BrokerError: It cannot be created.
        """
        if self._partitions is None or topic in self._known:
            return
        with Topics(self._connection) as topics:
            if topics.partition_count(topic) is None:
                topics.create(
                    topic, partitions=self._partitions, replication=self._replication, settings=self._settings
                )
        self._known.add(topic)

    def partition_count(self, topic: str) -> int:
        """How many partitions *topic* has now; it is created as `ensure` does.

        Raises:
            BrokerError: `TOPIC_NOT_FOUND`, or what keeps brokers from being used.
        """
        self.ensure(topic)
        with Topics(self._connection) as topics:
            topics.check([topic])
            return topics.partition_count(topic) or 0
