"""Form of messages for Spark's Kafka sink: `MessageOptions`, named as in the job file of `publish`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from binlog_connector.envelope.options import (
    BinaryHandling,
    DecimalHandling,
    EnvelopeFormat,
    EnvelopeOptions,
    TimePrecision,
    UnsignedBigintHandling,
)
from binlog_connector.kafka.topic_names import NAME_EXPECTED, TopicTemplates, is_topic_name, template_mistake
from binlog_connector.options.option_values import choice, flag, folds_names, invalid
from binlog_format.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Mapping

KAFKA_VALUE = "kafkaValue"
_FORMATS = (EnvelopeFormat.DEBEZIUM, EnvelopeFormat.FLAT)
MESSAGE_OPTIONS = (
    "topicPrefix",
    "topic",
    "schemasEnable",
    "tombstones",
    "decimalHandling",
    "unsignedBigintHandling",
    "binaryHandling",
    "timePrecision",
)
"""Options that count beside `kafkaValue` alone."""
_NOT_BESIDE_MESSAGES = {"table": "Name it in option tables", "timeType": "Option timePrecision sets what TIME becomes"}
_PLACES = ("prefix", "database", "table")


@dataclass(frozen=True, slots=True)
class MessageOptions:
    """Form and destination of messages.

    Attributes:
        envelope: Keys and values.
        topics: Names of topics.
    """

    envelope: EnvelopeOptions
    topics: TopicTemplates

    @classmethod
    def parse(cls, given: Mapping[str, str], view: str) -> MessageOptions | None:
        """Read the options that are about messages; None: rows are no messages.

        Raises:
            OptionError: `INVALID_VALUE` or `MISSING`.
        """
        if KAFKA_VALUE not in given:
            hints = dict.fromkeys(MESSAGE_OPTIONS, "It is about messages: ask for them with kafkaValue")
            _refuse(given, hints, f"nothing without {KAFKA_VALUE}")
            return None
        format_ = EnvelopeFormat(choice(given, KAFKA_VALUE, _FORMATS, ""))
        if view != "changes":
            raise invalid(KAFKA_VALUE, given[KAFKA_VALUE], f"nothing beside view {view}", hint="Use view changes")
        _refuse(given, _NOT_BESIDE_MESSAGES, f"nothing beside {KAFKA_VALUE}")
        prefix = given.get("topicPrefix", "")
        if not prefix:
            raise OptionError(
                "MISSING", "option topicPrefix: messages name their source", hint="Name it, for example shop"
            )
        if not is_topic_name(prefix):
            raise invalid("topicPrefix", prefix, NAME_EXPECTED)
        topics = TopicTemplates(prefix, setting="topic")
        if "topic" in given:
            mistake = template_mistake(given["topic"], _PLACES)
            if mistake is not None:
                raise invalid("topic", given["topic"], mistake)
            topics = TopicTemplates(prefix, given["topic"], setting="topic")
        return cls(_envelope(given, prefix, format_), topics)


def _envelope(given: Mapping[str, str], prefix: str, format_: EnvelopeFormat) -> EnvelopeOptions:
    defaults = EnvelopeOptions(prefix)
    return EnvelopeOptions(
        prefix,
        format=format_,
        schemas=flag(given, "schemasEnable", default=defaults.schemas),
        tombstones=flag(given, "tombstones", default=defaults.tombstones),
        decimal_handling=DecimalHandling(
            choice(given, "decimalHandling", DecimalHandling, defaults.decimal_handling),
        ),
        unsigned_bigint_handling=UnsignedBigintHandling(
            choice(given, "unsignedBigintHandling", UnsignedBigintHandling, defaults.unsigned_bigint_handling),
        ),
        binary_handling=BinaryHandling(choice(given, "binaryHandling", BinaryHandling, defaults.binary_handling)),
        time_precision=TimePrecision(choice(given, "timePrecision", TimePrecision, defaults.time_precision)),
        schema_changes=flag(given, "includeDdl", default=False),
        query=flag(given, "includeQuery", default=False),
        folds_names=folds_names(given),
    )


def _refuse(given: Mapping[str, str], names: Mapping[str, str], expected: str) -> None:
    for name, hint in names.items():
        if name in given:
            raise invalid(name, given[name], expected, hint=hint)
