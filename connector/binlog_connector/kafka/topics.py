"""Topics as the brokers know them: `Topics`; it is also what names the reason where brokers cannot be used.

Diagnosis of a failed connection: `explained`, which repeats its steps one by one.

The clients hide the reason: kafka-python reports for a wrong password, and for a certificate that nobody trusts, that
it ran out of time.
"""

from __future__ import annotations

import socket
import ssl
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

from kafka import KafkaConsumer
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient
from kafka.errors import BrokerResponseError, KafkaError, for_code
from kafka.net.sasl import get_sasl_mechanism
from kafka.protocol.metadata import ApiVersionsRequest
from kafka.protocol.parser import KafkaProtocol
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from binlog_connector.kafka.connection import CLIENT_ID, broker_error, failure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Self

    from kafka import TopicPartition

    from binlog_connector.kafka.connection import Connection
    from binlog_format.errors import BrokerError


_PORT = 9092
_RECEIVE_SIZE = 1 << 16


def explained(connection: Connection) -> BrokerError | None:
    """Find the error that keeps every server from being used; None: one of them answers."""
    error = None
    settings = connection.python_settings()
    for server in connection.servers.split(","):
        error = _try(server.strip(), connection, settings)
        if error is None:
            return None
    return error


def _try(server: str, connection: Connection, settings: dict[str, object]) -> BrokerError | None:
    host, _, port = server.rpartition(":") if ":" in server else (server, "", str(_PORT))
    try:
        plain = socket.create_connection((host.strip("[]"), int(port)), connection.timeout)
    except (OSError, ValueError) as error:
        return broker_error("UNREACHABLE", f"no connection: {error}", at=server)
    with closing(plain):
        try:
            if not connection.tls:
                return _log_in(_Conversation(plain), server, settings)
            with connection.tls_context().wrap_socket(plain, server_hostname=host.strip("[]")) as encrypted:
                return _log_in(_Conversation(encrypted), server, settings)
        except ssl.SSLCertVerificationError as error:
            reason = f"the broker's certificate is not trusted: {error.verify_message}"
            return broker_error("TLS", reason, at=server)
        except ssl.SSLError as error:
            return broker_error("TLS", f"TLS failed: {error.reason or error}", at=server)
        except TimeoutError:
            reason = f"it takes connections, and gave no answer within {connection.timeout:g} s"
            return broker_error("UNREACHABLE", reason, at=server)
        except (OSError, KafkaError) as error:
            hint = "" if connection.tls else " (does this port want TLS?)"
            return broker_error("UNREACHABLE", f"it ended the connection: {error}{hint}", at=server)


def _log_in(broker: _Conversation, server: str, settings: dict[str, Any]) -> BrokerError | None:
    name = settings.get("sasl_mechanism")
    if name is None:
        broker.ask(ApiVersionsRequest(version=0))
        return None
    answer = broker.ask(SaslHandshakeRequest(version=1, mechanism=name))
    if answer.error_code:
        reason = f"SASL mechanism {name}: the broker has {', '.join(answer.mechanisms)}"
        return broker_error("AUTHENTICATION", reason, at=server)
    mechanism = get_sasl_mechanism(name)(host=server.rpartition(":")[0], **settings)
    while not mechanism.is_done():
        answer = broker.ask(SaslAuthenticateRequest(version=1, auth_bytes=mechanism.auth_bytes()))
        if answer.error_code:
            reason = f"user {settings['sasl_plain_username']}: {answer.error_message or for_code(answer.error_code)}"
            return broker_error("AUTHENTICATION", reason, at=server)
        mechanism.receive(answer.auth_bytes)
    return None


class _Conversation:
    # Requests and their answers, one after the other.
    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._protocol = KafkaProtocol(client_id=CLIENT_ID)

    def ask(self, request: Any) -> Any:
        self._protocol.send_request(request)
        self._socket.sendall(self._protocol.send_bytes())
        while data := self._socket.recv(_RECEIVE_SIZE):
            if answers := self._protocol.receive_bytes(data):
                return answers[0][1]
        raise ConnectionResetError("no answer came")


_NO_ERROR = 0
_NOT_FOUND = 3  # UNKNOWN_TOPIC_OR_PARTITION
_ALREADY_THERE = 36  # TOPIC_ALREADY_EXISTS
_NO_REPLICAS = 38  # INVALID_REPLICATION_FACTOR


class Topics:
    """A connection for questions about topics, while it is entered."""

    def __init__(self, connection: Connection) -> None:
        # Before the client comes to the same end, without the reason, when its time is over.
        if (reason := explained(connection)) is not None:
            raise reason
        try:
            self._client = KafkaAdminClient(**connection.python_settings())
        except KafkaError as error:
            raise client_failure(error) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def partition_count(self, topic: str) -> int | None:
        """Number of its partitions; None: there is no such topic."""
        (found,) = self._asked(lambda: self._client.describe_topics([topic]), topic)
        if found["error_code"] == _NOT_FOUND:
            return None
        if found["error_code"]:
            raise failure(found["error_code"], for_code(found["error_code"]).description, at=f"topic {topic}")
        return len(found["partitions"])

    def settings(self, topic: str) -> dict[str, str]:
        """Its settings, those left at their default too."""
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        found = self._asked(lambda: self._client.describe_configs([resource], config_filter="all"), topic)
        settings = {name: setting["value"] for name, setting in found["topic"].get(topic, {}).items()}
        if not settings:
            raise broker_error("DENIED", "its settings may not be read (DESCRIBE_CONFIGS)", at=f"topic {topic}")
        return settings

    def create(self, topic: str, *, partitions: int = -1, replication: int = -1, settings: dict[str, str]) -> None:
        """Create it, unless somebody has meanwhile.

        Args:
            partitions: How many; -1: as many as the brokers make.
            replication: Copies of each; -1: the same.
            settings: Those that shall not be the default.
        """
        wanted = {"num_partitions": partitions, "replication_factor": replication, "configs": settings}

        def create() -> None:
            try:
                (answer,) = self._client.create_topics({topic: wanted}, raise_errors=False)["topics"]
            except RuntimeError as error:  # the client's for a cluster that is electing its controller
                raise broker_error("UNREACHABLE", str(error), at=f"topic {topic}") from error
            # Of two that create it one is the second.
            if answer["error_code"] not in (_NO_ERROR, _ALREADY_THERE):
                raise _creation_failure(answer, topic)
            self._client.wait_for_topics([topic])

        self._asked(create, topic)

    def check(self, topics: Iterable[str]) -> None:
        """See that all of *topics* are there, and may be seen."""
        for topic in topics:
            if self.partition_count(topic) is None:
                raise broker_error("TOPIC_NOT_FOUND", "there is no such topic", at=f"topic {topic}")

    def _asked(self, ask: Callable[[], Any], topic: str) -> Any:
        try:
            return ask()
        except KafkaError as error:
            raise client_failure(error, topic) from error


def _creation_failure(answer: dict[str, Any], topic: str) -> BrokerError:
    code = answer["error_code"]
    # The brokers' own words: a policy of theirs states there what it wants.
    reason = answer["error_message"] or for_code(code).description
    if code == _NO_REPLICAS and "fenced" in reason:
        # They run, and have not reported to their controller yet: all of them have just started, or hung.
        return broker_error("UNREACHABLE", reason, at=f"topic {topic}")
    return failure(code, reason, at=f"topic {topic}")


_POLL_SECONDS = 0.05


def committed_consumer(connection: Connection, **settings: object) -> KafkaConsumer:
    """A consumer of committed messages that keeps no offsets in Kafka.

    Args:
        settings: More settings, under the client's names.
    """
    try:
        return KafkaConsumer(
            **connection.python_settings(),
            isolation_level="read_committed",
            enable_auto_commit=False,
            group_id=None,
            allow_auto_create_topics=False,
            **settings,
        )
    except KafkaError as error:
        with Topics(connection):  # states why
            raise client_failure(error) from error


def known_offsets(
    ask: Callable[[list[TopicPartition]], dict[TopicPartition, int]],
    partitions: Sequence[TopicPartition],
    connection: Connection,
) -> dict[TopicPartition, int]:
    """First or last offsets of *partitions*, as soon as their leaders know them.

    Args:
        ask: `beginning_offsets` or `end_offsets` of a consumer.
        connection: Within its timeout they must be known.
    """
    deadline = time.monotonic() + connection.timeout
    while True:
        try:
            return ask(list(partitions))
        except KafkaError as error:
            raise client_failure(error) from error
        except KeyError as error:
            # A leader that has just become one may not know yet, and the client is not ready for that.
            if time.monotonic() > deadline:
                topic = f"topic {partitions[0].topic}"
                raise broker_error("FAILED", "the broker knows no offsets", at=topic) from error
            time.sleep(_POLL_SECONDS)


def client_failure(error: KafkaError, topic: str | None = None) -> BrokerError:
    """Convert an error of kafka-python to a named error."""
    at = None if topic is None else f"topic {topic}"
    if isinstance(error, BrokerResponseError):
        # Its own text has the whole request and answer in it.
        return failure(error.errno, error.description or type(error).__name__, at=at)
    return broker_error("FAILED", str(error), at=at)
