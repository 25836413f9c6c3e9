"""Options of view `logs`: `EventOptions`; and which options a structured log has at all: `check_log`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from binlog_connector.options.option_values import invalid
from binlog_format.errors import OptionError
from binlog_format.structured.views.event_filter import ALL_SOURCES, SourceRules

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from binlog_format.log.log import Log

RULE_OPTIONS = {
    "min_severity": "minSeverity",
    "categories": "categories",
    "source_files": "sourceFiles",
    "formats": "formats",
}
"""Fields of `SourceRules`, and the options that they come from."""
EVENT_OPTIONS = ("source", *RULE_OPTIONS.values(), "sortWindow")
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
        rules: Which sources.
        sort_window_ns: Rows come in the order of time as far as they are so far from it, in nanoseconds; None: in the
            order of the log.
    """

    source: str | None = None
    rules: SourceRules = ALL_SOURCES
    sort_window_ns: int | None = None

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> EventOptions:
        """Read the options that are about events.

        Raises:
            OptionError: `INVALID_VALUE`.
        """
        rules = SourceRules(**{field: given[name] for field, name in RULE_OPTIONS.items() if name in given})
        rules.check(RULE_OPTIONS.__getitem__)
        if given.get("source") == "":
            raise invalid("source", "", "an id, file:line, or a format string")
        return cls(given.get("source"), rules, _window(given.get("sortWindow")))


ALL_EVENTS = EventOptions()


def check_log(log: Log, given: Iterable[str], view: str) -> None:
    """See that a log can have the options that are given.

    Args:
        log: The log.
        given: Names of the options that are given.
        view: The view that is asked for.

    Raises:
        OptionError: `INVALID_VALUE`.
    """
    if view not in log.traits.views:
        hint = "A structured log has view logs alone, and other logs have all views but that one"
        raise _refused("view", f"{view} is no view of {log.path}, a {log.format_name} log", hint)
    has_changes = log.traits.has_changes
    others = [name for name in (EVENT_OPTIONS if has_changes else _DATABASE_OPTIONS) if name in given]
    if others:
        hint = "It is for structured logs" if has_changes else f"Events are chosen by {', '.join(EVENT_OPTIONS)}"
        raise _refused(others[0], f"it means nothing to {log.path}, a {log.format_name} log", hint)


def _refused(name: str, reason: str, hint: str) -> OptionError:
    return OptionError("INVALID_VALUE", f"option {name}: {reason}", hint=hint)


def _window(text: str | None) -> int | None:
    if text is None:
        return None
    match = _WINDOW.fullmatch(text.strip())
    if match is None or int(match[1]) == 0:
        raise invalid("sortWindow", text, "a duration, for example 500ms, 10s or 5m")
    return int(match[1]) * _WINDOW_NS[match[2]]
