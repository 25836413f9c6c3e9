"""Connection to brokers: `Connection`, and `Secret`, whose value is read only where it is needed.

Errors of brokers and clients, as named errors: `failure`, `is_transient`.
"""

from __future__ import annotations

import logging
import os
import ssl
from dataclasses import dataclass
from pathlib import Path

from binlog_format.errors import BrokerError, OptionError, storage_error
from binlog_format.position import Place

CLIENT_ID = "binlog-stream"

_CLIENT_LOGS = "kafka"


@dataclass(frozen=True, slots=True)
class Secret:
    """A password, by the place where it is; it is read anew for each connection.

    Attributes:
        file: Path of a file; a line end after the password does not count.
    """

    environment: str | None = None
    file: str | None = None

    def __post_init__(self) -> None:
        if (self.environment is None) == (self.file is None):
            raise OptionError("INVALID_VALUE", "a password is in an environment variable or in a file: name one")

    def reveal(self) -> str:
        """The password."""
        if self.environment is not None:
            value = os.environ.get(self.environment, "")
            if not value:
                raise OptionError("MISSING", f"the environment variable {self.environment} with the password is empty")
            return value
        assert self.file is not None
        try:
            return Path(self.file).read_text().rstrip("\r\n")
        except OSError as error:
            raise storage_error(self.file, "read the secret in", error) from error


def tls_context(ca_file: str | None, certificate_file: str | None, key_file: str | None) -> ssl.SSLContext:
    """Make the TLS context that verifies a server and sends our certificate, if there is one."""
    try:
        context = ssl.create_default_context(cafile=ca_file)
        if certificate_file is not None:
            context.load_cert_chain(certificate_file, key_file)
    except ssl.SSLError as error:
        files = [file for file in (ca_file, certificate_file, key_file) if file is not None]
        reason = f"{', '.join(files)}: no certificate in PEM: {error.reason or error}"
        raise OptionError("INVALID_VALUE", reason) from error
    except OSError as error:
        raise storage_error(error.filename or ca_file, "read", error) from error
    return context


@dataclass(frozen=True, slots=True)
class Connection:
    """Brokers, who we are for them, and how long they may take.

    Attributes:
        servers: Some of them, as `host:port,host:port`.
        tls: Whether connections are encrypted, and the broker's certificate is verified.
        ca_file: PEM file of certificates to trust; None: those that the system trusts.
        certificate_file: PEM file of the client's own certificate, where brokers ask for one.
        key_file: PEM file of its key.
        user: Name for SASL; None: no SASL.
        mechanism: `PLAIN`, `SCRAM-SHA-256` or `SCRAM-SHA-512`.
        timeout: Seconds within which a broker answers, or a message is acknowledged; after that the transaction is
            given up, and tried again.
    """

    servers: str
    tls: bool = False
    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    user: str | None = None
    password: Secret | None = None
    mechanism: str = "PLAIN"
    timeout: float = 10.0

    def __post_init__(self) -> None:
        if (self.user is None) != (self.password is None):
            raise OptionError("MISSING", "a user and a password belong together")

    @property
    def timeout_ms(self) -> int:
        """*timeout* as clients want it."""
        return int(self.timeout * 1000)

    def tls_context(self) -> ssl.SSLContext:
        """Make the TLS context that verifies brokers and sends our certificate."""
        return tls_context(self.ca_file, self.certificate_file, self.key_file)

    def python_settings(self) -> dict[str, object]:
        """The settings that all classes of kafka-python know."""
        _keep_secrets_out_of_logs()
        settings: dict[str, object] = {
            "bootstrap_servers": self.servers.split(","),
            "client_id": CLIENT_ID,
            "security_protocol": self._protocol,
            "bootstrap_timeout_ms": self.timeout_ms,
            "request_timeout_ms": self.timeout_ms,
            # Small transactions wait for this where the broker still ends the one before.
            "retry_backoff_ms": 2,
            "reconnect_backoff_max_ms": 1000,
        }
        if self.tls:
            settings["ssl_context"] = self.tls_context()
        if self.user is not None and self.password is not None:
            settings["sasl_mechanism"] = self.mechanism
            settings["sasl_plain_username"] = self.user
            settings["sasl_plain_password"] = self.password.reveal()
        return settings

    def rdkafka_settings(self) -> dict[str, object]:
        """The same for librdkafka."""
        settings: dict[str, object] = {
            "bootstrap.servers": self.servers,
            "client.id": CLIENT_ID,
            "security.protocol": self._protocol,
            "socket.timeout.ms": self.timeout_ms,
            "socket.connection.setup.timeout.ms": max(self.timeout_ms, 1000),
            "reconnect.backoff.max.ms": 1000,
            "retry.backoff.ms": 10,
        }
        files = {
            "ssl.ca.location": self.ca_file,
            "ssl.certificate.location": self.certificate_file,
            "ssl.key.location": self.key_file,
        }
        settings |= {name: file for name, file in files.items() if file is not None and self.tls}
        if self.user is not None and self.password is not None:
            settings["sasl.mechanism"] = self.mechanism
            settings["sasl.username"] = self.user
            settings["sasl.password"] = self.password.reveal()
        return settings

    @property
    def _protocol(self) -> str:
        transport = "SSL" if self.tls else "PLAINTEXT"
        return transport if self.user is None else f"SASL_{transport}"


def _keep_secrets_out_of_logs() -> None:
    # At the level DEBUG kafka-python writes the settings and every request, the one with the password too.
    client = logging.getLogger(_CLIENT_LOGS)
    of_client = [
        logger
        for name, logger in logging.root.manager.loggerDict.copy().items()
        if name.startswith(f"{_CLIENT_LOGS}.") and isinstance(logger, logging.Logger) and logger.level != logging.NOTSET
    ]
    for logger in (client, *of_client):
        if logger.level < logging.INFO:
            logger.setLevel(max(logger.getEffectiveLevel(), logging.INFO))


TRANSIENT = frozenset({"UNREACHABLE", "FAILED", "TRANSACTION_OPEN"})
"""Errors that another attempt may solve."""

# Error codes of the protocol (https://kafka.apache.org/protocol#protocol_error_codes), and those that librdkafka adds,
# which are negative.
_SUBCLASSES = {
    3: "TOPIC_NOT_FOUND",  # UNKNOWN_TOPIC_OR_PARTITION
    17: "TOPIC_NOT_FOUND",  # INVALID_TOPIC_EXCEPTION
    10: "MESSAGE_TOO_LARGE",  # MESSAGE_TOO_LARGE
    18: "MESSAGE_TOO_LARGE",  # RECORD_LIST_TOO_LARGE
    29: "DENIED",  # TOPIC_AUTHORIZATION_FAILED
    30: "DENIED",  # GROUP_AUTHORIZATION_FAILED
    31: "DENIED",  # CLUSTER_AUTHORIZATION_FAILED
    53: "DENIED",  # TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    33: "AUTHENTICATION",  # UNSUPPORTED_SASL_MECHANISM
    34: "AUTHENTICATION",  # ILLEGAL_SASL_STATE
    58: "AUTHENTICATION",  # SASL_AUTHENTICATION_FAILED
    35: "REFUSED",  # UNSUPPORTED_VERSION
    37: "REFUSED",  # INVALID_PARTITIONS
    38: "REFUSED",  # INVALID_REPLICATION_FACTOR
    40: "REFUSED",  # INVALID_CONFIG
    43: "REFUSED",  # UNSUPPORTED_FOR_MESSAGE_FORMAT
    44: "REFUSED",  # POLICY_VIOLATION
    50: "REFUSED",  # INVALID_TRANSACTION_TIMEOUT
    76: "REFUSED",  # UNSUPPORTED_COMPRESSION_TYPE
    87: "REFUSED",  # INVALID_RECORD
    -169: "AUTHENTICATION",  # _AUTHENTICATION
    -181: "TLS",  # _SSL
    -188: "TOPIC_NOT_FOUND",  # _UNKNOWN_TOPIC
    -190: "TOPIC_NOT_FOUND",  # _UNKNOWN_PARTITION
    -186: "REFUSED",  # _INVALID_ARG
    -187: "UNREACHABLE",  # _ALL_BROKERS_DOWN
    -193: "UNREACHABLE",  # _RESOLVE
    -195: "UNREACHABLE",  # _TRANSPORT
}
_HINTS = {
    "UNREACHABLE": "See that the broker runs, and that its advertised.listeners can be reached from here",
    "TLS": "Name the file of the certificate authority that signed the broker's certificate",
    "AUTHENTICATION": "See the user, the password and the mechanism",
    "DENIED": "Give the user the rights that docs/kafka-delivery.md lists",
    "TOPIC_NOT_FOUND": "Create it, or bring it back",
    "TRANSACTION_OPEN": "Look for it with kafka-transactions.sh find-hanging: see docs/kafka-delivery.md",
    "MESSAGE_TOO_LARGE": "Raise max.message.bytes of the topic (message.max.bytes of the broker), or put such values "
    "into files: [sink.oversized]",
}


def failure(code: int, reason: str, *, at: str | None = None) -> BrokerError:
    """The named error for an answer. *at*: topic or server, for the message."""
    return broker_error(_SUBCLASSES.get(code, "FAILED"), reason, at=at)


def broker_error(subclass: str, reason: str, *, at: str | None = None) -> BrokerError:
    """A `BrokerError` with the hint that belongs to it."""
    return BrokerError(subclass, reason, at=None if at is None else Place(at), hint=_HINTS.get(subclass))


def is_transient(error: BrokerError) -> bool:
    """True if another attempt may succeed without any action by a person."""
    return error.subclass in TRANSIENT
