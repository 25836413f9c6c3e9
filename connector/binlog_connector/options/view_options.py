"""Form of messages for Spark's Kafka sink: `MessageOptions`, named as in the job file of `publish`.

Options of view `logs`: `EventOptions`; and which options a structured log has at all: `check_log`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from binlog_connector.envelope.options import (
    CURRENT_MESSAGES,
    FIRST_MESSAGES,
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
from binlog_format.structured.event_filter import ALL_SOURCES, SourceRules

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from binlog_format.log.log import Log


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
    "messageVersion",
)
"""Options that count beside `kafkaValue` alone."""
_NOT_BESIDE_MESSAGES = {"table": "Name it in option tables", "timeType": "Option timePrecision sets what TIME becomes"}
_VERSIONS = tuple(str(version) for version in range(FIRST_MESSAGES, CURRENT_MESSAGES + 1))
_PLACES = ("prefix", "database", "table")


@dataclass(frozen=True, slots=True)
class MessageOptions:
    """Form and destination of messages."""

    envelope: EnvelopeOptions
    topics: TopicTemplates

    @classmethod
    def parse(cls, given: Mapping[str, str], view: str) -> MessageOptions | None:
        """Read the options that are about messages; None: rows are no messages."""
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
        decimal_handling=DecimalHandling(choice(given, "decimalHandling", DecimalHandling, defaults.decimal_handling)),
        unsigned_bigint_handling=UnsignedBigintHandling(
            choice(given, "unsignedBigintHandling", UnsignedBigintHandling, defaults.unsigned_bigint_handling)
        ),
        binary_handling=BinaryHandling(choice(given, "binaryHandling", BinaryHandling, defaults.binary_handling)),
        time_precision=TimePrecision(choice(given, "timePrecision", TimePrecision, defaults.time_precision)),
        schema_changes=flag(given, "includeDdl", default=False),
        query=flag(given, "includeQuery", default=False),
        folds_names=folds_names(given),
        version=int(choice(given, "messageVersion", _VERSIONS, str(defaults.version))),
    )


def _refuse(given: Mapping[str, str], names: Mapping[str, str], expected: str) -> None:
    for name, hint in names.items():
        if name in given:
            raise invalid(name, given[name], expected, hint=hint)


RULE_OPTIONS = {
    "min_severity": "minSeverity",
    "categories": "categories",
    "source_files": "sourceFiles",
    "formats": "formats",
}
"""Fields of `SourceRules`, and the options that they come from."""
EVENT_OPTIONS = ("source", *RULE_OPTIONS.values(), "sortWindow", "skipDamaged")
"""Options of view `logs` alone."""

_DATABASE_OPTIONS = (
    "table",
    "tables",
    "excludeTables",
    "countOtherTables",
    "tellProblems",
    "definedTables",
    "startingGtid",
    "endingGtid",
    "bound",
    "failOnStatement",
    "ignoreDomainIds",
    "ignoreServerIds",
    "schemaFile",
    "keptDefinitions",
    "declaredTypes",
    "rules",
    "includeDdl",
    "includeQuery",
    "timeType",
    "zeroDates",
    "replaceInvalidText",
    "fullSourceImages",
    "systemTimeZone",
    "kafkaValue",
)
"""Options that mean nothing in a structured log; of others that come with these, `SourceOptions.parse` tells."""

_WINDOW = re.compile(r"(\d+)\s*(us|ms|s|m|h)")
_WINDOW_NS = {"us": 1_000, "ms": 1_000_000, "s": 1_000_000_000, "m": 60_000_000_000, "h": 3_600_000_000_000}


@dataclass(frozen=True, slots=True)
class EventOptions:
    """Options of a query on the events of a structured log.

    Attributes:
        source: The sources whose arguments become columns: an id, `file:line`, or a format string; None: of none.
        sort_window_ns: Rows come in the order of time as far as they are so far from it, in nanoseconds; None: in the
            order of the log.
        skip_damaged: Whether what cannot be read is left out, with a warning; else it ends the query.
    """

    source: str | None = None
    rules: SourceRules = ALL_SOURCES
    sort_window_ns: int | None = None
    skip_damaged: bool = False

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> EventOptions:
        """Read the options that are about events."""
        rules = SourceRules(**{field: given[name] for field, name in RULE_OPTIONS.items() if name in given})
        rules.check(RULE_OPTIONS.__getitem__)
        if given.get("source") == "":
            raise invalid("source", "", "an id, file:line, or a format string")
        skip_damaged = flag(given, "skipDamaged", default=False)
        window = duration_ns("sortWindow", given["sortWindow"]) if "sortWindow" in given else None
        return cls(given.get("source"), rules, window, skip_damaged)


ALL_EVENTS = EventOptions()


def check_log(log: Log, given: Iterable[str], view: str) -> None:
    """See that a log can have the options that are given."""
    if view not in log.traits.views:
        hint = "A structured log has view logs alone, and other logs have all views but that one"
        raise _refused("view", f"{view} is no view of {log.path}, a {log.format_name} log", hint)
    has_changes = log.traits.has_changes
    others = [name for name in (EVENT_OPTIONS if has_changes else _DATABASE_OPTIONS) if name in given]
    if others:
        hint = "It is for structured logs" if has_changes else f"Events are chosen by {', '.join(EVENT_OPTIONS)}"
        raise _refused(others[0], f"it has no effect on {log.path}, a {log.format_name} log", hint)


def _refused(name: str, reason: str, hint: str) -> OptionError:
    return OptionError("INVALID_VALUE", f"option {name}: {reason}", hint=hint)


def duration_ns(name: str, text: str) -> int:
    """Nanoseconds of a duration that is the value of an option."""
    match = _WINDOW.fullmatch(text.strip())
    if match is None or int(match[1]) == 0:
        raise invalid(name, text, "a duration, for example 500ms, 10s or 5m")
    return int(match[1]) * _WINDOW_NS[match[2]]
