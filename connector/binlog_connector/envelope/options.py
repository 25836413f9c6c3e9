"""Form of messages: `EnvelopeOptions`, with Debezium's names and defaults where the meaning is the same."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from binlog_format.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Mapping


_NOT_IN_TOPICS = re.compile(r"[^A-Za-z0-9._-]")


class EnvelopeFormat(StrEnum):
    """Form of a change's value."""

    DEBEZIUM = "debezium"
    FLAT = "flat"
    CLOUDEVENTS = "cloudevents"
    """Debezium's, within an event of the CloudEvents specification."""
    CLOUDEVENTS_BINARY = "cloudevents-binary"
    """The same, with the attributes of the event as headers (the specification's binary mode)."""

    @property
    def is_event(self) -> bool:
        """True for CloudEvents."""
        return self in (EnvelopeFormat.CLOUDEVENTS, EnvelopeFormat.CLOUDEVENTS_BINARY)

    @property
    def may_be_avro(self) -> bool:
        """True if there are such messages in Avro; the data of CloudEvents is Avro then, too."""
        return self in (EnvelopeFormat.DEBEZIUM, EnvelopeFormat.CLOUDEVENTS)


class DecimalHandling(StrEnum):
    """Form of DECIMAL columns: bytes with a scale in the schema, floating point, or digits as text."""

    PRECISE = "precise"
    DOUBLE = "double"
    STRING = "string"


class UnsignedBigintHandling(StrEnum):
    """Form of BIGINT UNSIGNED columns: a number of 64 bits with a sign, or a decimal without fraction."""

    LONG = "long"
    PRECISE = "precise"


class BinaryHandling(StrEnum):
    """Form of binary columns; in JSON `bytes` are base64 too, but the schema states that they are bytes."""

    BYTES = "bytes"
    BASE64 = "base64"
    BASE64_URL_SAFE = "base64-url-safe"
    HEX = "hex"


class TimePrecision(StrEnum):
    """Form of DATE, TIME and DATETIME columns; TIMESTAMP is always text in UTC."""

    ADAPTIVE_TIME_MICROSECONDS = "adaptive_time_microseconds"
    CONNECT = "connect"
    MICROSECONDS = "microseconds"
    NANOSECONDS = "nanoseconds"
    ISOSTRING = "isostring"
    """Texts in UTC."""


class MessageOperation(StrEnum):
    """Debezium's letter for what happened to a row."""

    CREATE = "c"
    UPDATE = "u"
    DELETE = "d"
    TRUNCATE = "t"
    """All rows at once."""


FIRST_MESSAGES, CURRENT_MESSAGES = 1, 3
"""Versions of messages; each later one is nearer to Debezium's, and has other types and schemas than the one before."""


@dataclass(frozen=True, slots=True)
class EnvelopeOptions:
    """Form of messages.

    Attributes:
        topic_prefix: Name of the source, Debezium's `topic.prefix`; in `source.name`, names of schemas, heartbeats.
        format: What the value of a change is.
        schemas: Each key and value carries the schema that Kafka Connect's JSON converter reads.
        decimal_handling: See `DecimalHandling`; Debezium's `decimal.handling.mode`.
        unsigned_bigint_handling: See `UnsignedBigintHandling`; Debezium's `bigint.unsigned.handling.mode`.
        binary_handling: See `BinaryHandling`; Debezium's `binary.handling.mode`.
        time_precision: See `TimePrecision`; Debezium's `time.precision.mode`.
        tombstones: A delete is followed by a message with the same key and no value (where there is a key).
        skipped_operations: Changes that give no messages.
        transaction_metadata: Changes tell where in their transaction they are, and each transaction has a message for
            its begin and its end; Debezium's `provide.transaction.metadata`.
        schema_changes: Statements that change tables as a whole, TRUNCATE too, have messages; Debezium's
            `include.schema.changes`.
        query: Changes carry the text of their statement where the log has it; Debezium's `include.query`.
        folds_names: Names of tables in upper and lower case are the same: statements have those of the rows; None: that
            is not known.
        key_columns: Names of the columns that make the key, by `database.table`; default: the primary key.
        files_before: Added to the number of the file in total orders: they go on after those of the logs before.
        version: Of messages, which a consumer of a topic sees in `source.version`; from `FIRST_MESSAGES`
            to `CURRENT_MESSAGES`.
    """

    topic_prefix: str
    format: EnvelopeFormat = EnvelopeFormat.DEBEZIUM
    schemas: bool = False
    decimal_handling: DecimalHandling = DecimalHandling.PRECISE
    unsigned_bigint_handling: UnsignedBigintHandling = UnsignedBigintHandling.LONG
    binary_handling: BinaryHandling = BinaryHandling.BYTES
    time_precision: TimePrecision = TimePrecision.ADAPTIVE_TIME_MICROSECONDS
    tombstones: bool = True
    skipped_operations: frozenset[MessageOperation] = frozenset()
    transaction_metadata: bool = False
    schema_changes: bool = False
    query: bool = False
    folds_names: bool | None = None
    key_columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    files_before: int = 0
    version: int = CURRENT_MESSAGES

    def __post_init__(self) -> None:
        if not self.topic_prefix:
            raise OptionError("INVALID_VALUE", "option topic_prefix is empty", hint="Name the source, for example shop")

    @property
    def is_first_version(self) -> bool:
        """True for messages as earlier versions of this program made them."""
        return self.version == FIRST_MESSAGES

    @property
    def dates_of_keys_have_values(self) -> bool:
        """True where the schema of a key says so of dates that are NOT NULL, as Debezium's does; from version 3 on."""
        return self.version > 2

    def schema_name(self, table: str) -> str:
        """First part of the names of a table's schemas, whose full name is *table*."""
        name = f"{self.topic_prefix}.{table}"
        return name if self.is_first_version else _NOT_IN_TOPICS.sub("_", name)
