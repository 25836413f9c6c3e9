"""Diagnosis of a failed connection: `explained`, which repeats its steps one by one.

The clients hide the reason: kafka-python reports for a wrong password, and for a certificate that nobody trusts, that
it ran out of time.
"""

from __future__ import annotations

import socket
import ssl
from contextlib import closing
from typing import TYPE_CHECKING

from kafka.errors import KafkaError, for_code
from kafka.net.sasl import get_sasl_mechanism
from kafka.protocol.metadata import ApiVersionsRequest
from kafka.protocol.parser import KafkaProtocol
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from binlog_connector.kafka.connection import CLIENT_ID
from binlog_connector.kafka.failures import broker_error

if TYPE_CHECKING:
    from typing import Any

    from binlog_connector.kafka.connection import Connection
    from binlog_format.errors import BrokerError

_PORT = 9092
_RECEIVE_SIZE = 1 << 16


def explained(connection: Connection) -> BrokerError | None:
    """Find the error that keeps every server from being used; None: one of them answers.

    Raises:
        BinlogError: A certificate or the password cannot be read.
    """
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
