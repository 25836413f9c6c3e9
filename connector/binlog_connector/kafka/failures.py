"""Errors of brokers and clients, as named errors: `failure`, `is_transient`."""

from __future__ import annotations

from binlog_format.errors import BrokerError
from binlog_format.position import Place

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
    "MESSAGE_TOO_LARGE": "Raise max.message.bytes of the topic (message.max.bytes of the broker)",
}


def failure(code: int, reason: str, *, at: str | None = None) -> BrokerError:
    """The named error for an answer.

    Args:
        code: Number of the error.
        reason: What the client or the broker wrote.
        at: Topic or server, for the message.
    """
    return broker_error(_SUBCLASSES.get(code, "FAILED"), reason, at=at)


def broker_error(subclass: str, reason: str, *, at: str | None = None) -> BrokerError:
    """A `BrokerError` with the hint that belongs to it."""
    return BrokerError(subclass, reason, at=None if at is None else Place(at), hint=_HINTS.get(subclass))


def is_transient(error: BrokerError) -> bool:
    """True if another attempt may succeed without any action by a person."""
    return error.subclass in TRANSIENT
