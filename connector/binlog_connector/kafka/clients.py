"""Kafka clients, by the names of their packages: `open_producer` uses one."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from binlog_connector.kafka.connection import Connection
    from binlog_connector.kafka.producer import Producer, ProducerSettings


def open_producer(connection: Connection, settings: ProducerSettings, client: str | None = None) -> Producer:
    """A producer that is ready.

    Args:
        client: `confluent-kafka` or `kafka-python`; None: the first of them that is installed.
    """
    return CLIENTS[client or default_client()](connection, settings)


def default_client() -> str:
    """confluent-kafka where it is installed."""
    return "confluent-kafka" if find_spec("confluent_kafka") else "kafka-python"


def _rdkafka(connection: Connection, settings: ProducerSettings) -> Producer:
    from binlog_connector.installing import require

    require("confluent_kafka")
    from binlog_connector.kafka.rdkafka_producer import RdkafkaProducer

    return RdkafkaProducer(connection, settings)


def _python(connection: Connection, settings: ProducerSettings) -> Producer:
    from binlog_connector.kafka.python_producer import PythonProducer

    return PythonProducer(connection, settings)


CLIENTS: dict[str, Callable[[Connection, ProducerSettings], Producer]] = {
    "confluent-kafka": _rdkafka,
    "kafka-python": _python,
}
"""Clients by the names of their packages."""
